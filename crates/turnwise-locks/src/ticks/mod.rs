//! Jobs that run once per tick, however many try: [`OncePerTick`].
//!
//! A [`Schedule`] cuts time into ticks. Of all that try in a tick, one runs; a quick run and a
//! contender that comes late in that tick do not run it twice.

// Per job, the *book* keeps the last tick that was taken, and how many runs of it are under way.
// That outlives the run and the tick.
//
// | the contender's tick `n`            | answer                                  |
// |-------------------------------------|-----------------------------------------|
// | `n` is the last one taken, or older | `Taken`                                 |
// | newer, a run is under way           | `StillRunning`, unless overlap is allowed |
// | newer                               | its: written down, then run             |
//
// - TICKS-1: a tick is written down before its run begins, and under the lock: of all contenders,
//   one.
// - TICKS-2: no code of the user's runs under the lock.
// - TICKS-3: of a job whose last tick is over and which neither runs nor is attended, nothing has
//   to be known: any later tick is free. The book forgets such jobs when it has doubled, and keeps
//   `floor`, the highest tick that it has forgotten: at or below that, a job that it does not know
//   may have run. That concerns clocks alone that were set back: an attended job, which may make up
//   for earlier ticks, is known; and a call for the nearest tick may be one ahead of others, so the
//   tick before its own is not over.

mod attend;
mod schedule;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use turnwise::Executor;
use turnwise::time::Timers;

pub use attend::Attendance;
pub use schedule::Schedule;

use crate::sync::Mutex;
use crate::user_code::owning;

/// Runs a job once per tick among all who try, in this process: for what several parts of a program
/// would do on a schedule, and one is to do.
///
/// The tick is numbered by the wall clock. Who comes first in a tick runs the job; for all others,
/// late ones too, the tick is taken. Clones share the book, those with
/// [another rule](Self::nearest) too.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_locks::ticks::{NotMine, OncePerTick, Schedule};
///
/// let daily = OncePerTick::new(Schedule::every(Duration::from_secs(24 * 3600)));
/// let first = daily.try_run("clean up", |tick| tick);
/// let second = daily.try_run("clean up", |tick| tick);
/// assert!(first.is_ok());
/// assert!(matches!(second, Err(NotMine::Taken { .. }))); // unless it is midnight
/// ```
#[derive(Clone)]
pub struct OncePerTick {
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    schedule: Schedule,
    wall: Arc<dyn Fn() -> Duration + Send + Sync>,
    overlap: bool,
    nearest: bool,
    /// The most missed ticks that an attendance makes up for.
    catch_up: u32,
    timers: Option<Timers>,
    executor: Option<Arc<dyn Executor>>,
    book: Arc<Mutex<Book>>,
}

/// The jobs and their last ticks.
struct Book {
    /// A name that is held elsewhere, too, is that of a job that runs or is attended.
    jobs: HashMap<Arc<str>, JobRecord>,
    /// The highest tick that was forgotten (TICKS-3).
    floor: Option<u64>,
    /// At this number it is looked through for jobs that can be forgotten.
    sweep_at: usize,
}

struct JobRecord {
    /// The last tick that was taken.
    last: Option<u64>,
    /// Runs under way.
    running: usize,
}

/// Fewer jobs than these are not worth a look.
const SWEEP_FROM: usize = 64;

/// The error of a job that was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotMine {
    /// Somebody has had this tick, or a later one.
    Taken {
        /// The tick that is over for this job.
        tick: u64,
        /// The time until the next tick begins. A [nearest](OncePerTick::nearest) one may be had
        /// half a step before.
        next: Duration,
    },
    /// A run of an earlier tick is under way. The tick of the call is not taken by that: another
    /// attempt in it may have it.
    StillRunning {
        /// The tick that is under way.
        tick: u64,
        /// The time until the next tick begins.
        next: Duration,
    },
}

impl fmt::Display for NotMine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotMine::Taken { tick, next } => {
                write!(f, "tick {tick} was taken; the next is in {next:?}")
            }
            NotMine::StillRunning { tick, .. } => write!(f, "the run of tick {tick} has not ended"),
        }
    }
}

impl Error for NotMine {}

/// The error of a tick that is not taken.
enum Other {
    /// It is another's, or a later one is.
    Taken,
    /// The run of this one is under way.
    Runs(u64),
}

