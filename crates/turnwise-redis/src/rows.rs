//! The rows of an object, as its state machine sees them.
//!
//! A lock is one row. Admissions and the mailboxes of a shard have many, so that a step reads and
//! writes the few that it is about. The keys of rows are ordered byte by byte; numbers in them have
//! sixteen hexadecimal digits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The number of positions that one row may have.
const CHUNK: u64 = 8;

/// Rows by their keys.
///
/// A store that fails in the middle of a step gives no rows from then on, and writes none of the
/// step's. So machines take any row for absent.
pub(crate) trait Rows<V> {
    fn get(&mut self, key: &str) -> Option<V>;

    fn put(&mut self, key: String, value: V);

    fn remove(&mut self, key: &str);

    /// Returns the first rows whose keys begin with this prefix, in order.
    fn first(&mut self, prefix: &str, most: usize) -> Vec<(String, V)>;
}

/// Rows whose copies are cheap, as searches need them.
impl<V: Clone> Rows<V> for BTreeMap<Arc<str>, Arc<V>> {
    fn get(&mut self, key: &str) -> Option<V> {
        BTreeMap::get(self, key).map(|value| V::clone(value))
    }

    fn put(&mut self, key: String, value: V) {
        self.insert(key.into(), Arc::new(value));
    }

    fn remove(&mut self, key: &str) {
        BTreeMap::remove(self, key);
    }

    fn first(&mut self, prefix: &str, most: usize) -> Vec<(String, V)> {
        let rows = self.range::<str, _>((Bound::Included(prefix), Bound::Unbounded)).take(most);
        let rows = rows.take_while(|(key, _)| key.starts_with(prefix));
        rows.map(|(key, value)| (key.to_string(), V::clone(value))).collect()
    }
}

/// The positions of a queue whose entries are rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Positions {
    first: u64,
    next: u64,
    /// Positions between the two whose entries were removed.
    holes: BTreeSet<u64>,
}

impl Positions {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.next
    }

    pub(crate) fn len(&self) -> u64 {
        self.next - self.first - self.holes.len() as u64
    }

    /// Returns the number of entries before this position.
    pub(crate) fn ahead(&self, position: u64) -> u64 {
        let before = position.saturating_sub(self.first);
        before - (self.holes.range(..position).count() as u64).min(before)
    }

    /// Returns the positions of all entries, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        (self.first..self.next).filter(|position| !self.holes.contains(position))
    }

    /// Adds an entry at the end, and returns its position.
    pub(crate) fn push(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Removes the first entry, and returns its position.
    pub(crate) fn pop(&mut self) -> Option<u64> {
        let first = self.iter().next()?;
        self.remove(first);
        Some(first)
    }

    /// Returns the chunk of a position, and its index there.
    pub(crate) fn chunk(position: u64) -> (u64, usize) {
        (position / CHUNK, (position % CHUNK) as usize)
    }

    /// Returns the chunks that have entries.
    pub(crate) fn chunks(&self) -> Range<u64> {
        if self.is_empty() { 0..0 } else { self.first / CHUNK..(self.next - 1) / CHUNK + 1 }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, position: u64) {
        debug_assert!((self.first..self.next).contains(&position), "{position} in {self:?}");
        self.holes.insert(position);
        while self.holes.remove(&self.first) {
            self.first += 1;
        }
        if self.is_empty() {
            // States are equal if their queues are.
            *self = Positions::default();
        }
    }
}
