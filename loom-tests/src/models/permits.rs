//! FAST-1 to FAST-5 of permits that are taken without a turn: where those that take and put back
//! meet those that wait, give up, change the size and close. The semaphore and its timers are those
//! that ship.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::super::limits::Limits;
use super::super::lock::{LockError, Semaphore};
use super::super::time::Timers;
use super::clock::{LIMIT, Steps};
use super::*;
use crate::sync::reached;

/// This number can be had at the end, one by one and together.
fn finish(permits: &Semaphore, many: u64) {
    let held: Vec<_> = (0..many).map(|_| permits.try_acquire(1).expect("it is free")).collect();
    assert!(matches!(permits.try_acquire(1), Err(LockError::Busy { .. })), "a permit too many");
    let info = permits.info().wait().expect("it is open");
    assert_eq!((info.available, info.waiting), (0, 0));
    drop(held);
    assert_eq!(permits.info().wait().expect("it is open").available, many);
    drop(permits.try_acquire(many).expect("they are all there"));
}

/// A fence of another thread, which is looked at after its end. The books of a model are std's.
fn told() -> (Arc<AtomicU64>, Arc<AtomicU64>) {
    let fence = Arc::new(AtomicU64::new(0));
    (fence.clone(), fence)
}

/// FAST-2: two take the one permit, one after the other; the second sees what the first has
/// done, whether it found it there, or was let in.
pub(super) fn permits_taken_against_put_back() {
    let (permits, inside) = (Semaphore::new(1), Written::new());
    let (theirs, their_inside) = (permits.clone(), inside.clone());
    let (their_fence, fence_of) = told();
    let other = spawn(move || {
        let held = theirs.acquire().wait().expect("it comes");
        their_inside.write();
        their_fence.store(held.fence().number(), SeqCst);
    });
    let asked = permits.acquire();
    reached(if asked.is_ready() { "at once" } else { "handed on" });
    let held = asked.wait().expect("it comes");
    inside.write();
    let fence = held.fence().number();
    drop(held);
    other.join();
    assert_ne!(fence_of.load(SeqCst), fence);
    finish(&permits, 1);
}

/// FAST-3: a fast permit ends as a request comes for which nothing is there.
pub(super) fn permits_loan_against_asked() {
    let (permits, inside) = (Semaphore::new(1), Written::new());
    let first = permits.try_acquire(1).expect("it is there");
    let (fence, their_inside) = (first.fence(), inside.clone());
    let ends = spawn(move || {
        their_inside.write();
        drop(first);
    });
    let second = permits.acquire();
    reached(if second.is_ready() { "at once" } else { "waits" });
    let second = second.wait().expect("it comes");
    inside.write();
    assert!(second.fence() > fence);
    ends.join();
    drop(second);
    finish(&permits, 1);
}

/// FAST-3: a fast permit ends as the first of two that wait gives up.
pub(super) fn permits_loan_against_given_up() {
    let (permits, inside) = (Semaphore::new(1), Written::new());
    let first = permits.try_acquire(1).expect("it is there");
    let their_inside = inside.clone();
    let ends = spawn(move || {
        their_inside.write();
        drop(first);
    });
    let (second, third) = (permits.acquire(), permits.acquire());
    drop(second);
    let third = third.wait().expect("it comes");
    inside.write();
    ends.join();
    drop(third);
    finish(&permits, 1);
}

/// FAST-1: a hold of the machine ends, and its permit is taken without a turn: the next holder sees
/// what was done under it.
pub(super) fn permits_lent_again() {
    let timers = Timers::by_hand(Arc::new(Steps::default()));
    let (permits, inside) = (Semaphore::builder(1).timers(timers).build(), Written::new());
    let first = permits.try_acquire(1).expect("it is there");
    // With a lease: without, it would be lent its permit, too.
    let second = permits.acquire_within(1, Limits::NONE.lease(LIMIT));
    drop(first);
    let second = second.wait().expect("it comes");
    let their_inside = inside.clone();
    let ends = spawn(move || {
        their_inside.write();
        drop(second);
    });
    assert!(permits.available() <= 1, "a permit too many");
    let third = permits.acquire().wait().expect("it comes");
    inside.write();
    ends.join();
    drop(third);
    finish(&permits, 1);
}

