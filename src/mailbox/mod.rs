//! The mailbox: one word ([`word`]), messages in nodes ([`node`]), and the nodes' memory ([`chunk`]).
//!
//! This floor knows no actor, no state, no thread that drains and no executor. Nodes hang newest first from the word's HEAD; an owner
//! takes them all at once and reverses them into a private [`Batch`](node::Batch), oldest first. Nothing is ever popped singly from the
//! shared list, so there is no ABA, and no epochs or hazard pointers are needed.

pub(crate) mod chunk;
pub(crate) mod node;
pub(crate) mod word;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("turnwise packs an address, a counter and flags into one 64-bit word: it needs a 64-bit target with 48-bit user addresses");
