//! The turn in which an actor that has rested gets its fresh state: before all messages that wait.

use crate::cell::header::restart;
use crate::cell::resident::Env;
use crate::mailbox::node::{Envelope, Ran, Taken, VTable};
use crate::panic::{self, Payload};

/// The message of an owner that rests, in the place of the one that panicked.
pub(crate) struct Restart;

impl Restart {
    /// Is it this one?
    pub(crate) fn is(taken: Taken) -> bool {
        taken.is_of(&VTABLE)
    }

    /// # Safety
    /// E1.
    unsafe fn run(_: *mut u8, env: *const ()) -> Ran {
        // SAFETY: E1: the owner's cell and state, in a turn. Nothing lies in the node.
        unsafe { restart(Env::cell(env), env) }
        Ran::Done
    }

    /// # Safety
    /// E1.
    unsafe fn discard(_: *mut u8, _: *const ()) {
        // The actor was stopped: the state ends as the panic left it.
    }

    /// # Safety
    /// E1, after `run` has unwound: the factory has panicked.
    unsafe fn panicked(_: *mut u8, _: *const (), panic: Payload) {
        panic::discard(panic);
    }
}

static VTABLE: VTable = VTable::of::<Restart>(Restart::run, Restart::discard, Restart::panicked);

impl Envelope for Restart {
    const VTABLE: &'static VTable = &VTABLE;
}
