//! Waiting at a mailbox: for an answer, until it is idle, closed, or has ended (MAILBOX-14).
//!
//! A thread that waits runs a pending mailbox itself, if its actor allows that, until its own
//! message is done or its time is over. A task never does.

use std::task::{Context, Poll};

use crate::budget::Until;
use crate::cell::header::Ext;
use crate::cell::refs::{Ref, Strong};
use crate::error::{AskError, Cycle, Reason};
use crate::mailbox::oneshot::Asker;
use crate::mailbox::word::{CLOSED, Snapshot};
use crate::pool::WouldBlock;
use crate::sync::{hint, thread};
use crate::thread::context::with_local;
use crate::thread::waits_for::{What, falls_asleep, own_circle};
use crate::time::{Cutoff, Limit};
use crate::turn::blocking::{before_pending, before_pending_for, circle_of_task, relieve};
use crate::turn::deferred::drain_until;
use crate::wait_list::{Waiter, WaiterEntry, WaiterPlace, Waiters};

/// An answer, or why there is none.
pub(crate) type Answered<R> = Result<R, AskError>;

/// The reason that a question is not waited for any more.
pub(crate) struct Refused<P> {
    pub(crate) reason: Reason,
    /// The question itself: it was withdrawn, and never runs. `None` if it has begun.
    pub(crate) question: Option<P>,
}

impl Ref {
    /// The circle that a wait for this actor would close, if this thread is inside a turn of it.
    pub(crate) fn own_circle(&self) -> Option<Cycle> {
        with_local(|local| own_circle(local, self.addr()))
    }

    /// Sleeps so, if the actor runs meanwhile, and this thread may sleep.
    pub(super) fn relieve<R>(&self, sleep: impl FnOnce() -> R) -> Result<R, WouldBlock> {
        if self.header().needs_this_thread() {
            return Err(WouldBlock);
        }
        relieve(sleep)
    }

    /// Runs the mailbox here if it is pending and may be run here. True if it was.
    pub(super) fn help(&self, until: &Until<'_>) -> bool {
        if self.header().has_executor() {
            return false;
        }
        let Some(owner) = self.take_over() else { return false };
        with_local(|local| drain_until(local, owner, until));
        true
    }

    /// Waits for an answer of this actor; `None` when the time is over, with the answer still to
    /// come. An error: this thread must not wait, and the question was withdrawn, unless it has
    /// begun.
    pub(crate) fn wait_for<R, P>(
        &self,
        asker: &mut Asker<R, P>,
        deadline: Cutoff<'_>,
    ) -> Result<Option<Answered<R>>, Refused<P>> {
        if asker.is_done() {
            return Ok(asker.take());
        }
        // A limit of zero is one look, also inside of the actor's own turn: the question stays.
        if deadline.is_over() {
            return Ok(None);
        }
        if let Some(cycle) = self.own_circle() {
            return Err(self.withdraw(asker, Reason::Deadlock(cycle)));
        }
        let done = || asker.is_done();
        let until = Until { done: &done, at_once: false, deadline };
        // Most likely this thread has promised to run it, if it is inside a turn.
        match self.help(&until) {
            true if asker.is_done() => {}
            true if deadline.is_over() => return Ok(None),
            _ => _ = hint::done_soon(|| asker.is_done()) || self.help(&until),
        }
        if asker.is_done() {
            return Ok(asker.take());
        }
        let slept = self.relieve(|| {
            if asker.watch(Waiter::Thread(thread::current())) {
                while let Err(reason) = self.sleep_for(asker, deadline) {
                    // One that has begun meanwhile is waited for again (WAITS-5).
                    let refused = self.withdraw(asker, reason);
                    if refused.question.is_some() {
                        return Err(refused);
                    }
                }
            }
            Ok(asker.take())
        });
        slept.unwrap_or_else(|WouldBlock| Err(self.withdraw(asker, Reason::WouldBlock)))
    }

