//! Errors of admissions.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use turnwise::{AskError, Reason};
use turnwise_locks::Fence;

use crate::error::StoreError;
use crate::name::NameError;

/// The maximum number of places of an admission.
pub(crate) const MOST_PLACES: u64 = 1_000_000_000;

/// The maximum length of a row, in bytes.
pub(crate) const LONGEST_ROW: usize = 65_536;

/// The error of an admission that was not opened: its parameters are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The name is not valid.
    Name(NameError),
    /// An admission without places could admit no applicant.
    NoPlaces,
    /// The limit exceeds 1,000,000,000 places.
    TooMany {
        /// The limit that was requested.
        limit: u64,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Name(error) => error.fmt(f),
            OpenError::NoPlaces => f.write_str("an admission must have at least one place"),
            OpenError::TooMany { limit } => {
                write!(f, "{limit} places exceed the limit of {MOST_PLACES}")
            }
        }
    }
}

impl Error for OpenError {}

/// An error of an application or a reservation. With all but [`Store`](Self::Store) and
/// [`Withdrawn`](Self::Withdrawn), this request has certainly not admitted the applicant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// All places are taken, or the admission was closed. Final.
    Closed {
        /// The number of places.
        limit: u64,
    },
    /// The applicant was admitted by another request.
    Duplicate {
        /// The place of the applicant.
        place: u64,
    },
    /// Another request of the applicant has reserved a place, or waits for one. Whether the
    /// applicant will be admitted is open.
    Pending {
        /// The reserved place.
        place: Option<u64>,
    },
    /// All places are taken, some of them only reserved, and the request was not to wait.
    Busy,
    /// No place was returned in time.
    TimedOut {
        /// The time that the request has waited.
        waited: Duration,
    },
    /// The lease of the reservation ended before it was confirmed.
    Lost(Fence),
    /// Other clients have said another limit.
    OtherLimit {
        /// The limit that they use.
        limit: u64,
    },
    /// The applicant is not a valid name.
    Applicant(NameError),
    /// The row is longer than 65,536 bytes.
    RowTooLong {
        /// The length of the row.
        bytes: usize,
    },
    /// A lease was given for a row, which is permanent.
    HasLease,
    /// The lease is shorter than ten milliseconds, which cannot be kept over a network.
    LeaseTooShort,
    /// The store did not answer. Another application finds out: it fails with
    /// [`Duplicate`](Self::Duplicate) if the applicant is in.
    Store(StoreError),
    /// Waiting was refused on this thread.
    Withdrawn(Reason),
    /// The client has ended, or the request was given up.
    Ended,
    /// The outcome was taken by an earlier poll.
    Taken,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Closed { limit } => write!(f, "closed: no place of {limit} is left"),
            Refused::Duplicate { place } => write!(f, "already admitted, in place {place}"),
            Refused::Pending { place: Some(place) } => {
                write!(f, "another request has reserved place {place}")
            }
            Refused::Pending { place: None } => f.write_str("another request waits for a place"),
            Refused::Busy => f.write_str("all places are taken or reserved"),
            Refused::TimedOut { waited } => write!(f, "no place was returned within {waited:.1?}"),
            Refused::Lost(fence) => {
                write!(f, "the reservation with fence {fence} has ended")
            }
            Refused::OtherLimit { limit } => {
                write!(f, "other clients use a limit of {limit} places")
            }
            Refused::Applicant(error) => write!(f, "invalid applicant: {error}"),
            Refused::RowTooLong { bytes } => {
                write!(f, "the row has {bytes} bytes; the limit is {LONGEST_ROW}")
            }
            Refused::HasLease => f.write_str("a row is permanent and has no lease"),
            Refused::LeaseTooShort => f.write_str("a lease must be at least ten milliseconds"),
            Refused::Store(error) => error.fmt(f),
            Refused::Withdrawn(reason) => reason.fmt(f),
            Refused::Ended => f.write_str("the client has ended"),
            Refused::Taken => f.write_str("the outcome was taken before"),
        }
    }
}

impl Error for Refused {}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Refused::Store(error)
    }
}

impl From<AskError> for Refused {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(reason, _) => Refused::Withdrawn(reason),
            AskError::Taken => Refused::Taken,
            _ => Refused::Ended,
        }
    }
}
