//! The keys that live, and how they come and go.
//!
//! A key lives from its first use to its last; while it does, it has one entry and one mailbox.
//! Each use is counted, and owned by a value, [`KeyUse`]: whatever becomes of it (done, panicked,
//! cancelled, given back, dropped), dropping that value ends the use. The end of the last use takes
//! the entry out, found by its place and not by its key. So there is no sweep, no timer, and no
//! look that a removal could come between.
//!
//! A registry may keep its keys alive for a while ([`keep`](crate::keep)): then the end of the
//! last use leaves the entry there, in the chain of those that wait for their end, and the next use
//! takes it out of that chain again.
//!
//! - KEYS-1: an entry's `runs + keys` is the number of its uses. It is zero outside of the lock
//!   only while the entry is in the chain of kept ones, or a hold that has no mailbox ([`thin`]).
//! - KEYS-2: a key's mailbox takes a turn only while its user is counted: so no mailbox of
//!   a key has a turn after another one was made for that key.
//! - KEYS-3: a state that needs dropping, or has an end hook, ends inside a turn of its mailbox,
//!   before the end of the last use: so at most one state of a key lives. A user that finds itself
//!   the last, outside of a turn, passes its use on to a turn that does no more than that. A state
//!   in a mailbox of a registry that takes no more runs ends with that mailbox.
//! - KEYS-4: the only user code under a shard's lock is `Eq`, and the `Clone` of the keys for a
//!   look at all of them. It may panic: nothing was changed. It must not come back here; a call
//!   panics then, and another thread ends the use.

// By path, because the models include this file by path, and would look beside it.
#[path = "registry/as_key.rs"]
mod as_key;
#[path = "registry/thin.rs"]
mod thin;

use std::any::Any;
use std::borrow::Borrow;
use std::cell::Cell;
use std::hash::{BuildHasher, Hash};
use std::mem::needs_drop;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashMap};
use turnwise::time::{Timer, Timers};
use turnwise::{Actor, Clock, EndCause, Limit, MonotonicClock, Spawner, StopCause};

use crate::estimate::Estimates;
use crate::keep::Keeper;
use crate::keyed::NotStarted;
use crate::limits::{Limits, Terms, TimeSource};
use crate::overrun::Listener;
use crate::sync::{Mutex, MutexGuard, shards};
use crate::table::{self, Links, Table};
use crate::user_code::{Payload, catch, discard, ignore, owning, text};

pub(crate) use as_key::{AsKey, Own};
pub(crate) use thin::{HoldOutcome, HoldRequest, comparing};

/// Called with each state of a key that ends.
pub(crate) type EndHook<K, S> = dyn Fn(&K, S, EndCause) + Send + Sync;

/// The state of a key's mailbox.
pub(crate) struct KeySlot<K, S> {
    /// For the maker of the state, if that looks at the key, for the end hook, and for the listener
    /// for overruns.
    key: Option<Arc<K>>,
    pub(crate) state: Option<S>,
}

impl<K, S> KeySlot<K, S> {
    /// That of a mailbox which is no key's.
    pub(crate) fn alone(state: S) -> Self {
        KeySlot { key: None, state: Some(state) }
    }

    /// The key, if the maker of the state looks at it, or there is an end hook or a listener for
    /// overruns.
    pub(crate) fn key(&self) -> Option<&Arc<K>> {
        self.key.as_ref()
    }

    /// Tells the end hook of the state, if there is one. User code, whose panic is ignored.
    pub(crate) fn end(&mut self, hook: &EndHook<K, S>, cause: EndCause) {
        if let (Some(state), Some(key)) = (self.state.take(), &self.key) {
            ignore(|| hook(key, state, cause));
        }
    }
}

/// The source of states.
pub(crate) enum Make<K, S> {
    Plain(Box<dyn Fn() -> S + Send + Sync>),
    Of(Box<dyn Fn(&K) -> S + Send + Sync>),
}

/// A key in its entry, or one that is at hand.
pub(crate) enum EntryKey<K> {
    Own(K),
    /// Shared with the key's mailbox.
    Shared(Arc<K>),
}

impl<K> EntryKey<K> {
    pub(crate) fn get(&self) -> &K {
        match self {
            EntryKey::Own(key) => key,
            EntryKey::Shared(key) => key,
        }
    }
}

pub(crate) struct Entry<K, S> {
    hash: u64,
    key: EntryKey<K>,
    body: EntryBody<K, S>,
    /// Uses by runs that run or wait.
    runs: u32,
    /// Uses by [`Key`](crate::Key)s, and those that look after the state for the last time.
    keys: u32,
}

/// The body of an entry.
enum EntryBody<K, S> {
    Mailbox {
        actor: Actor<KeySlot<K, S>>,
        /// The moment of its end, if it is kept, or ends now: nanoseconds of the registry's clock.
        /// Zero, if it was used since.
        due: u64,
        links: Links,
    },
    /// A hold that needs none: see [`thin`].
    Thin { fence: u64, weight: u64 },
}

impl<K, S> EntryBody<K, S> {
    fn mailbox(actor: Actor<KeySlot<K, S>>) -> Self {
        EntryBody::Mailbox { actor, due: 0, links: Links::NONE }
    }
}

impl<K, S> table::Hashed for Entry<K, S> {
    fn hash(&self) -> u64 {
        self.hash
    }
}

