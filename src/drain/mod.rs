//! From a message to a turn: the block that an actor lives in ([`block`]), one thread's run of turns ([`turns`]), and what this thread
//! runs and owes ([`local`]).
//!
//! A drain belongs to the thread that moved COUNT from 0, or that took a parked mailbox over. It ends in `release` or `park`; a third way
//! out does not exist, so ownership is never lost, whatever panics.

pub(crate) mod block;
pub(crate) mod carrier;
pub(crate) mod envelope;
pub(crate) mod handle;
pub(crate) mod local;
pub(crate) mod turns;

use crate::sync::panic::catch;

/// Runs user code whose panic is nobody's business. A payload that panics in its drop is forgotten with what it panicked with.
pub(crate) fn shrug_off(f: impl FnOnce()) {
    if let Err(panic) = catch(f) {
        let _ = catch(|| drop(panic)).map_err(std::mem::forget);
    }
}
