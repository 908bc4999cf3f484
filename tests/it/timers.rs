//! Timers: in order, never early, once, and never after they were cancelled.

use std::any::Any;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use turnwise::executor::DrainQueue;
use turnwise::time::{Every, Tick, Timer, TimerError, Timers};
use turnwise::{Actor, Clock, Handler, MonotonicClock, Overflow, System, ThreadPool, VirtualClock};

use crate::common::{asked, must_end, on_small_stack, quiet_panic, size, until};

const SECOND: Duration = Duration::from_secs(1);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn by_hand() -> (VirtualClock, Timers) {
    let clock = VirtualClock::new();
    (clock.clone(), Timers::by_hand(clock))
}

/// Random numbers: the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

// Against a model.

/// An act from outside, or of a function when it fires. Timers are meant modulo their number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Nothing,
    Arm(u64),
    Cancel(usize),
    Reset(usize, u64),
    Advance(u64),
}

/// The maximum number of armed timers: functions could arm for ever.
const MOST: usize = 200;

/// The real timers.
#[derive(Default)]
struct World {
    timers: OnceLock<Timers>,
    clock: VirtualClock,
    /// The act of each timer when it fires.
    scripts: Vec<Step>,
    armed: Mutex<Vec<Timer>>,
    /// The timers that fired, and the answers of cancel and reset.
    log: Mutex<Vec<(usize, bool)>>,
}

impl World {
    fn take(self: &Arc<Self>, step: Step) {
        let mut armed = self.armed.lock().unwrap();
        let answer = match step {
            Step::Nothing | Step::Advance(_) => return,
            Step::Arm(delay) => {
                let id = armed.len();
                if id < MOST {
                    let world = self.clone();
                    let function = move || world.fired(id);
                    armed.push(self.timers.get().unwrap().after(millis(delay), function));
                }
                return;
            }
            Step::Cancel(_) | Step::Reset(..) if armed.is_empty() => return,
            Step::Cancel(at) => armed[at % armed.len()].cancel(),
            Step::Reset(at, delay) => armed[at % armed.len()].reset(millis(delay)),
        };
        self.log.lock().unwrap().push((usize::MAX, answer));
    }

    fn fired(self: &Arc<Self>, id: usize) {
        self.log.lock().unwrap().push((id, true));
        self.take(self.scripts[id % self.scripts.len()]);
    }
}

/// A model of the timers: a list that is searched.
#[derive(Default)]
struct Model {
    now: u64,
    number: u64,
    /// The due time, the number of the arming, and the timer.
    armed: Vec<(u64, u64, usize)>,
    ids: usize,
    scripts: Vec<Step>,
    log: Vec<(usize, bool)>,
}

impl Model {
    fn arm(&mut self, id: usize, delay: u64) {
        self.number += 1;
        self.armed.push((self.now + delay, self.number, id));
    }

    fn disarm(&mut self, id: usize) -> bool {
        let before = self.armed.len();
        self.armed.retain(|(_, _, other)| *other != id);
        self.armed.len() < before
    }

    fn take(&mut self, step: Step) {
        let answer = match step {
            Step::Nothing | Step::Advance(_) => return,
            Step::Arm(delay) => {
                if self.ids < MOST {
                    self.ids += 1;
                    self.arm(self.ids - 1, delay);
                }
                return;
            }
            Step::Cancel(_) | Step::Reset(..) if self.ids == 0 => return,
            Step::Cancel(at) => self.disarm(at % self.ids),
            Step::Reset(at, delay) => {
                let was = self.disarm(at % self.ids);
                if was {
                    self.arm(at % self.ids, delay);
                }
                was
            }
        };
        self.log.push((usize::MAX, answer));
    }

    fn run_due(&mut self) -> usize {
        for run in 0.. {
            self.armed.sort_unstable();
            if self.armed.first().is_none_or(|(due, _, _)| *due > self.now) {
                return run;
            }
            let (_, _, id) = self.armed.remove(0);
            self.log.push((id, true));
            self.take(self.scripts[id % self.scripts.len()]);
        }
        unreachable!()
    }
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Nothing),
        (0..20_u64).prop_map(Step::Arm),
        (0..20_u64).prop_map(Step::Arm),
        any::<usize>().prop_map(Step::Cancel),
        (any::<usize>(), 0..20_u64).prop_map(|(at, delay)| Step::Reset(at, delay)),
        (0..15_u64).prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_a_sorted_list_does(
        program in prop::collection::vec(steps(), 1..80),
        scripts in prop::collection::vec(steps(), 1..20),
    ) {
        let world = Arc::new(World { scripts: scripts.clone(), ..World::default() });
        let timers = Timers::by_hand(world.clock.clone());
        world.timers.set(timers.clone()).unwrap();
        let mut model = Model { scripts, ..Model::default() };
        for step in program {
            world.take(step);
            model.take(step);
            if let Step::Advance(by) = step {
                world.clock.advance(millis(by));
                model.now += by;
                prop_assert_eq!(timers.run_due(), model.run_due());
            }
            prop_assert_eq!(timers.len(), model.armed.len());
            prop_assert_eq!(
                timers.next_due(),
                model.armed.iter().min().map(|(due, _, _)| millis(*due))
            );
        }
        prop_assert_eq!(&*world.log.lock().unwrap(), &model.log);
        for (id, timer) in world.armed.lock().unwrap().drain(..).enumerate() {
            let armed = model.armed.iter().any(|(_, _, other)| *other == id);
            prop_assert_eq!(timer.is_armed(), armed);
            timer.cancel(); // whose function owns the world
        }
    }
}

