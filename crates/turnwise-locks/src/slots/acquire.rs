//! A request for a slot: its place is taken.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use turnwise::Limit;

use super::error::SlotError;
use super::pool::Pool;
use super::shared::SlotPermit;
use super::slot::Slot;
use crate::limits::Limits;
use crate::lock::{Acquire, LockError, Permit};

/// A slot that is asked for: a `Future` on any runtime, or something to [wait](Self::wait) for.
///
/// The place in the queue was taken by the call that made it, and is kept whether anybody polls
/// this or not. Dropping it leaves the queue. The set-up runs where the slot comes out of this: in
/// the poll, or in the call that waits. So one that blocks belongs on a thread that may.
#[must_use = "dropping it gives the place up"]
pub struct AcquireSlot<T: 'static = (), E: 'static = std::convert::Infallible> {
    /// Until it is over.
    pool: Option<Arc<Pool<T, E>>>,
    asked: Asked,
    lease: Option<Duration>,
}

enum Asked {
    /// It has a permit that came without a turn.
    Fast,
    /// Beside this, so that a request which does not wait is small.
    Queues(Box<Acquire<(), Permit>>),
    Taken,
}

impl<T: 'static, E: 'static> AcquireSlot<T, E> {
    pub(super) fn new(pool: &Arc<Pool<T, E>>, limits: Limits) -> Self {
        // The permit has no lease: the slot has.
        let wanted = limits.unleased();
        let asked = match wanted.are_plain() && pool.shared.permits.take() {
            true => Asked::Fast,
            false => Asked::Queues(Box::new(pool.shared.permits.ask(1, wanted))),
        };
        AcquireSlot { pool: Some(pool.clone()), asked, lease: limits.leased() }
    }

    /// Waits for the slot, until the deadline that was made by the call, and sets it up. May block.
    ///
    /// # Errors
    /// See [`SlotError`]: there is no slot, and the place is given up.
    ///
    /// # Panics
    /// With the set-up's own panic; the slot is cleaned up, and goes on to the next.
    pub fn wait(mut self) -> Result<Slot<T, E>, SlotError<E>> {
        let entry = match &self.asked {
            Asked::Queues(_) => match std::mem::replace(&mut self.asked, Asked::Taken) {
                Asked::Queues(permit) => permit.wait().map(SlotPermit::Permit),
                _ => unreachable!("it was looked at"),
            },
            _ => self.let_in(),
        };
        self.enter(entry)
    }

    /// Waits for the slot for so long at most, and sets it up; the place in the queue stays. None:
    /// it has not come yet. May block.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::{Limits, SlotPool};
    ///
    /// let pool = SlotPool::new(1)?;
    /// let slot = pool.try_acquire()?;
    /// let mut waiting = pool.acquire(Limits::NONE);
    /// assert!(waiting.wait_timeout(Duration::from_millis(1)).is_none());
    /// drop(slot);
    /// waiting.wait()?.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_timeout(
        &mut self,
        limit: impl Into<Limit>,
    ) -> Option<Result<Slot<T, E>, SlotError<E>>> {
        let entry = match &mut self.asked {
            Asked::Queues(permit) => permit.wait_timeout(limit)?.map(SlotPermit::Permit),
            _ => self.let_in(),
        };
        Some(self.enter(entry))
    }

    /// True once it is over: a slot waits for it, or never will. Wait-free.
    pub fn is_ready(&self) -> bool {
        match &self.asked {
            Asked::Fast => true,
            Asked::Queues(permit) => permit.is_ready(),
            Asked::Taken => false,
        }
    }

    /// The entry that it has without waiting.
    fn let_in(&mut self) -> Result<SlotPermit, LockError> {
        let Asked::Fast = self.asked else { return Err(LockError::Taken) };
        self.asked = Asked::Taken;
        Ok(SlotPermit::Fast)
    }

    fn enter(&mut self, entry: Result<SlotPermit, LockError>) -> Result<Slot<T, E>, SlotError<E>> {
        self.set_up(entry).inspect(|slot| slot.begin(self.lease))
    }

    /// The slot, before its lease.
    fn set_up(&mut self, entry: Result<SlotPermit, LockError>) -> Result<Slot<T, E>, SlotError<E>> {
        match (entry, self.pool.take()) {
            (Ok(entry), Some(pool)) => pool.enter(entry),
            (Err(error), _) => Err(SlotError::NotAcquired(error)),
            (Ok(_), None) => unreachable!("it is let in once"),
        }
    }

    fn poll_entry(&mut self, cx: &mut Context<'_>) -> Poll<Result<SlotPermit, LockError>> {
        match &mut self.asked {
            Asked::Queues(permit) => {
                let permit = std::task::ready!(Pin::new(permit).poll(cx));
                Poll::Ready(permit.map(SlotPermit::Permit))
            }
            _ => Poll::Ready(self.let_in()),
        }
    }

    /// The slot, before its [lease](Self::lease).
    pub(super) fn poll_slot(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Slot<T, E>, SlotError<E>>> {
        let entry = std::task::ready!(self.poll_entry(cx));
        Poll::Ready(self.set_up(entry))
    }

    /// The lease, by its limits.
    pub(super) fn lease(&self) -> Option<Duration> {
        self.lease
    }
}

impl<T: 'static, E: 'static> Drop for AcquireSlot<T, E> {
    fn drop(&mut self) {
        if let (Asked::Fast, Some(pool)) = (&self.asked, &self.pool) {
            pool.shared.give_back(Some(SlotPermit::Fast));
        }
    }
}

impl<T: 'static, E: 'static> Future for AcquireSlot<T, E> {
    type Output = Result<Slot<T, E>, SlotError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let entry = std::task::ready!(self.poll_entry(cx));
        Poll::Ready(self.enter(entry))
    }
}

impl<T: 'static, E: 'static> fmt::Debug for AcquireSlot<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireSlot").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}
