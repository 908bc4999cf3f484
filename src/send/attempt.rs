//! `try_with`: a turn here and now, or none.
//!
//! One step claims the mailbox, and only if nothing runs or waits in it. So an attempt overtakes no
//! message, one that fails has left nothing behind, and no other thread ever gets at the closure.
//!
//! - SEND-1: it fails as busy only if the mailbox was not idle. An entry that is out and stale is
//!   no work, and neither is one that is used up meanwhile.

use std::convert::Infallible;

use super::with::returned;
use crate::cell::owner::ClaimedBy;
use crate::cell::refs::Strong;
use crate::error::{Reason, SendError};
use crate::mailbox::node::NodePtr;
use crate::mailbox::word::{CLOSED, Refusal, Snapshot};
use crate::panic;
use crate::thread::context::{Depth, Local, with_local};
use crate::turn::deferred::drain;
use crate::turn::envelope::borrowed::{Borrowed, Outcome};

impl<S: 'static> Strong<S> {
    /// Runs a closure if the mailbox is idle and may be run here; else it comes back.
    ///
    /// # Panics
    /// With the closure's own panic.
    pub(crate) fn try_with<F, R>(&self, f: F) -> Result<R, SendError<F>>
    where
        F: FnOnce(&mut S) -> R,
    {
        if self.has_executor() {
            let now = self.header().word.load();
            return Err(self.header().refused(1, f, self.why_not(now, || Reason::HasExecutor)));
        }
        with_local(|local| {
            let on_the_spot = self.runs_on_the_spot();
            match self.claim_as_first(on_the_spot) {
                Ok(claimed) if on_the_spot => {
                    Ok(returned(self.run_claimed(local, Depth::Any, claimed, |state, _| f(state))))
                }
                Ok(claimed) => self.run_first(local, claimed, f),
                Err(seen) => Err(self.header().refused(
                    1,
                    f,
                    self.why_not(seen, || self.refuses_wait().unwrap_or(Reason::Busy)),
                )),
            }
        })
    }

    /// Runs a closure as the first turn of a drain: something is done around it.
    fn run_first<F, R>(&self, local: &Local, claimed: ClaimedBy<S>, f: F) -> Result<R, SendError<F>>
    where
        F: FnOnce(&mut S) -> R,
    {
        let ((f, result), outcome) = panic::owning((Some(f), None), |(f, result)| {
            let mut call = |state: &mut S| *result = f.take().map(|f| f(state));
            let drains = |node: NodePtr, _: &Borrowed<'_, S>| {
                let mut owner = claimed.into_owner();
                owner.put_first(node);
                drain(local, owner);
                Ok::<(), Infallible>(())
            };
            // SAFETY: this thread is the owner, and a drain runs its first turn, or gives it back.
            let Ok(outcome) = unsafe { Borrowed::lend_here(&mut call, drains) };
            outcome
        });
        match (outcome, f, result) {
            (Outcome::Panicked(payload), ..) => std::panic::resume_unwind(payload),
            (Outcome::NotRun(reason), Some(f), _) => {
                Err(SendError::new(f, reason, self.header().who()))
            }
            (_, _, Some(result)) => Ok(result),
            _ => unreachable!("a closure that has run has a result"),
        }
    }

    #[cold]
    fn why_not(&self, seen: Snapshot, else_: impl FnOnce() -> Reason) -> Reason {
        if seen.has(CLOSED) { self.reason(Refusal::Closed) } else { else_() }
    }
}