// Order, and never early.

#[test]
fn random_delays_fire_once_in_order() {
    let (clock, timers) = by_hand();
    let count = size(20_000, 100_000);
    let fired = Arc::new(Mutex::new(Vec::with_capacity(2 * count)));
    let mut random = Random(7);
    for number in 0..count as u64 {
        let delay = millis(random.below(1000));
        let again = (random.below(4) == 0).then(|| millis(random.below(500)));
        let (fired, theirs, clock) = (fired.clone(), timers.clone(), clock.clone());
        let due = clock.now() + delay;
        let function = move || {
            let now = clock.now();
            fired.lock().unwrap().push((due, number, now));
            if let Some(delay) = again {
                let due = now + delay;
                let function = move || fired.lock().unwrap().push((due, u64::MAX, clock.now()));
                theirs.after(delay, function).forget();
            }
        };
        timers.after(delay, function).forget();
    }
    let mut run = 0;
    while let Some(next) = timers.next_due() {
        clock.set(next + millis(random.below(30)));
        run += timers.run_due();
    }
    let fired = fired.lock().unwrap();
    assert_eq!(run, fired.len());
    let mut once = vec![0; count];
    for (due, number, now) in &*fired {
        assert!(now >= due, "early");
        if *number < u64::MAX {
            once[*number as usize] += 1;
        }
    }
    assert!(once.iter().all(|times| *times == 1));
    let first = fired.iter().filter(|(_, number, _)| *number < u64::MAX);
    assert!(first.map(|(due, number, _)| (*due, *number)).is_sorted(), "out of order");
    assert!(timers.is_empty());
}

#[test]
fn a_thread_is_never_early() {
    must_end(|| {
        let timers = Timers::new(MonotonicClock).unwrap();
        let count = size(5_000, 50_000);
        let (tell, told) = mpsc::channel();
        let mut random = Random(3);
        for number in 0..count {
            let delay = Duration::from_micros(random.below(20_000));
            let tell = tell.clone();
            let due = timers.now() + delay;
            let function = move || tell.send((number, due, MonotonicClock.now())).unwrap();
            timers.after(delay, function).forget();
        }
        let mut once = vec![0; count];
        for (number, due, now) in told.iter().take(count) {
            assert!(now >= due);
            once[number] += 1;
        }
        assert!(once.iter().all(|times| *times == 1));
        assert!(timers.is_empty());
    });
}

#[test]
fn a_million_timers() {
    let (clock, timers) = by_hand();
    let count = size(100_000, 1_000_000);
    let fired = Arc::new(AtomicUsize::new(0));
    let mut random = Random(11);
    let armed: Vec<_> = (0..count)
        .map(|_| {
            let fired = fired.clone();
            timers.after(millis(random.below(1 << 30)), move || _ = fired.fetch_add(1, SeqCst))
        })
        .collect();
    assert_eq!(timers.len(), count);
    let cancelled = armed.iter().step_by(2).filter(|timer| timer.cancel()).count();
    assert_eq!((cancelled, timers.len()), (count.div_ceil(2), count / 2));
    clock.set(Duration::from_secs(1 << 30));
    assert_eq!(timers.run_due(), count / 2);
    assert_eq!(fired.load(SeqCst), count / 2);
    assert!(timers.is_empty());
}

#[test]
fn what_a_function_arms_sooner_runs_first() {
    let (clock, timers) = by_hand();
    let (tell, told) = mpsc::channel();
    let [first, second, third] = [(); 3].map(|()| tell.clone());
    drop(tell);
    let theirs = timers.clone();
    let function = move || {
        first.send(1).unwrap();
        theirs.at(5 * SECOND, move || second.send(5).unwrap()).forget();
    };
    timers.at(SECOND, function).forget();
    timers.at(8 * SECOND, move || third.send(8).unwrap()).forget();
    clock.set(10 * SECOND);
    assert_eq!(timers.run_due(), 3);
    assert_eq!(told.iter().collect::<Vec<_>>(), [1, 5, 8]);
}

