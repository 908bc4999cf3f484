//! Values behind locks by key.

use std::any::Any;
use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread::panicking;

use turnwise::{Actor, Limit};

use super::acquire::{Acquire, Failure};
use super::all::AcquireAll;
use super::error::{Closed, LockError};
use super::fence::Fence;
use super::keys::LocksBuilder;
use super::{Guard, Locks};
use crate::entry_ref::EntryRef;
use crate::limits::Limits;
use crate::map::Shards;
use crate::registry::{Comparing, comparing};
use crate::table::{Hashed, Table};
use crate::user_code::{ignore, owning};

/// A map of values, each behind a fair lock of its key: a guard leads to the value, and may be held
/// over awaits.
///
/// A value is made when its key is locked for the first time, and stays until it is
/// [removed](MutexGuard::remove), or a guard is dropped by a panic, as the value may be half
/// changed then. Requests are let in in the order of the calls, as those of [`Locks`]. A guard
/// leads to the only copy of a value, so there is no lease: nothing takes it away. Clones are the
/// same map.
///
/// An idle key costs its key and its value.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_locks::Mutexes;
///
/// let accounts = Mutexes::with(|_: &&str| 10);
/// *accounts.lock("ada").wait()? += 5; // or `.await`
///
/// let both = accounts.lock_all(["ada", "bob"], Duration::from_secs(1)).wait()?;
/// let [mut ada, mut bob] = <[_; 2]>::try_from(both).unwrap();
/// *ada -= 3;
/// *bob += 3;
/// assert_eq!((*ada, *bob), (12, 13));
/// # Ok::<(), turnwise_locks::LockError>(())
/// ```
pub struct Mutexes<K: Send + Sync + 'static, T: Send + 'static> {
    /// The [`Values`] lie beside them: what has a lock finds its value without a count of its own.
    locks: Locks<K>,
    values: Of<T>,
}

/// No other type has these values: they are found by it.
type Of<T> = PhantomData<fn(T) -> T>;

struct Values<K, T> {
    shards: Shards<Table<Value<K, T>>>,
    make: Box<dyn Fn(&K) -> T + Send + Sync>,
}

/// The value of a key. Its place in the table is that of the guard which has it: no other uses it.
struct Value<K, T> {
    /// That of the key in `locks`.
    hash: u64,
    key: K,
    /// None while a guard has it.
    value: Option<T>,
}

impl<K, T> Hashed for Value<K, T> {
    fn hash(&self) -> u64 {
        self.hash
    }
}

/// The value of a key, which is locked: [`Mutexes::lock`]. Dropping it lets the next in.
#[must_use = "dropping it gives the lock back"]
pub struct MutexGuard<K: Clone + Hash + Eq + Send + Sync + 'static, T: Send + 'static> {
    /// Until it ends.
    key: Option<K>,
    value: Option<T>,
    /// The place of the value, in the shard of this hash.
    hash: u64,
    at: u32,
    /// It was made while the thread unwound: then that says nothing of the value.
    unwinding: bool,
    values: Of<T>,
    // Last: the next is let in when the value is back.
    lock: Option<Guard<K>>,
}

/// The value of a key that is asked for ([`Mutexes::lock`]): a `Future` on any runtime, or
/// something to wait for.
///
/// The place in the queue was taken by the call that made it. Dropping it leaves the queue. `E` is
/// the error of the future, as that of an [`Acquire`].
#[must_use = "dropping it gives the place up"]
pub struct AcquireMutex<K: Send + Sync + 'static, T, E = LockError> {
    /// Until it is over.
    key: Option<K>,
    lock: Acquire<K, Guard<K>, E>,
    values: Of<T>,
}

/// The values of several keys that are asked for ([`Mutexes::lock_all`]).
#[must_use = "dropping it gives the places up"]
pub struct AcquireMutexes<K: Hash + Eq + Send + Sync + 'static, T> {
    keys: Vec<K>,
    locks: AcquireAll<K>,
    values: Of<T>,
}

