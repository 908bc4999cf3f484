//! Errors of stores, connections and locks.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwise::{AskError, Reason};
use turnwise_locks::Fence;

use crate::name::NameError;

/// Whether a step happened whose answer did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The step did certainly not happen.
    None,
    /// The step may have happened.
    Unknown,
}

/// Kinds of refusals by a store: see [`StoreError::Refused`].
///
/// # Examples
/// ```
/// use turnwise_redis::{LockError, Refusal, StoreError};
///
/// fn is_full(error: &LockError) -> bool {
///     matches!(error, LockError::Store(StoreError::Refused { refusal: Refusal::Full, .. }))
/// }
/// assert!(!is_full(&LockError::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its memory is full (`OOM`). Transient.
    Full,
    /// It cannot write to its disk (`MISCONF`). Transient.
    NotSaving,
    /// It has fewer replicas than it requires (`NOREPLICAS`). Transient.
    TooFewReplicas,
    /// It has reached its limit of clients. Transient.
    TooManyClients,
    /// The user is unknown, or has no permission (`NOAUTH`, `WRONGPASS`, `NOPERM`).
    Denied,
    /// Any other refusal.
    Other,
}

impl Refusal {
    /// Classifies an answer by its code and its text.
    pub(crate) fn of(code: Option<&str>, text: &str) -> Self {
        match code {
            Some("OOM") => Refusal::Full,
            Some("MISCONF") => Refusal::NotSaving,
            Some("NOREPLICAS") => Refusal::TooFewReplicas,
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Refusal::Denied,
            _ if text.contains("max number of clients") => Refusal::TooManyClients,
            _ => Refusal::Other,
        }
    }

    /// True if the refusal may end without a change at this client.
    pub fn goes_by(self) -> bool {
        use Refusal::{Full, NotSaving, TooFewReplicas, TooManyClients};
        matches!(self, Full | NotSaving | TooFewReplicas | TooManyClients)
    }
}

/// An error that a store returns in place of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The store cannot be reached.
    Unreachable {
        /// The time since the first failed attempt.
        since: Duration,
        /// The error of the last attempt.
        why: String,
    },
    /// The store did not answer in time.
    TimedOut {
        /// Whether the step happened.
        effect: Effect,
    },
    /// The store refused the step, and has done nothing.
    Refused {
        /// The kind of refusal.
        refusal: Refusal,
        /// The name of the step: `acquire`, `renew`, ..; `connect` before the first one.
        step: &'static str,
        /// The reason, in the store's words.
        why: String,
    },
    /// The store cannot hold these objects.
    WrongStore {
        /// The requirement that the store does not meet.
        needs: String,
    },
    /// The address needs a protocol that is not supported: a Sentinel in place of a server, a
    /// cluster as one of the servers of a [`Majority`](crate::Majority), or TLS without the feature
    /// `tls`.
    Unsupported {
        /// The protocol that is not supported.
        what: &'static str,
        /// An alternative.
        instead: &'static str,
    },
}

impl StoreError {
    #[cfg(not(feature = "tls"))]
    pub(crate) const TLS: Self = StoreError::Unsupported {
        what: "TLS (`rediss://`) without the feature `tls` of turnwise-redis",
        instead: "turn it on, or use `redis://` to a TLS tunnel on this machine",
    };
    pub(crate) const SENTINEL: Self = StoreError::Unsupported {
        what: "a Sentinel in place of a server",
        instead: "use `redis+sentinel://HOST:PORT/NAME`, with the name of its primary",
    };
    pub(crate) const CLUSTER: Self = StoreError::Unsupported {
        what: "a cluster as one of the servers of a `Majority`",
        instead: "use servers that are independent of each other, or the cluster by itself",
    };

    /// True if the step may be repeated, and may succeed then.
    pub fn is_transient(&self) -> bool {
        match self {
            StoreError::Unreachable { .. } | StoreError::TimedOut { .. } => true,
            StoreError::Refused { refusal, .. } => refusal.goes_by(),
            StoreError::WrongStore { .. } | StoreError::Unsupported { .. } => false,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unreachable { since, why } if since.is_zero() => {
                write!(f, "the store cannot be reached: {why}")
            }
            StoreError::Unreachable { since, why } => {
                write!(f, "the store could not be reached for {since:.1?}: {why}")
            }
            StoreError::TimedOut { effect: Effect::None } => {
                f.write_str("the store did not answer in time; the step did not happen")
            }
            StoreError::TimedOut { effect: Effect::Unknown } => {
                f.write_str("the store did not answer in time; the step may have happened")
            }
            StoreError::Refused { step, why, .. } => {
                write!(f, "the store refused to {step}: {why}")
            }
            StoreError::WrongStore { needs } => write!(f, "the store does not provide {needs}"),
            StoreError::Unsupported { what, instead } => {
                write!(f, "{what} is not supported: {instead}")
            }
        }
    }
}

impl Error for StoreError {}

