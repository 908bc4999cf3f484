//! Outcomes of a run other than its plain value.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwise::{AskError, Cycle, Reason, StopCause};

use crate::lock::Named;

/// The outcome of a run without a plain value. A closure's own error is in its value: nothing is
/// cast, and no outcome stands for another.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError<R = ()> {
    /// It certainly never ran, and never will.
    NotStarted(NotStarted),
    /// It ran to its end, longer than its lease. No other run of this key ran meanwhile.
    Overran {
        /// The value that it returned.
        value: R,
        /// The time beyond the lease.
        by: Duration,
    },
    /// It had begun, and was dropped at an await: its destructors have run, and the state it had is
    /// gone with it. Of async closures alone ([`Keyed::run_async`](crate::Keyed::run_async)).
    Cut(Cut),
    /// It panicked, with this text; or what makes the key's state did, or the clock, or the key's
    /// `Eq`, before it.
    Panicked(Arc<str>),
    /// It certainly never ran: the registry was shut down, or its executor is gone.
    Gone(StopCause),
    /// It runs, and this thread must not wait for its end: it is inside that very closure, or it is
    /// a pool's worker that must not wait.
    NotAwaited(Reason),
    /// The outcome was taken by an earlier poll.
    Taken,
}

/// The reason that an async closure was dropped at an await.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// Its lease was over.
    Lease,
    /// It was [aborted](crate::Run::abort), or the limit of a
    /// [shutdown](crate::Keyed::shutdown) was over.
    Aborted,
    /// No waker of it was left.
    Abandoned,
}

/// The error of a run that was not started.
///
/// Of a registry whose keys have [names](crate::KeyedBuilder::names), it has the name of the key,
/// and says it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotStarted {
    /// Its turn did not come in time.
    TimedOut {
        /// The time that it has waited.
        waited: Duration,
        /// The name of the key.
        key: Option<Arc<str>>,
    },
    /// Its turn was not to be expected in time, so it took no place
    /// ([`Limits::refuse_early`](crate::Limits::refuse_early)).
    Expected {
        /// The time that it would have waited, by what is known of the key.
        wait: Duration,
        /// The name of the key.
        key: Option<Arc<str>>,
    },
    /// Something of this key runs or waits, and it was not to wait.
    Busy {
        /// The name of the key.
        key: Option<Arc<str>>,
    },
    /// As many runs of this key wait as may
    /// ([`KeyedBuilder::capacity`](crate::KeyedBuilder::capacity)).
    Full {
        /// The name of the key.
        key: Option<Arc<str>>,
    },
    /// The registry was shut down, or its executor is gone.
    Closed,
    /// Waiting could never end: what holds the key waits for the turn that this thread is inside
    /// of, directly or through others.
    Deadlock(Cycle),
    /// Waiting was refused: this thread is a pool's worker, and no thread could take its place.
    WouldBlock,
    /// The call has more keys than are entered at once.
    TooManyKeys {
        /// The most keys that are entered at once.
        most: usize,
    },
}

impl<R> RunError<R> {
    /// Drops the value of a run that took too long: an error that can be shared whatever that is.
    ///
    /// # Examples
    /// ```
    /// use std::cell::Cell;
    /// use std::error::Error;
    /// use turnwise_locks::{Keyed, Limits, RunError};
    ///
    /// fn count(keyed: &Keyed<u32>) -> Result<Cell<u32>, Box<dyn Error + Send + Sync>> {
    ///     let count = keyed.run_within(7, Limits::NONE, |()| Cell::new(1));
    ///     Ok(count.map_err(RunError::without_value)?)
    /// }
    /// assert_eq!(count(&Keyed::new())?.get(), 1);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn without_value(self) -> RunError {
        match self {
            RunError::NotStarted(why) => RunError::NotStarted(why),
            RunError::Overran { by, .. } => RunError::Overran { value: (), by },
            RunError::Cut(cut) => RunError::Cut(cut),
            RunError::Panicked(text) => RunError::Panicked(text),
            RunError::Gone(cause) => RunError::Gone(cause),
            RunError::NotAwaited(reason) => RunError::NotAwaited(reason),
            RunError::Taken => RunError::Taken,
        }
    }
}

