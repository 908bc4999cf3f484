//! Values behind locks by key.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use turnwise::{Limit, VirtualClock, time::Timers};
use turnwise_locks::{Closed, LockError, MutexGuard, Mutexes};

use crate::common::{Wakes, must_end, poll, until};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_value_is_one_and_stays() {
    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let sums = Mutexes::with(move |key: &u64| {
        counted.fetch_add(1, SeqCst);
        10 * key
    });
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..500 {
                    *sums.lock(n % 5).wait().unwrap() += 1;
                }
            });
        }
    });
    for key in 0..5 {
        assert!(!sums.is_locked(&key) && sums.contains_key(&key));
        let sum = sums.try_lock(key).unwrap();
        assert_eq!((*sum.key(), *sum), (key, 10 * key + 400));
        assert_eq!(format!("{sum:?}"), sum.to_string()); // as that of a mutex's guard
    }
    assert_eq!((sums.len(), made.load(SeqCst)), (5, 5));
}

#[test]
fn tasks_hold_it_over_awaits() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let lists = Mutexes::<&'static str, Vec<u32>>::new();
    let tasks = (0..8).map(|task| {
        let lists = lists.clone();
        runtime.spawn(async move {
            for _ in 0..50 {
                let mut list = lists.lock("all").await.unwrap();
                list.push(task);
                tokio::task::yield_now().await;
                let last = list.last().copied();
                assert_eq!(last, Some(task));
                drop(list);
                let two = ["a", "b"];
                for mut list in lists.lock_all(two, Limit::Unlimited).await.unwrap() {
                    list.push(task);
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    for key in ["a", "b", "all"] {
        assert_eq!(lists.try_lock(key).unwrap().len(), 400);
    }
}

#[test]
fn the_order_is_that_of_the_calls_and_limits_end_a_wait() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let all = Mutexes::builder(|_: &u32| 0).timers(timers).build();
    let held = all.lock(1).wait().unwrap();
    assert!(matches!(all.try_lock(1), Err(LockError::Busy { .. })));
    let (gone, mut second) = (all.lock(1), all.lock_within(1, SECOND));
    let mut third = all.lock(1);
    drop(gone);
    let wakes = Wakes::new();
    assert!(poll(&mut second, &wakes.waker()).is_none());
    assert!(third.wait_timeout(Duration::ZERO).is_none());
    clock.advance(SECOND);
    let late = second.wait().unwrap_err();
    assert_eq!(late, LockError::TimedOut { waited: SECOND, key: None });
    let fence = held.fence();
    drop(held);
    let third = third.wait_timeout(Duration::ZERO).unwrap().unwrap();
    assert!(third.fence() > fence);
}

#[test]
fn what_was_removed_is_made_anew() {
    let all = Mutexes::<u32, Vec<u32>>::new();
    all.lock(1).wait().unwrap().push(7);
    let held = all.lock(1).wait().unwrap();
    let next = all.lock(1);
    assert_eq!(held.remove(), [7]);
    let next = next.wait().unwrap();
    assert!(next.is_empty());
    drop(next);
    assert_eq!(all.len(), 1);
}

#[test]
fn a_panic_drops_the_value_it_may_have_changed() {
    let all = Mutexes::<u32, u32>::new();
    *all.lock(1).wait().unwrap() = 7;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut held = all.lock(1).wait().unwrap();
        *held = 8;
        panic!("half");
    }));
    assert!(panicked.is_err());
    assert!(all.is_empty() && !all.is_locked(&1));
    assert_eq!(*all.lock(1).wait().unwrap(), 0);

    // One that is made while the thread unwinds was changed by no panic.
    struct Late(Mutexes<u32, u32>);
    impl Drop for Late {
        fn drop(&mut self) {
            *self.0.lock(2).wait().unwrap() += 1;
        }
    }
    let late = Late(all.clone());
    assert!(
        catch_unwind(AssertUnwindSafe(move || {
            let _late = late;
            panic!("outside");
        }))
        .is_err()
    );
    assert_eq!(*all.lock(2).wait().unwrap(), 1);
}

#[test]
fn a_maker_that_panics_gives_all_back() {
    let broken = Arc::new(AtomicBool::new(false));
    let breaks = broken.clone();
    let all = Mutexes::with(move |key: &u32| {
        assert!(*key != 3 || !breaks.load(SeqCst), "no value");
        *key
    });
    *all.lock(2).wait().unwrap() += 10;
    broken.store(true, SeqCst);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _all = all.lock_all([2, 3, 4], Limit::Unlimited).wait();
    }));
    assert!(panicked.is_err());
    for key in 2..5 {
        assert!(!all.is_locked(&key));
    }
    // It was not touched.
    assert_eq!(*all.lock(2).wait().unwrap(), 12);
    broken.store(false, SeqCst);
    assert_eq!(*all.lock(3).wait().unwrap(), 3);
}

