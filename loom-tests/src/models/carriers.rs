//! R8, handed over: the carriers of a mailbox with an executor.

use std::collections::VecDeque;

use super::super::drain::carrier::Drain;
use super::super::error::{Reason, StopCause};
use super::*;
use crate::sync::{Mutex, reached};

/// An executor that runs drains when a model says so.
#[derive(Clone, Default)]
struct Hand(Arc<Mutex<VecDeque<Drain>>>);

impl Hand {
    fn take(&self) -> Option<Drain> {
        self.0.lock().pop_front()
    }

    /// Runs what is there now.
    fn run(&self) -> bool {
        let mut ran = false;
        while let Some(drain) = self.take() {
            drain.run();
            ran = true;
        }
        ran
    }
}

impl Shared {
    fn posting(budget: u32) -> (Self, Hand) {
        let (books, hand) = (Books::new(), Hand::default());
        let (unrun, queue) = (books.clone(), hand.clone());
        let plan = Actor::builder(Log::new(&books))
            .executor(move |drain| queue.0.lock().push_back(drain))
            .undelivered(move |_| add(&unrun.unrun))
            .budget(budget);
        (Shared { actor: Arc::new(plan.spawn().expect("a good plan")), books }, hand)
    }

    /// The last handle's end is the executor's too.
    fn finish_with(self, hand: &Hand) {
        hand.run();
        assert!(self.actor.is_idle(), "stranded: {:?}", self.actor);
        let Shared { actor, books } = self;
        drop(Arc::into_inner(actor).expect("main is the last"));
        hand.run();
        books.balance();
    }
}

/// CARRY: who finds a carrier out may go, for it looks later, and then finds his message.
pub(super) fn r8_carrier() {
    let (shared, hand) = Shared::posting(9);
    let worker = hand.clone();
    let thread = shared.spawn(move |_| {
        if worker.run() {
            reached("the worker ran it");
        }
    });
    shared.send::<OWN>(0, 2);
    thread.join();
    shared.finish_with(&hand);
}

/// Two senders, one worker, which is main: one carrier at a time, and none is forgotten.
pub(super) fn r8_carrier_two_senders() {
    let (shared, hand) = Shared::posting(9);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.send::<OWN>(0, 1);
    hand.run();
    thread.join();
    shared.finish_with(&hand);
}

/// Out of budget: the rest is handed on, to whoever comes first.
pub(super) fn r8_hand_off() {
    let (shared, hand) = Shared::posting(1);
    shared.send::<OWN>(0, 2);
    let worker = hand.clone();
    let thread = shared.spawn(move |_| {
        worker.run();
    });
    if hand.run() {
        reached("main ran some");
    }
    thread.join();
    shared.finish_with(&hand);
}

/// A caller who waits takes the mailbox over; the carrier that comes later does nothing.
pub(super) fn r8_stale_carrier() {
    let (shared, hand) = Shared::posting(9);
    shared.send::<OWN>(0, 1);
    let worker = hand.clone();
    let thread = shared.spawn(move |_| {
        worker.run();
    });
    let books = shared.books.clone();
    assert_eq!(shared.actor.with(move |_| books.handled.load(Relaxed)), Ok(1), "what was sent before runs before");
    thread.join();
    shared.finish_with(&hand);
}

/// A carrier that is dropped stops the actor; a sender at that time is either given back or refused, and learns why.
pub(super) fn r8_carrier_dropped() {
    let (shared, hand) = Shared::posting(9);
    shared.send::<OWN>(0, 1);
    let worker = hand.clone();
    let thread = shared.spawn(move |_| drop(worker.take()));
    let mail = Mail::<OWN>::new(&shared.books, 1, 1);
    if let Err(refused) = shared.actor.send(mail.message()) {
        assert_eq!(*refused.reason(), Reason::Stopped(StopCause::ExecutorGone));
        add(&shared.books.returned);
    }
    thread.join();
    shared.finish_with(&hand);
}
