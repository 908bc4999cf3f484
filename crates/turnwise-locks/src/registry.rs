//! The keys that live, and how they come and go.
//!
//! A key lives from its first pin to its last; while it does, it has one entry and one mailbox.
//! Each use holds a pin. That is a value which the use owns: whatever becomes of the use (done,
//! panicked, cancelled, given back, dropped), dropping the value unpins. The last unpin takes the
//! entry out, found by its number and not by its key. So there is no sweep, no timer, and no look
//! that a removal could come between.
//!
//! - P1: an entry's `runs + keys` is the number of its pins, and is never zero outside of the lock.
//! - P2: a key's mailbox takes a turn only while the turn's user holds a pin: so no mailbox of a
//!   key has a turn after another one was made for that key.
//! - P3: a state that needs dropping is dropped inside a turn of its mailbox, before the last unpin:
//!   so at most one state of a key lives. Whoever finds that he is the last, outside of a turn,
//!   passes his pin on to a turn that does no more than that.
//! - P4: the only user code under a shard's lock is `Eq`. It may panic: nothing was changed. It
//!   must not come back here; a call panics then, and an unpin is done by another thread.

mod thin;

use std::cell::Cell;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};
use turnwise::{Actor, Clock, MonotonicClock, Template};

use crate::keyed::NotStarted;
use crate::sync::{Mutex, MutexGuard};
use crate::user_code::ignore;

use thin::Thin;
pub(crate) use thin::{Entered, Wish, comparing};

/// What a key's mailbox owns.
pub(crate) struct Slot<K, S> {
    /// For what makes the state, if that looks at the key.
    key: Option<Arc<K>>,
    pub(crate) state: Option<S>,
}

impl<K, S> Slot<K, S> {
    /// That of a mailbox which is no key's.
    pub(crate) fn alone(state: S) -> Self {
        Slot { key: None, state: Some(state) }
    }
}

/// Where states come from.
pub(crate) enum Make<K, S> {
    Plain(fn() -> S),
    Of(Box<dyn Fn(&K) -> S + Send + Sync>),
}

/// A key in its entry.
enum Held<K> {
    Own(K),
    /// Shared with the key's mailbox.
    Shared(Arc<K>),
}

impl<K> Held<K> {
    fn get(&self) -> &K {
        match self {
            Held::Own(key) => key,
            Held::Shared(key) => key,
        }
    }
}

struct Entry<K, S> {
    hash: u64,
    number: u64,
    key: Held<K>,
    actor: Actor<Slot<K, S>>,
    /// Pins of runs that run or wait.
    runs: usize,
    /// Pins of [`Key`](crate::Key)s.
    keys: usize,
}

impl<K, S> Entry<K, S> {
    /// Does something of this key run or wait?
    fn is_busy(&self) -> bool {
        self.runs > 0 || !self.actor.is_idle()
    }

    fn pins(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Run => &mut self.runs,
            Kind::Key => &mut self.keys,
        }
    }
}

// Two shards never share a line of the processor's cache, nor the line that is fetched with it.
#[repr(align(128))]
struct Shard<K, S>(Mutex<Keys<K, S>>);

struct Keys<K, S> {
    table: HashTable<Entry<K, S>>,
    /// Holds of locks that have no mailbox.
    thin: HashTable<Thin<K>>,
    next: u64,
    closed: bool,
}

/// Which entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    hash: u64,
    number: u64,
}

/// What a pin is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Run,
    Key,
}

/// A key's entry, pinned, and its mailbox.
pub(crate) type Found<K, S> = (Place, Actor<Slot<K, S>>);

pub(crate) struct Registry<K, S> {
    shards: Box<[Shard<K, S>]>,
    hasher: DefaultHashBuilder,
    make: Make<K, S>,
    /// None: the mailboxes are plain.
    template: Option<Template<Slot<K, S>>>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// The mailboxes are run by an executor.
    pub(crate) elsewhere: bool,
    me: Weak<Self>,
}

thread_local! {
    /// Is this thread inside an `Eq` under a shard's lock (P4)?
    static COMPARING: Cell<bool> = const { Cell::new(false) };
}

struct Comparing;

impl Comparing {
    fn new() -> Self {
        COMPARING.set(true);
        Comparing
    }
}

impl Drop for Comparing {
    fn drop(&mut self) {
        COMPARING.set(false);
    }
}

/// What an unpin has come to.
enum Unpinned<K, S> {
    /// There are other pins.
    Others,
    /// It was the last: here is what to drop outside of the lock.
    Gone(Entry<K, S>),
    /// It is the last and still there: there may be a state.
    Last(Actor<Slot<K, S>>),
}