impl NotStarted {
    /// The error, with the name of the key that it is about, if it has none yet.
    pub(crate) fn about(mut self, name: impl FnOnce() -> Option<Arc<str>>) -> Self {
        match &mut self {
            NotStarted::TimedOut { key, .. }
            | NotStarted::Expected { key, .. }
            | NotStarted::Busy { key }
            | NotStarted::Full { key }
                if key.is_none() =>
            {
                *key = name();
            }
            _ => {}
        }
        self
    }
}

impl From<Reason> for NotStarted {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Deadlock(cycle) => NotStarted::Deadlock(cycle),
            Reason::WouldBlock => NotStarted::WouldBlock,
            // The mailboxes of keys have no capacity: none is full.
            _ => NotStarted::Closed,
        }
    }
}

impl<R> From<AskError> for RunError<R> {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(Reason::Stopped(cause), _) => RunError::Gone(cause),
            AskError::Refused(reason, _) => RunError::NotStarted(reason.into()),
            AskError::Panicked(panic) => RunError::Panicked(panic.text().into()),
            AskError::Taken => RunError::Taken,
            AskError::Aborted(_) => RunError::Cut(Cut::Aborted),
            AskError::Abandoned(_) => RunError::Cut(Cut::Abandoned),
            // The answer of a turn is never promised to others.
            _ => RunError::Gone(StopCause::Requested),
        }
    }
}

impl<R> From<NotStarted> for RunError<R> {
    fn from(why: NotStarted) -> Self {
        RunError::NotStarted(why)
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStarted::TimedOut { waited, key: None } => {
                write!(f, "its turn did not come in {waited:?}")
            }
            NotStarted::TimedOut { waited, key } => {
                write!(f, "the turn of{} did not come in {waited:?}", Named(key))
            }
            NotStarted::Expected { wait, key: None } => {
                write!(f, "the expected wait of {wait:?} exceeds the limit")
            }
            NotStarted::Expected { wait, key } => {
                write!(f, "the expected wait of {wait:?} for{} exceeds the limit", Named(key))
            }
            NotStarted::Busy { key } => write!(f, "the key{} is busy", Named(key)),
            NotStarted::Full { key } => {
                write!(f, "the key{} has no room for another run", Named(key))
            }
            NotStarted::Closed => f.write_str("the registry was shut down"),
            NotStarted::Deadlock(cycle) => cycle.fmt(f),
            NotStarted::WouldBlock => Reason::WouldBlock.fmt(f),
            NotStarted::TooManyKeys { most } => write!(f, "more than {most} keys at once"),
        }
    }
}

impl Error for NotStarted {}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cut::Lease => "its lease was over",
            Cut::Aborted => "it was aborted",
            Cut::Abandoned => "no waker of it was left",
        })
    }
}

// Whatever the value is: it is not shown, so `?` needs no bound.
impl<R> fmt::Debug for RunError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::NotStarted(why) => f.debug_tuple("NotStarted").field(why).finish(),
            RunError::Overran { by, .. } => {
                f.debug_struct("Overran").field("by", by).finish_non_exhaustive()
            }
            RunError::Cut(cut) => f.debug_tuple("Cut").field(cut).finish(),
            RunError::Panicked(text) => f.debug_tuple("Panicked").field(text).finish(),
            RunError::Gone(cause) => f.debug_tuple("Gone").field(cause).finish(),
            RunError::NotAwaited(reason) => f.debug_tuple("NotAwaited").field(reason).finish(),
            RunError::Taken => f.write_str("Taken"),
        }
    }
}

impl<R> fmt::Display for RunError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::NotStarted(why) => write!(f, "not started: {why}"),
            RunError::Overran { by, .. } => write!(f, "it took {by:?} longer than its lease"),
            RunError::Cut(cut) => write!(f, "it was cut at an await: {cut}"),
            RunError::Panicked(text) => write!(f, "it panicked: {text}"),
            RunError::Gone(cause) => write!(f, "not started: {cause}"),
            RunError::NotAwaited(reason) => write!(f, "it runs, and is not waited for: {reason}"),
            RunError::Taken => f.write_str("the outcome was taken before"),
        }
    }
}

impl<R> Error for RunError<R> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RunError::NotStarted(why) => Some(why),
            RunError::Gone(cause) => Some(cause),
            _ => None,
        }
    }
}
