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
use crate::turn::envelope::Call;
use crate::turn::envelope::lent::{Lent, LentCall, Returned};
use crate::wait_list::Waiter;

impl<S: 'static> Strong<S> {
    /// Runs a closure that may borrow from the caller, who is inside a turn, and waits for it. It
    /// is put in like this.
    pub(super) fn lend_inside(
        &self,
        local: &Local,
        seen: Snapshot,
        entry: Entry,
        call: Call<'_, S>,
    ) -> Result<(), AskError> {
        let cell = self.to_ref();
        let (answerer, asker) = oneshot(LentCall(call));
        let mut loan = Loan { cell: &cell, asker: Some(asker) };
        let node = Unsent::new(Lent::new(answerer));
        match node.push(|links| self.put(local, seen, links, entry)) {
            Ok(owed) => {
                self.discharge_for(local, owed, &|| loan.is_done());
                loan.wait()
            }
            Err((lent, reason)) => {
                drop(lent);
                // Nothing else has seen the closure.
                loan.end();
                Err(self.refused(reason))
            }
        }
    }
}

/// The end of a wait without a limit.
fn never() -> Cutoff<'static> {
    Cutoff::new(&MonotonicClock, Limit::Unlimited)
}

/// A closure that is lent, for as long as its asker is there.
struct Loan<'a> {
    cell: &'a Ref,
    asker: Option<Asker<Returned, ()>>,
}

impl Loan<'_> {
    fn is_done(&self) -> bool {
        self.asker.as_ref().is_some_and(Asker::is_done)
    }

    /// Waits for its end.
    fn wait(mut self) -> Result<(), AskError> {
        let Some(asker) = &mut self.asker else { return Err(self.abandoned()) };
        match self.cell.wait_for(asker, never()) {
            Ok(Some(Ok(returned))) => self.settle(returned),
            // It is answered with what became of it, and with nothing else.
            Ok(Some(Err(other))) => Err(other.named(|| Some(self.cell.header().who()))),
            // There is no limit.
            Ok(None) => Err(self.abandoned()),
            Err(Refused { reason, question: None }) => self.take_back(reason),
            Err(Refused { reason, question: Some(()) }) => self.settle(Returned::NotRun(reason)),
        }
    }

    /// Takes the closure back, for that reason; if it has started, waits for it.
    fn take_back(mut self, reason: Reason) -> Result<(), AskError> {
        match self.end() {
            Ended::TakenBack => Err(self.cell.header().not_run(reason)),
            Ended::Answered(Some(returned)) => self.settle(returned),
            Ended::Answered(None) => Err(self.abandoned()),
        }
    }

    /// It is answered.
    fn settle(mut self, returned: Returned) -> Result<(), AskError> {
        self.asker = None;
        match returned {
            Returned::Ran => Ok(()),
            Returned::Panicked(payload) => std::panic::resume_unwind(payload),
            Returned::NotRun(reason) => Err(self.cell.header().not_run(reason)),
        }
    }

    fn abandoned(&self) -> AskError {
        AskError::Abandoned(self.cell.header().who().into())
    }

    /// Ends the loan.
    fn end(&mut self) -> Ended {
        let Some(mut asker) = self.asker.take() else { return Ended::Answered(None) };
        if asker.cancel().is_some() {
            return Ended::TakenBack;
        }
        loop {
            if let Some(answer) = asker.take() {
                return Ended::Answered(answer.ok());
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

enum Ended {
    TakenBack,
    Answered(Option<Returned>),
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        // A wait was left without an answer. A panic of the closure is its caller's.
        let ended = self.end();
        panic::ignore(|| drop(ended));
    }
}