impl<K, S> Registry<K, S> {
    pub(crate) fn now(&self) -> Duration {
        now(self.clock.as_deref())
    }

    /// # Panics
    /// Inside the `Eq` of a key: the lock may be this thread's.
    fn lock(&self, shard: usize) -> MutexGuard<'_, Keys<K, S>> {
        assert!(!COMPARING.get(), "the Eq of a key must not use a registry of keys");
        self.shards[shard].0.lock()
    }

    fn shard_of(&self, hash: u64) -> usize {
        // The table uses the lowest bits and the highest seven.
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    pub(crate) fn len(&self) -> usize {
        let len = |keys: MutexGuard<'_, Keys<K, S>>| keys.table.len() + keys.thin.len();
        (0..self.shards.len()).map(|shard| len(self.lock(shard))).sum()
    }

    /// Takes a pin away. `stateless`: there is no state in the mailbox, or it is not looked after.
    fn unpin(&self, place: Place, kind: Kind, stateless: bool) -> Unpinned<K, S> {
        let mut keys = self.lock(self.shard_of(place.hash));
        let found = keys.table.find_entry(place.hash, |entry| entry.number == place.number);
        let Ok(mut found) = found else { unreachable!("P1: a pinned key has an entry") };
        let entry = found.get_mut();
        if entry.runs + entry.keys > 1 {
            *entry.pins(kind) -= 1;
            return Unpinned::Others;
        }
        if !stateless {
            return Unpinned::Last(entry.actor.clone());
        }
        let (entry, _) = found.remove();
        let (len, capacity) = (keys.table.len(), keys.table.capacity());
        if capacity > 256 && len < capacity / 8 {
            keys.table.shrink_to(len * 2, |entry| entry.hash);
        }
        Unpinned::Gone(entry)
    }
}

impl<K: Send + Sync + 'static, S: Send + 'static> Registry<K, S> {
    pub(crate) fn new(
        make: Make<K, S>,
        template: Option<Template<Slot<K, S>>>,
        clock: Option<Arc<dyn Clock>>,
        elsewhere: bool,
    ) -> Arc<Self> {
        let cores = thread::available_parallelism().map_or(4, usize::from);
        let shard = |_| {
            let (table, thin) = (HashTable::new(), HashTable::new());
            Shard(Mutex::new(Keys { table, thin, next: 0, closed: false }))
        };
        Arc::new_cyclic(|me| Registry {
            shards: (0..(4 * cores).next_power_of_two()).map(shard).collect(),
            hasher: DefaultHashBuilder::default(),
            make,
            template,
            clock,
            elsewhere,
            me: me.clone(),
        })
    }

    /// A mailbox. Runs no user code.
    fn spawn(&self, key: Option<Arc<K>>) -> Actor<Slot<K, S>> {
        let slot = Slot { key, state: None };
        match &self.template {
            Some(template) => template.spawn(slot),
            None => Actor::new(slot),
        }
    }

    /// The key's state, made if it is not there. Runs user code.
    pub(crate) fn state<'a>(&self, slot: &'a mut Slot<K, S>) -> &'a mut S {
        let Slot { key, state } = slot;
        state.get_or_insert_with(|| match (&self.make, key) {
            (Make::Plain(make), _) => make(),
            (Make::Of(make), Some(key)) => make(key),
            (Make::Of(_), None) => unreachable!("a state that is made of a key has it beside it"),
        })
    }

    fn held(&self, key: K) -> (Held<K>, Option<Arc<K>>) {
        match self.make {
            Make::Plain(_) => (Held::Own(key), None),
            Make::Of(_) => {
                let key = Arc::new(key);
                (Held::Shared(key.clone()), Some(key))
            }
        }
    }

    /// Closes the registry and all its mailboxes; those that there are.
    pub(crate) fn close(&self) -> Vec<Actor<Slot<K, S>>> {
        let mut all = Vec::new();
        for shard in 0..self.shards.len() {
            let mut keys = self.lock(shard);
            keys.closed = true;
            all.extend(keys.table.iter().map(|entry| entry.actor.clone()));
        }
        for actor in &all {
            actor.close();
        }
        all
    }

    /// Pins a key that is pinned already, for a run, if nothing of it runs or waits.
    pub(crate) fn reserve(&self, place: Place) -> Result<Found<K, S>, NotStarted> {
        let mut keys = self.lock(self.shard_of(place.hash));
        let closed = keys.closed;
        let found = keys.table.find_mut(place.hash, |entry| entry.number == place.number);
        let Some(entry) = found else { unreachable!("P1: a pinned key has an entry") };
        if closed {
            return Err(NotStarted::Closed);
        }
        if entry.is_busy() {
            return Err(NotStarted::Busy);
        }
        entry.runs += 1;
        Ok((place, entry.actor.clone()))
    }
}

