//! A job that runs once per tick, whatever the number of callers.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::hint;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{Clock, VirtualClock};
use turnwise_locks::ticks::{Attendance, NotMine, OncePerTick, Schedule};

use crate::common::must_end;

const STEP: Duration = Duration::from_secs(60);

fn schedule() -> Schedule {
    Schedule::every(STEP)
}

/// Jobs by a clock of the test's.
fn by_hand(overlap: bool) -> (OncePerTick, VirtualClock) {
    let clock = VirtualClock::new();
    let wall = clock.clone();
    let jobs = OncePerTick::new(schedule()).wall(move || wall.now());
    let jobs = if overlap { jobs.allow_overlap() } else { jobs };
    (jobs, clock)
}

#[test]
fn twelve_contenders_a_thousand_ticks() {
    must_end(|| {
        let now = Arc::new(AtomicU64::new(0));
        let wall = now.clone();
        let jobs =
            OncePerTick::new(schedule()).wall(move || Duration::from_millis(wall.load(SeqCst)));
        let runs = Mutex::new(BTreeMap::<u64, u32>::new());
        // All of them try in each tick, some of them late; what is quick is over by then.
        let begins = Barrier::new(12);
        thread::scope(|s| {
            for contender in 0..12_u64 {
                let (jobs, runs, begins, now) = (jobs.clone(), &runs, &begins, &now);
                s.spawn(move || {
                    for tick in 0..1_000 {
                        if begins.wait().is_leader() {
                            now.store(60_000 * tick, SeqCst);
                        }
                        begins.wait();
                        // Jitter: the clock goes on within the tick. No processor is given away:
                        // on a loaded machine each time of that may take as long as a tick should.
                        let jitter = (contender * 7_919 + tick * 104_729) % 50;
                        (0..16 * jitter).for_each(|_| hint::spin_loop());
                        now.fetch_add(jitter, SeqCst);
                        let ran = jobs.try_run("job", |tick| {
                            *runs.lock().unwrap().entry(tick).or_default() += 1;
                        });
                        match ran {
                            Ok(()) => {}
                            Err(NotMine::Taken { tick: at, .. }) => {
                                assert_eq!(at, tick)
                            }
                            Err(NotMine::StillRunning { .. }) => panic!("of which tick?"),
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
        });
        let runs = runs.into_inner().unwrap();
        assert!(runs.into_iter().eq((0..1_000).map(|tick| (tick, 1))));
    });
}

/// The outcome of an attempt in a tick that is over for the job.
fn taken<R>(tick: u64, next: Duration) -> Result<R, NotMine> {
    Err(NotMine::Taken { tick, next })
}

#[test]
fn a_late_contender_does_not_run_a_quick_job_again() {
    let (jobs, clock) = by_hand(false);
    assert_eq!(jobs.try_run("job", |tick| tick), Ok(0));
    clock.advance(STEP - Duration::from_nanos(1));
    assert_eq!(jobs.try_run("job", |_| ()), taken(0, Duration::from_nanos(1)));
    assert_eq!(jobs.try_run("other", |tick| tick), Ok(0));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(jobs.clone().try_run("job", |tick| tick), Ok(1));
}

#[test]
fn a_long_run_is_not_overlapped() {
    let (jobs, clock) = by_hand(false);
    jobs.try_run("job", |_| {
        assert_eq!(jobs.try_run("job", |_| ()), taken(0, STEP));
        clock.advance(2 * STEP);
        clock.advance(STEP / 4);
        let still = NotMine::StillRunning { tick: 0, next: STEP * 3 / 4 };
        assert_eq!(jobs.try_run("job", |_| ()), Err(still));
    })
    .unwrap();
    // The tick in which it ended is free.
    assert_eq!(jobs.try_run("job", |tick| tick), Ok(2));
}

/// The tick is used, and the run ends with its future.
#[test]
fn an_awaited_run_lasts_until_its_end_or_its_drop() {
    let (jobs, clock) = by_hand(false);
    let mut cx = Context::from_waker(Waker::noop());
    let mut run = Box::pin(jobs.try_run_async("job", async |_| pending::<()>().await));
    drop(jobs.try_run_async("job", async |_| ()));
    assert_eq!(run.as_mut().poll(&mut cx), Poll::Pending);
    assert_eq!(jobs.try_run("job", |_| ()), taken(0, STEP));
    clock.advance(STEP);
    let still = NotMine::StillRunning { tick: 0, next: STEP };
    let mut late = pin!(jobs.try_run_async("job", async |_| ()));
    assert_eq!(late.as_mut().poll(&mut cx), Poll::Ready(Err(still)));
    drop(run);
    let mut next = pin!(jobs.try_run_async("job", async |tick| tick));
    assert_eq!(next.as_mut().poll(&mut cx), Poll::Ready(Ok(1)));
}

#[test]
fn an_overlap_can_be_allowed() {
    let (jobs, clock) = by_hand(true);
    let inner = jobs.try_run("job", |_| {
        clock.advance(STEP);
        let inner = jobs.try_run("job", |tick| tick);
        assert_eq!(jobs.try_run("job", |_| ()), taken(1, STEP));
        inner
    });
    assert_eq!(inner, Ok(Ok(1)));
}

#[test]
fn a_panic_uses_the_tick_and_no_more() {
    let (jobs, clock) = by_hand(false);
    let run = || jobs.try_run("job", |_| panic!("planned"));
    assert!(panic::catch_unwind(AssertUnwindSafe(run)).is_err());
    assert_eq!(jobs.try_run("job", |_| ()), taken(0, STEP));
    clock.advance(STEP);
    assert_eq!(jobs.try_run("job", |tick| tick), Ok(1));
}

#[test]
fn jobs_that_are_over_are_forgotten() {
    let (jobs, clock) = by_hand(false);
    for tick in 0..100 {
        for job in 0..100 {
            jobs.try_run(&format!("{tick} {job}"), |_| ()).unwrap();
        }
        clock.advance(STEP);
    }
    assert!(jobs.known() <= 300, "{}", jobs.known());
}

#[test]
fn a_job_that_runs_is_not_forgotten() {
    let (jobs, clock) = by_hand(false);
    jobs.try_run("job", |_| {
        clock.advance(STEP);
        (0..1_000).for_each(|job| jobs.try_run(&format!("{job}"), |_| ()).unwrap());
        let still = NotMine::StillRunning { tick: 0, next: STEP };
        assert_eq!(jobs.try_run("job", |_| ()), Err(still));
    })
    .unwrap();
}

/// A wall clock that is set back repeats nothing, forgotten or not.
#[test]
fn a_clock_set_back_repeats_nothing() {
    let now = Arc::new(AtomicU64::new(1_000 * 60));
    let wall = now.clone();
    let jobs = OncePerTick::new(schedule()).wall(move || Duration::from_secs(wall.load(SeqCst)));
    for tick in 1_000..1_010 {
        now.store(tick * 60, SeqCst);
        (0..100).for_each(|job| jobs.try_run(&format!("{job}"), |_| ()).unwrap());
        (0..100).for_each(|job| jobs.try_run(&format!("{tick} {job}"), |_| ()).unwrap());
    }
    for tick in 1_000..1_010 {
        now.store(tick * 60, SeqCst);
        for job in 0..100 {
            assert!(jobs.try_run(&format!("{job}"), |_| ()).is_err());
            assert!(jobs.try_run(&format!("{tick} {job}"), |_| ()).is_err());
        }
    }
    now.store(1_010 * 60, SeqCst);
    assert!(jobs.try_run("7", |_| ()).is_ok());
}

/// Jobs enough that others are forgotten.
fn crowd(jobs: &OncePerTick, of: u64) {
    for job in 0..1_000 {
        jobs.try_run(&format!("{of}: {job}"), |_| ()).unwrap();
    }
}

/// A call for the nearest tick is ahead of the others: what they have not run they may.
#[test]
fn the_nearest_tick_of_some_is_not_the_last_of_others() {
    let (jobs, clock) = by_hand(false);
    crowd(&jobs, 0);
    clock.advance(STEP - Duration::from_secs(1));
    crowd(&jobs.clone().nearest(), 1);
    assert_eq!(jobs.try_run("other", |tick| tick), Ok(0));
    assert_eq!(jobs.try_run("1: 0", |_| ()), taken(0, Duration::from_secs(1)));
}

#[test]
fn schedules_cut_time() {
    let hours = Schedule::every(Duration::from_secs(3600));
    let late = hours.clone().offset(Duration::from_secs(600));
    for (time, tick, shifted) in [(0, 0, 0), (599, 0, 0), (3_600, 1, 0), (4_200, 1, 1)] {
        assert_eq!(hours.tick_at(Duration::from_secs(time)), tick);
        assert_eq!(late.tick_at(Duration::from_secs(time)), shifted);
    }
    let fast = Schedule::every(Duration::from_nanos(1));
    assert_eq!(fast.tick_at(Duration::MAX), u64::MAX);
    // Beyond what any clock shows, too.
    for offset in [Duration::from_secs(7_800), Duration::MAX] {
        let shifted = hours.clone().offset(offset);
        assert!(shifted.period().is_some_and(|(step, offset)| offset < step));
        assert_eq!(shifted.tick_at(Duration::from_secs(10 * 3_600)), 9);
        assert_eq!(shifted.nearest_tick_at(Duration::from_secs(10 * 3_600)), 10);
    }
}

#[test]
#[should_panic(expected = "the time between two ticks must not be zero")]
fn schedules_without_time_between_ticks_are_refused() {
    Schedule::every(Duration::ZERO);
}

/// An attendance by hand.
struct Attended {
    clock: VirtualClock,
    timers: Timers,
    queue: DrainQueue,
    jobs: OncePerTick,
}

impl Attended {
    fn new() -> Self {
        let (clock, queue) = (VirtualClock::new(), DrainQueue::new());
        let (wall, timers) = (clock.clone(), Timers::by_hand(clock.clone()));
        let jobs = OncePerTick::new(schedule())
            .wall(move || wall.now())
            .timers(timers.clone())
            .executor(queue.handle());
        Attended { clock, timers, queue, jobs }
    }

    fn attend(&self) -> (Attendance, mpsc::Receiver<u64>) {
        self.attend_and_catch_up(0)
    }

    fn attend_and_catch_up(&self, most: u32) -> (Attendance, mpsc::Receiver<u64>) {
        let (tx, rx) = mpsc::channel();
        let job = move |tick| tx.send(tick).unwrap();
        (self.jobs.clone().catch_up(most).attend("job", job), rx)
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.look();
    }

    fn look(&self) {
        while self.timers.run_due() > 0 {
            self.queue.run_until_idle();
        }
    }
}

#[test]
fn an_attendance_runs_each_tick() {
    let attended = Attended::new();
    let (attendance, ran) = attended.attend();
    (0..30).for_each(|_| attended.pass(STEP / 10));
    assert!(ran.try_iter().eq([1, 2, 3]));
    assert_eq!((attendance.runs(), attendance.panics()), (3, 0));
    // Others have nothing left of a tick that it had.
    assert!(attended.jobs.try_run("job", |_| ()).is_err());
    drop(attendance);
    assert!(attended.timers.is_empty());
    attended.pass(5 * STEP);
    assert!(ran.try_recv().is_err() && attended.timers.is_empty());
}

#[test]
fn two_attendances_share_the_ticks() {
    let attended = Attended::new();
    let (one, other) = (attended.attend(), attended.attend());
    (0..50).for_each(|_| attended.pass(STEP / 5));
    assert_eq!(one.0.runs() + other.0.runs(), 10);
    let mut all: Vec<_> = one.1.try_iter().chain(other.1.try_iter()).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(1..=10));
}

#[test]
fn missed_ticks_are_skipped_or_caught_up() {
    for (most, runs) in [
        (0, vec![1, 6]),
        (2, vec![1, 4, 5, 6]),
        (5, vec![1, 2, 3, 4, 5, 6]),
        (u32::MAX, vec![1, 2, 3, 4, 5, 6]),
    ] {
        let attended = Attended::new();
        let (_attendance, ran) = attended.attend_and_catch_up(most);
        attended.pass(STEP);
        attended.pass(5 * STEP);
        assert_eq!(ran.try_iter().collect::<Vec<_>>(), runs, "{most}");
    }
}

#[test]
fn a_job_that_panics_is_attended_further() {
    let attended = Attended::new();
    let job = |tick| assert!(tick % 2 == 0, "planned");
    let attendance = attended.jobs.attend("job", job);
    (0..4).for_each(|_| attended.pass(STEP));
    assert_eq!((attendance.runs(), attendance.panics()), (4, 2));
}

/// A run of another's is under way at the tick: it is missed, and made up for if that was wanted.
#[test]
fn a_tick_behind_a_long_run_is_missed() {
    let attended = Attended::new();
    let (_attendance, ran) = attended.attend_and_catch_up(3);
    let run = attended.jobs.try_run("job", |_| attended.pass(STEP + STEP / 2));
    assert!(run.is_ok() && ran.try_recv().is_err());
    attended.pass(STEP / 2);
    assert!(ran.try_iter().eq([1, 2]));
}

/// Others have taken ticks meanwhile, enough of them for the book to forget jobs.
#[test]
fn missed_ticks_are_caught_up_beside_many_jobs() {
    for runs_before in [false, true] {
        let attended = Attended::new();
        let (_attendance, ran) = attended.attend_and_catch_up(9);
        if runs_before {
            attended.pass(STEP);
            assert!(ran.try_iter().eq([1]));
        }
        for tick in 0..4 {
            attended.clock.advance(STEP);
            crowd(&attended.jobs, tick);
        }
        attended.look();
        let first = 1 + u64::from(runs_before);
        assert!(ran.try_iter().eq(first..first + 4), "{runs_before}");
    }
}

/// An attendance that is dropped by its own job ends with that.
#[test]
fn a_job_may_end_its_attendance() {
    let attended = Attended::new();
    let (own, runs) = (Arc::new(Mutex::new(None)), Arc::new(AtomicU64::new(0)));
    let (slot, count) = (own.clone(), runs.clone());
    let attendance = attended.jobs.clone().catch_up(9).attend("job", move |_| {
        count.fetch_add(1, SeqCst);
        drop(slot.lock().unwrap().take());
    });
    *own.lock().unwrap() = Some(attendance);
    attended.pass(5 * STEP);
    attended.pass(5 * STEP);
    assert_eq!(runs.load(SeqCst), 1);
    assert!(attended.timers.is_empty());
}

/// With the machine's clock and the process's own threads.
#[test]
fn it_runs_by_itself() {
    must_end(|| {
        let jobs = OncePerTick::new(Schedule::every(Duration::from_millis(2)));
        let (tx, rx) = mpsc::channel();
        let attendance = jobs.attend("job", move |tick| _ = tx.send(tick));
        let ticks: Vec<_> = rx.iter().take(5).collect();
        assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
        drop(attendance);
    });
}

#[test]
fn a_call_may_belong_to_the_tick_that_is_nearest() {
    let (clock, queue) = (VirtualClock::new(), DrainQueue::new());
    let (wall, timers) = (clock.clone(), Timers::by_hand(clock.clone()));
    let jobs = OncePerTick::new(schedule())
        .wall(move || wall.now())
        .timers(timers.clone())
        .executor(queue.handle())
        .nearest();
    let (tell, told) = mpsc::channel();
    let attended = jobs.attend("attended", move |tick| tell.send(tick).unwrap());
    clock.advance(STEP - Duration::from_secs(1));
    assert_eq!(jobs.try_run("early", |tick| tick), Ok(1));
    // What attends runs at the beginning of the tick, and not half of one before.
    timers.run_due();
    queue.run_until_idle();
    assert!(told.try_recv().is_err());
    clock.advance(Duration::from_secs(2));
    assert_eq!(jobs.try_run("early", |_| ()), taken(1, STEP - Duration::from_secs(1)));
    timers.run_due();
    queue.run_until_idle();
    assert_eq!(told.try_recv(), Ok(1));
    assert_eq!(jobs.try_run("attended", |_| ()), taken(1, STEP - Duration::from_secs(1)));
    clock.advance(STEP / 2);
    assert_eq!(jobs.try_run("early", |tick| tick), Ok(2));
    drop(attended);
}