#[test]
fn a_close_ends_what_waits() {
    let all = Mutexes::<u32, u32>::new();
    let held = all.lock(1).wait().unwrap();
    let (mut awaited, waiting) = (all.lock(1), all.lock_within(1, SECOND));
    all.close();
    let closed = poll(&mut awaited, &Wakes::new().waker()).unwrap();
    assert_eq!(closed.unwrap_err(), Closed);
    assert_eq!(waiting.wait().unwrap_err(), LockError::Closed);
    assert_eq!(all.lock_all([1, 2], SECOND).wait().unwrap_err(), LockError::Closed);
    drop(held);
    assert!(!all.is_locked(&1));
}

/// Its `Eq` uses the map that it is a key of.
#[derive(Clone)]
struct Nosy(u32, Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>);

impl PartialEq for Nosy {
    fn eq(&self, other: &Self) -> bool {
        if let Some(call) = self.1.get().or(other.1.get()) {
            call();
        }
        self.0 == other.0
    }
}

impl Eq for Nosy {}

impl Hash for Nosy {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[test]
fn a_comparison_that_comes_back_harms_nobody() {
    must_end(|| {
        let all = Mutexes::<Nosy, u32>::new();
        let quiet = Arc::new(OnceLock::new());
        *all.lock(Nosy(1, quiet.clone())).wait().unwrap() = 7;

        // A use is refused with a panic: the lock of the shard may be this thread's.
        let uses = Arc::new(OnceLock::new());
        let (same, key) = (all.clone(), Nosy(1, quiet.clone()));
        let call = move || {
            let _used = same.contains_key(&key);
        };
        assert!(uses.set(Box::new(call) as Box<dyn Fn() + Send + Sync>).is_ok());
        let nosy = Nosy(1, uses);
        assert!(catch_unwind(AssertUnwindSafe(|| all.contains_key(&nosy))).is_err());

        // A guard that is dropped there is given back, by another thread.
        let held = std::sync::Mutex::new(Some(all.lock(Nosy(2, quiet.clone())).wait().unwrap()));
        let drops = Arc::new(OnceLock::new());
        let call = move || drop(held.lock().unwrap().take());
        assert!(drops.set(Box::new(call) as Box<dyn Fn() + Send + Sync>).is_ok());
        assert!(all.contains_key(&Nosy(1, drops)));
        let key = Nosy(2, quiet.clone());
        until(|| !all.is_locked(&key));
        assert_eq!(*all.lock(Nosy(1, quiet)).wait().unwrap(), 7);
    });
}

#[test]
fn a_value_whose_drop_panics_leaves_its_key_usable() {
    #[derive(Default)]
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0, "dropped");
        }
    }
    let all = Mutexes::<u32, Bomb>::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut held: MutexGuard<u32, Bomb> = all.lock(1).wait().unwrap();
        held.0 = true;
        panic!("first");
    }));
    assert!(panicked.is_err());
    assert!(!all.lock(1).wait().unwrap().0);
}

#[test]
fn values_are_dropped_outside_of_the_turns_of_a_lock() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    #[derive(Default)]
    struct Outside;
    impl Drop for Outside {
        fn drop(&mut self) {
            assert!(!turnwise::in_turn());
            DROPS.fetch_add(1, SeqCst);
        }
    }
    let all = Mutexes::<u32, Outside>::new();
    drop(all.lock(1).wait().unwrap());
    // Of the last guard and the last request, whose ends are turns.
    let (held, next) = (all.lock(2).wait().unwrap(), all.lock(2));
    drop(all);
    drop(held);
    drop(next.wait().unwrap());
    assert_eq!(DROPS.load(SeqCst), 2);

    let all = Mutexes::<u32, Outside>::new();
    let (held, next) = (all.lock(1).wait().unwrap(), all.lock(1));
    drop((all, held));
    drop(next);
    assert_eq!(DROPS.load(SeqCst), 3);
}
