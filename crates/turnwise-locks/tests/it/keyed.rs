//! Closures by key: one at a time, in order, and nothing left behind.

use std::cell::Cell;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{must_end, size};
use turnwise::executor::{Blocking, DrainQueue};
use turnwise::time::Timers;
use turnwise::{Actor, Reason, ThreadPool, VirtualClock};
use turnwise_locks::admission::{Admission, InMemory, Refused};
use turnwise_locks::{Keyed, Limits, NotStarted, Run, RunError};

const SECOND: Duration = Duration::from_secs(1);

/// Gives others the processor until it is so; red after a minute.
fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::yield_now();
    }
}

fn quiet_panic(text: &'static str) -> ! {
    resume_unwind(Box::new(text))
}

fn not_started<R>(why: NotStarted) -> Result<R, RunError<R>> {
    Err(RunError::NotStarted(why))
}

/// Set while somebody is inside.
#[derive(Default)]
struct Alone(AtomicBool);

impl Alone {
    fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        assert!(!self.0.swap(true, SeqCst), "two at a time");
        let value = f();
        self.0.store(false, SeqCst);
        value
    }
}

/// Runs `f` while a closure of the key is running, and then lets that end.
fn while_busy<R>(keyed: &Keyed<&'static str>, key: &'static str, f: impl FnOnce() -> R) -> R {
    let (entered, is_in) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            keyed
                .run(key, move |()| {
                    entered.send(()).unwrap();
                    left.recv().ok();
                })
                .unwrap();
        });
        is_in.recv().unwrap();
        let value = f();
        drop(leave);
        value
    })
}

#[test]
fn one_key_many_threads() {
    let (keyed, alone, mut n) = (Keyed::new(), Alone::default(), 0);
    let each = size(300, 1000);
    let shared = &Mutex::new(&mut n);
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                for _ in 0..each {
                    let count = || **shared.try_lock().expect("two at a time") += 1;
                    keyed.run("one", |()| alone.enter(count)).unwrap();
                }
            });
        }
    });
    assert_eq!((n, keyed.len()), (100 * each, 0));
}

#[test]
fn keys_are_independent() {
    let keyed = Keyed::new();
    while_busy(&keyed, "slow", || {
        let waiting: Vec<_> =
            (0..1000).map(|_| keyed.start("slow", Limits::NONE, |()| ())).collect();
        assert_eq!(keyed.info(&"slow").unwrap().runs, 1001);
        for n in 0..1000 {
            assert_eq!(keyed.run("other", |()| n), Ok(n));
        }
        assert_eq!(keyed.len(), 1);
        assert!(waiting.iter().all(|run| !run.is_over()));
    });
    until("all have run", || keyed.is_empty());
}

#[test]
fn in_the_order_of_the_calls() {
    let keyed = Keyed::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let runs: Vec<Run<()>> = while_busy(&keyed, "a", || {
        let key = keyed.key("a").unwrap();
        (0..1000)
            .map(|n| {
                let log = log.clone();
                let note = move |(): &mut ()| log.lock().unwrap().push(n);
                match n % 2 {
                    0 => keyed.start("a", Limits::NONE, note),
                    _ => key.start(Limits::wait(Duration::from_secs(3600)), note),
                }
            })
            .collect()
    });
    runs.into_iter().for_each(|run| run.wait().unwrap());
    assert_eq!(*log.lock().unwrap(), (0..1000).collect::<Vec<_>>());
    until("all is over", || keyed.is_empty());
}

