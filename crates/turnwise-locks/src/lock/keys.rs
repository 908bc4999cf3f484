//! The locks of a registry: what plain ones and those of readers and writers have in common.

use std::any::Any;
use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
// Numbers of a process, in no model.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Actor, Clock};

use super::acquire::{Acquire, Wanted};
use super::call::Call;
use super::error::LockError;
use super::fence::Fence;
use super::guard::Thin;
use super::place::{LockPlace, LockSet, NameOf, tell};
use super::turns::{Common, Core};
use crate::keyed::NotStarted;
use crate::limits::Limits;
use crate::registry::{
    AsKey, HoldOutcome, HoldRequest, KeySlot, KeyUse, Kind, Make, Own, Registry,
};
use crate::user_code::{ignore, owning};

/// One who may hold the same lock several times: its own requests do not wait for each other.
///
/// It is a value, and not a thread: a pool's thread works for many, and a task works on many
/// threads. Clones are the same owner. Two owners are never equal.
///
/// # Examples
/// ```
/// use turnwise_locks::{Limits, Locks, Owner};
///
/// let locks = Locks::new();
/// let me = Owner::new();
/// let outer = locks.lock_as(&me, "a", Limits::NONE).wait()?;
/// let inner = locks.lock_as(&me, "a", Limits::NONE).wait()?; // at once
/// assert_eq!(inner.fence(), outer.fence()); // the same hold
/// drop(outer);
/// assert!(locks.try_lock("a").is_err());
/// drop(inner);
/// assert!(locks.try_lock("a").is_ok());
/// # Ok::<(), turnwise_locks::LockError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    number: u64,
}

impl Owner {
    /// Another owner than all before. Wait-free.
    #[allow(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        // Ordering: Relaxed. Nothing is published by a number.
        Owner { number: NUMBERS.fetch_add(1, Ordering::Relaxed) }
    }
}

/// A look at a lock that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The number of holders: one, or readers.
    pub holders: usize,
    /// The fence of the oldest hold.
    pub fence: Option<Fence>,
    /// The number of times that its owner holds it.
    pub count: usize,
    /// The time that it is held: for requests with limits, or after the first look at these
    /// locks.
    pub held_for: Option<Duration>,
    /// The rest of its lease, if it has one.
    pub remaining: Option<Duration>,
    /// True of a writer's hold, and of a plain lock's.
    pub exclusive: bool,
    /// The number of requests that wait.
    pub waiting: usize,
    /// The time that the first of them waits: one with limits, or after the first look at
    /// these locks.
    pub oldest_wait: Option<Duration>,
    /// The time that a request would wait now, as far as is known.
    pub expected_wait: Duration,
}

pub(super) struct Keys<K: Send + Sync + 'static> {
    set: Arc<LockSet<K>>,
}

/// Timers, and with them a clock.
#[derive(Default)]
pub(super) struct Timing {
    pub(super) timers: Option<Timers>,
}

impl Timing {
    pub(super) fn clock(&mut self, clock: impl Clock + 'static) {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        self.timers = Some(Timers::of(&clock));
    }
}

