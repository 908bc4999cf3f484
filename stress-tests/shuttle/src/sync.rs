//! Shuttle's flavour of the product's `sync`: the same names, every operation a point at which
//! another thread may go on.
//!
//! Atomics are sequentially consistent, whatever ordering a place asks for: wrong orderings are
//! seen by loom's models and their gate, wrong shapes here. Cells notice two who are inside at
//! once, and know no happens-before.
//!
//! Locals and memory are kept by schedule, as in loom's flavour: [`settle`] renews them, and checks
//! that all memory was given back. There is no time: a limit that has not passed never does.

use std::sync::{LockResult, PoisonError};

pub(crate) use exclusive::Exclusive;
pub(crate) use local_queue::LocalQueue;
pub(crate) use shared::{
    CachePadded, Condvar, Instant, Mutex, global, hint, panic, plant, planted, queue, thread_owned,
    thread_plain,
};
pub(crate) use shuttle as backend;

pub(crate) mod alloc;
#[path = "../../../src/sync/exclusive.rs"]
mod exclusive;
#[path = "../../../src/sync/local_queue.rs"]
mod local_queue;
#[path = "../../../loom-tests/src/sync/shared/mod.rs"]
pub(crate) mod shared;
pub(crate) mod thread;

/// Sizes small enough that growth is reached by a few messages.
pub(crate) mod config {
    pub(crate) const SLOT: usize = 512;
    pub(crate) const HOME: usize = 1024;
    pub(crate) const CHUNK_SLOTS: usize = 4;
    pub(crate) const COUNT_MAX: u64 = 63;
    pub(crate) const WAKER_BITS: u32 = 28;
    pub(crate) const KEPT_BATCHES: u32 = 16;
    pub(crate) const CACHED_CHUNKS: usize = 1;
    pub(crate) const DEPOT_CHUNKS: usize = 1;
}

pub(crate) mod atomic {
    pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    pub(crate) fn fence_behind<A>(_: &A, ordering: Ordering) {
        fence(ordering);
    }
}

pub(crate) mod cell {
    use std::cell::Cell;

    /// A cell that notices two who are inside at once, one of them to write.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T> {
        value: std::cell::UnsafeCell<T>,
        /// The number of readers; -1: one writes.
        inside: Cell<isize>,
    }

    /// Goes, also by a panic.
    struct Inside<'a>(&'a Cell<isize>, isize);

    impl Drop for Inside<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - self.1);
        }
    }

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self { value: std::cell::UnsafeCell::new(value), inside: Cell::new(0) }
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            assert!(self.inside.get() >= 0, "somebody writes what is read");
            self.inside.set(self.inside.get() + 1);
            let _inside = Inside(&self.inside, 1);
            f(self.value.get())
        }

        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            assert!(self.inside.get() == 0, "two are inside, and one writes");
            self.inside.set(-1);
            let _inside = Inside(&self.inside, -1);
            f(self.value.get())
        }
    }
}

/// Others go on meanwhile, in any case.
#[derive(Debug)]
pub(crate) struct Backoff;

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff
    }

    pub(crate) fn snooze(&self) {
        shuttle::thread::yield_now();
    }
}

pub(crate) fn count_wait() {}

/// A schedule that failed has poisoned its locks; what is dropped then takes them.
pub(crate) fn unpoisoned<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// A model's run in one schedule.
pub(crate) fn schedule(model: fn()) {
    settle();
    model();
    shared::locals::drop_owned();
}

/// After a schedule, and its statics: all memory was given back.
pub(crate) fn settle() {
    shared::locals::renew();
    alloc::settle();
}
