//! Latches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Wake;
use std::thread;
use std::time::Duration;

use crate::common::{Wakes, must_end, poll};
use turnwise::VirtualClock;
use turnwise_locks::{Closed, Latch, LockError};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_hundred_are_released_once() {
    must_end(|| {
        let latch = Latch::new(3);
        let waiting: Vec<_> = (0..100).map(|_| latch.opened()).collect();
        let mut polled: Vec<_> = (0..100).map(|_| (latch.opened(), Wakes::new())).collect();
        for (opening, wakes) in &mut polled {
            assert!(poll(opening, &wakes.waker()).is_none());
        }
        let waiters: Vec<_> =
            waiting.into_iter().map(|opening| thread::spawn(move || opening.wait())).collect();
        latch.count_down();
        latch.count_down();
        assert_eq!(latch.count(), 1);
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        assert!(polled.iter().all(|(_, wakes)| wakes.count() == 0));
        latch.count_down();
        latch.count_down();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
        for (mut opening, wakes) in polled {
            assert_eq!(wakes.count(), 1);
            assert_eq!(poll(&mut opening, &wakes.waker()), Some(Ok(())));
            let again = || poll(&mut opening, &wakes.waker());
            assert!(catch_unwind(AssertUnwindSafe(again)).is_err(), "polled after completion");
        }
        assert_eq!(latch.opened().wait(), Ok(()));
    });
}

#[test]
fn below_zero_nothing_changes() {
    let latch = Latch::new(2);
    assert_eq!(latch.count_down_by(3), None);
    assert_eq!(latch.count(), 2);
    assert_eq!(latch.count_down_by(0), Some(2));
    assert_eq!(latch.count_down_by(2), Some(0));
    assert_eq!(latch.count_down_by(1), None);
    latch.count_down();
    assert_eq!(latch.count(), 0);
}

#[test]
fn set_again_only_at_zero() {
    let latch = Latch::new(1);
    let before = latch.opened();
    assert!(!latch.reset(5));
    latch.count_down();
    assert!(latch.reset(1));
    // Who waited before goes on; who comes now waits.
    assert_eq!(before.wait(), Ok(()));
    let mut after = latch.opened();
    assert!(after.wait_timeout(Duration::ZERO).is_none());
    latch.count_down();
    assert_eq!(after.wait(), Ok(()));
}

#[test]
fn a_wait_ends_on_its_clock() {
    let clock = VirtualClock::new();
    let latch = Latch::with_clock(1, Arc::new(clock.clone()));
    let mut opening = latch.opened();
    let waiter = thread::spawn(move || {
        assert!(opening.wait_timeout(SECOND).is_none());
        opening
    });
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    let opening = waiter.join().unwrap();
    latch.count_down();
    assert_eq!(opening.wait(), Ok(()));
}

#[test]
fn with_the_last_latch_waiters_are_told() {
    let latch = Latch::new(1);
    let (waiting, mut polled, other) = (latch.opened(), latch.opened(), latch.clone());
    let wakes = Wakes::new();
    assert!(poll(&mut polled, &wakes.waker()).is_none());
    let waiter = thread::spawn(move || waiting.wait());
    drop(latch);
    assert_eq!(wakes.count(), 0);
    drop(other);
    assert_eq!(waiter.join().unwrap(), Err(LockError::Closed));
    assert_eq!(wakes.count(), 1);
    assert_eq!(poll(&mut polled, &wakes.waker()), Some(Err(Closed)));
}

#[test]
fn a_waker_that_panics_keeps_nobody() {
    let latch = Latch::new(1);
    let inside = latch.clone();
    let wakes = [
        Wakes::calling(|| panic!("a waker")),
        Wakes::calling(move || {
            // Inside the latch's own turn.
            inside.count_down();
            drop(inside.opened());
        }),
        Wakes::new(),
    ];
    let mut waiting = wakes.each_ref().map(|wakes| (latch.opened(), wakes));
    for (opening, wakes) in &mut waiting {
        assert!(poll(opening, &wakes.waker()).is_none());
    }
    latch.count_down();
    for (mut opening, wakes) in waiting {
        assert_eq!(wakes.count(), 1);
        assert_eq!(poll(&mut opening, &wakes.waker()), Some(Ok(())));
    }
}

#[test]
fn waits_that_timed_out_are_swept() {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let nobody = Arc::new(Nobody);
    let latch = Latch::new(1);
    let kept = latch.opened();
    for _ in 0..100_000 {
        let mut opening = latch.opened();
        assert!(poll(&mut opening, &nobody.clone().into()).is_none());
        assert!(opening.wait_timeout(Duration::ZERO).is_none());
    }
    // Each wait that the latch still has keeps its waker.
    let left = Arc::strong_count(&nobody);
    assert!(left < 100, "{left}");
    latch.count_down();
    assert_eq!(kept.wait(), Ok(()));
}

#[test]
fn tasks_wait_for_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let (start, done) = (Latch::new(1), Latch::new(32));
        let task = |_| {
            let (start, done) = (start.clone(), done.clone());
            tokio::spawn(async move {
                start.opened().await.unwrap();
                done.count_down();
            })
        };
        let tasks: Vec<_> = (0..32).map(task).collect();
        let gone = tokio::spawn(start.opened());
        gone.abort();
        assert!(gone.await.is_err());
        assert_eq!(done.count(), 32);
        start.count_down();
        done.opened().await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
    });
}
