//! Panics of clocks, keys, hooks and jobs: nothing else of the user's is called or dropped while
//! they unwind the thread.

use std::cell::Cell;
use std::future::{Future, pending};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Clock, MonotonicClock, promise};
use turnwise_locks::rate::{Rate, RateLimits};
use turnwise_locks::ticks::{OncePerTick, Schedule};
use turnwise_locks::{Keyed, Limits, LockError, Locks, Mutexes, Run, RwLocks, SlotPool};

use crate::common::{must_end, until};

const HOUR: Duration = Duration::from_secs(3600);

fn quiet_panic(text: &'static str) -> ! {
    resume_unwind(Box::new(text))
}

/// Says of its thread, when it is called, whether that unwinds.
#[derive(Clone)]
struct Says(Sender<bool>);

impl Says {
    fn say(&self) {
        _ = self.0.send(thread::panicking());
    }

    fn loud(&self) -> Loud {
        Loud(self.clone())
    }
}

/// Says so when it is dropped.
struct Awaits(Says);

impl Wake for Awaits {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Awaits {
    fn drop(&mut self) {
        self.0.say();
    }
}

/// Says so when it is dropped, and panics.
struct Loud(Says);

impl Drop for Loud {
    fn drop(&mut self) {
        self.0.say();
        quiet_panic("a drop");
    }
}

/// A clock that panics at that look, counted from 0.
#[derive(Debug)]
struct Breaks(AtomicUsize, usize);

impl Breaks {
    fn at(look: usize) -> Self {
        Breaks(AtomicUsize::new(0), look)
    }
}

impl Clock for Breaks {
    fn now(&self) -> Duration {
        if self.0.fetch_add(1, SeqCst) == self.1 {
            quiet_panic("a clock");
        }
        MonotonicClock.now()
    }
}

/// A clock that panics while its switch is on.
#[derive(Debug)]
struct Switched(Arc<AtomicBool>);

impl Clock for Switched {
    fn now(&self) -> Duration {
        if self.0.load(SeqCst) {
            quiet_panic("a clock");
        }
        MonotonicClock.now()
    }
}

thread_local! {
    static BROKEN: Cell<Option<Broken>> = const { Cell::new(None) };
}

/// The call of a key that panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    Clone,
    Hash,
    Eq,
    Ord,
}

fn break_if(this: Broken) {
    if BROKEN.get() == Some(this) {
        quiet_panic("a key");
    }
}

/// One that is loud belongs to the call that panics.
struct Key(u32, #[expect(dead_code, reason = "it is there to be dropped")] Option<Loud>);

/// Its copies are silent.
impl Clone for Key {
    fn clone(&self) -> Self {
        break_if(Broken::Clone);
        Key(self.0, None)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        break_if(Broken::Hash);
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        break_if(Broken::Eq);
        self.0 == other.0
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        break_if(Broken::Ord);
        self.0.cmp(&other.0)
    }
}

/// A call that is not given it.
fn silent(loud: Loud) {
    panics("a drop", || drop(loud));
}

/// The call panics with this text.
#[track_caller]
fn panics(text: &str, call: impl FnOnce()) {
    let panicked = catch_unwind(AssertUnwindSafe(call));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), text);
}

