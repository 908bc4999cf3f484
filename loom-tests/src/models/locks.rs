//! THIN-1 and THIN-2 of holds without a mailbox, MACHINE-1 to MACHINE-5 of the lock's machine where
//! waits, withdrawals and releases meet. The shipped lock objects, their registry and their timers.

use std::time::Duration;

use super::super::limits::Limits;
use super::super::lock::{Guard, LockError, Locks, Owner};
use super::super::time::Timers;
use super::clock::{LIMIT, Steps};
use super::*;
use crate::sync::reached;

/// Locks on a clock, and the data that all holders of the one key write.
struct Setting {
    clock: Arc<Steps>,
    timers: Timers,
    locks: Locks<u32>,
    inside: Arc<Written>,
}

impl Setting {
    fn new() -> Self {
        let clock = Arc::new(Steps::default());
        let timers = Timers::by_hand(clock.clone());
        let locks = Locks::builder().timers(timers.clone()).build();
        Setting { clock, timers, locks, inside: Written::new() }
    }

    /// Checks the end, after all threads have joined, and all guards are dropped.
    fn finish(self) {
        let last = self.locks.try_lock(1).expect("the lock is free");
        drop(last);
        assert_eq!(self.locks.len(), 0, "a key is left");
        assert_eq!(self.timers.len(), 0, "a timer is left");
    }
}

/// THIN-1 and THIN-2: a hold without waiters ends while a second request comes. That is granted at
/// once, or when the first hold is released, and sees its writes; its fence is larger.
pub(super) fn locks_second_against_a_release() {
    let setting = Setting::new();
    let first = setting.locks.try_lock(1).expect("no holder is there");
    let (fence, inside) = (first.fence(), setting.inside.clone());
    let ends = spawn(move || {
        inside.write();
        drop(first);
    });
    let acquire = setting.locks.lock(1);
    reached(if acquire.is_ready() { "at once" } else { "handed on" });
    let second = acquire.wait().expect("it comes");
    setting.inside.write();
    assert!(second.fence() > fence);
    ends.join();
    drop(second);
    setting.finish();
}

/// MACHINE-5: a waiter gives up as it is granted the lock. Then the next one is.
pub(super) fn locks_granted_against_given_up() {
    let setting = Setting::new();
    let first = setting.locks.try_lock(1).expect("no holder is there");
    let (second, third) = (setting.locks.lock(1), setting.locks.lock(1));
    let inside = setting.inside.clone();
    let ends = spawn(move || {
        inside.write();
        drop(first);
    });
    drop(second);
    let third = third.wait().expect("it comes");
    setting.inside.write();
    ends.join();
    drop(third);
    setting.finish();
}

/// Expiry, force and release of one hold, by three threads: it ends once, and the waiter is granted
/// the lock.
pub(super) fn locks_end_of_a_hold() {
    let setting = Setting::new();
    let lease = Limits::NONE.lease(LIMIT);
    let first = setting.locks.lock_within(1, lease).wait().expect("no holder is there");
    let next = setting.locks.lock(1);
    let (clock, timers) = (setting.clock.clone(), setting.timers.clone());
    let expires = spawn(move || {
        clock.tick();
        timers.run_due();
    });
    let (locks, forced) = (setting.locks.clone(), Arc::new(AtomicU32::new(0)));
    let theirs = forced.clone();
    let forces = spawn(move || {
        theirs.store(locks.force_release(&1).wait().expect("a thread waits").into(), Relaxed)
    });
    let first = first.release().wait().is_ok();
    reached(if first { "released" } else { "expired" });
    expires.join();
    forces.join();
    // The forced hold may have been that of the next one; otherwise it holds, and goes on.
    let next = next.wait().expect("it comes in");
    if forced.load(Relaxed) == 1 {
        reached("forced");
        assert!(!first || next.is_lost(), "one hold was released and forced");
    }
    drop(next);
    setting.finish();
}

/// KEYS-1: a lock is removed with its last use, while another thread asks for it.
pub(super) fn locks_gone_against_a_lock() {
    fn hold(locks: &Locks<u32>, inside: &Written) -> Result<Guard<u32>, LockError> {
        let guard = locks.lock(1).wait()?;
        inside.write();
        Ok(guard)
    }
    let setting = Setting::new();
    let (locks, inside) = (setting.locks.clone(), setting.inside.clone());
    let theirs = spawn(move || {
        let first = hold(&locks, &inside).expect("it comes").fence();
        let second = hold(&locks, &inside).expect("it comes").fence();
        assert!(second > first);
    });
    drop(hold(&setting.locks, &setting.inside).expect("it comes"));
    theirs.join();
    setting.finish();
}

/// A lease is renewed as it ends: it has ended, and the holder knows; or it goes on.
pub(super) fn locks_renewed_against_the_end() {
    let setting = Setting::new();
    let lease = Limits::NONE.lease(LIMIT);
    let guard = setting.locks.lock_within(1, lease).wait().expect("no holder is there");
    let (clock, timers) = (setting.clock.clone(), setting.timers.clone());
    let expires = spawn(move || {
        clock.tick();
        timers.run_due();
    });
    let renewed = guard.renew(Duration::MAX).wait().is_ok();
    expires.join();
    reached(if renewed { "renewed" } else { "lost" });
    assert_eq!(guard.is_lost(), !renewed);
    assert_eq!(setting.locks.try_lock(1).is_ok(), !renewed);
    drop(guard);
    setting.finish();
}

/// Two requests of one owner wait. The first is granted and released, while the second is about to
/// join it: it joins, or is granted anew; and no other owner holds then.
pub(super) fn locks_joined_against_a_release() {
    let setting = Setting::new();
    let owner = Owner::new();
    let before = setting.locks.lock(1).wait().expect("no holder is there");
    let first = setting.locks.lock_as(&owner, 1, Limits::NONE);
    let second = setting.locks.lock_as(&owner, 1, Limits::NONE);
    let theirs = spawn(move || {
        let first = first.wait().expect("it comes in");
        first.release().wait().expect("it was not taken away");
    });
    drop(before);
    let second = second.wait().expect("it comes in");
    assert!(setting.locks.try_lock(1).is_err(), "two are in");
    theirs.join();
    assert!(!second.is_lost());
    let forced = setting.locks.force_release(&1).wait().expect("a thread waits");
    assert!(forced && second.is_lost(), "what it has joined was over");
    drop(second);
    setting.finish();
}
