//! The ways into a mailbox, from the outside: every call of a user's that does something starts
//! here.
//!
//! The way of a send: `claim` (idle: the message is run on the spot, never stored, then
//! `release_one`), or a node and `push`, and then what the push left owing. A thread that is inside
//! a turn never drains for a send: it defers (MAILBOX-9).

mod attempt;
pub(crate) mod close;
mod lend;
pub(crate) mod message;
pub(crate) mod push;
pub(crate) mod room;
pub(crate) mod wait;
pub(crate) mod with;
