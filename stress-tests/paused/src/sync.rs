//! The std flavour of `crate::sync` with a step around every operation: see [`crate::pause`].
//!
//! Sizes are small, so that growth, saturation and sleep are reached at once.

#[path = "../../../src/sync/cell.rs"]
pub(crate) mod cell;
#[path = "../../../src/sync/exclusive.rs"]
mod exclusive;
#[path = "../../../src/sync/local_queue.rs"]
mod local_queue;
#[path = "../../../src/sync/locals.rs"]
pub(crate) mod locals;
#[path = "../../../src/sync/memory.rs"]
mod memory;
#[path = "../../../src/sync/panic.rs"]
pub(crate) mod panic;

pub(crate) use exclusive::Exclusive;
pub(crate) use local_queue::LocalQueue;
pub(crate) use locals::{global, thread_owned, thread_plain};

/// Sizes that the tests shrink.
pub(crate) mod config {
    /// Bytes of one slot of a chunk.
    pub(crate) const SLOT: usize = 32;
    /// Slots of one chunk, its header's included.
    pub(crate) const CHUNK_SLOTS: usize = 8;
    /// The largest state that its owner takes into its own frame.
    pub(crate) const HOME: usize = 64;
    /// The saturated COUNT of the word.
    pub(crate) const COUNT_MAX: u64 = 63;
    pub(crate) const WAKER_BITS: u32 = 28;
    pub(crate) const KEPT_BATCHES: u32 = 16;
    /// Empty chunks that one thread keeps.
    pub(crate) const CACHED_CHUNKS: usize = 2;
    /// Empty chunks that the depot keeps.
    pub(crate) const DEPOT_CHUNKS: usize = 4;
}

pub(crate) mod atomic {
    use std::sync::atomic as std;

    pub(crate) use self::std::Ordering;
    use crate::pause::{after, before, ordering};

    /// ThreadSanitizer does not model fences. To load the counter has the same effect for it. The
    /// standard library's `Arc` does this, too, when it is built for ThreadSanitizer.
    #[track_caller]
    pub(crate) fn fence_behind(counter: &impl Counter, order: Ordering) {
        fence(order);
        if ordering(order) == order {
            counter.load_by(order);
        }
    }

    #[track_caller]
    pub(crate) fn fence(order: Ordering) {
        before("fence");
        if ordering(order) == order {
            std::fence(order);
        }
        after();
    }

    /// A counter that a fence stands behind.
    pub(crate) trait Counter {
        /// Loads it, without a pause.
        fn load_by(&self, order: Ordering);
    }

    macro_rules! steps {
        ($($name:ident($($arg:ident: $type:ty),*; $($order:ident),*) -> $out:ty;)*) => {$(
            #[track_caller]
            pub(crate) fn $name(&self, $($arg: $type,)* $($order: Ordering),*) -> $out {
                before(stringify!($name));
                let result = self.0.$name($($arg,)* $(ordering($order)),*);
                after();
                result
            }
        )*};
    }

    macro_rules! number {
        ($name:ident, $value:ty) => {
            #[derive(Default)]
            pub(crate) struct $name(std::$name);

            #[allow(dead_code, reason = "not every operation is used on every type")]
            impl $name {
                pub(crate) const fn new(value: $value) -> Self {
                    Self(std::$name::new(value))
                }

                steps! {
                    load(; order) -> $value;
                    store(value: $value; order) -> ();
                    swap(value: $value; order) -> $value;
                    fetch_add(value: $value; order) -> $value;
                    fetch_sub(value: $value; order) -> $value;
                    fetch_or(value: $value; order) -> $value;
                    fetch_and(value: $value; order) -> $value;
                    fetch_xor(value: $value; order) -> $value;
                    compare_exchange(current: $value, new: $value; success, failure) -> Result<$value, $value>;
                }

                /// In steps of its own, as `std` does it.
                #[track_caller]
                pub(crate) fn fetch_update(
                    &self,
                    set: Ordering,
                    fetch: Ordering,
                    f: impl Fn($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    let mut now = self.load(fetch);
                    while let Some(next) = f(now) {
                        match self.compare_exchange(now, next, set, fetch) {
                            Ok(_) => return Ok(now),
                            Err(seen) => now = seen,
                        }
                    }
                    Err(now)
                }
            }

            impl Counter for $name {
                fn load_by(&self, order: Ordering) {
                    self.0.load(order);
                }
            }
        };
    }
    number!(AtomicU32, u32);
    number!(AtomicU64, u64);

    pub(crate) struct AtomicPtr<T>(std::AtomicPtr<T>);

    impl<T> AtomicPtr<T> {
        pub(crate) const fn new(value: *mut T) -> Self {
            Self(std::AtomicPtr::new(value))
        }

        steps! {
            load(; order) -> *mut T;
            swap(value: *mut T; order) -> *mut T;
            compare_exchange(current: *mut T, new: *mut T; success, failure) -> Result<*mut T, *mut T>;
        }
    }
}

pub(crate) mod thread {
    pub(crate) use std::thread::Builder;
    use std::time::Duration;

