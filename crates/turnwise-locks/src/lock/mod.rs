//! Lock objects: what is held by a guard instead of a closure.
//!
//! Each lock is a [machine](machine) in a mailbox: a request is a turn that enters, a release one
//! that leaves and lets the next in. Both are short: no request waits inside a turn of its lock.
//! A hold that is the only one of its key needs no turn: it is an entry of the registry, and a
//! permit that is there is a [compare-and-swap](fast).

mod acquire;
mod all;
mod call;
mod entry_ref;
mod error;
mod fast;
mod fence;
mod guard;
mod hold_state;
mod keys;
mod latch;
mod machine;
mod mutexes;
mod place;
mod rw;
mod semaphore;
mod semaphores;
mod turns;

use std::borrow::Borrow;
use std::hash::Hash;

pub use acquire::Acquire;
pub use all::AcquireAll;
pub use call::Call;
pub(crate) use error::Named;
pub use error::{Closed, LockError, ReleaseError};
pub use fence::{Fence, Fenced, FencedError};
pub(crate) use hold_state::HoldState;
pub use hold_state::Lost;
pub use keys::{LockInfo, LocksBuilder, Owner};
pub use latch::{Latch, Opening};
pub use mutexes::{AcquireMutex, AcquireMutexes, MutexGuard, Mutexes};
pub use rw::{ReadGuard, RwGuard, RwLocks, WriteGuard};
pub use semaphore::{Permit, Semaphore, SemaphoreInfo};
pub use semaphores::{KeyPermit, Semaphores};

use guard::guard;
use keys::{Keys, by_key};

use crate::limits::Limits;
use crate::registry::Own;

guard! {
    /// A lock that is held: [`Locks::lock`]. Dropping it lets the next in; it may be dropped on any
    /// thread. Of several that an [owner](Owner) has, the last one does.
    Guard<K>, K
}

/// Fair locks by key: a lock is there while somebody holds it or waits for it.
///
/// A request takes its place in the queue in the very call, and is let in in that order; one
/// release lets in exactly one. Each call comes back as an [`Acquire`]: a future on any runtime, or
/// something to wait for. Guards are owned values that move between threads and tasks. Clones are
/// the same locks.
///
/// A lock that is handed from thread to thread costs a wake-up each time. Where what has to be
/// alone is code, [`Keyed::run`](crate::Keyed::run) runs it without one, and cannot be held up by a
/// task that is not polled.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_locks::{Limits, LockError, Locks};
///
/// let locks = Locks::new();
/// let guard = locks.lock("order 7").wait()?;
///
/// // No other request gets it: not at once, and not in time.
/// assert!(matches!(locks.try_lock("order 7"), Err(LockError::Busy { .. })));
/// let late = locks.lock_within("order 7", Limits::wait(Duration::from_millis(1))).wait();
/// assert!(matches!(late, Err(LockError::TimedOut { .. })));
///
/// drop(guard);
/// let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_secs(6));
/// let guard = locks.lock_within("order 7", limits).wait()?;
/// assert!(guard.remaining() <= Some(Duration::from_secs(6)));
/// # Ok::<(), LockError>(())
/// ```
pub struct Locks<K: Send + Sync + 'static> {
    keys: Keys<K>,
}

by_key!(Locks, 1);

