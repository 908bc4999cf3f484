//! The guard of a slot.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::error::SlotError;
use super::job::Cuttable;
use super::pool::Pool;
use super::shared::SlotHold;
use super::view::SlotId;
use crate::lock::{Call, Fence, Lost, ReleaseError};

/// A slot that is held, with what its set-up has made:
/// [`SlotPool::acquire`](crate::SlotPool::acquire).
///
/// Dropping it [finishes](Self::finish) it, and its end is the only way to give the slot back. It
/// may be dropped on any thread, and moved between threads and tasks as its value may. One that is
/// forgotten (`std::mem::forget`) holds its slot until its lease is over, or for ever if it has
/// none.
///
/// A slot that is [lost](Self::is_lost) keeps its value: its user goes on with that, and must
/// not touch what the number stands for any more. [`Fenced`](crate::Fenced) refuses those that do.
#[must_use = "dropping it gives it back"]
pub struct Slot<T: 'static = (), E: 'static = std::convert::Infallible> {
    pool: Arc<Pool<T, E>>,
    hold: SlotHold,
    /// Until its end.
    value: Option<T>,
    ended: bool,
}

impl<T: 'static, E: 'static> Slot<T, E> {
    pub(super) fn new(pool: Arc<Pool<T, E>>, hold: SlotHold, value: T) -> Self {
        Slot { pool, hold, value: Some(value), ended: false }
    }

    /// Its lease begins, if it has one.
    pub(super) fn begin(&self, lease: Option<Duration>) {
        if let Some(lease) = lease.or(self.pool.lease) {
            self.pool.renew(self.hold, lease);
        }
    }

    /// Begins the lease of one that a job has: its end cuts that.
    pub(super) fn begin_job(&self, lease: Option<Duration>, job: Weak<dyn Cuttable>) {
        self.pool.shared.attach(self.hold, job);
        self.begin(lease);
    }

    /// Its number. No other slot has it, unless this was lost.
    pub fn id(&self) -> SlotId {
        self.hold.id
    }

    /// The number of this hold: larger than that of every hold of the pool before.
    pub fn fence(&self) -> Fence {
        Fence::from_number(self.hold.fence)
    }

    /// True if its lease is over. Once true, it stays so. False may be stale on return. Takes a
    /// short lock.
    pub fn is_lost(&self) -> bool {
        self.pool.is_lost(self.hold)
    }

    /// A future that is ready when it was lost; never, if it was finished before. It does not keep
    /// the slot.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::{Limits, SlotPool};
    ///
    /// let pool = SlotPool::new(1)?;
    /// let lease = Limits::NONE.lease(Duration::from_millis(1));
    /// let slot = pool.acquire(lease).wait()?;
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(slot.lost());
    /// assert!(slot.is_lost() && slot.finish().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lost(&self) -> Lost {
        self.pool.shared.lost(self.hold)
    }

    /// The rest of its lease, if it has one and is not lost. Takes a short lock.
    pub fn remaining(&self) -> Option<Duration> {
        self.pool.shared.remaining(self.hold)
    }

    /// Its lease begins anew, with this length; also if it had none before. Takes short locks.
    /// Fails with [`ReleaseError::Lost`](crate::ReleaseError::Lost) if it was lost before.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::SlotPool;
    ///
    /// let slot = SlotPool::new(1)?.try_acquire()?;
    /// assert_eq!(slot.remaining(), None);
    /// slot.renew(Duration::from_secs(60)).wait()?;
    /// assert!(slot.remaining() <= Some(Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn renew(&self, lease: Duration) -> Call<(), ReleaseError> {
        let renewed = !self.is_lost() && self.pool.renew(self.hold, lease) && !self.is_lost();
        Call::over(if renewed { Ok(()) } else { Err(ReleaseError::Lost(self.fence())) })
    }

    /// Cleans the slot up, here, and gives it on. May take as long as the clean-up.
    ///
    /// A lease that is over and was not noticed yet does not matter: none was let in.
    ///
    /// # Errors
    /// [`SlotError::Lost`]: nothing was done, but the value is dropped. [`SlotError::CleanUp`],
    /// [`SlotError::CleanUpPanicked`]: the slot is quarantined, and the [listener for such
    /// slots](crate::slots::SlotPoolBuilder::on_quarantine) was called.
    pub fn finish(mut self) -> Result<(), SlotError<E>> {
        self.end()
    }

    fn end(&mut self) -> Result<(), SlotError<E>> {
        self.ended = true;
        self.pool.end(self.hold, self.value.take()).unwrap_or(Err(SlotError::Lost))
    }
}

impl<T: 'static, E: 'static> Drop for Slot<T, E> {
    fn drop(&mut self) {
        if !self.ended {
            // The hook knows; and its panics, and those of the error, are ignored.
            let ended = self.end();
            crate::user_code::ignore(|| drop(ended));
        }
    }
}

impl<T: 'static, E: 'static> Deref for Slot<T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("a slot has its value until it ends"),
        }
    }
}

impl<T: 'static, E: 'static> DerefMut for Slot<T, E> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("a slot has its value until it ends"),
        }
    }
}

impl<T: 'static, E: 'static> fmt::Debug for Slot<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SlotHold { id, fence } = self.hold;
        f.debug_struct("Slot").field("id", &id).field("fence", &fence).finish_non_exhaustive()
    }
}

// What a panic leaves half changed is the value, at most.
impl<T: UnwindSafe + 'static, E: 'static> UnwindSafe for Slot<T, E> {}
impl<T: RefUnwindSafe + 'static, E: 'static> RefUnwindSafe for Slot<T, E> {}
