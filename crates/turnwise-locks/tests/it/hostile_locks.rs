//! Lock objects among hostile code: keys, threads that end, pools with one thread.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::Wake;
use std::thread;

use crate::common::{must_end, poll, until};
use turnwise::Actor;
use turnwise::executor::ThreadPool;
use turnwise_locks::{Guard, Limits, LockError, Locks, Owner};

#[test]
fn a_guard_in_a_thread_local_is_given_back() {
    thread_local! {
        static KEPT: RefCell<Vec<Guard<u32>>> = const { RefCell::new(Vec::new()) };
        static LATER: RefCell<Vec<Guard<u32>>> = const { RefCell::new(Vec::new()) };
    }
    must_end(|| {
        let locks = Locks::new();
        for first in [false, true] {
            let inside = locks.clone();
            thread::spawn(move || {
                // Destroyed after, or before, what the locks have of the thread.
                if first {
                    KEPT.with_borrow_mut(|_| ());
                }
                LATER.with_borrow_mut(|kept| kept.push(inside.lock(1).wait().unwrap()));
                KEPT.with_borrow_mut(|kept| kept.push(inside.lock(2).wait().unwrap()));
            })
            .join()
            .unwrap();
            assert!(locks.lock(1).wait().is_ok() && locks.lock(2).wait().is_ok());
            assert!(locks.is_empty());
        }
    });
}

#[test]
fn a_panic_gives_back_what_is_held() {
    let locks = Locks::new();
    let (waiting, inside) = (locks.clone(), locks.clone());
    let holds = Arc::new(AtomicBool::new(false));
    let held = holds.clone();
    let panics = thread::spawn(move || {
        let _guard = inside.lock(1).wait().unwrap();
        let _more = inside.lock_all([2, 3], Limits::NONE).wait().unwrap();
        let _asked = inside.lock(1);
        held.store(true, SeqCst);
        until(|| inside.info(&1).wait().unwrap().unwrap().waiting == 2);
        panic!("with guards");
    });
    until(|| holds.load(SeqCst));
    let guard = waiting.lock(1).wait().unwrap();
    assert!(panics.join().is_err());
    drop(guard);
    assert!(locks.is_empty());
}

#[test]
fn keys_whose_drop_panics_harm_nobody() {
    #[derive(PartialEq, Eq, Hash)]
    struct Key(u32);
    impl Drop for Key {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("a key");
            }
        }
    }
    must_end(|| {
        let locks = Locks::new();
        let guard = locks.lock(Key(1)).wait().unwrap();
        // A key that is there already is dropped in the call.
        let waiting = locks.lock(Key(1));
        drop(std::panic::catch_unwind(|| drop(locks.try_lock(Key(1)))));
        drop(waiting);
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(guard))));
        assert!(locks.is_empty());
        let guard = locks.lock(Key(1)).wait().unwrap();
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(guard))));
        assert!(locks.is_empty());
    });
}

#[test]
fn who_has_given_up_is_swept() {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let nobody = Arc::new(Nobody);
    let locks = Locks::new();
    let holder = locks.lock(1).wait().unwrap();
    let last = {
        let kept = locks.lock(1);
        for _ in 0..100_000 {
            let mut acquire = locks.lock(1);
            assert!(poll(&mut acquire, &nobody.clone().into()).is_none());
        }
        kept
    };
    // Each place that is there still keeps its waker.
    let left = Arc::strong_count(&nobody);
    assert!(left < 100, "{left}");
    assert_eq!(locks.info(&1).wait().unwrap().unwrap().waiting, 1);
    drop(holder);
    assert!(last.wait().is_ok());
}

#[test]
fn a_pool_of_one_thread_goes_on() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let (locks, inside) = (Locks::new(), Arc::new(AtomicUsize::new(0)));
        let holder = locks.lock(1).wait().unwrap();
        let actors: Vec<_> =
            (0..4).map(|_| Actor::builder().executor(pool.handle()).spawn(()).unwrap()).collect();
        let replies: Vec<_> = actors
            .iter()
            .map(|actor| {
                let (locks, inside) = (locks.clone(), inside.clone());
                actor.call(move |()| {
                    inside.fetch_add(1, SeqCst);
                    locks.lock(1).wait().map(drop)
                })
            })
            .collect();
        until(|| inside.load(SeqCst) > 0);
        drop(holder);
        for reply in replies {
            match reply.wait().unwrap() {
                Ok(()) | Err(LockError::WouldBlock) => {}
                Err(error) => panic!("{error}"),
            }
        }
        until(|| locks.is_empty());
    });
}

