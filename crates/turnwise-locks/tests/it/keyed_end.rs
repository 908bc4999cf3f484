//! The end hook of keys: each state that was made ends once, in a turn of its key.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{EndCause, StopCause, VirtualClock};
use turnwise_locks::{Keyed, KeyedBuilder, Limits, NotStarted, RunError};

use super::common::{must_end, until};

const MS: Duration = Duration::from_millis(1);
const REQUESTED: EndCause = EndCause::Stopped(StopCause::Requested);

type Registry = Keyed<&'static str, u32>;
type Builder = KeyedBuilder<&'static str, u32>;

/// The states that have ended.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<End>>>);

type End = (&'static str, u32, EndCause);

impl Ends {
    /// A registry that counts the runs of each key, and what it says.
    fn of(set: impl FnOnce(Builder) -> Builder) -> (Registry, Ends) {
        let ends = Ends::default();
        let builder = set(Keyed::builder().state(|_| 0));
        (builder.on_end(ends.hook()).build(), ends)
    }

    fn hook(&self) -> impl Fn(&&'static str, u32, EndCause) + Send + Sync + 'static {
        let ends = self.clone();
        move |key, state, cause| ends.0.lock().unwrap().push((*key, state, cause))
    }

    fn take(&self) -> Vec<End> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn panicked(text: &str) -> EndCause {
    EndCause::Stopped(StopCause::Panicked(text.into()))
}

fn add(n: &mut u32) -> u32 {
    *n += 1;
    *n
}

/// A registry whose hook may use it.
fn with_itself(hook: impl Fn(&Registry, u32) + Send + Sync + 'static) -> Arc<Mutex<Registry>> {
    let place = Arc::new(Mutex::new(Registry::with_state(|_| 0)));
    let own = Arc::downgrade(&place);
    let ends = move |_: &&'static str, state, _: EndCause| {
        let Some(own) = own.upgrade() else { return };
        let keyed = own.lock().unwrap().clone();
        hook(&keyed, state);
    };
    *place.lock().unwrap() = Keyed::builder().state(|_| 0).on_end(ends).build();
    place
}

#[test]
fn a_state_ends_with_the_last_use_of_its_key() {
    let (keyed, ends) = Ends::of(|builder| builder);
    keyed.run("a", add).unwrap();
    assert_eq!(ends.take(), [("a", 1, EndCause::Dropped)]);
    keyed.try_run("a", add).unwrap();
    assert_eq!(ends.take(), [("a", 1, EndCause::Dropped)]);
    keyed.start("a", Limits::NONE, add).wait().unwrap();
    assert_eq!(ends.take(), [("a", 1, EndCause::Dropped)]);
    keyed.run_async("a", Limits::NONE, async |n| add(n)).wait().unwrap();
    assert_eq!(ends.take(), [("a", 1, EndCause::Dropped)]);

    let (one, two) = (keyed.key("a").unwrap(), keyed.key("a").unwrap());
    one.run(add).unwrap();
    two.run(add).unwrap();
    drop(one);
    assert_eq!(ends.len(), 0);
    drop(two);
    assert_eq!(ends.take(), [("a", 2, EndCause::Dropped)]);

    let both = |states: &mut [&mut u32]| states.iter_mut().for_each(|n| **n += 1);
    keyed.run_all(["b", "a"], Limits::NONE, both).unwrap();
    // They are entered one inside of the other.
    assert_eq!(ends.take(), [("b", 1, EndCause::Dropped), ("a", 1, EndCause::Dropped)]);
    assert!(keyed.is_empty());
}

#[test]
fn a_key_without_a_state_has_no_end() {
    let (keyed, ends) = Ends::of(|builder| builder);
    drop(keyed.key("a").unwrap());
    keyed
        .run("b", |_| {
            assert!(keyed.try_run("b", add).is_err());
            assert!(keyed.start("b", Limits::NONE, add).cancel().is_ok());
        })
        .unwrap();
    assert_eq!(ends.take(), [("b", 0, EndCause::Dropped)]);
    let unmade = Keyed::builder().state(|_: &&str| -> u32 { panic!("no state") });
    let unmade = unmade.on_end(ends.hook()).build();
    assert!(unmade.run_within("a", Limits::NONE, add).is_err());
    assert!(unmade.is_empty() && ends.len() == 0);
}

/// It may be half changed: the hook gets it with the reason, and the next run a fresh one.
#[test]
fn a_state_ends_with_a_panic_of_its_run() {
    let (keyed, ends) = Ends::of(|builder| builder);
    let (a, b) = (keyed.key("a").unwrap(), keyed.key("b").unwrap());
    let panics = |n: &mut u32| {
        *n += 7;
        panic!("oops");
    };
    assert!(catch_unwind(AssertUnwindSafe(|| a.run(panics))).is_err());
    assert_eq!(ends.take(), [("a", 7, panicked("oops"))]);
    assert!(a.run_within(Limits::NONE, panics).is_err());
    assert_eq!(ends.take(), [("a", 7, panicked("oops"))]);
    assert!(a.run_async(Limits::NONE, async move |n| panics(n)).wait().is_err());
    assert_eq!(ends.take(), [("a", 7, panicked("oops"))]);
    let all = |_: &mut [&mut u32]| panic!("both");
    assert!(keyed.run_all(["a", "b"], Limits::NONE, all).is_err());
    assert_eq!(ends.take(), [("b", 0, panicked("both")), ("a", 0, panicked("both"))]);
    assert_eq!(a.run(add), Ok(1));
    drop((a, b));
    assert_eq!(ends.take(), [("a", 1, EndCause::Dropped)]);
}

#[test]
fn a_state_ends_when_its_run_is_cut() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let (keyed, ends) = Ends::of(|builder| builder.timers(timers.clone()));
    let hangs = async |n: &mut u32| {
        *n += 7;
        pending::<()>().await;
    };
    let run = keyed.run_async("a", Limits::NONE.lease(5 * MS), hangs);
    clock.advance(5 * MS);
    timers.run_due();
    assert!(matches!(run.wait(), Err(RunError::Cut(_))));
    assert_eq!(ends.take(), [("a", 7, REQUESTED)]);
    let begun = keyed.run_async("a", Limits::NONE, hangs).abort().unwrap_err();
    assert!(matches!(begun.wait(), Err(RunError::Cut(_))));
    until(|| ends.len() == 1 && keyed.is_empty());
    assert_eq!(ends.take(), [("a", 7, REQUESTED)]);
}

#[test]
fn a_hook_that_panics_harms_no_key() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counts = ended.clone();
    let keyed = Keyed::builder().state(|_: &u32| 0).keep_alive(Duration::from_secs(60));
    let keyed = keyed.counted(true).on_end(move |_, _, _| {
        counts.fetch_add(1, SeqCst);
        panic!("of the hook");
    });
    let keyed = keyed.build();
    for key in 0..3 {
        assert_eq!(keyed.run(key, add), Ok(1));
    }
    let fails = catch_unwind(AssertUnwindSafe(|| keyed.run(0, |_| panic!("of the run"))));
    assert_eq!(*fails.unwrap_err().downcast_ref::<&str>().unwrap(), "of the run");
    assert_eq!((ended.load(SeqCst), keyed.run(0, add)), (1, Ok(1)));
    assert!(keyed.shutdown(Duration::MAX).is_complete());
    assert_eq!(ended.load(SeqCst), 4);
    let stats = keyed.stats().unwrap();
    assert_eq!((stats.ran, stats.panicked), (4, 1));
}

