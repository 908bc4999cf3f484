//! What lock objects promise beside their queue.

use std::time::Duration;

use crate::common::until;
use turnwise::VirtualClock;
use turnwise::time::Timers;
use turnwise_locks::{Acquire, Guard, Limits, Locks, Permit, ReadGuard, RwLocks, Semaphore};

const SECOND: Duration = Duration::from_secs(1);

fn by_hand() -> (VirtualClock, Timers, Locks<u32>) {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let locks = Locks::builder().timers(timers.clone()).build();
    (clock, timers, locks)
}

#[test]
fn a_look_at_a_lease_that_is_over_lets_the_next_in() {
    type Look = fn(&Guard<u32>) -> bool;
    // What notices the end first, before the timers have run.
    let looks: [Look; 3] = [
        |old| old.is_lost(),
        |old| old.renew(SECOND).is_err(),
        |old| old.is_lost() && old.renew(Duration::ZERO).is_err(),
    ];
    for look in looks {
        let (clock, timers, locks) = by_hand();
        let old = locks.lock_within(1, Limits::NONE.lease(SECOND)).wait().unwrap();
        let next = locks.lock(1);
        clock.advance(SECOND);
        assert!(look(&old));
        timers.run_due();
        until(|| next.is_ready());
        drop((old, next));
        assert!(locks.is_empty() && timers.is_empty());
    }
}

#[test]
fn a_renewal_of_no_time_lets_the_next_in() {
    let (_clock, timers, locks) = by_hand();
    let old = locks.lock(1).wait().unwrap();
    let next = locks.lock(1);
    assert!(old.renew(Duration::ZERO).is_err());
    timers.run_due();
    until(|| next.is_ready());
    drop((old, next));
    assert!(locks.is_empty() && timers.is_empty());
}

#[test]
fn a_look_that_finds_several_lost_lets_all_in() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let seats = Semaphore::builder(2).timers(timers.clone()).build();
    let lease = Limits::NONE.lease(SECOND);
    let old = [0, 1].map(|_| seats.acquire_within(1, lease).wait().unwrap());
    let next = [0, 1].map(|_| seats.acquire());
    clock.advance(SECOND);
    assert!(old.iter().all(Permit::is_lost));
    timers.run_due();
    until(|| next.iter().all(Acquire::is_ready));

    let rw = RwLocks::builder().timers(timers.clone()).build();
    let old = [0, 1].map(|_| rw.read_within(1, lease).wait().unwrap());
    let next = rw.write(1);
    clock.advance(SECOND);
    assert!(old.iter().all(ReadGuard::is_lost));
    timers.run_due();
    until(|| next.is_ready());
}
