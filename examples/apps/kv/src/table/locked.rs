//! Maps with locks around them: one, or one for each shard.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use parking_lot::{Mutex, MutexGuard};

use super::{Cells, Key, Table, Visit, with_cell};
use crate::value::Cell;

/// One mutex around one map.
#[derive(Default)]
pub struct Mutexed(Mutex<Cells>);

impl Table for Mutexed {
    fn with<R: Send>(&self, key: &[u8], f: impl FnOnce(&mut Cell) -> R + Send) -> R {
        with_cell(&mut self.0.lock(), key, f)
    }

    fn with_all<V: Visit>(&self, keys: Vec<Key>, mut visit: V) -> V {
        let mut cells = self.0.lock();
        for (n, key) in keys.iter().enumerate() {
            with_cell(&mut cells, key, |cell| visit.visit(n, key, cell));
        }
        visit
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn clear(&self) {
        let cells = std::mem::take(&mut *self.0.lock());
        // Outside the lock.
        drop(cells);
    }
}

// Two shards never share a cache line, nor the line that is prefetched with it.
#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<Cells>);

/// A mutex around each of many maps: as many as the actors' registry has.
pub struct Sharded {
    shards: Box<[Shard]>,
    hasher: DefaultHashBuilder,
}

impl Default for Sharded {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(4, usize::from);
        let shards = (0..(4 * cores).next_power_of_two()).map(|_| Shard::default()).collect();
        Sharded { shards, hasher: DefaultHashBuilder::default() }
    }
}

impl Sharded {
    fn shard_of(&self, key: &[u8]) -> usize {
        (self.hasher.hash_one(key) >> 32) as usize & (self.shards.len() - 1)
    }

    /// Locks all shards, always in one order, so that there is no deadlock.
    fn lock_all(&self) -> Vec<MutexGuard<'_, Cells>> {
        self.shards.iter().map(|shard| shard.0.lock()).collect()
    }
}

impl Table for Sharded {
    fn with<R: Send>(&self, key: &[u8], f: impl FnOnce(&mut Cell) -> R + Send) -> R {
        with_cell(&mut self.shards[self.shard_of(key)].0.lock(), key, f)
    }

    fn with_all<V: Visit>(&self, keys: Vec<Key>, mut visit: V) -> V {
        let shards: Vec<_> = keys.iter().map(|key| self.shard_of(key)).collect();
        let mut locked: Vec<_> = self.shards.iter().map(|_| None).collect();
        let mut order = shards.clone();
        order.sort_unstable();
        order.dedup();
        for shard in order {
            locked[shard] = Some(self.shards[shard].0.lock());
        }
        for (n, (key, shard)) in keys.iter().zip(shards).enumerate() {
            if let Some(cells) = &mut locked[shard] {
                with_cell(cells, key, |cell| visit.visit(n, key, cell));
            }
        }
        visit
    }

    fn len(&self) -> usize {
        self.lock_all().iter().map(|cells| cells.len()).sum()
    }

    fn clear(&self) {
        let all: Vec<_> =
            self.lock_all().iter_mut().map(|cells| std::mem::take(&mut **cells)).collect();
        // Outside the locks.
        drop(all);
    }
}