#[test]
fn beyond_the_clock_never_fires() {
    let (clock, timers) = by_hand();
    clock.advance(SECOND);
    let timer = timers.after(Duration::MAX, || unreachable!());
    let ticking = timers.every(Every::step(Duration::MAX), |_| unreachable!()).unwrap();
    clock.advance(Duration::MAX);
    assert_eq!(timers.run_due(), 0);
    assert!(timer.is_armed() && ticking.is_armed());
    assert_eq!((timers.next_due(), timers.len()), (None, 2));
    assert!(timer.reset(Duration::ZERO), "it can be called back");
    assert_eq!(timers.next_due(), Some(Duration::MAX));
    assert!(timer.cancel() && ticking.cancel());
    let last = Arc::new(AtomicBool::new(false));
    let theirs = last.clone();
    timers.at(Duration::MAX, move || theirs.store(true, SeqCst)).forget();
    assert_eq!(timers.run_due(), 1, "the last moment is one");
    assert!(last.load(SeqCst));
}

// Periodic timers.

/// A periodic timer whose ticks are recorded.
fn ticking(timers: &Timers, every: Every) -> (Timer, Arc<Mutex<Vec<Tick>>>) {
    let ticks = Arc::new(Mutex::new(Vec::new()));
    let theirs = ticks.clone();
    (timers.every(every, move |tick| theirs.lock().unwrap().push(tick)).unwrap(), ticks)
}

#[test]
fn a_step_of_zero_is_refused() {
    let (_, timers) = by_hand();
    let every = Every::step(Duration::ZERO).first_after(SECOND);
    assert_eq!(timers.every(every, |_| ()).unwrap_err(), TimerError::StepZero);
    assert!(timers.is_empty());
}

#[test]
fn a_stall_of_ten_steps() {
    let (clock, timers) = by_hand();
    let (timer, ticks) = ticking(&timers, Every::step(SECOND));
    clock.advance(10 * SECOND);
    assert_eq!(timers.run_due(), 5);
    let seen = std::mem::take(&mut *ticks.lock().unwrap());
    let told = |tick: &Tick| (tick.number, tick.due, tick.late, tick.dropped);
    let expected: Vec<_> = (6..=10)
        .map(|n| (n, n as u32 * SECOND, (10 - n as u32) * SECOND, if n == 6 { 5 } else { 0 }))
        .collect();
    assert_eq!(seen.iter().map(told).collect::<Vec<_>>(), expected);
    // The step is kept.
    clock.advance(SECOND * 3 / 2);
    assert_eq!((timers.run_due(), timers.next_due()), (1, Some(12 * SECOND)));
    assert_eq!(ticks.lock().unwrap()[0].number, 11);
    assert!(timer.cancel());
}

#[test]
fn ticks_that_run_and_are_dropped_are_all() {
    for most in [0, 1, 2, 5, 100] {
        let (clock, timers) = by_hand();
        let every = Every::step(millis(7)).first_after(millis(3)).catch_up(most);
        let (timer, ticks) = ticking(&timers, every);
        let mut random = Random(u64::from(most) + 1);
        let mut owed = 0;
        for _ in 0..500 {
            clock.advance(millis(random.below(60)));
            let all = (clock.now().as_millis() as u64 + 4) / 7;
            let expected = (all - owed).min(u64::from(most.max(1)));
            assert_eq!(timers.run_due() as u64, expected);
            owed = all;
        }
        let ticks = ticks.lock().unwrap();
        let mut number = 0;
        for tick in &*ticks {
            number += tick.dropped + 1;
            assert_eq!(tick.number, number);
            assert_eq!(tick.due, millis(3 + 7 * (number - 1)));
        }
        assert_eq!(number, owed);
        assert!(timer.is_armed());
    }
}

#[test]
fn dropped_ticks_keep_the_order_of_others() {
    let (clock, timers) = by_hand();
    let (tell, told) = mpsc::channel();
    let other = tell.clone();
    let every = Every::step(SECOND).catch_up(1);
    timers.every(every, move |tick| tell.send(tick.due).unwrap()).unwrap().forget();
    timers.at(3 * SECOND, move || other.send(3 * SECOND).unwrap()).forget();
    clock.set(9 * SECOND);
    assert_eq!(timers.run_due(), 2);
    drop(timers);
    assert_eq!(told.iter().collect::<Vec<_>>(), [3 * SECOND, 9 * SECOND]);
}

#[test]
fn a_tiny_step_behind_for_long() {
    let (clock, timers) = by_hand();
    let (_timer, ticks) = ticking(&timers, Every::step(Duration::from_nanos(1)));
    clock.advance(Duration::from_secs(1 << 40));
    assert_eq!(timers.run_due(), 5);
    assert_eq!(ticks.lock().unwrap()[0].dropped, u64::MAX, "more than can be counted");
    assert_eq!(ticks.lock().unwrap()[4].due, clock.now());
}

