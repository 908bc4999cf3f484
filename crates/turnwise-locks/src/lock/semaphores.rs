//! Permits by key.

use std::borrow::Borrow;
use std::hash::Hash;
use std::time::Duration;

use super::acquire::Acquire;
use super::call::Call;
use super::error::{Closed, LockError};
use super::guard::guard;
use super::keys::{Keys, LockInfo, LocksBuilder, by_key};
use super::semaphore::assert_some;
use crate::limits::Limits;
use crate::registry::{AsKey, Own};

guard! {
    /// Permits of a key that are held: [`Semaphores::acquire`]. Dropping it gives them back to the
    /// next request.
    KeyPermit<K>, K
}

/// Fair semaphores by key, each with the same number of permits: a bulkhead for each tenant.
///
/// A key is there while a permit of it is held or waited for; an idle one costs nothing. Requests
/// of one key are let in in the order of the calls. Clones are the same semaphores.
///
/// # Examples
/// ```
/// use turnwise_locks::{LockError, Semaphores};
///
/// let calls = Semaphores::new(2); // of each tenant
/// let (one, two) = (calls.acquire("ada").wait()?, calls.acquire("ada").wait()?);
/// assert!(matches!(calls.try_acquire("ada", 1), Err(LockError::Busy { .. })));
/// let other = calls.try_acquire("grace", 1)?;
/// drop(one);
/// let three = calls.try_acquire("ada", 1)?;
/// drop((two, three, other));
/// assert!(calls.is_empty());
/// # Ok::<(), LockError>(())
/// ```
pub struct Semaphores<K: Send + Sync + 'static> {
    pub(super) keys: Keys<K>,
}

by_key!(Semaphores);

impl<K: Hash + Eq + Send + Sync + 'static> Semaphores<K> {
    /// Semaphores with this many permits each.
    ///
    /// # Panics
    /// If that is none: a key gets no more than it has.
    #[track_caller]
    pub fn new(permits: u64) -> Self {
        Self::builder(permits).build()
    }

    /// Semaphores with a clock, timers, or names of keys, of their own.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn builder(permits: u64) -> LocksBuilder<Self> {
        assert!(permits > 0, "a key needs at least one permit");
        LocksBuilder::by_key(permits, |keys| Semaphores { keys })
    }

    /// Asks for one permit of a key, without a limit. Lock-free but for the short lock of a shard
    /// of the registry; the [`Acquire`] waits. Awaited, it fails after a [`close`](Self::close)
    /// only.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Closed, Semaphores};
    ///
    /// # fn main() -> Result<(), Closed> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let calls = Semaphores::new(2); // of each tenant
    /// let call = calls.acquire("ada").await?;
    /// # drop(call);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub fn acquire(&self, key: K) -> Acquire<K, KeyPermit<K>, Closed> {
        self.acquire_of(Own(key), 1, Limits::NONE)
    }

    /// Asks for permits of a key, with [limits](crate::Locks::lock_within). More than a key has are
    /// refused at once with [`LockError::TooMany`].
    ///
    /// # Panics
    /// If no permits are asked for.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::{Limits, LockError, Semaphores};
    ///
    /// let calls = Semaphores::new(2);
    /// let limits = Limits::wait(Duration::from_secs(1)).lease(Duration::from_secs(60));
    /// let both = calls.acquire_within("ada", 2, limits).wait()?;
    /// let refused = calls.acquire_within("ada", 3, limits).wait();
    /// assert_eq!(refused.unwrap_err(), LockError::TooMany { permits: 2 });
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn acquire_within(
        &self,
        key: K,
        permits: u64,
        limits: impl Into<Limits>,
    ) -> Acquire<K, KeyPermit<K>> {
        self.acquire_of(Own(key), permits, limits.into())
    }

    /// [`acquire_within`](Self::acquire_within), by a key that is given away or borrowed.
    #[track_caller]
    pub(super) fn acquire_of<A, E>(
        &self,
        key: A,
        permits: u64,
        limits: Limits,
    ) -> Acquire<K, KeyPermit<K>, E>
    where
        A: AsKey<K>,
    {
        assert_some(permits);
        let most = self.keys.capacity();
        if permits > most {
            return Acquire::refused(LockError::TooMany { permits: most });
        }
        self.keys.acquire(key, None, permits, limits)
    }

    /// Permits of a key, if they are there now and no request waits.
    ///
    /// # Errors
    /// [`LockError::TooMany`], and those of [`Locks::try_lock`](crate::Locks::try_lock).
    ///
    /// # Panics
    /// As [`acquire_within`](Self::acquire_within).
    #[track_caller]
    pub fn try_acquire(&self, key: K, permits: u64) -> Result<KeyPermit<K>, LockError> {
        self.acquire_within(key, permits, Limits::wait(Duration::ZERO)).wait()
    }

    /// True if a permit of a key is held, or waited for: as
    /// [`Locks::is_locked`](crate::Locks::is_locked).
    pub fn is_used<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.is_used(key)
    }

    /// The number of permits of a key that a request would get at once, as long as requests are
    /// taken: none while another waits. Stale on return. This call may block, and fails, as
    /// [`info`](Self::info).
    ///
    /// # Examples
    /// ```
    /// let calls = turnwise_locks::Semaphores::new(2); // of each tenant
    /// let call = calls.acquire("ada").wait()?;
    /// assert_eq!((calls.available("ada").wait()?, calls.available("grace").wait()?), (1, 2));
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn available<Q>(&self, key: &Q) -> Call<u64>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.spare(key)
    }

    /// A look at a key; `None` if it is not used. Stale on return. This call may block, as long as
    /// a turn of the key lasts, and fails as
    /// [`Locks::force_release`](crate::Locks::force_release) does.
    pub fn info<Q>(&self, key: &Q) -> Call<Option<LockInfo>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.info(key)
    }

    /// Takes the permits of a key away from all who hold some: those that wait are let in, the
    /// holders learn of it. False: none was held. Otherwise as
    /// [`Locks::force_release`](crate::Locks::force_release).
    pub fn force_release<Q>(&self, key: &Q) -> Call<bool>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.force(key)
    }

    /// Takes no more requests: they fail with [`LockError::Closed`], and so do those that wait.
    /// Holders go on holding.
    pub fn close(&self) {
        self.keys.close();
    }
}