#[test]
fn wait_is_measured_once_from_the_call() {
    for (held, in_time) in [(300, true), (700, false)] {
        let clock = VirtualClock::new();
        let keyed = Keyed::builder().clock(clock.clone()).build();
        let ran = Arc::new(AtomicBool::new(false));
        let outcome = thread::scope(|scope| {
            let waiting = while_busy(&keyed, "a", || {
                let waiting = scope.spawn(|| {
                    let ran = ran.clone();
                    let limit = Duration::from_millis(500);
                    keyed.run_within("a", Limits::wait(limit), move |()| ran.store(true, SeqCst))
                });
                clock.wait_for_sleepers(1);
                clock.advance(Duration::from_millis(held));
                if !in_time {
                    until("it has given up", || waiting.is_finished());
                }
                waiting
            });
            waiting.join().unwrap()
        });
        until("all is over", || keyed.is_empty());
        assert_eq!(ran.load(SeqCst), in_time);
        match outcome {
            Ok(()) => assert!(in_time),
            Err(RunError::NotStarted(NotStarted::TimedOut { waited, .. })) => {
                assert_eq!(waited, Duration::from_millis(held));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_late_turn_is_skipped_unwatched() {
    let clock = VirtualClock::new();
    let keyed = Keyed::builder().clock(clock.clone()).build();
    let late = while_busy(&keyed, "a", || {
        let late = keyed
            .start("a", Limits::wait(Duration::from_millis(500)), |()| panic!("it never runs"));
        clock.advance(Duration::from_millis(700));
        late
    });
    until("its turn has come", || keyed.is_empty());
    let waited = Duration::from_millis(700);
    assert_eq!(late.wait(), not_started::<()>(NotStarted::TimedOut { waited, key: None }));
}

#[test]
fn a_poll_after_the_limit_takes_it_back() {
    let clock = VirtualClock::new();
    let keyed = Keyed::builder().clock(clock.clone()).build();
    let mut cx = Context::from_waker(Waker::noop());
    while_busy(&keyed, "a", || {
        let mut run =
            pin!(keyed.start("a", Limits::wait(Duration::from_millis(5)), |()| panic!("never")));
        assert_eq!(run.as_mut().poll(&mut cx), Poll::Pending);
        clock.advance(Duration::from_millis(5));
        let waited = Duration::from_millis(5);
        let late = not_started::<()>(NotStarted::TimedOut { waited, key: None });
        assert_eq!(run.as_mut().poll(&mut cx), Poll::Ready(late));
        assert_eq!(run.as_mut().poll(&mut cx), Poll::Ready(Err(RunError::Taken)));
    });
    until("all is over", || keyed.is_empty());
}

#[test]
fn zero_wait_is_one_attempt() {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    let pooled = Keyed::builder().executor(pool.handle()).build();
    for keyed in [Keyed::new(), pooled] {
        // A pool has a millisecond to begin: one that others keep busy may need another attempt.
        until("it runs", || keyed.run_within("a", Limits::wait(Duration::ZERO), |()| 1) == Ok(1));
        until("all is over", || keyed.is_empty());
        while_busy(&keyed, "a", || {
            let ran = keyed.run_within("a", Limits::wait(Duration::ZERO), |()| 1);
            assert_eq!(ran, not_started(NotStarted::Busy { key: None }));
            let key = keyed.key("a").unwrap();
            let ran = key.run_within(Limits::wait(Duration::ZERO), |()| 1);
            assert_eq!(ran, not_started(NotStarted::Busy { key: None }));
            let both = keyed.run_all(["b", "a"], Limits::wait(Duration::ZERO), |_| 1);
            assert_eq!(both, not_started(NotStarted::Busy { key: None }));
        });
        until("all is over", || keyed.is_empty());
        let key = keyed.key("a").unwrap();
        until("it runs", || key.run_within(Limits::wait(Duration::ZERO), |()| 2) == Ok(2));
        until("it runs", || keyed.run_within("a", Limits::wait(Duration::ZERO), |()| 2) == Ok(2));
    }
}

#[test]
fn an_overrun_is_told_with_the_value() {
    let clock = VirtualClock::new();
    let keyed = Keyed::builder().clock(clock.clone()).build();
    let limits = Limits::NONE.lease(Duration::from_millis(100));
    let take = |millis| {
        let clock = clock.clone();
        move |()| clock.advance(Duration::from_millis(millis))
    };
    let long = take(300);
    let overran = keyed.run_within("a", limits, move |()| (long(()), "done").1);
    let by = Duration::from_millis(200);
    assert_eq!(overran, Err(RunError::Overran { value: "done", by }));
    for limits in [limits, Limits::wait(Duration::ZERO).lease(Duration::from_millis(100))] {
        let long = take(101);
        let all = keyed.run_within("a", limits, move |()| long(()));
        let by = Duration::from_millis(1);
        assert_eq!(all, Err(RunError::Overran { value: (), by }));
        let long = take(101);
        let all = keyed.run_all(["a", "b"], limits, move |_| long(()));
        assert_eq!(all, Err(RunError::Overran { value: (), by }));
        let short = take(100);
        assert_eq!(keyed.run_within("a", limits, move |()| short(())), Ok(()));
    }
    assert!(keyed.is_empty());
}

#[test]
fn of_many_tries_exactly_one_runs() {
    for used in [false, true] {
        let keyed = Keyed::new();
        for _ in 0..size(20, 200) {
            let _key = used.then(|| keyed.key("a").unwrap());
            let (start, refused) = (Barrier::new(100), AtomicUsize::new(0));
            let ran = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..100 {
                    scope.spawn(|| {
                        start.wait();
                        let all_others = || refused.load(SeqCst) == 99;
                        let tried = keyed.try_run("a", |()| {
                            until("all others are refused", all_others);
                            ran.fetch_add(1, SeqCst);
                        });
                        if let Err(busy) = tried {
                            assert_eq!(busy, NotStarted::Busy { key: None });
                            refused.fetch_add(1, SeqCst);
                        }
                    });
                }
            });
            assert_eq!((ran.into_inner(), refused.into_inner()), (1, 99));
        }
        assert!(keyed.is_empty());
    }
}

#[test]
fn a_try_overtakes_nobody() {
    let keyed = Keyed::new();
    let waiting = while_busy(&keyed, "a", || {
        let waiting = keyed.start("a", Limits::NONE, |()| ());
        assert!(keyed.try_run("a", |()| ()).is_err());
        assert!(keyed.key("a").unwrap().try_run(|()| ()).is_err());
        waiting
    });
    waiting.wait().unwrap();
    keyed.try_run("a", |()| ()).unwrap();
}

#[test]
fn a_try_sees_the_runs_of_pins() {
    let keyed = Keyed::new();
    let key = keyed.key("a").unwrap();
    let tried = key.run(|()| {
        let (tell, told) = mpsc::channel();
        let keyed = keyed.clone();
        thread::spawn(move || tell.send(keyed.try_run("a", |()| ()).is_err()));
        told.recv_timeout(Duration::from_secs(60))
    });
    assert_eq!(tried, Ok(Ok(true)), "it waits");
}

#[test]
fn once_used_keys_are_gone() {
    let keyed = Keyed::with_state(|key: &usize| Box::new(*key));
    let each = size(5_000, 250_000);
    thread::scope(|scope| {
        for thread in 0..4 {
            let keyed = &keyed;
            scope.spawn(move || {
                for key in thread * each..(thread + 1) * each {
                    assert_eq!(keyed.run(key, |own| **own), Ok(key));
                }
            });
        }
    });
    assert_eq!(keyed.len(), 0);
}

/// A state that counts itself.
struct Live(Arc<States>);

#[derive(Default)]
struct States {
    alone: Alone,
    live: AtomicUsize,
    made: AtomicUsize,
    dropped: AtomicUsize,
}

impl Live {
    fn new(states: &Arc<States>) -> Self {
        assert_eq!(states.live.fetch_add(1, SeqCst), 0, "two states of a key");
        states.made.fetch_add(1, SeqCst);
        Live(states.clone())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // A state is dropped inside a turn of its key.
        self.0.alone.enter(|| self.0.live.fetch_sub(1, SeqCst));
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

/// So long: two seconds, or what `HAMMER_SECONDS` says.
fn hammered() -> Duration {
    let seconds = std::env::var("HAMMER_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

/// Runners, tries, a canceller, keys that are kept in use and several keys at once, all on one key.
fn hammer(keyed: &Keyed<u32, Live>, states: &Arc<States>) {
    let stop = AtomicBool::new(false);
    let enter = |live: &mut Live| live.0.alone.enter(thread::yield_now);
    let (ran, never) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let started = AtomicUsize::new(0);
    let again = || !stop.load(SeqCst);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while again() {
                    keyed.run(7, enter).unwrap();
                }
            });
        }
        scope.spawn(|| {
            while again() {
                let ran = ran.clone();
                started.fetch_add(1, SeqCst);
                let run = keyed.start(
                    7,
                    Limits::wait(Duration::from_secs(3600)),
                    move |live: &mut Live| live.0.alone.enter(|| ran.fetch_add(1, SeqCst)),
                );
                match run.cancel() {
                    Ok(()) => drop(never.fetch_add(1, SeqCst)),
                    Err(run) => drop(run.wait().unwrap()),
                }
            }
        });
        scope.spawn(|| {
            while again() {
                let key = keyed.key(7).unwrap();
                key.run(enter).unwrap();
                drop(key.start(Limits::NONE, enter));
                drop(key.try_run(enter));
                drop(keyed.try_run(7, enter));
                drop(key);
                let both = keyed.run_all([7], Limits::NONE, |all| {
                    all.iter().for_each(|live| live.0.alone.enter(thread::yield_now));
                });
                both.unwrap();
            }
        });
        thread::sleep(hammered());
        stop.store(true, SeqCst);
    });
    until("all is over", || keyed.is_empty());
    assert_eq!(ran.load(SeqCst) + never.load(SeqCst), started.load(SeqCst));
    println!(
        "{:?}: {} started, {} cancelled, {} states, one at a time",
        hammered(),
        started.load(SeqCst),
        never.load(SeqCst),
        states.made.load(SeqCst)
    );
    until("the states are dropped", || states.live.load(SeqCst) == 0);
    assert!(states.made.load(SeqCst) > 0);
    assert_eq!(states.made.load(SeqCst), states.dropped.load(SeqCst));
}

#[test]
fn one_state_at_a_time() {
    let states = Arc::<States>::default();
    let made = states.clone();
    hammer(&Keyed::with_state(move |_| Live::new(&made)), &states);
}

#[test]
fn one_state_at_a_time_in_a_pool() {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    let states = Arc::<States>::default();
    let made = states.clone();
    let builder = Keyed::builder().state(move |_| Live::new(&made));
    hammer(&builder.executor(pool.handle()).build(), &states);
}

#[test]
fn the_last_pin_drops_the_state_in_a_turn() {
    let queue = DrainQueue::new();
    let states = Arc::<States>::default();
    let made = states.clone();
    let builder = Keyed::builder().state(move |_: &u32| Live::new(&made));
    let keyed = builder.executor(queue.handle()).build();
    let first = keyed.start(1, Limits::NONE, |_| ());
    let second = keyed.start(1, Limits::NONE, |_| ());
    let key = keyed.key(1).unwrap();
    queue.run_until_idle();
    first.wait().unwrap();
    second.wait().unwrap();
    assert_eq!(states.live.load(SeqCst), 1, "the key is in use");
    drop(key);
    assert_eq!((states.live.load(SeqCst), keyed.len()), (1, 1), "its turn has not come");
    queue.run_until_idle();
    assert_eq!((states.live.load(SeqCst), keyed.len()), (0, 0));
}

#[test]
fn panics_keep_the_key_usable() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let keyed = Keyed::with_state(move |_: &&str| count.fetch_add(1, SeqCst));
    let key = keyed.key("a").unwrap();
    let panicked = |outcome: Result<(), RunError<()>>| match outcome {
        Err(RunError::Panicked(text)) => assert_eq!(&*text, "oops"),
        other => panic!("{other:?}"),
    };
    for n in 0..size(100, 1000) {
        assert_eq!(keyed.run("a", |made| *made), Ok(3 * n));
        let felt =
            catch_unwind(AssertUnwindSafe(|| keyed.run("a", |_| -> () { quiet_panic("oops") })));
        assert_eq!(felt.unwrap_err().downcast_ref(), Some(&"oops"));
        assert_eq!(key.run(|made| *made), Ok(3 * n + 1), "a fresh state");
        panicked(key.run_within(Limits::NONE, |_| quiet_panic("oops")));
        assert_eq!(key.run(|made| *made), Ok(3 * n + 2));
        panicked(keyed.run_all(["a", "b"], Limits::NONE, |_| quiet_panic("oops")));
        made.fetch_sub(1, SeqCst); // that of b
    }
    drop(key);
    assert!(keyed.is_empty());
}

