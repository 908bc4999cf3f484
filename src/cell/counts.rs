//! Counts of an actor's handles, and of what holds its memory: HEADER-2 and HEADER-3 of
//! [`super::header`]; and how many share a built configuration ([`super::built`]).
//!
//! - GONE: `fetch_sub` Release -> Acquire fence at 0, for each count, or an Acquire load that finds
//!   one reference left (HEADER-5). What follows the last one comes after all that the others did.

#![forbid(unsafe_code)]

use crate::sync::alloc::Life;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64, fence_behind};

pub(crate) struct Counts {
    handles: AtomicU32,
    refs: AtomicU32,
    life: Life,
}

impl Counts {
    /// One handle, and the one reference of the handles all together.
    pub(crate) fn new() -> Self {
        Counts { handles: AtomicU32::new(1), refs: AtomicU32::new(1), life: Life::new() }
    }

    /// The memory is given back now.
    pub(crate) fn end(&self) {
        self.life.end();
    }

    /// One more handle, by one that has a handle.
    #[inline]
    pub(crate) fn retain_handle(&self) {
        // Ordering: Relaxed. The new handle comes from one that is there.
        guard_overflow(self.handles.fetch_add(1, Relaxed));
    }

    /// One more handle, unless they are all gone (HEADER-2).
    pub(crate) fn try_retain_handle(&self) -> bool {
        let more = |n: u32| if n == 0 { None } else { Some(n + 1) };
        // Ordering: Relaxed, as for a clone: what a handle reaches is carried by the word.
        self.handles.fetch_update(Relaxed, Relaxed, more).map(guard_overflow).is_ok()
    }

    /// One handle less; true if it was the last.
    #[inline]
    #[must_use]
    pub(crate) fn release_handle(&self) -> bool {
        // Ordering: Release, writer side of GONE.
        if self.handles.fetch_sub(1, Release) != 1 {
            return false;
        }
        // Ordering: Acquire, reader side of GONE: the end comes after all that any handle did.
        fence_behind(&self.handles, Acquire);
        true
    }

    /// One more reference, unless they are all gone.
    pub(crate) fn try_retain(&self) -> bool {
        self.life.check();
        let more = |n: u32| if n == 0 { None } else { Some(n + 1) };
        // Ordering: Relaxed, as for a clone.
        self.refs.fetch_update(Relaxed, Relaxed, more).map(guard_overflow).is_ok()
    }

    /// One more reference, by one that has a handle or a reference, or owns the mailbox.
    #[inline]
    pub(crate) fn retain(&self) {
        self.life.check();
        // Ordering: Relaxed. The new reference comes from one that is there.
        guard_overflow(self.refs.fetch_add(1, Relaxed));
    }

    /// One reference less; true if it was the last.
    #[inline]
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        self.life.check();
        // Ordering: Release, writer side of GONE.
        if self.refs.fetch_sub(1, Release) != 1 {
            return false;
        }
        // Ordering: Acquire, reader side of GONE.
        fence_behind(&self.refs, Acquire);
        true
    }

    /// True if the reference of all handles together is the only one. Called when they are gone:
    /// then a yes is final (HEADER-5).
    #[inline]
    pub(crate) fn is_sole(&self) -> bool {
        self.life.check();
        // Ordering: Acquire, reader side of GONE: what follows a yes comes after all that any
        // reference was used for.
        self.refs.load(Acquire) == 1
    }

    /// Handles that are there now; stale on return.
    pub(crate) fn handles(&self) -> u32 {
        // Ordering: Relaxed. A figure for users.
        self.handles.load(Relaxed)
    }
}

/// A count of references to something shared. As many as would overflow it have no place in any
/// memory; to leak them takes centuries.
pub(crate) struct Uses {
    count: AtomicU64,
    life: Life,
}

impl Uses {
    /// One.
    pub(crate) fn new() -> Self {
        Uses { count: AtomicU64::new(1), life: Life::new() }
    }

    /// One more, by one that is counted.
    #[inline]
    pub(crate) fn retain(&self) {
        self.life.check();
        // Ordering: Relaxed. The new one comes from one that is there.
        self.count.fetch_add(1, Relaxed);
    }

    /// One less; true if it was the last.
    #[inline]
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        self.life.check();
        // Ordering: Release, writer side of GONE.
        if self.count.fetch_sub(1, Release) != 1 {
            return false;
        }
        // Ordering: Acquire, reader side of GONE.
        fence_behind(&self.count, Acquire);
        true
    }

    /// One less, unless it is the last: then nothing has changed, and no other thread is there to
    /// see.
    #[inline]
    pub(crate) fn release_unless_last(&self) -> bool {
        let last = self.release();
        if last {
            self.retain();
        }
        !last
    }

    /// The memory is given back now.
    pub(crate) fn end(&self) {
        self.life.end();
    }

    /// Returns the count; stale on return.
    pub(crate) fn count(&self) -> u64 {
        // Ordering: Relaxed. A figure for users.
        self.count.load(Relaxed)
    }
}

/// A value that has a place for a link once it is dead.
pub(super) trait Linked {
    /// Links it to the next object that is to be freed.
    fn link_freed(&self, next: u64);

    /// The link, once it was linked.
    fn next_freed(&self) -> u64;
}

impl Linked for Uses {
    fn link_freed(&self, next: u64) {
        // Ordering: Relaxed. The object is dead, and this thread's.
        self.count.swap(next, Relaxed);
    }

    fn next_freed(&self) -> u64 {
        // Ordering: Relaxed. This thread has written it.
        self.count.load(Relaxed)
    }
}

/// As in the standard library: a program that leaks two thousand million handles cannot be saved.
#[inline]
fn guard_overflow(before: u32) {
    if before > i32::MAX as u32 {
        std::process::abort();
    }
}