type Call<C> = (&'static str, C);

/// The calls' word on their threads: at least one, and none that it unwinds.
#[track_caller]
fn check<C>(calls: &[Call<C>], call: impl Fn(&C, Says)) {
    for (name, call_it) in calls {
        let (tell, told) = mpsc::channel();
        call(call_it, Says(tell));
        let unwinding: Vec<_> = told.iter().collect();
        assert!(!unwinding.is_empty(), "{name}");
        assert!(!unwinding.contains(&true), "{name}: {unwinding:?}");
    }
}

#[test]
fn what_a_call_was_given_is_dropped_before_the_panic_of_its_clock() {
    type Calls = fn(&Keyed<u32>, Loud);
    const CALLS: &[Call<Calls>] = &[
        ("start", |keyed, loud| drop(keyed.start(1, Limits::wait(HOUR), move |()| drop(loud)))),
        ("run_within", |keyed, loud| {
            _ = keyed.run_within(1, Limits::wait(HOUR), move |()| drop(loud))
        }),
        ("run_async", |keyed, loud| {
            drop(keyed.run_async(1, Limits::wait(HOUR), async move |()| drop(loud)));
        }),
        ("run_all", |keyed, loud| {
            _ = keyed.run_all([1, 2], Limits::wait(HOUR), move |_| drop(loud))
        }),
        ("a key's start", |keyed, loud| {
            drop(keyed.key(1).unwrap().start(Limits::wait(HOUR), move |()| drop(loud)));
        }),
        ("a key's run_async", |keyed, loud| {
            drop(keyed.key(1).unwrap().run_async(Limits::wait(HOUR), async move |()| drop(loud)));
        }),
    ];
    must_end(|| {
        check(CALLS, |call, says| {
            let keyed = Keyed::builder().clock(Breaks::at(1)).build(); // which looks once
            panics("a clock", || call(&keyed, says.loud()));
            assert!(keyed.is_empty());
        });
    });
}

#[test]
fn what_a_call_was_given_is_dropped_before_the_panic_of_its_key() {
    type Calls = fn(&Keyed<Key>, Key, Loud);
    const CALLS: &[Call<Calls>] = &[
        ("run", |keyed, key, loud| _ = keyed.run(key, move |()| drop(loud))),
        ("try_run", |keyed, key, loud| drop(keyed.try_run(key, move |()| drop(loud)))),
        ("start", |keyed, key, loud| {
            drop(keyed.start(key, Limits::wait(HOUR), move |()| drop(loud)))
        }),
        ("start at once", |keyed, key, loud| {
            drop(keyed.start(key, Limits::wait(Duration::ZERO), move |()| drop(loud)));
        }),
        ("run_async", |keyed, key, loud| {
            drop(keyed.run_async(key, Limits::wait(HOUR), async move |()| drop(loud)));
        }),
        ("run_async at once", |keyed, key, loud| {
            drop(keyed.run_async(key, Limits::wait(Duration::ZERO), async move |()| drop(loud)));
        }),
        ("key", |keyed, key, loud| {
            silent(loud);
            drop(keyed.key(key));
        }),
        ("run_all", |keyed, key, loud| {
            _ = keyed.run_all([Key(0, None), key], Limits::wait(HOUR), move |_| drop(loud));
        }),
    ];
    must_end(|| {
        for broken in [Broken::Hash, Broken::Eq] {
            check(CALLS, |call, says| {
                let keyed = Keyed::<Key>::new();
                let used = keyed.key(Key(1, None)).unwrap();
                let key = Key(1, Some(says.loud()));
                let loud = says.loud();
                // What a caller has of its own is dropped as it unwinds.
                let call = |key, loud| call(&keyed, key, loud);
                BROKEN.set(Some(broken));
                panics("a key", || call(key, loud));
                BROKEN.set(None);
                drop(used);
                assert!(keyed.is_empty());
            });
        }
    });
}

#[test]
fn a_lock_that_is_asked_for_drops_its_key_before_the_panic_of_that() {
    type Calls = fn(&Locks<Key>, Key);
    const CALLS: &[Call<Calls>] = &[
        ("lock", |locks, key| drop(locks.lock(key))),
        ("try_lock", |locks, key| drop(locks.try_lock(key))),
        ("lock_all", |locks, key| drop(locks.lock_all([key, Key(0, None)], Limits::wait(HOUR)))),
    ];
    must_end(|| {
        for broken in [Broken::Hash, Broken::Eq, Broken::Ord] {
            let calls = if broken == Broken::Ord { &CALLS[2..] } else { CALLS };
            check(calls, |call, says| {
                let locks = Locks::<Key>::new();
                let held = locks.try_lock(Key(1, None)).unwrap();
                let key = Key(1, Some(says.loud()));
                BROKEN.set(Some(broken));
                panics("a key", || call(&locks, key));
                BROKEN.set(None);
                drop(held);
                assert!(locks.is_empty());
                let (rw, mutexes) = (RwLocks::<Key>::new(), Mutexes::<Key, u32>::new());
                BROKEN.set(Some(Broken::Hash));
                panics("a key", || drop(mutexes.lock(Key(1, Some(says.loud())))));
                let both = [Key(2, None), Key(1, Some(says.loud()))];
                panics("a key", || drop(mutexes.lock_all(both, HOUR)));
                BROKEN.set(None);
                BROKEN.set(Some(Broken::Hash));
                panics("a key", || drop(rw.read(Key(1, Some(says.loud())))));
                BROKEN.set(None);
            });
        }
    });
}

#[test]
fn a_rate_and_a_value_drop_their_key_before_a_panic() {
    must_end(|| {
        type Calls = fn(Key);
        const CALLS: &[Call<Calls>] = &[
            ("rate", |key| {
                let limits = RateLimits::new(Rate::new(9, HOUR).unwrap());
                limits.try_acquire(Key(1, None), 1).unwrap();
                BROKEN.set(Some(Broken::Eq));
                drop(limits.try_acquire(key, 1));
            }),
            ("make", |key| {
                let mutexes = Mutexes::with(|_: &Key| -> u32 { quiet_panic("a key") });
                drop(mutexes.lock(key).wait());
            }),
            ("make of several", |key| {
                let mutexes = Mutexes::with(|key: &Key| match key.0 {
                    0 => quiet_panic("a key"),
                    number => number,
                });
                drop(mutexes.lock_all([Key(0, None), key], HOUR).wait());
            }),
        ];
        check(CALLS, |call, says| {
            panics("a key", || call(Key(1, Some(says.loud()))));
            BROKEN.set(None);
        });
    });
}

#[test]
fn a_run_that_is_awaited_lets_its_waker_go_before_the_panic_of_its_clock() {
    type Calls = fn(Run<()>);
    const CALLS: &[Call<Calls>] = &[
        ("wait", |run| _ = run.wait()),
        ("poll", |mut run| _ = Pin::new(&mut run).poll(&mut Context::from_waker(Waker::noop()))),
    ];
    must_end(|| {
        check(CALLS, |call, says| {
            let broken = Arc::new(AtomicBool::new(false));
            let keyed = Keyed::builder().clock(Switched(broken.clone())).build();
            let (promise, reply) = promise::<()>();
            let holds = keyed.run_async(1, Limits::NONE, async move |()| _ = reply.await);
            let mut run = keyed.start(1, Limits::wait(HOUR), |()| ());
            let waker = Waker::from(Arc::new(Awaits(says)));
            assert!(Pin::new(&mut run).poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            broken.store(true, SeqCst);
            panics("a clock", || call(run));
            promise.keep(());
            holds.wait().unwrap();
        });
    });
}

#[test]
fn hooks_and_jobs_of_slots_are_not_called_while_a_thread_unwinds() {
    type Pool = SlotPool<(), ()>;
    // Who asks may have the last reference to the pool.
    type Calls = fn(&mut Option<Pool>, Loud);
    const CALLS: &[Call<Calls>] = &[
        ("acquire", |pool, loud| {
            silent(loud);
            let asked = pool.take().unwrap().acquire(Limits::NONE);
            _ = asked.wait();
        }),
        ("run", |pool, loud| _ = pool.as_ref().unwrap().run(Limits::NONE, |_| drop(loud))),
        ("run_async", |pool, loud| {
            let mut run = pool.take().unwrap().run_async(Limits::NONE, async |_| drop(loud));
            _ = Pin::new(&mut run).poll(&mut Context::from_waker(Waker::noop()));
        }),
    ];
    type Jobs = fn(&Pool);
    const JOBS: &[Call<Jobs>] = &[
        ("run", |pool| _ = pool.run(Limits::NONE, |_| quiet_panic("a job"))),
        ("run_async", |pool| {
            let mut run = pool.run_async(Limits::NONE, async |_| quiet_panic("a job"));
            _ = Pin::new(&mut run).poll(&mut Context::from_waker(Waker::noop()));
        }),
        ("the drop of a job", |pool| {
            let loud = Loud(Says(mpsc::channel().0));
            let mut run = pool.run_async(Limits::NONE, async |_| {
                let _loud = loud;
                pending::<()>().await;
            });
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut run).poll(&mut cx).is_pending());
            drop(run);
            quiet_panic("a job");
        }),
    ];
    /// Its hooks say how they are called, and how they are dropped.
    fn saying(says: &Says, broken: bool) -> Pool {
        let (set_up, clean_up) = (Awaits(says.clone()), Awaits(says.clone()));
        let builder = SlotPool::builder(1).set_up(move |_| {
            let _hook = &set_up;
            if broken { quiet_panic("a hook") } else { Ok(()) }
        });
        let builder = builder.clean_up(move |_, _| {
            clean_up.0.say();
            Ok(())
        });
        builder.build().unwrap()
    }
    must_end(|| {
        check(CALLS, |call, says| {
            let mut pool = Some(saying(&says, true));
            panics("a hook", || call(&mut pool, says.loud()));
        });
        check(JOBS, |call, says| {
            let pool = saying(&says, false);
            panics("a job", || call(&pool));
        });
    });
}

