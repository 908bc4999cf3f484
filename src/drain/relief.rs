//! What a blocked turn has promised is run by somebody else.
//!
//! A turn that sends to idle actors promises to run them when it is over (R9, [`super::local`]). If it blocks before, and what it waits for
//! depends on one of them, it would wait for ever. To run them on top of the blocked turn is no way out: a foreign message in one of them may
//! wait for an actor that waits for the very turn below it, and an order of waiting that the program keeps without a cycle gets one by the
//! stack. So a turn that is really about to sleep gives its promises to a thread made for them, which ends when they are kept.
//!
//! - P1: a promise is an entry of the list with its storage (F3). It is given whole, and listed on whatever thread drops it: the new one, or this
//!   one again, if no thread can be had.

use super::block::Core;
use super::local::{Local, with_local};
use super::turns::run_list;
use crate::sync::thread;

/// Entries of a list, on their way to another thread.
struct Promises(Vec<*const Core>);

// SAFETY: P1: each is storage of an actor, which may be given up by any thread, and a hint that any thread may follow.
unsafe impl Send for Promises {}

impl Drop for Promises {
    fn drop(&mut self) {
        with_local(|local| {
            for core in self.0.drain(..) {
                // A thread's list holds a mailbox once; the promises come from one list, and this one is empty.
                local.reserve(core);
                local.list(core);
            }
        });
    }
}

/// Gives away what a turn on this thread, which is about to sleep, has promised, if it has.
pub(crate) fn relieve(local: &Local) {
    if !local.owes() {
        return;
    }
    let promises = Promises(std::iter::from_fn(|| local.unlist()).collect());
    // Without a thread, they are kept when the turn is over.
    let _ = thread::spawn_detached(move || {
        drop(promises);
        with_local(run_list);
    });
}
