//! Each key is an actor: its mailbox comes from a registry of keys.
//!
//! A key exists while it is used. Between two commands, its own state keeps it: with a value, the
//! state holds a pin of its key. The turn that removes the value drops the pin, and the actor is
//! gone when that turn ends. No sweep and no timer is needed.
//!
//! That is a cycle from the registry to the state to the registry. [`clear`](Actors::clear) and the
//! end of the table break it by closing the registry: its mailboxes end, and drop their states.
//!
//! - A1: `FLUSHALL` replaces the registry by a new one, and answers when all turns of the old one
//!   are over. Turns in the old one began before the exchange, so they come before the flush; all
//!   turns in the new one come after it. A command that finds its registry closed reads the new
//!   one.
//! - A2: after each turn, a state has a value if and only if it is [`Living`]; but a registry that
//!   is being closed gives no more pins, and then the value is dropped at the end of the turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use turnwise::Limit;
use turnwise_locks::{Keyed, Limits, NotStarted, RunError};

use super::{Key, Table, Visit};
use crate::value::Cell;

/// The maximum number of keys that are entered at once. Each is entered inside the turn of another,
/// and so takes a piece of the thread's stack.
const AT_ONCE: usize = 64;

/// The keys until the next `FLUSHALL`.
struct Registry {
    keyed: Keyed<Key, Slot>,
    /// The number of keys with a value. The registry also counts keys without one, which are in
    /// use.
    len: Arc<AtomicUsize>,
}

impl Registry {
    fn new() -> Arc<Self> {
        let keyed = Keyed::with_state(|_: &Key| Slot::default());
        Arc::new(Registry { keyed, len: Arc::default() })
    }
}

/// The state of a key.
#[derive(Default)]
struct Slot {
    cell: Cell,
    living: Option<Living>,
}

/// The part of a state that keeps its key, and counts it.
struct Living {
    _pin: turnwise_locks::Key<Key, Slot>,
    len: Arc<AtomicUsize>,
}

impl Drop for Living {
    fn drop(&mut self) {
        // Ordering: a counter; no other memory is read through it.
        self.len.fetch_sub(1, Relaxed);
    }
}

/// The keys.
pub struct Actors(ArcSwap<Registry>);

impl Default for Actors {
    fn default() -> Self {
        Actors(ArcSwap::new(Registry::new()))
    }
}

impl Slot {
    /// Ends a turn: A2.
    fn settle(&mut self, registry: &Registry, key: &[u8]) {
        match (&self.cell.value, &self.living) {
            (Some(_), None) => {
                if let Ok(pin) = registry.keyed.key(Key::from_slice(key)) {
                    // Ordering: a counter; no other memory is read through it.
                    registry.len.fetch_add(1, Relaxed);
                    self.living = Some(Living { _pin: pin, len: registry.len.clone() });
                }
            }
            (None, Some(_)) => self.living = None,
            _ => {}
        }
    }
}

impl Actors {
    /// Runs `f` on the registry, until it finds one that is not closed.
    fn on_registry<R>(&self, mut f: impl FnMut(&Arc<Registry>) -> Result<R, RunError<R>>) -> R {
        loop {
            match f(&self.0.load()) {
                Ok(result) => return result,
                // A1: there is a new one.
                Err(RunError::NotStarted(NotStarted::Closed) | RunError::Gone(_)) => {}
                Err(error) => panic!("a run without limits: {error}"),
            }
        }
    }

    fn with_some<V: Visit>(&self, keys: &[Key], first: usize, visit: V) -> V {
        // The visitor is kept here for a turn, or for the next registry.
        let visitor = Arc::new(Mutex::new(Some(visit)));
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let ranks: Vec<_> = keys.iter().filter_map(|key| sorted.binary_search(key).ok()).collect();
        let ranks = Arc::new((ranks, sorted));
        self.on_registry(|registry| {
            let (visitor, ranks, same) = (visitor.clone(), ranks.clone(), registry.clone());
            let sorted = ranks.1.clone();
            registry.keyed.run_all(sorted, Limits::NONE, move |slots| {
                let (ranks, sorted) = &*ranks;
                if let Some(visit) = &mut *visitor.lock() {
                    for (n, &rank) in ranks.iter().enumerate() {
                        visit.visit(first + n, &sorted[rank], &mut slots[rank].cell);
                    }
                }
                for (slot, key) in slots.iter_mut().zip(sorted) {
                    slot.settle(&same, key);
                }
            })
        });
        let visit = visitor.lock().take();
        visit.unwrap_or_else(|| unreachable!("only this call takes it"))
    }
}

impl Table for Actors {
    fn with<R: Send>(&self, key: &[u8], f: impl FnOnce(&mut Cell) -> R + Send) -> R {
        let mut f = Some(f);
        self.on_registry(|registry| {
            let f = &mut f;
            Ok(registry.keyed.run(Key::from_slice(key), |slot| {
                let Some(f) = f.take() else { unreachable!("a turn comes once") };
                let result = f(&mut slot.cell);
                slot.settle(registry, key);
                result
            })?)
        })
    }

    fn with_all<V: Visit>(&self, keys: Vec<Key>, mut visit: V) -> V {
        for (n, keys) in keys.chunks(AT_ONCE).enumerate() {
            visit = self.with_some(keys, n * AT_ONCE, visit);
        }
        visit
    }

    fn len(&self) -> usize {
        // Ordering: a counter; no other memory is read through it.
        self.0.load().len.load(Relaxed)
    }

    fn clear(&self) {
        // A1.
        self.0.swap(Registry::new()).keyed.shutdown(Limit::Unlimited);
    }
}

impl Drop for Actors {
    fn drop(&mut self) {
        self.0.load().keyed.shutdown(Limit::Unlimited);
    }
}