    /// Withdraws a question whose asker must not wait for it, unless it has begun.
    #[cold]
    fn withdraw<R, P>(&self, asker: &mut Asker<R, P>, reason: Reason) -> Refused<P> {
        let refused = Refused { reason, question: asker.cancel() };
        if refused.question.is_some() {
            self.header().withdrawn(&refused.reason);
        }
        refused
    }

    /// Sleeps until an answer of this actor is there, or the time is over.
    pub(super) fn sleep_for<R, P>(
        &self,
        asker: &Asker<R, P>,
        deadline: Cutoff<'_>,
    ) -> Result<(), Reason> {
        let what = What::Answer(asker.progress());
        let asleep = with_local(|local| falls_asleep(local, self.addr(), what, deadline));
        let asleep = asleep.map_err(Reason::Deadlock)?;
        while !asker.is_done() && deadline.park(|| asker.is_done() || asleep.is_refused()) {
            if let Some(cycle) = asleep.refused() {
                return Err(Reason::Deadlock(cycle));
            }
        }
        Ok(())
    }

    /// Sleeps until the waiter of this entry is woken, or the time is over. An error: it would not
    /// be woken.
    pub(crate) fn sleep_until(
        &self,
        goal: WaitFor,
        entry: &WaiterEntry<'_>,
        deadline: Cutoff<'_>,
    ) -> Result<(), Cycle> {
        let what = What::Mailbox(self.clone(), goal.test());
        let asleep = with_local(|local| falls_asleep(local, self.addr(), what, deadline))?;
        deadline.park(|| !entry.is_listed() || asleep.is_refused());
        asleep.refused().map_or(Ok(()), Err)
    }

    /// [`wait_for`](Self::wait_for) for a task: registers its waker if the answer is not there.
    /// Runs no turn.
    pub(crate) fn poll_for<R, P>(
        &self,
        asker: &mut Asker<R, P>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Answered<R>, Refused<P>>> {
        if let Some(answer) = asker.take() {
            return Poll::Ready(Ok(answer));
        }
        if let Some(cycle) = circle_of_task(cx.waker(), self.addr()) {
            return Poll::Ready(Err(self.withdraw(asker, Reason::Deadlock(cycle))));
        }
        // What this thread has deferred is handed off, if it is inside a turn.
        before_pending_for(cx.waker(), self);
        poll_for(asker, cx).map(Ok)
    }
}

/// Registers a task's waker if the answer is not there.
pub(crate) fn poll_for<R, P>(asker: &mut Asker<R, P>, cx: &mut Context<'_>) -> Poll<Answered<R>> {
    if asker.is_done() || !asker.watch(Waiter::Task(cx.waker().clone())) {
        if let Some(answer) = asker.take() {
            return Poll::Ready(answer);
        }
    }
    Poll::Pending
}

/// Waits for an answer that no actor gives; `None` when the time is over. An error: this thread
/// must not wait.
pub(crate) fn wait_for_promise<R, P>(
    asker: &mut Asker<R, P>,
    deadline: Cutoff<'_>,
) -> Result<Option<Answered<R>>, Refused<P>> {
    if !asker.is_done() && !deadline.is_over() {
        let slept = relieve(|| {
            if asker.watch(Waiter::Thread(thread::current())) {
                while !asker.is_done() && deadline.park(|| asker.is_done()) {}
            }
        });
        if let Err(WouldBlock) = slept {
            return Err(Refused { reason: Reason::WouldBlock, question: None });
        }
    }
    Ok(asker.take())
}

/// The object of a wait at a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// Nothing runs or waits in it.
    Idle,
    /// It is closed, and has ended.
    End,
}

impl WaitFor {
    fn is_over(self, now: Snapshot) -> bool {
        (self.test())(now)
    }

    /// True if it is over, by what the mailbox's word is.
    fn test(self) -> fn(Snapshot) -> bool {
        match self {
            WaitFor::Idle => |now| now.count() == 0,
            WaitFor::End => |now| now.count() == 0 && now.has(CLOSED),
        }
    }

