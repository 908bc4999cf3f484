//! Readers and writers.

use std::borrow::Borrow;
use std::hash::Hash;
use std::time::Duration;

use super::acquire::{Acquire, Guarding};
use super::all::AcquireAll;
use super::call::Call;
use super::error::{Closed, LockError};
use super::guard::{Held, guard};
use super::keys::{Keys, LockInfo, Owner, by_key};
use crate::limits::Limits;
use crate::registry::Own;

/// The room of a lock: a reader takes one of it, a writer takes it all.
pub(super) const ALL: u64 = u32::MAX as u64;

guard! {
    /// A lock that is held beside other readers: [`RwLocks::read`]. Dropping it gives it back.
    ReadGuard<K>, K
}

guard! {
    /// A lock that is held alone: [`RwLocks::write`]. Dropping it gives it back.
    WriteGuard<K>, K
}

impl<K: Send + Sync + 'static> WriteGuard<K> {
    /// Goes on as a reader: readers that wait next come in, and no writer gets in between. The
    /// fence stays.
    ///
    /// There is no way back: two readers that wait to write would wait for each other. An
    /// [owner](Owner) that asks for it is refused with
    /// [`LockError::Deadlock`](crate::LockError::Deadlock).
    ///
    /// # Examples
    /// ```
    /// let locks = turnwise_locks::RwLocks::new();
    /// let writer = locks.write("a").wait()?;
    /// let reader = writer.downgrade();
    /// let beside = locks.read("a").wait()?;
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn downgrade(self) -> ReadGuard<K> {
        self.held.lighten(1);
        ReadGuard::of(self.held)
    }
}

/// A lock of readers and writers that is held, one of several: [`RwLocks::lock_all`].
#[derive(Debug)]
#[must_use = "dropping it gives it back"]
pub enum RwGuard<K: Send + Sync + 'static> {
    /// It is held beside other readers.
    Read(ReadGuard<K>),
    /// It is held alone.
    Write(WriteGuard<K>),
}

impl<K: Send + Sync + 'static> Guarding<K> for RwGuard<K> {
    fn of(held: Held<K>) -> Self {
        RwGuard::Read(ReadGuard::of(held))
    }

    fn held(&self) -> &Held<K> {
        match self {
            RwGuard::Read(guard) => guard.held(),
            RwGuard::Write(guard) => guard.held(),
        }
    }

    fn into_held(self) -> Held<K> {
        match self {
            RwGuard::Read(guard) => guard.into_held(),
            RwGuard::Write(guard) => guard.into_held(),
        }
    }

    fn weighing(held: Held<K>, weight: u64) -> Self {
        if weight == ALL { RwGuard::Write(WriteGuard::of(held)) } else { RwGuard::of(held) }
    }
}

/// Fair locks by key, for many readers or one writer.
///
/// Requests are let in in the order of the calls; readers that stand beside each other come in
/// together. A writer that waits is overtaken by no reader. Otherwise as [`Locks`](crate::Locks).
///
/// # Examples
/// ```
/// use turnwise_locks::{LockError, RwLocks};
///
/// let locks = RwLocks::new();
/// let (one, two) = (locks.read("a").wait()?, locks.read("a").wait()?);
/// assert!(matches!(locks.try_write("a"), Err(LockError::Busy { .. })));
/// let writer = locks.write("a");
/// assert!(matches!(locks.try_read("a"), Err(LockError::Busy { .. }))); // after the writer
/// drop((one, two));
/// let writer = writer.wait()?;
/// # Ok::<(), LockError>(())
/// ```
pub struct RwLocks<K: Send + Sync + 'static> {
    pub(super) keys: Keys<K>,
}

by_key!(RwLocks, ALL);

