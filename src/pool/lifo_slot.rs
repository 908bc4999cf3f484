//! A place for one pointer: what a worker runs next, because it was scheduled last and its memory
//! is warm.
//!
//! Its worker puts and takes. A thief takes: when it finds nothing else, when the worker is stuck
//! in a job, or when the pool has ended.
//!
//! - SLOT: `put` Release -> `take` Acquire, and `put` Acquire for what was there. The thread that
//!   gets the pointer sees what it points to.

#![forbid(unsafe_code)]

use std::ptr::null_mut;

use crate::sync::atomic::AtomicPtr;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

pub(crate) struct LifoSlot<T>(AtomicPtr<T>);

impl<T> LifoSlot<T> {
    pub(crate) fn new() -> Self {
        LifoSlot(AtomicPtr::new(null_mut()))
    }

    /// Puts a pointer in; what was there comes out, or null.
    pub(crate) fn put(&self, new: *mut T) -> *mut T {
        // Ordering: AcqRel, both sides of SLOT: a thread that left this place may have put in what
        // comes out.
        self.0.swap(new, AcqRel)
    }

    /// Takes what is there, or null.
    pub(crate) fn take(&self) -> *mut T {
        if self.is_empty() {
            return null_mut();
        }
        // Ordering: Acquire, reader side of SLOT.
        self.0.swap(null_mut(), Acquire)
    }

    /// True if the slot is empty. Only its worker puts something in, so to that one it is true; to
    /// others it is a hint.
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: Relaxed. Nothing is read through it.
        self.0.load(Relaxed).is_null()
    }
}
