//! Waiting at a mailbox: for an answer, until it is idle, closed, or has ended (R14).
//!
//! A thread that waits runs a pending mailbox itself, if its actor allows that, until its own
//! message is done or its time is over. A task never does.

use std::task::{Context, Poll};

use crate::budget::Until;
use crate::cell::header::Ext;
use crate::cell::refs::{Ref, Strong};
use crate::drain::blocking::{before_pending, before_pending_for, relieve};
use crate::drain::context::with_local;
use crate::drain::deferred::drain_until;
use crate::error::{AskError, Reason};
use crate::mailbox::oneshot::Asker;
use crate::mailbox::word::{CLOSED, Snapshot};
use crate::sync::{hint, thread};
use crate::time::{Cutoff, Limit};
use crate::wait_list::{Waiter, Waiters};

/// Why a wait ended without what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotWaited {
    TimedOut,
    Deadlock,
    WouldBlock,
}

impl Ref {
    /// Is this thread inside a turn of this actor?
    pub(crate) fn is_running_here(&self) -> bool {
        with_local(|local| local.is_running(self.addr()))
    }

    /// Runs the mailbox here if it is pending and may be run here. True if it was.
    pub(super) fn help(&self, until: &Until<'_>) -> bool {
        if self.header().is_executor_only() {
            return false;
        }
        let Some(owner) = self.take_over() else { return false };
        with_local(|local| drain_until(local, owner, until));
        true
    }

    /// Waits for an answer of this actor; `None` when the time is over, with the answer still to
    /// come.
    pub(crate) fn wait_for<R, P>(
        &self,
        asker: &mut Asker<R, P>,
        deadline: Cutoff<'_>,
    ) -> Option<Result<R, AskError>> {
        if asker.is_done() {
            return asker.take();
        }
        if self.is_running_here() {
            return Some(Err(AskError::Refused(Reason::Deadlock)));
        }
        if deadline.is_over() {
            return None;
        }
        let done = || asker.is_done();
        let until = Until { done: &done, deadline };
        // Most likely this thread has promised to run it, if it is inside a turn.
        if !self.help(&until) || !asker.is_done() {
            let _ = hint::done_soon(|| asker.is_done()) || self.help(&until);
        }
        if asker.is_done() {
            return asker.take();
        }
        let Ok(_away) = with_local(relieve) else {
            return Some(Err(AskError::Refused(Reason::WouldBlock)));
        };
        if asker.watch(Waiter::Thread(thread::current())) {
            while !asker.is_done() && deadline.park() {}
        }
        asker.take()
    }

    /// The same for a task: registers its waker if the answer is not there. Runs no turn.
    pub(crate) fn poll_for<R, P>(
        &self,
        asker: &mut Asker<R, P>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<R, AskError>> {
        if let Some(answer) = asker.take() {
            return Poll::Ready(answer);
        }
        if self.is_running_here() {
            return Poll::Ready(Err(AskError::Refused(Reason::Deadlock)));
        }
        // What this thread has deferred is handed off, if it is inside a turn.
        before_pending_for(cx.waker(), self);
        poll_for(asker, cx)
    }
}

/// Registers a task's waker if the answer is not there.
pub(crate) fn poll_for<R, P>(
    asker: &mut Asker<R, P>,
    cx: &mut Context<'_>,
) -> Poll<Result<R, AskError>> {
    if asker.is_done() || !asker.watch(Waiter::Task(cx.waker().clone())) {
        if let Some(answer) = asker.take() {
            return Poll::Ready(answer);
        }
    }
    Poll::Pending
}

/// Waits for an answer that no actor gives; `None` when the time is over.
pub(crate) fn wait_for_promise<R, P>(
    asker: &mut Asker<R, P>,
    deadline: Cutoff<'_>,
) -> Option<Result<R, AskError>> {
    if !asker.is_done() && !deadline.is_over() {
        let Ok(_away) = with_local(relieve) else {
            return Some(Err(AskError::Refused(Reason::WouldBlock)));
        };
        if asker.watch(Waiter::Thread(thread::current())) {
            while !asker.is_done() && deadline.park() {}
        }
    }
    asker.take()
}

/// What is waited for at a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Nothing runs or waits in it.
    Idle,
    /// It takes no new messages.
    Closed,
    /// It is closed, and has ended.
    End,
}

