//! A message whose answer is waited for: it lies in a oneshot, and the node leads there.

use std::marker::PhantomData;

use super::{Answers, Stays, staying, why_not};
use crate::cell::message::Message;
use crate::cell::resident::Place;
use crate::error::{ActorName, AskError, Reason, TurnPanic};
use crate::mailbox::node::{Envelope, VTable};
use crate::mailbox::oneshot::{Accepted, Answerer, Asker, Question};
use crate::panic::{self, Payload};

/// A message in a oneshot.
pub(crate) struct Asked<S, L> {
    pub(crate) message: L,
    of: PhantomData<fn(S)>,
}

impl<S, L> Asked<S, L> {
    pub(crate) fn new(message: L) -> Self {
        Asked { message, of: PhantomData }
    }
}

impl<S, L: Message<S>> Question for Asked<S, L> {
    type Payload = L::Payload;
    fn payload(self) -> L::Payload {
        self.message.payload()
    }
}

/// The node's part: the question, then the duty to answer it. That is taken out when it answers, so
/// that a panic in giving the answer is not answered again.
pub(crate) struct Ask<S, L: Message<S>> {
    answerer: Option<Answerer<Asked<S, L>, L::Answer>>,
    accepted: Option<Accepted<Asked<S, L>, L::Answer>>,
}

impl<S: 'static, L: Message<S>> Ask<S, L> {
    pub(crate) fn new(answerer: Answerer<Asked<S, L>, L::Answer>) -> Self {
        Ask { answerer: Some(answerer), accepted: None }
    }

    /// The message, of a question that was accepted nowhere.
    pub(crate) fn take_back(mut self, asker: Asker<L::Answer, L::Payload>) -> L {
        match self.answerer.take() {
            Some(answerer) => answerer.take_back(asker).message,
            None => unreachable!("a question that was accepted nowhere was not answered"),
        }
    }
}

impl<S: 'static, L: Message<S>> Stays for Ask<S, L> {
    type State = S;

    fn run(&mut self, mut place: Place<'_, S>) {
        let Some(answerer) = self.answerer.take() else { return };
        let Some((question, accepted)) = answerer.start() else { return };
        self.accepted = Some(accepted);
        let turn = place.in_turn();
        let answer = place.with_state(|state| question.message.run(state, turn));
        if let Some(accepted) = self.accepted.take() {
            accepted.finish(Ok(answer));
        }
    }

    fn discard(&mut self, place: Place<'_, S>) {
        let header = place.header();
        if !answer(self.answerer.take(), why_not(header).into()) {
            header.discards();
        }
    }

    fn panicked(&mut self, place: Place<'_, S>, panic: Payload) {
        if let Some(accepted) = self.accepted.take() {
            let told = TurnPanic::of(place.header().name(), &panic);
            accepted.finish(Err(AskError::Panicked(told)));
        }
        panic::discard(panic);
    }
}

impl<S: 'static, L: Message<S>> Envelope for Ask<S, L> {
    const VTABLE: &'static VTable = &staying::<Self>();
}

impl<S: 'static, L: Message<S>> Answers for Ask<S, L> {
    fn refuse(mut self, reason: Reason) {
        answer(self.answerer.take(), reason.into());
    }

    fn leave(mut self) {
        drop(self.answerer.take());
    }
}

impl<S, L: Message<S>> Drop for Ask<S, L> {
    fn drop(&mut self) {
        // One that was withdrawn as it waited for room. In a node it is never dropped: it is run
        // or discarded.
        answer(self.answerer.take(), AskError::Abandoned(ActorName::ANY));
    }
}

/// Answers a question that is not run, unless its asker has withdrawn it. The asker's poll may be
/// what calls this: a panic of the question's drop is ignored, for the answer is there. False if
/// the asker has left, so that the question is dropped without a word to anybody.
fn answer<S, L: Message<S>>(
    answerer: Option<Answerer<Asked<S, L>, L::Answer>>,
    error: AskError,
) -> bool {
    let Some((question, accepted)) = answerer.and_then(Answerer::start) else { return true };
    let is_heard = accepted.finish(Err(error));
    panic::ignore(|| drop(question));
    is_heard
}