#[test]
fn states_that_panic() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            quiet_panic("in a drop");
        }
    }
    let keyed = Keyed::with_state(|key: &u32| if *key == 0 { quiet_panic("make") } else { Bad });
    assert_eq!(keyed.run_within(0, Limits::NONE, |_| ()), Err(RunError::Panicked("make".into())));
    assert_eq!(keyed.run(1, |_| 1), Ok(1));
    assert_eq!(keyed.run_all([2, 1], Limits::NONE, |_| 2), Ok(2));
    let both = keyed.run_all([0, 1], Limits::NONE, |_| ());
    assert_eq!(both, Err(RunError::Panicked("make".into())));
    drop(keyed.key(3).unwrap());
    let key = keyed.key(3).unwrap();
    assert_eq!(key.run(|_| 3), Ok(3));
    drop(key);
    assert!(keyed.is_empty());
}

thread_local! {
    static IN_EQ: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// A key whose `Eq` and `Drop` run given code.
struct Odd(u32);

impl PartialEq for Odd {
    fn eq(&self, other: &Self) -> bool {
        if let Some(f) = IN_EQ.get() {
            f();
        }
        self.0 == other.0
    }
}

impl Eq for Odd {}

impl Hash for Odd {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        if self.0 == 13 {
            quiet_panic("a key's drop");
        }
    }
}

static ODD: std::sync::OnceLock<Keyed<Odd, String>> = std::sync::OnceLock::new();
static USED: Mutex<Vec<turnwise_locks::Key<Odd, String>>> = Mutex::new(Vec::new());

#[test]
fn keys_that_misbehave() {
    let keyed = ODD.get_or_init(|| Keyed::with_state(|_| "a state".to_string()));
    let run = |key| catch_unwind(AssertUnwindSafe(|| keyed.run(Odd(key), |state| state.len())));
    let key = keyed.key(Odd(1)).unwrap();
    let misbehaved = |f: fn()| {
        IN_EQ.set(Some(f));
        let ran = run(1);
        IN_EQ.set(None);
        ran
    };
    assert!(misbehaved(|| quiet_panic("eq")).is_err());
    // Coming back from there is refused, with a panic.
    let back = misbehaved(|| drop(ODD.get().unwrap().run(Odd(1), |_| ())));
    assert!(back.is_err());
    // The last use of some key ends there, with its state.
    let other = keyed.key(Odd(2)).unwrap();
    other.run(|state| state.push('!')).unwrap();
    USED.lock().unwrap().push(other);
    assert_eq!(misbehaved(|| USED.lock().unwrap().clear()).unwrap(), Ok(7));
    until("another thread has let go of it", || keyed.len() == 1);
    assert_eq!(run(2).unwrap(), Ok(7));
    assert_eq!(run(1).unwrap(), Ok(7));
    drop(key);
    // A key whose drop panics.
    assert_eq!(run(13).unwrap(), Ok(7));
    assert_eq!(keyed.len(), 0);
}

