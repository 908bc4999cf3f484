//! The only door to atomics, cells, locks, threads, thread-locals and raw memory.
//!
//! Every floor above speaks of `crate::sync` alone, so the same files compile against other
//! flavours of this module: the loom one in `loom-tests`, where each operation is a scheduling
//! point and each ordering can be weakened, and the one that pauses and yields between atomics in
//! `stress-tests/paused`. Here everything inlines to `std` and `parking_lot`.

pub(crate) mod cell;
mod exclusive;
mod local_queue;
pub(crate) mod locals;
mod memory;
pub(crate) mod panic;

pub(crate) use exclusive::Exclusive;
pub(crate) use local_queue::LocalQueue;
pub(crate) use locals::{global, thread_owned, thread_plain};

/// Sizes that the models shrink, so that growth and saturation are reached.
pub(crate) mod config {
    /// Bytes of one slot of a chunk: a node is one slot or two.
    pub(crate) const SLOT: usize = 32;
    /// Slots of one chunk, its header's included: a page, with room left for the allocator.
    pub(crate) const CHUNK_SLOTS: usize = 127;
    /// The largest state that its owner takes into its own frame: a line.
    pub(crate) const HOME: usize = 64;
    /// The saturated COUNT of the word: "at least this many".
    pub(crate) const COUNT_MAX: u64 = 32_767;
    /// Bits of the number of wakers of a turn.
    pub(crate) const WAKER_BITS: u32 = 28;
    /// The batches for which a drain that cannot give way keeps what its turns have sent: another
    /// thread costs more than a few.
    pub(crate) const KEPT_BATCHES: u32 = 16;
    /// Empty chunks that one thread keeps.
    pub(crate) const CACHED_CHUNKS: usize = 32;
    /// Empty chunks that the depot keeps for all threads together.
    pub(crate) const DEPOT_CHUNKS: usize = 1024;
}

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    /// A fence behind a step on this counter.
    #[cfg(not(turnwise_tsan))]
    #[inline(always)]
    pub(crate) fn fence_behind<A>(_: &A, ordering: Ordering) {
        fence(ordering);
    }

    /// ThreadSanitizer knows no fences. To load the counter has the same effect for it, as in the
    /// standard library's `Arc`.
    #[cfg(turnwise_tsan)]
    pub(crate) fn fence_behind(counter: &impl Counter, ordering: Ordering) {
        counter.load_by(ordering);
    }

    #[cfg(turnwise_tsan)]
    pub(crate) trait Counter {
        fn load_by(&self, ordering: Ordering);
    }

    #[cfg(turnwise_tsan)]
    impl Counter for AtomicU32 {
        fn load_by(&self, ordering: Ordering) {
            self.load(ordering);
        }
    }

    #[cfg(turnwise_tsan)]
    impl Counter for AtomicU64 {
        fn load_by(&self, ordering: Ordering) {
            self.load(ordering);
        }
    }
}

pub(crate) mod thread {
    pub(crate) use std::thread::{Builder, Thread, current, park, park_timeout, yield_now};
}

pub(crate) mod hint {
    /// Looks whether something is done that another thread is about to do: some microseconds by
    /// spinning, then some by giving the processor away, for with more threads than processors the
    /// other one may be waiting for this one's. False if it was not done.
    pub(crate) fn done_soon(mut done: impl FnMut() -> bool) -> bool {
        let backoff = super::Backoff::new();
        while !done() {
            if backoff.is_completed() {
                return false;
            }
            backoff.snooze();
        }
        true
    }

    /// Looks a few times, with pauses of some hundred nanoseconds in between, whether something has
    /// come; the line that is looked at stays with others meanwhile.
    pub(crate) fn soon(mut come: impl FnMut() -> bool) -> bool {
        const LOOKS: u32 = 3;
        const PAUSES: u32 = 32;
        (0..LOOKS).any(|_| {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            come()
        })
    }

    /// Pauses for some microseconds: others get on faster without this thread.
    #[cold]
    #[inline(never)]
    pub(crate) fn stand_back() {
        const PAUSES: u32 = 256;
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }

    /// Asks the processor to fetch the line at `addr`; no access in the language's sense.
    #[inline(always)]
    pub(crate) fn prefetch(addr: *const u8) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing that a program can see and never faults, whatever the
        // address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(addr.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = addr;
    }

    /// Fetches the line for writing: it leaves the cache that has it.
    #[inline(always)]
    pub(crate) fn prefetch_write(addr: *const u8) {
        // The compiler's own intrinsic becomes a prefetch for reading unless it knows of a newer
        // processor.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: it moves a line between caches: no program can see that, whatever the address.
        // A processor without this instruction does nothing instead.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) addr, options(nostack, preserves_flags));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = addr;
    }
}

pub(crate) mod alloc {
    pub(crate) use super::memory::{alloc, dealloc};

    /// Marks a piece of memory as alive. Nothing here; in the models, use after free, double free
    /// and leaks are failures.
    #[derive(Debug)]
    pub(crate) struct Life;

    impl Life {
        #[inline(always)]
        pub(crate) const fn new() -> Self {
            Life
        }
        /// The memory is used now.
        #[inline(always)]
        pub(crate) fn check(&self) {}
        /// The memory is given back now: nothing may use it at the same time or later.
        #[inline(always)]
        pub(crate) fn end(&self) {}
    }
}

/// The queues of a pool's drains.
pub(crate) mod queue {
    pub(crate) use crossbeam_deque::{Injector, Steal, Stealer, Worker};
}

pub(crate) use crossbeam_utils::{Backoff, CachePadded};
pub(crate) use parking_lot::{Condvar, Mutex};
pub(crate) use std::time::Instant;