impl<K, S> table::Linked for Entry<K, S> {
    fn links(&mut self) -> &mut Links {
        match &mut self.body {
            EntryBody::Mailbox { links, .. } => links,
            EntryBody::Thin { .. } => unreachable!("a hold is not kept, but held"),
        }
    }
}

impl<K, S> Entry<K, S> {
    /// The mailbox of a key that has no thin hold: of any that is in use.
    pub(crate) fn actor(&self) -> &Actor<KeySlot<K, S>> {
        match &self.body {
            EntryBody::Mailbox { actor, .. } => actor,
            EntryBody::Thin { .. } => unreachable!("what is in use has a mailbox"),
        }
    }

    pub(crate) fn due(&mut self) -> &mut u64 {
        match &mut self.body {
            EntryBody::Mailbox { due, .. } => due,
            EntryBody::Thin { .. } => unreachable!("a hold is not kept, but held"),
        }
    }

    pub(crate) fn live(&self) -> Live<K, S> {
        let Entry { runs, keys, .. } = *self;
        Live { actor: self.actor().clone(), runs, keys }
    }

    fn is_thin(&self) -> bool {
        matches!(self.body, EntryBody::Thin { .. })
    }

    /// True if something of this key runs or waits.
    fn is_busy(&self) -> bool {
        self.runs > 0 || !self.actor().is_idle()
    }

    fn is_used(&self) -> bool {
        self.runs > 0 || self.keys > 0
    }

    fn uses(&mut self, kind: Kind) -> &mut u32 {
        match kind {
            Kind::Run => &mut self.runs,
            Kind::Key => &mut self.keys,
        }
    }
}

/// The mailbox of a key, with its uses by runs and by [`Key`](crate::Key)s.
pub(crate) struct Live<K, S> {
    pub(crate) actor: Actor<KeySlot<K, S>>,
    pub(crate) runs: u32,
    pub(crate) keys: u32,
}

// Two shards never share a line of the processor's cache, nor the line that is fetched with it.
#[repr(align(128))]
struct Shard<K, S>(Mutex<ShardKeys<K, S>>);

/// The value that the holder of a thin hold shares with its mailbox: see [`thin`].
pub(crate) type Beside = Arc<dyn Any + Send + Sync>;

pub(crate) struct ShardKeys<K, S> {
    /// By the places of the mailboxes that were made for thin holds.
    beside: HashMap<u32, Beside>,
    pub(crate) table: Table<Entry<K, S>>,
    pub(crate) closed: bool,
    /// The ends of runs, by their [`Fate`], if they are counted.
    fates: Option<[u64; Fate::ALL]>,
    /// A timer is armed for the first of the kept ones, or what it leads to is not over.
    pub(crate) armed: bool,
    pub(crate) timer: Option<Timer>,
}

impl<K, S> ShardKeys<K, S> {
    /// Counts the end of a run.
    fn count(&mut self, kind: Kind, fate: Fate) {
        if let (Kind::Run, Some(fates)) = (kind, &mut self.fates) {
            fates[fate as usize] += 1;
        }
    }

    /// Counts a use of an entry that is there.
    pub(crate) fn add_use(&mut self, at: u32, kind: Kind) -> &mut Entry<K, S> {
        if !self.table.get(at).is_used() {
            self.table.unkeep(at);
        }
        let entry = self.table.get(at);
        // It is used.
        *entry.due() = 0;
        let uses = entry.uses(kind);
        *uses = uses.checked_add(1).expect("four billion uses are enough for a key");
        entry
    }
}

/// The number of the entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) hash: u64,
    /// Its index in its shard. It stays there as long as it is in use.
    pub(crate) at: u32,
}

/// The purpose of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Run,
    Key,
}

/// The outcome of a run, as it is counted when its use goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    NotStarted,
    Ran,
    Overran,
    Panicked,
    Cut,
}

impl Fate {
    /// The number of variants.
    pub(crate) const ALL: usize = 5;
}

/// The name of a key, by that of its mailbox.
pub(crate) fn name_of<K, S>(actor: &Actor<KeySlot<K, S>>) -> Option<Arc<str>>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    actor.name().map(Arc::from)
}

/// The reason that a run of this mailbox takes no place. Called outside of all locks.
pub(crate) type Why<K, S> = fn(&Actor<KeySlot<K, S>>) -> NotStarted;

/// The entry of a key that is in use, and its mailbox.
pub(crate) type Found<K, S> = (Place, Actor<KeySlot<K, S>>);

pub(crate) struct Registry<K, S> {
    shards: Box<[Shard<K, S>]>,
    hasher: DefaultHashBuilder,
    make: Make<K, S>,
    /// None: the mailboxes are plain.
    spawner: Option<Spawner<KeySlot<K, S>>>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// The mailboxes are run by an executor.
    pub(crate) elsewhere: bool,
    /// By the timers that were given, or those of the clock that was.
    pub(crate) time: TimeSource,
    pub(crate) keeper: Option<Keeper>,
    pub(crate) listener: Option<Arc<Listener<K>>>,
    on_end: Option<Arc<EndHook<K, S>>>,
    /// A mailbox has its key: see [`KeySlot::key`].
    shares_keys: bool,
    /// The number of runs of a key that may wait beside the one that runs.
    capacity: Option<u32>,
    /// The ends of runs are counted.
    counts: bool,
    named: Option<NamedSpawner<K, S>>,
    pub(crate) estimates: Estimates,
    pub(crate) me: Weak<Self>,
}

