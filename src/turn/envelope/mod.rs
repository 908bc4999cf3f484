//! The kinds of messages, as the mailbox sees them: how each is run, given back, and informed of a
//! panic.
//!
//! | kind                            | lies in            | result goes to             | not run: goes to              | panicked                |
//! |---------------------------------|--------------------|----------------------------|-------------------------------|-------------------------|
//! | [`Tell`](tell::Tell)            | the node           | nothing                    | the undelivered hook, or drop | the panic hook alone    |
//! | [`Ask`](ask::Ask)               | a oneshot          | the asker, by the oneshot  | dropped; the asker has why    | the asker has why       |
//! | [`Awaited`](awaited::Awaited)   | a oneshot          | the asker, by the oneshot  | dropped; the asker has why    | the asker has why       |
//! | [`Borrowed`](borrowed::Borrowed)| the caller's frame | the caller, in the frame   | stays with the caller         | resumed on the caller   |
//!
//! - ENVELOPE-1: a message's functions are called by the owner of the mailbox it was pushed to,
//!   whose cell is of the state type in its type, with an [`Env`](crate::cell::resident::Env) of
//!   it.

pub(crate) mod ask;
pub(crate) mod awaited;
pub(crate) mod borrowed;
pub(crate) mod lent;
mod slot;
pub(crate) mod tell;

use crate::cell::config::UndeliveredHook;
use crate::cell::header::Header;
use crate::cell::message::Message;
use crate::cell::resident::Place;
use crate::error::Reason;
use crate::mailbox::node::{Envelope, VTable};
use crate::panic::Payload;

/// A closure of a caller that waits, and what it returns, lie in the caller's frame: so the rest of
/// the way is compiled once for each type of states.
pub(crate) type Call<'a, S> = &'a mut (dyn FnMut(&mut S) + Send);

/// A message that lies in a oneshot, and was accepted nowhere.
pub(crate) trait Answers: Envelope {
    /// Answers it, unless its asker has withdrawn it.
    fn refuse(self, reason: Reason);

    /// Leaves it to its asker, who withdraws it.
    fn leave(self);
}

/// A message that is run, or given back, where it lies. Its node is forgotten afterwards, with what
/// is left there.
trait Stays: Sized {
    type State: 'static;

    /// Its turn. If it unwinds, [`panicked`](Self::panicked) follows.
    fn run(&mut self, place: Place<'_, Self::State>);

    /// It is not run.
    fn discard(&mut self, place: Place<'_, Self::State>);

    /// Its turn has unwound.
    fn panicked(&mut self, place: Place<'_, Self::State>, panic: Payload);
}

/// The functions of such a message.
const fn staying<M: Stays>() -> VTable {
    VTable::of::<M>(run::<M>, discard::<M>, panicked::<M>)
}

/// # Safety
/// ENVELOPE-1.
unsafe fn run<M: Stays>(payload: *mut u8, env: *const ()) {
    // SAFETY: ENVELOPE-1: the payload is an M, which the owner alone reaches.
    unsafe { (*payload.cast::<M>()).run(Place::of(env)) }
}

/// # Safety
/// ENVELOPE-1.
unsafe fn discard<M: Stays>(payload: *mut u8, env: *const ()) {
    // SAFETY: ENVELOPE-1: the payload is an M, which the owner alone reaches.
    unsafe { (*payload.cast::<M>()).discard(Place::of(env)) }
}

/// # Safety
/// ENVELOPE-1, after `run` has unwound.
unsafe fn panicked<M: Stays>(payload: *mut u8, env: *const (), panic: Payload) {
    // SAFETY: ENVELOPE-1: the payload is an M, which the owner alone reaches.
    unsafe { (*payload.cast::<M>()).panicked(Place::of(env), panic) }
}

/// Hands an undelivered message to the hook, or drops it. May unwind.
pub(crate) fn give_back<S: 'static, L: Message<S>>(
    hook: Option<&UndeliveredHook<S>>,
    header: &Header,
    message: L,
) {
    match hook {
        Some(hook) => hook(message.undelivered()),
        None => {
            header.discards();
            drop(message);
        }
    }
}

/// The reason that a message that was accepted is not run.
fn why_not(header: &Header) -> Reason {
    header.stop_cause().map_or(Reason::Closed, Reason::Stopped)
}
