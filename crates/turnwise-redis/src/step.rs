//! The steps of a store, and their answers.
//!
//! | rule |                                                                                       |
//! |------|---------------------------------------------------------------------------------------|
//! | STEP-1   | One step is atomic: it takes effect at one moment, or not at all.                     |
//! | STEP-2   | A step may be repeated with its token: it has one effect, and answers the same.       |
//! | STEP-3   | Time is the store's. A step carries durations, never moments.                         |
//! | STEP-4   | A grant is state of the store. A notice is a hint, harmless if lost, doubled or late. |
//! | STEP-5   | Keys come from names that were checked, one hash tag for each object.                 |

#[path = "step/admission.rs"]
mod admission;
#[path = "step/mailbox.rs"]
mod mailbox;

use std::fmt;
use std::time::Duration;

pub use admission::{
    AdmissionAct, AdmissionAnswer, AdmissionRow, AdmissionSeen, AdmissionStep, Claim,
};
pub use mailbox::{
    Advance, DeadMessage, DrainClaim, FailedAttempt, Hand, MailboxAct, MailboxAnswer, MailboxSeen,
    MailboxStep, Progress, StoredMessage, Then,
};

/// Identifies a request: the number of its client, and its own. Tokens are unique.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Token(String);

impl Token {
    /// The token of a client's request.
    pub fn new(client: &str, request: u64) -> Self {
        Token(format!("{client}:{request}"))
    }

    /// A token as a store has kept it.
    pub(crate) fn from_text(text: String) -> Self {
        Token(text)
    }

    /// The text of the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The token that holds a quarantined place.
    pub(crate) fn quarantine(place: u32) -> Self {
        Token(format!("quarantine:{place}"))
    }

    /// The client of the request.
    pub fn client(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A step on one object of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The key of the object.
    pub key: String,
    /// The number of places, each of which one request can hold: one for a lock.
    pub places: u32,
    /// The lower bound of the fences that this step issues, exclusive: 0 unless the client has set
    /// one.
    pub above: u64,
    /// The step.
    pub step: Step,
}

/// The steps, each of which has its [`Answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Takes a free place for the lease. Otherwise adds a queue entry.
    Acquire {
        /// The request.
        token: Token,
        /// The lease, unless the hold is renewed.
        lease: Duration,
        /// The lifetime of the queue entry, unless it is refreshed. `None` adds none.
        alive: Option<Duration>,
    },
    /// Extends queue entries, counted from now.
    Refresh {
        /// The requests.
        tokens: Vec<Token>,
        /// The lifetime of the entries.
        alive: Duration,
    },
    /// Extends a hold to this lease from now at least, if it still holds.
    Renew {
        /// The hold.
        token: Token,
        /// The lease.
        lease: Duration,
    },
    /// Extends several holds, each of another object, to this lease from now at least, if they
    /// still hold.
    RenewAll {
        /// The holds.
        renewals: Vec<Renewal>,
        /// The lease.
        lease: Duration,
    },
    /// Raises the fence of a hold to this one at least, and starts its lease anew, if it still
    /// holds and no hold before it had so great a fence: the second round of a
    /// [`Majority`](crate::Majority).
    Confirm {
        /// The hold.
        token: Token,
        /// The fence.
        fence: u64,
        /// The lease, unless the hold is confirmed again.
        lease: Duration,
    },
    /// Releases the place, also if its lease is over and no other step has ended it; or removes the
    /// queue entry.
    Leave {
        /// The request.
        token: Token,
        /// True if copies of requests with this token may be on their way. They are refused when
        /// they arrive.
        late: bool,
    },
    /// Takes a place from its holder.
    Force {
        /// The place, from 1 on.
        place: u32,
    },
    /// Begins a job in the place that is held, which is dirty from now on until the job ends.
    Begin {
        /// The hold.
        token: Token,
    },
    /// Ends a job. Its place is clean and released, or it is quarantined.
    End {
        /// The hold.
        token: Token,
        /// True if the place is not granted before it is repaired.
        quarantine: bool,
        /// True if copies of requests with this token may be on their way. They are refused when
        /// they arrive.
        late: bool,
    },
    /// Returns a quarantined place to the pool. It is dirty.
    Repair {
        /// The place, from 1 on.
        place: u32,
    },
    /// Reads the state.
    Look,
    /// Takes the tick whose beginning is nearest, unless it was taken.
    Attend {
        /// The request.
        token: Token,
        /// The time from one tick to the next.
        every: Duration,
        /// The delay of ticks after multiples of `every`.
        offset: Duration,
        /// The lease of the run, unless it is renewed.
        lease: Duration,
        /// True if a run of an earlier tick may still be under way.
        overlap: bool,
    },
    /// A step of an admission.
    Admission(AdmissionStep),
    /// A step of the mailboxes of a shard.
    Mailbox(MailboxStep),
}

