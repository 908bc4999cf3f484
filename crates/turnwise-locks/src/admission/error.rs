//! Errors of an application that is not admitted, and of an admission itself.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwise::{BuildError, EndCause, Reason};

/// The error of an applicant that is not in. All but [`Unknown`](Self::Unknown) and
/// [`NotAwaited`](Self::NotAwaited) mean: certainly not in by this application. Also that of a
/// [limit](crate::admission::Admission::set_limit) that was not set.
#[non_exhaustive]
pub enum Refused<E> {
    /// As many are in as may be, now and for good.
    Closed {
        /// The number that may be.
        limit: u64,
    },
    /// This applicant is in already.
    Duplicate {
        /// The place of the entry that stands.
        place: u64,
    },
    /// Others are before it, and it was not to wait.
    Busy,
    /// Its turn did not come in time.
    TimedOut {
        /// The time that it has waited.
        waited: Duration,
    },
    /// Its turn was not to be expected in time, so it took no place in the queue
    /// ([`Limits::refuse_early`](crate::Limits::refuse_early)).
    /// Those whose answers are out count until their batch is over: so the wait may be too long.
    Expected {
        /// The time that it would have waited, by that of the latest entries.
        wait: Duration,
    },
    /// The ledger could not enter it. The others of its pass are not concerned.
    Failed(Fault<E>),
    /// The ledger could not commit the pass that this entry was in: none of it is in.
    CommitFailed(Fault<E>),
    /// The ledger could not say whether it has committed the pass, nor who is in. To apply again
    /// tells: [`Duplicate`](Self::Duplicate) if the entry stands.
    Unknown(Fault<E>),
    /// The admission has ended.
    Gone(EndCause),
    /// Waiting could never end, or was refused, on this thread: the application is withdrawn, and
    /// a limit is as it was.
    Withdrawn(Reason),
    /// It was given up too late: its turn has come, so it may be in.
    NotAwaited(Reason),
    /// An entry has no lease: it is durable, and cannot be cut.
    HasLease,
    /// The outcome was taken by an earlier poll.
    Taken,
}

/// A failure of a ledger. Clones share the error.
pub enum Fault<E> {
    /// It returned this error.
    Error(Arc<E>),
    /// It panicked, with this text; or the `Hash`, `Eq` or `Clone` of an applicant did.
    Panic(Arc<str>),
}

impl<E> Fault<E> {
    /// The ledger's own error, if it is one.
    pub fn error(&self) -> Option<&E> {
        match self {
            Fault::Error(error) => Some(error),
            Fault::Panic(_) => None,
        }
    }
}

impl<E> Clone for Fault<E> {
    fn clone(&self) -> Self {
        match self {
            Fault::Error(error) => Fault::Error(error.clone()),
            Fault::Panic(text) => Fault::Panic(text.clone()),
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for Fault<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Error(error) => f.debug_tuple("Error").field(error).finish(),
            Fault::Panic(text) => f.debug_tuple("Panic").field(text).finish(),
        }
    }
}

impl<E: fmt::Display> fmt::Display for Fault<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Error(error) => error.fmt(f),
            Fault::Panic(text) => write!(f, "it panicked: {text}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for Fault<E> {}

impl<E: fmt::Debug> fmt::Debug for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Closed { limit } => f.debug_struct("Closed").field("limit", limit).finish(),
            Refused::Duplicate { place } => {
                f.debug_struct("Duplicate").field("place", place).finish()
            }
            Refused::Busy => f.write_str("Busy"),
            Refused::TimedOut { waited } => {
                f.debug_struct("TimedOut").field("waited", waited).finish()
            }
            Refused::Expected { wait } => f.debug_struct("Expected").field("wait", wait).finish(),
            Refused::Failed(fault) => f.debug_tuple("Failed").field(fault).finish(),
            Refused::CommitFailed(fault) => f.debug_tuple("CommitFailed").field(fault).finish(),
            Refused::Unknown(fault) => f.debug_tuple("Unknown").field(fault).finish(),
            Refused::Gone(cause) => f.debug_tuple("Gone").field(cause).finish(),
            Refused::Withdrawn(reason) => f.debug_tuple("Withdrawn").field(reason).finish(),
            Refused::NotAwaited(reason) => f.debug_tuple("NotAwaited").field(reason).finish(),
            Refused::HasLease => f.write_str("HasLease"),
            Refused::Taken => f.write_str("Taken"),
        }
    }
}

impl<E: fmt::Display> fmt::Display for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Closed { limit } => write!(f, "closed: all {limit} places are taken"),
            Refused::Duplicate { place } => write!(f, "already admitted, in place {place}"),
            Refused::Busy => f.write_str("others are before it"),
            Refused::TimedOut { waited } => write!(f, "its turn did not come in {waited:?}"),
            Refused::Expected { wait } => {
                write!(f, "the expected wait of {wait:?} exceeds the limit")
            }
            Refused::Failed(fault) => write!(f, "not entered: {fault}"),
            Refused::CommitFailed(fault) => write!(f, "not committed: {fault}"),
            Refused::Unknown(fault) => write!(f, "it is not known whether it is in: {fault}"),
            Refused::Gone(cause) => write!(f, "the admission has ended: {cause}"),
            Refused::Withdrawn(reason) => write!(f, "withdrawn: {reason}"),
            Refused::NotAwaited(reason) => write!(f, "decided, and not waited for: {reason}"),
            Refused::HasLease => f.write_str("an entry has no lease"),
            Refused::Taken => f.write_str("the outcome was taken before"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display + 'static> Error for Refused<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Refused::Failed(fault) | Refused::CommitFailed(fault) | Refused::Unknown(fault) => {
                Some(fault)
            }
            Refused::Gone(EndCause::Stopped(cause)) => Some(cause),
            Refused::Withdrawn(reason) | Refused::NotAwaited(reason) => Some(reason),
            _ => None,
        }
    }
}

/// The error of an admission that was not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError<E> {
    /// The ledger could not say who is in.
    Load(Fault<E>),
    /// A pass without an applicant would never end.
    GroupZero,
    /// The mailbox cannot be built.
    Build(BuildError),
}

impl<E: fmt::Display> fmt::Display for OpenError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Load(fault) => write!(f, "the ledger was not loaded: {fault}"),
            OpenError::GroupZero => f.write_str("a pass needs room for one applicant at least"),
            OpenError::Build(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display + 'static> Error for OpenError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            OpenError::Load(fault) => Some(fault),
            OpenError::GroupZero => None,
            OpenError::Build(error) => Some(error),
        }
    }
}