#[test]
fn a_tick_cancels_or_resets_itself() {
    let (clock, timers) = by_hand();
    let timer = Arc::new(OnceLock::<Timer>::new());
    let (theirs, dropped) = (timer.clone(), Arc::new(()));
    let held = dropped.clone();
    let function = move |tick: Tick| {
        let _held = &held;
        let timer = theirs.get().unwrap();
        assert!(timer.is_armed(), "it would fire again");
        match tick.number {
            1 => assert!(timer.reset(10 * SECOND)),
            2 => assert_eq!(tick.due, 11 * SECOND),
            3 => assert!(timer.cancel()),
            _ => unreachable!(),
        }
    };
    let armed = timers.every(Every::step(SECOND), function).unwrap();
    assert!(timer.set(armed).is_ok());
    for moment in [1, 10, 11, 12, 13] {
        clock.set(moment * SECOND);
        timers.run_due();
    }
    assert!(timers.is_empty() && !timer.get().unwrap().is_armed());
    assert_eq!(Arc::strong_count(&dropped), 1, "the function is dropped after its last call");
    assert!(!timer.get().unwrap().reset(SECOND));
}

// Panics, re-entry, the end.

#[test]
fn a_panic_hurts_nobody_else() {
    let (clock, timers) = by_hand();
    let bad = timers.at(SECOND, || quiet_panic("once"));
    let ticking_bad = timers.every(Every::step(SECOND), |_| quiet_panic("again")).unwrap();
    let (good, ticks) = ticking(&timers, Every::step(SECOND));
    clock.advance(2 * SECOND);
    assert_eq!(timers.run_due(), 4, "the one that panicked was its last");
    assert_eq!(ticks.lock().unwrap().len(), 2);
    assert!(!bad.is_armed() && !ticking_bad.is_armed() && good.is_armed());
}

/// Panics when it is dropped.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        if !thread::panicking() {
            quiet_panic("dropped");
        }
    }
}

#[test]
fn a_function_that_panics_in_its_drop() {
    let (clock, timers) = by_hand();
    let drops = Arc::new(AtomicUsize::new(0));
    let bomb = || Bomb(drops.clone());
    let (one, two, three, four) = (bomb(), bomb(), bomb(), bomb());
    let cancelled = timers.after(SECOND, move || drop(one));
    assert!(cancelled.cancel());
    timers.after(SECOND, move || drop(two)).forget();
    clock.advance(SECOND);
    assert_eq!(timers.run_due(), 1);
    timers.after(SECOND, move || drop(three)).forget();
    timers.every(Every::step(SECOND), move |_| _ = &four).unwrap().forget();
    drop(timers);
    assert_eq!(drops.load(SeqCst), 4);
}

#[test]
fn functions_run_the_service_themselves() {
    let (clock, timers) = by_hand();
    let (theirs, run) = (timers.clone(), Arc::new(AtomicUsize::new(0)));
    let inner = run.clone();
    timers.after(SECOND, move || _ = inner.fetch_add(theirs.run_due(), SeqCst)).forget();
    let (_, ticks) = ticking(&timers, Every::step(SECOND));
    clock.advance(3 * SECOND);
    assert_eq!(timers.run_due(), 1);
    assert_eq!((run.load(SeqCst), ticks.lock().unwrap().len()), (3, 3));
}

#[test]
fn the_last_clone_goes_inside_a_function() {
    must_end(|| {
        let held = Arc::new(());
        for by_thread in [false, true] {
            let clock = VirtualClock::new();
            let timers = match by_thread {
                false => Timers::by_hand(clock.clone()),
                true => Timers::new(clock.clone()).unwrap(),
            };
            let (theirs, tell, told) = own(&timers);
            let guard = held.clone();
            let never = timers.after(2 * SECOND, move || _ = &guard);
            let guard = held.clone();
            let every = Every::step(2 * SECOND);
            let never_either = timers.every(every, move |_| _ = &guard).unwrap();
            let function = move || {
                drop(theirs.lock().unwrap().take());
                tell.send(()).unwrap();
            };
            timers.after(SECOND, function).forget();
            if by_thread {
                drop(timers);
                clock.advance(SECOND);
                told.recv().unwrap();
            } else {
                clock.advance(SECOND);
                timers.run_due();
                drop(timers);
            }
            assert!(!never.is_armed() && !never_either.is_armed());
            assert!(!never.reset(SECOND) && !never.cancel() && !never_either.cancel());
            assert_eq!(Arc::strong_count(&held), 1, "what was armed is dropped");
        }
    });
}

type Owned = Arc<Mutex<Option<Timers>>>;

fn own(timers: &Timers) -> (Owned, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (tell, told) = mpsc::channel();
    (Arc::new(Mutex::new(Some(timers.clone()))), tell, told)
}

/// A clock that counts its reads.
#[derive(Clone, Debug)]
struct Counted(VirtualClock, Arc<()>);

impl Clock for Counted {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn park_until(&self, at: Duration) {
        self.0.park_until(at);
    }
}