/// The parts that only some registries have.
pub(crate) struct More<K, S> {
    pub(crate) timers: Option<Timers>,
    /// The time that a key stays after its last use.
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) listener: Option<Arc<Listener<K>>>,
    pub(crate) on_end: Option<Arc<EndHook<K, S>>>,
    /// The number of runs of a key that may wait.
    pub(crate) capacity: Option<u32>,
    /// The ends of runs are counted.
    pub(crate) counts: bool,
}

/// A maker of mailboxes that have the names of their keys. Runs user code.
pub(crate) type NamedSpawner<K, S> = Box<dyn Fn(&K) -> Spawner<KeySlot<K, S>> + Send + Sync>;

impl<K, S> More<K, S> {
    pub(crate) const NONE: Self = More {
        timers: None,
        keep_alive: None,
        listener: None,
        on_end: None,
        capacity: None,
        counts: false,
    };
}

thread_local! {
    /// True while this thread is inside the code of a key under a shard's lock (KEYS-4).
    static COMPARING: Cell<bool> = const { Cell::new(false) };
}

pub(crate) struct Comparing;

impl Comparing {
    pub(crate) fn new() -> Self {
        COMPARING.set(true);
        Comparing
    }
}

impl Drop for Comparing {
    fn drop(&mut self) {
        COMPARING.set(false);
    }
}

/// Says whether a key is kept alive after its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Yes,
    /// If it was used since this use began, which was to end it.
    IfUsed,
    No,
}

/// The state of a key after the end of a use.
enum UseEnd<K, S> {
    /// There are other uses, or it is kept.
    Others,
    /// It is kept, and no timer is armed for its shard: one is to be, for this time.
    Kept(u64),
    /// It was the last: here is what to drop outside of the lock.
    Gone(Entry<K, S>, #[expect(dead_code, reason = "it is there to be dropped")] Option<Beside>),
    /// It is the last and still there, from now on as one of a [`Kind::Key`]: there may be a
    /// state.
    Last(Actor<KeySlot<K, S>>),
}

impl<K, S> Registry<K, S> {
    pub(crate) fn now(&self) -> Duration {
        now(self.clock.as_deref())
    }

    /// The end of a limit that begins now.
    pub(crate) fn until(&self, limit: Limit) -> Option<Duration> {
        match limit {
            Limit::Within(limit) => self.now().checked_add(limit),
            _ => None,
        }
    }

    /// The part of a limit that is left.
    pub(crate) fn left(&self, until: Option<Duration>, limit: Limit) -> Limit {
        until.map_or(limit, |until| until.saturating_sub(self.now()).into())
    }

    /// The terms of a call that is made now.
    pub(crate) fn terms(&self, limits: Limits) -> Terms {
        match self.elsewhere {
            true => limits.terms_elsewhere(|| self.now()),
            false => limits.terms(|| self.now()),
        }
    }

    /// True if it takes no more runs.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock(0).closed
    }

