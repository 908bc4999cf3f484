//! A place for one pointer: what a worker runs next, because it was scheduled last and its memory is warm.
//!
//! Its worker puts and takes; a thief takes, when there is nothing else to be had, or when the pool is swept.
//!
//! - SLOT: `put` Release -> `take` Acquire, and `put` Acquire for what was there. Whoever gets the pointer sees what it points to.

use std::ptr::null_mut;

use crate::sync::atomic::AtomicPtr;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

pub(crate) struct Slot<T>(AtomicPtr<T>);

impl<T> Slot<T> {
    pub(crate) fn new() -> Self {
        Slot(AtomicPtr::new(null_mut()))
    }

    /// Puts a pointer in; what was there comes out, or null.
    pub(crate) fn put(&self, new: *mut T) -> *mut T {
        // Ordering: AcqRel, both sides of SLOT: a thread that left this place may have put in what comes out.
        self.0.swap(new, AcqRel)
    }

    /// Takes what is there, or null.
    pub(crate) fn take(&self) -> *mut T {
        // Ordering: Relaxed. Only its worker puts something in, so to that one null is true; to others it is a hint.
        if self.0.load(Relaxed).is_null() {
            return null_mut();
        }
        // Ordering: Acquire, reader side of SLOT.
        self.0.swap(null_mut(), Acquire)
    }
}