    use crate::pause::{after, asleep, before, by_chance};

    /// A handle by which others can unpark this thread.
    #[derive(Clone, Debug)]
    pub(crate) struct Thread(std::thread::Thread);

    impl Thread {
        #[track_caller]
        pub(crate) fn unpark(&self) {
            before("unpark");
            self.0.unpark();
            after();
        }
    }

    pub(crate) fn current() -> Thread {
        Thread(std::thread::current())
    }

    pub(crate) fn yield_now() {
        std::thread::yield_now();
    }

    /// Returns without cause now and then.
    #[track_caller]
    pub(crate) fn park() {
        before("park");
        if !by_chance(4) {
            asleep(std::thread::park);
        }
    }

    /// Returns without cause now and then.
    #[track_caller]
    pub(crate) fn park_timeout(limit: Duration) {
        before("park_timeout");
        if !by_chance(4) {
            asleep(|| std::thread::park_timeout(limit));
        }
    }
}

pub(crate) mod hint {
    /// Checks twice.
    pub(crate) fn done_soon(mut done: impl FnMut() -> bool) -> bool {
        done() || done()
    }

    /// Checks twice.
    pub(crate) fn soon(mut come: impl FnMut() -> bool) -> bool {
        come() || come()
    }

    pub(crate) fn stand_back() {}

    pub(crate) fn prefetch(_: *const u8) {}

    pub(crate) fn prefetch_write(_: *const u8) {}
}

pub(crate) mod alloc {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use crate::pause::{born, dead};

    pub(crate) use super::memory::{alloc, dealloc};

    const ALIVE: u32 = 0x600d_11fe;
    const DEAD: u32 = 0xdead_11fe;

    /// A mark in a piece of memory, which detects its use after the end, a second end and a leak.
    /// It decides nothing and orders nothing (Relaxed), so it hides no race.
    #[derive(Debug)]
    pub(crate) struct Life(AtomicU32);

    impl Life {
        pub(crate) fn new() -> Self {
            born();
            Life(AtomicU32::new(ALIVE))
        }

        pub(crate) fn check(&self) {
            if self.0.load(Relaxed) != ALIVE {
                fail("memory was used after its end");
            }
        }

        pub(crate) fn end(&self) {
            if self.0.swap(DEAD, Relaxed) != ALIVE {
                fail("memory was given back twice");
            }
        }
    }

    impl Drop for Life {
        fn drop(&mut self) {
            self.0.store(DEAD, Relaxed);
            dead();
        }
    }

    /// A panic would be caught as if a message had made it.
    fn fail(what: &str) -> ! {
        eprintln!("{what}");
        std::process::abort()
    }
}

pub(crate) mod queue {
    pub(crate) use crossbeam_deque::{Injector, Steal, Stealer, Worker};
}

pub(crate) use crossbeam_utils::{Backoff, CachePadded};
pub(crate) use parking_lot::Condvar;
pub(crate) use std::time::Instant;

/// A lock with a step before it is requested and one while it is held.
#[derive(Default)]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> parking_lot::MutexGuard<'_, T> {
        crate::pause::before("lock");
        let guard = self.0.lock();
        crate::pause::before("locked");
        guard
    }

    #[track_caller]
    pub(crate) fn try_lock(&self) -> Option<parking_lot::MutexGuard<'_, T>> {
        crate::pause::before("try_lock");
        let guard = self.0.try_lock();
        if guard.is_some() {
            crate::pause::before("try_locked");
        }
        guard
    }
}