/// The hook runs alone: a run that comes meanwhile waits for its end, and has a fresh state.
#[test]
fn a_run_that_comes_meanwhile_has_a_fresh_state() {
    let (entered, is_in) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let left = Mutex::new(left);
    let said = Arc::new(Mutex::new(Vec::new()));
    let (hears, says) = (said.clone(), said.clone());
    let keyed = Keyed::builder().state(|_: &u32| 0).counted(true).on_end(move |_, state, _| {
        entered.send(()).unwrap();
        left.lock().unwrap().recv().unwrap();
        hears.lock().unwrap().push(("ended", state));
    });
    let keyed = keyed.build();
    thread::scope(|scope| {
        scope.spawn(|| keyed.run(1, |n| *n = 7).unwrap());
        is_in.recv().unwrap();
        // The key lives, and no run of it does.
        let info = keyed.info(&1).unwrap();
        assert_eq!((info.runs, keyed.snapshot().len(), keyed.stats().unwrap().ran), (0, 1, 1));
        assert_eq!(keyed.try_run(1, add), Err(NotStarted::Busy { key: None }));
        let next = keyed.start(1, Limits::NONE, move |n| {
            says.lock().unwrap().push(("next", *n));
        });
        assert_eq!(keyed.info(&1).unwrap().runs, 1);
        assert!(!next.is_over());
        leave.send(()).unwrap();
        leave.send(()).unwrap();
        next.wait().unwrap();
    });
    until(|| keyed.is_empty());
    assert_eq!(*said.lock().unwrap(), [("ended", 7), ("next", 0), ("ended", 0)]);
}

