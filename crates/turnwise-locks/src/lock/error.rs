//! Errors of locks.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwise::{AskError, Reason};

use super::fence::Fence;

/// The error of a lock that was not acquired, and never will be by this call.
///
/// Of locks whose keys have [names](crate::LocksBuilder#method.names), the error has the name of
/// the key, and says it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// Its turn did not come in time.
    TimedOut {
        /// The time that it has waited.
        waited: Duration,
        /// The name of the key.
        key: Option<Arc<str>>,
    },
    /// It would not come in time, as far as is known: see
    /// [`Limits::refuse_early`](crate::Limits::refuse_early).
    Expected {
        /// The time that it would take.
        wait: Duration,
        /// The name of the key.
        key: Option<Arc<str>>,
    },
    /// Somebody holds it, or waits for it, and it was not to wait.
    Busy {
        /// The name of the key.
        key: Option<Arc<str>>,
    },
    /// The owner would wait for itself: it holds as a reader, and asked for a writer's hold.
    Deadlock {
        /// The name of the key.
        key: Option<Arc<str>>,
    },
    /// It was closed.
    Closed,
    /// Waiting was refused: this thread is a pool's worker, and no thread could take its place.
    WouldBlock,
    /// The request is for more permits than there are in all.
    TooMany {
        /// The number of permits in all.
        permits: u64,
    },
    /// The outcome was taken by an earlier poll.
    Taken,
}

impl LockError {
    /// The error, with the name of the key that it is about.
    pub(super) fn about(mut self, name: Option<Arc<str>>) -> Self {
        match &mut self {
            LockError::TimedOut { key, .. }
            | LockError::Expected { key, .. }
            | LockError::Busy { key }
            | LockError::Deadlock { key } => *key = name,
            _ => {}
        }
        self
    }
}

impl From<Reason> for LockError {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Deadlock(_) => LockError::Deadlock { key: None },
            Reason::WouldBlock => LockError::WouldBlock,
            _ => LockError::Closed,
        }
    }
}

/// The reason that a turn, or an answer, did not come.
impl From<AskError> for LockError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(reason, _) => reason.into(),
            AskError::Taken => LockError::Taken,
            _ => LockError::Closed,
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::TimedOut { waited, key } => {
                write!(f, "{} within {waited:?}", NotGranted(key))
            }
            LockError::Expected { wait, key } => {
                write!(f, "{}: the expected wait of {wait:?} exceeds the limit", NotGranted(key))
            }
            LockError::Busy { key } => write!(f, "{}: it is held, or waited for", NotGranted(key)),
            LockError::Deadlock { key: None } => f.write_str("an owner would wait for itself"),
            LockError::Deadlock { key } => {
                write!(f, "an owner of the lock{} would wait for itself", Named(key))
            }
            LockError::Closed => f.write_str("no more requests are taken"),
            LockError::WouldBlock => Reason::WouldBlock.fmt(f),
            LockError::TooMany { permits } => write!(f, "there are {permits} permits in all"),
            LockError::Taken => f.write_str("the outcome was taken before"),
        }
    }
}

impl Error for LockError {}

/// The beginning of a sentence about a request: for a key with a name, or for a permit.
struct NotGranted<'a>(&'a Option<Arc<str>>);

impl fmt::Display for NotGranted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "`{name}` was not granted"),
            None => f.write_str("not granted"),
        }
    }
}

/// The name of a key in a sentence, after the word that it names.
pub(crate) struct Named<'a>(pub(crate) &'a Option<Arc<str>>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, " `{name}`"),
            None => Ok(()),
        }
    }
}

/// No more requests are taken: the only error of a request without limits that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl From<Closed> for LockError {
    fn from(_: Closed) -> Self {
        LockError::Closed
    }
}

impl PartialEq<LockError> for Closed {
    fn eq(&self, other: &LockError) -> bool {
        *other == LockError::Closed
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LockError::Closed.fmt(f)
    }
}

impl Error for Closed {}

/// An error of a release, or of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The hold with this fence was lost before: its lease was over, or it was forced. Nothing has
    /// changed by the call.
    Lost(Fence),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReleaseError::Lost(fence) = self;
        write!(f, "the hold with fence {fence} was lost")
    }
}

impl Error for ReleaseError {}
