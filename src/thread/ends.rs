//! Actors that this thread is about to end, one after the other.
//!
//! Each was closed while it was idle, or its suspended turn was cut, and is pending with no entry
//! and no drain of it out: its end is this thread's alone. Until then, hooks and wakers of others
//! are called, which may wait for what it brings. So a thread that is about to block hands them
//! over, as it does with its list.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::mem::take;

use super::context::Local;
use super::list::take_on_if_pending;
use crate::cell::refs::Ref;
use crate::sync::{LocalQueue, thread_plain};

thread_plain! {
    /// Those of the outermost call first, in the order in which they end.
    static ENDS: LocalQueue<Ref> = LocalQueue::new();
}

fn with_ends<R>(f: impl FnOnce(&mut VecDeque<Ref>) -> R) -> R {
    ENDS.with(|ends| ends.with(f))
}

/// Those of one call, behind those of the calls around it.
pub(crate) struct Ends {
    before: usize,
}

impl Ends {
    pub(crate) fn new() -> Self {
        Ends { before: with_ends(|all| all.len()) }
    }

    /// Adds one that ends after the others.
    pub(crate) fn push(&mut self, cell: Ref) {
        with_ends(|all| {
            // Those of the calls around it may have been handed over.
            self.before = self.before.min(all.len());
            all.push_back(cell);
        });
    }

    /// The next one to end, if they were not handed over.
    pub(crate) fn next(&mut self) -> Option<Ref> {
        with_ends(|all| all.remove(self.before))
    }
}

/// Those that the call has ended otherwise: nothing of them is kept.
impl Drop for Ends {
    fn drop(&mut self) {
        while let Some(cell) = self.next() {
            // The last reference runs hooks.
            drop(cell);
        }
    }
}

/// Sees to it that others end them, in their order.
pub(crate) fn hand_over(local: &Local) {
    let all = with_ends(take);
    for cell in all {
        take_on_if_pending(local, &cell);
    }
}