#[test]
fn a_hook_may_use_its_registry() {
    must_end(|| {
        let said = Arc::new(Mutex::new(Vec::new()));
        let says = said.clone();
        let place = with_itself(move |keyed, state| {
            if state == 7 {
                // As a closure of the key.
                let own = keyed.run("a", |_| ());
                assert!(matches!(own, Err(NotStarted::Deadlock(_))));
                drop(keyed.start("a", Limits::NONE, |n| *n = 1));
                let circle = keyed.run("b", |_| keyed.run("a", |_| ()));
                assert!(matches!(circle, Ok(Err(NotStarted::Deadlock(_)))));
            }
            says.lock().unwrap().push(state);
        });
        let keyed = place.lock().unwrap().clone();
        keyed.run("a", |n| *n = 7).unwrap();
        until(|| keyed.is_empty());
        // Its own, after that of the other key, and before that of the run that it started.
        assert_eq!(*said.lock().unwrap(), [0, 7, 1]);
    });
}

/// Two hooks, each of which waits for the other's key: one of them is refused.
#[test]
fn hooks_that_wait_for_each_other_are_refused() {
    must_end(|| {
        let (meet, refused) = (Arc::new(std::sync::Barrier::new(2)), Arc::default());
        let counts: Arc<AtomicUsize> = Arc::clone(&refused);
        let place = with_itself(move |keyed, state| {
            let other = ["", "b", "a"][state as usize % 3];
            if !other.is_empty() {
                meet.wait();
                if let Err(NotStarted::Deadlock(_)) = keyed.run(other, |_| ()) {
                    counts.fetch_add(1, SeqCst);
                }
            }
        });
        let keyed = place.lock().unwrap().clone();
        thread::scope(|scope| {
            scope.spawn(|| keyed.run("a", |n| *n = 1).unwrap());
            scope.spawn(|| keyed.run("b", |n| *n = 2).unwrap());
        });
        until(|| keyed.is_empty());
        assert_eq!(refused.load(SeqCst), 1);
    });
}

#[test]
fn a_hook_may_drop_the_last_handle() {
    for keeps in [false, true] {
        let (place, ended) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
        let (its, counts) = (place.clone(), ended.clone());
        let mut builder = Keyed::builder().state(|_: &u32| 0);
        if keeps {
            builder = builder.keep_alive(Duration::from_secs(60));
        }
        let keyed = builder.on_end(move |_, _, _| {
            let last: Option<Keyed<u32, u32>> = its.lock().unwrap().take();
            drop(last);
            counts.fetch_add(1, SeqCst);
        });
        let keyed = keyed.build();
        *place.lock().unwrap() = Some(keyed.clone());
        let (key, other) = (keyed.key(1).unwrap(), keyed.key(2).unwrap());
        key.run(add).unwrap();
        other.run(add).unwrap();
        drop(keyed);
        drop(key);
        if keeps {
            drop(place.lock().unwrap().take());
        }
        drop(other);
        until(|| ended.load(SeqCst) == 2);
        assert!(place.lock().unwrap().is_none());
    }
}

#[test]
fn a_shutdown_ends_all_states() {
    must_end(|| {
        let (keyed, ends) = Ends::of(|builder| builder.keep_alive(Duration::from_secs(60)));
        keyed.run("kept", add).unwrap();
        let used = keyed.key("used").unwrap();
        used.run(add).unwrap();
        let shut_down = || {
            assert_eq!(keyed.shutdown(Duration::ZERO).running, 1);
            let mut ended = ends.take();
            ended.sort_by_key(|end| end.0);
            assert_eq!(ended, [("kept", 1, EndCause::Closed), ("used", 1, EndCause::Closed)]);
        };
        // On another thread, for inside a turn it is not waited for the ends of others.
        let runs = |n: &mut u32| {
            *n = 7;
            thread::scope(|scope| scope.spawn(shut_down).join().unwrap());
        };
        keyed.run("runs", runs).unwrap();
        assert_eq!(ends.take(), [("runs", 7, EndCause::Closed)]);
        assert!(keyed.shutdown(Duration::MAX).is_complete());
        drop(used);
        assert!(keyed.is_empty() && ends.len() == 0);
    });
}

#[test]
fn a_registry_that_is_dropped_ends_what_it_kept() {
    let (keyed, ends) = Ends::of(|builder| builder.keep_alive(Duration::from_secs(60)));
    keyed.run("a", add).unwrap();
    keyed.run("a", add).unwrap();
    assert_eq!(ends.len(), 0);
    drop(keyed);
    assert_eq!(ends.take(), [("a", 2, EndCause::Dropped)]);
}

