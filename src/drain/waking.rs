//! Waking a turn that waits ([`crate::cell::turn`]).
//!
//! A wake takes the owner out of the turn, puts the turn's node before all that waits in the mailbox,
//! and leaves the mailbox where it is to be run. It polls nothing, and drops no future: wakers are
//! called under other people's locks. Inside a turn, the mailbox goes on this thread's list, as that
//! of an actor that is sent to does; else to the actor's executor. An executor that drops the drain,
//! or runs it in the call, leaves the mailbox to the fallback, or until after the turn.
//!
//! - T2: whoever takes an owner out of a turn leaves its mailbox pending, in the same call.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::context::{Leaves, Local, with_local};
use super::deferred::{defer, drain, hand_off, settle};
use super::schedule::hand_over;
use crate::cell::header::{AWAITS, STOP};
use crate::cell::owner::{Owner, Resting};
use crate::cell::refs::Ref;
use crate::cell::turn::{Keeper, TurnPtr};

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

/// Calls `f` with a waker of this turn, which its owner runs. It is lent: who keeps it, clones it.
#[inline]
pub(crate) fn with_waker<R>(turn: TurnPtr, f: impl FnOnce(&Waker) -> R) -> R {
    // SAFETY: it is not dropped, so it counts for nothing; the owner keeps the turn meanwhile. The
    // functions keep the contract of a waker: they count (W2), and may be called on any thread.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw(turn)) });
    f(&waker)
}

/// Is it the waker of a turn that waits? Then nobody sleeps who waits by it.
pub(crate) fn is_turn(waker: &Waker) -> bool {
    std::ptr::eq(waker.vtable(), &raw const VTABLE)
}

fn raw(TurnPtr(core): TurnPtr) -> RawWaker {
    RawWaker::new(core.as_ptr().cast_const().cast(), &VTABLE)
}

/// # Safety
/// `data` is that of such a waker.
unsafe fn turn(data: *const ()) -> TurnPtr {
    // SAFETY: the caller's word.
    TurnPtr(unsafe { NonNull::new_unchecked(data.cast_mut().cast()) })
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: a waker's own functions.
    let turn = unsafe { turn(data) };
    turn.retain_waker();
    raw(turn)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: as above.
    let turn = unsafe { turn(data) };
    if let Some(resting) = turn.release_waker(true) {
        go_on(turn, resting);
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as above.
    let turn = unsafe { turn(data) };
    if let Some(resting) = turn.wake() {
        go_on(turn, resting);
    }
}

unsafe fn release(data: *const ()) {
    // SAFETY: as above.
    let turn = unsafe { turn(data) };
    if let Some(resting) = turn.release_waker(false) {
        go_on(turn, resting);
    }
}

/// An owner is there again, with its turn before all that waits.
fn get_up(turn: TurnPtr, resting: Resting) -> Owner {
    let mut owner = resting.get_up();
    // SAFETY: the owner was in the turn, so that is pending, and it was taken out once.
    owner.put_back(unsafe { turn.node() });
    owner
}

/// Leaves the mailbox of a turn that was woken to whoever is to run it.
fn go_on(turn: TurnPtr, resting: Resting) {
    let owner = get_up(turn, resting);
    with_local(|local| {
        let here = local.leaves() == Leaves::Here;
        if local.in_turn() && here && !owner.header().has_executor() {
            defer(local, owner.leave_scheduled());
        } else if local.in_turn() {
            hand_over(local, owner);
        } else {
            local.leaving(Leaves::Elsewhere, || {
                hand_over(local, owner);
                // What the executor's own code has sent.
                if local.owes_anything() {
                    hand_off(local);
                }
            });
            settle(local);
        }
    });
}

/// Has a turn's future dropped at the await that it is at, or comes to.
pub(crate) fn abort(keeper: &Keeper) {
    if let Some(resting) = keeper.cut() {
        go_on(keeper.turn(), resting);
    }
}

/// Whoever has stopped an actor cuts its turn: what waits is given back here, if it may run here.
pub(crate) fn cut_stopped(local: &Local, cell: &Ref, here: bool) {
    let header = cell.header();
    debug_assert!(header.has(STOP));
    if !header.has(AWAITS) {
        return;
    }
    // W3: the lock is in an allocation that is there on both sides.
    let keeper = header.ext_made().turn.lock().clone();
    let Some(keeper) = keeper else { return };
    if let Some(resting) = keeper.cut() {
        let owner = get_up(keeper.turn(), resting);
        if here && !local.in_turn() && !header.has_executor() {
            drain(local, owner);
        } else {
            hand_over(local, owner);
        }
    }
}