#[test]
fn forgotten_runs_run() {
    let keyed = Keyed::new();
    let ran = Arc::new(AtomicUsize::new(0));
    while_busy(&keyed, "a", || {
        for n in 0..10 {
            let ran = ran.clone();
            let run = keyed.start("a", Limits::NONE, move |()| ran.fetch_add(1, SeqCst));
            if n % 2 == 0 { std::mem::forget(run) } else { drop(run) }
        }
    });
    until("all is over", || keyed.is_empty());
    assert_eq!(ran.load(SeqCst), 10);
}

#[test]
fn closures_that_come_back() {
    struct Back(Keyed<&'static str>, Arc<AtomicUsize>);
    impl Drop for Back {
        fn drop(&mut self) {
            // The same key, from the drop of what a closure has captured.
            let ran = self.1.clone();
            drop(self.0.start("a", Limits::NONE, move |()| ran.fetch_add(1, SeqCst)));
            quiet_panic("a capture's drop");
        }
    }
    let keyed = Keyed::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let back = Back(keyed.clone(), ran.clone());
    let outcome = keyed.run_within("a", Limits::NONE, move |()| drop(back));
    assert_eq!(outcome, Err(RunError::Panicked("a capture's drop".into())));
    until("all is over", || keyed.is_empty());
    assert_eq!(ran.load(SeqCst), 1);
    while_busy(&keyed, "a", || {
        let back = Back(keyed.clone(), ran.clone());
        let run = keyed.start("a", Limits::NONE, move |()| std::mem::forget(back));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(run.cancel()))).is_err());
    });
    until("all is over", || keyed.is_empty());
    assert_eq!(ran.load(SeqCst), 2);
}

#[test]
fn ones_own_key_is_a_deadlock() {
    fn refused(run: Result<(), impl Into<RunError<()>>>) {
        let run = run.map_err(Into::into);
        assert!(matches!(run, Err(RunError::NotStarted(NotStarted::Deadlock(_)))), "{run:?}");
    }
    let keyed = Keyed::new();
    let key = keyed.key("a").unwrap();
    let inside = || {
        let mut cx = Context::from_waker(Waker::noop());
        refused(keyed.run("a", |()| ()));
        refused(keyed.run_within("a", Limits::NONE, |()| panic!("never")));
        refused(keyed.run_all(["b", "a"], Limits::NONE, |_| panic!("never")));
        refused(key.run(|()| ()));
        refused(key.run_within(Limits::NONE, |()| panic!("never")));
        assert!(keyed.try_run("a", |()| ()).is_err());
        assert!(key.try_run(|()| ()).is_err());
        let polled = pin!(keyed.start("a", Limits::NONE, |()| panic!("never"))).poll(&mut cx);
        let Poll::Ready(polled) = polled else { panic!("it waits") };
        refused(polled);
    };
    keyed.run("a", |()| keyed.run("c", |()| inside()).unwrap()).unwrap();
    drop(key);
    assert!(keyed.is_empty());
}

#[test]
fn of_two_keys_that_wait_for_each_other_one_is_told() {
    let keyed = Arc::new(Keyed::new());
    for limit in [Limits::NONE, Limits::wait(Duration::from_secs(3600))] {
        let both = Arc::new(Barrier::new(2));
        let threads = [("a", "b"), ("b", "a")].map(|(outer, inner)| {
            let (keyed, both) = (keyed.clone(), both.clone());
            thread::spawn(move || {
                let nested = keyed.run(outer, |()| {
                    both.wait();
                    keyed.run_within(inner, limit, |()| ())
                });
                nested.unwrap()
            })
        });
        let told = threads.map(|thread| thread.join().unwrap());
        let is_told = |told: &Result<(), RunError<()>>| {
            matches!(told, Err(RunError::NotStarted(NotStarted::Deadlock(_))))
        };
        assert!(is_told(&told[0]) != is_told(&told[1]), "{told:?}");
        assert!(told[0].is_ok() || told[1].is_ok(), "{told:?}");
    }
}

