//! Actors that this thread is about to end, one after the other.
//!
//! Each was closed while it was idle, or its suspended turn was cut, and is pending with no entry
//! and no drain of it out: its end is this thread's alone. The end before runs hooks, which may
//! wait for what a later one brings. So a thread that is about to block hands them over, as it does
//! with its list.

#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};

use super::context::Local;
use super::list::take_on_if_pending;
use crate::cell::refs::Ref;
use crate::sync::{thread_owned, thread_plain};

thread_plain! {
    /// How many there are.
    static COUNT: Cell<usize> = Cell::new(0);
}

thread_owned! {
    /// The one that ends last comes first.
    static ENDS: RefCell<Vec<Ref>> = RefCell::new(Vec::new());
}

/// Those of one call, above those of the calls around it.
pub(crate) struct Ends {
    below: usize,
    /// Of a thread that is ending itself, whose thread-locals are gone.
    own: Vec<Ref>,
}

impl Ends {
    /// Puts them there, the one that ends last first.
    pub(crate) fn new(mut ends: Vec<Ref>) -> Self {
        let below = ENDS.try_with(|all| {
            let mut all = all.borrow_mut();
            let below = all.len();
            all.append(&mut ends);
            COUNT.with(|count| count.set(all.len()));
            below
        });
        Ends { below: below.unwrap_or(0), own: ends }
    }

    /// The next one to end, if they were not handed over.
    pub(crate) fn next(&mut self) -> Option<Ref> {
        if COUNT.with(Cell::get) <= self.below {
            return self.own.pop();
        }
        let next = ENDS.try_with(|all| {
            let mut all = all.borrow_mut();
            COUNT.with(|count| count.set(all.len() - 1));
            all.pop()
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
    for cell in all.into_iter().rev() {
        take_on_if_pending(local, &cell);
    }
}
