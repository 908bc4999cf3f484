//! `try_with`: a turn here and now, or none.
//!
//! One step claims the mailbox, and only if nothing runs or waits in it. So an attempt overtakes no
//! message, one that fails has left nothing behind, and no other thread ever gets at the closure.
//!
//! - SEND-1: it fails as busy only if the mailbox was not idle, or a sender waited for room in it.
//!   An entry that is out and stale is no work, and neither is one that is used up meanwhile.

use super::with::returned;
use crate::cell::owner::ClaimedBy;
use crate::cell::refs::Strong;
use crate::error::{Reason, SendError};
use crate::mailbox::word::{CLOSED, Refusal, Snapshot};
use crate::thread::context::{Depth, Local, with_local};
use crate::turn::run::drive_turn;
use crate::turn::run_list::settle;

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
                Ok(claimed) => self.run_alone(local, claimed, f),
                Err(seen) => Err(self.header().refused(
                    1,
                    f,
                    self.why_not(seen, || self.refuses_wait().unwrap_or(Reason::Busy)),
                )),
            }
        })
    }

    /// Runs a closure as the first turn of a drive: something is done around it.
    fn run_alone<F, R>(&self, local: &Local, claimed: ClaimedBy<S>, f: F) -> Result<R, SendError<F>>
    where
        F: FnOnce(&mut S) -> R,
    {
        let mut f = Some(f);
        let ran = drive_turn(local, claimed.into_owner(), |owner| {
            let f = f.take().expect("a closure is run once");
            self.with_state(owner, f)
        });
        settle(local);
        match ran {
            Some(ran) => Ok(returned(ran)),
            None => {
                let f = f.take().expect("a closure that was not run");
                Err(self.header().refused(1, f, self.reason(Refusal::Closed)))
            }
        }
    }

    #[cold]
    fn why_not(&self, seen: Snapshot, else_: impl FnOnce() -> Reason) -> Reason {
        if seen.has(CLOSED) { self.reason(Refusal::Closed) } else { else_() }
    }
}
