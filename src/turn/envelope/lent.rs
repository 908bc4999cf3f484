//! A closure that a caller inside a turn lends: it lies in a oneshot, may borrow from the caller's
//! frame, and can be taken back until its turn.
//!
//! - E3: what it borrows is there until it was taken back ([`Asker::cancel`]) or answered
//!   ([`Asker::take`]): its caller does not leave before. Neither the closure nor its result is
//!   touched by anybody else afterwards: the one that runs it has moved it out and dropped it before
//!   it answers, and a closure that is not run goes back in the answer.

use std::marker::PhantomData;

use super::why_not;
use crate::cell::resident::Env;
use crate::error::Reason;
use crate::mailbox::node::{Envelope, VTable};
use crate::mailbox::oneshot::{Answerer, Question};
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

/// What became of it.
pub(crate) enum Returned<F, R> {
    Value(R),
    Panicked(Payload),
    NotRun(F, Reason),
}

/// The node's part.
pub(crate) struct Lent<S, F, R> {
    answerer: Option<Answerer<Job<S, F>, Returned<F, R>>>,
}

impl<S, R, F: FnOnce(&mut S) -> R> Lent<S, F, R> {
    pub(crate) fn new(answerer: Answerer<Job<S, F>, Returned<F, R>>) -> Self {
        Lent { answerer: Some(answerer) }
    }

    /// # Safety
    /// E1.
    unsafe fn run(payload: *mut u8, env: *const ()) {
        // SAFETY: E1: the payload is a `Lent<S, F, R>`, and the owner alone reaches it.
        let this = unsafe { &mut *payload.cast::<Self>() };
        let Some(answerer) = this.answerer.take() else { return };
        let Some(Job { f, .. }) = answerer.start() else { return answerer.leave() };
        this.answerer = Some(answerer);
        // SAFETY: E1: the owner's state.
        let value = unsafe { Env::with_state(env, f) };
        this.answer(Returned::Value(value));
    }

    /// # Safety
    /// E1.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: E1, as above.
        let (this, reason) = unsafe { (&mut *payload.cast::<Self>(), why_not(env)) };
        let Some(answerer) = this.answerer.take() else { return };
        match answerer.start() {
            Some(Job { f, .. }) => answerer.finish(Ok(Returned::NotRun(f, reason))),
            None => answerer.leave(),
        }
    }

    /// # Safety
    /// E1, after `run` has unwound.
    unsafe fn panicked(payload: *mut u8, _: *const (), panic: Payload) {
        // SAFETY: E1, as above.
        let this = unsafe { &mut *payload.cast::<Self>() };
        this.answer(Returned::Panicked(panic));
    }

    fn answer(&mut self, returned: Returned<F, R>) {
        if let Some(answerer) = self.answerer.take() {
            answerer.finish(Ok(returned));
        }
    }
}

impl<S, R, F> Envelope for Lent<S, F, R>
where
    F: FnOnce(&mut S) -> R,
{
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked);
}

impl<S, F, R> Drop for Lent<S, F, R> {
    fn drop(&mut self) {
        // One that was accepted nowhere: its caller takes it back.
        // In a node it is never dropped: it is run or discarded.
        self.answerer.take().into_iter().for_each(Answerer::leave);
    }
}
