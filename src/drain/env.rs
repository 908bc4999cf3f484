//! What a turn is handed: the block of its mailbox, and where the state is at the moment.
//!
//! A small state lies in the line of the mailbox's word, so that two threads which alternate on one actor move one line and not two. But an
//! owner that runs many messages in a row would lose that line to every sender that pushes meanwhile. So for the length of a private list
//! the owner takes a small state into its own frame, and puts it back before anything else happens to the mailbox: before it takes the
//! next list, releases, parks, recovers from a panic or ends the actor. Nobody can tell, for between two turns a state may move.
//!
//! - H1: the state is in the block whenever [`Env::within`] is not on the owner's stack. Within it, the bytes in the block are not a state.

use std::mem::MaybeUninit;

use super::block::{Block, Core, Move};
use crate::sync::config::HOME;

#[repr(C, align(64))]
struct Home(MaybeUninit<[u8; HOME]>);

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Env {
    core: *const Core,
    /// Null: in the block.
    state: *mut u8,
}

impl Env {
    /// The state is in the block.
    pub(crate) fn of(core: *const Core) -> Self {
        Env { core, state: std::ptr::null_mut() }
    }

    /// Calls `f` with the state in this frame, if `moves` says how; it is in the block again when `f` returns or unwinds.
    ///
    /// # Safety
    /// The caller owns the mailbox of `core`, to whose state type `moves` belongs, the state is there (B1), and `f` does nothing to the
    /// mailbox but running its messages.
    #[inline(always)]
    pub(crate) unsafe fn within<R>(core: *const Core, moves: Option<&Move>, f: impl FnOnce(&Env) -> R) -> R {
        let Some(moves) = moves else { return f(&Env::of(core)) };
        let mut home = MaybeUninit::<Home>::uninit();
        let state = home.as_mut_ptr().cast::<u8>();
        // SAFETY: H1 and the caller's word: it is in the block, and fits into the frame (`Move::of`).
        unsafe { (moves.out)(core, state) };
        let _back = Back { core, state, moves };
        f(&Env { core, state })
    }

    /// As a message gets it.
    pub(crate) fn as_ptr(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// The block, from what a message got.
    ///
    /// # Safety
    /// `env` points to an `Env`.
    #[inline(always)]
    pub(crate) unsafe fn core(env: *const ()) -> *const Core {
        // SAFETY: the caller's word.
        unsafe { (*env.cast::<Env>()).core }
    }

    /// Calls `f` with the state, from what a message got.
    ///
    /// # Safety
    /// `env` points to an `Env` of a mailbox that the caller owns, of this state type; the state is there, and no other borrow of it lives.
    #[inline(always)]
    pub(crate) unsafe fn with_state<S, R>(env: *const (), f: impl FnOnce(&mut S) -> R) -> R {
        // SAFETY: the caller's word.
        let Env { core, state } = unsafe { env.cast::<Env>().read() };
        if state.is_null() {
            // SAFETY: the caller's word, and H1.
            unsafe { Block::with_state(core, f) }
        } else {
            // SAFETY: H1: an S was moved there, which is the owner's (B1).
            f(unsafe { &mut *state.cast::<S>() })
        }
    }
}

/// Puts the state back.
struct Back<'a> {
    core: *const Core,
    state: *const u8,
    moves: &'a Move,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // SAFETY: H1: it was moved out of there, and what the turns have left is an S still.
        unsafe { (self.moves.back)(self.core, self.state) };
    }
}
