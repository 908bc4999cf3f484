//! Waking a turn that waits ([`crate::cell::turn`]).
//!
//! A wake takes the owner out of the turn, puts the turn's node before all that waits in the
//! mailbox, and leaves the mailbox where it is to be run. It polls nothing, and drops no future:
//! wakers are called under other people's locks. Inside a turn, the mailbox goes on this thread's
//! list, as that of an actor that is sent to does, unless the thread is that of timers; else to the
//! actor's executor. An executor that drops the drain, or runs it in the call, leaves the mailbox
//! to the fallback, or until after the turn.
//!
//! - WAKING-1: the call that takes an owner out of a turn leaves its mailbox pending.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::run_list::settle;
use crate::cell::turn::{Core, Keeper, TurnMut, WokenTurn};
use crate::thread::context::{Leaves, with_local};
use crate::thread::list::{defer, schedule_for_others};
use crate::thread::schedule::hand_over;
use crate::time::timers::serves_timers;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

/// Calls `f` with a waker of this turn. It is lent: a future that keeps it, clones it.
#[inline]
pub(crate) fn with_waker<R>(turn: &TurnMut, f: impl FnOnce(&Waker) -> R) -> R {
    let raw = RawWaker::new(turn.core().as_ptr().cast_const().cast(), &VTABLE);
    // SAFETY: it is not dropped, so it counts for nothing; the turn is kept for the call. The
    // functions keep the contract of a waker: they count (TURN-2), and may be called on any thread.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
    f(&waker)
}

/// True for the waker of a turn that waits: no thread sleeps by it.
pub(crate) fn is_turn(waker: &Waker) -> bool {
    std::ptr::eq(waker.vtable(), &raw const VTABLE)
}

/// # Safety
/// `data` is that of such a waker.
unsafe fn core(data: *const ()) -> NonNull<Core> {
    // SAFETY: `with_waker` has made it of the address of a turn.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: TURN-2: the waker that is cloned counts, or its turn is kept for the call.
    unsafe { core(data).as_ref() }.retain_waker();
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: a waker that is woken by value is a counted one, and is gone with this.
    unsafe { Core::release_waker(core(data), true) }.into_iter().for_each(go_on);
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: TURN-2: the waker that is borrowed here counts, or its turn is kept for the call.
    unsafe { core(data).as_ref() }.wake().into_iter().for_each(go_on);
}

unsafe fn release(data: *const ()) {
    // SAFETY: a waker that is dropped is a counted one.
    unsafe { Core::release_waker(core(data), false) }.into_iter().for_each(go_on);
}

/// Leaves the mailbox of a turn that was woken where it is to be run.
fn go_on(woken: WokenTurn) {
    let owner = woken.get_up();
    with_local(|local| {
        let here = local.in_turn() && local.leaves() == Leaves::Here;
        // What goes on after an await may take long, and other timers with it.
        if here && !owner.header().has_executor() && !serves_timers() {
            defer(local, owner.leave_scheduled());
        } else if local.in_turn() {
            hand_over(local, owner);
        } else {
            schedule_for_others(local, || hand_over(local, owner));
            settle(local);
        }
    });
}

/// Has a turn's future dropped at the await that it is at, or comes to.
pub(crate) fn abort(keeper: &Keeper) {
    keeper.cut().into_iter().for_each(go_on);
}