#[test]
fn several_keys_in_opposite_orders() {
    let keyed = Arc::new(Keyed::new());
    let (done, ended) = mpsc::channel();
    for pair in [[1, 2], [2, 1]] {
        let (keyed, done) = (keyed.clone(), done.clone());
        thread::spawn(move || {
            for _ in 0..size(5_000, 100_000) {
                keyed.run_all(pair, Limits::NONE, |both| assert_eq!(both.len(), 2)).unwrap();
            }
            done.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        ended.recv_timeout(Duration::from_secs(120)).expect("a deadlock");
    }
    until("all is over", || keyed.is_empty());
}

#[test]
fn transfers_keep_the_sum() {
    for pool in [None, Some(ThreadPool::builder().threads(2).build().unwrap())] {
        let mut builder = Keyed::builder().state(|_: &usize| 1000_i64);
        if let Some(pool) = &pool {
            builder = builder.executor(pool.handle());
        }
        let bank = builder.build();
        let accounts: Vec<_> = (0..64).map(|n| bank.key(n).unwrap()).collect();
        let late = AtomicUsize::new(0);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (bank, late) = (&bank, &late);
                scope.spawn(move || {
                    let mut random = thread + 1;
                    for n in 0..size(1_000, 20_000) {
                        random =
                            random * 6_364_136_223_846_793_005_u128 % 18_446_744_073_709_551_557;
                        let (from, to) = (random as usize % 64, (random >> 8) as usize % 64);
                        let limits = match n % 3 {
                            0 => Limits::NONE,
                            1 => Limits::wait(Duration::from_micros(50)),
                            _ => Limits::wait(Duration::ZERO),
                        };
                        let moved = bank.run_all([from, to], limits, move |all| match all {
                            [low, high] => (**low -= 1, **high += 1).1,
                            one => assert_eq!((one.len(), from), (1, to)),
                        });
                        match moved {
                            Ok(()) => {}
                            Err(RunError::NotStarted(_)) => drop(late.fetch_add(1, SeqCst)),
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        let sum: i64 = accounts.iter().map(|account| account.run(|sum| *sum).unwrap()).sum();
        assert_eq!(sum, 64_000);
        drop(accounts);
        until("all is over", || bank.is_empty());
    }
}

#[test]
fn all_or_nothing() {
    let clock = VirtualClock::new();
    let keyed = Keyed::builder().clock(clock.clone()).build();
    thread::scope(|scope| {
        let waiting = while_busy(&keyed, "b", || {
            let waiting = scope.spawn(|| {
                let limit = Duration::from_millis(500);
                keyed.run_all(["c", "b", "a"], Limits::wait(limit), |_| panic!("never"))
            });
            clock.wait_for_sleepers(1);
            assert!(keyed.try_run("a", |()| ()).is_err(), "it holds the first");
            assert!(keyed.try_run("c", |()| ()).is_ok());
            clock.advance(Duration::from_millis(500));
            until("it has given up", || waiting.is_finished());
            assert!(keyed.try_run("a", |()| ()).is_ok());
            waiting
        });
        let waited = Duration::from_millis(500);
        let late = not_started::<()>(NotStarted::TimedOut { waited, key: None });
        assert_eq!(waiting.join().unwrap(), late);
    });
    assert_eq!(keyed.run_all([], Limits::NONE, |none| none.len()), Ok(0));
    until("all is over", || keyed.is_empty());
}

#[test]
fn results_have_their_types() {
    #[derive(Debug, PartialEq)]
    struct TimedOut;
    let keyed = Keyed::new();
    assert_eq!(keyed.run("a", |()| ()), Ok(()));
    assert_eq!(keyed.run_within("a", Limits::NONE, |()| "text".to_string()), Ok("text".into()));
    // The closure's own error is its value.
    let own = keyed.run_within("a", Limits::NONE, |()| Err::<u8, _>(TimedOut));
    assert_eq!(own, Ok(Err(TimedOut)));
    let swapped = keyed.run("a", |()| Ok::<RunError<u8>, u8>(RunError::Taken));
    assert_eq!(swapped, Ok(Ok(RunError::Taken)));
    let boxed = keyed.run("a", |()| Box::new(|n: u32| n + 1) as Box<dyn Fn(u32) -> u32 + Send>);
    assert_eq!(boxed.unwrap()(1), 2);
}

#[test]
fn shutdown_tells_what_became_of_each() {
    let keyed = Keyed::new();
    let key = keyed.key("used").unwrap();
    let (waiting, report) = while_busy(&keyed, "a", || {
        let waiting = keyed.start("a", Limits::NONE, |()| panic!("never"));
        (waiting, keyed.shutdown(Duration::ZERO))
    });
    assert_eq!((report.ended, report.stopped, report.running), (1, 0, 1));
    assert!(matches!(waiting.wait(), Err::<(), _>(RunError::Gone(_))));
    assert_eq!(keyed.run("a", |()| ()), Err(NotStarted::Closed));
    assert_eq!(key.run(|()| ()), Err(NotStarted::Closed));
    assert_eq!(key.try_run(|()| ()).unwrap_err(), NotStarted::Closed);
    assert_eq!(keyed.try_run("b", |()| ()).unwrap_err(), NotStarted::Closed);
    assert!(keyed.key("b").is_err());
    drop(key);
    until("all is over", || keyed.is_empty());
}

#[test]
fn shutdown_runs_what_was_accepted() {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let keyed = Keyed::builder().executor(pool.handle()).build();
    for n in 0..1000 {
        let ran = ran.clone();
        drop(keyed.start(n % 10, Limits::NONE, move |()| ran.fetch_add(1, SeqCst)));
    }
    assert!(keyed.shutdown(Duration::from_secs(60)).is_complete());
    assert_eq!(ran.load(SeqCst), 1000);
    until("all is over", || keyed.is_empty());
}

#[test]
fn an_executor_that_is_gone() {
    let queue = DrainQueue::new();
    let keyed = Keyed::builder().state(|_: &u32| vec![1]).executor(queue.handle()).build();
    let waiting = keyed.start(1, Limits::NONE, |_| ());
    let key = keyed.key(2).unwrap();
    drop(queue);
    assert!(matches!(waiting.wait(), Err(RunError::Gone(_))));
    assert!(matches!(keyed.run(1, |_| ()), Err(NotStarted::Closed)));
    assert!(matches!(key.run_within(Limits::NONE, |_| ()), Err(RunError::Gone(_))));
    assert!(keyed.try_run(1, |_| ()).is_err());
    drop(key);
    assert!(keyed.is_empty());
}

#[test]
fn more_keys_than_a_stack_holds_are_refused() {
    let keyed: Keyed<u64, u64> = Keyed::with_state(|_| 0);
    // On the stack of a thread that has the usual size.
    let (most, more) = thread::spawn(move || {
        let most = keyed.run_all(0..64, Limits::NONE, |states| states.len());
        let more = keyed.run_all(0..5_000, Limits::NONE, |states| states.len());
        assert!(keyed.is_empty());
        (most, more)
    })
    .join()
    .unwrap();
    assert_eq!(most, Ok(64));
    assert_eq!(more, not_started(NotStarted::TooManyKeys { most: 64 }));
}

/// A call that does not wait for a key does not wait for a pool, either.
#[test]
fn a_wait_of_zero_does_not_wait_for_a_pool() {
    must_end(|| {
        // Without another thread that helps, some milliseconds later, a worker that is stuck.
        let pool = ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build().unwrap();
        let keyed = Keyed::builder().executor(pool.handle()).build();
        let raffle = Admission::builder(InMemory, 9).executor(pool.handle()).open().unwrap();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let hold = keyed.start("a", Limits::NONE, move |()| {
            begin.send(()).unwrap();
            ended.recv().unwrap();
        });
        begun.recv().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let zero = Duration::ZERO;
        let key = keyed.key("c").unwrap();
        assert_eq!(
            keyed.run_within("b", Limits::wait(zero), |()| ()),
            not_started(NotStarted::Busy { key: None })
        );
        assert_eq!(
            runtime.block_on(keyed.start("b", Limits::wait(zero), |()| ())),
            not_started(NotStarted::Busy { key: None })
        );
        assert_eq!(
            runtime.block_on(key.start(Limits::wait(zero), |()| ())),
            not_started(NotStarted::Busy { key: None })
        );
        assert_eq!(
            key.run_async(Limits::wait(zero), async |()| ()).wait(),
            not_started(NotStarted::Busy { key: None })
        );
        assert_eq!(
            keyed.run_all(["b", "d"], Limits::wait(zero), |_| ()),
            not_started(NotStarted::Busy { key: None })
        );
        assert_eq!(keyed.try_run("b", |()| ()).unwrap_err(), NotStarted::Busy { key: None });
        assert_eq!(key.try_run(|()| ()).unwrap_err(), NotStarted::Busy { key: None });
        assert!(matches!(raffle.apply("ada", Limits::wait(zero)).wait(), Err(Refused::Busy)));
        end.send(()).unwrap();
        hold.wait().unwrap();
        // A worker that is free comes to it, sooner or later in time.
        while keyed.run_within("b", Limits::wait(zero), |()| ()).is_err() {}
        while raffle.apply("ada", Limits::wait(zero)).wait().is_err() {}
        keyed.shutdown(Duration::MAX);
        let closed = keyed.try_run("b", |()| ()).unwrap_err();
        assert_eq!(closed, NotStarted::Closed);
    });
}

#[test]
fn a_run_that_has_begun_is_not_refused_as_not_started() {
    must_end(|| {
        let keyed = Keyed::new();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let (come, came) = mpsc::channel();
        let other = thread::spawn(move || {
            let starts = |_: &mut ()| {
                // It begins on this thread, when the turn that starts it is over.
                let run = keyed.start("a", Limits::NONE, move |()| {
                    begin.send(()).unwrap();
                    ended.recv().unwrap();
                });
                come.send(run).unwrap();
            };
            keyed.run("a", starts).unwrap();
        });
        let run: Run<()> = came.recv().unwrap();
        begun.recv().unwrap();
        let pool = ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build().unwrap();
        let waits = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        let refused = waits.call(move |()| run.wait()).wait().unwrap();
        assert_eq!(refused, Err(RunError::NotAwaited(Reason::WouldBlock)));
        end.send(()).unwrap();
        other.join().unwrap();
    });
}

/// Those that wait are counted, whatever call they came by, and give their places back.
#[test]
fn a_key_takes_as_many_waiting_runs_as_it_may() {
    fn full<R>(outcome: Result<R, impl Into<RunError<R>>>) -> bool {
        let outcome = outcome.map_err(Into::into);
        matches!(outcome, Err(RunError::NotStarted(NotStarted::Full { .. })))
    }
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let here = Keyed::builder().capacity(2).build();
    let there = Keyed::builder().capacity(2).executor(pool.handle()).build();
    for keyed in [here, there] {
        let key = keyed.key("a").unwrap();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let same = keyed.clone();
        let holder = thread::spawn(move || {
            same.run_within("a", Limits::NONE, move |()| {
                begin.send(()).unwrap();
                ended.recv().unwrap();
            })
        });
        begun.recv().unwrap();
        let first = keyed.start("a", Limits::NONE, |()| 1);
        let second = key.run_async(Limits::NONE, async |()| 2);
        assert!(full(keyed.run("a", |()| ())) && full(key.run(|()| ())));
        assert!(full(keyed.start("a", Limits::wait(SECOND), |()| ()).wait()));
        assert!(full(key.start(Limits::wait(SECOND), |()| ()).wait()));
        assert!(full(keyed.run_async("a", Limits::wait(SECOND), async |()| ()).wait()));
        assert!(full(key.run_async(Limits::wait(SECOND), async |()| ()).wait()));
        assert!(full(keyed.run_all(["b", "a"], Limits::NONE, |_| ())));
        assert_eq!(keyed.run("b", |()| 3), Ok(3));

        assert!(first.cancel().is_ok());
        let third = key.start(Limits::NONE, |()| 4);
        assert!(full(key.run(|()| ())));
        end.send(()).unwrap();
        assert_eq!((second.wait(), third.wait()), (Ok(2), Ok(4)));
        holder.join().unwrap().unwrap();
        until("a place is free", || key.run(|()| 5) == Ok(5));
        drop(key);
        until("the key is gone", || keyed.is_empty());
    }
    let none = Keyed::builder().capacity(0).build();
    none.run(1, |()| assert!(full(none.start(1, Limits::NONE, |()| ()).wait()))).unwrap();
    assert_eq!(none.run(1, |()| 6), Ok(6));
}

/// A call that would wait for itself is an error, whatever room there is; one that leaves its run
/// to others is not.
#[test]
fn a_run_that_would_wait_for_itself_is_a_deadlock_without_room_too() {
    fn circle<R>(outcome: Result<R, impl Into<RunError<R>>>) -> bool {
        let outcome = outcome.map_err(Into::into);
        matches!(outcome, Err(RunError::NotStarted(NotStarted::Deadlock(_))))
    }
    fn full<R>(outcome: Result<R, impl Into<RunError<R>>>) -> bool {
        let outcome = outcome.map_err(Into::into);
        matches!(outcome, Err(RunError::NotStarted(NotStarted::Full { .. })))
    }
    let keyed = Keyed::<String>::builder().capacity(0).build();
    let key = keyed.key("a".into()).unwrap();
    let nested = || {
        let within = Limits::wait(SECOND);
        assert!(circle(keyed.run("a".into(), |()| ())) && circle(key.run(|()| ())));
        assert!(circle(keyed.run_within("a".into(), within, |()| ())));
        assert!(circle(key.run_within(within, |()| ())));
        assert!(circle(keyed.entry_ref("a").run(|()| ())));
        assert!(circle(keyed.entry_ref("a").run_within(within, |()| ())));
        assert!(circle(keyed.run_all(["a".into(), "c".into()], within, |_| ())));
        assert!(full(keyed.start("a".into(), within, |()| ()).wait()));
        assert!(full(key.start(within, |()| ()).wait()));
        // Another thread may wait for this one.
        let full = thread::scope(|scope| {
            scope.spawn(|| full(keyed.run("a".into(), |()| ())) && full(key.run(|()| ()))).join()
        });
        assert!(full.unwrap());
    };
    keyed.run("a".into(), |()| nested()).unwrap();
    // Through another key.
    keyed.run("a".into(), |()| keyed.run("b".into(), |()| nested()).unwrap()).unwrap();
    // What is not taken leaves its place.
    assert_eq!(keyed.run("a".into(), |()| 1), Ok(1));
}

#[test]
fn the_bound_of_waiting_runs_is_exact_among_threads() {
    const CAPACITY: u32 = 3;
    let keyed = Keyed::builder().capacity(CAPACITY).build();
    let (ran, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let outcome = keyed.run(7, |()| {
                        let waiting = keyed.info(&7).unwrap().runs;
                        most.fetch_max(waiting, SeqCst);
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        inside.fetch_sub(1, SeqCst);
                    });
                    match outcome {
                        Ok(()) => ran.fetch_add(1, SeqCst),
                        Err(NotStarted::Full { .. }) => refused.fetch_add(1, SeqCst),
                        Err(other) => panic!("{other}"),
                    };
                }
            });
        }
    });
    assert_eq!(ran.load(SeqCst) + refused.load(SeqCst), 16_000);
    // One runs.
    assert!(most.load(SeqCst) <= CAPACITY as usize + 1);
    assert!(keyed.is_empty());
}

#[test]
fn a_registry_is_shut_down_by_a_task() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let keyed = Keyed::new();
    let (end, ended) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let same = keyed.clone();
    let holder = thread::spawn(move || {
        same.run("a", move |()| {
            begin.send(()).unwrap();
            ended.recv().unwrap();
        })
    });
    begun.recv().unwrap();
    let waits = keyed.start("a", Limits::NONE, |()| ());
    // The call closes.
    let closing = keyed.shutdown_async(Duration::from_millis(5));
    assert_eq!(keyed.run("b", |()| ()), Err(NotStarted::Closed));
    let report = runtime.block_on(closing);
    assert_eq!((report.ended, report.running), (0, 1));
    end.send(()).unwrap();
    holder.join().unwrap().unwrap();
    assert!(matches!(waits.wait(), Err(RunError::Gone(_))));
    assert!(runtime.block_on(keyed.shutdown_async(SECOND)).is_complete());
}

