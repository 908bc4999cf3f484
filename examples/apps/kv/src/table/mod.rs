//! Tables of cells: one trait, and a file for each way to order the commands on a value.

mod actors;
mod dash;
mod locked;

use hashbrown::{DefaultHashBuilder, HashMap};
use smallvec::SmallVec;

pub use actors::Actors;
pub use dash::Dash;
pub use locked::{Mutexed, Sharded};

use crate::value::Cell;

/// A key. One of usual length needs no allocation, because a registry takes it by value.
pub type Key = SmallVec<[u8; 24]>;

/// A visit to several cells.
pub trait Visit: Send + 'static {
    /// Visits the cell of the `n`th key.
    fn visit(&mut self, n: usize, key: &[u8], cell: &mut Cell);
}

/// Cells by key. A cell without a value when a visit ends is removed.
pub trait Table: Send + Sync + 'static {
    /// Runs `f` on the cell of a key. No other visit to the cell runs meanwhile.
    fn with<R: Send>(&self, key: &[u8], f: impl FnOnce(&mut Cell) -> R + Send) -> R;

    /// Visits the cells of these keys in their order. It depends on the table how much of it is
    /// atomic.
    fn with_all<V: Visit>(&self, keys: Vec<Key>, visit: V) -> V;

    /// Returns the number of keys.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all cells. This may take long.
    fn clear(&self);
}

/// The hasher is that of the actors' registry.
type Cells = HashMap<Key, Cell, DefaultHashBuilder>;

/// Runs `f` on the cell of a key of a plain map.
fn with_cell<R>(cells: &mut Cells, key: &[u8], f: impl FnOnce(&mut Cell) -> R) -> R {
    if let Some(cell) = cells.get_mut(key) {
        let result = f(cell);
        if cell.value.is_none() {
            cells.remove(key);
        }
        return result;
    }
    let mut cell = Cell::default();
    let result = f(&mut cell);
    if cell.value.is_some() {
        cells.insert(Key::from_slice(key), cell);
    }
    result
}