impl OncePerTick {
    /// Jobs on this schedule.
    pub fn new(schedule: Schedule) -> OncePerTick {
        let book = Book { jobs: HashMap::new(), floor: None, sweep_at: SWEEP_FROM };
        let shared = Shared {
            schedule,
            wall: Arc::new(since_the_epoch),
            overlap: false,
            nearest: false,
            catch_up: 0,
            timers: None,
            executor: None,
            book: Arc::new(Mutex::new(book)),
        };
        OncePerTick { shared: Arc::new(shared) }
    }

    /// A [`try_run`](Self::try_run) belongs to the tick that begins nearest to it, and not to the
    /// one that has begun: for calls at the beginning of a tick that may be a little early, as
    /// those of cron. [Attended](Self::attend) jobs run at the beginning of their ticks in any
    /// case.
    #[must_use]
    pub fn nearest(self) -> Self {
        self.with(|shared| shared.nearest = true)
    }

    /// A run that lasts beyond its tick does not keep others from running the next one.
    #[must_use]
    pub fn allow_overlap(self) -> Self {
        self.with(|shared| shared.overlap = true)
    }

    /// [Attended](Self::attend) jobs make up for ticks that were not run in time: the latest of
    /// them, this many at most, run in their order before the present one. Without this, they are
    /// skipped.
    #[must_use]
    pub fn catch_up(self, most: u32) -> Self {
        self.with(|shared| shared.catch_up = most)
    }

    /// Sets the wall clock: the time since the Unix epoch. Without this, the machine's.
    ///
    /// One that is set back repeats no tick.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Clock, VirtualClock};
    /// use turnwise_locks::ticks::{OncePerTick, Schedule};
    ///
    /// let clock = VirtualClock::new();
    /// let wall = clock.clone();
    /// let schedule = Schedule::every(Duration::from_secs(60));
    /// let jobs = OncePerTick::new(schedule).wall(move || wall.now());
    /// assert_eq!(jobs.try_run("report", |tick| tick), Ok(0));
    /// assert!(jobs.try_run("report", |tick| tick).is_err());
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(jobs.try_run("report", |tick| tick), Ok(1));
    /// ```
    #[must_use]
    pub fn wall(self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.wall = Arc::new(clock))
    }

    /// The timers that [attend](Self::attend); without this, [the process's](Timers::global).
    #[must_use]
    pub fn timers(self, timers: Timers) -> Self {
        self.with(|shared| shared.timers = Some(timers))
    }

    /// Sets the executor of jobs that are [attended](Self::attend). Without this, it is
    /// [`ThreadPool::global`](turnwise::ThreadPool::global).
    #[must_use]
    pub fn executor(self, executor: impl Executor + 'static) -> Self {
        self.with(|shared| shared.executor = Some(Arc::new(executor)))
    }

    fn with(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        change(Arc::make_mut(&mut self.shared));
        self
    }

    /// Runs the job on this thread, if it did not run in this tick. Never waits.
    ///
    /// The tick is used by that, also if the job panics: the panic goes to the caller, and the next
    /// run is one of the next tick. Takes a mutex for some instructions, before the job and after
    /// it.
    ///
    /// # Errors
    /// See [`NotMine`]: the job was not run.
    ///
    /// # Panics
    /// With the job's own panic, or that of the wall clock or the schedule; with one of those, no
    /// tick is used.
    pub fn try_run<R>(&self, job: &str, f: impl FnOnce(u64) -> R) -> Result<R, NotMine> {
        let (f, began) = owning(f, |_| self.shared.begin(job));
        let (_running, tick) = began?;
        Ok(f(tick))
    }

    /// [`try_run`](Self::try_run) for a job that awaits. Dropped while the job runs, it ends the
    /// run; the tick stays used. Nothing is done before the first poll.
    ///
    /// # Errors
    /// See [`NotMine`]: the job was not run.
    ///
    /// # Panics
    /// As [`try_run`](Self::try_run).
    pub async fn try_run_async<R>(
        &self,
        job: &str,
        f: impl AsyncFnOnce(u64) -> R,
    ) -> Result<R, NotMine> {
        let (f, began) = owning(f, |_| self.shared.begin(job));
        let (_running, tick) = began?;
        Ok(f(tick).await)
    }

    /// Has a timer try the job in each tick, beginning with the next one, until what comes back is
    /// dropped.
    ///
    /// The job runs on the [executor](Self::executor), and overlaps neither itself nor the other
    /// runs of the same job, unless those may overlap. A panic is caught and
    /// [counted](Attendance::panics); its tick is used. A run that lasts beyond the next tick
    /// misses that: see [`catch_up`](Self::catch_up).
    ///
    /// # Panics
    /// With the panic of the wall clock or the schedule, in the call. In later looks that is
    /// caught, as one of the timers' clock is, and the next look comes after a minute at the
    /// latest.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::time::Timers;
    /// use turnwise::{Clock, VirtualClock};
    /// use turnwise_locks::ticks::{OncePerTick, Schedule};
    ///
    /// let (clock, queue) = (VirtualClock::new(), DrainQueue::new());
    /// let (wall, timers) = (clock.clone(), Timers::by_hand(clock.clone()));
    /// let jobs = OncePerTick::new(Schedule::every(Duration::from_secs(60)))
    ///     .wall(move || wall.now())
    ///     .timers(timers.clone())
    ///     .executor(queue.handle());
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let attendance = jobs.attend("report", move |tick| tx.send(tick).unwrap());
    /// clock.advance(Duration::from_secs(60));
    /// timers.run_due();
    /// queue.run_until_idle();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// drop(attendance);
    /// assert!(timers.is_empty());
    /// ```
    pub fn attend(&self, job: &str, f: impl FnMut(u64) + Send + 'static) -> Attendance {
        attend::attend(&self.shared, job, f)
    }

    /// The number of known jobs: those of this tick and the one before, those that run or are
    /// attended, and others that are not forgotten yet, which is done when their number has
    /// doubled.
    pub fn known(&self) -> usize {
        self.shared.book.lock().jobs.len()
    }
}

