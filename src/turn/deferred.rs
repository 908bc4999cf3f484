//! Draining, and what follows when the outermost drain of a thread is over: this thread's list.
//!
//! [`drain`] is the one way into the loop, and [`settle`] the one way out of a thread's outermost
//! turn. A thread that may not run its list, because it is about to block inside a turn, hands it
//! off ([`hand_off`]): to run it on top of the blocked turn would give an order of waiting that the
//! program keeps without a cycle one by the stack.

#![forbid(unsafe_code)]

use super::cut::drops_enrolled;
use super::run::{drive, within_budget};
use super::run_list::{run_list, settle};
use crate::budget::{Meter, Until};
use crate::cell::executor::Drain;
use crate::cell::header::STOP;
use crate::cell::owner::Owner;
use crate::cell::refs::{Queued, Ref};
use crate::error::StopCause;
use crate::fallback;
use crate::mailbox::chunk::Row;
use crate::panic;
use crate::thread::context::{Leaves, Local, with_local};
use crate::thread::list::{defer, hand_off};
use crate::thread::schedule::{schedule, schedule_elsewhere, take_off, take_over};

/// Drains within the actor's budget.
#[inline]
pub(crate) fn drain(local: &Local, owner: Owner) {
    let meter = within_budget(owner.header());
    drain_by(local, owner, meter);
}

/// Drains for a caller that waits. If it is to wait on, or its time is over, others run what was
/// sent meanwhile.
pub(crate) fn drain_until(local: &Local, owner: Owner, until: &Until<'_>) {
    let drives = || {
        drive(local, owner, Meter::waiting(until), &mut Row::new());
        let owes = local.owes_anything() && !local.in_turn();
        if owes && (until.is_over() || !(until.done)()) && !fallback::is_closed() {
            hand_off(local);
        }
        settle(local);
    };
    // A wait with a limit lets the turn below go on by itself.
    if until.deadline.is_never() { local.wait(drives) } else { drives() }
}

#[inline]
fn drain_by(local: &Local, owner: Owner, meter: Meter<'_>) {
    drive(local, owner, meter, &mut Row::new());
    settle(local);
}

/// Sees to it that a pending mailbox is scheduled: for one that waits for it and must not run it,
/// though its executor may run everything in the call.
pub(crate) fn schedule_if_pending(cell: &Ref) {
    if cell.header().word.load().is_pending() {
        with_local(|local| {
            local.leaving(Leaves::Blocks, || schedule(local, cell));
            settle(local);
        });
    }
}

/// Gives back, here and now, what waits in a mailbox that was stopped and is not run. No turn
/// is run.
pub(crate) fn give_back_here(local: &Local, cell: &Ref) {
    if cell.header().has(STOP) {
        run_here(local, cell);
    }
}

/// Runs a mailbox here and now, if it is pending.
pub(crate) fn run_here(local: &Local, cell: &Ref) {
    if let Some(owner) = cell.take_over() {
        drain(local, owner);
    }
}

/// Runs drains one after the other, on a thread that is inside no turn: `first`, and for as long as
/// there are, what `next` has.
pub(super) fn run_drains(first: Drain, mut next: impl FnMut() -> Option<Drain>) {
    let mut first = first;
    let Some(first) = Queued::of_drain(&mut first) else { return };
    let next = || next().and_then(|mut drain| Queued::of_drain(&mut drain));
    with_local(|local| run_list(local, Some(first), next));
}

impl Drain {
    /// Runs the mailbox's messages on this thread, within the actor's budget; what is left then
    /// goes back to the executor.
    ///
    /// Inside a turn (on a thread of rayon's that takes a job while it waits in `join`, say) it
    /// runs on top of that turn, and what it sends to idle actors goes to their executors. Inside
    /// [`Executor::execute`](crate::Executor::execute), also in a turn that is run there, it is run
    /// as soon as the turn that led there is over. If that turn is about to wait, the drain goes to
    /// [`ThreadPool::global`](crate::ThreadPool::global) instead, as one that was refused does.
    pub fn run(mut self) {
        let Some(queued) = Queued::of_drain(&mut self) else { return };
        with_local(|local| {
            if !local.in_turn() {
                return run_list(local, Some(queued), || None);
            }
            if local.defers_drains() {
                let Some(cell) = take_off(queued) else { return };
                if local.leaves() != Leaves::Here {
                    // This thread may be about to wait for what it would do after the turn, or
                    // must not run it.
                    schedule_elsewhere(local, &cell);
                } else {
                    defer(local, Queued::Hint(cell));
                }
                return;
            }
            if let Some(owner) = take_over(queued) {
                drain(local, owner);
            }
            hand_off(local);
        });
    }
}

impl Drop for Drain {
    #[inline(always)]
    fn drop(&mut self) {
        // Most drains are run or passed on, and nothing is left in them.
        if self.entry().is_some() {
            dropped_unrun(self);
        }
    }
}

/// Drops the drains of an executor that has ended. All of their actors stop before the first one
/// ends here, for a hook may wait for another actor. This thread hands the others over if it
/// blocks.
pub(crate) fn drop_drains(drains: impl Iterator<Item = Drain>) {
    with_local(|local| {
        local.work(|| drains.for_each(|drain| panic::ignore(|| drop(drain))));
        settle(local);
    });
}

#[cold]
#[inline(never)]
fn dropped_unrun(drain: &mut Drain) {
    if let Some(cell) = Ref::of_enrolled(drain) {
        return with_local(|local| {
            drops_enrolled(local, &cell);
            settle(local);
        });
    }
    let Some(queued) = Queued::of_drain(drain) else { return };
    with_local(|local| {
        let Some(mut owner) = take_over(queued) else { return };
        local.enter(&mut owner, |owner| {
            owner.stop(StopCause::ExecutorGone);
        });
        if local.leaves() != Leaves::Here {
            // This thread may be about to wait for what it would do after the turn, or must not
            // run it.
            schedule_elsewhere(local, &owner.leave_pending());
        } else if local.in_turn() {
            defer(local, Queued::Hint(owner.leave_pending()));
        } else {
            // No other thread can go on with it.
            drain_by(local, owner, Meter::unlimited());
        }
    });
}
