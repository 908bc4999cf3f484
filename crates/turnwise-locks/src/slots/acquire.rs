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
use super::slot::Slot;
use crate::limits::Limits;
use crate::lock::{Acquire, LockError, Permit};

/// A slot that is asked for: a `Future` on any runtime, or something to [wait](Self::wait) for.
///
/// The place in the queue was taken by the call that made it, and is kept whether anybody polls this
/// or not. Dropping it leaves the queue. The set-up runs where the slot comes out of this: in the
/// poll, or in the call that waits. So one that blocks belongs on a thread that may.
#[must_use = "dropping it gives the place up"]
pub struct AcquireSlot<T: 'static = (), E: 'static = std::convert::Infallible> {
    pool: Arc<Pool<T, E>>,
    permit: Acquire<Permit>,
    lease: Option<Duration>,
}

impl<T: 'static, E: 'static> AcquireSlot<T, E> {
    pub(super) fn new(pool: &Arc<Pool<T, E>>, limits: Limits) -> Self {
        // The permit has no lease: the slot has. One of no time is refused all the same.
        let wanted = if limits.has_lease_of_zero() { limits } else { limits.unleased() };
        let permit = pool.desk.permits.acquire_within(1, wanted);
        AcquireSlot { pool: pool.clone(), permit, lease: limits.leased() }
    }

    /// Waits for the slot, until the deadline that was made by the call, and sets it up. May block.
    ///
    /// # Errors
    /// See [`SlotError`]: there is no slot, and the place is given up.
    ///
    /// # Panics
    /// With the set-up's own panic; the slot is cleaned up, and goes on to the next.
    pub fn wait(self) -> Result<Slot<T, E>, SlotError<E>> {
        let AcquireSlot { pool, permit, lease } = self;
        enter(&pool, permit.wait(), lease)
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
        let permit = self.permit.wait_timeout(limit)?;
        Some(enter(&self.pool, permit, self.lease))
    }

    /// Is it over: does a slot wait for it, or never will? Wait-free.
    pub fn is_ready(&self) -> bool {
        self.permit.is_ready()
    }
}

fn enter<T: 'static, E: 'static>(
    pool: &Arc<Pool<T, E>>,
    permit: Result<Permit, LockError>,
    lease: Option<Duration>,
) -> Result<Slot<T, E>, SlotError<E>> {
    pool.enter(permit.map_err(SlotError::NotAcquired)?, lease)
}

impl<T: 'static, E: 'static> Future for AcquireSlot<T, E> {
    type Output = Result<Slot<T, E>, SlotError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let permit = std::task::ready!(Pin::new(&mut self.permit).poll(cx));
        Poll::Ready(enter(&self.pool, permit, self.lease))
    }
}

impl<T: 'static, E: 'static> fmt::Debug for AcquireSlot<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireSlot").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}