/// A key that counts its clones, and does something in each.
struct Cloned(u32, Arc<dyn Fn(u32) + Send + Sync>);

impl Clone for Cloned {
    fn clone(&self) -> Self {
        (self.1)(self.0);
        Cloned(self.0, self.1.clone())
    }
}

impl PartialEq for Cloned {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Cloned {}

impl std::hash::Hash for Cloned {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn snapshots_have_the_keys_that_live() {
    let keyed = Keyed::with_state(|_: &u32| ());
    assert!(keyed.snapshot().is_empty());
    let used = keyed.key(1).unwrap();
    keyed
        .run(2, |()| {
            let inner = keyed.start(2, Limits::NONE, |()| ());
            let mut all = keyed.snapshot();
            all.sort_by_key(|(key, _)| *key);
            let all: Vec<_> = all.iter().map(|(key, info)| (*key, info.runs, info.keys)).collect();
            assert_eq!(all, [(1, 0, 1), (2, 2, 0)]);
            inner
        })
        .unwrap()
        .wait()
        .unwrap();
    drop(used);
    assert!(keyed.snapshot().is_empty());
    // By a borrowed key.
    let named = Keyed::<String>::new();
    named.run("a".to_owned(), |()| assert_eq!(named.info("a").unwrap().runs, 1)).unwrap();
    assert!(named.info("a").is_none());
}

#[test]
fn a_clone_that_panics_in_a_snapshot_changes_nothing() {
    let bad = Arc::new(AtomicUsize::new(99));
    let same = bad.clone();
    let clones = Arc::new(move |key| assert!(key as usize != same.load(SeqCst), "no clone"));
    let keyed = Keyed::new();
    let used: Vec<_> = (0..9).map(|key| keyed.key(Cloned(key, clones.clone())).unwrap()).collect();
    for key in 0..9 {
        bad.store(key, SeqCst);
        assert!(catch_unwind(AssertUnwindSafe(|| keyed.snapshot())).is_err());
    }
    bad.store(99, SeqCst);
    assert_eq!(keyed.snapshot().len(), 9);
    drop(used);
    assert!(keyed.is_empty());
}

#[test]
fn a_clone_that_uses_the_registry_in_a_snapshot_panics() {
    let inner = Arc::new(std::sync::OnceLock::<Keyed<Cloned>>::new());
    let same = inner.clone();
    let clones = Arc::new(move |_| assert!(same.get().unwrap().len() < 9));
    let keyed = inner.get_or_init(Keyed::new);
    let used = keyed.key(Cloned(1, clones.clone())).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| keyed.snapshot())).is_err());
    assert_eq!(keyed.len(), 1);
    drop(used);
}

