//! From a message to a turn: the block that an actor lives in ([`block`]), one thread's run of turns ([`turns`]), and what this thread
//! runs and owes ([`local`]).
//!
//! A drain belongs to the thread that moved COUNT from 0, or that took a parked mailbox over. It ends in `release` or `park`; a third way
//! out does not exist, so ownership is never lost, whatever panics.

pub(crate) mod block;
pub(crate) mod budget;
pub(crate) mod bulk;
pub(crate) mod carrier;
pub(crate) mod chain;
pub(crate) mod counts;
mod env;
pub(crate) mod envelope;
pub(crate) mod handle;
pub(crate) mod letter;
pub(crate) mod local;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod push;
pub(crate) mod relief;
pub(crate) mod room;
pub(crate) mod storage;
pub(crate) mod turns;
pub(crate) mod waits;
