//! A concurrent map: `DashMap`.

use dashmap::{DashMap, Entry};
use hashbrown::DefaultHashBuilder;

use super::{Key, Table, Visit};
use crate::value::Cell;

/// A table in a `DashMap`. A cell is visited under the lock of its shard. Several cells are visited
/// one after the other: the map cannot hold two.
#[derive(Default)]
pub struct Dash(DashMap<Key, Cell, DefaultHashBuilder>);

impl Table for Dash {
    fn with<R: Send>(&self, key: &[u8], f: impl FnOnce(&mut Cell) -> R + Send) -> R {
        match self.0.entry(Key::from_slice(key)) {
            Entry::Occupied(mut entry) => {
                let result = f(entry.get_mut());
                if entry.get().value.is_none() {
                    entry.remove();
                }
                result
            }
            Entry::Vacant(entry) => {
                let mut cell = Cell::default();
                let result = f(&mut cell);
                if cell.value.is_some() {
                    entry.insert(cell);
                }
                result
            }
        }
    }

    fn with_all<V: Visit>(&self, keys: Vec<Key>, mut visit: V) -> V {
        for (n, key) in keys.iter().enumerate() {
            self.with(key, |cell| visit.visit(n, key, cell));
        }
        visit
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn clear(&self) {
        self.0.clear();
    }
}
