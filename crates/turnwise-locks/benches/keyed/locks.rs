//! Rows of lock objects: a guard instead of a closure, on tokio, whose own ones are the rivals.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::{Duration, Instant};

use dashmap::{DashMap, Entry};
use lockable::{AsyncLimit, LockableHashMap};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, Semaphore};
use turnwise_locks::{Limits, Locks, Mutexes};

use crate::Options;
use crate::race::{Bar, Contestant, Line, race};

const OURS: &str = "turnwise";
const COUNTED: &str = "map of tokio mutexes";
const TOKIO: &str = "tokio";
const MAP: &str = "map of tokio mutexes that stay";
const LOCKABLE: &str = "lockable";
const TIMED: &str = "tokio, and a timer";

/// Mutexes by key, counted: the last user removes it.
#[derive(Clone, Default)]
struct Counted(Arc<DashMap<u64, Entrants>>);

/// The number of threads that hold it or wait for it.
type Entrants = (usize, Arc<Mutex<()>>);

impl Counted {
    async fn with(&self, key: u64, f: impl AsyncFnOnce()) {
        let mutex = {
            let mut entry = self.0.entry(key).or_default();
            entry.0 += 1;
            entry.1.clone()
        };
        let guard = mutex.lock_owned().await;
        f().await;
        drop(guard);
        if let Entry::Occupied(mut entry) = self.0.entry(key) {
            entry.get_mut().0 -= 1;
            if entry.get().0 == 0 {
                entry.remove();
            }
        }
    }
}

fn alone() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// Nanoseconds of each operation of one task.
fn task<F: Future<Output = ()>>(runtime: &Runtime, operations: u64, f: F) -> f64 {
    let begun = Instant::now();
    runtime.block_on(f);
    begun.elapsed().as_nanos() as f64 / operations as f64
}

/// Lock and unlock, uncontended: a key that was never used, each time.
fn fresh(options: &Options) -> Vec<Line> {
    let (runtime, locks, next) = (alone(), Locks::new(), AtomicU64::new(0));
    let ours = Contestant::new(OURS, move |operations| {
        let from = next.fetch_add(operations, Relaxed);
        let took = task(&runtime, operations, async {
            for key in from..from + operations {
                drop(locks.lock(key).await.expect("open"));
            }
        });
        assert!(locks.is_empty(), "keys are left");
        took
    });
    let (runtime, counted, next) = (alone(), Counted::default(), AtomicU64::new(0));
    let theirs = Contestant::new(COUNTED, move |operations| {
        let from = next.fetch_add(operations, Relaxed);
        let took = task(&runtime, operations, async {
            for key in from..from + operations {
                counted.with(key, async || ()).await;
            }
        });
        assert!(counted.0.is_empty(), "keys are left");
        took
    });
    race(options, "lock, unlock, fresh key", &[ours, theirs], &[(COUNTED, 2.0, 1.3)])
}

/// One lock that tasks hand on: a holder gives way once, so the others do wait.
fn handed(options: &Options) -> Vec<Line> {
    const TASKS: u64 = 8;
    fn tasks<F>(operations: u64, one: impl Fn(u64) -> F) -> f64
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = alone();
        let share = operations.div_ceil(TASKS);
        task(&runtime, share * TASKS, async {
            let all: Vec<_> = (0..TASKS).map(|_| tokio::spawn(one(share))).collect();
            for task in all {
                task.await.expect("a task");
            }
        })
    }
    let ours = Contestant::new(OURS, |operations| {
        let locks = Locks::new();
        tasks(operations, |share| {
            let locks = locks.clone();
            async move {
                for _ in 0..share {
                    let _guard = locks.lock(1).await.expect("open");
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    let theirs = Contestant::new(COUNTED, |operations| {
        let counted = Counted::default();
        tasks(operations, |share| {
            let counted = counted.clone();
            async move {
                for _ in 0..share {
                    counted.with(1, async || tokio::task::yield_now().await).await;
                }
            }
        })
    });
    race(options, "lock, yield, unlock, 8 tasks", &[ours, theirs], &[(COUNTED, 1.2, 0.9)])
}

/// Permits that are there: this many in one request, with these limits.
fn permits(
    options: &Options,
    work: &'static str,
    many: u32,
    limits: Limits,
    bars: &[Bar],
) -> Vec<Line> {
    let (runtime, permits) = (alone(), turnwise_locks::Semaphore::new(4));
    let ours = Contestant::new(OURS, move |operations| {
        task(&runtime, operations, async {
            for _ in 0..operations {
                drop(permits.acquire_within(many.into(), limits).await.expect("open"));
            }
        })
    });
    let (runtime, permits) = (alone(), Arc::new(Semaphore::new(4)));
    let theirs = Contestant::new(TOKIO, move |operations| {
        task(&runtime, operations, async {
            for _ in 0..operations {
                drop(permits.clone().acquire_many_owned(many).await.expect("open"));
            }
        })
    });
    let (runtime, permits) = (alone(), Arc::new(Semaphore::new(4)));
    // What ends the hold: a timer that is set, and put out at the release.
    let timed = Contestant::new(TIMED, move |operations| {
        task(&runtime, operations, async {
            for _ in 0..operations {
                let permit = permits.clone().acquire_many_owned(many).await.expect("open");
                let mut timer = pin!(tokio::time::sleep(Duration::from_secs(60)));
                poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx).is_ready())).await;
                drop(permit);
            }
        })
    });
    match limits == Limits::NONE {
        true => race(options, work, &[ours, theirs], bars),
        false => race(options, work, &[ours, theirs, timed], bars),
    }
}

/// A value behind the lock of its key, one of 256 that stay.
fn values(options: &Options) -> Vec<Line> {
    const KEYS: u64 = 256;
    let (runtime, values) = (alone(), Mutexes::<u64, u64>::new());
    let ours = Contestant::new(OURS, move |operations| {
        task(&runtime, operations, async {
            for n in 0..operations {
                *values.lock(n % KEYS).await.expect("open") += 1;
            }
        })
    });
    let (runtime, map) = (alone(), DashMap::<u64, Arc<Mutex<u64>>>::new());
    let theirs = Contestant::new(MAP, move |operations| {
        task(&runtime, operations, async {
            for n in 0..operations {
                let value = map.entry(n % KEYS).or_default().clone();
                *value.lock_owned().await += 1;
            }
        })
    });
    let (runtime, map) = (alone(), Arc::new(LockableHashMap::<u64, u64>::new()));
    let lockable = Contestant::new(LOCKABLE, move |operations| {
        task(&runtime, operations, async {
            for n in 0..operations {
                let unlimited = AsyncLimit::no_limit();
                let held = LockableHashMap::async_lock_owned(&map, n % KEYS, unlimited).await;
                *held.expect("no limit").value_or_insert_with(|| 0) += 1;
            }
        })
    });
    let bars = [(MAP, 2.0, 1.3), (LOCKABLE, 1.0, 0.8)];
    race(options, "a value by key", &[ours, theirs, lockable], &bars)
}

pub(crate) fn rows(options: &Options) -> Vec<Line> {
    let lease = Limits::NONE.lease(Duration::from_secs(60));
    let permits = [
        permits(options, "a permit of a semaphore", 1, Limits::NONE, &[(TOKIO, 1.3, 1.0)]),
        permits(options, "two permits in one request", 2, Limits::NONE, &[(TOKIO, 1.5, 1.0)]),
        permits(options, "a permit with a lease", 1, lease, &[(TIMED, 2.0, 1.2)]),
    ];
    [fresh(options), values(options), handed(options)]
        .into_iter()
        .chain(permits)
        .flatten()
        .collect()
}
