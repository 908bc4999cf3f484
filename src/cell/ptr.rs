//! The address of a cell that is there.

use std::ptr::NonNull;

use super::counts::Counts;
use super::header::{Header, counts};

/// The address of a cell, in the hand of something that keeps it: a count (B3), the entry (B6), or
/// the ownership of its mailbox (O1). It is no copy: another one is made for another keeper.
#[repr(transparent)]
pub(super) struct CellPtr(NonNull<Header>);

// SAFETY: what is reached through it by safe code is atomic or locked, or dropped with the last
// keeper: hooks, which are Send.
unsafe impl Send for CellPtr {}
// SAFETY: a shared reference reaches atomics and locks alone.
unsafe impl Sync for CellPtr {}

impl CellPtr {
    /// # Safety
    /// `cell` is a pointer to all of a cell, and what the result is put into keeps that cell.
    #[inline(always)]
    pub(super) unsafe fn new(cell: NonNull<Header>) -> Self {
        CellPtr(cell)
    }

    /// The address once more.
    ///
    /// # Safety
    /// What the result is put into keeps the cell.
    #[inline(always)]
    pub(super) unsafe fn again(&self) -> Self {
        CellPtr(self.0)
    }

    #[inline(always)]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: what this lies in keeps the cell.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(super) fn counts(&self) -> &Counts {
        // SAFETY: what this lies in keeps the cell, and it is a pointer to all of it.
        unsafe { counts(self.0.as_ptr()) }
    }

    #[inline(always)]
    pub(super) fn get(&self) -> NonNull<Header> {
        self.0
    }

    #[inline(always)]
    pub(super) fn as_ptr(&self) -> *const Header {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub(super) fn addr(&self) -> usize {
        self.0.addr().get()
    }
}
