//! Why a lock is not held.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use turnwise::{AskError, Reason};

use super::fence::Fence;

/// Why a lock was not acquired: it is certainly not held, and never will be by this call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// Its turn did not come in time.
    TimedOut {
        /// So long it has waited.
        waited: Duration,
    },
    /// It would not come in time, as far as is known: see
    /// [`Limits::refuse_early`](crate::Limits::refuse_early).
    Expected {
        /// So long it would take.
        wait: Duration,
    },
    /// Somebody holds it, or waits for it, and it was not to wait.
    Busy,
    /// The owner would wait for itself: it holds as a reader, and asked for a writer's hold.
    Deadlock,
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

impl From<Reason> for LockError {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Deadlock(_) => LockError::Deadlock,
            Reason::WouldBlock => LockError::WouldBlock,
            _ => LockError::Closed,
        }
    }
}

/// Why a turn, or an answer, did not come.
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
            LockError::TimedOut { waited } => write!(f, "the lock was not free in {waited:?}"),
            LockError::Expected { wait } => write!(f, "the lock is expected in {wait:?}, too late"),
            LockError::Busy => f.write_str("the lock is held, or waited for"),
            LockError::Deadlock => f.write_str("an owner would wait for itself"),
            LockError::Closed => f.write_str("the lock was closed"),
            LockError::WouldBlock => Reason::WouldBlock.fmt(f),
            LockError::TooMany { permits } => write!(f, "there are {permits} permits in all"),
            LockError::Taken => f.write_str("the outcome was taken before"),
        }
    }
}

impl Error for LockError {}

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

/// The hold was taken away before: its lease is over, or it was forced. Nothing has changed by the
/// call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostError {
    pub(crate) fence: Fence,
}

impl LostError {
    /// The fence of the hold that is lost.
    pub fn fence(self) -> Fence {
        self.fence
    }
}

impl fmt::Display for LostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the hold with fence {} was lost", self.fence)
    }
}

impl Error for LostError {}
