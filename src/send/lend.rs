//! `with` for callers whose time is limited, or who wait for room: a closure that is lent
//! ([`crate::envelope::lent`]), and taken back when the time is over.
//!
//! - E3 is kept by [`Loan`]: it does not go, by a return or by a panic of the clock, before the
//!   closure was taken back or answered. Until it was taken back it may start; from then on it never
//!   runs. One that has started is waited for, however long: a turn is not interrupted, and what it
//!   borrows is the caller's.

use crate::cell::refs::Strong;
use crate::drain::blocking::relieve_anyway;
use crate::drain::context::with_local;
use crate::envelope::lent::{Job, Lent, Returned};
use crate::error::{AskError, Reason};
use crate::mailbox::oneshot::{Asker, oneshot};
use crate::mailbox::word::Snapshot;
use crate::panic;
use crate::send::push::By;
use crate::sync::thread;
use crate::time::{Cutoff, Limit};
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
                (f, Reason::Busy | Reason::Elsewhere) => f,
                (_, reason) => return Err(AskError::Refused(reason)),
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
        if self.is_running_here() {
            return Err(AskError::Refused(Reason::Deadlock));
        }
        let (answerer, asker) = oneshot(Job::new(f));
        let mut loan = Loan(Some(asker));
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
        let Some(asker) = &mut loan.0 else { return Err(AskError::Abandoned) };
        match self.to_ref().wait_for(asker, deadline) {
            Some(Ok(returned)) => loan.settle(returned),
            Some(Err(AskError::Refused(reason))) => loan.take_back(reason),
            // It is answered with what became of it, and with nothing else.
            Some(Err(other)) => Err(other),
            None => loan.take_back(Reason::TimedOut),
        }
    }
}

/// A closure that is lent, for as long as its asker is there.
struct Loan<F, R>(Option<Asker<Returned<F, R>, F>>);

impl<F, R> Loan<F, R> {
    /// Takes the closure back, for that reason; if it has started, waits for it.
    fn take_back(mut self, reason: Reason) -> Result<R, AskError> {
        match self.end() {
            Ok(f) => {
                drop(f);
                Err(AskError::Refused(reason))
            }
            Err(Some(returned)) => self.settle(returned),
            Err(None) => Err(AskError::Abandoned),
        }
    }

    /// It is answered.
    fn settle(mut self, returned: Returned<F, R>) -> Result<R, AskError> {
        self.0 = None;
        match returned {
            Returned::Value(value) => Ok(value),
            Returned::Panicked(payload) => std::panic::resume_unwind(payload),
            Returned::NotRun(f, reason) => {
                drop(f);
                Err(AskError::Refused(reason))
            }
        }
    }

    /// Ends the loan: here is the closure, or what became of it.
    fn end(&mut self) -> Result<F, Option<Returned<F, R>>> {
        let Some(mut asker) = self.0.take() else { return Err(None) };
        if let Some(f) = asker.cancel() {
            return Ok(f);
        }
        loop {
            if let Some(answer) = asker.take() {
                return Err(answer.ok());
            }
            let _away = with_local(relieve_anyway);
            if asker.watch(Waiter::Thread(thread::current())) {
                while !asker.is_done() {
                    thread::park();
                }
            }
        }
    }
}

impl<F, R> Drop for Loan<F, R> {
    fn drop(&mut self) {
        // A clock has panicked. Closure and result are the caller's.
        let ended = self.end();
        panic::ignore(|| drop(ended));
    }
}
