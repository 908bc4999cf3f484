//! The steps of a thread before it blocks inside a turn.
//!
//! A turn that sends to idle actors promises to run them when it is over (MAILBOX-9,
//! [`crate::thread::context`]).
//! If it blocks before, and what it waits for depends on one of them, it would wait for ever. So a
//! turn that is about to sleep hands its promises to their executors
//! ([`hand_off`]).
//!
//! The worker of a pool has more to give away: the drains that wait behind the turn, one of which
//! it may be waiting for. Its pool compensates for it ([`crate::pool`]).

#![forbid(unsafe_code)]

use std::panic::resume_unwind;
use std::task::Waker;

use super::deferred::schedule_if_pending;
use super::run_list::settle;
use super::waking::is_turn;
use crate::cell::refs::Ref;
use crate::error::Cycle;
use crate::fallback;
use crate::panic;
use crate::pool::{Away, Reserved, WouldBlock, reserve};
use crate::thread::context::{Leaves, Local, with_local};
use crate::thread::ends;
use crate::thread::list::{hand_off, schedule_for_others, take_on_if_pending};
use crate::thread::waits_for::{circle_of_turn, own_circle};
use crate::wait_list::call_put_off;

/// The list of a thread inside a turn is closed, whatever a clock's code sends; until this is
/// dropped. Holds what the list was before.
struct ClosedList(Option<Leaves>);

impl Drop for ClosedList {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            with_local(|local| local.leave_to(before));
        }
    }
}

/// Runs `sleep` when everything is given away, this thread's place by `away`: on a worker of a
/// tokio runtime, what executors have spawned is, too, also what they have spawned as the list was
/// closed.
pub(crate) fn leave<R>(local: &Local, away: impl FnOnce() -> Away, sleep: impl FnOnce() -> R) -> R {
    ends::hand_over(local);
    // In this order: what is scheduled goes into the slot that is shared afterwards.
    let _list = close_list(local);
    let _place = away();
    fallback::block(sleep)
}

/// Schedules what this thread has deferred, if it is inside a turn, and closes its list: it is
/// about to sleep. Calls the wakers that it has put off.
fn close_list(local: &Local) -> ClosedList {
    call_put_off();
    let before = local.in_turn().then(|| {
        let before = local.leave_to(Leaves::Blocks);
        if local.owes_anything() {
            hand_off(local);
        }
        before
    });
    ClosedList(before)
}

/// [`close_list`] for a thread that may be about to sleep; the list is as it was afterwards.
fn before_sleep(local: &Local) {
    let _list = close_list(local);
    // Outside of turns, a poll is no reason to spawn anything.
    if local.in_turn() {
        fallback::before_block();
    }
}

/// Runs `f`, which sends or ends actors, and schedules what that leaves for this thread to do, with
/// all that it has deferred before: this thread is about to sleep. What an executor leaves here all
/// the same is run when this thread is inside no turn.
pub(crate) fn leave_to_others<R>(f: impl FnOnce(&Local) -> R) -> R {
    with_local(|local| {
        let result = local.work(|| {
            let result = f(local);
            before_sleep(local);
            result
        });
        settle(local);
        result
    })
}

/// [`before_sleep`] for a task that is about to be left pending. A turn that waits keeps no thread:
/// what this one has deferred is run when the turn has returned.
pub(crate) fn before_pending(waker: &Waker) {
    with_local(|local| {
        if !lies_down(local, waker) {
            ends::hand_over(local);
            before_sleep(local);
        }
    });
}

/// [`before_pending`] for a task that waits for this mailbox, which is run meanwhile if it is
/// pending.
pub(crate) fn before_pending_for(waker: &Waker, cell: &Ref) {
    with_local(|local| {
        if lies_down(local, waker) {
            return take_on_if_pending(local, cell);
        }
        ends::hand_over(local);
        before_sleep(local);
        schedule_if_pending(cell);
    });
}

/// Runs `f`, by which a future of this crate gives a handle up in its poll. If the actor ends with
/// it, others see to that; inside a turn, this thread does when the turn is over.
pub(crate) fn in_poll<R>(f: impl FnOnce() -> R) -> R {
    with_local(|local| {
        let result = panic::catch(|| local.work(f));
        schedule_for_others(local, || ());
        settle(local);
        result.unwrap_or_else(|payload| resume_unwind(payload))
    })
}

/// The circle that a task would close that waits for something of this mailbox. A thread that is
/// inside of its turn waits for ever; a turn that waits keeps no thread.
pub(crate) fn circle_of_task(waker: &Waker, mailbox: usize) -> Option<Cycle> {
    with_local(|local| match lies_down(local, waker) {
        true => circle_of_turn(local, mailbox),
        false => own_circle(local, mailbox),
    })
}

/// True if it is a turn of this thread's that is about to wait.
fn lies_down(local: &Local, waker: &Waker) -> bool {
    is_turn(waker) && local.in_turn() && !local.is_at_work()
}

/// [`leave`], if this thread may sleep.
pub(crate) fn relieve<R>(sleep: impl FnOnce() -> R) -> Result<R, WouldBlock> {
    let reserved = reserve()?;
    Ok(with_local(|local| leave(local, || reserved.leave(), sleep)))
}

/// [`leave`] for a sleep that this crate cannot refuse.
pub(crate) fn relieve_anyway<R>(sleep: impl FnOnce() -> R) -> R {
    let reserved = reserve();
    let away = || reserved.map_or_else(|WouldBlock| Away::sharing(), Reserved::leave);
    with_local(|local| leave(local, away, sleep))
}