#[test]
fn the_thread_ends_with_the_last_clone() {
    let clock = Counted(VirtualClock::new(), Arc::new(()));
    for armed in [false, true] {
        let timers = Timers::new(clock.clone()).unwrap();
        let ticking = timers.every(Every::step(SECOND), |_| ()).unwrap();
        if armed {
            clock.0.wait_for_sleepers(1);
        } else {
            ticking.cancel();
        }
        drop(timers.clone());
        assert_eq!(Arc::strong_count(&clock.1), 2);
        drop((timers, ticking));
        until(|| Arc::strong_count(&clock.1) == 1);
    }
}

/// A clock that panics while it is armed.
#[derive(Clone, Debug, Default)]
struct Broken(VirtualClock, Arc<AtomicBool>);

impl Clock for Broken {
    fn now(&self) -> Duration {
        if self.1.load(SeqCst) {
            quiet_panic("no time");
        }
        self.0.now()
    }
}

#[test]
fn the_thread_outlives_a_clock_that_panics() {
    must_end(|| {
        let clock = Broken::default();
        let timers = Timers::new(clock.clone()).unwrap();
        let (tell, told) = mpsc::channel();
        timers.after(SECOND, move || tell.send(()).unwrap()).forget();
        clock.1.store(true, SeqCst);
        let armed = std::panic::catch_unwind(|| timers.after(SECOND, || ()).forget());
        assert!(armed.is_err());
        assert_eq!(timers.len(), 1, "nothing was armed");
        clock.0.advance(SECOND);
        clock.1.store(false, SeqCst);
        told.recv().unwrap();
    });
}

// Threads.

#[test]
fn cancelled_or_fired_never_both() {
    must_end(|| {
        let timers = Timers::new(MonotonicClock).unwrap();
        let rounds = size(2_000, 40_000);
        let fired = Arc::new(AtomicUsize::new(0));
        let cancelled: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|seed| {
                    let (timers, fired) = (&timers, &fired);
                    scope.spawn(move || {
                        let mut random = Random(seed + 1);
                        let mut cancelled = 0;
                        let mut last: Option<Timer> = None;
                        for _ in 0..rounds {
                            let fired = fired.clone();
                            let delay = Duration::from_micros(random.below(30));
                            let function = move || _ = fired.fetch_add(1, SeqCst);
                            let timer = timers.after(delay, function);
                            if random.below(3) == 0 {
                                timer.reset(Duration::from_micros(random.below(30)));
                            }
                            if let Some(last) = last.replace(timer) {
                                cancelled += usize::from(last.cancel());
                            }
                        }
                        cancelled
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        until(|| timers.is_empty());
        until(|| fired.load(SeqCst) + cancelled == 4 * rounds);
        drop(timers);
        assert_eq!(fired.load(SeqCst) + cancelled, 4 * rounds);
    });
}

#[test]
fn two_runners_and_a_canceller_of_ticks() {
    must_end(|| {
        let (clock, timers) = by_hand();
        let inside = Arc::new(AtomicBool::new(false));
        let ticks = Arc::new(AtomicU64::new(0));
        for _ in 0..size(300, 1_000) {
            let (inside, ticks) = (inside.clone(), ticks.clone());
            let over = Arc::new(AtomicBool::new(false));
            let theirs = over.clone();
            let function = move |_| {
                assert!(!inside.swap(true, SeqCst), "two calls at a time");
                ticks.fetch_add(1, SeqCst);
                inside.store(false, SeqCst);
                // A call that has begun may end after the cancel.
                let _ = &theirs;
            };
            let timer = timers.every(Every::step(millis(1)), function).unwrap();
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !over.load(SeqCst) {
                            clock.advance(millis(1));
                            timers.run_due();
                        }
                    });
                }
                scope.spawn(|| {
                    thread::yield_now();
                    assert!(timer.cancel());
                    over.store(true, SeqCst);
                });
            });
            assert!(timers.is_empty());
            assert_eq!(Arc::strong_count(&over), 1, "dropped, by the last one");
        }
    });
}

#[test]
fn an_earlier_timer_wakes_the_thread() {
    must_end(|| {
        let clock = VirtualClock::new();
        let timers = Timers::new(clock.clone()).unwrap();
        let (tell, told) = mpsc::channel();
        let late = timers.after(3600 * SECOND, || unreachable!());
        clock.wait_for_sleepers(1);
        assert_eq!(clock.next_wake(), Some(3600 * SECOND));
        timers.after(SECOND, move || tell.send(()).unwrap()).forget();
        until(|| clock.next_wake() == Some(SECOND));
        clock.advance(SECOND);
        told.recv().unwrap();
        assert!(late.cancel());
    });
}

