//! The observers of an actor, and the moments at which each is called.
//!
//! The engine ends each batch of an actor with [`Observers`] ([`Observed`]). Other events have a
//! method each, which counts them. With the feature `tracing` each failure of any actor is an event
//! of that crate, too, with the actor's name and never with a message. Only an actor that is
//! observed pays: its messages are run by a drain alone.
//!
//! A **batch** goes from an owner's first turn to the moment at which its private list is at its
//! end, or at which it lets go with a rest of it left (out of budget, or giving way to this
//! thread's list). What arrives meanwhile belongs to the next batch. So a batch is finite, whatever
//! is sent, and it is over before the mailbox is released, left pending, or looked at for more. A
//! turn that is suspended leaves its batch open, in the actor's memory.
//!
//! - OBSERVE-1: a batch ends between two turns of its owner, and does not unwind: a panic of an
//!   observer, of the user's hook above all, goes to the panic hook and the policy.
//! - OBSERVE-2: a batch with a turn ends once, before the mailbox is let go, also if it was
//!   stopped.
//!
//! A subscriber of `tracing` is user code ([`crate::panic`]): it is called under no lock, and its
//! panic is ignored.

#[cfg(feature = "tracing")]
use std::cell::Cell;
use std::sync::Arc;

use super::header::{Header, Held, Recovered};
use super::stats::Stats;
use crate::error::{AskError, Reason, SendError, StopCause, TurnPanic};
#[cfg(feature = "tracing")]
use crate::panic;
use crate::panic::Payload;
use crate::sync::atomic::Ordering::Relaxed;
#[cfg(feature = "tracing")]
use crate::sync::thread_plain;

/// The user's hook at the end of a batch, whatever the state is.
pub(super) trait BatchEnd: Send + Sync {
    /// A batch with this many turns ends. By its owner, between two turns: the state is there, and
    /// nothing borrows it. A panic is caught, and is the error.
    fn batch_ends(&self, owner: &dyn Held, turns: u64) -> Result<(), Payload>;
}

/// The observers of a configuration's actors.
#[derive(Clone)]
pub(crate) struct Observers {
    pub(super) on_batch_end: Option<Arc<dyn BatchEnd>>,
    /// Messages are counted, for [`Actor::snapshot`](crate::Actor::snapshot).
    pub(crate) counts: bool,
    /// The face wraps each message in its span.
    pub(crate) traces: bool,
    /// That span is a child of its sender's.
    #[cfg(feature = "tracing")]
    pub(crate) child_spans: bool,
}

impl Observers {
    pub(crate) const NONE: Self = Observers {
        on_batch_end: None,
        counts: false,
        traces: false,
        #[cfg(feature = "tracing")]
        child_spans: false,
    };

    /// True if there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.on_batch_end.is_none() && !self.counts && !self.traces
    }
}

/// An event of `tracing` with an actor's name; nothing without that feature.
macro_rules! event {
    ($header:ident, $level:ident, $($field:ident,)* $text:literal $($args:tt)*) => {{
        #[cfg(feature = "tracing")]
        told((), || {
            let actor = $header.name();
            tracing::event!(
                target: "turnwise",
                tracing::Level::$level,
                actor,
                $($field,)*
                $text $($args)*
            );
        });
        #[cfg(not(feature = "tracing"))]
        let _ = (stringify!($level), $(&$field,)* format_args!($text $($args)*));
    }};
}

/// Events beside an actor's turns: they are counted, if the actor is, and passed to `tracing`.
impl Header {
    /// A turn panicked, or the hook of a batch, and the policy has acted.
    #[cold]
    pub(super) fn panicked(&self, panic: &TurnPanic, recovered: Recovered) {
        let goes_on = !matches!(recovered, Recovered::Stopped | Recovered::GaveUp(_));
        self.count(|stats| {
            stats.panicked += 1;
            let restarted = matches!(recovered, Recovered::Restarted | Recovered::Restarts(_));
            stats.restarted += u64::from(restarted);
        });
        event!(self, ERROR, goes_on, "a turn panicked: {}", panic.text());
    }

    /// The actor was stopped.
    #[cold]
    pub(super) fn stopped(&self, cause: &StopCause) {
        event!(self, WARN, "actor stopped: {cause}");
    }

