//! Requests for locks by keys that are borrowed.

use std::borrow::Borrow;
use std::hash::Hash;
use std::time::Duration;

use super::rw::ALL;
use super::{
    Acquire, Closed, Guard, KeyPermit, LockError, Locks, Owner, ReadGuard, RwLocks, Semaphores,
    WriteGuard,
};
use crate::entry_ref::EntryRef;
use crate::limits::Limits;

impl<K, Q> EntryRef<'_, Locks<K>, Q>
where
    K: Borrow<Q> + Hash + Eq + Send + Sync + 'static,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
    /// As [`Locks::lock`].
    pub fn lock(self) -> Acquire<K, Guard<K>, Closed> {
        self.all.keys.acquire(self.key, None, 1, Limits::NONE)
    }

    /// As [`Locks::try_lock`].
    ///
    /// # Errors
    /// As there.
    pub fn try_lock(self) -> Result<Guard<K>, LockError> {
        self.lock_within(Limits::wait(Duration::ZERO)).wait()
    }

    /// As [`Locks::lock_within`].
    pub fn lock_within(self, limits: impl Into<Limits>) -> Acquire<K, Guard<K>> {
        self.all.keys.acquire(self.key, None, 1, limits.into())
    }

    /// As [`Locks::lock_as`].
    pub fn lock_as(self, owner: &Owner, limits: impl Into<Limits>) -> Acquire<K, Guard<K>> {
        self.all.keys.acquire(self.key, Some(owner), 1, limits.into())
    }
}

impl<K, Q> EntryRef<'_, RwLocks<K>, Q>
where
    K: Borrow<Q> + Hash + Eq + Send + Sync + 'static,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
    /// As [`RwLocks::read`].
    pub fn read(self) -> Acquire<K, ReadGuard<K>, Closed> {
        self.all.keys.acquire(self.key, None, 1, Limits::NONE)
    }

    /// As [`RwLocks::try_read`].
    ///
    /// # Errors
    /// As there.
    pub fn try_read(self) -> Result<ReadGuard<K>, LockError> {
        self.read_within(Limits::wait(Duration::ZERO)).wait()
    }

    /// As [`RwLocks::read_within`].
    pub fn read_within(self, limits: impl Into<Limits>) -> Acquire<K, ReadGuard<K>> {
        self.all.keys.acquire(self.key, None, 1, limits.into())
    }

    /// As [`RwLocks::read_as`].
    pub fn read_as(self, owner: &Owner, limits: impl Into<Limits>) -> Acquire<K, ReadGuard<K>> {
        self.all.keys.acquire(self.key, Some(owner), 1, limits.into())
    }

    /// As [`RwLocks::write`].
    pub fn write(self) -> Acquire<K, WriteGuard<K>, Closed> {
        self.all.keys.acquire(self.key, None, ALL, Limits::NONE)
    }

    /// As [`RwLocks::try_write`].
    ///
    /// # Errors
    /// As there.
    pub fn try_write(self) -> Result<WriteGuard<K>, LockError> {
        self.write_within(Limits::wait(Duration::ZERO)).wait()
    }

    /// As [`RwLocks::write_within`].
    pub fn write_within(self, limits: impl Into<Limits>) -> Acquire<K, WriteGuard<K>> {
        self.all.keys.acquire(self.key, None, ALL, limits.into())
    }

    /// As [`RwLocks::write_as`].
    pub fn write_as(self, owner: &Owner, limits: impl Into<Limits>) -> Acquire<K, WriteGuard<K>> {
        self.all.keys.acquire(self.key, Some(owner), ALL, limits.into())
    }
}

impl<K, Q> EntryRef<'_, Semaphores<K>, Q>
where
    K: Borrow<Q> + Hash + Eq + Send + Sync + 'static,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
    /// As [`Semaphores::acquire`].
    pub fn acquire(self) -> Acquire<K, KeyPermit<K>, Closed> {
        self.all.acquire_of(self.key, 1, Limits::NONE)
    }

    /// As [`Semaphores::acquire_within`].
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn acquire_within(
        self,
        permits: u64,
        limits: impl Into<Limits>,
    ) -> Acquire<K, KeyPermit<K>> {
        self.all.acquire_of(self.key, permits, limits.into())
    }

    /// As [`Semaphores::try_acquire`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn try_acquire(self, permits: u64) -> Result<KeyPermit<K>, LockError> {
        self.acquire_within(permits, Limits::wait(Duration::ZERO)).wait()
    }
}
