//! The verbs of the crate as some tests use them, so that a rename changes one place.

#![allow(dead_code)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use turnwise::{Actor, ActorBuilder, AskError, Limit, PanicPolicy, Reason, Reply, WaitError};

/// A boxed future of an accepted message.
pub(crate) type Sending = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Sends a message that does not run in this call. Returns true if it was accepted.
pub(crate) fn post<S, F>(actor: &Actor<S>, message: F) -> bool
where
    S: Send + 'static,
    F: FnOnce(&mut S) + Send + 'static,
{
    actor.posted().send(message).is_ok()
}

/// Sends with a wait for room, as a future that borrows the handle. Returns true if accepted.
pub(crate) fn sending<S, F>(actor: &Actor<S>, message: F) -> impl Future<Output = bool> + Send
where
    S: Send + 'static,
    F: FnOnce(&mut S) + Send + 'static,
{
    let sending = actor.waiting().send(message);
    async move { sending.await.is_ok() }
}

/// Does as [`sending`], with a handle of its own.
pub(crate) fn sending_by<S, F>(actor: Actor<S>, message: F) -> Sending
where
    S: Send + 'static,
    F: FnOnce(&mut S) + Send + 'static,
{
    Box::pin(async move { sending(&actor, message).await })
}

/// Sends with a limited wait for room. Returns true if accepted.
pub(crate) fn send_within<S, F>(actor: &Actor<S>, limit: Duration, message: F) -> bool
where
    S: Send + 'static,
    F: FnOnce(&mut S) + Send + 'static,
{
    actor.waiting().send(message).within(limit).is_ok()
}

/// Asks, and returns `None` at the limit.
pub(crate) fn ask_within<S, F, R>(actor: &Actor<S>, limit: Duration, question: F) -> Option<R>
where
    S: Send + 'static,
    F: FnOnce(&mut S) -> R + Send + 'static,
    R: Send + 'static,
{
    actor.call(question).within(limit).ok()
}

/// Waits for an answer until the limit; returns the reply if there is none yet.
pub(crate) fn wait_for<R>(
    reply: Reply<R>,
    limit: impl Into<Limit>,
) -> Result<Result<R, AskError>, Reply<R>> {
    match reply.wait_timeout(limit) {
        Ok(answer) => Ok(Ok(answer)),
        Err(WaitError::Ask(error)) => Ok(Err(error)),
        Err(WaitError::TimedOut(reply)) => Err(reply),
        Err(_) => unreachable!("a wait ends with an answer or without one"),
    }
}

/// Waits for an answer until the limit. Returns true if there was none, and the request was
/// withdrawn.
pub(crate) fn withdrawn_after<R>(reply: Reply<R>, limit: Duration) -> bool {
    matches!(reply.within(limit), Err(WaitError::Cancelled(_)))
}

/// True if the request was refused because the mailbox is full.
pub(crate) fn is_full(error: &AskError) -> bool {
    matches!(error, AskError::Refused(Reason::Full, _))
}

/// Configures an actor to resume after a panic.
pub(crate) fn resuming<S: Send + 'static>(builder: ActorBuilder<S>) -> ActorBuilder<S> {
    builder.panic_policy(PanicPolicy::Resume)
}

/// Calls `hook` with the text of every panic.
pub(crate) fn on_panic<S: Send + 'static>(
    builder: ActorBuilder<S>,
    hook: impl FnMut(&str) + Send + 'static,
) -> ActorBuilder<S> {
    let hook = Mutex::new(hook);
    builder.on_panic(move |panic| hook.lock().unwrap()(panic.text()))
}

/// Calls `hook` for every message that is given back.
pub(crate) fn on_undelivered<S: Send + 'static>(
    builder: ActorBuilder<S>,
    hook: impl Fn() + Send + Sync + 'static,
) -> ActorBuilder<S> {
    builder.on_undelivered(move |message| {
        drop(message);
        hook();
    })
}

/// Calls `hook` at the end.
pub(crate) fn on_end<S: Send + 'static>(
    builder: ActorBuilder<S>,
    hook: impl FnOnce() + Send + 'static,
) -> ActorBuilder<S> {
    let hook = Mutex::new(Some(hook));
    builder.on_end(move |state, _| {
        drop(state);
        let hook = hook.lock().unwrap().take();
        hook.expect("one actor")();
    })
}

/// Polls once with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}
