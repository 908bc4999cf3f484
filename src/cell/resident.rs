//! The place of the state during a turn, and the environment of a message's functions ([`Env`]).
//!
//! A small state lies in the line of the mailbox's word, so that two threads which alternate on one
//! actor move one line and not two. But an owner that runs many messages in a row would lose that
//! line to every sender that pushes meanwhile. So for the length of a private list the owner takes
//! a small state into its own frame, and puts it back before anything else happens to the mailbox:
//! before it takes the next list, releases, leaves it pending, recovers from a panic or ends the
//! actor. Nothing can tell, for between two turns a state may move.
//!
//! - RESIDENT-1: the state is in the cell whenever [`Env::within`] is not on the owner's stack.
//!   Within it, the bytes in the cell are not a state.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::config::UndeliveredHook;
use super::header::{CellPtr, Header, Held};
use super::refs::{Ref, Strong, Weak};
use super::settings::Move;
use super::typed::Cell;
use crate::error::StopCause;
use crate::sync::config::HOME;

#[repr(C, align(64))]
struct HomeBytes(MaybeUninit<[u8; HOME]>);

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
    /// `moves` belongs to the owner's state type, the state is there (HEADER-1), and `f` does
    /// nothing to the mailbox but run its messages.
    #[inline(always)]
    pub(crate) unsafe fn within<O: Held, R>(
        owner: &mut O,
        moves: Option<&Move>,
        f: impl FnOnce(&mut O, &Env) -> R,
    ) -> R {
        let cell = owner.cell();
        let Some(moves) = moves else { return f(owner, &Env::of(cell)) };
        let mut frame = MaybeUninit::<HomeBytes>::uninit();
        let state = frame.as_mut_ptr().cast::<u8>();
        // SAFETY: RESIDENT-1: it is in the cell, and fits into the frame: `MOVES` is of its type.
        unsafe { (moves.out)(cell, state) };
        let _back = Back { cell, state, moves };
        f(owner, &Env { cell, state })
    }

    /// As a message gets it.
    pub(crate) fn as_ptr(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// From what a message got.
    ///
    /// # Safety
    /// `env` points to an `Env` of a mailbox that this thread owns for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(env: *const ()) -> &'a Env {
        // SAFETY: it points to one, in the owner's frame.
        unsafe { &*env.cast::<Env>() }
    }

    pub(crate) fn cell(&self) -> *const Header {
        self.cell
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: OWNER-1: the owner keeps the cell, for as long as it hands this on.
        unsafe { &*self.cell }
    }

    /// True if the state is in its cell.
    pub(crate) fn is_in_cell(&self) -> bool {
        self.state.is_null()
    }
}

/// The mailbox that a message is run, or given back, in: what its functions are handed.
pub(crate) struct Place<'a, S> {
    env: &'a Env,
    of: PhantomData<fn(S) -> S>,
}

impl<'a, S> Place<'a, S> {
    /// # Safety
    /// `env` points to the [`Env`] of a mailbox whose state is an S, which this thread owns for
    /// `'a`. The state is there, and nothing else borrows it.
    #[inline(always)]
    pub(crate) unsafe fn of(env: *const ()) -> Self {
        // SAFETY: this thread owns the mailbox of that `Env` for `'a`, which is there as long.
        Place { env: unsafe { Env::at(env) }, of: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &'a Header {
        self.env.header()
    }

    /// The actor, seen from inside of its turn.
    #[inline(always)]
    pub(crate) fn in_turn(&self) -> InTurn<'a, S> {
        // SAFETY: it is this thread's, of this state type, for as long.
        unsafe { InTurn::new(self.env.cell) }
    }

    pub(crate) fn on_undelivered(&self) -> Option<&'a UndeliveredHook<S>> {
        // SAFETY: OWNER-1: the owner keeps the cell, which is of this state type.
        unsafe { Cell::<S>::typed(self.env.cell) }.on_undelivered()
    }

    #[inline(always)]
    pub(crate) fn with_state<R>(&mut self, f: impl FnOnce(&mut S) -> R) -> R {
        let Env { cell, state } = *self.env;
        // SAFETY: HEADER-1, RESIDENT-1: the state is the owner's, and borrowed by nothing else. It
        // is in the cell, or an S was moved to where `state` points.
        unsafe {
            if state.is_null() { Cell::with_state(cell, f) } else { f(&mut *state.cast::<S>()) }
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
        // SAFETY: RESIDENT-1: it was moved out of there, and what the turns have left is an S
        // still.
        unsafe { (self.moves.back)(self.cell, self.state) };
    }
}

/// The actor whose turn is under way, seen from inside.
pub(crate) struct InTurn<'a, S> {
    cell: CellPtr,
    turn: PhantomData<&'a ()>,
    of: PhantomData<fn(S) -> S>,
}

impl<'a, S> InTurn<'a, S> {
    /// # Safety
    /// This thread runs a turn of the mailbox of `cell`, of this state type, for as long as `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(cell: *const Header) -> Self {
        // SAFETY: the cell of a turn that is under way has an address, and is kept by its owner
        // (OWNER-1) for as long as the result is there.
        let cell = unsafe { CellPtr::new(NonNull::new_unchecked(cell.cast_mut())) };
        InTurn { cell, turn: PhantomData, of: PhantomData }
    }

    pub(crate) fn header(&self) -> &'a Header {
        // SAFETY: OWNER-1: the turn's owner keeps the cell for as long as `'a`.
        unsafe { &*self.cell.as_ptr() }
    }

    pub(crate) fn weak(&self) -> Weak<S> {
        // SAFETY: the state is an S, as the caller of `new` vouches.
        unsafe { Weak::of(Ref::retain(&self.cell)) }
    }

    /// A handle, unless all are gone.
    pub(crate) fn handle(&self) -> Option<Strong<S>> {
        self.weak().upgrade()
    }

    /// Stops the actor after this turn.
    pub(crate) fn stop(&self) {
        self.header().stop(StopCause::Requested);
    }
}
