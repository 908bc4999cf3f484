//! Promises of lock objects beside their queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::common::{Wakes, must_end, poll, until};
use turnwise::time::Timers;
use turnwise::{Actor, VirtualClock};
use turnwise_locks::{
    Acquire, Guard, Latch, Limits, LockError, Locks, Permit, ReadGuard, RwLocks, Semaphore,
};

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
        |old| old.renew(SECOND).wait().is_err(),
        |old| old.is_lost() && old.renew(Duration::ZERO).wait().is_err(),
    ];
    for look in looks {
        let (clock, timers, locks) = by_hand();
        let old = locks.lock_within(1, Limits::NONE.lease(SECOND)).wait().unwrap();
        let next = locks.lock(1);
        clock.advance(SECOND);
        assert!(look(&old));
        timers.run_due();
        assert!(next.is_ready(), "the next waits for a guard that is lost");
        drop((old, next));
        assert!(locks.is_empty() && timers.is_empty());
    }
}

#[test]
fn a_renewal_of_no_time_lets_the_next_in() {
    let (_clock, timers, locks) = by_hand();
    let old = locks.lock(1).wait().unwrap();
    let next = locks.lock(1);
    assert!(old.renew(Duration::ZERO).wait().is_err());
    timers.run_due();
    assert!(next.is_ready());
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
    assert!(next.iter().all(Acquire::is_ready));

    let rw = RwLocks::builder().timers(timers.clone()).build();
    let old = [0, 1].map(|_| rw.read_within(1, lease).wait().unwrap());
    let next = rw.write(1);
    clock.advance(SECOND);
    assert!(old.iter().all(ReadGuard::is_lost));
    timers.run_due();
    assert!(next.is_ready());
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
fn a_count_inside_a_turn_opens_the_latch() {
    must_end(|| {
        let latch = Latch::new(0);
        let looked = latch.clone();
        inside_a_turn(
            move || assert!(looked.count() < 2),
            || {
                assert!(latch.reset(1));
                let opened = latch.opened();
                latch.count_down();
                until(|| format!("{opened:?}").contains("true"));
            },
        );
    });
}

#[test]
fn what_was_forced_away_stays_lost_after_close() {
    let locks = Locks::new();
    let old = locks.lock(1).wait().unwrap();
    assert!(locks.force_release(&1).wait().unwrap());
    let new = locks.lock(1).wait().unwrap();
    locks.close();
    assert!(old.is_lost() && !new.is_lost());
    assert!(old.renew(SECOND).wait().is_err() && old.release().wait().is_err());
    assert!(new.release().wait().is_ok());
}

#[test]
fn a_latch_answers_inside_its_own_wakers() {
    let latch = Latch::new(2);
    let seen = Arc::new(AtomicUsize::new(usize::MAX));
    let (inside, told) = (latch.clone(), seen.clone());
    let wakes = Wakes::calling(move || {
        told.store(usize::try_from(inside.count()).unwrap(), SeqCst);
        assert_eq!(inside.opened().wait_timeout(Duration::ZERO), Some(Ok(())));
        assert_eq!(inside.count_down_by(1), None);
        assert!(inside.reset(3));
    });
    let mut opened = latch.opened();
    assert!(poll(&mut opened, &wakes.waker()).is_none());
    assert_eq!(latch.count_down_by(2), Some(0));
    assert_eq!((seen.load(SeqCst), latch.count()), (0, 3));
}

/// A lock that is measured, and known to be held for two seconds; its holder has just come.
fn measured(clock: &VirtualClock, locks: &Locks<u32>) -> Guard<u32> {
    let hasty = Limits::wait(3 * SECOND).refuse_early();
    let first = locks.lock(1).wait().unwrap();
    let second = locks.lock_within(1, hasty);
    drop(first);
    let second = second.wait().unwrap();
    clock.advance(2 * SECOND);
    let third = locks.lock_within(1, hasty);
    drop(second);
    third.wait().unwrap()
}

#[test]
fn those_that_gave_up_are_not_expected_to_hold() {
    let (clock, _timers, locks) = by_hand();
    let holder = measured(&clock, &locks);
    let waits = locks.lock(1);
    drop((0..8).map(|_| locks.lock(1)).collect::<Vec<_>>());
    let info = locks.info(&1).wait().unwrap().unwrap();
    assert_eq!((info.waiting, info.expected_wait), (1, 4 * SECOND));
    let mut next = locks.lock_within(1, Limits::wait(4 * SECOND).refuse_early());
    assert!(next.wait_timeout(Duration::ZERO).is_none(), "refused for those that are gone");
    drop((holder, waits, next));
    assert!(locks.is_empty());
}

#[test]
fn an_estimate_outlives_an_idle_lock() {
    let (clock, _timers, locks) = by_hand();
    drop(measured(&clock, &locks));
    assert!(locks.is_empty());
    let _holder = locks.lock(1).wait().unwrap();
    let hasty = Limits::wait(SECOND).refuse_early();
    let refused = locks.lock_within(1, hasty).wait_timeout(Duration::ZERO);
    assert!(matches!(refused, Some(Err(LockError::Expected { .. }))), "{refused:?}");
    assert!(locks.info(&1).wait().unwrap().unwrap().expected_wait > SECOND);
}

#[test]
fn a_lease_ends_on_the_thread_of_the_timers() {
    // No thread of a pool has to be free: what has run the timers has let the next in.
    let (clock, timers, locks) = by_hand();
    let old = locks.lock_within(1, Limits::NONE.lease(SECOND)).wait().unwrap();
    let mut lost = old.lost();
    let next = locks.lock(1);
    assert!(poll(&mut lost, std::task::Waker::noop()).is_none());
    clock.advance(SECOND);
    timers.run_due();
    assert!(next.is_ready() && poll(&mut lost, std::task::Waker::noop()).is_some());
}

#[test]
fn a_renewal_moves_the_end_of_a_lease() {
    let (clock, timers, locks) = by_hand();
    // Renewed for longer, for shorter, and for the first time; the timer follows.
    for (first, then) in [(Some(1), 3), (Some(3), 1), (None, 2)] {
        let first = first.map_or(Limits::NONE, |first| Limits::NONE.lease(first * SECOND));
        let old = locks.lock_within(1, first).wait().unwrap();
        let next = locks.lock(1);
        old.renew(then * SECOND).wait().unwrap();
        clock.advance(then * SECOND - Duration::from_nanos(1));
        timers.run_due();
        assert!(!next.is_ready() && !old.is_lost());
        clock.advance(Duration::from_nanos(1));
        timers.run_due();
        assert!(next.is_ready());
    }
    assert!(locks.is_empty() && timers.is_empty());
}

#[test]
fn a_request_that_is_not_polled_is_out_at_its_limit() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let rw = RwLocks::builder().timers(timers.clone()).build();
    let _reads = rw.read(1).wait().unwrap();
    let writer = rw.write_within(1, Limits::wait(SECOND));
    let behind = rw.read(1);
    assert!(!behind.is_ready());
    clock.advance(SECOND);
    timers.run_due();
    assert!(behind.is_ready(), "behind a writer whose time is over");
    assert!(matches!(writer.wait(), Err(LockError::TimedOut { .. })));

    // The timers are not run: one that asks sees it.
    let seats = Semaphore::builder(3).timers(timers.clone()).build();
    let _one = seats.acquire().wait().unwrap();
    let all = seats.acquire_within(3, Limits::wait(SECOND));
    assert!(matches!(seats.try_acquire(1), Err(LockError::Busy { .. })));
    clock.advance(SECOND);
    assert!(seats.try_acquire(1).is_ok(), "behind a request whose time is over");
    drop(all);
}