impl<K: Hash + Eq + Send + Sync + 'static> RwLocks<K> {
    /// Asks for a lock as a reader, without a limit.
    pub fn read(&self, key: K) -> Acquire<K, ReadGuard<K>, Closed> {
        self.keys.acquire(Own(key), None, 1, Limits::NONE)
    }

    /// Asks for a lock as a writer, without a limit.
    pub fn write(&self, key: K) -> Acquire<K, WriteGuard<K>, Closed> {
        self.keys.acquire(Own(key), None, ALL, Limits::NONE)
    }

    /// A reader's hold, if there is no writer, and none waits.
    ///
    /// # Errors
    /// As [`Locks::try_lock`](crate::Locks::try_lock).
    pub fn try_read(&self, key: K) -> Result<ReadGuard<K>, LockError> {
        self.read_within(key, Limits::wait(Duration::ZERO)).wait()
    }

    /// A writer's hold, if the lock is neither held nor waited for.
    ///
    /// # Errors
    /// As [`Locks::try_lock`](crate::Locks::try_lock).
    pub fn try_write(&self, key: K) -> Result<WriteGuard<K>, LockError> {
        self.write_within(key, Limits::wait(Duration::ZERO)).wait()
    }

    /// Asks for a lock as a reader, with [limits](crate::Locks::lock_within).
    pub fn read_within(&self, key: K, limits: impl Into<Limits>) -> Acquire<K, ReadGuard<K>> {
        self.keys.acquire(Own(key), None, 1, limits.into())
    }

    /// Asks for a lock as a writer, with [limits](crate::Locks::lock_within).
    pub fn write_within(&self, key: K, limits: impl Into<Limits>) -> Acquire<K, WriteGuard<K>> {
        self.keys.acquire(Own(key), None, ALL, limits.into())
    }

    /// Asks for a lock as a reader, for an [owner](Owner): at once, if that holds it already, as a
    /// reader or as a writer. As long as one of its guards is a writer's, it holds alone.
    pub fn read_as(
        &self,
        owner: &Owner,
        key: K,
        limits: impl Into<Limits>,
    ) -> Acquire<K, ReadGuard<K>> {
        self.keys.acquire(Own(key), Some(owner), 1, limits.into())
    }

    /// Asks for a lock as a writer, for an [owner](Owner): at once, if that holds it as a writer.
    /// If it holds it as a reader, it is refused with [`LockError::Deadlock`].
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Limits, LockError, Owner, RwLocks};
    ///
    /// let locks = RwLocks::new();
    /// let me = Owner::new();
    /// let reader = locks.read_as(&me, "a", Limits::NONE).wait()?;
    /// let writer = locks.write_as(&me, "a", Limits::NONE).wait();
    /// assert!(matches!(writer, Err(LockError::Deadlock { .. })));
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn write_as(
        &self,
        owner: &Owner,
        key: K,
        limits: impl Into<Limits>,
    ) -> Acquire<K, WriteGuard<K>> {
        self.keys.acquire(Own(key), Some(owner), ALL, limits.into())
    }

    /// Asks for several locks, as a reader and as a writer: all of them or none. A key that is in
    /// both is held as a writer. Otherwise as [`Locks::lock_all`](crate::Locks::lock_all).
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Limits, RwGuard, RwLocks};
    ///
    /// let rates = RwLocks::new();
    /// let held = rates.lock_all(["eur", "usd"], ["books", "usd"], Limits::NONE).wait()?;
    /// let writes = |guard: &RwGuard<_>| matches!(guard, RwGuard::Write(_));
    /// let writes: Vec<bool> = held.iter().map(writes).collect();
    /// assert_eq!(writes, [true, false, true]); // "books", "eur", "usd"
    /// assert!(rates.try_read("eur").is_ok() && rates.try_read("usd").is_err());
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn lock_all(
        &self,
        reads: impl IntoIterator<Item = K>,
        writes: impl IntoIterator<Item = K>,
        limits: impl Into<Limits>,
    ) -> AcquireAll<K, RwGuard<K>>
    where
        K: Ord,
    {
        AcquireAll::new(&self.keys, None, weighed(reads, writes), limits.into())
    }

    /// [`lock_all`](Self::lock_all) for an [owner](Owner): see
    /// [`Locks::lock_all_as`](crate::Locks::lock_all_as). It is refused with
    /// [`LockError::Deadlock`] if it holds as a reader what it asks for as a writer.
    pub fn lock_all_as(
        &self,
        owner: &Owner,
        reads: impl IntoIterator<Item = K>,
        writes: impl IntoIterator<Item = K>,
        limits: impl Into<Limits>,
    ) -> AcquireAll<K, RwGuard<K>>
    where
        K: Ord,
    {
        AcquireAll::new(&self.keys, Some(owner), weighed(reads, writes), limits.into())
    }

    /// As [`Locks::force_release`](crate::Locks::force_release): all readers, or the writer.
    /// Readers lose it one after the other, so one may still release in time while another has lost
    /// it.
    pub fn force_release<Q>(&self, key: &Q) -> Call<bool>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.force(key)
    }

    /// True if a lock is held, by a reader or a writer, or a request waits for it: see
    /// [`Locks::is_locked`](crate::Locks::is_locked).
    pub fn is_locked<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.is_used(key)
    }

    /// As [`Locks::info`](crate::Locks::info).
    pub fn info<Q>(&self, key: &Q) -> Call<Option<LockInfo>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.info(key)
    }

    /// As [`Locks::close`](crate::Locks::close).
    pub fn close(&self) {
        self.keys.close();
    }
}

/// Keys, and how much of each is asked for.
fn weighed<K>(
    reads: impl IntoIterator<Item = K>,
    writes: impl IntoIterator<Item = K>,
) -> impl Iterator<Item = (K, u64)> {
    let reads = reads.into_iter().map(|key| (key, 1));
    reads.chain(writes.into_iter().map(|key| (key, ALL)))
}
