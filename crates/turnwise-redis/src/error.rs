//! Why something did not happen.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use turnwise::{AskError, Reason};
use turnwise_locks::Fence;

use crate::name::NameError;

/// Did a step happen whose answer did not come?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Certainly not.
    None,
    /// Perhaps.
    Unknown,
}

/// Why a store refused: see [`StoreError::Refused`].
///
/// # Examples
/// ```
/// use turnwise_redis::{LockError, Refusal, StoreError};
///
/// fn is_full(error: &LockError) -> bool {
///     matches!(error, LockError::Store(StoreError::Refused { refusal: Refusal::Full, .. }))
/// }
/// assert!(!is_full(&LockError::Busy));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its memory is full (`OOM`). Goes by.
    Full,
    /// It cannot write to its disk (`MISCONF`). Goes by.
    NotSaving,
    /// It has fewer replicas than it is to have (`NOREPLICAS`). Goes by.
    TooFewReplicas,
    /// It has as many clients as it takes. Goes by.
    TooManyClients,
    /// It knows no such user, or that one must not do this (`NOAUTH`, `WRONGPASS`, `NOPERM`).
    Denied,
    /// Something else.
    Other,
}

impl Refusal {
    /// What an answer with this code and this text is.
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

    /// May it be over soon, without anybody's doing at this client?
    pub fn goes_by(self) -> bool {
        use Refusal::{Full, NotSaving, TooFewReplicas, TooManyClients};
        matches!(self, Full | NotSaving | TooFewReplicas | TooManyClients)
    }
}

/// Why a store did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// It cannot be reached.
    Unreachable {
        /// For so long.
        since: Duration,
        /// Why, as the last attempt has it.
        why: String,
    },
    /// It did not answer in time.
    TimedOut {
        /// Did the step happen?
        effect: Effect,
    },
    /// It answered that it will not, and has done nothing.
    Refused {
        /// What kind of refusal it is.
        refusal: Refusal,
        /// What was asked of it: `acquire`, `renew`, ..; `connect`, before the first step.
        step: &'static str,
        /// Why, in its own words.
        why: String,
    },
    /// It is none that this can be kept in.
    WrongStore {
        /// What it would have to be.
        needs: String,
    },
    /// It is reached in a way that is not supported: as a cluster of several nodes, through
    /// Sentinel, or by TLS without the feature `tls`.
    Unsupported {
        /// What is not supported.
        what: &'static str,
        /// What to do instead.
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
        what: "Sentinel",
        instead: "use the primary's own address, or one that follows the primary",
    };
    pub(crate) const CLUSTER: Self = StoreError::Unsupported {
        what: "a cluster of several nodes",
        instead: "use a server that is no cluster, or a `Majority` of such servers",
    };

    /// May the step be repeated, for it may succeed then?
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
                f.write_str("the store did not answer in time; nothing has happened")
            }
            StoreError::TimedOut { effect: Effect::Unknown } => {
                f.write_str("the store did not answer in time; whether it happened is unknown")
            }
            StoreError::Refused { step, why, .. } => {
                write!(f, "the store refused to {step}: {why}")
            }
            StoreError::WrongStore { needs } => write!(f, "the store does not do: {needs}"),
            StoreError::Unsupported { what, instead } => {
                write!(f, "{what} is not supported: {instead}")
            }
        }
    }
}

impl Error for StoreError {}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is none.
    Url(String),
    /// Certificates cannot be read, or the address is not one of TLS.
    Tls(String),
    /// The prefix is none.
    Prefix(NameError),
    /// No thread, or no number, was to be had from the operating system.
    System(String),
    /// The store did not answer, or is of the wrong kind.
    Store(StoreError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Url(why) => write!(f, "the address is none: {why}"),
            ConnectError::Tls(why) => write!(f, "certificates for TLS: {why}"),
            ConnectError::Prefix(error) => write!(f, "the prefix: {error}"),
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

/// Why a lock was not acquired, or a tick not attended: nothing is held, and never will be by this
/// call. If the store does not hear so, it is free again when its lease is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// Its turn did not come in time.
    TimedOut {
        /// So long it has waited.
        waited: Duration,
    },
    /// Somebody holds it, and it was not to wait.
    Busy,
    /// Other clients have said another number of places, and hold some, or wait for one.
    OtherPlaces {
        /// That number.
        places: u32,
    },
    /// A lease of no time is over before it begins; one under ten milliseconds cannot be kept over
    /// a network.
    LeaseTooShort,
    /// The name cannot be one.
    Name(NameError),
    /// The store did not answer.
    Store(StoreError),
    /// Of the nodes of a [`Majority`](crate::Majority), too few answered.
    NoMajority(Votes),
    /// Waiting was refused.
    Refused(Reason),
    /// The client has ended.
    Closed,
    /// The outcome was taken by an earlier poll.
    Taken,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::TimedOut { waited } => write!(f, "the lock was not free in {waited:.1?}"),
            LockError::Busy => f.write_str("the lock is held, or waited for"),
            LockError::OtherPlaces { places } => {
                write!(f, "other clients say that there are {places} places")
            }
            LockError::LeaseTooShort => f.write_str("a lease needs ten milliseconds"),
            LockError::Name(error) => error.fmt(f),
            LockError::Store(error) => error.fmt(f),
            LockError::NoMajority(votes) => write!(f, "no majority: {votes}"),
            LockError::Refused(reason) => reason.fmt(f),
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
            AskError::Refused(reason, _) => LockError::Refused(reason),
            AskError::Taken => LockError::Taken,
            _ => LockError::Closed,
        }
    }
}

/// Why a hold did not end by its release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// It was lost before: its lease was over, or it was forced.
    Lost(Fence),
    /// The store did not answer. The hold ends with its lease at the latest: nothing renews it.
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

/// How nodes voted, when no majority was had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Votes {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many said yes.
    pub granted: usize,
    /// How many said that somebody else holds it.
    pub held: usize,
    /// How many stay [away](crate::MajorityBuilder::quarantine).
    pub away: usize,
    /// How many had not answered when the vote was over.
    pub silent: usize,
    /// Nodes that failed, by their numbers from 0 on.
    pub failed: Vec<(usize, StoreError)>,
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Votes { nodes, granted, held, away, silent, failed } = self;
        write!(f, "{granted} of {nodes} nodes said yes")?;
        for (count, what) in [(held, "held"), (away, "away"), (silent, "silent")] {
            if *count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        failed.iter().try_for_each(|(node, error)| write!(f, "; node {node}: {error}"))
    }
}