impl<K, T> Mutexes<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    fn values(&self) -> &Values<K, T> {
        values_of(self.locks.keys.values())
    }

    /// A map whose values begin as the default of their type.
    pub fn new() -> Self
    where
        T: Default,
    {
        Mutexes::with(|_| T::default())
    }

    /// A map whose values are made of their keys. `make` is called by the request that is let in;
    /// its panic goes on in that request, and the key stays usable.
    pub fn with(make: impl Fn(&K) -> T + Send + Sync + 'static) -> Self {
        Mutexes::over(Locks::new(), make)
    }

    /// [`with`](Self::with) a clock, timers, or names of keys, of its own.
    pub fn builder(make: impl Fn(&K) -> T + Send + Sync + 'static) -> LocksBuilder<Self> {
        LocksBuilder::by_key(1, |keys| Mutexes::over(Locks { keys }, make))
    }

    fn over(mut locks: Locks<K>, make: impl Fn(&K) -> T + Send + Sync + 'static) -> Self {
        let values = Values { shards: Shards::new(Table::new), make: Box::new(make) };
        locks.keys.set_values(Box::new(values));
        Mutexes { locks, values: PhantomData }
    }

    /// Asks for the value of a key, without a limit. Lock-free but for short locks of a shard; the
    /// [`AcquireMutex`] waits. Awaited, it fails after a [`close`](Self::close) only.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Closed, Mutexes};
    ///
    /// # fn main() -> Result<(), Closed> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let carts = Mutexes::<String, Vec<u32>>::new();
    /// let mut cart = carts.lock("ada".into()).await?;
    /// cart.push(7);
    /// tokio::task::yield_now().await; // it stays locked
    /// cart.push(8);
    /// assert_eq!(*cart, [7, 8]);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub fn lock(&self, key: K) -> AcquireMutex<K, T, Closed> {
        let (key, lock) = owning(key, |key| self.locks.lock(key.clone()));
        AcquireMutex { key: Some(key), lock, values: PhantomData }
    }

    /// Asks for the value of a key, and waits for so long at most. A wait of zero is one attempt.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::{LockError, Mutexes};
    ///
    /// let visits = Mutexes::<_, u32>::new();
    /// let held = visits.lock("home").wait()?;
    /// let late = visits.lock_within("home", Duration::from_millis(1)).wait();
    /// assert!(matches!(late, Err(LockError::TimedOut { .. })));
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn lock_within(&self, key: K, limit: impl Into<Limit>) -> AcquireMutex<K, T> {
        let ask = |key: &mut K| self.locks.lock_within(key.clone(), Limits::wait(limit));
        let (key, lock) = owning(key, ask);
        AcquireMutex { key: Some(key), lock, values: PhantomData }
    }

    /// The value of a key, if it is free now and no request waits for it.
    ///
    /// # Errors
    /// As [`Locks::try_lock`].
    pub fn try_lock(&self, key: K) -> Result<MutexGuard<K, T>, LockError> {
        self.lock_within(key, Limit::Immediate).wait()
    }

    /// Asks for the values of several keys: all of them or none, in the order of the keys. See
    /// [`Locks::lock_all`].
    pub fn lock_all(
        &self,
        keys: impl IntoIterator<Item = K>,
        limit: impl Into<Limit>,
    ) -> AcquireMutexes<K, T>
    where
        K: Ord,
    {
        let (keys, ()) = crate::registry::sorted(keys, |_| ());
        let ask =
            |keys: &mut Vec<K>| self.locks.lock_all(keys.iter().cloned(), Limits::wait(limit));
        let (keys, locks) = owning(keys, ask);
        AcquireMutexes { keys, locks, values: PhantomData }
    }

    /// A key by a borrowed form of it, `&str` of a `String`. Each of its requests clones the key,
    /// which the guard has.
    ///
    /// # Examples
    /// ```
    /// let carts = turnwise_locks::Mutexes::<String, Vec<u32>>::new();
    /// carts.entry_ref("ada").lock().wait()?.push(7);
    /// assert_eq!(carts.entry_ref("ada").try_lock()?.key(), "ada");
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn entry_ref<'a, Q>(&'a self, key: &'a Q) -> EntryRef<'a, Self, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        EntryRef { all: self, key }
    }

    /// True if a key is locked, or a request waits for it. Stale on return. Waits for no holder.
    pub fn is_locked<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.locks.is_locked(key)
    }

    /// True if a key has a value, or is locked and had one when it was. Stale on return.
    ///
    /// # Examples
    /// ```
    /// let sessions = turnwise_locks::Mutexes::<String, u32>::new();
    /// *sessions.lock("ada".into()).wait()? += 1;
    /// assert!(sessions.contains_key("ada") && !sessions.contains_key("bob"));
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.locks.keys.hash(key);
        let values = self.values().shards.lock(hash);
        let _comparing = Comparing::new();
        values.find(hash, |entry| entry.key.borrow() == key).is_some()
    }

    /// The number of keys with a value, locked ones included. Stale on return.
    pub fn len(&self) -> usize {
        self.values().shards.sum(Table::len)
    }

    /// True if no key has a value. Stale on return.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes no more requests: they fail with [`Closed`], and so do those that wait. Guards go on
    /// holding.
    pub fn close(&self) {
        self.locks.close();
    }
}