    /// # Panics
    /// Inside the `Eq` of a key: the lock may be this thread's.
    pub(crate) fn lock(&self, shard: usize) -> MutexGuard<'_, ShardKeys<K, S>> {
        assert!(!COMPARING.get(), "the Eq or Clone of a key must not use a registry of keys");
        self.shards[shard].0.lock()
    }

    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        // The table uses the lowest bits and the highest seven.
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    pub(crate) fn len(&self) -> usize {
        (0..self.shards.len()).map(|shard| self.lock(shard).table.len()).sum()
    }

    /// Counts a run that was refused before its key was looked up.
    pub(crate) fn count_refused(&self) {
        if self.counts {
            self.lock(0).count(Kind::Run, Fate::NotStarted);
        }
    }

    /// The ends of runs, by their [`Fate`], if they are counted.
    pub(crate) fn fates(&self) -> Option<[u64; Fate::ALL]> {
        let mut all = [0; Fate::ALL];
        for shard in 0..self.shards.len() {
            let keys = self.lock(shard);
            all.iter_mut().zip(keys.fates.as_ref()?).for_each(|(all, some)| *all += some);
        }
        Some(all)
    }

    /// Of each entry, what `look` returns: it may clone the key.
    pub(crate) fn look_at_all<R>(&self, look: impl Fn(&K, &Entry<K, S>) -> R) -> Vec<R> {
        let mut all = Vec::new();
        let looked = catch(|| {
            for shard in 0..self.shards.len() {
                let keys = self.lock(shard);
                let _comparing = Comparing::new();
                all.extend(keys.table.iter().map(|entry| look(entry.key.get(), entry)));
            }
        });
        if let Err(payload) = looked {
            // Keys, whose drop is user code.
            all.into_iter().for_each(|looked| ignore(|| drop(looked)));
            resume_unwind(payload);
        }
        all
    }

    /// The end of a key that is not used from now on, if it is to be kept at all.
    #[inline]
    fn keep_until(&self) -> Option<u64> {
        let keeper = self.keeper.as_ref()?;
        // A clock that panics keeps nothing.
        let now = catch(|| self.now()).map_err(discard).ok()?;
        Some(keeper.until(now))
    }

    /// True if its states have an end hook: then also those end in a turn that need no drop.
    pub(crate) fn has_end_hook(&self) -> bool {
        self.on_end.is_some()
    }

    /// Ends the state of a key whose last use is over, in a turn of it (KEYS-3).
    #[inline]
    fn end_unused(&self, slot: &mut KeySlot<K, S>) {
        match self.on_end {
            None => ignore(|| slot.state = None),
            Some(_) if self.is_closed() => self.end_state(slot, EndCause::Closed),
            Some(_) => self.end_state(slot, EndCause::Dropped),
        }
    }

    /// Ends the state of a key whose run was cut, in a turn of it: it may be half changed.
    pub(crate) fn end_cut(&self, slot: &mut KeySlot<K, S>) {
        self.end_state(slot, EndCause::Stopped(StopCause::Requested));
    }

    /// Ends the state of a key whose run has panicked: as [`end_cut`](Self::end_cut).
    #[cold]
    pub(crate) fn end_panicked(&self, slot: &mut KeySlot<K, S>, payload: &Payload) {
        let panic = StopCause::Panicked(text(&**payload).into());
        self.end_state(slot, EndCause::Stopped(panic));
    }

    #[cold]
    fn end_state(&self, slot: &mut KeySlot<K, S>, cause: EndCause) {
        match &self.on_end {
            None => ignore(|| slot.state = None),
            Some(hook) => slot.end(&**hook, cause),
        }
    }

    /// Takes a use away. `LOOKED_AFTER`: a state ends by KEYS-3. `stateless`: there is none.
    /// `keep`: does the last one leave the key there, if the registry does so?
    /// `fate`: the outcome of its run, unless that is counted already.
    fn end_use<const LOOKED_AFTER: bool>(
        &self,
        place: Place,
        kind: Kind,
        stateless: bool,
        keep: Keep,
        fate: Option<Fate>,
    ) -> UseEnd<K, S> {
        // The clock is user code: not under the lock.
        let until = if keep == Keep::No { None } else { self.keep_until() };
        let mut keys = self.lock(self.shard_of(place.hash));
        if let Some(fate) = fate {
            keys.count(kind, fate);
        }
        let entry = keys.table.get(place.at);
        if entry.runs + entry.keys > 1 {
            *entry.uses(kind) -= 1;
            return UseEnd::Others;
        }
        let used = *entry.due() == 0;
        if let Some(due) = until.filter(|_| !keys.closed && (keep == Keep::Yes || used)) {
            let entry = keys.table.get(place.at);
            *entry.uses(kind) -= 1;
            *entry.due() = due;
            keys.table.keep(place.at);
            return match std::mem::replace(&mut keys.armed, true) {
                true => UseEnd::Others,
                false => UseEnd::Kept(due),
            };
        }
        if LOOKED_AFTER && !stateless {
            // It looks after the state, and is no run any more: it does not count to the capacity.
            let entry = keys.table.get(place.at);
            *entry.uses(kind) -= 1;
            *entry.uses(Kind::Key) += 1;
            return UseEnd::Last(entry.actor().clone());
        }
        // Most keys have nothing there, and then nothing is hashed.
        let beside = if keys.beside.is_empty() { None } else { keys.beside.remove(&place.at) };
        UseEnd::Gone(keys.table.remove(place.at), beside)
    }
}

impl<K: Send + Sync + 'static, S: Send + 'static> Registry<K, S> {
    pub(crate) fn new(
        make: Make<K, S>,
        spawner: Option<Spawner<KeySlot<K, S>>>,
        clock: Option<Arc<dyn Clock>>,
        elsewhere: bool,
    ) -> Arc<Self> {
        Self::with(make, spawner, clock, elsewhere, (More::NONE, None))
    }

    /// With timers, a time that keys stay for, a listener for overruns, a bound, names.
    pub(crate) fn with(
        make: Make<K, S>,
        spawner: Option<Spawner<KeySlot<K, S>>>,
        clock: Option<Arc<dyn Clock>>,
        elsewhere: bool,
        (more, named): (More<K, S>, Option<NamedSpawner<K, S>>),
    ) -> Arc<Self> {
        let More { timers, keep_alive, listener, on_end, capacity, counts } = more;
        let shard = |_| {
            Shard(Mutex::new(ShardKeys {
                beside: HashMap::new(),
                table: Table::new(),
                closed: false,
                fates: counts.then_some([0; Fate::ALL]),
                armed: false,
                timer: None,
            }))
        };
        Arc::new_cyclic(|me| Registry {
            shards: (0..shards()).map(shard).collect(),
            hasher: DefaultHashBuilder::default(),
            spawner,
            clock,
            elsewhere,
            time: TimeSource::new(timers),
            keeper: keep_alive.filter(|time| !time.is_zero()).map(Keeper::new),
            shares_keys: matches!(make, Make::Of(_)) || listener.is_some() || on_end.is_some(),
            make,
            listener,
            on_end,
            capacity,
            counts,
            named,
            estimates: Estimates::default(),
            me: me.clone(),
        })
    }

    /// A mailbox, by its own spawner if it has a name. Runs no user code.
    fn spawn(
        &self,
        key: Option<Arc<K>>,
        named: Option<Spawner<KeySlot<K, S>>>,
    ) -> Actor<KeySlot<K, S>> {
        let slot = KeySlot { key, state: None };
        match named.as_ref().or(self.spawner.as_ref()) {
            Some(spawner) => spawner.spawn(slot),
            None => Actor::new(slot),
        }
    }

