//! Promises whose waits are measured on a clock of choice.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::{block_on, in_turn, must_end, poll_once};
use turnwise::{ActorName, AskError, Clock, Reply, VirtualClock, WaitError, promise, promise_on};

const HOUR: Duration = Duration::from_secs(3600);

fn virtual_clock() -> (VirtualClock, Arc<dyn Clock>) {
    let clock = VirtualClock::new();
    (clock.clone(), Arc::new(clock))
}

/// Panics when it is read.
#[derive(Debug)]
struct Broken;

impl Clock for Broken {
    fn now(&self) -> Duration {
        crate::common::quiet_panic("no time")
    }
}

#[test]
fn promise_waits_on_its_clock() {
    type Waits = fn(Reply<u32>) -> bool;
    let waits: [Waits; 3] = [
        |reply| matches!(reply.within(HOUR), Err(WaitError::Cancelled(_))),
        |reply| matches!(reply.wait_timeout(HOUR), Err(WaitError::TimedOut(_))),
        |reply| in_turn(|| matches!(reply.within(HOUR), Err(WaitError::Cancelled(_)))),
    ];
    for wait in waits {
        must_end(move || {
            let (clock, shared) = virtual_clock();
            let (promise, reply) = promise_on::<u32>(shared);
            let waiter = thread::spawn(move || wait(reply));
            clock.wait_for_sleepers(1);
            assert_eq!(clock.next_wake(), Some(HOUR));
            clock.advance(HOUR - Duration::from_nanos(1));
            // Moved as far as this, it may look again; it has no answer, and its time is not over.
            clock.wait_for_sleepers(1);
            assert!(!waiter.is_finished() && !promise.is_cancelled());
            clock.advance(Duration::from_nanos(1));
            assert!(waiter.join().unwrap());
        });
    }
}

#[test]
fn promise_on_a_clock_is_kept() {
    must_end(|| {
        let (clock, shared) = virtual_clock();
        let (promise, reply) = promise_on(shared.clone());
        let waiter = thread::spawn(move || reply.within(HOUR));
        clock.wait_for_sleepers(1);
        promise.keep(5);
        assert_eq!(waiter.join().unwrap().unwrap(), 5, "without a move of the clock");
        assert_eq!(clock.sleepers(), 0);

        let (promise, reply) = promise_on(shared.clone());
        let keeper = thread::spawn(move || promise.keep(6));
        assert_eq!(block_on(reply), Ok(6));
        keeper.join().unwrap();

        let (promise, mut reply) = promise_on::<u32>(shared);
        assert!(poll_once(&mut reply).is_pending());
        drop(promise);
        assert_eq!(reply.wait(), Err(AskError::Abandoned(ActorName::ANY)));
    });
}

/// The clock is read in the call that waits, and nowhere else; its panic gives the reply up.
#[test]
fn promise_on_a_clock_that_panics() {
    let (promise, reply) = promise_on::<u32>(Arc::new(Broken));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| reply.within(HOUR)));
    assert!(panicked.is_err() && !promise.is_cancelled());
    promise.keep(1);
    let (promise, reply) = promise_on(Arc::new(Broken));
    promise.keep(2);
    assert_eq!(reply.wait(), Ok(2), "an unlimited wait asks no clock");
}

#[test]
fn plain_promise_waits_on_the_machine() {
    let (_promise, reply) = promise::<u32>();
    let answer = must_end(move || reply.within(Duration::from_millis(1)));
    assert!(matches!(answer, Err(WaitError::Cancelled(_))));
}

/// Every `call` moves one: its clock lies in the place of the answer.
#[test]
fn reply_has_room_for_a_clock() {
    let most = size_of::<Result<u64, AskError>>().max(size_of::<[usize; 3]>());
    assert!(size_of::<Reply<u64>>() <= most + size_of::<usize>());
}

/// Panics when it is dropped.
#[derive(Debug)]
struct BreaksLast;

impl Clock for BreaksLast {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl Drop for BreaksLast {
    fn drop(&mut self) {
        crate::common::quiet_panic("the last of a clock");
    }
}

#[test]
fn an_answer_outlives_the_last_of_its_clock() {
    type Waits = fn(Reply<Arc<()>>) -> Arc<()>;
    let waits: [Waits; 5] = [
        |reply| reply.wait().unwrap(),
        |reply| reply.within(HOUR).unwrap(),
        |reply| reply.wait_timeout(HOUR).unwrap(),
        |mut reply| reply.wait_by_ref(HOUR).unwrap().unwrap(),
        |reply| block_on(reply).unwrap(),
    ];
    for wait in waits {
        let answer = Arc::new(());
        let (promise, reply) = promise_on(Arc::new(BreaksLast) as Arc<dyn Clock>);
        promise.keep(answer.clone());
        drop(wait(reply));
        assert_eq!(Arc::strong_count(&answer), 1);
    }
}

/// The wait is the last owner of the clock.
#[test]
fn an_answer_is_not_lost_by_the_drop_of_its_clock() {
    type Wait = fn(Reply<u32>) -> Result<u32, WaitError<u32>>;
    let waits: [Wait; 3] = [
        |reply| reply.within(HOUR),
        |reply| block_on(reply.within_async(HOUR)),
        |reply| block_on(reply).map_err(WaitError::Ask),
    ];
    for wait in waits {
        let (promise, reply) = promise_on(Arc::new(BreaksLast));
        promise.keep(7);
        assert_eq!(wait(reply).unwrap(), 7);
    }
}