/// A hold that is renewed together with others: see [`Step::RenewAll`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The key of its object.
    pub key: String,
    /// The token of its request.
    pub token: Token,
    /// The number of its place.
    pub place: u32,
}

impl Step {
    /// The step's name in refusals.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Acquire { .. } => "acquire",
            Step::Refresh { .. } => "refresh",
            Step::Renew { .. } | Step::RenewAll { .. } => "renew",
            Step::Confirm { .. } => "confirm",
            Step::Leave { .. } => "leave",
            Step::Force { .. } => "force",
            Step::Begin { .. } => "begin",
            Step::End { .. } => "end",
            Step::Repair { .. } => "repair",
            Step::Look => "look",
            Step::Attend { .. } => "attend",
            Step::Admission(step) => step.name(),
            Step::Mailbox(step) => step.name(),
        }
    }
}

/// The answer to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// To `Acquire`: the request holds for the lease, which begins now.
    Granted {
        /// The fence of the hold.
        fence: u64,
        /// The place, from 1 on.
        place: u32,
    },
    /// To `Acquire`: the request has a queue entry.
    Queued {
        /// The number of entries before it.
        ahead: u64,
        /// The time until the first lease ends, if it is not renewed.
        busy: Duration,
    },
    /// To `Acquire`: all places are held, and the request was not to wait.
    Busy {
        /// The time until the first lease ends, if it is not renewed.
        busy: Duration,
    },
    /// To `Acquire` and `Attend`: the request was given up before.
    Gone,
    /// To `Refresh`.
    Standings {
        /// The state of each token, in order.
        standings: Vec<Standing>,
        /// The time until the first lease ends, if it is not renewed.
        busy: Duration,
    },
    /// To `RenewAll`: true for each hold, in order, that lasts for the lease from now at least.
    Renewed(Vec<bool>),
    /// To `Renew` and `Confirm`: the request holds for the lease, which begins now.
    Held,
    /// To `Renew` and `Begin`: the request no longer holds. To `Confirm`: it no longer holds, or
    /// another hold before it had a fence as great.
    Lost,
    /// To `Leave` and `End`: the request has held until now, or an earlier copy of it has released
    /// the place.
    Released,
    /// To `Leave` and `End`: the request did not hold.
    NotHeld,
    /// To `Begin`: the job has begun.
    Begun {
        /// True if the place is dirty from a job that has not ended.
        dirty: bool,
    },
    /// To `Force`: true if the place was held. To `Repair`: true if it was quarantined.
    Forced(bool),
    /// To `Look`.
    Seen {
        /// Places with their holders, and the rests of their leases.
        holders: Vec<(u32, Token, Duration)>,
        /// The fence of the last hold. 0: there was none.
        fence: u64,
        /// The number of queue entries.
        waiting: u64,
    },
    /// To `Attend`: the request has taken the tick.
    Mine {
        /// The number of the tick.
        tick: u64,
        /// The fence of the run.
        fence: u64,
    },
    /// To `Attend`: the tick was taken before.
    Taken {
        /// The number of the tick.
        tick: u64,
        /// The time until the next tick.
        next: Duration,
    },
    /// To `Attend`: an earlier run is under way.
    StillRunning {
        /// The tick of that run.
        tick: u64,
        /// The time until the next tick.
        next: Duration,
    },
    /// To steps of a lock, of slots or of a job: other clients, which hold or wait, use another
    /// number of places.
    Differs {
        /// The number that they use.
        places: u32,
    },
    /// To `Admission`.
    Admission(AdmissionAnswer),
    /// To `Mailbox`.
    Mailbox(MailboxAnswer),
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The request neither waits nor holds.
    Nowhere,
    /// The request has a queue entry.
    Queued,
    /// The request holds.
    Holds,
}

/// A hint for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A place was granted to this waiting request; or the request is dismissed.
    Granted(Token),
    /// The place of this request was taken away.
    Lost(Token),
    /// Notices may have been lost: all waiters check their state.
    LookAgain,
}