/// The entry of a key. User code: the key's `Eq`.
fn find<'a, K: Eq, S>(
    table: &'a mut HashTable<Entry<K, S>>,
    hash: u64,
    key: &K,
) -> Option<&'a mut Entry<K, S>> {
    let _comparing = Comparing::new();
    table.find_mut(hash, |entry| entry.hash == hash && entry.key.get() == key)
}

fn insert<K, S>(
    keys: &mut Keys<K, S>,
    hash: u64,
    key: Held<K>,
    actor: Actor<Slot<K, S>>,
    kind: Kind,
) -> Place {
    keys.next += 1;
    let number = keys.next;
    let mut entry = Entry { hash, number, key, actor, runs: 0, keys: 0 };
    *entry.pins(kind) += 1;
    keys.table.insert_unique(hash, entry, |entry| entry.hash);
    Place { hash, number }
}

impl<K: Hash + Eq + Send + Sync + 'static, S: Send + 'static> Registry<K, S> {
    /// The hash of a key. Runs user code.
    fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Pins a key.
    // `key` is dropped after the lock is released: arguments outlive what is made here.
    pub(crate) fn pin(&self, key: K, kind: Kind) -> Result<Found<K, S>, NotStarted> {
        let hash = self.hash(&key);
        let mut keys = self.lock(self.shard_of(hash));
        if keys.closed {
            return Err(NotStarted::Closed);
        }
        if let Some(entry) = find(&mut keys.table, hash, &key) {
            *entry.pins(kind) += 1;
            return Ok((Place { hash, number: entry.number }, entry.actor.clone()));
        }
        let (held, beside) = self.held(key);
        let actor = self.spawn(beside);
        let place = insert(&mut keys, hash, held, actor.clone(), kind);
        Ok((place, actor))
    }

    /// Pins a key for a run, if nothing of it runs or waits.
    pub(crate) fn pin_idle(&self, key: K) -> Result<Found<K, S>, NotStarted> {
        let hash = self.hash(&key);
        let mut keys = self.lock(self.shard_of(hash));
        if keys.closed {
            return Err(NotStarted::Closed);
        }
        if let Some(entry) = find(&mut keys.table, hash, &key) {
            if entry.is_busy() {
                return Err(NotStarted::Busy);
            }
            entry.runs += 1;
            return Ok((Place { hash, number: entry.number }, entry.actor.clone()));
        }
        let (held, beside) = self.held(key);
        let actor = self.spawn(beside);
        let place = insert(&mut keys, hash, held, actor.clone(), Kind::Run);
        Ok((place, actor))
    }

    /// Looks whether a run could start now; pins the key if it is there and idle.
    pub(crate) fn look(&self, key: &K) -> Result<Look<K, S>, NotStarted> {
        let hash = self.hash(key);
        let mut keys = self.lock(self.shard_of(hash));
        if keys.closed {
            return Err(NotStarted::Closed);
        }
        let Some(entry) = find(&mut keys.table, hash, key) else { return Ok(Look::Vacant(hash)) };
        if entry.is_busy() {
            return Err(NotStarted::Busy);
        }
        entry.runs += 1;
        Ok(Look::Idle((Place { hash, number: entry.number }, entry.actor.clone())))
    }

    /// A mailbox that is no key's yet: see [`publish`](Self::publish).
    pub(crate) fn unpublished(&self) -> Actor<Slot<K, S>> {
        self.spawn(None)
    }

    /// Makes a mailbox that of a key, pinned for a run, unless the key has one. Called inside a
    /// turn of that mailbox: so this turn is the key's first.
    pub(crate) fn publish(
        &self,
        hash: u64,
        key: K,
        slot: &mut Slot<K, S>,
        actor: Actor<Slot<K, S>>,
    ) -> Result<Place, NotStarted> {
        let mut keys = self.lock(self.shard_of(hash));
        if keys.closed {
            return Err(NotStarted::Closed);
        }
        if find(&mut keys.table, hash, &key).is_some() {
            return Err(NotStarted::Busy);
        }
        let (held, beside) = self.held(key);
        slot.key = beside;
        Ok(insert(&mut keys, hash, held, actor, Kind::Run))
    }

    /// The mailbox of a key, with the pins of its [`Key`](crate::Key)s, if it lives.
    pub(crate) fn live(&self, key: &K) -> Option<(Actor<Slot<K, S>>, usize)> {
        let hash = self.hash(key);
        let mut keys = self.lock(self.shard_of(hash));
        let entry = find(&mut keys.table, hash, key)?;
        Some((entry.actor.clone(), entry.keys))
    }
}

