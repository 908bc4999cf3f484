//! A closure that a caller inside a turn lends: it lies in a oneshot, may borrow from the caller's
//! frame, and can be taken back until its turn.
//!
//! - ENVELOPE-3: what it borrows is there until it was taken back ([`Asker::cancel`]) or answered
//!   ([`Asker::take`]): its caller does not leave before. Neither the closure nor its result is
//!   touched by anybody else afterwards: the one that runs it has moved it out and dropped it
//!   before it answers, and a closure that is not run goes back in the answer.

use std::marker::PhantomData;

use super::{Stays, staying, why_not};
use crate::cell::resident::Place;
use crate::error::Reason;
use crate::mailbox::node::{Envelope, VTable};
use crate::mailbox::oneshot::{Accepted, Answerer, Question};
use crate::panic::Payload;

#[cfg(doc)]
use crate::mailbox::oneshot::Asker;

/// A closure in a oneshot.
pub(crate) struct Job<S, F> {
    f: F,
    of: PhantomData<fn(S)>,
}

impl<S, F> Job<S, F> {
    pub(crate) fn new(f: F) -> Self {
        Job { f, of: PhantomData }
    }
}

impl<S, F> Question for Job<S, F> {
    type Payload = F;
    fn payload(self) -> F {
        self.f
    }
}

/// Outcome of a lent closure.
pub(crate) enum Returned<F, R> {
    Value(R),
    Panicked(Payload),
    NotRun(F, Reason),
}

/// The node's part. One that was accepted nowhere is dropped, and its caller takes the closure
/// back; in a node it is run or discarded.
pub(crate) struct Lent<S, F, R> {
    answerer: Option<Answerer<Job<S, F>, Returned<F, R>>>,
    accepted: Option<Accepted<Job<S, F>, Returned<F, R>>>,
}

impl<S, R, F: FnOnce(&mut S) -> R> Lent<S, F, R> {
    pub(crate) fn new(answerer: Answerer<Job<S, F>, Returned<F, R>>) -> Self {
        Lent { answerer: Some(answerer), accepted: None }
    }

    fn answer(&mut self, returned: Returned<F, R>) {
        if let Some(accepted) = self.accepted.take() {
            accepted.finish(Ok(returned));
        }
    }
}

impl<S: 'static, R, F: FnOnce(&mut S) -> R> Stays for Lent<S, F, R> {
    type State = S;

    fn run(&mut self, mut place: Place<'_, S>) {
        let Some(answerer) = self.answerer.take() else { return };
        let Some((Job { f, .. }, accepted)) = answerer.start() else { return };
        self.accepted = Some(accepted);
        let value = place.with_state(f);
        self.answer(Returned::Value(value));
    }

    fn discard(&mut self, place: Place<'_, S>) {
        if let Some((Job { f, .. }, accepted)) = self.answerer.take().and_then(Answerer::start) {
            accepted.finish(Ok(Returned::NotRun(f, why_not(place.header()))));
        }
    }

    fn panicked(&mut self, _: Place<'_, S>, panic: Payload) {
        self.answer(Returned::Panicked(panic));
    }
}

impl<S: 'static, R, F: FnOnce(&mut S) -> R> Envelope for Lent<S, F, R> {
    const VTABLE: &'static VTable = &staying::<Self>();
}
