//! One thread's side: its list of mailboxes ([`context`], [`list`]), the actors
//! that it ends ([`ends`]), how a mailbox gets to another thread ([`schedule`]), and which of its
//! waits could never end ([`waits_for`]). Nothing here runs a turn.

pub(crate) mod context;
pub(crate) mod ends;
pub(crate) mod list;
pub(crate) mod schedule;
pub(crate) mod waits_for;
