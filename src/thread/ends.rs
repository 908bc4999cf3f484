//! Actors that this thread is about to end, one after the other.
//!
//! Each was closed while it was idle, or its suspended turn was cut, and is pending with no entry
//! and no drain of it out: its end is this thread's alone. Until then, hooks and wakers of others
//! are called, which may wait for what it brings. So a thread that is about to block hands them
//! over, as it does with its list.

#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::context::Local;
use super::list::take_on_if_pending;
use crate::cell::refs::Ref;
use crate::sync::{thread_owned, thread_plain};

thread_plain! {
    /// How many there are.
    static COUNT: Cell<usize> = Cell::new(0);
}

thread_owned! {
    /// Those of the outermost call first, in the order in which they end.
    static ENDS: RefCell<VecDeque<Ref>> = RefCell::new(VecDeque::new());
}

/// Those of one call, behind those of the calls around it.
pub(crate) struct Ends {
    before: usize,
    /// Of a thread that is ending itself, whose thread-locals are gone.
    own: VecDeque<Ref>,
}

impl Ends {
    pub(crate) fn new() -> Self {
        Ends { before: COUNT.with(Cell::get), own: VecDeque::new() }
    }

    /// Adds one that ends after the others.
    pub(crate) fn push(&mut self, cell: Ref) {
        let mut cell = Some(cell);
        let _ = ENDS.try_with(|all| {
            let mut all = all.borrow_mut();
            // Those of the calls around it may have been handed over.
            self.before = self.before.min(all.len());
            all.extend(cell.take());
            COUNT.with(|count| count.set(all.len()));
        });
        self.own.extend(cell);
    }

    /// The next one to end, if they were not handed over.
    pub(crate) fn next(&mut self) -> Option<Ref> {
        if COUNT.with(Cell::get) <= self.before {
            return self.own.pop_front();
        }
        let next = ENDS.try_with(|all| {
            let mut all = all.borrow_mut();
            COUNT.with(|count| count.set(all.len() - 1));
            all.remove(self.before)
        });
        next.ok().flatten()
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
#[inline]
pub(crate) fn hand_over(local: &Local) {
    if COUNT.with(Cell::get) > 0 {
        hand_over_all(local);
    }
}

#[cold]
fn hand_over_all(local: &Local) {
    COUNT.with(|count| count.set(0));
    let all = ENDS.try_with(RefCell::take).unwrap_or_default();
    for cell in all {
        take_on_if_pending(local, &cell);
    }
}
