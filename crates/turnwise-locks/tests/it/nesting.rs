//! Wakers that wake the next one, and that the next, take a constant stack.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{Wakes, poll, size};
use turnwise_locks::{Latch, Limits, Locks, Semaphore, SlotPool};

/// Polls a future that is pending; it is woken by a waker that calls `then`, once.
#[track_caller]
fn waits<F: Future + Unpin>(future: &mut F, then: impl FnOnce() + Send + 'static) {
    let then = Mutex::new(Some(then));
    let wakes = Wakes::calling(move || {
        let then = then.lock().unwrap().take();
        then.into_iter().for_each(|then| then());
    });
    assert!(poll(future, &wakes.waker()).is_none());
}

/// Each link is woken by the one before, and wakes the next: `link` makes one that calls `then`,
/// and what wakes it.
fn a_chain_of_wakers<W: FnOnce() + Send + 'static>(
    link: impl Fn(Box<dyn FnOnce() + Send>) -> W + Send + 'static,
) {
    let len = size(10_000, 100_000);
    let chain = move || {
        let woken = Arc::new(AtomicUsize::new(0));
        let mut first: Box<dyn FnOnce() + Send> = Box::new(|| ());
        for _ in 0..len {
            let (next, woken) = (first, woken.clone());
            first = Box::new(link(Box::new(move || {
                woken.fetch_add(1, Relaxed);
                next();
            })));
        }
        first();
        assert_eq!(woken.load(Relaxed), len);
    };
    thread::Builder::new().stack_size(256 * 1024).spawn(chain).unwrap().join().unwrap();
}

#[test]
fn wakers_that_give_the_next_lock_back_need_a_small_stack() {
    a_chain_of_wakers(|then| {
        let locks = Locks::new();
        let held = locks.try_lock(0).unwrap();
        let mut next = locks.lock(0);
        waits(&mut next, then);
        move || {
            drop(held);
            drop(next);
        }
    });
}

#[test]
fn wakers_that_give_the_next_permit_back_need_a_small_stack() {
    a_chain_of_wakers(|then| {
        let permits = Semaphore::new(1);
        let held = permits.try_acquire(1).unwrap();
        let mut next = permits.acquire();
        waits(&mut next, then);
        move || {
            drop(held);
            drop(next);
        }
    });
}

#[test]
fn wakers_that_finish_the_next_slot_need_a_small_stack() {
    a_chain_of_wakers(|then| {
        let pool = SlotPool::new(1).unwrap();
        let held = pool.try_acquire().unwrap();
        let mut next = pool.acquire(Limits::NONE);
        waits(&mut next, then);
        move || {
            drop(held);
            drop(next);
        }
    });
}

#[test]
fn wakers_that_open_the_next_latch_need_a_small_stack() {
    a_chain_of_wakers(|then| {
        let latch = Latch::new(1);
        let mut opened = latch.opened();
        waits(&mut opened, then);
        move || {
            latch.count_down();
            drop(opened);
        }
    });
}
