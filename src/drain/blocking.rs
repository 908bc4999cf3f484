//! What a thread does before it blocks inside a turn.
//!
//! A turn that sends to idle actors promises to run them when it is over (R9, [`super::context`]).
//! If it blocks before, and what it waits for depends on one of them, it would wait for ever. So a
//! turn that is about to sleep hands its promises to their executors
//! ([`super::deferred::hand_off`]).
//!
//! The worker of a pool has more to give away: the drains that wait behind the turn, one of which
//! it may be waiting for. Its pool compensates for it ([`Compensation`]), as ForkJoinPool's managed
//! blockers do: the pool is asked before the wait, so that a thread stands by (or the wait is
//! refused), and told when it is over.
//!
//! - P1: a pool's worker stays where it is until the thread is no worker any more.

use std::cell::Cell;
use std::ptr::NonNull;
use std::task::Waker;

use super::context::{Leaves, Local, with_local};
use super::deferred::{hand_off, schedule_if_pending, settle, take_on_if_pending};
use super::waits_for;
use super::waking::{is_turn, polled_by};
use crate::FALLBACK;
use crate::cell::executor::ThisPool;
use crate::cell::header::Header;
use crate::cell::refs::Ref;
use crate::error::Cycle;
use crate::sync::{hint, thread_plain};

/// The wait is refused: nobody could take over this worker's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WouldBlock;

/// A worker of a pool, as the thread that is one sees it.
pub(crate) trait Compensation {
    /// Sees to it that a thread stands by. False: there is nothing to take over.
    fn reserve(&self) -> Result<bool, WouldBlock>;
    /// The thread that stands by is not needed.
    fn cancel(&self);
    /// This thread is about to sleep: the one that stands by takes over. The answer is for
    /// [`come_back`](Self::come_back); there is none if there is nothing to take over any more.
    fn leave(&self) -> Option<u64>;
    /// This thread is awake again.
    fn come_back(&self, left: u64);
    /// This thread is about to sleep, and nobody takes over: others may take what they can.
    fn share(&self);
    /// Has this thread nothing else to do, and is it worth its while to wait a moment for the next
    /// message of an actor?
    fn lingers(&self) -> bool;
    /// Whose worker it is.
    fn pool(&self) -> ThisPool;
    /// The drain that this thread runs has spent its budget: does it begin the next one with the
    /// same actor, because nothing else waits for it?
    fn goes_on(&self) -> bool;
    /// It has waited, and a message has come, or none.
    fn has_lingered(&self, for_one: bool);
}

thread_plain! {
    static WORKER: Cell<Option<NonNull<dyn Compensation>>> = Cell::new(None);
}

/// Runs `f` with this thread as that worker.
pub(crate) fn on_worker<R>(worker: &(dyn Compensation + 'static), f: impl FnOnce() -> R) -> R {
    struct Leaves;
    impl Drop for Leaves {
        fn drop(&mut self) {
            WORKER.with(|at| at.set(None));
        }
    }
    WORKER.with(|at| at.set(Some(NonNull::from(worker))));
    let _leaves = Leaves;
    f()
}

fn worker() -> Option<&'static dyn Compensation> {
    // SAFETY: P1: borrowed during `on_worker`, which is below us on this thread's stack; what is
    // made of it stays on the stack too.
    WORKER.with(Cell::get).map(|worker| unsafe { worker.as_ref() })
}

/// A thread stands by, if one is needed: this one may go to sleep.
#[must_use]
pub(crate) struct Reserved(Option<&'static dyn Compensation>);

/// This thread sleeps, or is about to; until this is dropped.
#[must_use]
pub(crate) struct Away {
    left: Option<(&'static dyn Compensation, u64)>,
    /// Of a thread inside a turn: its list is closed meanwhile, whatever a clock's code sends.
    before: Option<Leaves>,
}

/// Waits a moment, if this thread has nothing else to do, until `is_needed`.
#[inline]
pub(crate) fn linger(is_needed: impl FnMut() -> bool) {
    if let Some(worker) = worker() {
        if worker.lingers() {
            worker.has_lingered(hint::soon(is_needed));
        }
    }
}

/// Would this actor's drain, whose budget is spent, come back to this thread at once?
pub(crate) fn goes_on(header: &Header) -> bool {
    let Some(executor) = header.config().executor.as_deref() else { return false };
    worker().is_some_and(|worker| executor.is(worker.pool()) && worker.goes_on())
}

/// Asks whether this thread may go to sleep. Needed where the wait cannot be given up later.
pub(crate) fn reserve() -> Result<Reserved, WouldBlock> {
    let Some(worker) = worker() else { return Ok(Reserved(None)) };
    Ok(Reserved(worker.reserve()?.then_some(worker)))
}

impl Reserved {
    /// Gives everything away: this thread is about to sleep.
    pub(crate) fn leave(mut self, local: &Local) -> Away {
        let before = closes_list(local);
        let left = self.0.take().and_then(|worker| Some((worker, worker.leave()?)));
        Away { left, before }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(worker) = self.0.take() {
            worker.cancel();
        }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some((worker, left)) = self.left.take() {
            worker.come_back(left);
        }
        if let Some(before) = self.before {
            with_local(|local| local.leave_to(before));
        }
    }
}

/// Schedules what this thread has deferred, if it is inside a turn, and closes its list: it is about
/// to sleep.
fn closes_list(local: &Local) -> Option<Leaves> {
    local.in_turn().then(|| {
        FALLBACK.before_block();
        let before = local.leave_to(Leaves::Blocks);
        if local.owes_anything() {
            hand_off(local);
        }
        before
    })
}

/// Schedules what this thread has deferred, if it is inside a turn: it may be about to sleep.
fn before_sleep(local: &Local) {
    if !local.in_turn() {
        return;
    }
    FALLBACK.before_block();
    if local.owes_anything() {
        local.leaving(Leaves::Blocks, || hand_off(local));
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
            before_sleep(local);
        }
    });
}

/// The same for a task that waits for this mailbox, which is run meanwhile if it is pending.
pub(crate) fn before_pending_for(waker: &Waker, cell: &Ref) {
    with_local(|local| {
        if lies_down(local, waker) {
            return take_on_if_pending(local, cell);
        }
        before_sleep(local);
        schedule_if_pending(cell);
    });
}

/// A task that was left pending is woken when something of this mailbox has come, by a waker that it
/// has just left.
pub(crate) fn is_pending_for(waker: &Waker, mailbox: usize) {
    if let Some(turn) = with_local(|local| polled_by(local, waker)) {
        turn.awaits(mailbox);
    }
}

/// The circle that a task is told of, which waits for this mailbox.
pub(crate) fn told(waker: &Waker, mailbox: usize) -> Option<Cycle> {
    let turn = with_local(|local| polled_by(local, waker))?;
    waits_for::told(turn, mailbox)
}

/// Is it a turn of this thread's that is about to wait?
fn lies_down(local: &Local, waker: &Waker) -> bool {
    is_turn(waker) && local.in_turn() && !local.is_at_work()
}

/// Gives everything away: this thread is about to sleep, if it may.
pub(crate) fn relieve(local: &Local) -> Result<Away, WouldBlock> {
    Ok(reserve()?.leave(local))
}

/// The same for a sleep that this crate cannot refuse.
pub(crate) fn relieve_anyway(local: &Local) -> Away {
    relieve(local).unwrap_or_else(|WouldBlock| {
        if let Some(worker) = worker() {
            worker.share();
        }
        Away { left: None, before: closes_list(local) }
    })
}
