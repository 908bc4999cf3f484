//! `with` inside a turn: a closure that is lent ([`crate::turn::envelope::lent`]), so that its
//! caller can take it back when the wait would close a circle, or must not be.
//!
//! - ENVELOPE-3 is kept by [`Loan`]: it does not go before the closure was taken back or answered.
//!   Until it was taken back it may start; from then on it never runs. One that has started is
//!   waited for, however long: a turn is not interrupted, and what it borrows is the caller's.

use crate::cell::refs::{Ref, Strong};
use crate::error::{AskError, Reason};
use crate::mailbox::node::Unsent;
use crate::mailbox::oneshot::{Asker, oneshot};
use crate::mailbox::word::{Entry, Snapshot};
use crate::panic;
use crate::send::wait::Refused;
use crate::sync::thread;
use crate::thread::context::Local;
use crate::time::{Cutoff, Limit, MonotonicClock};
use crate::turn::blocking::relieve_anyway;
use crate::turn::envelope::lent::{Job, Lent, Returned};
use crate::wait_list::Waiter;

impl<S: 'static> Strong<S> {
    /// Runs a closure that may borrow from the caller, who is inside a turn, and waits for it. It
    /// is put in like this.
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
        let mut loan = Loan { cell: &cell, asker: Some(asker) };
        let node = Unsent::new(Lent::<S, F, R>::new(answerer));
        match node.push(|links| self.put(local, seen, links, entry)) {
            Ok(owed) => {
                self.discharge_for(local, owed, &|| loan.is_done());
                loan.wait()
            }
            Err((lent, reason)) => {
                drop(lent);
                // The closure, which nothing else has seen.
                Err(self.refuse(loan.end(), reason))
            }
        }
    }
}

/// The end of a wait without a limit.
fn never() -> Cutoff<'static> {
    Cutoff::new(&MonotonicClock, Limit::Unlimited)
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

    /// Waits for its end.
    fn wait(mut self) -> Result<R, AskError> {
        let Some(asker) = &mut self.asker else { return Err(self.abandoned()) };
        match self.cell.wait_for(asker, never()) {
            Ok(Some(Ok(returned))) => self.settle(returned),
            // It is answered with what became of it, and with nothing else.
            Ok(Some(Err(other))) => Err(other.named(|| Some(self.cell.header().who()))),
            // There is no limit.
            Ok(None) => Err(self.abandoned()),
            Err(Refused { reason, question: None }) => self.take_back(reason),
            Err(Refused { reason, question: Some(f) }) => {
                self.asker = None;
                Err(self.not_run(f, reason))
            }
        }
    }

    /// Takes the closure back, for that reason; if it has started, waits for it.
    fn take_back(mut self, reason: Reason) -> Result<R, AskError> {
        match self.end() {
            Ok(f) => Err(self.not_run(f, reason)),
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
            Returned::NotRun(f, reason) => Err(self.not_run(f, reason)),
        }
    }

    /// Why it was not run; the closure is dropped first.
    fn not_run(&self, f: F, reason: Reason) -> AskError {
        let (reason, ()) = panic::owning(reason, |_| drop(f));
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
            relieve_anyway(|| {
                if asker.watch(Waiter::Thread(thread::current())) {
                    // Once it has begun, another one has the error.
                    let _ = self.cell.sleep_for(&asker, never());
                }
            });
        }
    }
}

impl<F, R> Drop for Loan<'_, F, R> {
    fn drop(&mut self) {
        // A wait was left without an answer. Closure and result are the caller's.
        let ended = self.end();
        panic::ignore(|| drop(ended));
    }
}