impl Awaited {
    fn is_over(self, now: Snapshot) -> bool {
        match self {
            Awaited::Idle => now.count() == 0,
            Awaited::Closed => now.has(CLOSED),
            Awaited::End => now.count() == 0 && now.has(CLOSED),
        }
    }

    /// Does it come after the turn that is under way only? Others may close the actor meanwhile.
    fn comes_after_turn(self) -> bool {
        self != Awaited::Closed
    }

    fn list(self, ext: &Ext) -> &Waiters {
        match self {
            Awaited::Idle => &ext.idle_waiters,
            Awaited::Closed | Awaited::End => &ext.end_waiters,
        }
    }
}

impl<S: 'static> Strong<S> {
    /// When a wait that begins now ends, by the actor's clock.
    pub(crate) fn deadline(&self, limit: Limit) -> Cutoff<'_> {
        Cutoff::new(self.header().clock(), limit)
    }

    /// Is this thread inside a turn of this actor?
    pub(crate) fn is_running_here(&self) -> bool {
        with_local(|local| local.is_running(self.addr()))
    }

    fn is_over(&self, awaited: Awaited) -> bool {
        awaited.is_over(self.header().word.look())
    }

    /// One that stands in the list: will it be woken? If not, what it waits for may have come.
    fn stays(&self, awaited: Awaited) -> bool {
        let word = &self.header().word;
        match awaited {
            Awaited::Idle => word.watch(|_| true).is_ok(),
            Awaited::Closed | Awaited::End => !awaited.is_over(word.meet()),
        }
    }

    /// Waits until it is so, at some moment.
    pub(crate) fn wait_until(
        &self,
        awaited: Awaited,
        deadline: Cutoff<'_>,
    ) -> Result<(), NotWaited> {
        // Help is for what a waiter finds pending; so it needs no reference while nothing is.
        let cell = self.to_ref();
        loop {
            if self.is_over(awaited) {
                return Ok(());
            }
            if awaited.comes_after_turn() && self.is_running_here() {
                return Err(NotWaited::Deadlock);
            }
            if deadline.is_over() {
                return Err(NotWaited::TimedOut);
            }
            if cell.help(&Until { done: &|| false, deadline }) {
                continue;
            }
            let list = awaited.list(self.header().ext_made());
            let _entry = list.add(Waiter::Thread(thread::current()));
            if self.stays(awaited) {
                let Ok(_away) = with_local(relieve) else { return Err(NotWaited::WouldBlock) };
                deadline.park();
            }
        }
    }

    /// The same for a task. `entry` is its place in the list, from one poll to the next.
    pub(crate) fn poll_until(
        &self,
        awaited: Awaited,
        entry: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), NotWaited>> {
        loop {
            if self.is_over(awaited) {
                return Poll::Ready(Ok(()));
            }
            if awaited.comes_after_turn() && self.is_running_here() {
                return Poll::Ready(Err(NotWaited::Deadlock));
            }
            let waiter = Waiter::Task(cx.waker().clone());
            self.forget_waiter(awaited, entry);
            *entry = Some(awaited.list(self.header().ext_made()).insert(waiter));
            if self.stays(awaited) {
                before_pending(cx.waker());
                return Poll::Pending;
            }
        }
    }

    /// Takes a task out of the list.
    pub(crate) fn forget_waiter(&self, awaited: Awaited, entry: &mut Option<u64>) {
        if let (Some(number), Some(ext)) = (entry.take(), self.header().ext()) {
            awaited.list(ext).remove(number);
        }
    }
}