impl Shared {
    /// The present tick. Runs user code.
    fn tick(&self) -> u64 {
        self.schedule.tick_at((self.wall)())
    }

    /// The tick that a call belongs to, and the time until the next one begins. Runs user code.
    fn tick_of_call(&self) -> (u64, Duration) {
        let now = (self.wall)();
        let (number, next) = match self.nearest {
            true => self.schedule.look_nearest(now),
            false => self.schedule.look(now),
        };
        (number, next.saturating_sub(now))
    }

    /// Takes the tick of a call.
    fn begin(&self, job: &str) -> Result<(Running, u64), NotMine> {
        let (tick, next) = self.tick_of_call();
        let running = self.take(job, tick).map_err(|other| match other {
            Other::Taken => NotMine::Taken { tick, next },
            Other::Runs(tick) => NotMine::StillRunning { tick, next },
        })?;
        Ok((running, tick))
    }

    /// Takes this tick of the job, if it can be had (TICKS-1).
    fn take(&self, job: &str, number: u64) -> Result<Running, Other> {
        let mut book = self.book.lock();
        match book.jobs.get(job) {
            Some(known) if Some(number) <= known.last => return Err(Other::Taken),
            Some(&JobRecord { last: Some(last), running }) if running > 0 && !self.overlap => {
                return Err(Other::Runs(last));
            }
            None if Some(number) <= book.floor => return Err(Other::Taken),
            _ => {}
        }
        let job = book.name(job, number);
        if let Some(known) = book.jobs.get_mut(&job) {
            known.last = Some(number);
            known.running += 1;
        }
        Ok(Running { book: self.book.clone(), job })
    }
}

impl Book {
    /// The name of a job, which is known from now on, and as long as this is held.
    fn name(&mut self, job: &str, now: u64) -> Arc<str> {
        if let Some((name, _)) = self.jobs.get_key_value(job) {
            return name.clone();
        }
        let name: Arc<str> = Arc::from(job);
        self.jobs.insert(name.clone(), JobRecord { last: self.floor, running: 0 });
        if self.jobs.len() >= self.sweep_at {
            self.sweep(now);
        }
        name
    }

    /// Forgets the jobs whose last tick is over, and that are not used (TICKS-3).
    fn sweep(&mut self, now: u64) {
        let (floor, over) = (&mut self.floor, now.saturating_sub(1));
        self.jobs.retain(|name, job| {
            let keep = job.last >= Some(over) || Arc::strong_count(name) > 1;
            if !keep {
                *floor = job.last.max(*floor);
            }
            keep
        });
        self.sweep_at = SWEEP_FROM.max(2 * self.jobs.len());
    }
}

/// A run under way: over when this is dropped, however the job ends.
struct Running {
    book: Arc<Mutex<Book>>,
    job: Arc<str>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(job) = self.book.lock().jobs.get_mut(&self.job) {
            job.running -= 1;
        }
    }
}

/// The machine's wall clock. Before the epoch, it shows the epoch.
fn since_the_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl fmt::Debug for OncePerTick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OncePerTick")
            .field("schedule", &self.shared.schedule)
            .finish_non_exhaustive()
    }
}
