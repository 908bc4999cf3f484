//! How many handles an actor has, and how many hold its storage: B2 and B3 of [`super::block`].
//!
//! - GONE: `fetch_sub` Release -> Acquire fence at 0, for both counts. What follows the last one comes after all that the others did.

use super::block::{Core, counts, free};
use crate::sync::alloc::Life;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, fence};

pub(crate) struct Counts {
    handles: AtomicU32,
    storage: AtomicU32,
    life: Life,
}

impl Counts {
    /// One handle, and the storage of the handles all together.
    pub(crate) fn new() -> Self {
        Counts { handles: AtomicU32::new(1), storage: AtomicU32::new(1), life: Life::new() }
    }

    /// The block is freed now.
    pub(crate) fn end(&self) {
        self.life.end();
    }
}

/// One more handle.
///
/// # Safety
/// The caller has a handle.
#[inline]
pub(crate) unsafe fn retain_handle(core: *const Core) {
    // SAFETY: the caller's handle keeps the block.
    let counts = unsafe { counts(core) };
    // Ordering: Relaxed. The new handle comes from one that is there.
    let before = counts.handles.fetch_add(1, Relaxed);
    guard_overflow(before);
}

/// One more handle, unless they have all gone (B2).
///
/// # Safety
/// The caller has storage.
pub(crate) unsafe fn try_retain_handle(core: *const Core) -> bool {
    // SAFETY: the caller's storage keeps the block.
    let counts = unsafe { counts(core) };
    // Ordering: Relaxed, as for a clone: what a handle reaches is carried by the word.
    let raised = counts.handles.fetch_update(Relaxed, Relaxed, |n| if n == 0 { None } else { Some(n + 1) });
    raised.map(guard_overflow).is_ok()
}

/// One handle less; true if it was the last: the caller owes ORPHAN, and holds the handles' storage until that is dealt with.
///
/// # Safety
/// The caller has a handle and forgets it.
#[inline]
#[must_use]
pub(crate) unsafe fn release_handle(core: *const Core) -> bool {
    // SAFETY: the caller's handle keeps the block.
    let counts = unsafe { counts(core) };
    // Ordering: Release, writer side of GONE.
    if counts.handles.fetch_sub(1, Release) != 1 {
        return false;
    }
    // Ordering: Acquire, reader side of GONE: the end comes after everything that any handle did.
    fence(Acquire);
    true
}

/// One more holder of storage.
///
/// # Safety
/// The caller has a handle or storage.
#[inline]
pub(crate) unsafe fn retain_storage(core: *const Core) {
    // SAFETY: the caller keeps the block.
    let counts = unsafe { counts(core) };
    counts.life.check();
    // Ordering: Relaxed. The new holder comes from one that is there.
    let before = counts.storage.fetch_add(1, Relaxed);
    guard_overflow(before);
}

/// One holder of storage less; the last one frees the block.
///
/// # Safety
/// The caller has storage and forgets it.
#[inline]
pub(crate) unsafe fn release_storage(core: *const Core) {
    // SAFETY: the caller's storage keeps the block.
    let counts = unsafe { counts(core) };
    counts.life.check();
    // Ordering: Release, writer side of GONE.
    if counts.storage.fetch_sub(1, Release) == 1 {
        // Ordering: Acquire, reader side of GONE.
        fence(Acquire);
        // SAFETY: B3: nobody is left. The state went with ORPHAN.
        unsafe { free(core) }
    }
}

/// Handles that are there now; stale on return.
///
/// # Safety
/// The caller has a handle or storage.
pub(crate) unsafe fn handles(core: *const Core) -> u32 {
    // SAFETY: the caller keeps the block.
    // Ordering: Relaxed. A figure for users.
    unsafe { counts(core) }.handles.load(Relaxed)
}

/// As in the standard library: a program that leaks two thousand million handles cannot be saved.
#[inline]
fn guard_overflow(before: u32) {
    if before > i32::MAX as u32 {
        std::process::abort();
    }
}
