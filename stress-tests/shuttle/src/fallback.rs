//! Drains of actors without an executor: each to a thread of its own. A turn that sleeps
//! keeps no other drain from running, as in the pool of the product, which compensates.

use std::cell::RefCell;

use super::cell::executor::Drain;
use crate::sync::thread::{Joiner, spawn};

std::thread_local! {
    static DRAINS: RefCell<Vec<Joiner<()>>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn execute(drain: Drain) {
    let thread = spawn(|| drain.run());
    DRAINS.with_borrow_mut(|drains| drains.push(thread));
}

pub(crate) fn is_closed() -> bool {
    false
}

pub(crate) fn before_block() {}

pub(crate) fn block<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// The schedule ends when all drains have.
pub(crate) fn join_all() {
    while let Some(thread) = DRAINS.with_borrow_mut(Vec::pop) {
        thread.join();
    }
}