    /// A question was accepted, and its asker must not wait for it: it was withdrawn.
    #[cold]
    pub(crate) fn withdrawn(&self, reason: &Reason) {
        event!(self, WARN, "question withdrawn: {reason}");
    }

    /// A message was accepted and is not run: its actor was stopped, or its mailbox full.
    #[cold]
    pub(crate) fn undelivered(&self) {
        self.count(|stats| stats.undelivered += 1);
    }

    /// The budget is spent, and the rest goes to the executor.
    #[cold]
    pub(crate) fn handed_off(&self) {
        self.count(|stats| stats.handed_off += 1);
        event!(self, TRACE, "budget spent: the rest goes to the executor");
    }

    /// Messages were not accepted: they go back to their sender or asker.
    #[cold]
    fn not_accepted(&self, reason: &Reason, messages: u64) {
        if !matches!(reason, Reason::Busy | Reason::HasExecutor) {
            self.count(|stats| stats.refused += messages);
        }
        if reason.forbids_wait() {
            event!(self, WARN, messages, "not accepted: {reason}");
        } else {
            event!(self, DEBUG, messages, "not accepted: {reason}");
        }
    }

    /// Counts, if the actor is counted: in its own memory, under a lock of a few instructions.
    pub(super) fn count(&self, add: impl FnOnce(&mut Stats)) {
        if self.config().observers.counts {
            add(self.ext_made().told.lock().stats.get_or_insert_default());
        }
    }

    /// [`not_accepted`](Self::not_accepted), if it is counted or traced.
    #[inline]
    pub(crate) fn report_refused(&self, reason: &Reason, messages: u64) {
        if cfg!(feature = "tracing") || self.config().is_observed() {
            self.not_accepted(reason, messages);
        }
    }

    /// Counts a refusal of this many messages, and makes the error for their sender.
    #[inline]
    pub(crate) fn refused<M>(&self, messages: u64, message: M, reason: Reason) -> SendError<M> {
        self.report_refused(&reason, messages);
        SendError::new(message, reason, self.who())
    }

    /// The reason that a question is not accepted, for its asker.
    #[cold]
    pub(crate) fn refused_question(&self, reason: Reason) -> AskError {
        self.report_refused(&reason, 1);
        self.not_run(reason)
    }

    /// The error of a question that is not run.
    #[cold]
    pub(crate) fn not_run(&self, reason: Reason) -> AskError {
        AskError::Refused(reason, self.who().into())
    }

    /// A message that was accepted is dropped: there is no hook, or it is a question without an
    /// asker. It is counted for every actor.
    #[cold]
    pub(crate) fn discards(&self) {
        let ext = self.ext_made();
        // Ordering: Relaxed. A number by itself.
        ext.discarded.fetch_add(1, Relaxed);
        if let Some(all) = &ext.discarded_beside {
            *all.lock() += 1;
        }
        event!(
            self,
            WARN,
            "message discarded: accepted, not handled, with no hook or asker to go to"
        );
    }

    /// Messages that were dropped for want of a hook, or of an asker.
    pub(crate) fn discarded(&self) -> u64 {
        // Ordering: Relaxed. A number by itself.
        self.ext().map_or(0, |ext| ext.discarded.load(Relaxed))
    }

    /// The counts, of an actor that is counted.
    pub(crate) fn stats(&self) -> Option<Stats> {
        let counted = || self.ext().and_then(|ext| ext.told.lock().stats.as_deref().copied());
        self.config().observers.counts.then(|| counted().unwrap_or_default())
    }
}

#[cfg(feature = "tracing")]
thread_plain! {
    /// This thread calls a subscriber.
    static TELLS: Cell<bool> = Cell::new(false);
}

/// Calls a subscriber for what it says; `otherwise` if it panics. What it does in the call is said
/// to no subscriber, which would be called without an end by what it does itself.
#[cfg(feature = "tracing")]
pub(crate) fn told<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    TELLS.with(|tells| {
        if tells.replace(true) {
            // A span that it owns is closed in any case.
            panic::ignore(|| drop(f));
            return otherwise;
        }
        let told = panic::catch(f);
        tells.set(false);
        told.unwrap_or_else(|payload| {
            panic::discard(payload);
            otherwise
        })
    })
}
