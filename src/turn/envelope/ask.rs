//! A message whose answer is waited for: it lies in a oneshot, and the node leads there.

use std::marker::PhantomData;

use super::{Answers, why_not};
use crate::cell::message::Message;
use crate::cell::owner::InTurn;
use crate::cell::resident::Env;
use crate::error::{ActorName, AskError, Reason, TurnPanic};
use crate::mailbox::node::{Envelope, VTable};
use crate::mailbox::oneshot::{Answerer, Asker, Question};
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

/// The node's part. The answerer is taken out when it answers, so that a panic in giving the answer
/// is not answered again.
pub(crate) struct Ask<S, L: Message<S>> {
    answerer: Option<Answerer<Asked<S, L>, L::Answer>>,
}

impl<S: 'static, L: Message<S>> Ask<S, L> {
    pub(crate) fn new(answerer: Answerer<Asked<S, L>, L::Answer>) -> Self {
        Ask { answerer: Some(answerer) }
    }

    /// The message, of a question that was accepted nowhere.
    pub(crate) fn take_back(mut self, asker: Asker<L::Answer, L::Payload>) -> L {
        match self.answerer.take() {
            Some(answerer) => answerer.take_back(asker).message,
            None => unreachable!("a question that was accepted nowhere was not answered"),
        }
    }

    /// # Safety
    /// E1.
    unsafe fn run(payload: *mut u8, env: *const ()) {
        // SAFETY: E1: the payload is an `Ask<S, L>`, and the owner alone reaches it.
        let this = unsafe { &mut *payload.cast::<Self>() };
        let Some(answerer) = this.answerer.take() else { return };
        let Some(question) = answerer.start() else { return answerer.leave() };
        this.answerer = Some(answerer);
        // SAFETY: E1: the owner's state and cell.
        let answer = unsafe {
            let turn = InTurn::new(Env::cell(env));
            Env::with_state(env, |state| question.message.run(state, turn))
        };
        if let Some(answerer) = this.answerer.take() {
            answerer.finish(Ok(answer));
        }
    }

    /// # Safety
    /// E1.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: E1, as above.
        let (this, reason) = unsafe { (&mut *payload.cast::<Self>(), why_not(env)) };
        answer(this.answerer.take(), reason.into());
    }

    /// # Safety
    /// E1, after `run` has unwound.
    unsafe fn panicked(payload: *mut u8, env: *const (), panic: Payload) {
        // SAFETY: E1, as above; the owner keeps the cell.
        let (this, header) = unsafe { (&mut *payload.cast::<Self>(), &*Env::cell(env)) };
        if let Some(answerer) = this.answerer.take() {
            answerer.finish(Err(AskError::Panicked(TurnPanic::of(header.name(), &panic))));
        }
        panic::discard(panic);
    }
}

impl<S: 'static, L: Message<S>> Envelope for Ask<S, L> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked);
}

impl<S: 'static, L: Message<S>> Answers for Ask<S, L> {
    fn refuse(mut self, reason: Reason) {
        answer(self.answerer.take(), reason.into());
    }

    fn leave(mut self) {
        self.answerer.take().into_iter().for_each(Answerer::leave);
    }
}

impl<S, L: Message<S>> Drop for Ask<S, L> {
    fn drop(&mut self) {
        // One that was withdrawn from its seat. In a node it is never dropped: it is run or
        // discarded.
        answer(self.answerer.take(), AskError::Abandoned(ActorName::ANY));
    }
}

/// Answers a question that is not run, unless its asker has withdrawn it.
fn answer<S, L: Message<S>>(answerer: Option<Answerer<Asked<S, L>, L::Answer>>, error: AskError) {
    let Some(answerer) = answerer else { return };
    match answerer.start() {
        Some(question) => {
            answerer.finish(Err(error));
            drop(question);
        }
        None => answerer.leave(),
    }
}
