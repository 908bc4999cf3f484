//! Each key is an actor: a mailbox of its own, out of a registry of keys.
//!
//! A key lives while it is used. What keeps one alive between two commands is its own state: with a
//! value, it holds a pin of the key that it belongs to. The turn that takes the value away drops the
//! pin, and with its end the actor is gone: no sweep, no timer.
//!
//! That is a circle, registry to state to registry. [`clear`](Actors::clear) and the end of the
//! table break it by closing the registry: its mailboxes end, and drop their states.
//!
//! - A1: `FLUSHALL` puts a new registry in the place of the old one, and answers when all turns of
//!   that are over. What runs in the old one meanwhile began before the exchange: so it comes before
//!   the flush, and all that runs in the new one after it. Whoever finds his registry closed finds
//!   another one at the next look.
//! - A2: a state has a value if and only if it is [`Living`], after each turn; but a registry that
//!   is being closed gives no more pins, and then the value goes with the turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use turnwise::Limit;
use turnwise_locks::{Keyed, Limits, NotStarted, RunError};

use super::{Key, Table, Visit};
use crate::value::Cell;

/// So many keys at most are entered at once. One is entered inside the turn of another, so each
/// takes a piece of the thread's stack.
const AT_ONCE: usize = 64;

/// The keys that there are until the next `FLUSHALL`.
struct Registry {
    keyed: Keyed<Key, Slot>,
    /// How many have a value. Those that the registry counts may have none: they are looked at.
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

/// What makes a key stay, and count.
struct Living {
    _pin: turnwise_locks::Key<Key, Slot>,
    len: Arc<AtomicUsize>,
}

impl Drop for Living {
    fn drop(&mut self) {
        // Ordering: a number, and nothing is read through it.
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
    /// The end of each turn: A2.
    fn settle(&mut self, registry: &Registry, key: &[u8]) {
        match (&self.cell.value, &self.living) {
            (Some(_), None) => {
                if let Ok(pin) = registry.keyed.key(Key::from_slice(key)) {
                    // Ordering: a number, and nothing is read through it.
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
                // A1: there is another one.
                Err(RunError::NotStarted(NotStarted::Closed) | RunError::Gone(_)) => {}
                Err(error) => panic!("a run without limits: {error}"),
            }
        }
    }

    fn with_some<V: Visit>(&self, keys: &[Key], first: usize, visit: V) -> V {
        // The visitor waits here for a turn, or for another registry.
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
        visit.unwrap_or_else(|| unreachable!("nobody else takes it"))
    }
}

impl Table for Actors {
    fn with<R: Send>(&self, key: &[u8], f: impl FnOnce(&mut Cell) -> R + Send) -> R {
        let mut f = Some(f);
        self.on_registry(|registry| {
            let f = &mut f;
            registry.keyed.run(Key::from_slice(key), |slot| {
                let Some(f) = f.take() else { unreachable!("a turn comes once") };
                let result = f(&mut slot.cell);
                slot.settle(registry, key);
                result
            })
        })
    }

    fn with_all<V: Visit>(&self, keys: Vec<Key>, mut visit: V) -> V {
        for (n, keys) in keys.chunks(AT_ONCE).enumerate() {
            visit = self.with_some(keys, n * AT_ONCE, visit);
        }
        visit
    }

    fn len(&self) -> usize {
        // Ordering: a number, and nothing is read through it.
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
