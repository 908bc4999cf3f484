//! Synchronization of the registry and the locks, and the width of a registry: the one thing that
//! a model replaces.

pub(crate) use parking_lot::{Mutex, MutexGuard};
/// Of what has atomics in it: a model sees who drops them.
pub(crate) use std::sync::Arc as Counted;

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

pub(crate) mod hint {
    /// Looks whether something is done that another thread is about to do: some microseconds by
    /// spinning, then some by giving the processor away, for with more threads than processors the
    /// other one may be waiting for this one's. False if it was not done.
    pub(crate) fn done_soon(mut done: impl FnMut() -> bool) -> bool {
        const SPINS: u32 = 7;
        const YIELDS: u32 = 4;
        for round in 0..SPINS + YIELDS {
            if done() {
                return true;
            }
            if round < SPINS {
                (0..1 << round).for_each(|_| std::hint::spin_loop());
            } else {
                std::thread::yield_now();
            }
        }
        done()
    }
}

/// The number of shards of a registry: a power of two.
pub(crate) fn shards() -> usize {
    let cores = std::thread::available_parallelism().map_or(4, usize::from);
    (4 * cores).next_power_of_two()
}
