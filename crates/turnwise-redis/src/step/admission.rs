//! The steps of an admission, and their answers. The rules S1 to S5 are those of all steps.

use std::time::Duration;

use super::{Standing, Token};

/// What is asked of an admission.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct AdmissionStep {
    /// How many places there are, from 1 on. All steps of one admission say the same.
    pub limit: u64,
    /// What to do.
    pub act: AdmissionAct,
}

impl AdmissionStep {
    /// What it is called where it is refused.
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
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct Claim {
    /// The request.
    pub token: Token,
    /// The applicant.
    pub applicant: String,
}

/// What to do at an admission: see each one's [`AdmissionAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub enum AdmissionAct {
    /// Writes a row into the place that the request has reserved, or into one that is free; or
    /// takes a queue entry.
    Admit {
        /// The request.
        claim: Claim,
        /// What is written.
        row: Vec<u8>,
        /// So long the queue entry is kept if nobody keeps it. None: it takes no queue entry.
        alive: Option<Duration>,
    },
    /// Reserves a place for so long if one is free, or takes a queue entry.
    Reserve {
        /// The request.
        claim: Claim,
        /// So long the place is reserved, if nobody keeps it.
        lease: Duration,
        /// So long the queue entry is kept if nobody keeps it. None: it takes no queue entry.
        alive: Option<Duration>,
    },
    /// Keeps reservations and queue entries for so long from now.
    Keep {
        /// The requests, and the fences of what they have reserved: 0 is whatever they have.
        claims: Vec<(Claim, u64)>,
        /// So long a reservation.
        lease: Duration,
        /// So long a queue entry.
        alive: Duration,
    },
    /// Writes a row into the place that is reserved.
    Confirm {
        /// The request.
        claim: Claim,
        /// The reservation.
        fence: u64,
        /// What is written.
        row: Vec<u8>,
    },
    /// Gives back: the place that is reserved, or the queue entry. A row stays.
    Cancel {
        /// The request.
        claim: Claim,
        /// Requests of this token may be on their way yet. They are refused when they come.
        late: bool,
    },
    /// Lets nobody in from now on, but for those who have a place reserved.
    Close,
    /// Looks at it.
    Look,
    /// Reads rows.
    Rows {
        /// How many of those that were written first are left out.
        from: u64,
        /// As many at most.
        most: u32,
    },
}

/// What a step of an admission has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionAnswer {
    /// The request's row is written.
    Admitted {
        /// In this place, from 1 on.
        place: u64,
        /// The number of the entry.
        fence: u64,
    },
    /// To `Reserve`: the place is reserved, from now on for the lease.
    Reserved {
        /// This one, from 1 on.
        place: u64,
        /// The reservation's number.
        fence: u64,
    },
    /// The request has a queue entry: all places are taken, some of them are reserved only.
    Queued {
        /// How many are before it there.
        ahead: u64,
        /// So long the first lease lasts that ends, if it is not kept.
        busy: Duration,
    },
    /// The same, and it was not to wait.
    Busy {
        /// So long the first lease lasts that ends, if it is not kept.
        busy: Duration,
    },
    /// There is no place, and never will be.
    Closed {
        /// How many there were.
        limit: u64,
    },
    /// The applicant is in, by another request.
    Duplicate {
        /// Its place.
        place: u64,
    },
    /// Another request of the applicant has a place reserved, or waits for one.
    Pending {
        /// The place that is reserved.
        place: Option<u64>,
    },
    /// The request has been given up before.
    Gone,
    /// To `Keep`.
    Standings {
        /// Where each is, in the order of the claims. A row holds.
        standings: Vec<Standing>,
        /// So long the first lease lasts that ends, if it is not kept.
        busy: Duration,
    },
    /// To `Confirm`: there is no such reservation any more.
    Lost,
    /// To `Cancel`: it has neither a place nor a queue entry.
    Cancelled,
    /// To `Look`.
    Seen(AdmissionSeen),
    /// To `Rows`: in the order in which they were written.
    Rows(Vec<AdmissionRow>),
    /// The admission has another limit. Nothing was done.
    Differs {
        /// How many places it has.
        limit: u64,
    },
}

/// What a look at an admission sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionSeen {
    /// How many places there are. 0: nobody has said it.
    pub limit: u64,
    /// Is nobody let in any more?
    pub closed: bool,
    /// How many rows are written.
    pub admitted: u64,
    /// How many places are reserved.
    pub reserved: u64,
    /// How many wait.
    pub waiting: u64,
    /// The number of the last entry or reservation. 0: there was none.
    pub fence: u64,
}

/// A row of an admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionRow {
    /// Who is in.
    pub applicant: String,
    /// In this place, from 1 on.
    pub place: u64,
    /// The number of the entry.
    pub fence: u64,
    /// What was written.
    pub row: Vec<u8>,
}
