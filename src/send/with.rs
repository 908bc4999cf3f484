//! `with`: a closure in the caller's frame, and a caller that waits for it.

use crate::budget::Until;
use crate::cell::owner::Owed;
use crate::cell::refs::Strong;
use crate::error::{AskError, Reason};
use crate::mailbox::list::Links;
use crate::mailbox::node::{NodeOf, NodePtr};
use crate::mailbox::word::{Entry, Snapshot};
use crate::panic::{self, Payload};
use crate::pool::{Reserved, WouldBlock, reserve};
use crate::send::push::{By, discharge};
use crate::sync::{hint, thread};
use crate::thread::context::{Depth, Local, with_local};
use crate::time::{Cutoff, Limit, MonotonicClock};
use crate::turn::blocking::leave;
use crate::turn::deferred::drain_until;
use crate::turn::envelope::Call;
use crate::turn::envelope::borrowed::{Borrowed, Outcome};

impl<S: 'static> Strong<S> {
    /// Runs a closure and waits for it; it may borrow from the caller.
    ///
    /// # Panics
    /// With the closure's own panic.
    #[inline]
    pub(crate) fn with<F, R>(&self, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        with_local(|local| {
            if !self.is_plain() {
                return self.with_busy(local, Snapshot::IDLE, f);
            }
            match self.claim() {
                Ok(claimed) => {
                    Ok(returned(self.run_claimed(local, Depth::Any, claimed, |state, _| f(state))))
                }
                Err(seen) => self.with_busy(local, seen, f),
            }
        })
    }

    /// [`with`](Self::with) after a claim that has failed, or of an actor whose mailbox is not
    /// claimed at once.
    #[inline(never)]
    fn with_busy<F, R>(&self, local: &Local, seen: Snapshot, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        let claimed = match (self.is_plain(), local.in_turn()) {
            (false, _) => self.claim_late(seen, || true),
            // Inside a turn it does not try again and again: this thread may be what the owner
            // waits for.
            (true, true) => self.claim_beside(seen),
            (true, false) => self.claim_by(|word| word.claim_soon(seen)),
        };
        match claimed {
            Ok(claimed) => {
                Ok(returned(self.run_claimed(local, Depth::Any, claimed, |state, _| f(state))))
            }
            Err(seen) => self.with_slow(local, seen, f),
        }
    }

    /// [`with`](Self::with) of a mailbox that could not be claimed. Its closure, then the result,
    /// are in this frame: neither is dropped while the thread unwinds.
    #[inline(never)]
    fn with_slow<F, R>(&self, local: &Local, seen: Snapshot, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        let ((f, result), ran) = panic::owning((Some(f), None), |(f, result)| {
            self.wait_with(local, seen, &mut |state| *result = f.take().map(|f| f(state)))
        });
        match (ran, result) {
            (Err(error), _) => Err(panic::owning(error, |_| drop(f)).0),
            (Ok(()), Some(result)) => Ok(result),
            (Ok(()), None) => unreachable!("a closure that has run has a result"),
        }
    }

    fn wait_with(&self, local: &Local, seen: Snapshot, call: Call<'_, S>) -> Result<(), AskError> {
        if let Some(reason) = self.refuses_wait() {
            return Err(self.refused(reason));
        }
        // Once the message is in the mailbox, the wait cannot be refused any more.
        let reserved = match self.header().needs_this_thread() {
            true => Err(WouldBlock),
            false => reserve(),
        };
        let (entry, seen) = match (self.has_executor(), &reserved) {
            (true, Err(_)) => return Err(self.refused(Reason::WouldBlock)),
            (true, Ok(_)) => match self.look_at_executor() {
                Ok(seen) => (Entry::Leave, seen),
                Err(reason) => return Err(self.refused(reason)),
            },
            (false, Err(_)) => (Entry::DrainOnly, seen),
            (false, Ok(_)) => (Entry::Drain, seen),
        };
        // Inside a turn, it may turn out that it would wait for ever: then it takes the closure
        // back.
        if local.in_turn() {
            drop(reserved);
            return self.lend_inside(local, seen, entry, call);
        }
        let mut own = NodeOf::in_frame(Borrowed::new(call));
        let frame = &raw mut own;
        let node = NodePtr::of_frame(frame);
        // SAFETY: ENVELOPE-2: the frame is ours until the push, and from then on both sides use
        // this one pointer.
        let message = unsafe { &*NodeOf::message(frame) };
        let owed = self.put(local, seen, Links::one(node), entry);
        // The frame is ours again.
        let owed = owed.map_err(|(_links, reason)| self.refused(reason))?;
        // Leaving this frame before the message is done would leave a dangling node in the mailbox.
        let stay = AbortOnUnwind;
        self.discharge_for(local, owed, &|| message.is_done());
        // A caller that may not sleep has drained until its message was done.
        if !message.is_done() {
            wait_for(local, message, reserved.ok());
        }
        std::mem::forget(stay);
        match message.take() {
            Outcome::Returned => Ok(()),
            Outcome::Panicked(payload) => std::panic::resume_unwind(payload),
            Outcome::NotRun(reason) => Err(self.header().not_run(reason)),
        }
    }

    #[cold]
    pub(super) fn refused(&self, reason: Reason) -> AskError {
        self.header().refused_question(reason)
    }

    /// Does what the push of a closure left owing that its caller waits for.
    pub(super) fn discharge_for(&self, local: &Local, owed: Owed, done: &dyn Fn() -> bool) {
        match owed {
            Owed::Drain(owner) => {
                let deadline = Cutoff::new(&MonotonicClock, Limit::Unlimited);
                drain_until(local, owner, &Until { done, at_once: false, deadline });
            }
            owed => discharge(local, &self.lent(), owed, By::Sender),
        }
    }
}

fn wait_for<S>(local: &Local, message: &Borrowed<'_, S>, reserved: Option<Reserved>) {
    if hint::done_soon(|| message.is_done()) {
        return;
    }
    let sleep = || {
        if message.sleep(thread::current()) {
            while !message.is_done() {
                thread::park();
            }
        }
    };
    match reserved {
        Some(reserved) => leave(local, || reserved.leave(), sleep),
        None => sleep(),
    }
}

/// The result for a caller whose closure was run on the spot.
#[inline(always)]
pub(super) fn returned<R>(ran: Result<R, Payload>) -> R {
    ran.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Aborts when it is dropped: the frame it guards must not be left.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}
