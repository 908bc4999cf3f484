//! Waiting for an actor without blocking a thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Actor;
use crate::error::Reason;
use crate::send::wait::{Awaited, NotWaited};

/// A future that is ready when an actor is idle ([`Actor::idle`]) or has ended ([`Actor::ended`]).
///
/// Polling it runs no turn. Dropping it leaves nothing behind.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Ending<S: Send + 'static> {
    actor: Actor<S>,
    awaited: Awaited,
    entry: Option<u64>,
}

impl<S: Send + 'static> Ending<S> {
    pub(super) fn new(actor: Actor<S>, awaited: Awaited) -> Self {
        Ending { actor, awaited, entry: None }
    }
}

impl<S: Send + 'static> Future for Ending<S> {
    /// [`Reason::Deadlock`] inside a turn of this very actor.
    type Output = Result<(), Reason>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let polled = this.actor.handle.poll_until(this.awaited, &mut this.entry, cx);
        polled.map_err(|why| match why {
            NotWaited::WouldBlock => Reason::WouldBlock,
            NotWaited::Deadlock | NotWaited::TimedOut => Reason::Deadlock,
        })
    }
}

impl<S: Send + 'static> Drop for Ending<S> {
    fn drop(&mut self) {
        self.actor.handle.forget_waiter(self.awaited, &mut self.entry);
    }
}

impl<S: Send + 'static> fmt::Debug for Ending<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").field("awaited", &self.awaited).finish_non_exhaustive()
    }
}
