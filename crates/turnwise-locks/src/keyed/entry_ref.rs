//! Runs of a key that is borrowed.

use std::borrow::Borrow;
use std::hash::Hash;

use turnwise::AsyncTurn;

use super::error::{NotStarted, RunError};
use super::run::{Run, full, full_or_deadlock};
use super::{Key, Keyed, value_of};
use crate::entry_ref::EntryRef;
use crate::limits::{Limits, Terms};

impl<K, S, Q> EntryRef<'_, Keyed<K, S>, Q>
where
    K: Borrow<Q> + Hash + Eq + Send + Sync + 'static,
    S: Send + 'static,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
    /// As [`Keyed::run`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn run<R: Send>(self, f: impl FnOnce(&mut S) -> R + Send) -> Result<R, NotStarted> {
        self.all.run_of(self.key, f)
    }

    /// As [`Keyed::try_run`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn try_run<R, F>(self, f: F) -> Result<R, NotStarted>
    where
        R: Send,
        F: FnOnce(&mut S) -> R + Send,
    {
        Ok(value_of(self.all.try_now(self.key, Terms::NONE, f)?))
    }

    /// As [`Keyed::start`].
    pub fn start<R, F>(self, limits: impl Into<Limits>, f: F) -> Run<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        self.all.start_of(self.key, limits.into(), full, f)
    }

    /// As [`Keyed::run_within`].
    ///
    /// # Errors
    /// As there.
    pub fn run_within<R, F>(self, limits: impl Into<Limits>, f: F) -> Result<R, RunError<R>>
    where
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        self.all.start_of(self.key, limits.into(), full_or_deadlock, f).wait()
    }

    /// As [`Keyed::run_async`].
    pub fn run_async<R, F>(self, limits: impl Into<Limits>, f: F) -> Run<R>
    where
        R: Send + 'static,
        F: for<'a> AsyncTurn<&'a mut S, R, Future: Send> + Send + 'static,
    {
        self.all.run_async_of(self.key, limits.into(), f)
    }

    /// As [`Keyed::key`].
    ///
    /// # Errors
    /// As there.
    pub fn key(self) -> Result<Key<K, S>, NotStarted> {
        self.all.key_of(self.key)
    }
}
