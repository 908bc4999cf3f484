//! Draining, and what follows when the outermost drain of a thread is over: this thread's list.
//!
//! [`drain`] is the one way into the loop, and [`settle`] the one way out of a thread's outermost
//! turn. A thread that may not run its list, because it is about to block inside a turn, hands it
//! off ([`hand_off`]): to run it on top of the blocked turn would give an order of waiting that the
//! program keeps without a cycle one by the stack.

#![forbid(unsafe_code)]

use super::context::{Local, with_local};
use super::run::drive;
use super::schedule::{hands_off, schedule, schedule_elsewhere};
use crate::budget::{Budget, Meter, Surroundings, Until};
use crate::cell::executor::Drain;
use crate::cell::header::{Header, STOP};
use crate::cell::owner::Owner;
use crate::cell::refs::Ref;
use crate::error::StopCause;
use crate::mailbox::chunk::Row;
use crate::time::MonotonicClock;

/// Drains within the actor's budget.
#[inline]
pub(crate) fn drain(local: &Local, owner: Owner) {
    let meter = within_budget(owner.header());
    drain_by(local, owner, meter);
}

/// Drains for a caller that waits.
pub(crate) fn drain_until(local: &Local, owner: Owner, until: &Until<'_>) {
    drain_by(local, owner, Meter::waiting(until));
}

#[inline]
fn drain_by(local: &Local, owner: Owner, meter: Meter<'_>) {
    drive(local, owner, meter, &mut Row::new());
    settle(local);
}

fn within_budget(header: &Header) -> Meter<'static> {
    Meter::new(header.config().budget.first_look())
}

/// Runs this thread's list, if it has one and is inside no turn.
#[inline(always)]
pub(crate) fn settle(local: &Local) {
    if local.owes() {
        run_deferred(local);
    }
}

#[cold]
#[inline(never)]
fn run_deferred(local: &Local) {
    // Asked here: the good way has one comparison.
    if local.in_turn() {
        return;
    }
    // The list's own work (freeing a cell) is no place for a turn: what it sends is deferred.
    local.run_list(|| {
        // Messages that this thread has sent and runs itself lie in a row, whomever they are for.
        let mut row = Row::new();
        let mut meter = Meter::new(Budget::INLINE.first_look());
        while let Some(cell) = local.next_deferred() {
            if let Some(owner) = cell.take_over() {
                let meter = within_budget(owner.header());
                drive(local, owner, meter, &mut row);
            }
            drop(cell);
            meter.count();
            if meter.is_due() && meter.look(around_list()).is_some() {
                hand_off_limited(local);
                meter = Meter::new(Budget::INLINE.first_look());
            }
        }
    });
}

/// What the budget of a list is measured by.
fn around_list() -> Surroundings<'static> {
    // Each entry is asked in its turn: a list that stays here starts no pool.
    let hands_off = &|| true;
    Surroundings { budget: Budget::INLINE, clock: &MonotonicClock, hands_off, nested: false }
}

/// Schedules this thread's deferred actors, because the thread's budget is spent. Actors with an
/// unlimited budget stay: it says that this thread is to run everything.
#[cold]
fn hand_off_limited(local: &Local) {
    for _ in 0..local.owed() {
        let Some(cell) = local.next_deferred() else { return };
        let header = cell.header();
        if header.config().budget.is_unlimited() || !hands_off(header) {
            local.defer(cell);
        } else {
            schedule(local, &cell);
        }
    }
}

/// Schedules all of this thread's deferred actors: it is about to block, or to leave a turn that it
/// runs on top of another.
pub(crate) fn hand_off(local: &Local) {
    for _ in 0..local.owed() {
        let Some(cell) = local.next_deferred() else { return };
        schedule(local, &cell);
    }
}

/// Sees to it that a pending mailbox is scheduled: for whoever waits for it and must not run it,
/// though its executor may run everything in the call.
pub(crate) fn schedule_if_pending(cell: &Ref) {
    if cell.header().word.load().is_pending() {
        with_local(|local| {
            local.about_to_block(true, || schedule(local, cell));
            settle(local);
        });
    }
}

/// Sees to it that a pending mailbox is run, whoever has promised that before: that thread may be
/// busy for long. What has no executor goes on this thread's list.
pub(crate) fn take_on_if_pending(local: &Local, cell: &Ref) {
    if cell.header().word.load().is_pending() {
        if cell.header().is_executor_only() {
            schedule(local, cell);
        } else {
            local.defer_by(cell.addr(), || cell.clone());
        }
    }
}

/// Gives back, here and now, what waits in a mailbox that was stopped and that nobody runs. No turn
/// is run.
pub(crate) fn give_back_here(local: &Local, cell: &Ref) {
    if !cell.header().has(STOP) {
        return;
    }
    if let Some(owner) = cell.take_over() {
        drain(local, owner);
    }
}

impl Drain {
    /// Runs the mailbox's messages on this thread, within the actor's budget; what is left then
    /// goes back to the executor.
    ///
    /// Inside a turn (on a thread of rayon's that takes a job while it waits in `join`, say) it
    /// runs on top of that turn, and what it sends to idle actors goes to their executors. Inside
    /// [`Executor::execute`](crate::Executor::execute) it is run as soon as the turn that led there
    /// is over.
    pub fn run(mut self) {
        let Some(cell) = Ref::of_drain(&mut self) else { return };
        cell.header().lower_scheduled();
        with_local(|local| {
            if local.is_at_work() {
                if local.is_about_to_block() {
                    // This thread may be about to wait for what it would do after the turn.
                    schedule_elsewhere(local, &cell);
                } else {
                    local.defer(cell);
                }
                return;
            }
            if let Some(owner) = cell.take_over() {
                drain(local, owner);
            }
            if local.in_turn() {
                hand_off(local);
            }
        });
    }
}

impl Drop for Drain {
    #[inline(always)]
    fn drop(&mut self) {
        // Most drains are run or passed on, and nothing is left in them.
        if let Some(cell) = Ref::of_drain(self) {
            dropped_unrun(cell);
        }
    }
}

#[cold]
#[inline(never)]
fn dropped_unrun(cell: Ref) {
    cell.header().lower_scheduled();
    with_local(|local| {
        let Some(owner) = cell.take_over() else { return };
        owner.stop(StopCause::ExecutorGone);
        if local.is_about_to_block() {
            // This thread may be about to wait for what it would do after the turn.
            schedule_elsewhere(local, &owner.leave_pending());
        } else if local.in_turn() {
            local.defer(owner.leave_pending());
        } else {
            // Nobody can go on with it.
            drain_by(local, owner, Meter::unlimited());
        }
    });
}
