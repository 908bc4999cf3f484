//! The messages that the verbs send: as they are, or, to a traced actor, in its span
//! ([`spans`]).
//!
//! [`spans`]: super::spans

use super::Reply;
#[cfg(feature = "tracing")]
use super::spans::{self, Origin};
use crate::cell::message::{Closure, Message};
use crate::cell::refs::Strong;
use crate::error::{AskError, SendError};
use crate::send::push::By;

/// A message as the verbs make it.
pub(super) trait Shown {
    /// The type of the message that its sender sees.
    type As;
}

impl<F, R> Shown for Closure<F, R> {
    type As = F;
}

/// A message that comes back to its sender if it is refused.
pub(super) trait Returned: Shown {
    fn returned(self) -> Self::As;
}

impl<F, R> Returned for Closure<F, R> {
    fn returned(self) -> F {
        self.f
    }
}

/// Sends a message by an expression: as it is, or, to an actor that is traced, in its span.
macro_rules! as_sent {
    ($handle:expr, $message:ident => $send:expr) => {{
        #[cfg(feature = "tracing")]
        if let Some(origin) = $crate::actor::spans::origin($handle) {
            let $message = origin.of_message($message);
            return $send;
        }
        $send
    }};
}

pub(super) use as_sent;

#[inline(always)]
pub(super) fn send<S, L>(handle: &Strong<S>, message: L, by: By) -> Result<(), SendError<L::As>>
where
    S: 'static,
    L: Message<S> + Returned,
{
    as_sent!(handle, message => {
        let sent = match by {
            By::Sender => handle.send(message),
            By::Poster => handle.post(message),
        };
        sent.map_err(back)
    })
}

/// A refused message, for its sender.
#[cold]
fn back<L: Returned>(error: SendError<L>) -> SendError<L::As> {
    error.map(L::returned)
}

/// Sends many messages in one step.
#[inline(always)]
pub(super) fn send_many<S, L>(
    handle: &Strong<S>,
    messages: impl Iterator<Item = L>,
) -> Result<(), SendError<Vec<L::As>>>
where
    S: 'static,
    L: Message<S> + Returned,
{
    #[cfg(feature = "tracing")]
    if spans::is_traced(handle) {
        let here = || Origin::here(handle.header());
        let traced = messages.map(|message| here().of_message(message));
        return handle.send_many(traced).map_err(all_back);
    }
    handle.send_many(messages).map_err(all_back)
}

#[cold]
fn all_back<L: Returned>(error: SendError<Vec<L>>) -> SendError<Vec<L::As>> {
    error.map(|messages| messages.into_iter().map(L::returned).collect())
}

#[inline(always)]
pub(super) fn ask<S, L>(handle: &Strong<S>, message: L, by: By) -> Reply<L::Answer, L::Payload>
where
    S: 'static,
    L: Message<S> + Shown,
{
    as_sent!(handle, message => Reply::of(handle, handle.ask(message, by), Message::<S>::payload))
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
