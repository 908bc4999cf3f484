//! What went wrong is told here: counted, and, with the feature `tracing`, said as an event with
//! the actor's name. Never with a message.
//!
//! The numbers lie in what few actors have ([`Ext`](super::header::Ext)). What is discarded is
//! counted for every actor, by one atomic addition where a message is lost anyway; the rest only
//! for those that were built to be counted, under a lock of a few instructions, at the end of a
//! batch and where something goes wrong. Nobody else pays.
//!
//! Whoever listens to events is user code ([`crate::panic`]): it is called where a hook might be,
//! under no lock, and its panic concerns nobody.

#![forbid(unsafe_code)]

use super::header::{Header, Recovered};
use super::stats::Stats;
use crate::error::{Reason, StopCause, TurnPanic};
#[cfg(feature = "tracing")]
use crate::panic;
use crate::sync::atomic::Ordering::Relaxed;

/// An event, if anybody may listen.
macro_rules! event {
    ($level:ident, $header:expr, $($rest:tt)*) => {
        #[cfg(feature = "tracing")]
        panic::ignore(|| {
            tracing::event!(
                target: "turnwise",
                tracing::Level::$level,
                actor = $header.name(),
                $($rest)*
            );
        });
    };
}

impl Header {
    /// Is this actor counted?
    #[inline]
    fn is_counted(&self) -> bool {
        self.config().counted
    }

    /// Counts, if this actor is counted.
    #[inline]
    fn count(&self, how: impl FnOnce(&mut Stats)) {
        if self.is_counted() {
            how(self.ext_made().told.lock().stats.get_or_insert_default());
        }
    }

    /// The counts, of an actor that is counted.
    pub(crate) fn stats(&self) -> Option<Stats> {
        let counted = || self.ext().and_then(|ext| ext.told.lock().stats.as_deref().copied());
        let all = || Stats { discarded: self.discarded(), ..counted().unwrap_or_default() };
        self.is_counted().then(all)
    }

    /// Messages that were dropped for want of a hook.
    pub(crate) fn discarded(&self) -> u64 {
        // Ordering: Relaxed. A number by itself.
        self.ext().map_or(0, |ext| ext.discarded.load(Relaxed))
    }

    /// A batch is over, of an actor with something around its turns.
    pub(crate) fn report_batch(&self, turns: u64, given_back: u64) {
        self.count(|stats| {
            stats.handled += turns;
            stats.undelivered += given_back;
        });
    }

    /// A turn, or a hook of a batch, has panicked, and the policy has acted.
    #[cold]
    pub(crate) fn report_panic(&self, panic: &TurnPanic, recovered: Recovered) {
        self.count(|stats| stats.panicked += 1);
        let goes_on = matches!(recovered, Recovered::Resumed | Recovered::Restarts(_));
        event!(ERROR, self, goes_on, "a turn panicked: {}", panic.text());
        let _ = (panic, goes_on);
    }

    /// The actor was stopped: this call did it.
    #[cold]
    pub(crate) fn report_stop(&self, cause: &StopCause) {
        event!(WARN, self, "actor stopped: {cause}");
        let _ = cause;
    }

    /// A sender, or asker, gets its messages back.
    #[inline]
    pub(crate) fn report_refused(&self, reason: &Reason, messages: u64) {
        if cfg!(feature = "tracing") || self.is_counted() {
            self.do_report_refused(reason, messages);
        }
    }

    #[cold]
    fn do_report_refused(&self, reason: &Reason, messages: u64) {
        if !matches!(reason, Reason::Busy | Reason::HasExecutor) {
            self.count(|stats| stats.refused += messages);
        }
        event!(DEBUG, self, messages, "not accepted: {reason}");
    }

    /// A message that was accepted does not go into the mailbox, for that is full.
    #[cold]
    pub(crate) fn report_dropped_newest(&self) {
        self.count(|stats| stats.undelivered += 1);
    }

    /// A message that was accepted is about to be dropped: there is no hook.
    #[cold]
    pub(crate) fn report_discarded(&self) {
        // Ordering: Relaxed. A number by itself.
        self.ext_made().discarded.fetch_add(1, Relaxed);
        event!(WARN, self, "message discarded: accepted, not handled, and no undelivered hook");
    }

    /// The budget is spent, and what is left goes to the executor.
    #[cold]
    pub(crate) fn report_hand_off(&self) {
        self.count(|stats| stats.handed_off += 1);
        event!(TRACE, self, "budget spent: the rest goes to the executor");
    }
}
