//! Holds of locks that have no other request.
//!
//! Such a hold is an entry in its shard and nothing more: no mailbox, nothing allocated. The second
//! one who asks, or wants to know, gives the key a mailbox whose state has the hold in it; under
//! the lock of the shard, so it is in one place or in the other.
//!
//! - THIN-1: an entry is a thin hold or has a mailbox, never both.
//! - THIN-2: a mailbox that was made for a thin hold is used by it, and the entry stays in its
//!   place. So the holder finds out when it lets go.
//! - THIN-3: what such a mailbox shares with the holder lies beside the entry as long as that is
//!   there. So the holder has it without a turn: it may be asked for inside of one of that very
//!   mailbox.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use turnwise::Actor;

use super::{
    AsKey, Beside, COMPARING, Entry, EntryBody, EntryKey, Found, KeySlot, Kind, Own, Place,
    Registry, ShardKeys, Sought, find, insert,
};
use crate::keyed::NotStarted;
use crate::user_code::ignore;

/// The outcome of a request that looks for the key of a lock.
pub(crate) enum HoldOutcome<K, S> {
    /// It holds: here is where, and its fence.
    Thin(Place, u64),
    /// It asks in the key's mailbox. Its own key, if that is at hand still.
    Fat(Found<K, S>, Option<EntryKey<K>>),
}

/// The reason that a request is refused, and its own key, if that is at hand still.
pub(crate) type HoldRefused<K> = (NotStarted, Option<EntryKey<K>>);

/// A request, as it comes to the registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldRequest {
    /// So much of the lock it wants.
    pub(crate) weight: u64,
    /// It can do without a mailbox.
    pub(crate) thin: bool,
    /// It does not wait.
    pub(crate) immediate: bool,
    /// Its key has a name, so it has to be at hand.
    pub(crate) named: bool,
    /// The number of the lock's permits.
    pub(crate) capacity: u64,
}

/// The mailbox that a thin hold has got, and what they share.
pub(crate) type Met<K, S> = (Actor<KeySlot<K, S>>, Beside);

impl<K, S> ShardKeys<K, S> {
    fn beside(&self, at: u32) -> Beside {
        match self.beside.get(&at) {
            Some(beside) => beside.clone(),
            None => unreachable!("a mailbox that was made for a hold has it (T3)"),
        }
    }
}

impl<K, S> Entry<K, S> {
    /// True if it is a hold beside which such a request has no room. A mailbox decides for itself.
    fn leaves_no_room(&self, request: HoldRequest) -> bool {
        match self.body {
            EntryBody::Thin { weight, .. } => {
                request.weight > request.capacity.saturating_sub(weight)
            }
            EntryBody::Mailbox { .. } => false,
        }
    }
}

/// True if this thread is inside the `Eq` of a key (KEYS-4).
pub(crate) fn comparing() -> bool {
    COMPARING.get()
}

impl<K: Send + Sync + 'static, S: Send + 'static> Registry<K, S> {
    /// The mailbox in a place; made, if that has a hold without one.
    fn fatten(
        &self,
        keys: &mut ShardKeys<K, S>,
        at: u32,
        kept: impl FnOnce(u64, u64) -> (S, Beside),
    ) -> Actor<KeySlot<K, S>> {
        let entry = keys.table.get(at);
        if let EntryBody::Thin { fence, weight } = entry.body {
            let (state, beside) = kept(fence, weight);
            entry.body = EntryBody::mailbox(self.spawn_with(state));
            // THIN-2.
            entry.runs = 1;
            // THIN-3.
            keys.beside.insert(at, beside);
        }
        keys.table.get(at).actor().clone()
    }

    fn spawn_with(&self, state: S) -> Actor<KeySlot<K, S>> {
        let slot = KeySlot::alone(state);
        match &self.spawner {
            Some(spawner) => spawner.spawn(slot),
            None => Actor::new(slot),
        }
    }

    /// Lets go of a hold. It has got a mailbox meanwhile: here it is, used by the hold, and what
    /// they share.
    pub(crate) fn let_go(&self, place: Place) -> Option<Met<K, S>> {
        let mut keys = self.lock(self.shard_of(place.hash));
        let entry = keys.table.get(place.at);
        if !entry.is_thin() {
            return Some((entry.actor().clone(), keys.beside(place.at)));
        }
        let thin = keys.table.remove(place.at);
        drop(keys);
        // The key is the user's: outside of the lock, and a guard's drop does not panic by it.
        ignore(|| drop(thin));
        None
    }

    /// The mailbox of a hold; made, if it has none. `kept` makes the state that has it, and what
    /// they share.
    pub(crate) fn mailbox(
        &self,
        place: Place,
        kept: impl FnOnce(u64, u64) -> (S, Beside),
    ) -> Met<K, S> {
        let mut keys = self.lock(self.shard_of(place.hash));
        let actor = self.fatten(&mut keys, place.at, kept);
        (actor, keys.beside(place.at))
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, S: Send + 'static> Registry<K, S> {
    /// Holds a key, if it is not used; else counts a use of its mailbox. `kept` makes the state of
    /// a mailbox that has a hold of this fence and weight.
    ///
    /// # Errors
    /// Why it is refused, and its key if that is at hand still.
    pub(crate) fn hold<A>(
        &self,
        key: A,
        request: HoldRequest,
        fence: impl FnOnce() -> u64,
        kept: impl FnOnce(u64, u64) -> (S, Beside),
    ) -> Result<HoldOutcome<K, S>, HoldRefused<K>>
    where
        A: AsKey<K>,
    {
        let sought = self.enter(key, Kind::Run).map_err(|why| (why, None))?;
        let Sought { key, hash, mut keys, at } = sought;
        if let Some(at) = at {
            // Nothing of the user's: what is borrowed is not cloned.
            let key = (!A::BORROWED).then(|| EntryKey::Own(key.own()));
            if request.immediate && keys.table.get(at).leaves_no_room(request) {
                drop(keys);
                return Err((NotStarted::Busy { key: None }, key));
            }
            let actor = self.fatten(&mut keys, at, kept);
            keys.add_use(at, Kind::Run);
            return Ok(HoldOutcome::Fat((Place { hash, at }, actor), key));
        }
        if A::BORROWED {
            // Its clone is the user's: not under the lock.
            drop(keys);
            return self.hold(Own(key.own()), request, fence, kept);
        }
        let key = key.own();
        if !request.thin {
            let actor = self.spawn(None, None);
            let (key, at_hand) = match request.named {
                false => (EntryKey::Own(key), None),
                true => {
                    let key = Arc::new(key);
                    (EntryKey::Shared(key.clone()), Some(EntryKey::Shared(key)))
                }
            };
            let place = insert(&mut keys, hash, key, actor.clone(), Kind::Run);
            return Ok(HoldOutcome::Fat((place, actor), at_hand));
        }
        let (fence, key) = (fence(), EntryKey::Own(key));
        let body = EntryBody::Thin { fence, weight: request.weight };
        let at = keys.table.insert(Entry { hash, key, body, runs: 0, keys: 0 });
        Ok(HoldOutcome::Thin(Place { hash, at }, fence))
    }

    /// The mailbox of a key that is held, or waited for; made, if it has none.
    pub(crate) fn mailbox_of<Q>(
        &self,
        key: &Q,
        kept: impl FnOnce(u64, u64) -> (S, Beside),
    ) -> Option<Actor<KeySlot<K, S>>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let mut keys = self.lock(self.shard_of(hash));
        let at = find(&keys.table, hash, key)?;
        Some(self.fatten(&mut keys, at, kept))
    }
}
