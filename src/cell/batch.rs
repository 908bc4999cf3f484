//! The end of a batch.
//!
//! A **batch** goes from an owner's first turn to the moment at which its private list is at its
//! end, or at which it lets go with a rest of it left (out of budget, or giving way to this
//! thread's list). What arrives meanwhile belongs to the next batch. So a batch is finite, whatever
//! is sent, and it is over before the mailbox is released, left pending, or looked at for more.
//!
//! - P1: the hook is called by the owner, between two turns, and does not unwind: a panic goes to
//!   the panic hook and the policy ([`Owner::end_batch`]).
//! - P2: a batch with a turn ends once, before the mailbox is let go, also if it was stopped.

#![forbid(unsafe_code)]

use super::owner::Owner;

/// The batch of one owner.
#[derive(Default)]
pub(crate) struct Hooked {
    /// A message has come.
    begun: bool,
    turns: u64,
    given_back: u64,
}

impl Hooked {
    /// Counts the turn that comes; false if the actor has stopped, so that there is none.
    pub(crate) fn before_turn(&mut self, owner: &Owner) -> bool {
        self.begun = true;
        let runs = !owner.is_stopped();
        self.turns += u64::from(runs);
        runs
    }

    /// A message is given back in place of a turn.
    pub(crate) fn gives_back(&mut self) {
        self.given_back += 1;
    }

    /// Ends a batch that has begun: the next turn begins another one.
    #[inline]
    pub(crate) fn end(&mut self, owner: &mut Owner) {
        if self.begun {
            let Hooked { turns, given_back, .. } = std::mem::take(self);
            if turns > 0 {
                owner.end_batch(turns);
            }
            owner.header().report_batch(turns, given_back);
        }
    }
}
