//! Permits by key.

use std::time::Duration;

use turnwise::VirtualClock;
use turnwise_locks::{Closed, Latch, Limits, LockError, Semaphores};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn each_key_has_its_own() {
    let permits = Semaphores::<String>::new(2);
    let both = permits.try_acquire("a".into(), 2).unwrap();
    assert!(matches!(permits.try_acquire("a".into(), 1), Err(LockError::Busy { .. })));
    let other = permits.try_acquire("b".into(), 1).unwrap();
    let beside = permits.acquire("b".into()).wait().unwrap();
    assert!(beside.fence() > other.fence());
    assert_eq!(permits.len(), 2);
    let available = |key| permits.available(key).wait().unwrap();
    assert_eq!((available("a"), available("b"), available("c")), (0, 0, 2));
    let info = permits.info("b").wait().unwrap().unwrap();
    assert_eq!((info.holders, info.waiting), (2, 0));
    drop((both, other));
    assert!(!permits.is_used("a") && permits.is_used("b"));
    assert_eq!((available("a"), available("b")), (2, 1));
    drop(beside);
    assert!(permits.is_empty() && permits.info("b").wait().unwrap().is_none());
}

#[test]
fn requests_come_in_in_their_order() {
    let permits = Semaphores::new(3);
    let two = permits.try_acquire(7, 2).unwrap();
    let three = permits.acquire_within(7, 3, Limits::NONE);
    let one = permits.acquire(7);
    // It fits, and the request for three was before.
    assert!(!one.is_ready());
    assert_eq!(permits.available(&7).wait(), Ok(0));
    assert!(matches!(permits.try_acquire(7, 1), Err(LockError::Busy { .. })));
    drop(two);
    let three = three.wait().unwrap();
    assert!(!one.is_ready());
    three.release().wait().unwrap();
    drop(one.wait().unwrap());
    assert!(permits.is_empty());
}

#[test]
#[should_panic(expected = "at least one permit")]
fn a_request_for_no_permits_is_refused() {
    let _ = Semaphores::new(2).try_acquire(1, 0);
}

#[test]
fn wrong_numbers_are_refused() {
    let permits = Semaphores::new(2);
    assert_eq!(permits.try_acquire(1, 3).unwrap_err(), LockError::TooMany { permits: 2 });
    assert!(permits.is_empty());
}

#[test]
#[should_panic(expected = "a key needs at least one permit")]
fn semaphores_without_permits_are_refused() {
    let _ = Semaphores::<u32>::builder(0);
}

/// A request that cannot fail before a close has an error of no other kind: of permits by
/// key, of a latch.
#[test]
fn waits_without_limits_fail_by_a_close_only() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let permits = Semaphores::new(1);
    let one: Result<_, Closed> = runtime.block_on(permits.acquire(1));
    let waits = permits.entry_ref(&1).acquire();
    permits.close();
    let closed: Result<_, Closed> = runtime.block_on(waits);
    assert!(one.is_ok() && closed.is_err());
    let latch = Latch::new(1);
    let opened = latch.opened();
    drop(latch);
    assert_eq!(runtime.block_on(opened), Err(Closed));
}

#[test]
fn leases_end_and_holders_are_forced_away() {
    let clock = VirtualClock::new();
    let permits = Semaphores::builder(2).clock(clock.clone()).build();
    let lease = Limits::NONE.lease(SECOND);
    let hung = permits.acquire_within("a", 1, lease).wait().unwrap();
    let other = permits.try_acquire("a", 1).unwrap();
    let next = permits.acquire("a");
    clock.advance(SECOND);
    let next = next.wait().unwrap();
    assert!(hung.is_lost() && !other.is_lost());
    assert_eq!(permits.force_release(&"a").wait(), Ok(true));
    assert!(other.is_lost() && next.is_lost());
    drop(permits.try_acquire("a", 2).unwrap());
    drop((hung, other, next));
    assert!(permits.is_empty());
}

#[test]
fn after_the_close_no_request_is_taken() {
    let permits = Semaphores::new(1);
    let held = permits.try_acquire("a", 1).unwrap();
    let waits = permits.acquire("a");
    permits.close();
    assert_eq!(waits.wait().unwrap_err(), LockError::Closed);
    assert_eq!(permits.try_acquire("b", 1).unwrap_err(), LockError::Closed);
    assert!(!held.is_lost());
    held.release().wait().unwrap();
}

#[tokio::test]
async fn permits_of_a_key_are_awaited() {
    let permits = Semaphores::new(2);
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let permits = permits.clone();
            tokio::spawn(async move {
                let permit = permits.acquire(task % 3).await.unwrap();
                tokio::task::yield_now().await;
                permit.release().wait().unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(permits.is_empty());
}

#[test]
fn permits_of_several_are_not_exclusive() {
    let permits = Semaphores::new(2);
    let (one, two) = (permits.acquire(1).wait().unwrap(), permits.acquire(1).wait().unwrap());
    let info = permits.info(&1).wait().unwrap().unwrap();
    assert!(info.holders == 2 && !info.exclusive);
    drop((one, two));
    let _both = permits.try_acquire(1, 2).unwrap();
    assert!(permits.info(&1).wait().unwrap().unwrap().exclusive);
}
