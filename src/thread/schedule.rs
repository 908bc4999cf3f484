//! Getting a pending mailbox to another thread (MAILBOX-8).
//!
//! A mailbox has one *entry* ([`Scheduled`]) at most, and SCHEDULED in its word says that it is
//! out. The step that leaves the mailbox pending, or leaves a message in a pending one, raises
//! SCHEDULED; who has raised it puts the entry where the mailbox is at home: in its executor, if
//! that alone runs it, else in the thread's list. The step that takes the mailbox over by the entry
//! lowers SCHEDULED. If the mailbox is not pending then, the entry is stale and does nothing.
//!
//! What goes elsewhere goes without the entry: an actor of a thread's list whose messages were
//! posted, or whose drain has spent its budget, by a drain of its own (POSTED beside the word, and
//! a reference).
//!
//! A drain goes to the actor's executor; to the fallback ([`crate::fallback`]), if there is none or
//! it has refused [`ATTEMPTS`] times. So it always gets somewhere, and the one that submits it
//! never waits.
//!
//! - SCHEDULE-1: from the step that left it pending until it is taken over, a mailbox has its entry
//!   or a hint in a thread's list or an executor, or a thread is about to put one there, or to run
//!   it: a shutdown that has closed it from idle.

#![forbid(unsafe_code)]

use super::context::{Leaves, Local};
use crate::cell::executor::Drain;
use crate::cell::header::Header;
use crate::cell::owner::Owner;
use crate::cell::refs::{Queued, Ref, Scheduled};
use crate::error::StopCause;
use crate::fallback;
use crate::panic;
use crate::pool;
use crate::sync::thread;

/// The number of times that an executor is asked before the fallback is.
const ATTEMPTS: u32 = 3;

/// True if another thread can go on with this actor.
pub(crate) fn hands_off(header: &Header) -> bool {
    header.config().executor.is_some() || !fallback::is_closed()
}

/// True if the executor that this actor depends on is gone.
pub(crate) fn is_executor_gone(header: &Header) -> bool {
    let Some(executor) = header.config().executor.as_deref() else { return false };
    panic::catch(|| executor.is_closed()).map_err(panic::discard).unwrap_or(false)
}

/// True if this actor's drain, whose budget is spent, would come back to this thread at once.
pub(crate) fn goes_on(header: &Header) -> bool {
    let Some(executor) = header.config().executor.as_deref() else { return false };
    pool::goes_on(|pool| executor.is(pool))
}

/// Sees to it that a drain is out for a pending mailbox, which `kept` keeps meanwhile. On a thread
/// that is inside no turn, [`settle`](crate::turn::run_list::settle) follows.
pub(crate) fn schedule(local: &Local, kept: &Ref) {
    if kept.header().has_executor() {
        if let Some(entry) = kept.schedule() {
            enter(local, kept, entry);
        }
    } else if kept.header().raise_posted() {
        let drain = Queued::Hint(kept.clone()).into_drain();
        local.execute(|| submit(kept.header(), drain));
    }
}

/// Takes the mailbox over that a drain stands for. POSTED of a drain without the entry is lowered
/// first: a message whose sender has found it raised is seen by the take-over.
pub(crate) fn take_over(drain: Queued) -> Option<Owner> {
    match drain {
        Queued::Entry(entry) => entry.take_over(),
        Queued::Hint(cell) => {
            cell.header().lower_posted();
            cell.take_over()
        }
    }
}

/// A reference in place of a drain, whose mailbox is left to the caller; `None` if there is nothing
/// to run.
pub(crate) fn take_off(drain: Queued) -> Option<Ref> {
    if let Queued::Hint(cell) = &drain {
        cell.header().lower_posted();
    }
    drain.into_ref()
}

/// Leaves the mailbox pending, for another thread: where it is at home. On a thread that is inside
/// no turn, [`settle`](crate::turn::run_list::settle) follows.
pub(crate) fn hand_over(local: &Local, owner: Owner) {
    if !owner.header().has_executor() {
        return schedule(local, &owner.leave_pending());
    }
    let kept = owner.to_ref();
    match owner.leave_scheduled() {
        Queued::Entry(entry) => enter(local, &kept, entry),
        // Unless its entry was used up meanwhile, that comes back to it.
        Queued::Hint(cell) => schedule(local, &cell),
    }
}

/// Puts the entry of an actor that its executor alone runs there.
#[inline(always)]
pub(crate) fn enter(local: &Local, kept: &Ref, entry: Scheduled) {
    let drain = Queued::Entry(entry).into_drain();
    // Whatever the executor does in this call, nothing runs on top of it.
    local.execute(|| submit(kept.header(), drain));
}

/// Sends a pending mailbox to the fallback, because its executor is gone or runs everything in the
/// call, and this thread must not run it.
pub(crate) fn schedule_elsewhere(local: &Local, kept: &Ref) {
    if kept.header().raise_posted() {
        let drain = Queued::Hint(kept.clone()).into_drain();
        let submit = || panic::ignore(|| fallback::execute(drain));
        local.leaving(Leaves::Here, || local.work(submit));
    }
}

/// Gives a drain to the first that takes it. An executor that panics has dropped it.
fn submit(header: &Header, mut drain: Drain) {
    if let Some(executor) = header.config().executor.as_deref() {
        for attempt in 1..=ATTEMPTS {
            drain = match panic::catch(|| executor.try_execute(drain)) {
                Ok(Err(refused)) => refused,
                Ok(Ok(())) => return,
                Err(payload) => return panic::discard(payload),
            };
            if attempt < ATTEMPTS {
                thread::yield_now();
            }
        }
    }
    panic::ignore(|| fallback::execute(drain));
}

/// Sees to it that the end of the executor is seen while a turn of this actor is suspended. False
/// if the executor is gone: the actor was stopped.
///
/// The turn is registered before (TURN-3), and an executor is closed before it drops what is
/// enrolled. So either that finds the turn, or this finds the executor closed.
pub(crate) fn enrolls(owner: &Owner) -> bool {
    let header = owner.header();
    let Some(executor) = header.config().executor.as_deref() else { return true };
    let mut has_ended = false;
    if let Some(enrolled) = executor.enrolled().filter(|_| header.must_enroll()) {
        let drain = owner.to_ref().into_enrolled();
        if let Err(mut refused) = enrolled.enroll(drain.number(), drain) {
            drop(Ref::of_enrolled(&mut refused));
            has_ended = true;
        }
    }
    if has_ended || is_executor_gone(header) {
        owner.stop(StopCause::ExecutorGone);
        return false;
    }
    true
}