impl<K: Hash + Eq + Send + Sync + 'static> Keys<K> {
    /// Locks with so much room each.
    pub(super) fn new(capacity: u64, timing: Timing) -> Self {
        let make = Make::Plain(Box::new(move || Core::new(capacity)));
        let registry = Registry::new(make, None, None, false);
        let (common, names, values) = (Common::new(timing.timers), None, None);
        Keys { set: Arc::new(LockSet { registry, common, capacity, names, values }) }
    }

    pub(super) fn acquire<A, G, E>(
        &self,
        key: A,
        owner: Option<&Owner>,
        weight: u64,
        limits: Limits,
    ) -> Acquire<K, G, E>
    where
        A: AsKey<K>,
    {
        let (set, capacity) = (&self.set, self.set.capacity);
        let named = set.names.is_some();
        if A::BORROWED && named {
            return self.acquire(Own(key.own()), owner, weight, limits);
        }
        // An owner, and a lease, are known by a mailbox only.
        let thin = owner.is_none() && limits.leased().is_none();
        let immediate = limits.is_immediate();
        let request = HoldRequest { weight, thin, immediate, named, capacity };
        let number = || set.common.number();
        let (acquire, key) = match set.registry.hold(key, request, number, set.kept()) {
            Ok(HoldOutcome::Thin(place, fence)) => {
                return Acquire::thin(Thin::new(set.clone(), place, fence));
            }
            Ok(HoldOutcome::Fat((place, actor), key)) => {
                let key_use = KeyUse::new(self.set.clone(), place, Kind::Run);
                let wanted = Wanted { owner: owner.map(|owner| owner.number), weight, limits };
                let (key, acquire) = owning(key, |_| {
                    let terms = limits.terms(|| set.common.now());
                    Acquire::new(LockPlace::Key(key_use, actor), wanted, terms)
                });
                (acquire, key)
            }
            Err((why, key)) => (Acquire::refused(refused(&why)), key),
        };
        match (&set.names, key) {
            // Only its error says the name.
            (Some(name), Some(key)) if !acquire.is_held() => {
                let ((acquire, _), name) =
                    owning((acquire, key), |(_, key)| Arc::from(name(key.get())));
                acquire.named(Some(name))
            }
            (_, key) => {
                ignore(|| drop(key));
                acquire
            }
        }
    }

    fn mailbox<Q>(&self, key: &Q) -> Option<Actor<KeySlot<K, Core<K>>>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.set.registry.mailbox_of(key, self.set.kept())
    }

    pub(super) fn is_used<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some(mailbox) = self.set.registry.used(key) else { return false };
        // The guard of a hold that was lost keeps its key. A turn that is under way is a use.
        let looks = |actor: Actor<KeySlot<K, Core<K>>>| {
            let look = |core: &mut Core<K>| core.is_used(&self.set.common);
            actor.try_with(|slot| slot.state.as_mut().is_some_and(look)).unwrap_or(true)
        };
        mailbox.is_none_or(looks)
    }

    /// The hash of a key. User code.
    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.set.registry.hash(key)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.set.capacity
    }

    pub(super) fn info<Q>(&self, key: &Q) -> Call<Option<LockInfo>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some(actor) = self.mailbox(key) else { return Call::over(Ok(None)) };
        let common = &self.set.common;
        common.watch();
        let known = self.set.known(self.set.registry.hash(key));
        // A lock that is gone meanwhile has no state.
        let info = actor.with(|slot| {
            let core = slot.state.as_mut()?;
            known.into_iter().for_each(|known| core.know(known));
            info_of(core, common)
        });
        Call::over(info.map_err(LockError::from))
    }

    /// The room that a request for a key would get at once.
    pub(super) fn spare<Q>(&self, key: &Q) -> Call<u64>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some(actor) = self.mailbox(key) else { return Call::over(Ok(self.capacity())) };
        let spare = actor.with(|slot| match &mut slot.state {
            Some(core) => core.spare(&self.set.common),
            // It is gone meanwhile.
            None => self.capacity(),
        });
        Call::over(spare.map_err(LockError::from))
    }

    pub(super) fn force<Q>(&self, key: &Q) -> Call<bool>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some(actor) = self.mailbox(key) else { return Call::over(Ok(false)) };
        let common = &self.set.common;
        let lost =
            actor.with(|slot| slot.state.as_mut().is_some_and(|core| core.force(common) > 0));
        Call::over(lost.map_err(LockError::from))
    }

    /// Takes no more requests; those that wait fail.
    pub(super) fn close(&self) {
        for actor in self.set.registry.take_no_more() {
            let set = self.set.clone();
            tell(&actor, move |slot| set.registry.state(slot).close(&set.common));
        }
    }
}