#[test]
fn a_kept_state_ends_after_its_time() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let (keyed, ends) =
        Ends::of(|builder| builder.timers(timers.clone()).keep_alive(Duration::from_secs(60)));
    keyed.run("a", add).unwrap();
    clock.advance(Duration::from_secs(59));
    timers.run_due();
    keyed.run("a", add).unwrap();
    assert_eq!(ends.len(), 0);
    until(|| {
        clock.advance(Duration::from_secs(1));
        timers.run_due();
        keyed.is_empty()
    });
    assert_eq!(ends.take(), [("a", 2, EndCause::Dropped)]);
}

#[test]
fn a_hook_runs_on_the_executor() {
    let queue = DrainQueue::new();
    let (keyed, ends) = Ends::of(|builder| builder.executor(queue.handle()));
    let key = keyed.key("a").unwrap();
    let run = key.start(Limits::NONE, add);
    queue.run_until_idle();
    assert_eq!(run.wait(), Ok(1));
    drop(key);
    assert_eq!((ends.len(), keyed.len()), (0, 1), "not before its turn");
    queue.run_until_idle();
    assert_eq!((ends.take(), keyed.len()), (vec![("a", 1, EndCause::Dropped)], 0));
}

#[test]
fn states_end_with_an_executor_that_is_gone() {
    for keep in [Duration::ZERO, Duration::from_secs(60)] {
        let queue = DrainQueue::new();
        let (keyed, ends) = Ends::of(|builder| builder.executor(queue.handle()).keep_alive(keep));
        let (waits, used) = (keyed.key("waits").unwrap(), keyed.key("used").unwrap());
        drop((waits.start(Limits::NONE, add), used.start(Limits::NONE, add)));
        queue.run_until_idle();
        drop(waits.start(Limits::NONE, add));
        drop(queue);
        let gone = EndCause::Stopped(StopCause::ExecutorGone);
        assert_eq!(ends.take(), [("waits", 1, gone.clone())]);
        drop((waits, used));
        drop(keyed);
        assert_eq!(ends.take(), [("used", 1, gone)]);
    }
}

/// Whatever becomes of runs, on many threads: each state that is made ends once, and before the
/// next of its key is made.
#[test]
fn each_state_that_is_made_ends_once() {
    const KEYS: usize = 3;
    let (made, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let live: Arc<[AtomicUsize; KEYS]> = Arc::default();
    let (makes, lives) = (made.clone(), live.clone());
    let (ends, dies) = (ended.clone(), live.clone());
    let keyed = Keyed::builder().state(move |key: &usize| {
        makes.fetch_add(1, SeqCst);
        assert_eq!(lives[*key].fetch_add(1, SeqCst), 0, "two states of a key");
    });
    let keyed = keyed.keep_alive(Duration::from_micros(50)).on_end(move |key, (), _| {
        dies[*key].fetch_sub(1, SeqCst);
        ends.fetch_add(1, SeqCst);
    });
    let keyed = keyed.build();
    thread::scope(|scope| {
        for thread in 0..4 {
            let keyed = keyed.clone();
            scope.spawn(move || {
                for n in 0..super::common::size(500, 20_000) {
                    let key = (n + thread) % KEYS;
                    match n % 7 {
                        0 => drop(catch_unwind(AssertUnwindSafe(|| {
                            keyed.run(key, |()| std::panic::resume_unwind(Box::new("planned")))
                        }))),
                        1 => drop(keyed.start(key, Limits::NONE, |()| ()).cancel()),
                        2 => {
                            let hangs = async |_: &mut ()| pending::<()>().await;
                            drop(keyed.run_async(key, Limits::NONE, hangs).abort());
                        }
                        3 => drop(keyed.key(key).map(|key| key.run(|()| ()))),
                        4 => drop(keyed.run_all(0..KEYS, Limits::NONE, |_| ())),
                        5 => drop(keyed.try_run(key, |()| ())),
                        _ => drop(keyed.run(key, |()| ())),
                    }
                }
            });
        }
    });
    assert!(keyed.shutdown(Duration::MAX).is_complete());
    drop(keyed);
    until(|| made.load(SeqCst) == ended.load(SeqCst));
    assert!(live.iter().all(|live| live.load(SeqCst) == 0));
}

#[test]
#[should_panic(expected = "the state comes before its end hook")]
fn a_state_comes_before_its_hook() {
    let _builder = Keyed::<u32>::builder().on_end(|_, (), _| ()).default_state::<u32>();
}
