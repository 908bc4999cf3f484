//! The steps of an admission, and their answers. The rules STEP-1 to STEP-5 are those of all steps.

use std::time::Duration;

use super::{Standing, Token};

/// A step of an admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionStep {
    /// The number of places, from 1 on. All steps of one admission state the same.
    pub limit: u64,
    /// The action.
    pub act: AdmissionAct,
}

impl AdmissionStep {
    /// The step's name in refusals.
    pub fn name(&self) -> &'static str {
        match self.act {
            AdmissionAct::Admit { .. } => "admit",
            AdmissionAct::Reserve { .. } => "reserve",
            AdmissionAct::Keep { .. } => "keep",
            AdmissionAct::Confirm { .. } => "confirm",
            AdmissionAct::Cancel { .. } => "cancel",
            AdmissionAct::Close => "close",
            AdmissionAct::Look => "look",
            AdmissionAct::Rows { .. } => "rows",
        }
    }
}

/// A request, and the applicant for whom it is made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// The request.
    pub token: Token,
    /// The applicant.
    pub applicant: String,
}

/// The actions of an admission, each of which has its [`AdmissionAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionAct {
    /// Writes a row into the place that the request has reserved, or into a free one. Otherwise
    /// adds a queue entry.
    Admit {
        /// The request.
        claim: Claim,
        /// The content of the row.
        row: Vec<u8>,
        /// The lifetime of the queue entry, unless it is kept. `None` adds none.
        alive: Option<Duration>,
    },
    /// Reserves a place if one is free. Otherwise adds a queue entry.
    Reserve {
        /// The request.
        claim: Claim,
        /// The lease of the reservation, unless it is kept.
        lease: Duration,
        /// The lifetime of the queue entry, unless it is kept. `None` adds none.
        alive: Option<Duration>,
    },
    /// Extends reservations and queue entries, counted from now.
    Keep {
        /// The requests, and the fences of their reservations: 0 matches any.
        claims: Vec<(Claim, u64)>,
        /// The lease of a reservation.
        lease: Duration,
        /// The lifetime of a queue entry.
        alive: Duration,
    },
    /// Writes a row into the reserved place.
    Confirm {
        /// The request.
        claim: Claim,
        /// The fence of the reservation.
        fence: u64,
        /// The content of the row.
        row: Vec<u8>,
    },
    /// Releases the reserved place, or removes the queue entry. A row stays.
    Cancel {
        /// The request.
        claim: Claim,
        /// True if copies of requests with this token may be on their way. They are refused when
        /// they arrive.
        late: bool,
    },
    /// Closes the admission. Only reserved places can be confirmed afterwards.
    Close,
    /// Reads the state.
    Look,
    /// Reads rows.
    Rows {
        /// The number of rows to skip, in the order of writing.
        from: u64,
        /// The maximum number of rows.
        most: u32,
    },
}

/// The answer to a step of an admission.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionAnswer {
    /// The row of the request is written.
    Admitted {
        /// The place, from 1 on.
        place: u64,
        /// The fence of the entry.
        fence: u64,
    },
    /// To `Reserve`: the place is reserved for the lease, which begins now.
    Reserved {
        /// The place, from 1 on.
        place: u64,
        /// The fence of the reservation.
        fence: u64,
    },
    /// The request has a queue entry: all places are taken, some of them only reserved.
    Queued {
        /// The number of entries before it.
        ahead: u64,
        /// The time until the first lease ends, if it is not kept.
        busy: Duration,
    },
    /// All places are taken, some of them only reserved, and the request was not to wait.
    Busy {
        /// The time until the first lease ends, if it is not kept.
        busy: Duration,
    },
    /// All places are taken for good, or the admission is closed.
    Closed {
        /// The number of places.
        limit: u64,
    },
    /// The applicant was admitted by another request.
    Duplicate {
        /// The place of the applicant.
        place: u64,
    },
    /// Another request of the applicant has reserved a place, or waits for one.
    Pending {
        /// The reserved place.
        place: Option<u64>,
    },
    /// The request was given up before.
    Gone,
    /// To `Keep`.
    Standings {
        /// The state of each claim, in order. A row holds.
        standings: Vec<Standing>,
        /// The time until the first lease ends, if it is not kept.
        busy: Duration,
    },
    /// To `Confirm`: the reservation no longer exists.
    Lost,
    /// To `Cancel`: the request has neither a place nor a queue entry.
    Cancelled,
    /// To `Look`.
    Seen(AdmissionSeen),
    /// To `Rows`: rows in the order of writing.
    Rows(Vec<AdmissionRow>),
    /// The admission has another limit. The step had no effect.
    Differs {
        /// The number of places.
        limit: u64,
    },
}

/// A snapshot of an admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionSeen {
    /// The number of places. 0: none was stated yet.
    pub limit: u64,
    /// True if the admission is closed.
    pub closed: bool,
    /// The number of rows.
    pub admitted: u64,
    /// The number of reserved places.
    pub reserved: u64,
    /// The number of queue entries.
    pub waiting: u64,
    /// The fence of the last entry or reservation. 0: there was none.
    pub fence: u64,
}

/// A row of an admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionRow {
    /// The applicant.
    pub applicant: String,
    /// The place, from 1 on.
    pub place: u64,
    /// The fence of the entry.
    pub fence: u64,
    /// The content of the row.
    pub row: Vec<u8>,
}