/// A look at a lock, inside its turn.
fn info_of<K: Send + Sync + 'static>(core: &mut Core<K>, common: &Arc<Common>) -> Option<LockInfo> {
    // The guard of a hold that was lost keeps its mailbox.
    let view = Some(core.view(common)).filter(|view| view.holds > 0 || view.waiting > 0)?;
    let now = common.now();
    let oldest = core.oldest();
    Some(LockInfo {
        holders: view.holds,
        fence: oldest.map(|(fence, ..)| Fence::from_number(fence)),
        count: oldest.map_or(0, |(_, entries, ..)| entries),
        held_for: oldest.and_then(|(_, _, since, _)| since).map(|since| now.saturating_sub(since)),
        remaining: oldest.and_then(|(.., due)| due).map(|due| due.saturating_sub(now)),
        exclusive: view.holds == 1 && view.used == view.capacity,
        waiting: view.waiting,
        oldest_wait: view.oldest_wait.map(|since| now.saturating_sub(since)),
        expected_wait: core.expected(now),
    })
}

fn refused(why: &NotStarted) -> LockError {
    match why {
        NotStarted::Busy { .. } => LockError::Busy { key: None },
        _ => LockError::Closed,
    }
}

impl<K: Send + Sync + 'static> Keys<K> {
    /// Before there is a clone of these locks.
    fn set(&mut self) -> &mut LockSet<K> {
        Arc::get_mut(&mut self.set).unwrap_or_else(|| unreachable!("they were made just now"))
    }

    /// Gives keys names, before there is a clone of these locks.
    pub(super) fn set_names(&mut self, names: NameOf<K>) {
        self.set().names = Some(names);
    }

    /// Puts values behind the locks, before there is a clone of these.
    pub(super) fn set_values(&mut self, values: Box<dyn Any + Send + Sync>) {
        self.set().values = Some(values);
    }

    pub(super) fn values(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.set.values.as_deref()
    }

    pub(super) fn now(&self) -> Duration {
        self.set.common.now()
    }

    pub(super) fn len(&self) -> usize {
        self.set.registry.len()
    }

    pub(super) fn all(&self) -> Vec<K>
    where
        K: Clone,
    {
        self.set.registry.look_at_all(|key, _| key.clone())
    }
}

impl<K: Send + Sync + 'static> Clone for Keys<K> {
    fn clone(&self) -> Self {
        Keys { set: self.set.clone() }
    }
}

/// Describes locks, or a semaphore, before they are made: see
/// [`Locks::builder`](crate::Locks::builder).
#[must_use = "nothing is made before `build`"]
pub struct LocksBuilder<L> {
    timing: Timing,
    make: Box<dyn FnOnce(Timing) -> L + Send + Sync>,
}

impl<L> LocksBuilder<L> {
    pub(super) fn new(make: impl FnOnce(Timing) -> L + Send + Sync + 'static) -> Self {
        LocksBuilder { timing: Timing::default(), make: Box::new(make) }
    }

    /// Describes locks by key, with so much room each.
    pub(super) fn by_key<K>(
        capacity: u64,
        locks: impl FnOnce(Keys<K>) -> L + Send + Sync + 'static,
    ) -> Self
    where
        K: Hash + Eq + Send + Sync + 'static,
        L: 'static,
    {
        Self::new(move |timing| locks(Keys::new(capacity, timing)))
    }

    /// The timers that end leases and waits; their clock is that of the locks. Without this, the
    /// [global ones](turnwise::time::Timers::global).
    pub fn timers(mut self, timers: Timers) -> Self {
        self.timing.timers = Some(timers);
        self
    }

    /// The clock that limits and leases are measured on, with timers of its own.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.timing.clock(clock);
        self
    }

    /// Changes the locks that are made.
    pub(super) fn then(self, change: impl FnOnce(&mut L) + Send + Sync + 'static) -> Self
    where
        L: 'static,
    {
        let LocksBuilder { timing, make } = self;
        let make = Box::new(move |timing| {
            let mut locks = make(timing);
            change(&mut locks);
            locks
        });
        LocksBuilder { timing, make }
    }

    /// Makes them.
    pub fn build(self) -> L {
        (self.make)(self.timing)
    }
}