impl<K: Hash + Eq + Send + Sync + 'static> Locks<K> {
    /// Asks for a lock, without a limit. Lock-free but for the short lock of a shard of the
    /// registry; the [`Acquire`] waits. Awaited, it fails after a [`close`](Self::close) only.
    ///
    /// # Examples
    /// ```
    /// let locks = turnwise_locks::Locks::new();
    /// let guard = locks.lock(7).wait()?;
    /// guard.release().wait()?;
    /// assert_eq!(locks.len(), 0); // nothing of it is left
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lock(&self, key: K) -> Acquire<K, Guard<K>, Closed> {
        self.keys.acquire(Own(key), None, 1, Limits::NONE)
    }

    /// A lock, if it is free now and no request waits for it: it overtakes none. Waits for no
    /// holder.
    ///
    /// # Errors
    /// [`LockError::Busy`], [`LockError::Closed`]; [`LockError::Deadlock`] inside a waker of this
    /// very lock, and [`LockError::WouldBlock`] on a worker that must not wait for its turn.
    pub fn try_lock(&self, key: K) -> Result<Guard<K>, LockError> {
        self.lock_within(key, Limits::wait(std::time::Duration::ZERO)).wait()
    }

    /// Asks for a lock, with limits: how long to wait, and for how long to hold. A wait of zero is
    /// one attempt. After the lease the lock goes to the next; the holder [learns of
    /// it](Guard::lost), and [`Fenced`] refuses what it does too late.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::VirtualClock;
    /// use turnwise_locks::{Limits, Locks};
    ///
    /// let clock = VirtualClock::new();
    /// let locks = Locks::builder().clock(clock.clone()).build();
    /// let lease = Limits::NONE.lease(Duration::from_secs(60));
    /// let old = locks.lock_within("a", lease).wait()?;
    /// let waiting = locks.lock("a");
    /// clock.advance(Duration::from_secs(60));
    /// let new = waiting.wait()?;
    /// assert!(old.is_lost() && old.release().wait().is_err());
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn lock_within(&self, key: K, limits: impl Into<Limits>) -> Acquire<K, Guard<K>> {
        self.keys.acquire(Own(key), None, 1, limits.into())
    }

    /// Asks for a lock for an [owner](Owner): at once, if that holds it already. The lock is free
    /// when the last guard of its owner is dropped. A lease begins anew with each guard.
    pub fn lock_as(
        &self,
        owner: &Owner,
        key: K,
        limits: impl Into<Limits>,
    ) -> Acquire<K, Guard<K>> {
        self.keys.acquire(Own(key), Some(owner), 1, limits.into())
    }

    /// Asks for several locks: all of them or none. They are asked for in their order, one after
    /// the other, so two calls never wait for each other; equal keys count once. The deadline is
    /// one for all. Leases begin when all are held.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Limits, Locks};
    ///
    /// let locks = Locks::new();
    /// let both = locks.lock_all(["to", "from", "to"], Limits::NONE).wait()?;
    /// assert_eq!(both.len(), 2); // in the order of their keys
    /// assert!(locks.try_lock("from").is_err());
    /// drop(both);
    /// assert!(locks.is_empty());
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn lock_all(
        &self,
        keys: impl IntoIterator<Item = K>,
        limits: impl Into<Limits>,
    ) -> AcquireAll<K>
    where
        K: Ord,
    {
        AcquireAll::new(&self.keys, None, keys.into_iter().map(|key| (key, 1)), limits.into())
    }

    /// [`lock_all`](Self::lock_all) for an [owner](Owner): those that it holds already are held
    /// once more. One that holds locks, and asks for others that come before them, may wait in a
    /// circle with another owner; a wait ends that.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Limits, Locks, Owner};
    ///
    /// let locks = Locks::new();
    /// let me = Owner::new();
    /// let a = locks.lock_as(&me, "a", Limits::NONE).wait()?;
    /// let both = locks.lock_all_as(&me, ["a", "b"], Limits::NONE).wait()?;
    /// drop(a);
    /// assert!(locks.is_locked("a") && locks.is_locked("b"));
    /// drop(both);
    /// assert!(locks.is_empty());
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn lock_all_as(
        &self,
        owner: &Owner,
        keys: impl IntoIterator<Item = K>,
        limits: impl Into<Limits>,
    ) -> AcquireAll<K>
    where
        K: Ord,
    {
        let keys = keys.into_iter().map(|key| (key, 1));
        AcquireAll::new(&self.keys, Some(owner), keys, limits.into())
    }

    /// Takes a lock away from its holder: the next is let in, the holder learns of it. False: it
    /// was not held, or its lease was over. This call may block, as long as a turn of the lock
    /// lasts.
    ///
    /// Nothing was taken away if it fails: with [`LockError::WouldBlock`] on a worker that must not
    /// wait, [`LockError::Deadlock`] inside a waker of this very lock.
    pub fn force_release<Q>(&self, key: &Q) -> Call<bool>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.force(key)
    }

    /// True if a lock is held, or a request waits for it. The guard of a hold that was lost holds
    /// nothing. Stale on return. Takes the short lock of a shard, and a turn of the lock if that is
    /// to be had at once; waits for no turn.
    ///
    /// # Examples
    /// ```
    /// let locks = turnwise_locks::Locks::<String>::new();
    /// let guard = locks.lock("a".to_owned()).wait()?;
    /// assert!(locks.is_locked("a") && !locks.is_locked("b"));
    /// locks.force_release("a").wait()?;
    /// assert!(guard.is_lost() && !locks.is_locked("a"));
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn is_locked<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.is_used(key)
    }

    /// A look at a lock; `None` if it is neither held nor waited for. Stale on return. This call
    /// may block, as long as a turn of the lock lasts, and fails as
    /// [`force_release`](Self::force_release) does.
    ///
    /// # Examples
    /// ```
    /// let locks = turnwise_locks::Locks::new();
    /// assert!(locks.info("a").wait()?.is_none());
    /// let guard = locks.lock("a").wait()?;
    /// let waiting = locks.lock("a");
    /// let info = locks.info("a").wait()?.unwrap();
    /// assert_eq!((info.fence, info.waiting), (Some(guard.fence()), 1));
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn info<Q>(&self, key: &Q) -> Call<Option<LockInfo>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.info(key)
    }

    /// Takes no more requests: they fail with [`LockError::Closed`], and so do those that wait.
    /// Guards go on holding, until the end of their leases or a
    /// [`force_release`](Self::force_release).
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{LockError, Locks};
    ///
    /// let locks = Locks::new();
    /// let guard = locks.lock("a").wait()?;
    /// let waiting = locks.lock("a");
    /// locks.close();
    /// assert_eq!(waiting.wait().unwrap_err(), LockError::Closed);
    /// assert!(!guard.is_lost());
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn close(&self) {
        self.keys.close();
    }
}