/// A state whose drop waits until it may go on.
struct Lingers(mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>);

impl Drop for Lingers {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
        self.1.lock().unwrap().recv().unwrap();
    }
}

#[test]
fn the_end_of_a_kept_state_takes_no_place_of_a_run() {
    must_end(|| {
        let (dropping, drops) = mpsc::channel();
        let (go, goes) = mpsc::channel();
        let goes = Arc::new(Mutex::new(goes));
        let (clock, ms) = (VirtualClock::new(), Duration::from_millis(1));
        let timers = Timers::by_hand(clock.clone());
        let keyed = Keyed::builder()
            .state(move |_: &u32| Lingers(dropping.clone(), goes.clone()))
            .capacity(0)
            .keep_alive(ms)
            .timers(timers.clone())
            .build();
        keyed.run(1, |_| ()).unwrap();
        clock.advance(2 * ms);
        timers.run_due();
        drops.recv().unwrap();
        let next = keyed.start(1, Limits::NONE, |_| 7);
        go.send(()).unwrap();
        go.send(()).unwrap(); // for its own state
        assert_eq!(next.wait(), Ok(7));
    });
}

#[test]
fn runs_are_counted_by_what_became_of_them() {
    assert_eq!(Keyed::<u32>::new().stats(), None);
    let clock = VirtualClock::new();
    let keyed = Keyed::builder().counted(true).capacity(1).clock(clock.clone()).build();
    let (key, ms) = (keyed.key(1).unwrap(), Duration::from_millis(1));
    let lease = Limits::NONE.lease(ms);
    let long = clock.clone();
    assert!(keyed.run_within(1, lease, move |()| long.advance(2 * ms)).is_err()); // overran
    assert!(catch_unwind(AssertUnwindSafe(|| key.run(|()| panic!("planned")))).is_err());
    drop(keyed.run_async(1, Limits::NONE, async |()| ()).wait());
    drop(keyed.run_async(1, Limits::NONE, async |()| std::future::pending::<()>().await).wait());
    let waits = keyed.run(1, |()| {
        assert!(keyed.try_run(1, |()| ()).is_err()); // busy
        assert!(key.try_run(|()| ()).is_err()); // busy
        assert!(keyed.run(1, |()| ()).is_err()); // a circle
        let waits = keyed.start(1, Limits::wait(ms), |()| ());
        assert!(keyed.start(1, Limits::NONE, |()| ()).wait().is_err()); // full
        assert!(key.run(|()| ()).is_err()); // full
        clock.advance(2 * ms);
        waits
    });
    assert!(waits.unwrap().wait().is_err()); // late
    assert_eq!(keyed.run_all([1, 2], Limits::NONE, |_| 7), Ok(7));
    drop(key);
    keyed.shutdown(SECOND);
    assert!(keyed.run(1, |()| ()).is_err()); // closed
    let stats = keyed.stats().unwrap();
    assert_eq!((stats.ran, stats.overran, stats.panicked, stats.cut), (1 + 1 + 1 + 2, 1, 1, 1));
    assert_eq!(stats.not_started, 7);
}

