//! `with` for callers whose time is limited, or who wait for room: a closure that is lent
//! ([`crate::envelope::lent`]), and taken back when the time is over.
//!
//! - E3 is kept by [`Loan`]: it does not go, by a return or by a panic of the clock, before the
//!   closure was taken back or answered. Until it was taken back it may start; from then on it never
//!   runs. One that has started is waited for, however long: a turn is not interrupted, and what it
//!   borrows is the caller's.

use crate::cell::refs::{Ref, Strong};
use crate::drain::blocking::relieve_anyway;
use crate::drain::context::{Local, with_local};
use crate::envelope::lent::{Job, Lent, Returned};
use crate::error::{AskError, Reason};
use crate::mailbox::list::Links;
use crate::mailbox::node::NodePtr;
use crate::mailbox::oneshot::{Asker, oneshot};
use crate::mailbox::word::{Entry, Snapshot};
use crate::panic;
use crate::send::push::By;
use crate::send::wait::Hold;
use crate::sync::thread;
use crate::time::{Cutoff, Limit, MonotonicClock};
use crate::wait_list::Waiter;

impl<S: 'static> Strong<S> {
    /// Runs a closure that may borrow from the caller, and waits for it; for its turn to begin, up
    /// to the limit. `waits`: for room in a full mailbox, too.
    ///
    /// # Panics
    /// With the closure's own panic; if the clock does.
    pub(crate) fn lend<F, R>(&self, f: F, limit: Limit, waits: bool) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        let deadline = self.deadline(limit);
        let f = match self.try_with(f) {
            Ok(value) => return Ok(value),
            Err(error) => match error.into_parts() {
                (f, Reason::Busy | Reason::HasExecutor) => f,
                (_, reason) => return Err(self.not_run(reason)),
            },
        };
        #[cfg(feature = "tracing")]
        if let Some(origin) = self.origin() {
            return self.lend_left(origin.of_closure(self.header(), f), deadline, waits);
        }
        self.lend_left(f, deadline, waits)
    }

    /// The same for a closure that could not be run at once.
    #[inline(always)]
    fn lend_left<F, R>(&self, f: F, deadline: Cutoff<'_>, waits: bool) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        if let Some(cycle) = self.own_circle() {
            return Err(self.not_run(Reason::Deadlock(cycle)));
        }
        let (answerer, asker) = oneshot(Job::new(f));
        let cell = self.to_ref();
        let loan = Loan { cell: &cell, asker: Some(asker) };
        let lent = Lent::new(answerer);
        let sent = if waits && !self.drops_newest() {
            self.send_or_sit(lent, By::Sender).unwrap_or_else(|seat| {
                seat.wait(deadline).map_err(|(lent, reason)| match reason {
                    Reason::Full => (lent, Reason::TimedOut),
                    other => (lent, other),
                })
            })
        } else {
            with_local(|local| self.push(local, Snapshot::IDLE, lent, By::Sender))
        };
        if let Err((_lent, reason)) = sent {
            self.header().report_refused(&reason, 1);
            return loan.take_back(reason);
        }
        loan.wait(deadline)
    }

    /// Runs a closure that may borrow from the caller, who is inside a turn, and waits for it. It is
    /// put in like this.
    pub(super) fn lend_inside<F, R>(
        &self,
        local: &Local,
        seen: Snapshot,
        entry: Entry,
        f: F,
    ) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        let cell = self.to_ref();
        let (answerer, asker) = oneshot(Job::new(f));
        let loan = Loan { cell: &cell, asker: Some(asker) };
        let node = NodePtr::new(Lent::<S, F, R>::new(answerer));
        let limit = self.header().config().limit;
        match self.push_nodes(seen, Links::one(node), limit, entry) {
            Ok(owed) => {
                self.discharge_for(local, owed, &|| loan.is_done());
                loan.wait(Cutoff::new(&MonotonicClock, Limit::Unlimited))
            }
            Err(refusal) => {
                // SAFETY: it was made here of this, and pushed nowhere.
                drop(unsafe { node.take_back::<Lent<S, F, R>>() });
                let reason = self.reason(refusal);
                self.header().report_refused(&reason, 1);
                loan.take_back(reason)
            }
        }
    }
}

/// A closure that is lent, for as long as its asker is there.
struct Loan<'a, F, R> {
    cell: &'a Ref,
    asker: Option<Asker<Returned<F, R>, F>>,
}

impl<F, R> Loan<'_, F, R> {
    fn is_done(&self) -> bool {
        self.asker.as_ref().is_some_and(Asker::is_done)
    }

    /// Waits for its end; for its beginning, up to the deadline.
    fn wait(mut self, deadline: Cutoff<'_>) -> Result<R, AskError> {
        let Some(asker) = &mut self.asker else { return Err(self.abandoned()) };
        match self.cell.wait_for(asker, deadline, Hold::Borrowed) {
            Ok(Some(Ok(returned))) => self.settle(returned),
            // It is answered with what became of it, and with nothing else.
            Ok(Some(Err(other))) => Err(other.named(|| Some(self.cell.header().who()))),
            Ok(None) => self.take_back(Reason::TimedOut),
            Err(reason) => self.take_back(reason),
        }
    }

    /// Takes the closure back, for that reason; if it has started, waits for it.
    fn take_back(mut self, reason: Reason) -> Result<R, AskError> {
        match self.end() {
            Ok(f) => {
                drop(f);
                Err(self.not_run(reason))
            }
            Err(Some(returned)) => self.settle(returned),
            Err(None) => Err(self.abandoned()),
        }
    }

    /// It is answered.
    fn settle(mut self, returned: Returned<F, R>) -> Result<R, AskError> {
        self.asker = None;
        match returned {
            Returned::Value(value) => Ok(value),
            Returned::Panicked(payload) => std::panic::resume_unwind(payload),
            Returned::NotRun(f, reason) => {
                drop(f);
                Err(self.not_run(reason))
            }
        }
    }

    /// Why it was not run.
    fn not_run(&self, reason: Reason) -> AskError {
        AskError::Refused(reason, self.cell.header().who().into())
    }

    fn abandoned(&self) -> AskError {
        AskError::Abandoned(self.cell.header().who().into())
    }

    /// Ends the loan: here is the closure, or what became of it.
    fn end(&mut self) -> Result<F, Option<Returned<F, R>>> {
        let Some(mut asker) = self.asker.take() else { return Err(None) };
        if let Some(f) = asker.cancel() {
            return Ok(f);
        }
        loop {
            if let Some(answer) = asker.take() {
                return Err(answer.ok());
            }
            let _away = with_local(relieve_anyway);
            if asker.watch(Waiter::Thread(thread::current())) {
                let never = Cutoff::new(&MonotonicClock, Limit::Unlimited);
                // Once it has begun, another one is told.
                let _ = self.cell.sleep_for(&asker, never, Hold::Borrowed);
            }
        }
    }
}

impl<F, R> Drop for Loan<'_, F, R> {
    fn drop(&mut self) {
        // A clock has panicked. Closure and result are the caller's.
        let ended = self.end();
        panic::ignore(|| drop(ended));
    }
}
