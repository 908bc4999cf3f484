//! The kinds of messages, as the mailbox sees them: how each is run, given back, and told of a
//! panic.
//!
//! | kind                            | lies in            | result goes to             | not run: goes to              | panicked                |
//! |---------------------------------|--------------------|----------------------------|-------------------------------|-------------------------|
//! | [`Tell`](tell::Tell)            | the node           | nobody                     | the undelivered hook, or drop | the panic hook alone    |
//! | [`Ask`](ask::Ask)               | a oneshot          | the asker, by the oneshot  | dropped; the asker is told    | the asker is told       |
//! | [`Awaited`](awaited::Awaited)   | a oneshot          | the asker, by the oneshot  | dropped; the asker is told    | the asker is told       |
//! | [`Borrowed`](borrowed::Borrowed)| the caller's frame | the caller, in the frame   | stays with the caller         | resumed on the caller   |
//!
//! - E1: a message's functions are called by the owner of the mailbox it was pushed to, whose cell
//!   is of the state type in its type, with an [`Env`](crate::cell::resident::Env) of it.

pub(crate) mod ask;
pub(crate) mod awaited;
pub(crate) mod borrowed;
pub(crate) mod lent;
pub(crate) mod rest;
mod slot;
pub(crate) mod tell;

use crate::cell::header::Header;
use crate::cell::message::Message;
use crate::cell::resident::Env;
use crate::cell::typed::Cell;
use crate::error::Reason;
use crate::mailbox::node::Envelope;

/// A message that lies in a oneshot, and was accepted nowhere.
pub(crate) trait Answers: Envelope {
    /// Answers it, unless its asker has withdrawn it.
    fn refuse(self, reason: Reason);

    /// Leaves it to its asker, who withdraws it.
    fn leave(self);
}

/// Hands an undelivered message to the hook, or drops it. May unwind.
///
/// # Safety
/// The cell is alive, and of this state type.
pub(crate) unsafe fn give_back<S: 'static, L: Message<S>>(cell: *const Header, message: L) {
    // SAFETY: the caller's word.
    match unsafe { Cell::<S>::on_undelivered(cell) } {
        Some(hook) => hook(message.undelivered()),
        None => {
            // SAFETY: the caller's word.
            unsafe { &*cell }.report_discarded();
            drop(message);
        }
    }
}

/// Why a message that was accepted is not run.
///
/// # Safety
/// E1.
unsafe fn why_not(env: *const ()) -> Reason {
    // SAFETY: E1: the owner keeps the cell.
    unsafe { (*Env::cell(env)).stop_cause() }.map_or(Reason::Closed, Reason::Stopped)
}
