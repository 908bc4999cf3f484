//! Cutting a suspended turn from outside, by a stop or by the end of its executor. An abort handle
//! does as a wake does ([`super::waking`]).
//!
//! The step that cuts the turn takes its owner out. Then what waits behind it is given back.

#![forbid(unsafe_code)]

use super::deferred::drain;
use super::run_list::settle;
use crate::cell::header::{AWAITS, ENDED, STOP};
use crate::cell::owner::{Owed, Owner};
use crate::cell::refs::Ref;
use crate::error::StopCause;
use crate::thread::context::{Local, with_local};
use crate::thread::schedule::{enter, hand_over};

/// Cuts the turn of an actor that was stopped, if that is suspended. The mailbox is the caller's:
/// what waits in it is to be given back.
#[must_use = "the mailbox has to be drained, or left to others"]
pub(crate) fn cut_stopped(cell: &Ref) -> Option<Owner> {
    let header = cell.header();
    debug_assert!(header.has(STOP | ENDED));
    if !header.has(AWAITS) {
        return None;
    }
    // TURN-3: the lock is in an allocation that is there on both sides.
    let keeper = header.ext_made().turn.lock().clone();
    Some(keeper?.cut()?.get_up())
}

/// [`cut_stopped`] by a thread that gives back what waits, if it may run here.
pub(crate) fn cut_here(cell: &Ref) {
    let Some(owner) = cut_stopped(cell) else { return };
    with_local(|local| {
        if local.in_turn() || owner.header().has_executor() {
            hand_over(local, owner);
        } else {
            drain(local, owner);
        }
        settle(local);
    });
}

/// [`cut_stopped`] by a thread that leaves what waits to others.
fn cut_elsewhere(local: &Local, cell: &Ref) {
    if let Some(owner) = cut_stopped(cell) {
        hand_over(local, owner);
    }
}

/// Stops an actor whose turn waits, or runs, by one that borrows from that turn.
pub(crate) fn stop_in_turn(cell: &Ref) {
    cell.header().stop(StopCause::Requested);
    with_local(|local| cut_elsewhere(local, cell));
}

/// The executor has ended, and drops what was enrolled there.
pub(super) fn drops_enrolled(local: &Local, cell: &Ref) {
    let header = cell.header();
    if !header.has_begun_turn() {
        return;
    }
    header.stop_because(StopCause::ExecutorGone);
    if let Some(owed) = cell.close_for_entry() {
        if let Owed::Scheduled(entry) = owed {
            enter(local, cell, entry);
        }
        header.refuse_waiters();
    }
    cut_elsewhere(local, cell);
}
