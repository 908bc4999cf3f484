//! What a thread runs, and what it owes: its list of mailboxes ([`context`], [`list`]), how a
//! mailbox gets to another thread ([`schedule`]), and which of its waits could never end
//! ([`waits_for`]). Nothing here runs a turn.

pub(crate) mod context;
pub(crate) mod list;
pub(crate) mod schedule;
pub(crate) mod waits_for;