    /// The maker of the mailbox of a key, if keys have names. Runs user code.
    pub(crate) fn named(&self, key: &K) -> Option<Spawner<KeySlot<K, S>>> {
        self.named.as_ref().map(|named| named(key))
    }

    /// The key's state, made if it is not there. Runs user code.
    pub(crate) fn state<'a>(&self, slot: &'a mut KeySlot<K, S>) -> &'a mut S {
        let KeySlot { key, state } = slot;
        state.get_or_insert_with(|| match (&self.make, key) {
            (Make::Plain(make), _) => make(),
            (Make::Of(make), Some(key)) => make(key),
            (Make::Of(_), None) => unreachable!("a state that is made of a key has it beside it"),
        })
    }

    fn held(&self, key: K) -> (EntryKey<K>, Option<Arc<K>>) {
        if !self.shares_keys {
            return (EntryKey::Own(key), None);
        }
        let key = Arc::new(key);
        (EntryKey::Shared(key.clone()), Some(key))
    }

    /// Closes the registry and all its mailboxes; those that there are. Keys that are only kept
    /// are gone.
    pub(crate) fn close(&self) -> Vec<Actor<KeySlot<K, S>>> {
        let all = self.take_no_more();
        for actor in &all {
            actor.close();
        }
        all
    }

    /// [`close`](Self::close), and the mailboxes stay open: they have no turn but by those who hold
    /// or wait.
    pub(crate) fn take_no_more(&self) -> Vec<Actor<KeySlot<K, S>>> {
        let (mut all, mut gone, mut timers) = (Vec::new(), Vec::new(), Vec::new());
        for shard in 0..self.shards.len() {
            let mut keys = self.lock(shard);
            keys.closed = true;
            let fat = keys.table.iter().filter(|entry| !entry.is_thin());
            all.extend(fat.map(|entry| entry.actor().clone()));
            while let Some(at) = keys.table.first_kept() {
                keys.table.unkeep(at);
                gone.push(keys.table.remove(at));
            }
            timers.extend(keys.timer.take());
        }
        for timer in timers {
            timer.cancel();
        }
        gone.into_iter().for_each(|entry| ignore(|| drop(entry)));
        all
    }

    /// The wait, if the turn of a call with these terms is not to be expected in time.
    #[inline]
    pub(crate) fn refused(
        &self,
        place: Place,
        actor: &Actor<KeySlot<K, S>>,
        terms: Terms,
    ) -> Option<NotStarted> {
        if terms.early { self.refused_early(place, actor, terms) } else { None }
    }

    #[cold]
    fn refused_early(
        &self,
        place: Place,
        actor: &Actor<KeySlot<K, S>>,
        terms: Terms,
    ) -> Option<NotStarted> {
        let limit = terms.wait?;
        let before = actor.len();
        self.estimates.want();
        let wait = self.expected(place.hash, before);
        (wait > limit.at - limit.called).then(|| NotStarted::Expected { wait, key: name_of(actor) })
    }

    /// The time of a wait behind that many, as far as it is known.
    pub(crate) fn expected(&self, hash: u64, before: usize) -> Duration {
        match before.checked_sub(1) {
            None => Duration::ZERO,
            Some(waiting) => self.estimates.get(hash).wait(waiting, Duration::ZERO),
        }
    }

    /// True if as many runs of a key wait as may.
    fn is_full(&self, entry: &Entry<K, S>) -> bool {
        self.capacity.is_some_and(|capacity| entry.runs > capacity)
    }

    /// True if each run of a key is counted, also one whose [`Key`](crate::Key) is.
    pub(crate) fn counts_each_run(&self) -> bool {
        self.capacity.is_some() || self.counts
    }

    /// Counts a run of a key that is in use, if its runs have to be counted. `None`: the other use
    /// is enough.
    pub(crate) fn count(&self, place: Place, full: Why<K, S>) -> Result<Option<Place>, NotStarted> {
        if !self.counts_each_run() {
            return Ok(None);
        }
        let mut keys = self.lock(self.shard_of(place.hash));
        let entry = keys.table.get(place.at);
        if self.is_full(entry) {
            let actor = entry.actor().clone();
            keys.count(Kind::Run, Fate::NotStarted);
            drop(keys);
            return Err(full(&actor));
        }
        keys.add_use(place.at, Kind::Run);
        Ok(Some(place))
    }

    /// Counts a run of a key that is in use, if nothing of it runs or waits.
    pub(crate) fn reserve(&self, place: Place) -> Result<Found<K, S>, NotStarted> {
        let mut keys = self.lock(self.shard_of(place.hash));
        if keys.closed {
            keys.count(Kind::Run, Fate::NotStarted);
            return Err(NotStarted::Closed);
        }
        if keys.table.get(place.at).is_busy() {
            let key = name_of(keys.table.get(place.at).actor());
            keys.count(Kind::Run, Fate::NotStarted);
            return Err(NotStarted::Busy { key });
        }
        Ok((place, keys.add_use(place.at, Kind::Run).actor().clone()))
    }
}

/// The entry of a key. User code: the key's `Eq`.
fn find<K, Q, S>(table: &Table<Entry<K, S>>, hash: u64, key: &Q) -> Option<u32>
where
    K: Borrow<Q>,
    Q: Eq + ?Sized,
{
    find_by(table, hash, |other| other.borrow() == key)
}