impl<K: Send + Sync + 'static, T: Send + 'static> LocksBuilder<Mutexes<K, T>> {
    /// Gives keys names, which errors have and say: as those of [`Locks`](crate::Locks).
    pub fn names(self, name: impl Fn(&K) -> String + Send + Sync + 'static) -> Self {
        self.then(|mutexes| mutexes.locks.keys.set_names(Box::new(name)))
    }
}

impl<K, T, Q> EntryRef<'_, Mutexes<K, T>, Q>
where
    K: Borrow<Q> + Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
    /// As [`Mutexes::lock`].
    pub fn lock(self) -> AcquireMutex<K, T, Closed> {
        self.all.lock(self.key.to_owned())
    }

    /// As [`Mutexes::lock_within`].
    pub fn lock_within(self, limit: impl Into<Limit>) -> AcquireMutex<K, T> {
        self.all.lock_within(self.key.to_owned(), limit)
    }

    /// As [`Mutexes::try_lock`].
    ///
    /// # Errors
    /// As there.
    pub fn try_lock(self) -> Result<MutexGuard<K, T>, LockError> {
        self.all.try_lock(self.key.to_owned())
    }
}

/// The values beside some locks.
fn values_of<K: 'static, T: 'static>(beside: Option<&(dyn Any + Send + Sync)>) -> &Values<K, T> {
    match beside.and_then(|values| values.downcast_ref()) {
        Some(values) => values,
        None => unreachable!("they were made with the locks"),
    }
}

impl<K: Clone + Eq, T> Values<K, T> {
    /// Takes the value of a key out, whose lock is held, or makes it; and its place.
    fn take_out(&self, hash: u64, key: &K) -> (u32, T) {
        let mut values = self.shards.lock(hash);
        let at = {
            let _comparing = Comparing::new();
            values.find(hash, |entry| entry.key == *key)
        };
        if let Some(there) = at.and_then(|at| Some((at, values.get(at).value.take()?))) {
            return there;
        }
        drop(values);
        // The key's `Clone` is the user's: before there is a value.
        let (key, value) = owning(key.clone(), |_| (self.make)(key));
        (self.shards.lock(hash).insert(Value { hash, key, value: None }), value)
    }

    /// Puts a value back; with none, its entry goes.
    fn put_back(&self, hash: u64, at: u32, value: Option<T>) {
        let mut values = self.shards.lock(hash);
        if value.is_some() {
            values.get(at).value = value;
            return;
        }
        let gone = values.remove(at);
        drop(values);
        // The key is the user's: outside of the lock, and a guard's drop does not panic by it.
        ignore(|| drop(gone));
    }
}

impl<K, T> MutexGuard<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    fn new(key: K, lock: Guard<K>) -> Self {
        let hash = lock.held.hash();
        let ((key, lock), (at, value)) = owning((key, lock), |(key, lock)| {
            values_of::<K, T>(lock.held.values()).take_out(hash, key)
        });
        MutexGuard {
            key: Some(key),
            value: Some(value),
            hash,
            at,
            unwinding: panicking(),
            values: PhantomData,
            lock: Some(lock),
        }
    }

    /// The key.
    pub fn key(&self) -> &K {
        match &self.key {
            Some(key) => key,
            None => unreachable!("it is there until the end"),
        }
    }

    /// The number of this hold: larger than that of every hold of the key before.
    pub fn fence(&self) -> Fence {
        match &self.lock {
            Some(lock) => lock.fence(),
            None => unreachable!("it is there until the end"),
        }
    }

    /// Takes the value out, and lets the next in, which makes one anew.
    ///
    /// # Examples
    /// ```
    /// let carts = turnwise_locks::Mutexes::<_, Vec<u32>>::new();
    /// carts.lock("ada").wait()?.push(7);
    /// assert_eq!(carts.lock("ada").wait()?.remove(), [7]);
    /// assert!(carts.is_empty());
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn remove(mut self) -> T {
        match self.value.take() {
            Some(value) => value,
            None => unreachable!("it is there until the end"),
        }
    }
}

impl<K, T> Drop for MutexGuard<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    fn drop(&mut self) {
        if comparing() {
            // Inside the `Eq` of a key: then not here, and a pool does it.
            let MutexGuard { hash, at, unwinding, values, .. } = *self;
            let (key, value, lock) = (self.key.take(), self.value.take(), self.lock.take());
            let guard = MutexGuard { key, value, hash, at, unwinding, values, lock };
            drop(Actor::new(()).posted().send(move |()| drop(guard)));
            return;
        }
        let (Some(key), Some(lock)) = (self.key.take(), &self.lock) else { return };
        let mut value = self.value.take();
        if panicking() && !self.unwinding {
            // It may be half changed.
            ignore(|| drop(value.take()));
        }
        values_of::<K, T>(lock.held.values()).put_back(self.hash, self.at, value);
        ignore(|| drop(key));
    }
}