#[test]
fn locks_by_a_str_are_held_in_tasks() {
    // That it compiles is the test: the futures are `Send`.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (locks, rw) = (Locks::new(), RwLocks::new());
    let seats = Semaphore::new(1);
    let task = runtime.spawn(async move {
        let one = locks.lock("report").await.unwrap();
        let late = locks.lock_within("report", Limits::wait(Duration::ZERO)).await;
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

#[test]
fn a_question_inside_a_waker_of_its_lock_is_refused() {
    let (locks, seats) = (Locks::new(), Semaphore::new(1));
    let asked = Arc::new(AtomicUsize::new(0));

    let held = locks.lock(1).wait().unwrap();
    let (inside, count) = (locks.clone(), asked.clone());
    let wakes = Wakes::calling(move || {
        assert!(matches!(inside.info(&1).wait(), Err(LockError::Deadlock { .. })));
        assert_eq!(inside.force_release(&1).wait(), Err(LockError::Deadlock { key: None }));
        count.fetch_add(1, SeqCst);
    });
    let mut next = locks.lock(1);
    assert!(poll(&mut next, &wakes.waker()).is_none());
    drop(held);
    assert_eq!(locks.info(&1).wait().unwrap().unwrap().holders, 1);

    let seat = seats.acquire().wait().unwrap();
    let (inside, count) = (seats.clone(), asked.clone());
    let wakes = Wakes::calling(move || {
        assert!(matches!(inside.info().wait(), Err(LockError::Deadlock { .. })));
        count.fetch_add(1, SeqCst);
    });
    let mut next = seats.acquire();
    assert!(poll(&mut next, &wakes.waker()).is_none());
    drop(seat);
    assert_eq!(asked.load(SeqCst), 2);
}