/// FAST-2: a request is behind the turn of another, which makes room. One that comes after it
/// does not get that.
pub(super) fn permits_asked_behind_a_turn() {
    let permits = Semaphore::new(1);
    let held = permits.try_acquire(1).expect("it is there");
    let theirs = permits.clone();
    let adds = spawn(move || theirs.add(1));
    let first = permits.acquire();
    reached(if first.is_ready() { "there" } else { "on its way" });
    let second = permits.try_acquire(1);
    assert!(second.is_err(), "it has overtaken");
    adds.join();
    drop((held, first.wait().expect("it comes")));
    finish(&permits, 2);
}

/// FAST-2: a request that is on its way is dropped there. The others take without a turn as before.
pub(super) fn permits_given_up_on_the_way() {
    let permits = Semaphore::new(1);
    let held = permits.try_acquire(1).expect("it is there");
    let theirs = permits.clone();
    let adds = spawn(move || theirs.add(1));
    drop(permits.acquire());
    adds.join();
    drop(held);
    finish(&permits, 2);
}

/// FAST-4: one that finds none left comes after the one that took the last; so does its fence.
pub(super) fn permits_fences_of_loans() {
    let permits = Semaphore::new(2);
    let old = permits.try_acquire(1).expect("it is there");
    let theirs = permits.clone();
    let (their_fence, fence_of) = told();
    let takes = spawn(move || {
        let held = theirs.acquire().wait().expect("it comes");
        their_fence.store(held.fence().number(), SeqCst);
    });
    let busy = permits.try_acquire(1).is_err();
    drop(old);
    let last = permits.try_acquire(1).expect("there are two").fence();
    takes.join();
    if busy {
        reached("after");
        assert!(last.number() > fence_of.load(SeqCst), "it came after");
    }
    finish(&permits, 2);
}

/// FAST-2: permits go as fast ones end. Those that are lent count.
pub(super) fn permits_reduced_against_a_loan() {
    let permits = Semaphore::new(2);
    let (one, two) = (permits.try_acquire(1), permits.try_acquire(1));
    let ends = spawn(move || drop(one.expect("it is there")));
    permits.reduce(1);
    // One is held still.
    assert!(matches!(permits.try_acquire(1), Err(LockError::Busy { .. })));
    ends.join();
    assert!(matches!(permits.try_acquire(1), Err(LockError::Busy { .. })));
    drop(two);
    finish(&permits, 1);
}

/// FAST-5: what was lent gets a lease, which is over as it is given back: it is one of the two.
pub(super) fn permits_lease_of_a_loan() {
    let clock = Arc::new(Steps::default());
    let timers = Timers::by_hand(clock.clone());
    let permits = Semaphore::builder(1).timers(timers.clone()).build();
    let held = permits.try_acquire(1).expect("it is there");
    let next = permits.acquire();
    held.renew(LIMIT).wait().expect("it is held");
    let expires = spawn(move || {
        clock.tick();
        timers.run_due();
        assert_eq!(timers.len(), 0, "a timer is left");
    });
    reached(if held.release().wait().is_ok() { "released" } else { "lost" });
    expires.join();
    drop(next.wait().expect("it comes"));
    finish(&permits, 1);
}

/// A semaphore is closed as a fast permit ends and another one begins: then none is let in any
/// more.
pub(super) fn permits_closed_against_a_loan() {
    let permits = Semaphore::new(1);
    let held = permits.try_acquire(1).expect("it is there");
    let waits = permits.acquire_within(1, Limits::wait(Duration::MAX));
    let theirs = permits.clone();
    let closes = spawn(move || {
        theirs.close();
        assert_eq!(theirs.try_acquire(1).unwrap_err(), LockError::Closed);
    });
    drop(held);
    match waits.wait() {
        Ok(held) => {
            reached("in");
            drop(held);
        }
        Err(error) => {
            reached("closed");
            assert_eq!(error, LockError::Closed);
        }
    }
    closes.join();
    assert_eq!(permits.try_acquire(1).unwrap_err(), LockError::Closed);
    assert!(permits.info().wait().is_err());
}