impl<K, T> Deref for MutexGuard<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("it is there until the end"),
        }
    }
}

impl<K, T> DerefMut for MutexGuard<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("it is there until the end"),
        }
    }
}

impl<K, T, E> AcquireMutex<K, T, E>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    /// True once it is over: the key is locked, or never will be. Wait-free.
    pub fn is_ready(&self) -> bool {
        self.lock.is_ready()
    }

    /// Waits for the value, until the deadline that was made by the call. May block.
    ///
    /// # Errors
    /// See [`LockError`]: the key is not locked, and the place is given up.
    pub fn wait(self) -> Result<MutexGuard<K, T>, LockError> {
        let lock = self.lock.wait()?;
        let key = self.key.ok_or(LockError::Taken)?;
        Ok(MutexGuard::new(key, lock))
    }

    /// Waits for the value for so long at most; the place in the queue stays. None: it has not come
    /// yet. May block.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(
        &mut self,
        limit: impl Into<Limit>,
    ) -> Option<Result<MutexGuard<K, T>, LockError>> {
        let lock = self.lock.wait_timeout(limit)?;
        Some(lock.and_then(|lock| {
            let key = self.key.take().ok_or(LockError::Taken)?;
            Ok(MutexGuard::new(key, lock))
        }))
    }
}

impl<K, T, E: Failure> Future for AcquireMutex<K, T, E>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    type Output = Result<MutexGuard<K, T>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let lock = ready!(Pin::new(&mut this.lock).poll(cx));
        Poll::Ready(lock.map(|lock| match this.key.take() {
            Some(key) => MutexGuard::new(key, lock),
            None => unreachable!("a request comes to one guard"),
        }))
    }
}

// The guard is not pinned: it is handed out by value.
impl<K: Send + Sync + 'static, T, E> Unpin for AcquireMutex<K, T, E> {}

impl<K, T> AcquireMutexes<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    /// Waits for all of them, until the deadline that was made by the call. May block.
    ///
    /// # Errors
    /// See [`LockError`]: none is locked.
    pub fn wait(self) -> Result<Vec<MutexGuard<K, T>>, LockError> {
        Ok(guards(self.keys, self.locks.wait()?))
    }

    /// Waits for all of them for this time at most. Returns `None` if one has not come. See
    /// [`AcquireAll::wait_timeout`].
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(
        &mut self,
        limit: impl Into<Limit>,
    ) -> Option<Result<Vec<MutexGuard<K, T>>, LockError>> {
        let locks = self.locks.wait_timeout(limit)?;
        let keys = std::mem::take(&mut self.keys);
        Some(locks.map(|locks| guards(keys, locks)))
    }
}

/// The guards of these keys. A maker of values that panics has all locks given back.
fn guards<K, T>(keys: Vec<K>, locks: Vec<Guard<K>>) -> Vec<MutexGuard<K, T>>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    let locked = (Vec::with_capacity(keys.len()), keys.into_iter().zip(locks));
    let ((all, _), ()) = owning(locked, |(all, locked)| {
        all.extend(locked.map(|(key, lock)| MutexGuard::new(key, lock)));
    });
    all
}

impl<K, T> Future for AcquireMutexes<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    type Output = Result<Vec<MutexGuard<K, T>>, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let locks = ready!(Pin::new(&mut this.locks).poll(cx));
        let keys = std::mem::take(&mut this.keys);
        Poll::Ready(locks.map(|locks| guards(keys, locks)))
    }
}

// The guards are not pinned: they are handed out by value.
impl<K: Hash + Eq + Send + Sync + 'static, T> Unpin for AcquireMutexes<K, T> {}

impl<K: Send + Sync + 'static, T: Send + 'static> Clone for Mutexes<K, T> {
    fn clone(&self) -> Self {
        Mutexes { locks: self.locks.clone(), values: PhantomData }
    }
}

impl<K, T> Default for Mutexes<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Default + Send + 'static,
{
    fn default() -> Self {
        Mutexes::new()
    }
}

impl<K: Send + Sync + 'static, T: Send + 'static> fmt::Debug for Mutexes<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutexes").finish_non_exhaustive()
    }
}

impl<K, T> fmt::Debug for MutexGuard<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: fmt::Debug + Send + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<K: Send + Sync + 'static, T, E> fmt::Debug for AcquireMutex<K, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = self.lock.is_ready();
        f.debug_struct("AcquireMutex").field("ready", &ready).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, T> fmt::Debug for AcquireMutexes<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireMutexes").finish_non_exhaustive()
    }
}
