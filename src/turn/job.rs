//! A drain as what a pool runs.

use std::ptr::NonNull;

use super::deferred::{drop_drains, run_drains};
use crate::cell::executor::Drain;
use crate::pool::Job;

impl Job for Drain {
    #[inline]
    fn id(&self) -> usize {
        self.number()
    }

    #[inline]
    fn into_raw(mut self) -> Option<NonNull<()>> {
        self.take()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: it was taken out of a drain by `into_raw`, and comes back once: the drain that is
        // made here stands for what that one stood for.
        unsafe { Drain::from_raw(raw) }
    }

    fn is_unfinished(&self) -> bool {
        Drain::is_unfinished(self)
    }

    fn drop_all(jobs: impl Iterator<Item = Self>) {
        drop_drains(jobs);
    }

    /// On a thread that is inside no turn.
    #[inline]
    fn run_all(first: Self, next: impl FnMut() -> Option<Self>) {
        run_drains(first, next);
    }
}