// Sleep.

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn sleep_polled_by_hand() {
    let (clock, timers) = by_hand();
    let woken = [(); 2].map(|()| Arc::<Woken>::default());
    let [first, second] = woken.clone().map(Waker::from);
    let mut sleep = pin!(timers.sleep(SECOND));
    assert!(timers.is_empty(), "a future does nothing before it is polled");
    for waker in [&first, &first, &second] {
        assert!(sleep.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        assert_eq!(timers.len(), 1);
    }
    clock.advance(SECOND - millis(1));
    assert_eq!(timers.run_due(), 0);
    clock.advance(millis(1));
    assert_eq!(timers.run_due(), 1);
    assert_eq!(woken.map(|woken| woken.0.load(SeqCst)), [0, 1], "who polled last is woken");
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&first)).is_ready());
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&first)).is_ready());
}

#[test]
fn a_sleep_that_is_dropped_is_disarmed() {
    let (clock, timers) = by_hand();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(woken.clone());
    let mut sleep = timers.sleep(SECOND);
    assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
    drop((sleep, waker));
    assert!(timers.is_empty());
    assert_eq!(Arc::strong_count(&woken), 1);
    clock.advance(SECOND);
    assert_eq!(timers.run_due(), 0);
    assert_eq!(woken.0.load(SeqCst), 0);
    let mut over = pin!(timers.sleep(Duration::ZERO));
    assert!(over.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[test]
fn sleep_in_tasks_of_tokio() {
    must_end(|| {
        let clock = VirtualClock::new();
        let timers = Timers::new(clock.clone()).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (tell, told) = mpsc::channel();
        for n in 1..=50 {
            let (tell, timers) = (tell.clone(), timers.clone());
            runtime.spawn(async move {
                timers.sleep(n * SECOND).await;
                tell.send((n, timers.now())).unwrap();
            });
        }
        until(|| timers.len() == 50);
        for n in 1..=50 {
            clock.advance(SECOND);
            assert_eq!(told.recv().unwrap(), (n, n * SECOND));
        }
        let real = Timers::new(MonotonicClock).unwrap();
        let before = real.now();
        runtime.block_on(real.sleep(millis(5)));
        assert!(real.now() >= before + millis(5));
    });
}

// Messages.

/// The messages that have come.
#[derive(Default)]
struct Mail(Vec<u32>);

impl Handler<u32> for Mail {
    type Reply = ();

    fn handle(&mut self, message: u32, _: &mut turnwise::Context<'_, Self>) {
        self.0.push(message);
    }
}

#[test]
fn delayed_messages_come_in_order() {
    let (clock, timers) = by_hand();
    let queue = DrainQueue::new();
    let builder = Actor::builder().timers(timers.clone());
    let mail = builder.executor(queue.handle()).spawn(Mail::default()).unwrap();
    mail.posted().tell_after(2 * SECOND, 3).forget();
    mail.posted().send_after(SECOND, |mail| mail.0.push(1)).forget();
    mail.posted().tell_after(SECOND, 2).forget();
    let cancelled = mail.posted().tell_after(SECOND, 9);
    let ticks = mail.posted().tell_every(Every::step(3 * SECOND), 4).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(
        mail.posted().tell_every(Every::step(Duration::ZERO), 9).unwrap_err(),
        TimerError::StepZero
    );
    clock.advance(6 * SECOND);
    assert_eq!(timers.run_due(), 5);
    assert_eq!(mail.len(), 5, "posted, not run");
    assert_eq!(asked(&queue, &mail, |mail| mail.0.clone()), [1, 2, 3, 4, 4]);
    assert_eq!(timers.undelivered(), 0);
    assert!(ticks.is_armed());
}

#[test]
fn closures_are_sent_again_and_again() {
    let (clock, timers) = by_hand();
    let queue = DrainQueue::new();
    let builder = Actor::builder().timers(timers.clone()).executor(queue.handle());
    let mail = builder.spawn(Mail::default()).unwrap();
    let token = Arc::new(());
    let theirs = token.clone();
    let number = move |mail: &mut Mail| mail.0.push(Arc::strong_count(&theirs) as u32);
    let ticks = mail.posted().send_every(SECOND, number).unwrap();
    let zero = mail.posted().send_every(Duration::ZERO, |_| unreachable!("it is not armed"));
    assert_eq!(zero.unwrap_err(), TimerError::StepZero);
    clock.advance(3 * SECOND);
    assert_eq!((timers.run_due(), mail.len()), (3, 3));
    assert_eq!(asked(&queue, &mail, |mail| mail.0.clone()), [2, 2, 2]);
    assert!(ticks.cancel());
    clock.advance(SECOND);
    assert_eq!((timers.run_due(), Arc::strong_count(&token)), (0, 1));
}

/// The last turn of a repeated closure may be the last to have it.
#[test]
fn a_closure_that_panics_is_not_dropped_while_its_thread_unwinds() {
    struct Dropped(mpsc::Sender<bool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send(thread::panicking()).unwrap();
        }
    }
    let (clock, timers) = by_hand();
    let queue = DrainQueue::new();
    let builder = Actor::builder().timers(timers.clone()).executor(queue.handle());
    let mail = builder.spawn(Mail::default()).unwrap();
    let (tell, told) = mpsc::channel();
    let theirs = Dropped(tell);
    let panics = move |_: &mut Mail| {
        let _theirs = &theirs;
        quiet_panic("done");
    };
    let ticks = mail.posted().send_every(SECOND, panics).unwrap();
    clock.advance(SECOND);
    assert_eq!(timers.run_due(), 1);
    assert!(ticks.cancel());
    assert!(told.try_recv().is_err(), "a message has it");
    queue.run_until_idle();
    assert_eq!(told.recv(), Ok(false));
}

#[test]
fn a_message_to_nobody_is_counted() {
    let (clock, timers) = by_hand();
    let queue = DrainQueue::new();
    let builder = Actor::builder().timers(timers.clone());
    let builder = builder.executor(queue.handle()).capacity(1, Overflow::Reject);
    let mail = builder.spawn(Mail::default()).unwrap();
    let token = Arc::new(());
    let theirs = token.clone();
    let ticks = mail.posted().tell_every(SECOND, 1).unwrap();
    mail.posted().send_after(5 * SECOND, move |_| drop(theirs)).forget();
    clock.advance(2 * SECOND);
    assert_eq!(timers.run_due(), 2);
    assert_eq!(timers.undelivered(), 1, "the mailbox was full");
    assert!(ticks.is_armed());
    queue.run_until_idle();
    mail.close();
    clock.advance(SECOND);
    assert_eq!((timers.run_due(), timers.undelivered()), (1, 2));
    assert!(!ticks.is_armed(), "a closed actor opens no more");
    drop(mail);
    clock.advance(2 * SECOND);
    assert_eq!((timers.run_due(), timers.undelivered()), (1, 3));
    assert_eq!(Arc::strong_count(&token), 1);
}

/// A message whose drop panics.
#[derive(Clone)]
struct Touchy;

impl Drop for Touchy {
    fn drop(&mut self) {
        quiet_panic("dropped");
    }
}

impl Handler<Touchy> for Mail {
    type Reply = ();
    fn handle(&mut self, touchy: Touchy, _: &mut turnwise::Context<'_, Self>) {
        std::mem::forget(touchy);
    }
}

#[test]
fn a_refused_message_that_panics_is_counted() {
    let (clock, timers) = by_hand();
    let queue = DrainQueue::new();
    let builder = Actor::builder().timers(timers.clone());
    let builder = builder.executor(queue.handle()).capacity(1, Overflow::Reject);
    let mail = builder.spawn(Mail::default()).unwrap();
    let ticks = mail.posted().tell_every(Every::step(SECOND), Touchy).unwrap();
    clock.advance(2 * SECOND);
    assert_eq!((timers.run_due(), timers.undelivered()), (2, 1), "the mailbox was full");
    assert!(ticks.is_armed(), "it costs one message");
    assert!(ticks.cancel());
    queue.run_until_idle();
    mail.posted().tell_after(SECOND, Touchy).forget();
    drop(mail);
    clock.advance(SECOND);
    assert_eq!((timers.run_due(), timers.undelivered()), (1, 2), "the actor is gone");
}

#[test]
fn a_delayed_message_keeps_no_actor() {
    let (clock, timers) = by_hand();
    let mail = Actor::builder().timers(timers.clone()).spawn(Mail::default()).unwrap();
    let ticks = mail.posted().tell_every(Every::step(SECOND), 1).unwrap();
    let weak = mail.downgrade();
    drop(mail);
    assert!(weak.upgrade().is_none());
    clock.advance(SECOND);
    assert_eq!((timers.run_due(), timers.undelivered()), (1, 1));
    assert!(!ticks.is_armed());
}

#[test]
fn a_busy_worker_delays_no_timer() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let actor = |state| Actor::builder().executor(pool.handle()).spawn(state).unwrap();
        let (busy, idle) = (actor(0), actor(0));
        let (begun, running) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let long = move |_: &mut u32| {
            begun.send(()).unwrap();
            let _ = wait.recv();
        };
        busy.send(long).unwrap();
        running.recv().unwrap();
        let (tell, told) = mpsc::channel();
        busy.posted().send_after(millis(1), |n| *n += 1).forget();
        idle.posted().send_after(millis(1), |n| *n += 1).forget();
        Timers::global().after(millis(2), move || tell.send(()).unwrap()).forget();
        told.recv().unwrap(); // though the worker still waits for `go`
        assert!(busy.len() >= 2, "the message was posted, and waits for its turn");
        drop(go);
        assert_eq!(busy.call(|n| *n).wait(), Ok(1));
        assert_eq!(idle.call(|n| *n).wait(), Ok(1));
    });
}