/// The entry of the key of which `is` is true. User code: the key's `Eq`.
fn find_by<K, S>(table: &Table<Entry<K, S>>, hash: u64, is: impl Fn(&K) -> bool) -> Option<u32> {
    let _comparing = Comparing::new();
    table.find(hash, |entry| is(entry.key.get()))
}

/// The keys of a call in their order, each once, and what `look` says of them. User code: the keys'
/// iterator and their `Ord`.
pub(crate) fn sorted<K: Ord, R>(
    keys: impl IntoIterator<Item = K>,
    look: impl FnOnce(&[K]) -> R,
) -> (Vec<K>, R) {
    let mut all = Vec::new();
    let looked = catch(|| {
        drop(owning(keys.into_iter(), |keys| all.extend(keys)));
        all.sort();
        all.dedup();
        look(&all)
    });
    match looked {
        Ok(said) => (all, said),
        Err(payload) => {
            all.into_iter().for_each(|key| ignore(|| drop(key)));
            resume_unwind(payload)
        }
    }
}

fn insert<K, S>(
    keys: &mut ShardKeys<K, S>,
    hash: u64,
    key: EntryKey<K>,
    actor: Actor<KeySlot<K, S>>,
    kind: Kind,
) -> Place {
    let mut entry = Entry { hash, key, body: EntryBody::mailbox(actor), runs: 0, keys: 0 };
    *entry.uses(kind) += 1;
    Place { hash, at: keys.table.insert(entry) }
}

impl<K: Hash + Eq + Send + Sync + 'static, S: Send + 'static> Registry<K, S> {
    /// The hash of a key. Runs user code.
    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Looks for a key in its shard, which is locked from then on. If the key's `Hash` or `Eq`
    /// panics, it is dropped outside of the lock, before the panic goes on.
    fn enter<A>(&self, key: A, kind: Kind) -> Result<Sought<'_, A, K, S>, NotStarted>
    where
        A: AsKey<K>,
    {
        let look = |key: &mut A| {
            let hash = key.hash_by(&self.hasher);
            let keys = self.lock(self.shard_of(hash));
            let at = match keys.closed {
                true => None,
                false => find_by(&keys.table, hash, |other| key.is(other)),
            };
            (hash, keys, at)
        };
        let (key, (hash, mut keys, at)) = owning(key, look);
        if keys.closed {
            keys.count(kind, Fate::NotStarted);
            // Its drop is user code: not under the lock.
            drop(keys);
            return Err(NotStarted::Closed);
        }
        Ok(Sought { key, hash, keys, at })
    }

    /// Counts a use of a key. `full`: why it is refused if as many runs wait as may.
    pub(crate) fn add_use<A>(
        &self,
        key: A,
        kind: Kind,
        full: Why<K, S>,
    ) -> Result<Found<K, S>, NotStarted>
    where
        A: AsKey<K>,
    {
        let is_full = |entry: &Entry<K, S>| kind == Kind::Run && self.is_full(entry);
        self.add_use_unless(key, kind, is_full, full)
    }

    /// Counts a use of a key for a run, if nothing of it runs or waits.
    pub(crate) fn add_use_if_idle<A>(&self, key: A) -> Result<Found<K, S>, NotStarted>
    where
        A: AsKey<K>,
    {
        self.add_use_unless(
            key,
            Kind::Run,
            |entry| entry.is_busy(),
            |actor| NotStarted::Busy { key: name_of(actor) },
        )
    }

    fn add_use_unless<A>(
        &self,
        key: A,
        kind: Kind,
        refused: impl Fn(&Entry<K, S>) -> bool,
        why: Why<K, S>,
    ) -> Result<Found<K, S>, NotStarted>
    where
        A: AsKey<K>,
    {
        let Sought { key, hash, keys, at } = self.enter(key, kind)?;
        if at.is_some() {
            return Sought { key, hash, keys, at }.add_use(kind, refused, why);
        }
        let (key, hash, keys, named) = if A::BORROWED || self.named.is_some() {
            // Its clone, and its name, are the user's: not under the lock.
            drop(keys);
            let (key, named) = owning(Own(key.own()), |Own(key)| self.named(key));
            let sought = self.enter(key, kind)?;
            if sought.at.is_some() {
                return sought.add_use(kind, refused, why);
            }
            // By its own hash, for the user's may be another one than that of what was borrowed.
            (sought.key.own(), sought.hash, sought.keys, named)
        } else {
            (key.own(), hash, keys, None)
        };
        let mut keys = keys;
        let (held, beside) = self.held(key);
        let actor = self.spawn(beside, named);
        let place = insert(&mut keys, hash, held, actor.clone(), kind);
        Ok((place, actor))
    }

    /// Looks whether a run could start now; counts its use if the key is there and idle.
    pub(crate) fn look(&self, key: &impl AsKey<K>) -> Result<Look<K, S>, NotStarted> {
        let hash = key.hash_by(&self.hasher);
        let mut keys = self.lock(self.shard_of(hash));
        if keys.closed {
            keys.count(Kind::Run, Fate::NotStarted);
            return Err(NotStarted::Closed);
        }
        let at = find_by(&keys.table, hash, |other| key.is(other));
        let Some(at) = at else { return Ok(Look::Vacant(hash)) };
        if keys.table.get(at).is_busy() {
            let key = name_of(keys.table.get(at).actor());
            keys.count(Kind::Run, Fate::NotStarted);
            return Err(NotStarted::Busy { key });
        }
        Ok(Look::Idle((Place { hash, at }, keys.add_use(at, Kind::Run).actor().clone())))
    }

