//! What the registry and the locks synchronize with, and how wide a registry is: the one thing that
//! a model replaces.

pub(crate) use parking_lot::{Mutex, MutexGuard};
/// Of what has atomics in it: a model sees who drops them.
pub(crate) use std::sync::Arc as Counted;

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
}

/// How many shards a registry has: a power of two.
pub(crate) fn shards() -> usize {
    let cores = std::thread::available_parallelism().map_or(4, usize::from);
    (4 * cores).next_power_of_two()
}
