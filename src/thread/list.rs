//! This thread's list: what is put there, and how it is given away.

#![forbid(unsafe_code)]

use super::context::{Far, Local};
use super::schedule::{schedule, schedule_elsewhere};
use crate::cell::refs::{Queued, Ref, Scheduled};

/// Puts a pending mailbox at the end of this thread's list; a hint among the hints, unless the
/// mailbox is known to stand somewhere. A thread that is about to sleep schedules it instead.
#[inline]
pub(crate) fn defer(local: &Local, queued: Queued) {
    match queued {
        Queued::Entry(entry) => defer_entry(local, entry),
        Queued::Hint(cell) => hint_by(local, cell.addr(), || cell),
    }
}

/// [`defer`] for an entry.
#[inline]
pub(crate) fn defer_entry(local: &Local, entry: Scheduled) {
    local.append(Queued::Entry(entry), |far| append_far(local, far));
}

#[cold]
#[inline(never)]
fn append_far(local: &Local, far: Far) {
    if !local.append_far(far) {
        hand_off(local);
    }
}

/// [`defer`] for a hint, with a reference that is made if it is needed.
#[inline]
pub(crate) fn hint_by(local: &Local, mailbox: usize, cell: impl FnOnce() -> Ref) {
    if !local.hint_by(mailbox, cell) {
        hand_off(local);
    }
}

/// The rounds in which a list is handed off that executors' code fills meanwhile; its actors then
/// go to the fallback.
const ROUNDS: u32 = 4;

/// Schedules all of this thread's deferred actors: it is about to block, or to leave a turn that it
/// runs on top of another. That calls executors, and what their code defers meanwhile goes the same
/// way: the list is empty afterwards, unless no thread can be had that would run what is left.
#[cold]
pub(crate) fn hand_off(local: &Local) {
    for _ in 0..ROUNDS {
        for _ in 0..local.owed() {
            let Some(cell) = local.next_deferred().and_then(Queued::into_ref) else { continue };
            schedule(local, &cell);
        }
        if !local.owes_anything() {
            return local.tidy();
        }
    }
    // What a fallback without threads gives back in the call stays on the list.
    for _ in 0..local.owed() {
        if let Some(cell) = local.next_deferred().and_then(Queued::into_ref) {
            schedule_elsewhere(local, &cell);
        }
    }
    local.tidy();
}

/// Schedules by `f` what this thread must not run, also if the executor runs it in the call, or
/// sends it to an actor that does.
pub(crate) fn schedule_for_others(local: &Local, f: impl FnOnce()) {
    local.leaving_elsewhere(|| {
        f();
        // What the executor's own code has sent. Inside a turn it comes after that.
        if !local.in_turn() && local.owes_anything() {
            hand_off(local);
        }
    });
}

/// Sees to it that a pending mailbox is run, though it may be promised already: that thread may be
/// busy for long. What has no executor goes on this thread's list.
pub(crate) fn take_on_if_pending(local: &Local, cell: &Ref) {
    if cell.header().word.load().is_pending() {
        if cell.header().has_executor() {
            schedule(local, cell);
        } else {
            hint_by(local, cell.addr(), || cell.clone());
        }
    }
}
