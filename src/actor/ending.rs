//! Waiting for what an actor comes to, by a thread or a task.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::Actor;
use super::within::{Over, Within};
use crate::error::Reason;
use crate::panic;
use crate::send::wait::WaitFor;
use crate::time::Limit;
use crate::wait_list::WaiterPlace;

/// Resolves when an actor is idle ([`Actor::idle`]), or has ended ([`Actor::ended`]). A future,
/// or something to wait for.
///
/// It keeps a handle, so it keeps the actor going. Polling it runs no turn. Dropping it leaves
/// nothing behind. Polled again after it was ready, it looks again: an end stays so, and `idle`
/// waits for the next time.
#[must_use = "it does nothing unless it is awaited, or waited for"]
pub struct Ending<S: Send + 'static> {
    actor: Actor<S>,
    awaited: WaitFor,
    entry: Option<WaiterPlace>,
}

impl<S: Send + 'static> Ending<S> {
    pub(super) fn new(actor: Actor<S>, awaited: WaitFor) -> Self {
        Ending { actor, awaited, entry: None }
    }

    /// Waits for it. May block.
    ///
    /// # Errors
    /// [`Reason::Deadlock`] inside a turn that the actor waits for, or its own;
    /// [`Reason::WouldBlock`] on a pool's worker that must not wait.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// n.close();
    /// n.ended().wait()?;
    /// # Ok::<(), turnwise::Reason>(())
    /// ```
    pub fn wait(self) -> Result<(), Reason> {
        self.within(Limit::Unlimited).map(drop)
    }

    /// Waits for it, for `limit` at most; zero is one look. May block. True if it is so, false if
    /// the time was over first.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let n = turnwise::Actor::new(0);
    /// assert!(n.idle().within(Duration::from_secs(1))?);
    /// assert!(!n.ended().within(Duration::ZERO)?);
    /// # Ok::<(), turnwise::Reason>(())
    /// ```
    pub fn within(self, limit: impl Into<Limit>) -> Result<bool, Reason> {
        let limit = limit.into();
        let wait = |this: &mut Self| {
            let handle = &this.actor.handle;
            handle.wait_until(this.awaited, handle.deadline(limit))
        };
        panic::owning(self, wait).1
    }

    /// [`within`](Self::within) for a task: a future with the same outcomes. The time counts from
    /// this call on, by the actor's clock; the task is woken by [the actor's
    /// timers](crate::ActorBuilder::timers). Polling it runs no turn.
    ///
    /// # Panics
    /// If the clock does.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let n = turnwise::Actor::new(0);
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// assert!(!runtime.block_on(n.ended().within_async(Duration::from_millis(5)))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within_async(self, limit: impl Into<Limit>) -> Within<Self> {
        let limit = limit.into();
        let over = |this: &mut Self| Over::of(limit, this.actor.handle.header());
        let (this, over) = panic::owning(self, over);
        Within::new(over, this)
    }
}

impl<S: Send + 'static> Future for Ending<S> {
    /// [`Reason::Deadlock`] inside a turn of this very actor.
    type Output = Result<(), Reason>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.actor.handle.poll_until(this.awaited, &mut this.entry, cx)
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

impl<S: Send + 'static> Future for Within<Ending<S>> {
    type Output = Result<bool, Reason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Within { inner, over } = &mut *self;
        let Some(inner) = inner else { return Poll::Ready(Ok(false)) };
        if let Poll::Ready(ended) = Pin::new(inner).poll(cx) {
            return Poll::Ready(ended.map(|()| true));
        }
        ready!(over.poll(cx));
        Poll::Ready(Ok(false))
    }
}