    /// A mailbox that is no key's yet: see [`publish`](Self::publish).
    pub(crate) fn unpublished(
        &self,
        named: Option<Spawner<KeySlot<K, S>>>,
    ) -> Actor<KeySlot<K, S>> {
        self.spawn(None, named)
    }

    /// Makes a mailbox that of a key, and counts a run, unless the key has one. Called inside a
    /// turn of that mailbox: so this turn is the key's first.
    pub(crate) fn publish(
        &self,
        hash: u64,
        key: K,
        slot: &mut KeySlot<K, S>,
        actor: Actor<KeySlot<K, S>>,
    ) -> Result<Place, NotStarted> {
        let look = |key: &mut K| {
            let keys = self.lock(self.shard_of(hash));
            let there = if keys.closed { None } else { find(&keys.table, hash, &*key) };
            (keys, there)
        };
        let (key, (mut keys, there)) = owning(key, look);
        if keys.closed {
            keys.count(Kind::Run, Fate::NotStarted);
            return Err(NotStarted::Closed);
        }
        // Since the look, somebody has run it; one that is kept was run, too.
        if let Some(at) = there {
            let key = name_of(keys.table.get(at).actor());
            keys.count(Kind::Run, Fate::NotStarted);
            return Err(NotStarted::Busy { key });
        }
        let (held, beside) = self.held(key);
        slot.key = beside;
        Ok(insert(&mut keys, hash, held, actor, Kind::Run))
    }

    /// A key that is in use, or held: its mailbox, if it has one. Stale on return.
    pub(crate) fn used<Q>(&self, key: &Q) -> Option<Option<Actor<KeySlot<K, S>>>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let mut keys = self.lock(self.shard_of(hash));
        let at = find(&keys.table, hash, key)?;
        let entry = keys.table.get(at);
        if entry.is_thin() {
            return Some(None);
        }
        entry.is_busy().then(|| Some(entry.actor().clone()))
    }

    /// The mailbox of a key and its uses, if it lives.
    pub(crate) fn live<Q>(&self, key: &Q) -> Option<Live<K, S>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let mut keys = self.lock(self.shard_of(hash));
        let at = find(&keys.table, hash, key)?;
        Some(keys.table.get(at).live())
    }
}

impl<K, S> Drop for Registry<K, S> {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            if let Some(timer) = shard.0.get_mut().timer.take() {
                timer.cancel();
            }
        }
    }
}

/// A key, and its entry, if it is there: its shard is locked.
// In the order of their drops: the key is dropped after the lock is released.
struct Sought<'a, A, K, S> {
    keys: MutexGuard<'a, ShardKeys<K, S>>,
    at: Option<u32>,
    hash: u64,
    key: A,
}

impl<A, K, S> Sought<'_, A, K, S> {
    /// Counts a use of a key that is there.
    fn add_use(
        self,
        kind: Kind,
        refused: impl Fn(&Entry<K, S>) -> bool,
        why: Why<K, S>,
    ) -> Result<Found<K, S>, NotStarted>
    where
        K: Send + Sync + 'static,
        S: Send + 'static,
    {
        let Sought { mut keys, at: Some(at), hash, key } = self else {
            unreachable!("it is there")
        };
        if refused(keys.table.get(at)) {
            let actor = keys.table.get(at).actor().clone();
            keys.count(kind, Fate::NotStarted);
            drop(keys);
            ignore(|| drop(key));
            return Err(why(&actor));
        }
        let found = (Place { hash, at }, keys.add_use(at, kind).actor().clone());
        drop(keys);
        // The use is counted, so a panic must not lose it.
        ignore(|| drop(key));
        Ok(found)
    }
}

/// A key that is not busy.
pub(crate) enum Look<K, S> {
    /// Nothing. The key's hash.
    Vacant(u64),
    /// A [`Key`](crate::Key) uses it, and a run does now.
    Idle(Found<K, S>),
}

/// The time that a registry goes by.
pub(crate) fn now(clock: Option<&dyn Clock>) -> Duration {
    clock.map_or_else(|| MonotonicClock.now(), Clock::now)
}

/// The way of a use to its registry: a run that is waited for borrows it.
pub(crate) trait Access: Sized {
    type Key: Send + Sync + 'static;
    type State: Send + 'static;

    fn registry(&self) -> &Registry<Self::Key, Self::State>;

    /// True if the state is the user's, so that it has to end by KEYS-3.
    #[inline]
    fn is_looked_after(&self) -> bool {
        needs_drop::<Self::State>() || self.registry().has_end_hook()
    }
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

/// A registry that a use keeps.
type Kept<A> = Arc<Registry<<A as Access>::Key, <A as Access>::State>>;

/// One use of a key: it lives as long as this does.
pub(crate) struct KeyUse<A: Access> {
    access: A,
    place: Place,
    kind: Kind,
    /// The entry counts it.
    counted: bool,
    /// No turn is to look after the state any more, and it is not kept.
    last: bool,
    /// The outcome of its run, until that is counted.
    fate: Option<Fate>,
}

impl<A: Access> KeyUse<A> {
    /// Owns a use that was counted.
    pub(crate) fn new(access: A, place: Place, kind: Kind) -> Self {
        let fate = Some(Fate::NotStarted);
        KeyUse { access, place, kind, counted: true, last: false, fate }
    }

