//! Where drains go whose actor has no executor: here, the thread that submits them. Inside the call
//! that submits it the drain is put off until that is over, like everything that an executor runs
//! there.
//!
//! A test may have them wait instead ([`later`]), for a thread that runs them.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::cell::executor::Drain;

/// A place where drains wait.
pub trait Later {
    /// Puts a drain there.
    fn put(&self, drain: Drain);
}

std::thread_local! {
    /// The threads of a model are coroutines of one thread.
    static PLACE: RefCell<Option<Weak<dyn Later>>> = const { RefCell::new(None) };
}

/// From now on, what this thread submits waits in that place, as long as that is there.
pub fn later(place: &Arc<impl Later + 'static>) {
    let place = place.clone() as Arc<dyn Later>;
    PLACE.set(Some(Arc::downgrade(&place)));
}

fn place() -> Option<Arc<dyn Later>> {
    PLACE.with_borrow(|place| place.as_ref()?.upgrade())
}

pub(crate) fn execute(drain: Drain, _: bool) {
    match place() {
        Some(place) => place.put(drain),
        None => drain.run(),
    }
}

/// Without such a place, no other thread goes on with anything: an actor without an executor of its
/// own has no budget.
pub(crate) fn is_closed() -> bool {
    place().is_none()
}

pub(crate) fn before_block() {}

pub(crate) fn block<R>(f: impl FnOnce() -> R) -> R {
    f()
}
