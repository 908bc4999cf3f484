//! The fallback of actors without an executor: here, the thread that submits a drain. Inside the
//! call that submits it the drain is deferred until that is over, as with any executor.
//!
//! A test may make drains wait instead ([`later`]), for a thread that runs them.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::cell::executor::Drain;

/// A queue in which drains wait.
pub trait Later {
    /// Adds a drain.
    fn put(&self, drain: Drain);
}

std::thread_local! {
    /// The threads of a model are coroutines of one thread.
    static PLACE: RefCell<Option<Weak<dyn Later>>> = const { RefCell::new(None) };
}

/// Makes drains that this thread submits wait in that queue, as long as it exists.
pub fn later(place: &Arc<impl Later + 'static>) {
    let place = place.clone() as Arc<dyn Later>;
    PLACE.set(Some(Arc::downgrade(&place)));
}

fn place() -> Option<Arc<dyn Later>> {
    PLACE.with_borrow(|place| place.as_ref()?.upgrade())
}

pub(crate) fn execute(drain: Drain) {
    match place() {
        Some(place) => place.put(drain),
        None => drain.run(),
    }
}

/// Without such a queue, no other thread continues anything: an actor without an executor has no
/// budget.
pub(crate) fn is_closed() -> bool {
    place().is_none()
}

pub(crate) fn before_block() {}

pub(crate) fn block<R>(f: impl FnOnce() -> R) -> R {
    f()
}
