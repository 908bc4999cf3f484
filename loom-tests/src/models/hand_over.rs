//! The continuation of a mailbox: by a list, an executor, or a caller that waits; by one of them at
//! a time, and always by one.

use std::cell::Cell;
use std::task::{Context, Poll, Waker};
use std::{future::Future, pin::pin};

use super::super::actor::{WaitError, promise};
use super::clock::{LIMIT, Steps};
use super::*;
use crate::sync::reached;

thread_plain! {
    /// True if this thread waits, in the sense of a model.
    static WAITS: Cell<bool> = Cell::new(false);
}

/// A caller that waits runs the list in which its request stands, and leaves in the middle of it
/// when that is answered and its budget is used up: the executor continues with the rest.
pub(super) fn hand_over_waiter_leaves() {
    let shared = Shared::falling_back(|builder| builder.budget(1));
    let beyond = Arc::new(AtomicU32::new(0));
    shared.leave::<OWN>(0, 1);
    let answer = shared.actor.posted().call(|log| log.last[0]);
    for no in 2..=5 {
        let (mail, beyond) = (Mail::<OWN>::new(&shared.books, 0, no), beyond.clone());
        let sent = shared.actor.posted().send(move |log: &mut Log| {
            log.handle(mail);
            if WAITS.with(Cell::get) {
                add(&beyond);
            }
        });
        assert!(sent.is_ok());
    }
    let thread = shared.spawn(|shared| {
        shared.run_one();
        shared.run_one();
    });
    WAITS.with(|waits| waits.set(true));
    assert_eq!(answer.wait(), Ok(1));
    WAITS.with(|waits| waits.set(false));
    if shared.books.handled.load(Relaxed) < 5 {
        reached("left with a rest");
    }
    // One turn to see that the answer has come, and one within the budget.
    assert!(beyond.load(Relaxed) <= 2, "kept by others' messages");
    thread.join();
    shared.finish();
}

/// Its time ends first: the request is withdrawn, or is running elsewhere, and another thread
/// continues with the mailbox.
pub(super) fn hand_over_time_ends() {
    let clock = Arc::new(Steps::default());
    let theirs = clock.clone();
    let shared = Shared::falling_back(|builder| builder.budget(Budget::UNLIMITED).clock(theirs));
    shared.leave::<OWN>(0, 1);
    let mail = Mail::<OWN>::new(&shared.books, 0, 2);
    let reply = shared.actor.posted().call(move |log: &mut Log| log.handle(mail));
    let ticks = spawn(move || clock.tick());
    let runs = shared.spawn(|shared| {
        shared.run_one();
    });
    match reply.within(LIMIT) {
        Ok(()) => reached("answered"),
        Err(WaitError::Cancelled(_)) => {
            reached("cancelled");
            add(&shared.books.returned);
        }
        Err(WaitError::TimedOut(reply)) => {
            reached("running");
            assert_eq!(reply.wait(), Ok(()));
        }
        Err(error) => panic!("{error}"),
    }
    ticks.join();
    runs.join();
    shared.finish();
}

thread_plain! {
    /// True if this thread runs the queue.
    static RUNNER: Cell<bool> = Cell::new(false);
}

/// The rule: an actor with an executor is run by its executor, whatever waits for it or polls, and
/// however.
pub(super) fn hand_over_executor_alone() {
    fn on_runner(log: &mut Log) {
        assert!(RUNNER.with(Cell::get), "run by somebody who waits");
        log.last[3] += 1;
    }
    let shared = Shared::carried(1);
    let thread = shared.spawn(|shared| {
        RUNNER.with(|runner| runner.set(true));
        while shared.books.handled.load(Relaxed) == 0 {
            shared.queue().run_next();
        }
    });
    let mut reply = pin!(shared.actor.call(on_runner));
    match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => {
            reached("answered");
            assert_eq!(answer, Ok(()));
        }
        Poll::Pending => reached("pending"),
    }
    assert_eq!(shared.actor.with(on_runner), Ok(()));
    let mail = Mail::<OWN>::new(&shared.books, 0, 1);
    let last = shared.actor.call(move |log: &mut Log| {
        on_runner(log);
        log.handle(mail);
    });
    assert_eq!(last.wait(), Ok(()));
    thread.join();
    shared.finish();
}

/// The rule for a wait until it is idle, which sleeps while the mailbox is pending.
pub(super) fn hand_over_idle_sleeps() {
    let shared = Shared::carried(1);
    shared.send::<OWN>(0, 2);
    let thread = shared.spawn(|shared| {
        shared.run_one();
        shared.run_one();
    });
    assert_eq!(shared.actor.idle().wait(), Ok(()));
    assert_eq!(shared.books.handled.load(Relaxed), 2);
    thread.join();
    shared.finish();
}

/// A sender takes over, in order, the mailbox that a turn has deferred on its thread, and the entry
/// is then a hint that finds nothing; the turn itself waits for a promise that the taken mailbox
/// keeps.
pub(super) fn hand_over_deferred_taken() {
    let (first, second) = (Shared::new(), Shared::new());
    let (on, to) = (second.clone(), second.clone());
    let thread = spawn(move || to.send::<OWN>(1, 1));
    let mail = Mail::<OWN>::new(&first.books, 0, 1);
    let (kept, told) = promise();
    let sent = first.actor.send(move |log: &mut Log| {
        log.handle(mail);
        let next = Mail::<OWN>::new(&on.books, 0, 1);
        let message = move |log: &mut Log| {
            log.handle(next);
            kept.keep(());
        };
        assert!(on.actor.send(message).is_ok());
        on.send_one::<OWN>(0, 2);
    });
    assert!(sent.is_ok());
    assert_eq!(told.wait(), Ok(()));
    thread.join();
    first.finish();
    second.finish();
}