/// Each call is counted once, whatever becomes of it.
#[test]
fn all_runs_of_many_threads_are_counted() {
    const THREADS: u64 = 4;
    let calls = size(500, 20_000) as u64;
    let keyed = Keyed::builder().counted(true).capacity(2).build();
    let (ran, panicked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (keyed, ran, panicked) = (&keyed, &ran, &panicked);
            scope.spawn(move || {
                let used = keyed.key(0).unwrap();
                for n in 0..calls {
                    let (ran, panicked) = (ran.clone(), panicked.clone());
                    let run = move |(): &mut ()| {
                        if n % 11 == 0 {
                            panicked.fetch_add(1, SeqCst);
                            panic!("planned");
                        }
                        ran.fetch_add(1, SeqCst);
                    };
                    let wait = Limits::wait(Duration::from_micros(n % 50));
                    match (n + thread) % 6 {
                        0 => drop(catch_unwind(AssertUnwindSafe(|| keyed.run(n % 3, run)))),
                        1 => drop(catch_unwind(AssertUnwindSafe(|| keyed.try_run(n % 3, run)))),
                        2 => drop(keyed.run_within(n % 3, wait, run)),
                        3 => drop(keyed.start(n % 3, Limits::NONE, run)),
                        4 => drop(keyed.start(n % 3, wait, run).cancel()),
                        _ => drop(catch_unwind(AssertUnwindSafe(|| used.run(run)))),
                    }
                }
            });
        }
    });
    assert!(keyed.shutdown(Duration::from_secs(60)).is_complete());
    let stats = keyed.stats().unwrap();
    assert_eq!(stats.ran, ran.load(SeqCst) as u64);
    assert_eq!(stats.panicked, panicked.load(SeqCst) as u64);
    assert_eq!(stats.ran + stats.panicked + stats.not_started, THREADS * calls);
    assert!(stats.cut == 0 && stats.ran > 0 && stats.not_started > 0);
}

#[test]
fn keys_are_called_by_their_names() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let names = move |key: &u32| {
        counted.fetch_add(1, SeqCst);
        format!("order {key}")
    };
    let keyed = Keyed::builder().names(names).build();
    let circle = |key, outcome: Result<(), NotStarted>| match outcome {
        Err(NotStarted::Deadlock(circle)) => {
            assert_eq!(circle.actors(), [format!("order {key}")]);
        }
        other => panic!("{other:?}"),
    };
    keyed.run(7, |()| circle(7, keyed.run(7, |()| ()))).unwrap();
    keyed.try_run(8, |()| circle(8, keyed.run(8, |()| ()))).unwrap();
    let nine = keyed.key(9).unwrap();
    nine.run(|()| circle(9, keyed.run(9, |()| ()))).unwrap();
    // Once for each key that comes into use.
    assert_eq!(asked.load(SeqCst), 3);
    drop(nine);
    keyed.run(9, |()| ()).unwrap();
    assert_eq!((asked.load(SeqCst), keyed.len()), (4, 0));

    // Its panic is that of the call, and the key stays usable. It may use the registry.
    let inner = Arc::new(std::sync::OnceLock::<Keyed<u32>>::new());
    let same = inner.clone();
    let keyed = Keyed::builder().names(move |key| {
        assert!(*key != 1, "no name");
        if *key == 2 {
            same.get().unwrap().run(2 + 1, |()| ()).unwrap();
        }
        String::new()
    });
    let keyed = inner.get_or_init(|| keyed.build());
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(|| keyed.run(1, |()| ()))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| keyed.try_run(1, |()| ()).is_ok())).is_err());
    }
    assert_eq!(keyed.run(2, |()| 5), Ok(5));
    assert!(keyed.is_empty());
}

/// A key that hashes to another number each time is not found again, and other keys are theirs.
#[test]
fn keys_whose_hash_changes_harm_nobody() {
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    #[derive(Clone, PartialEq, Eq)]
    struct Fickle(u32);
    impl Hash for Fickle {
        fn hash<H: Hasher>(&self, state: &mut H) {
            match self.0 {
                0 => LOOKS.fetch_add(1, SeqCst).hash(state),
                number => number.hash(state),
            }
        }
    }
    must_end(|| {
        let keyed = Keyed::builder().names(|key: &Fickle| key.0.to_string()).build();
        let kept: Vec<_> = (1..100).map(|number| keyed.key(Fickle(number)).unwrap()).collect();
        for _ in 0..500 {
            keyed.run(Fickle(0), |()| ()).unwrap();
        }
        assert_eq!(keyed.len(), kept.len());
        for (number, key) in (1..).zip(&kept) {
            key.run(|()| assert!(keyed.try_run(Fickle(number), |()| ()).is_err())).unwrap();
        }
        drop(kept);
        assert!(keyed.is_empty());
    });
}
