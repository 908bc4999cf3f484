//! Why there is no admission, and why an applicant is not in.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use turnwise::{AskError, Reason};
use turnwise_locks::Fence;

use crate::error::StoreError;
use crate::name::NameError;

/// The most places that an admission has.
pub(crate) const MOST_PLACES: u64 = 1_000_000_000;

/// The longest row, in bytes.
pub(crate) const LONGEST_ROW: usize = 65_536;

/// Why there is no such admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionError {
    /// The name cannot be one.
    Name(NameError),
    /// An admission without places could let nobody in.
    NoPlaces,
    /// It would have more than 1,000,000,000 places.
    TooMany {
        /// How many were asked for.
        limit: u64,
    },
}

impl fmt::Display for AdmissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdmissionError::Name(error) => error.fmt(f),
            AdmissionError::NoPlaces => f.write_str("an admission needs a place"),
            AdmissionError::TooMany { limit } => {
                write!(f, "{limit} places are over the limit of {MOST_PLACES}")
            }
        }
    }
}

impl Error for AdmissionError {}

/// Why an applicant is not in, or a place not reserved. All but [`Store`](Self::Store) and
/// [`Withdrawn`](Self::Withdrawn) mean: certainly not by this request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// As many are in as may be, or it was closed: now and for good.
    Closed {
        /// How many places there were.
        limit: u64,
    },
    /// This applicant is in, by another request.
    Duplicate {
        /// Its place.
        place: u64,
    },
    /// Another request of this applicant has a place reserved, or waits for one: whether it will be
    /// in is open.
    Pending {
        /// The place that is reserved.
        place: Option<u64>,
    },
    /// All places are taken, some of them are reserved only, and it was not to wait.
    Busy,
    /// No place came back in time.
    TimedOut {
        /// So long it has waited.
        waited: Duration,
    },
    /// The reservation was over before it was confirmed: its lease had ended.
    Lost(Fence),
    /// Other clients have said another limit.
    OtherLimit {
        /// This one.
        limit: u64,
    },
    /// The applicant cannot be one.
    Applicant(NameError),
    /// The row is longer than 65,536 bytes.
    RowTooLong {
        /// So long it is.
        bytes: usize,
    },
    /// A row has no lease: it is for good.
    HasLease,
    /// A reservation of less than ten milliseconds cannot be kept over a network.
    LeaseTooShort,
    /// The store did not answer. To apply again tells: [`Duplicate`](Self::Duplicate) if it is in.
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
            Refused::Duplicate { place } => write!(f, "in already, in place {place}"),
            Refused::Pending { place: Some(place) } => {
                write!(f, "another request has place {place} reserved")
            }
            Refused::Pending { place: None } => f.write_str("another request waits for a place"),
            Refused::Busy => f.write_str("all places are taken or reserved"),
            Refused::TimedOut { waited } => write!(f, "no place came back in {waited:.1?}"),
            Refused::Lost(fence) => {
                write!(f, "the reservation with fence {fence} was over before")
            }
            Refused::OtherLimit { limit } => write!(f, "the admission has {limit} places"),
            Refused::Applicant(error) => write!(f, "the applicant: {error}"),
            Refused::RowTooLong { bytes } => {
                write!(f, "the row has {bytes} bytes, and {LONGEST_ROW} are the most")
            }
            Refused::HasLease => f.write_str("a row has no lease: it is for good"),
            Refused::LeaseTooShort => f.write_str("a reservation needs ten milliseconds"),
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