/// What there is of a key that is not busy.
pub(crate) enum Look<K, S> {
    /// Nothing. The key's hash.
    Vacant(u64),
    /// A [`Key`](crate::Key) pins it; now a run does, too.
    Idle(Found<K, S>),
}

/// The time that a registry goes by.
pub(crate) fn now(clock: Option<&dyn Clock>) -> Duration {
    clock.map_or_else(|| MonotonicClock.now(), Clock::now)
}

/// Where a pin finds its registry: a run that is waited for borrows it.
pub(crate) trait Access: Sized {
    type Key: Send + Sync + 'static;
    type State: Send + 'static;
    /// Is the state the user's, so that it has to be dropped by P3?
    const LOOKED_AFTER: bool = std::mem::needs_drop::<Self::State>();

    fn registry(&self) -> &Registry<Self::Key, Self::State>;
}

impl<K: Send + Sync + 'static, S: Send + 'static> Access for &Registry<K, S> {
    type Key = K;
    type State = S;
    fn registry(&self) -> &Registry<K, S> {
        self
    }
}

impl<K: Send + Sync + 'static, S: Send + 'static> Access for Arc<Registry<K, S>> {
    type Key = K;
    type State = S;
    fn registry(&self) -> &Registry<K, S> {
        self
    }
}

/// A registry, as one that a pin keeps.
type Kept<A> = Arc<Registry<<A as Access>::Key, <A as Access>::State>>;

/// One use of a key: it lives as long as this does.
pub(crate) struct Pin<A: Access> {
    access: A,
    place: Place,
    kind: Kind,
    /// The entry counts it.
    counted: bool,
    /// No turn is to look after the state any more.
    last: bool,
}

impl<A: Access> Pin<A> {
    /// Owns a pin that was counted.
    pub(crate) fn new(access: A, place: Place, kind: Kind) -> Self {
        Pin { access, place, kind, counted: true, last: false }
    }

    pub(crate) fn access(&self) -> &A {
        &self.access
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The same pin with a registry that it keeps; this one counts no more.
    fn hand_over(&mut self, last: bool) -> Option<Pin<Kept<A>>> {
        let access = self.access.registry().me.upgrade()?;
        self.counted = false;
        Some(Pin { access, place: self.place, kind: self.kind, counted: true, last })
    }
}

/// What a turn owns that keeps its key.
pub(crate) trait Guard<K, S> {
    fn registry(&self) -> &Registry<K, S>;
    /// The last thing of a turn.
    fn finish(self, slot: &mut Slot<K, S>);
}

impl<A: Access> Guard<A::Key, A::State> for Pin<A> {
    fn registry(&self) -> &Registry<A::Key, A::State> {
        self.access.registry()
    }

    fn finish(mut self, slot: &mut Slot<A::Key, A::State>) {
        if COMPARING.get() {
            // Somebody's `Eq` runs turns: then not here (P4).
            return;
        }
        loop {
            let stateless = !A::LOOKED_AFTER || slot.state.is_none();
            // Those that pin meanwhile wait in this very mailbox.
            match self.access.registry().unpin(self.place, self.kind, stateless) {
                Unpinned::Last(_) => {
                    // P3.
                    ignore(|| slot.state = None);
                }
                unpinned => {
                    self.counted = false;
                    return ignore(|| drop(unpinned));
                }
            }
        }
    }
}

impl<A: Access> Drop for Pin<A> {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        if COMPARING.get() {
            // P4. A fresh mailbox takes it, and the pool runs that.
            let pin = self.hand_over(self.last);
            drop(Actor::new(()).posted().send(move |()| drop(pin)));
            return;
        }
        let stateless = self.last || !A::LOOKED_AFTER;
        match self.access.registry().unpin(self.place, self.kind, stateless) {
            Unpinned::Last(actor) => {
                // P3. Refused, it is dropped: then the mailbox ends, and the state with it.
                let Some(pin) = self.hand_over(true) else { return };
                drop(actor.send(move |slot: &mut Slot<_, _>| pin.finish(slot)));
            }
            unpinned => {
                self.counted = false;
                ignore(|| drop(unpinned));
            }
        }
    }
}

/// A pin that others hold, too: a [`Key`](crate::Key)'s.
impl<K, S, P> Guard<K, S> for P
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    P: Deref<Target = Pin<Arc<Registry<K, S>>>>,
{
    fn registry(&self) -> &Registry<K, S> {
        &self.access
    }

    // If it is the last, the pin's own end comes back for the state.
    fn finish(self, _: &mut Slot<K, S>) {}
}
