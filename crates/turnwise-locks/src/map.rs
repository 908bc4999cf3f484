//! A map in shards whose only user code under a lock is the `Eq` of its keys.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::registry::{AsKey, Comparing, comparing};
use crate::sync::{Mutex, MutexGuard, shards};

/// Tables behind a lock each: the hash of a key says which is the key's.
pub(crate) struct Shards<T>(Box<[MapShard<T>]>);

// Two shards never share a line of the processor's cache, nor the line that is fetched with it.
#[repr(align(128))]
struct MapShard<T>(Mutex<T>);

/// Keys and their values. A key is looked up in its shard, which is locked meanwhile.
pub(crate) struct Map<K, V> {
    shards: Shards<Entries<K, V>>,
    hasher: DefaultHashBuilder,
}

/// The entries of a shard.
pub(crate) struct Entries<K, V> {
    table: HashTable<MapEntry<K, V>>,
    /// At this number it is looked through for those that are over.
    sweep_at: usize,
}

pub(crate) struct MapEntry<K, V> {
    hash: u64,
    key: K,
    pub(crate) value: V,
}

/// Fewer entries than these are not worth a look.
const SWEEP_FROM: usize = 64;

impl<T> Shards<T> {
    pub(crate) fn new(table: impl Fn() -> T) -> Self {
        Shards((0..shards()).map(|_| MapShard(Mutex::new(table()))).collect())
    }

    /// The table of the keys with this hash, locked.
    pub(crate) fn lock(&self, hash: u64) -> MutexGuard<'_, T> {
        // Those of the table are the lowest bits.
        self.0[(hash >> 32) as usize & (self.0.len() - 1)].lock()
    }

    /// The sum over all tables.
    pub(crate) fn sum(&self, of: impl Fn(&T) -> usize) -> usize {
        self.0.iter().map(|shard| of(&shard.lock())).sum()
    }
}

impl<K, V> Map<K, V> {
    pub(crate) fn new() -> Self {
        let entries = || Entries { table: HashTable::new(), sweep_at: SWEEP_FROM };
        Map { shards: Shards::new(entries), hasher: DefaultHashBuilder::default() }
    }

    /// The hash of a key. User code.
    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The hash of the key of a call. User code.
    pub(crate) fn hash_of(&self, key: &impl AsKey<K>) -> u64 {
        key.hash_by(&self.hasher)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.sum(|entries| entries.table.len())
    }

    /// Uses the entries of the shard of this hash.
    pub(crate) fn shard<R>(&self, hash: u64, f: impl FnOnce(&mut Entries<K, V>) -> R) -> R {
        let mut entries = self.shards.lock(hash);
        let _comparing = Comparing::new();
        f(&mut entries)
    }
}

impl<T> MapShard<T> {
    /// # Panics
    /// Inside the `Eq` of a key: the lock may be this thread's.
    fn lock(&self) -> MutexGuard<'_, T> {
        assert!(!comparing(), "the Eq of a key must not use a map of keys");
        self.0.lock()
    }
}

impl<K, V> Entries<K, V> {
    /// The value of a key. User code: the key's `Eq`, here and in the next.
    pub(crate) fn find<Q>(&mut self, hash: u64, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.find_by(hash, |other| other.borrow() == key)
    }

    /// The value of the key of which `is` is true.
    pub(crate) fn find_by(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> Option<&mut V> {
        let entry = self.table.find_mut(hash, |entry| is(&entry.key))?;
        Some(&mut entry.value)
    }

    /// Puts a key in that is not there.
    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V) {
        self.table.insert_unique(hash, MapEntry { hash, key, value }, |entry| entry.hash);
    }

    /// Takes out what is over, if the number of entries has doubled since the last time: for the
    /// caller to drop outside of the lock.
    pub(crate) fn sweep(&mut self, is_over: impl Fn(&V) -> bool) -> Vec<MapEntry<K, V>> {
        if self.table.len() < self.sweep_at {
            return Vec::new();
        }
        let over = self.table.extract_if(|entry| is_over(&entry.value)).collect();
        self.sweep_at = SWEEP_FROM.max(2 * self.table.len());
        over
    }
}