/// The clock of its timers panics when it is armed, and shows the time again in the next tick.
#[test]
fn an_attendance_outlives_a_panic_of_its_clock() {
    must_end(|| {
        let broken = Arc::new(AtomicBool::new(false));
        let clock: Arc<dyn Clock> = Arc::new(Switched(broken.clone()));
        let jobs = OncePerTick::new(Schedule::every(Duration::from_millis(2)));
        let jobs = jobs.timers(Timers::of(&clock));
        let job = move |_| _ = broken.fetch_not(SeqCst);
        let attendance = jobs.attend("job", job);
        until(|| attendance.runs() >= 4);
    });
}

#[test]
fn a_job_of_a_tick_is_dropped_before_the_panic_of_the_wall_clock() {
    type Calls = fn(&OncePerTick, Loud);
    const CALLS: &[Call<Calls>] = &[
        ("try_run", |jobs, loud| _ = jobs.try_run("job", |_| drop(loud))),
        ("attend", |jobs, loud| {
            drop(jobs.attend("job", move |_: u64| _ = &loud));
        }),
    ];
    must_end(|| {
        check(CALLS, |call, says| {
            let schedule = Schedule::every(HOUR);
            let jobs = OncePerTick::new(schedule).wall(|| quiet_panic("a clock"));
            panics("a clock", || call(&jobs, says.loud()));
            assert_eq!(jobs.known(), 0);
        });
    });
}

