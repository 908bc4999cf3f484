//! Holds of locks that nobody else has asked for.
//!
//! Such a hold is an entry in its shard and nothing more: no mailbox, nothing allocated. The second
//! one who asks, or wants to know, gives the key a mailbox whose state has the hold in it; under the
//! lock of the shard, so it is in one place or in the other.
//!
//! - T1: a key has a thin hold or a mailbox, never both.
//! - T2: a mailbox that was made for a thin hold is pinned for it; its place stays the same. So the
//!   holder finds out when it lets go.

use std::hash::Hash;

use hashbrown::HashTable;
use turnwise::Actor;

use super::{COMPARING, Comparing, Entry, Found, Held, Keys, Kind, Place, Registry, Slot, insert};
use crate::keyed::NotStarted;

/// A hold without a mailbox.
pub(super) struct Thin<K> {
    hash: u64,
    number: u64,
    key: K,
    fence: u64,
    weight: u64,
}

/// What comes of a request that looks for the key of a lock.
pub(crate) enum Entered<K, S> {
    /// It holds: here is where, and its fence.
    Thin(Place, u64),
    /// It asks in the key's mailbox.
    Fat(Found<K, S>),
}

/// What a request says to the registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// So much of the lock it wants.
    pub(crate) weight: u64,
    /// It can do without a mailbox.
    pub(crate) thin: bool,
    /// It does not wait.
    pub(crate) immediate: bool,
}

/// Is this thread inside the `Eq` of a key (P4)?
pub(crate) fn comparing() -> bool {
    COMPARING.get()
}

fn find<'a, K: Eq>(table: &'a HashTable<Thin<K>>, hash: u64, key: &K) -> Option<&'a Thin<K>> {
    let _comparing = Comparing::new();
    table.find(hash, |thin| thin.hash == hash && thin.key == *key)
}

impl<K: Send + Sync + 'static, S: Send + 'static> Registry<K, S> {
    /// The mailbox of a hold that has none yet.
    fn fatten(
        &self,
        keys: &mut Keys<K, S>,
        (hash, number): (u64, u64),
        kept: impl FnOnce(u64, u64) -> S,
    ) -> Option<Found<K, S>> {
        let found = keys.thin.find_entry(hash, |thin| thin.number == number);
        let (Thin { key, fence, weight, .. }, _) = found.ok()?.remove();
        let actor = self.spawn_with(kept(fence, weight));
        let held = Held::Own(key);
        // T2.
        let entry = Entry { hash, number, key: held, actor: actor.clone(), runs: 1, keys: 0 };
        keys.table.insert_unique(hash, entry, |entry| entry.hash);
        Some((Place { hash, number }, actor))
    }

    fn spawn_with(&self, state: S) -> Actor<Slot<K, S>> {
        let slot = Slot::alone(state);
        match &self.template {
            Some(template) => template.spawn(slot),
            None => Actor::new(slot),
        }
    }

    /// Lets go of a hold. It has got a mailbox meanwhile: here it is, pinned for the hold.
    pub(crate) fn let_go(&self, place: Place) -> Option<Actor<Slot<K, S>>> {
        let mut keys = self.lock(self.shard_of(place.hash));
        let thin = keys.thin.find_entry(place.hash, |thin| thin.number == place.number);
        if let Ok(thin) = thin {
            let (thin, _) = thin.remove();
            let (len, capacity) = (keys.thin.len(), keys.thin.capacity());
            if capacity > 256 && len < capacity / 8 {
                keys.thin.shrink_to(len * 2, |thin| thin.hash);
            }
            drop(keys);
            // The key is the user's: outside of the lock.
            drop(thin);
            return None;
        }
        let entry = keys.table.find(place.hash, |entry| entry.number == place.number);
        entry.map(|entry| entry.actor.clone())
    }

    /// The mailbox of a hold; made, if it has none. `kept` makes the state that has it.
    pub(crate) fn mailbox(
        &self,
        place: Place,
        kept: impl FnOnce(u64, u64) -> S,
    ) -> Option<Actor<Slot<K, S>>> {
        let mut keys = self.lock(self.shard_of(place.hash));
        if let Some((_, actor)) = self.fatten(&mut keys, (place.hash, place.number), kept) {
            return Some(actor);
        }
        let entry = keys.table.find(place.hash, |entry| entry.number == place.number);
        entry.map(|entry| entry.actor.clone())
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, S: Send + 'static> Registry<K, S> {
    /// Holds a key, if nobody else does; else pins its mailbox. `kept` makes the state of a mailbox
    /// that has a hold of this fence and weight.
    // `key` is dropped after the lock is released: arguments outlive what is made here.
    pub(crate) fn hold(
        &self,
        key: K,
        wish: Wish,
        fence: impl FnOnce() -> u64,
        kept: impl FnOnce(u64, u64) -> S,
    ) -> Result<Entered<K, S>, NotStarted> {
        let hash = self.hash(&key);
        let mut keys = self.lock(self.shard_of(hash));
        if keys.closed {
            return Err(NotStarted::Closed);
        }
        if let Some(entry) = super::find(&mut keys.table, hash, &key) {
            entry.runs += 1;
            let place = Place { hash, number: entry.number };
            return Ok(Entered::Fat((place, entry.actor.clone())));
        }
        if let Some(thin) = find(&keys.thin, hash, &key) {
            if wish.immediate {
                return Err(NotStarted::Busy);
            }
            let number = thin.number;
            let Some(found) = self.fatten(&mut keys, (hash, number), kept) else {
                unreachable!("it was found")
            };
            if let Some(entry) = keys.table.find_mut(hash, |entry| entry.number == number) {
                entry.runs += 1;
            }
            return Ok(Entered::Fat(found));
        }
        if !wish.thin {
            let actor = self.spawn(None);
            let place = insert(&mut keys, hash, Held::Own(key), actor.clone(), Kind::Run);
            return Ok(Entered::Fat((place, actor)));
        }
        keys.next += 1;
        let (number, fence) = (keys.next, fence());
        let thin = Thin { hash, number, key, fence, weight: wish.weight };
        keys.thin.insert_unique(hash, thin, |thin| thin.hash);
        Ok(Entered::Thin(Place { hash, number }, fence))
    }

    /// The mailbox of a key that is held, or waited for; made, if it has none.
    pub(crate) fn mailbox_of(
        &self,
        key: &K,
        kept: impl FnOnce(u64, u64) -> S,
    ) -> Option<Actor<Slot<K, S>>> {
        let hash = self.hash(key);
        let mut keys = self.lock(self.shard_of(hash));
        if let Some(entry) = super::find(&mut keys.table, hash, key) {
            return Some(entry.actor.clone());
        }
        let number = find(&keys.thin, hash, key)?.number;
        self.fatten(&mut keys, (hash, number), kept).map(|(_, actor)| actor)
    }
}
