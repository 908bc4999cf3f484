//! The threads, the jobs, and their end.
//!
//! All jobs request their boxes in the order of the file, before anything runs. So they are served
//! in that order. Threads wait for the boxes, run the jobs, and finish them. A process is reaped
//! and killed under the lock of its seat. So no unrelated process is killed.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use turnwise_locks::slots::{AcquireSlot, SlotError};
use turnwise_locks::{Limits, LockError, Slot, SlotId, SlotPool};

use crate::Problem;
use crate::job::Job;
use crate::place::Place;
use crate::report::{Outcome, Report};
use crate::show::Show;

type Pool = SlotPool<PathBuf, io::Error>;
type Asked = AcquireSlot<PathBuf, io::Error>;

/// The maximum number of threads that wait for jobs: a further box would not be used.
const MOST: usize = 1_000;

/// The process in a box.
#[derive(Default)]
struct Seat {
    /// Holds up to this one have ended: they start nothing any more.
    ended: u64,
    group: Option<Pid>,
}

/// The processes of all boxes.
struct Seats {
    seats: Vec<Mutex<Seat>>,
    stopping: AtomicBool,
}

impl Seats {
    fn seat(&self, slot: SlotId) -> MutexGuard<'_, Seat> {
        self.seats[slot.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a hold, and all processes that it has started.
    fn end(&self, slot: SlotId, fence: u64) {
        let mut seat = self.seat(slot);
        seat.ended = seat.ended.max(fence);
        seat.kill();
    }

    /// Ends all processes, and prevents later ones.
    fn stop(&self) {
        // Ordering: SeqCst, before each seat is read; `start` reads it under the lock of its seat.
        self.stopping.store(true, Ordering::SeqCst);
        for seat in &self.seats {
            seat.lock().unwrap_or_else(PoisonError::into_inner).kill();
        }
    }

    /// Starts a process. Returns none if it is too late.
    fn start(
        &self,
        slot: &Slot<PathBuf, io::Error>,
        mut job: Command,
    ) -> io::Result<Option<Child>> {
        let mut seat = self.seat(slot.id());
        // Ordering: SeqCst, see `stop`.
        if seat.ended >= slot.fence().number() || self.stopping.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let child = job.spawn()?;
        seat.group = Some(group(&child));
        Ok(Some(child))
    }

    /// Waits for a process, kills the processes that it has left behind, and reaps it.
    fn wait(&self, slot: SlotId, mut child: Child) -> io::Result<ExitStatus> {
        let exited = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        while let Err(error) = waitid(Id::Pid(group(&child)), exited) {
            if error != Errno::EINTR {
                return Err(error.into());
            }
        }
        let mut seat = self.seat(slot);
        // Its number is not reused until it is reaped, nor is that of its group. The seat may
        // belong to another process by now.
        let _ = killpg(group(&child), Signal::SIGKILL);
        if seat.group == Some(group(&child)) {
            seat.group = None;
        }
        child.wait()
    }
}

impl Seat {
    fn kill(&mut self) {
        if let Some(group) = self.group {
            // A process that is gone has ended.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Returns the group of a process, which is the first of its group.
fn group(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}

pub(crate) fn run(
    jobs: Vec<Job>,
    place: &Place,
    boxes: usize,
    lease: Duration,
    show: Show,
) -> Result<Report, Problem> {
    if boxes > MOST {
        return Err(format!("there are {MOST} boxes at most"));
    }
    let seats = (0..boxes).map(|_| Mutex::default()).collect();
    let seats = Arc::new(Seats { seats, stopping: AtomicBool::new(false) });
    let (made, cleaned, kills) = (place.boxes(), place.boxes(), seats.clone());
    let shared = Arc::new(AtomicUsize::new(0));
    let (twice, show) = (shared.clone(), Arc::new(show));
    let tells = show.clone();
    // Closed when no box is left, so that no job waits for one. It refers to itself until the end.
    let itself = Arc::new(Mutex::new(None::<Pool>));
    let (last, lost) = (itself.clone(), AtomicUsize::new(0));
    let pool: Pool = SlotPool::builder(boxes)
        .set_up(move |slot| {
            let folder = made.set_up(slot);
            // Another job has it, or has left it dirty.
            if folder.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
                twice.fetch_add(1, Ordering::Relaxed);
            }
            folder
        })
        .clean_up(move |slot, _| cleaned.clean_up(slot))
        .clean_first()
        .lease(lease)
        .reclaim(move |slot, fence| kills.end(slot, fence.number()))
        .on_quarantine(move |slot, error| {
            tells.say(&format!("box {slot} stays dirty: {error}"));
            if lost.fetch_add(1, Ordering::Relaxed) + 1 == boxes {
                let pool = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                pool.inspect(SlotPool::close);
            }
        })
        .build()
        .map_err(|error| format!("--boxes {boxes}: {error}"))?;

    *itself.lock().unwrap_or_else(PoisonError::into_inner) = Some(pool.clone());
    let (closes, ends, tells) = (pool.clone(), seats.clone(), show.clone());
    let caught = ctrlc::set_handler(move || {
        tells.say("interrupted: ending the jobs");
        closes.close();
        ends.stop();
    });
    caught.map_err(|error| format!("Ctrl-C cannot be caught: {error}"))?;

    let begun = Instant::now();
    let total = jobs.len();
    let mut report = Report::new(total, boxes);
    let asked: Vec<(Job, Asked)> =
        jobs.into_iter().map(|job| (job, pool.acquire(Limits::NONE))).collect();
    let (queue, outcomes) = (Mutex::new(asked.into_iter()), Mutex::new(&mut report));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((job, asked)) = next() {
            let outcome = one(&job, asked, &seats, place, &show);
            let mut report = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            report.count(&outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..boxes.min(total) {
            // With fewer threads it takes longer.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    // Reclaimed boxes are cleaned up on other threads.
    while pool.view().in_use > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    show.finish();
    drop(itself.lock().unwrap_or_else(PoisonError::into_inner).take());
    report.seconds = begun.elapsed().as_secs_f64();
    report.shared = shared.load(Ordering::Relaxed);
    report.quarantined = pool.view().quarantined;
    report.dirty = place.dirty().map_err(|error| format!("the boxes: {error}"))?;
    report.interrupted = seats.stopping.load(Ordering::SeqCst);
    Ok(report)
}

/// Waits for the box of a job, and runs it there.
fn one(job: &Job, asked: Asked, seats: &Seats, place: &Place, show: &Show) -> Outcome {
    let slot = match asked.wait() {
        Ok(slot) => slot,
        Err(SlotError::NotAcquired(LockError::Closed)) => return Outcome::NotStarted,
        Err(error) => {
            let outcome = Outcome::Failed(format!("no box: {error}"));
            show.ended(job, None, &outcome, Duration::ZERO);
            return outcome;
        }
    };
    let (id, begun) = (slot.id(), Instant::now());
    show.begins(job, id);
    let outcome = inside(job, slot, seats, place);
    show.ended(job, Some(id), &outcome, begun.elapsed());
    outcome
}

fn inside(job: &Job, slot: Slot<PathBuf, io::Error>, seats: &Seats, place: &Place) -> Outcome {
    let ran = (|| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&job.command).current_dir(&*slot).process_group(0);
        command.stdin(Stdio::null());
        match place.log(job.line)? {
            Some(log) => command.stdout(log.try_clone()?).stderr(log),
            None => command.stdout(Stdio::null()).stderr(Stdio::null()),
        };
        let child = seats.start(&slot, command)?;
        child.map(|child| seats.wait(slot.id(), child)).transpose()
    })();
    // Ordering: SeqCst, see `Seats::stop`.
    let stopped = seats.stopping.load(Ordering::SeqCst);
    match (slot.finish(), ran) {
        // Whatever its status is, it has taken too long.
        (Err(SlotError::Lost), _) => Outcome::Killed,
        (Err(SlotError::CleanUpPanicked(text)), _) => Outcome::Failed(text),
        (_, Ok(None)) => Outcome::NotStarted,
        (_, Ok(Some(status))) if status.success() => Outcome::Done,
        (_, Ok(Some(status))) if stopped && status.signal() == Some(9) => Outcome::Killed,
        (_, Ok(Some(status))) => Outcome::Failed(status.to_string()),
        (_, Err(error)) => Outcome::Failed(format!("it cannot be run: {error}")),
    }
}