#[test]
fn owners_in_a_long_queue() {
    let locks = Locks::new();
    let holder = locks.lock(1).wait().unwrap();
    let owners: Vec<_> = (0..1_000).map(|_| Owner::new()).collect();
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.extend(owners.iter().map(|owner| locks.lock_as(owner, 1, Limits::NONE)));
    }
    drop(holder);
    let second = waiting.split_off(1_000);
    for (one, two) in waiting.into_iter().zip(second) {
        assert!(one.is_ready() && two.is_ready());
        let (one, two) = (one.wait().unwrap(), two.wait().unwrap());
        assert_eq!(one.fence(), two.fence());
    }
    assert!(locks.is_empty());
}

#[test]
fn what_is_polled_inside_the_own_turn_holds_nothing() {
    let permits = turnwise_locks::Semaphore::new(1);
    let holder = permits.try_acquire(1).unwrap();
    let inside = permits.clone();
    let wakes = crate::common::Wakes::calling(move || {
        // Its turn is behind this one: it cannot be waited for here.
        let mut acquire = inside.acquire_within(1, Limits::NONE);
        let told = poll(&mut acquire, std::task::Waker::noop());
        assert!(matches!(told, Some(Err(LockError::Deadlock { .. }))));
        // Without an error that says so, it panics.
        let mut acquire = inside.acquire();
        let polled = AssertUnwindSafe(|| poll(&mut acquire, std::task::Waker::noop()));
        assert!(catch_unwind(polled).is_err());
    });
    let mut waiting = permits.acquire();
    assert!(poll(&mut waiting, &wakes.waker()).is_none());
    drop(holder);
    until(|| wakes.count() == 1);
    drop(waiting.wait().unwrap());
    let info = permits.info().wait().unwrap();
    assert_eq!((info.available, info.waiting), (info.permits, 0));
}

#[test]
fn a_refused_closure_comes_back_though_its_keys_drop_panics() {
    #[derive(PartialEq, Eq, Hash)]
    struct Key(bool);
    impl Drop for Key {
        fn drop(&mut self) {
            if self.0 {
                std::panic::resume_unwind(Box::new("a key"));
            }
        }
    }
    let keyed = turnwise_locks::Keyed::new();
    let captured = Arc::new(());
    let inside = keyed.clone();
    let kept = captured.clone();
    let ran = keyed.run(Key(true), move |()| {
        let refused = inside.try_run(Key(true), move |()| drop(kept));
        assert!(refused.is_err());
    });
    assert!(ran.is_ok());
    assert_eq!(Arc::strong_count(&captured), 1);
}

/// Between the look at a key and the start, another call enters it: the drop of the key is there.
#[test]
fn an_attempt_waits_for_nobody() {
    struct Key(Option<Box<dyn FnOnce() + Send + Sync>>);
    impl std::hash::Hash for Key {
        fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
    }
    impl PartialEq for Key {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }
    impl Eq for Key {}
    impl Drop for Key {
        fn drop(&mut self) {
            if let Some(enter) = self.0.take() {
                enter();
            }
        }
    }
    for starts in [false, true] {
        let keyed = turnwise_locks::Keyed::new();
        let used = keyed.key(Key(None)).unwrap();
        let (inside, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (in_there, until_then) = (inside.clone(), over.clone());
        let entering = move || {
            thread::spawn(move || {
                let ran = used.run(|()| {
                    in_there.store(true, SeqCst);
                    until(|| until_then.load(SeqCst));
                });
                ran.unwrap();
            });
            until(|| inside.load(SeqCst));
        };
        let key = Key(Some(Box::new(entering)));
        if starts {
            let run = keyed.start(key, Limits::wait(std::time::Duration::ZERO), |()| ());
            assert!(run.is_over() && run.wait().is_err());
        } else {
            assert!(keyed.try_run(key, |()| ()).is_err());
        }
        over.store(true, SeqCst);
        until(|| keyed.is_empty());
    }
}
