//! Where the state is during a turn, and what a message's functions are handed ([`Env`]).
//!
//! A small state lies in the line of the mailbox's word, so that two threads which alternate on one
//! actor move one line and not two. But an owner that runs many messages in a row would lose that
//! line to every sender that pushes meanwhile. So for the length of a private list the owner takes
//! a small state into its own frame, and puts it back before anything else happens to the mailbox:
//! before it takes the next list, releases, leaves it pending, recovers from a panic or ends the
//! actor. Nobody can tell, for between two turns a state may move.
//!
//! - H1: the state is in the cell whenever [`Env::within`] is not on the owner's stack. Within it,
//!   the bytes in the cell are not a state.

use std::mem::MaybeUninit;

use super::header::{Header, Move};
use super::owner::{Held, Owner};
use super::typed::Cell;
use crate::sync::config::HOME;

#[repr(C, align(64))]
struct Frame(MaybeUninit<[u8; HOME]>);

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Env {
    cell: *const Header,
    /// Null: in the cell.
    state: *mut u8,
}

impl Env {
    /// The state is in the cell.
    pub(crate) fn of(cell: *const Header) -> Self {
        Env { cell, state: std::ptr::null_mut() }
    }

    /// Calls `f` with the state in this frame, if `moves` says how; it is in the cell again when
    /// `f` returns or unwinds.
    ///
    /// # Safety
    /// `moves` belongs to the owner's state type, the state is there (B1), and `f` does nothing to
    /// the mailbox but run its messages.
    #[inline(always)]
    pub(crate) unsafe fn within<R>(
        owner: &mut Owner,
        moves: Option<&Move>,
        f: impl FnOnce(&mut Owner, &Env) -> R,
    ) -> R {
        let cell = owner.cell();
        let Some(moves) = moves else { return f(owner, &Env::of(cell)) };
        let mut frame = MaybeUninit::<Frame>::uninit();
        let state = frame.as_mut_ptr().cast::<u8>();
        // SAFETY: H1 and the caller's word: it is in the cell, and fits into the frame (`MOVES`).
        unsafe { (moves.out)(cell, state) };
        let _back = Back { cell, state, moves };
        f(owner, &Env { cell, state })
    }

    /// As a message gets it.
    pub(crate) fn as_ptr(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// The cell, from what a message got.
    ///
    /// # Safety
    /// `env` points to an `Env`.
    #[inline(always)]
    pub(crate) unsafe fn cell(env: *const ()) -> *const Header {
        // SAFETY: the caller's word.
        unsafe { (*env.cast::<Env>()).cell }
    }

    /// Is the state in its cell?
    ///
    /// # Safety
    /// `env` points to an `Env`.
    pub(crate) unsafe fn is_in_cell(env: *const ()) -> bool {
        // SAFETY: the caller's word.
        unsafe { (*env.cast::<Env>()).state.is_null() }
    }

    /// Calls `f` with the state, from what a message got.
    ///
    /// # Safety
    /// `env` points to an `Env` of a mailbox that this thread owns, of this state type; the state
    /// is there, and no other borrow of it lives.
    #[inline(always)]
    pub(crate) unsafe fn with_state<S, R>(env: *const (), f: impl FnOnce(&mut S) -> R) -> R {
        // SAFETY: the caller's word.
        let Env { cell, state } = unsafe { env.cast::<Env>().read() };
        if state.is_null() {
            // SAFETY: the caller's word, and H1.
            unsafe { Cell::with_state(cell, f) }
        } else {
            // SAFETY: H1: an S was moved there, which is the owner's (B1).
            f(unsafe { &mut *state.cast::<S>() })
        }
    }
}

/// Puts the state back.
struct Back<'a> {
    cell: *const Header,
    state: *const u8,
    moves: &'a Move,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // SAFETY: H1: it was moved out of there, and what the turns have left is an S still.
        unsafe { (self.moves.back)(self.cell, self.state) };
    }
}