#[test]
fn the_clock_of_an_actor_or_its_system() {
    must_end(|| {
        let clock = Counted(VirtualClock::new(), Arc::new(()));
        let system = System::with_clock(clock.clone());
        let members = [(); 2].map(|()| system.spawn(Actor::builder(), 0).unwrap());
        let alone = Actor::builder().clock(clock.clone()).spawn(0).unwrap();
        let idle = Arc::strong_count(&clock.1);
        let (tell, told) = mpsc::channel();
        for actor in members.iter().chain([&alone]) {
            let tell = tell.clone();
            actor.posted().send_after(SECOND, move |_| tell.send(()).unwrap()).forget();
        }
        let cancelled = alone.posted().send_after(SECOND, |_| ());
        // One service for the system, and one for the actor that brought its own.
        clock.0.wait_for_sleepers(2);
        assert_eq!(clock.0.sleepers(), 2);
        assert!(cancelled.cancel());
        clock.0.advance(SECOND);
        (0..3).for_each(|_| told.recv().unwrap());
        drop(cancelled);
        until(|| clock.0.sleepers() == 0 && Arc::strong_count(&clock.1) == idle);
        // The same again.
        let tell = tell.clone();
        alone.posted().send_after(SECOND, move |_| tell.send(()).unwrap()).forget();
        clock.0.advance(SECOND);
        told.recv().unwrap();
    });
}

