//! What lock objects promise beside their queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::common::{must_end, until};
use turnwise::time::Timers;
use turnwise::{Actor, VirtualClock};
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

/// Runs `release` again and again inside one turn, while another thread has looks at the lock. What
/// `release` comes to has to be so before the turn ends.
fn inside_a_turn(look: impl Fn() + Send + Sync + 'static, mut release: impl FnMut() + Send) {
    let ends = Arc::new(AtomicBool::new(false));
    let over = ends.clone();
    let looks = thread::spawn(move || {
        while !over.load(SeqCst) {
            look();
        }
    });
    Actor::new(()).with(|()| (0..40_000).for_each(|_| release())).unwrap();
    ends.store(true, SeqCst);
    looks.join().unwrap();
}

#[test]
fn a_release_inside_a_turn_lets_the_next_in() {
    must_end(|| {
        let locks = Locks::new();
        let looked = locks.clone();
        inside_a_turn(
            move || _ = looked.info(&1),
            || {
                let guard = locks.lock(1).wait().unwrap();
                let next = locks.lock(1);
                drop(guard);
                until(|| next.is_ready());
            },
        );
    });
}

#[test]
fn a_permit_that_ends_inside_a_turn_lets_the_next_in() {
    must_end(|| {
        let seats = Semaphore::new(1);
        let looked = seats.clone();
        inside_a_turn(
            move || _ = looked.info(),
            || {
                let permit = seats.acquire().wait().unwrap();
                let next = seats.acquire();
                drop(permit);
                until(|| next.is_ready());
            },
        );
    });
}

#[test]
fn a_request_inside_a_turn_takes_its_place() {
    must_end(|| {
        let seats = Semaphore::new(2);
        let looked = seats.clone();
        inside_a_turn(
            move || _ = looked.info(),
            || {
                let request = seats.acquire_within(2, Limits::NONE);
                until(|| request.is_ready());
            },
        );
    });
}

#[test]
fn what_was_forced_away_stays_lost_after_close() {
    let locks = Locks::new();
    let old = locks.lock(1).wait().unwrap();
    assert!(locks.force_release(&1));
    let new = locks.lock(1).wait().unwrap();
    locks.close();
    assert!(old.is_lost() && !new.is_lost());
    assert!(old.renew(SECOND).is_err() && old.release().is_err());
    assert!(new.release().is_ok());
}

#[test]
fn locks_by_a_str_are_held_in_tasks() {
    // That it compiles is the test: the futures are `Send`.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (locks, rw) = (Locks::new(), RwLocks::new());
    let seats = Semaphore::new(1);
    let task = runtime.spawn(async move {
        let one = locks.lock("report").await.unwrap();
        let late = locks.lock_within("report", Duration::ZERO).await;
        drop(one);
        let all = locks.lock_all(["report", "mail"], Limits::NONE).await.unwrap();
        let written = rw.write("report").await.unwrap();
        let read = rw.read("mail").await.unwrap();
        let seat = seats.acquire().await.unwrap();
        drop((all, written, read, seat));
        late.is_err() && locks.is_empty()
    });
    assert!(runtime.block_on(task).unwrap());
}
