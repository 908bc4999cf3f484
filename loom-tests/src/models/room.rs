//! Full mailboxes: waiting for room (seats, WATCH, Q1), and dropping the oldest (S2).

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::super::drain::plan::Overflow;
use super::super::error::Reason;
use super::super::wait::Limit;
use super::*;
use crate::sync::reached;

impl Shared {
    fn small(overflow: Overflow) -> Self {
        let books = Books::new();
        let unrun = books.clone();
        let plan = Actor::builder(Log::new(&books)).capacity(1, overflow).undelivered(move |_| add(&unrun.unrun));
        Shared { actor: Arc::new(plan.spawn().expect("a good capacity")), books }
    }

    /// Runs a turn during which the one place is taken.
    fn fill(&self) {
        self.fill_and(|_| ());
    }

    /// The same, and then does something else in that turn.
    fn fill_and(&self, also: impl FnOnce(&Actor<Log>) + Send + 'static) {
        let (inside, mail) = (self.clone(), Mail::<OWN>::new(&self.books, 0, 1));
        let filled = self.actor.send(move |log: &mut Log| {
            log.handle(mail);
            let second = Mail::<OWN>::new(&inside.books, 0, 2);
            match inside.actor.try_send(second.message()) {
                Ok(()) => {}
                Err(_) => add(&inside.books.returned),
            }
            also(&inside.actor);
        });
        if filled.is_err() {
            add(&self.books.returned);
        }
    }
}

/// A sender who waits is let in by the owner, whether he sits down before or after the owner's last look.
pub(super) fn room_let_in() {
    let shared = Shared::small(Overflow::Reject);
    let thread = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        assert!(shared.actor.send_within(Limit::Unlimited, mail.message()).is_ok(), "room is made");
    });
    shared.fill();
    thread.join();
    shared.finish();
}

/// Giving up (the future is dropped) and being let in exclude each other: the message is handled, or dropped, once.
pub(super) fn room_given_up() {
    let shared = Shared::small(Overflow::Reject);
    let thread = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        let mut sending = pin!(shared.actor.send_async(mail.message()));
        match sending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(sent) => assert!(sent.is_ok()),
            Poll::Pending => reached("sat down"),
        }
    });
    shared.fill();
    thread.join();
    // What was withdrawn was dropped by the future: it is as good as handed back.
    let books = &shared.books;
    if books.dropped.load(Relaxed) > books.returned.load(Relaxed) + books.unrun.load(Relaxed) {
        reached("withdrawn");
        add(&books.returned);
    }
    shared.finish();
}

/// Those who wait when the mailbox is closed have their message back.
pub(super) fn room_closed() {
    let shared = Shared::small(Overflow::Reject);
    let thread = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        if let Err(refused) = shared.actor.send_within(Limit::Unlimited, mail.message()) {
            assert_eq!(*refused.reason(), Reason::Closed);
            reached("turned away");
            add(&shared.books.returned);
        }
    });
    shared.fill_and(|actor| _ = actor.close());
    thread.join();
    shared.finish();
}

/// Two wait for one place.
pub(super) fn room_two_wait() {
    let shared = Shared::small(Overflow::Reject);
    let threads = [1, 2].map(|from| {
        shared.spawn(move |shared| {
            let mail = Mail::<OWN>::new(&shared.books, from, 1);
            assert!(shared.actor.send_within(Limit::Unlimited, mail.message()).is_ok(), "room is made");
        })
    });
    shared.fill();
    threads.into_iter().for_each(Joiner::join);
    shared.finish();
}

/// S2: the oldest is given back by the sender who needs its place, the newest is handled, whatever the owner is doing.
pub(super) fn ring_drops_the_oldest() {
    let shared = Shared::small(Overflow::DropOldest);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 2));
    shared.fill();
    thread.join();
    shared.finish();
}

/// Who takes the place of a letter in a mailbox that nobody drains has to drain it: its token is out already.
pub(super) fn ring_replaced_while_parked() {
    let shared = Shared::small(Overflow::DropOldest);
    let thread = shared.spawn(|shared| {
        assert!(shared.actor.enqueue(Mail::<OWN>::new(&shared.books, 1, 1).message()).is_ok());
    });
    assert!(shared.actor.send(Mail::<OWN>::new(&shared.books, 0, 1).message()).is_ok());
    if shared.books.unrun.load(Relaxed) == 1 {
        reached("replaced");
    }
    assert!(shared.books.handled.load(Relaxed) >= 1, "a sender who may drain leaves nothing of his own behind");
    thread.join();
    shared.actor.drain();
    shared.finish();
}

/// S2, closed at the same time: what was accepted is handled or given back.
pub(super) fn ring_closed() {
    let shared = Shared::small(Overflow::DropOldest);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 2));
    shared.send::<OWN>(0, 1);
    shared.actor.close();
    thread.join();
    shared.finish();
}

/// A limit that is over at once: cancelled and having run exclude each other, and the message comes back in one of the two.
pub(super) fn limit_or_answer() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let mail = Mail::<OWN>::new(&shared.books, 0, 1);
    match shared.actor.ask_within(Limit::Immediate, move |log: &mut Log| log.handle(mail)) {
        Ok(()) => reached("answered"),
        Err(super::super::actor::Unanswered::Cancelled(())) => {
            reached("cancelled");
            add(&shared.books.returned);
        }
        Err(super::super::actor::Unanswered::Running(reply)) => {
            reached("running");
            assert!(reply.wait().is_ok());
        }
        Err(error) => panic!("{error}"),
    }
    thread.join();
    shared.finish();
}