/// An error that prevents a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is invalid.
    Url(String),
    /// Certificates cannot be read, or the address is not one of TLS.
    Tls(String),
    /// The prefix is not a valid name.
    Prefix(NameError),
    /// The operating system provided no thread, or no random number.
    System(String),
    /// The store did not answer, or is of the wrong kind.
    Store(StoreError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Url(why) => write!(f, "the address is invalid: {why}"),
            ConnectError::Tls(why) => write!(f, "certificates for TLS: {why}"),
            ConnectError::Prefix(error) => write!(f, "invalid prefix: {error}"),
            ConnectError::System(why) => write!(f, "the operating system refused: {why}"),
            ConnectError::Store(error) => error.fmt(f),
        }
    }
}

impl Error for ConnectError {}

impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> Self {
        ConnectError::Store(error)
    }
}

/// An error of a request for a lock or a tick. Nothing is held, and this call will hold nothing
/// later. If the store does not receive the withdrawal, the lock is free again when the lease is
/// over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// The lock was not granted in time.
    TimedOut {
        /// The time that the request has waited.
        waited: Duration,
        /// The name of the lock. Never `None`.
        key: Option<Arc<str>>,
    },
    /// The lock is held, and the request was not to wait.
    Busy {
        /// The name of the lock. Never `None`.
        key: Option<Arc<str>>,
    },
    /// Other clients, which hold or wait for places, use another number of places.
    OtherPlaces {
        /// The number that they use.
        places: u32,
    },
    /// The lease is shorter than ten milliseconds, which cannot be kept over a network.
    LeaseTooShort,
    /// The name is not valid.
    Name(NameError),
    /// The store did not answer.
    Store(StoreError),
    /// Too few nodes of a [`Majority`](crate::Majority) granted it.
    NoMajority(Votes),
    /// Waiting could never end: inside a turn that the answer waits for.
    Deadlock {
        /// The name of the lock. `None` from a wait, which does not know it.
        key: Option<Arc<str>>,
    },
    /// Waiting was refused: this thread is a pool's worker, and no thread could take its place.
    WouldBlock,
    /// The client has ended.
    Closed,
    /// The outcome was taken by an earlier poll.
    Taken,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::TimedOut { waited, key } => {
                let name = key.as_deref().unwrap_or_default();
                write!(f, "`{name}` was not granted within {waited:.1?}")
            }
            LockError::Busy { key } => {
                let name = key.as_deref().unwrap_or_default();
                write!(f, "`{name}` was not granted: it is held, or waited for")
            }
            LockError::OtherPlaces { places } => {
                write!(f, "other clients use {places} places")
            }
            LockError::LeaseTooShort => f.write_str("a lease must be at least ten milliseconds"),
            LockError::Name(error) => error.fmt(f),
            LockError::Store(error) => error.fmt(f),
            LockError::NoMajority(votes) => write!(f, "no majority: {votes}"),
            LockError::Deadlock { .. } => f.write_str("the wait could never end"),
            LockError::WouldBlock => Reason::WouldBlock.fmt(f),
            LockError::Closed => f.write_str("the client has ended"),
            LockError::Taken => f.write_str("the outcome was taken before"),
        }
    }
}

impl Error for LockError {}

impl From<StoreError> for LockError {
    fn from(error: StoreError) -> Self {
        LockError::Store(error)
    }
}

impl From<NameError> for LockError {
    fn from(error: NameError) -> Self {
        LockError::Name(error)
    }
}

impl From<AskError> for LockError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(Reason::Deadlock(_), _) => LockError::Deadlock { key: None },
            AskError::Refused(Reason::WouldBlock, _) => LockError::WouldBlock,
            AskError::Taken => LockError::Taken,
            _ => LockError::Closed,
        }
    }
}

/// An error of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The hold was lost before: its lease was over, or it was forced.
    Lost(Fence),
    /// The store did not answer. The hold is no longer renewed, and ends with its lease at the
    /// latest.
    Store(StoreError),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReleaseError::Lost(fence) => write!(f, "the hold with fence {fence} was lost"),
            ReleaseError::Store(error) => error.fmt(f),
        }
    }
}

impl Error for ReleaseError {}

impl From<AskError> for ReleaseError {
    fn from(_: AskError) -> Self {
        ReleaseError::Store(StoreError::TimedOut { effect: Effect::Unknown })
    }
}

/// The votes of the nodes, when no majority was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Votes {
    /// The number of nodes.
    pub nodes: usize,
    /// The number of nodes that granted it.
    pub granted: usize,
    /// The number of nodes at which another client holds it.
    pub held: usize,
    /// The number of nodes that stay [away](crate::MajorityBuilder::quarantine).
    pub away: usize,
    /// The number of nodes that had not answered when the vote was over.
    pub silent: usize,
    /// Nodes that failed, by their numbers from 0 on.
    pub failed: Vec<(usize, StoreError)>,
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Votes { nodes, granted, held, away, silent, failed } = self;
        write!(f, "{granted} of {nodes} nodes granted it")?;
        for (count, what) in [(held, "held"), (away, "away"), (silent, "silent")] {
            if *count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        failed.iter().try_for_each(|(node, error)| write!(f, "; node {node}: {error}"))
    }
}