    fn list(self, ext: &Ext) -> &Waiters {
        match self {
            WaitFor::Idle => &ext.idle_waiters,
            WaitFor::End => &ext.end_waiters,
        }
    }
}

impl<S: 'static> Strong<S> {
    /// The end of a wait that begins now, by the actor's clock.
    pub(crate) fn deadline(&self, limit: Limit) -> Cutoff<'_> {
        Cutoff::new(self.header().clock(), limit)
    }

    /// The reason that this thread must not wait for this actor: it is inside a turn of it.
    #[cold]
    pub(crate) fn refuses_wait(&self) -> Option<Reason> {
        with_local(|local| own_circle(local, self.addr())).map(Reason::Deadlock)
    }

    fn is_over(&self, goal: WaitFor) -> bool {
        goal.is_over(self.header().word.look())
    }

    /// One that stands in the list: will it be woken? If not, what it waits for may have come, or
    /// one that `helps` may have come too late to be called.
    fn stays(&self, goal: WaitFor, helps: bool) -> bool {
        let word = &self.header().word;
        match goal {
            WaitFor::Idle => word.watch(),
            WaitFor::End => {
                let now = word.meet();
                let is_late = helps && now.is_pending() && now.has(CLOSED);
                !(goal.is_over(now) || is_late)
            }
        }
    }

    /// Waits until it is so, at some moment; false if the time was over first. An error: this
    /// thread must not wait.
    pub(crate) fn wait_until(&self, goal: WaitFor, deadline: Cutoff<'_>) -> Result<bool, Reason> {
        // Help is for what a waiter finds pending; so it needs no reference while nothing is.
        let cell = self.to_ref();
        loop {
            if self.is_over(goal) {
                return Ok(true);
            }
            // A limit of zero is refused as well: it cannot be so while this turn runs.
            if let Some(cycle) = cell.own_circle() {
                return Err(Reason::Deadlock(cycle));
            }
            if deadline.is_over() {
                return Ok(false);
            }
            let done = || self.is_over(goal);
            if cell.help(&Until { done: &done, at_once: true, deadline }) {
                continue;
            }
            // Before the look: an executor's code may park this thread, and so use a wake-up up.
            let slept = cell.relieve(|| {
                let list = goal.list(self.header().ext_made());
                let entry = list.add(Waiter::Thread(thread::current()));
                match self.stays(goal, !self.has_executor()) {
                    true => cell.sleep_until(goal, &entry, deadline),
                    false => Ok(()),
                }
            });
            match slept {
                Ok(slept) => slept.map_err(Reason::Deadlock)?,
                Err(WouldBlock) if self.is_over(goal) => return Ok(true),
                Err(WouldBlock) => return Err(Reason::WouldBlock),
            }
        }
    }

    /// [`wait_until`](Self::wait_until) for a task. `entry` is its place in the list, from one poll
    /// to the next.
    pub(crate) fn poll_until(
        &self,
        goal: WaitFor,
        entry: &mut Option<WaiterPlace>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Reason>> {
        loop {
            if self.is_over(goal) {
                return Poll::Ready(Ok(()));
            }
            if let Some(cycle) = circle_of_task(cx.waker(), self.addr()) {
                return Poll::Ready(Err(Reason::Deadlock(cycle)));
            }
            let waiter = Waiter::Task(cx.waker().clone());
            self.forget_waiter(goal, entry);
            *entry = Some(goal.list(self.header().ext_made()).insert(waiter));
            if self.stays(goal, false) {
                before_pending(cx.waker());
                return Poll::Pending;
            }
        }
    }

    /// Takes a task out of the list.
    pub(crate) fn forget_waiter(&self, goal: WaitFor, entry: &mut Option<WaiterPlace>) {
        if let (Some(place), Some(ext)) = (entry.take(), self.header().ext()) {
            goal.list(ext).remove(place);
        }
    }
}