impl<L> fmt::Debug for LocksBuilder<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocksBuilder").finish_non_exhaustive()
    }
}

/// The methods that all locks by key have: `$capacity` is how much room each has. Without it, the
/// type has its own `new` and `builder`.
macro_rules! by_key {
    ($name:ident, $capacity:expr) => {
        impl<K: std::hash::Hash + Eq + Send + Sync + 'static> $name<K> {
            /// Locks on the system's clock.
            pub fn new() -> Self {
                Self::builder().build()
            }

            /// Locks with a clock, or timers, of their own.
            pub fn builder() -> $crate::lock::keys::LocksBuilder<Self> {
                $crate::lock::keys::LocksBuilder::by_key($capacity, |keys| $name { keys })
            }
        }

        impl<K: std::hash::Hash + Eq + Send + Sync + 'static> Default for $name<K> {
            fn default() -> Self {
                $name::new()
            }
        }

        $crate::lock::keys::by_key!($name);
    };
    ($name:ident) => {
        impl<K: Send + Sync + 'static> $crate::lock::keys::LocksBuilder<$name<K>> {
            /// Gives keys names, which errors have and say. Called in each request that is not
            /// granted at once, outside of all locks. Each request clones a
            /// [borrowed](crate::EntryRef) key for it.
            ///
            /// # Examples
            /// ```
            /// use turnwise_locks::Locks;
            ///
            /// let orders = Locks::builder().names(|order: &u32| format!("order {order}")).build();
            /// let guard = orders.lock(7).wait()?;
            /// let busy = orders.try_lock(7).unwrap_err();
            /// let said = "`order 7` was not granted: it is held, or waited for";
            /// assert_eq!(busy.to_string(), said);
            /// # Ok::<(), turnwise_locks::LockError>(())
            /// ```
            pub fn names(self, name: impl Fn(&K) -> String + Send + Sync + 'static) -> Self {
                self.then(|locks| locks.keys.set_names(Box::new(name)))
            }
        }

        impl<K: Send + Sync + 'static> $name<K> {
            /// The number of used keys: held, waited for, or kept by a guard that was lost and not
            /// dropped. Stale on return.
            pub fn len(&self) -> usize {
                self.keys.len()
            }

            /// The keys that are used, in no order: for a look at each of them. Stale on return;
            /// keys that come or go meanwhile may be missed. Takes the short lock of one shard
            /// after the other, and clones keys inside.
            ///
            /// # Panics
            /// If the `Clone` of a key uses the locks.
            pub fn keys(&self) -> Vec<K>
            where
                K: Clone,
            {
                self.keys.all()
            }

            /// True if no key is used. Stale on return.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// A key by a borrowed form of it, `&str` of a `String`: it is cloned if it is not
            /// used, and else not. Nothing is asked for before a call of the
            /// [`EntryRef`](crate::EntryRef).
            pub fn entry_ref<'a, Q>(
                &'a self,
                key: &'a Q,
            ) -> $crate::entry_ref::EntryRef<'a, Self, Q>
            where
                K: std::borrow::Borrow<Q>,
                Q: std::hash::Hash + Eq + ToOwned<Owned = K> + ?Sized,
            {
                $crate::entry_ref::EntryRef { all: self, key }
            }
        }

        impl<K: Send + Sync + 'static> Clone for $name<K> {
            fn clone(&self) -> Self {
                $name { keys: self.keys.clone() }
            }
        }

        // No panic leaves a lock half changed.
        impl<K: Send + Sync + 'static> std::panic::UnwindSafe for $name<K> {}
        impl<K: Send + Sync + 'static> std::panic::RefUnwindSafe for $name<K> {}

        impl<K: Send + Sync + 'static> std::fmt::Debug for $name<K> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

pub(super) use by_key;
