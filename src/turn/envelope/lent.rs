//! A closure that a caller inside a turn lends: it lies in the caller's frame, a oneshot leads to
//! it, and it can be taken back until its turn.
//!
//! - ENVELOPE-3: the frame stays until the closure was taken back ([`Asker::cancel`]) or answered
//!   ([`Asker::take`]): its caller does not leave before. The closure is not touched from the
//!   answer on.

use super::{Call, Stays, staying, why_not};
use crate::cell::resident::Place;
use crate::error::Reason;
use crate::mailbox::node::{Envelope, VTable};
use crate::mailbox::oneshot::{Accepted, Answerer, Question};
use crate::panic::Payload;

#[cfg(doc)]
use crate::mailbox::oneshot::Asker;

/// A closure that a oneshot leads to.
pub(crate) struct LentCall<'a, S>(pub(crate) Call<'a, S>);

impl<S> Question for LentCall<'_, S> {
    type Payload = ();
    fn payload(self) {}
}

/// Outcome of a lent closure.
pub(crate) enum Returned {
    Ran,
    Panicked(Payload),
    NotRun(Reason),
}

/// The node's part. One that was accepted nowhere is dropped, and its caller takes the closure
/// back; in a node it is run or discarded.
pub(crate) struct Lent<'a, S> {
    answerer: Option<Answerer<LentCall<'a, S>, Returned>>,
    accepted: Option<Accepted<LentCall<'a, S>, Returned>>,
}

impl<'a, S> Lent<'a, S> {
    pub(crate) fn new(answerer: Answerer<LentCall<'a, S>, Returned>) -> Self {
        Lent { answerer: Some(answerer), accepted: None }
    }

    fn answer(&mut self, returned: Returned) {
        if let Some(accepted) = self.accepted.take() {
            accepted.finish(Ok(returned));
        }
    }
}

impl<S: 'static> Stays for Lent<'_, S> {
    type State = S;

    fn run(&mut self, mut place: Place<'_, S>) {
        let Some(answerer) = self.answerer.take() else { return };
        let Some((LentCall(call), accepted)) = answerer.start() else { return };
        self.accepted = Some(accepted);
        place.with_state(call);
        self.answer(Returned::Ran);
    }

    fn discard(&mut self, place: Place<'_, S>) {
        if let Some((_, accepted)) = self.answerer.take().and_then(Answerer::start) {
            accepted.finish(Ok(Returned::NotRun(why_not(place.header()))));
        }
    }

    fn panicked(&mut self, _: Place<'_, S>, panic: Payload) {
        self.answer(Returned::Panicked(panic));
    }
}

impl<S: 'static> Envelope for Lent<'_, S> {
    const VTABLE: &'static VTable = &staying::<Self>();
}