    pub(crate) fn access(&self) -> &A {
        &self.access
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Owns a use that was counted, for a turn that looks after the state for the last time.
    pub(crate) fn last(access: A, place: Place) -> Self {
        KeyUse { access, place, kind: Kind::Key, counted: true, last: true, fate: None }
    }

    /// This use with a registry that it keeps; this one counts no more.
    fn hand_over(&mut self, last: bool) -> Option<KeyUse<Kept<A>>> {
        let access = self.access.registry().me.upgrade()?;
        self.counted = false;
        let fate = self.fate.take();
        Some(KeyUse { access, place: self.place, kind: self.kind, counted: true, last, fate })
    }
}

/// The part of a turn that keeps its key.
pub(crate) trait Guard<K, S> {
    fn registry(&self) -> &Registry<K, S>;
    /// The hash of its key.
    fn hash(&self) -> u64;
    /// Its run is counted with this outcome.
    fn came_to(&mut self, fate: Fate);
    /// The last thing of a turn.
    fn finish(self, slot: &mut KeySlot<K, S>);
}

impl<A: Access> Guard<A::Key, A::State> for KeyUse<A> {
    fn registry(&self) -> &Registry<A::Key, A::State> {
        self.access.registry()
    }

    fn hash(&self) -> u64 {
        self.place.hash
    }

    fn came_to(&mut self, fate: Fate) {
        self.fate = self.fate.map(|_| fate);
    }

    fn finish(mut self, slot: &mut KeySlot<A::Key, A::State>) {
        if COMPARING.get() {
            // Somebody's `Eq` runs turns: then not here (KEYS-4).
            return;
        }
        if !self.access.is_looked_after() {
            self.finish_as::<false>(slot);
        } else if needs_drop::<A::State>() {
            self.finish_as::<true>(slot);
        } else {
            self.finish_hooked(slot);
        }
    }
}

impl<A: Access> KeyUse<A> {
    /// The last thing of a turn whose state is looked after for its end hook alone.
    #[cold]
    #[inline(never)]
    fn finish_hooked(&mut self, slot: &mut KeySlot<A::Key, A::State>) {
        self.finish_as::<true>(slot);
    }

    /// The last thing of a turn. By a constant, for most states are not looked after.
    #[inline]
    fn finish_as<const LOOKED_AFTER: bool>(&mut self, slot: &mut KeySlot<A::Key, A::State>) {
        loop {
            // What has no state is not kept.
            let keep = match (&slot.state, self.last) {
                (None, _) => Keep::No,
                (Some(_), true) => Keep::IfUsed,
                (Some(_), false) => Keep::Yes,
            };
            // Those that come meanwhile wait in this very mailbox.
            let (fate, stateless) = (self.fate.take(), slot.state.is_none());
            let registry = self.access.registry();
            match registry.end_use::<LOOKED_AFTER>(self.place, self.kind, stateless, keep, fate) {
                UseEnd::Last(_) => {
                    self.kind = Kind::Key;
                    registry.end_unused(slot);
                }
                UseEnd::Kept(due) => {
                    self.counted = false;
                    return registry.arm(registry.shard_of(self.place.hash), due);
                }
                ended => {
                    self.counted = false;
                    return ignore(|| drop(ended));
                }
            }
        }
    }
}

impl<A: Access> Drop for KeyUse<A> {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        if COMPARING.get() {
            // KEYS-4. A fresh mailbox takes it, and the pool runs that.
            let key_use = self.hand_over(self.last);
            drop(Actor::new(()).posted().send(move |()| drop(key_use)));
            return;
        }
        let (place, kind, last, fate) = (self.place, self.kind, self.last, self.fate.take());
        let keep = if last { Keep::IfUsed } else { Keep::Yes };
        let registry = self.access.registry();
        let ended = match self.access.is_looked_after() {
            true => registry.end_use::<true>(place, kind, last, keep, fate),
            false => registry.end_use::<false>(place, kind, last, keep, fate),
        };
        match ended {
            UseEnd::Kept(due) => {
                self.counted = false;
                registry.arm(registry.shard_of(self.place.hash), due);
            }
            UseEnd::Last(actor) => {
                self.kind = Kind::Key;
                // KEYS-3. Refused, it is dropped: then the mailbox ends, and the state with it.
                let Some(key_use) = self.hand_over(true) else { return };
                drop(actor.send(move |slot: &mut KeySlot<_, _>| key_use.finish(slot)));
            }
            ended => {
                self.counted = false;
                ignore(|| drop(ended));
            }
        }
    }
}

/// A use that others hold, too: a [`Key`](crate::Key)'s.
impl<K, S, P> Guard<K, S> for P
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    P: Deref<Target = KeyUse<Arc<Registry<K, S>>>>,
{
    fn registry(&self) -> &Registry<K, S> {
        &self.access
    }

    fn hash(&self) -> u64 {
        self.place.hash
    }

    // Runs that are counted have uses of their own.
    fn came_to(&mut self, _: Fate) {}

    // If it is the last, its own end comes back for the state.
    fn finish(self, _: &mut KeySlot<K, S>) {}
}
