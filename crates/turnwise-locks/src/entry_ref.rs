//! Keys that are borrowed from the caller.

use std::fmt;

/// A key of `L` by a borrowed form of it, `&str` of a `String`: made by `entry_ref` of
/// [`Locks`](crate::Locks::entry_ref), [`RwLocks`](crate::RwLocks::entry_ref),
/// [`Semaphores`](crate::Semaphores::entry_ref), [`Mutexes`](crate::Mutexes::entry_ref),
/// [`Keyed`](crate::Keyed::entry_ref) and [`RateLimits`](crate::rate::RateLimits::entry_ref).
///
/// Nothing is looked up, held or locked by it: its methods are those of `L` with the same names,
/// and they clone the key only if it is not there. Those of locks whose keys have names, and of
/// `Mutexes`, clone it in any case.
///
/// # Examples
/// ```
/// use turnwise_locks::{LockError, Locks};
///
/// let locks = Locks::<String>::new();
/// let name = String::from("order 7");
/// let guard = locks.entry_ref(&name).lock().wait()?; // a clone: it is not used yet
/// assert!(matches!(locks.entry_ref("order 7").try_lock(), Err(LockError::Busy { .. }))); // none
/// # Ok::<(), LockError>(())
/// ```
#[must_use = "nothing is asked for before a call of it"]
pub struct EntryRef<'a, L, Q: ?Sized> {
    pub(crate) all: &'a L,
    pub(crate) key: &'a Q,
}

impl<L, Q: ?Sized> Clone for EntryRef<'_, L, Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, Q: ?Sized> Copy for EntryRef<'_, L, Q> {}

impl<L, Q: fmt::Debug + ?Sized> fmt::Debug for EntryRef<'_, L, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryRef").field("key", &self.key).finish_non_exhaustive()
    }
}
