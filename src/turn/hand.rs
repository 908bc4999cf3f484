//! The message in hand: every message is run, given back and freed here.
//!
//! It is taken off its mailbox's list first, and lies outside of what may unwind. So a message
//! whose turn panics is dealt with once (MAILBOX-11): it leaves the hand as [`Unwound`].

use crate::cell::resident::Env;
use crate::mailbox::chunk::Row;
use crate::mailbox::node::{Ran, Taken};
use crate::panic::{self, Payload};

/// A message under way, and the right to its mailbox, if that is lent to a loop of many.
pub(super) struct Hand<W>(Option<(W, InHand)>);

#[derive(Clone, Copy)]
struct InHand {
    taken: Taken,
    /// It is run, and not given back.
    runs: bool,
}

/// A message that was run, or given back: its node is left.
#[must_use = "a node that is forgotten is leaked"]
pub(super) struct Used(Taken);

/// A message that has unwound as it was run, or given back.
#[must_use = "what waits for the message has no answer yet"]
pub(super) struct Unwound(InHand);

impl Hand<()> {
    /// Runs a message, or gives it back.
    ///
    /// # Safety
    /// As [`use_up`](Self::use_up).
    #[inline(always)]
    pub(super) unsafe fn run<const PLAIN: bool>(
        &mut self,
        taken: Taken,
        runs: bool,
        env: &Env,
    ) -> (Used, Ran) {
        // SAFETY: passed on.
        let ran = unsafe { self.use_up::<PLAIN>((), taken, runs, env) };
        self.0 = None;
        (Used(taken), ran)
    }
}

impl<W> Hand<W> {
    pub(super) const fn new() -> Self {
        Hand(None)
    }

    /// Runs a message of the mailbox that is lent, and hands that back. The message is read again
    /// with it: neither takes up registers during the turn.
    ///
    /// # Safety
    /// As [`use_up`](Self::use_up).
    #[inline(always)]
    pub(super) unsafe fn run_lent(
        &mut self,
        lent: W,
        taken: Taken,
        env: &Env,
    ) -> Option<(W, Used)> {
        // SAFETY: passed on.
        let _done = unsafe { self.use_up::<true>(lent, taken, true, env) };
        self.0.take().map(|(lent, in_hand)| (lent, Used(in_hand.taken)))
    }

    /// Runs a message, or gives it back. If that unwinds, it stays in hand, for
    /// [`unwound`](Self::unwound).
    ///
    /// # Safety
    /// ENVELOPE-1: the message is one of the mailbox of `env`, which this thread owns, and was
    /// taken off its list just now. If it is PLAIN, its turn cannot wait.
    #[inline(always)]
    unsafe fn use_up<const PLAIN: bool>(
        &mut self,
        lent: W,
        taken: Taken,
        runs: bool,
        env: &Env,
    ) -> Ran {
        self.0 = Some((lent, InHand { taken, runs }));
        // SAFETY: ENVELOPE-1, as the caller vouches: it is used up once, here.
        unsafe {
            match runs {
                true if !PLAIN => return taken.run_any(env.as_ptr()),
                true => taken.run(env.as_ptr()),
                false => taken.discard(env.as_ptr()),
            }
        }
        Ran::Done
    }

    /// Takes the message that has unwound; `None` if no message has.
    pub(super) fn unwound(&mut self) -> Option<(W, Unwound)> {
        self.0.take().map(|(lent, in_hand)| (lent, Unwound(in_hand)))
    }
}

impl Used {
    /// Frees its node.
    #[inline(always)]
    pub(super) fn free(self, row: &mut Row) {
        // SAFETY: the message was moved out, or dealt with as it has unwound. A turn that is
        // suspended has a node of its own. This one is forgotten here.
        unsafe { self.0.free(row) };
    }
}

impl Unwound {
    /// True if it was run; false if it was given back.
    pub(super) fn has_run(&self) -> bool {
        self.0.runs
    }

    /// Informs the one that waits for the message of the panic.
    ///
    /// # Safety
    /// ENVELOPE-1: `env` is one of its mailbox, which this thread owns.
    pub(super) unsafe fn settle(self, env: &Env, payload: Payload) -> Used {
        let InHand { taken, runs } = self.0;
        if runs {
            // SAFETY: ENVELOPE-1, as the caller vouches: `run` has unwound, and this follows once.
            panic::ignore(|| unsafe { taken.panicked(env.as_ptr(), payload) });
        } else {
            panic::discard(payload);
        }
        Used(taken)
    }
}