#[test]
fn a_value_is_not_dropped_while_its_key_unwinds_the_thread() {
    let (tell, told) = mpsc::channel();
    let says = Says(tell);
    let mutexes = Mutexes::with(move |_: &Key| Awaits(says.clone()));
    let asked = mutexes.lock(Key(1, None));
    BROKEN.set(Some(Broken::Clone));
    panics("a key", || drop(asked.wait()));
    BROKEN.set(None);
    for broken in [Broken::Hash, Broken::Eq] {
        let guard = mutexes.lock(Key(1, None)).wait().unwrap();
        BROKEN.set(Some(broken));
        drop(guard);
        BROKEN.set(None);
        mutexes.lock(Key(1, None)).wait().unwrap().remove();
    }
    assert!(told.try_iter().all(|unwinds| !unwinds));
}

#[test]
fn several_locks_are_all_or_none_though_a_key_panics() {
    let locks = Locks::new();
    let first = locks.lock(Key(1, None)).wait().unwrap();
    let mut all = locks.lock_all([1, 2, 3].map(|number| Key(number, None)), Limits::NONE);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut all).poll(&mut cx).is_pending());
    drop(first);
    BROKEN.set(Some(Broken::Hash));
    panics("a key", || _ = Pin::new(&mut all).poll(&mut cx));
    BROKEN.set(None);
    assert!(locks.is_empty(), "the first was given back");
    assert!(matches!(Pin::new(&mut all).poll(&mut cx), Poll::Ready(Err(LockError::Taken))));
}
