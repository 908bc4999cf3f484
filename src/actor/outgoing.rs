//! The messages that the verbs send: as they are, or, to a traced actor, in its span
//! ([`spans`]).
//!
//! [`spans`]: super::spans

#[cfg(feature = "tracing")]
use super::spans::{self, Origin, Traced};
use crate::cell::message::{Closure, Message};
use crate::cell::refs::Strong;
use crate::error::{AskError, Reason, SendError};
use crate::send::message::Answer;
use crate::send::push::By;

/// A message as the verbs make it.
pub(super) trait Shown {
    /// The type of the message that its sender sees.
    type As;
}

impl<F, R> Shown for Closure<F, R> {
    type As = F;
}

/// Sends a message by an expression: as it is, or, to an actor that is traced, in its span, and
/// then with what comes back taken out of that.
macro_rules! as_sent {
    ($handle:expr, $message:ident => $send:expr) => {
        $crate::actor::outgoing::as_sent!($handle, $message => $send, sent => sent)
    };
    ($handle:expr, $message:ident => $send:expr, $sent:ident => $back:expr) => {{
        #[cfg(feature = "tracing")]
        if let Some(origin) = $crate::actor::spans::origin($handle) {
            let $message = origin.of_message($message);
            let $sent = $send;
            return $back;
        }
        $send
    }};
}

pub(super) use as_sent;

#[inline(always)]
pub(super) fn send<S, L>(handle: &Strong<S>, message: L, by: By) -> Result<(), SendError<L>>
where
    S: 'static,
    L: Message<S> + Shown,
{
    as_sent!(
        handle,
        message => match by {
            By::Sender => handle.send(message),
            By::Poster => handle.post(message),
        },
        sent => sent.map_err(|error| error.map(Traced::into_message))
    )
}

/// Sends many messages in one step.
#[inline(always)]
pub(super) fn send_many<S, L>(
    handle: &Strong<S>,
    messages: impl Iterator<Item = L>,
) -> Result<(), SendError<Vec<L>>>
where
    S: 'static,
    L: Message<S> + Shown,
{
    #[cfg(feature = "tracing")]
    if spans::is_traced(handle) {
        let here = || Origin::here(handle.header());
        let traced = messages.map(|message| here().of_message(message));
        let back = |all: Vec<Traced<L>>| all.into_iter().map(Traced::into_message).collect();
        return handle.send_many(traced).map_err(|error| error.map(back));
    }
    handle.send_many(messages)
}

/// The outcome of a question: its answer, or the question and why it was refused.
type AskResult<S, L> =
    Result<Answer<<L as Message<S>>::Answer, <L as Message<S>>::Payload>, (L, Reason)>;

#[inline(always)]
pub(super) fn ask<S, L>(handle: &Strong<S>, message: L, by: By) -> AskResult<S, L>
where
    S: 'static,
    L: Message<S> + Shown,
{
    as_sent!(
        handle,
        message => handle.ask(message, by),
        asked => asked.map_err(|(traced, reason)| (traced.into_message(), reason))
    )
}

/// Runs a closure and waits for it.
#[inline(always)]
pub(super) fn with<S, F, R>(handle: &Strong<S>, f: F) -> Result<R, AskError>
where
    S: 'static,
    F: FnOnce(&mut S) -> R + Send,
    R: Send,
{
    #[cfg(feature = "tracing")]
    if let Some(origin) = spans::origin(handle) {
        return handle.with(origin.of_closure(handle.header(), f));
    }
    handle.with(f)
}

/// Runs a closure here and now, or not at all.
#[inline(always)]
pub(super) fn try_with<S, F, R>(handle: &Strong<S>, f: F) -> Result<R, SendError<F>>
where
    S: 'static,
    F: FnOnce(&mut S) -> R,
{
    #[cfg(feature = "tracing")]
    if spans::is_traced(handle) {
        let mut f = Some(f);
        let tried = handle.try_with(|state| {
            let f = f.take().expect("a closure is run once");
            // It has not waited: its origin is made in the turn.
            Origin::here(handle.header()).of_closure(handle.header(), f)(state)
        });
        let tried = tried.map_err(|error| error.map(drop));
        return tried.map_err(|error| error.map(|()| f.expect("a closure that was not run")));
    }
    handle.try_with(f)
}