#[test]
fn a_chain_of_services_ends_in_constant_stack() {
    for asleep in [false, true] {
        on_small_stack(move || {
            let clock = VirtualClock::new();
            let (tell, told) = mpsc::channel::<()>();
            let last = Timers::by_hand(clock.clone());
            last.after(SECOND, move || drop(tell)).forget();
            let mut next = last;
            for _ in 0..size(20_000, 100_000) {
                let timers = Timers::by_hand(clock.clone());
                let before = std::mem::replace(&mut next, timers.clone());
                // An object that holds its last clone.
                let held: Box<dyn Any + Send> = match asleep {
                    false => Box::new(before),
                    true => Box::new(before.sleep(SECOND)),
                };
                timers.after(SECOND, move || drop(held)).forget();
            }
            drop(next);
            assert!(told.try_recv().is_err_and(|error| error == mpsc::TryRecvError::Disconnected));
        });
    }
}

#[test]
fn a_service_that_ends_inside_of_another_ones_end_is_over_at_once() {
    let clock = VirtualClock::new();
    let (outer, inner) = (Timers::by_hand(clock.clone()), Timers::by_hand(clock.clone()));
    let armed = Arc::new(inner.after(SECOND, || unreachable!("its service is gone")));
    struct Looks(Option<Timers>, Arc<Timer>, mpsc::Sender<bool>);
    impl Drop for Looks {
        fn drop(&mut self) {
            drop(self.0.take());
            self.2.send(self.1.is_armed()).unwrap();
        }
    }
    let (tell, told) = mpsc::channel();
    let looks = Looks(Some(inner), armed.clone(), tell);
    outer.after(SECOND, move || drop(looks)).forget();
    drop(outer);
    assert_eq!(told.recv(), Ok(false));
    assert!(!armed.cancel());
}

#[test]
fn the_service_of_a_clock_is_found_in_the_same_time_however_many_there_are() {
    const EACH: usize = 300;
    let mut kept = Vec::new();
    let mut times: Vec<_> = (0..100)
        .map(|_| {
            let begun = Instant::now();
            kept.extend((0..EACH).map(|_| {
                let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
                Timers::of(&clock)
            }));
            begun.elapsed()
        })
        .collect();
    let last = times.split_off(95).into_iter().min().unwrap();
    let first = times.into_iter().take(5).max().unwrap();
    // A walk through all of them takes some twenty times as long.
    assert!(last < 6 * first, "{last:?} with 30,000 of them, {first:?} with 1,500");
    // Actors that have ended are forgotten.
    drop(kept);
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let (timers, again) = (Timers::of(&clock), Timers::of(&clock));
    timers.after(SECOND, || ()).forget();
    assert_eq!(again.len(), 1);
}

/// The service ends while the function runs: it has no next call.
#[test]
fn a_periodic_timer_is_over_when_its_service_ends() {
    must_end(|| {
        let (clock, (tell, told)) = (VirtualClock::new(), mpsc::channel());
        let timers = Timers::new(clock.clone()).unwrap();
        let own: Arc<Mutex<Option<(Timers, Timer)>>> = Arc::default();
        let function = {
            let own = own.clone();
            move |_| {
                let (timers, timer) = own.lock().unwrap().take().unwrap();
                let before = (timer.is_armed(), timer.reset(SECOND));
                drop(timers);
                let after = (timer.is_armed(), timer.reset(SECOND), timer.cancel());
                tell.send((before, after)).unwrap();
            }
        };
        let timer = timers.every(SECOND, function).unwrap();
        *own.lock().unwrap() = Some((timers, timer));
        clock.advance(SECOND);
        assert_eq!(told.recv(), Ok(((true, true), (false, false, false))));
        assert!(told.recv().is_err(), "its function is dropped");
    });
}
