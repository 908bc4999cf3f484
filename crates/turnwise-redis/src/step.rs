//! The steps of a store, and their answers.
//!
//! | rule |                                                                                       |
//! |------|---------------------------------------------------------------------------------------|
//! | S1   | One step is atomic: it happens at one moment, or not at all.                          |
//! | S2   | A step may be repeated with its token: it has one effect, and answers the same.       |
//! | S3   | Time is the store's. A step carries durations, never moments.                         |
//! | S4   | A grant is a state of the store. A notice is a hint: lost, doubled, late, it harms not. |
//! | S5   | Keys come from names that were checked, one hash tag an object.                       |

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

/// Who asks: a client's number, and the number of its request. No two requests have the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct Token(String);

impl Token {
    /// The token of a client's request.
    pub fn new(client: &str, request: u64) -> Self {
        Token(format!("{client}:{request}"))
    }

    /// A token that a store has kept.
    pub(crate) fn from_text(text: String) -> Self {
        Token(text)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Who holds a place that is quarantined.
    pub(crate) fn quarantine(place: u32) -> Self {
        Token(format!("quarantine:{place}"))
    }

    /// The client whose request it is.
    pub fn client(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is asked of a store about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct Op {
    /// The object's key.
    pub key: String,
    /// How many may hold it at once, each a place of its own: one, if it is a lock.
    pub places: u32,
    /// Fences that this step gives are greater than this: 0, unless the client has a floor.
    pub above: u64,
    /// What to do with it.
    pub step: Step,
}

/// A step: see each one's [`Answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub enum Step {
    /// Takes a place for so long if one is free, or a queue entry.
    Acquire {
        /// The request.
        token: Token,
        /// So long it is held, if nobody renews it.
        lease: Duration,
        /// So long the queue entry is kept if nobody refreshes it. None: it takes no queue entry.
        alive: Option<Duration>,
    },
    /// Keeps queue entries for so long from now.
    Refresh {
        /// The requests.
        tokens: Vec<Token>,
        /// So long they are kept.
        alive: Duration,
    },
    /// Holds for so long from now at least, if it still holds.
    Renew {
        /// The hold.
        token: Token,
        /// So long.
        lease: Duration,
    },
    /// Has several holds last for so long from now, each of an object of its own: those that hold
    /// yet.
    RenewAll {
        /// The holds.
        renewals: Vec<Renewal>,
        /// So long.
        lease: Duration,
    },
    /// Gives a hold a greater number, and has its lease begin anew, if it still holds by no greater
    /// one: the second round of a [`Majority`](crate::Majority).
    Confirm {
        /// The hold.
        token: Token,
        /// Its number from now on.
        fence: u64,
        /// So long it is held, if nobody confirms it again.
        lease: Duration,
    },
    /// Lets go: of the place, or of the queue entry.
    Leave {
        /// The request.
        token: Token,
        /// Requests of this token may be on their way yet. They are refused when they come.
        late: bool,
    },
    /// Takes a place away from its holder.
    Force {
        /// The place, from 1 on.
        place: u32,
    },
    /// Begins a job in the place that is held: it is dirty from now on, until its job ends.
    Begin {
        /// The hold.
        token: Token,
    },
    /// Ends a job: its place is clean, and given back; or it is quarantined.
    End {
        /// The hold.
        token: Token,
        /// Nobody gets the place before it is repaired.
        quarantine: bool,
        /// Requests of this token may be on their way yet. They are refused when they come.
        late: bool,
    },
    /// Gives a place back that is quarantined. It is dirty.
    Repair {
        /// The place, from 1 on.
        place: u32,
    },
    /// Looks at it.
    Look,
    /// Takes the tick whose beginning is nearest, if nobody has.
    Attend {
        /// The request.
        token: Token,
        /// From one tick to the next.
        every: Duration,
        /// Ticks begin so long after multiples of `every`.
        offset: Duration,
        /// So long the run counts as under way, if nobody renews it.
        lease: Duration,
        /// A run of an earlier tick may be under way.
        overlap: bool,
    },
    /// A step of an admission.
    Admission(AdmissionStep),
    /// A step of the mailboxes of a shard.
    Mailbox(MailboxStep),
}

/// A hold that is renewed with others: [`Step::RenewAll`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct Renewal {
    /// Its object's key.
    pub key: String,
    /// Its request.
    pub token: Token,
    /// Its place.
    pub place: u32,
}

impl Step {
    /// What it is called where it is refused.
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

/// What a step has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// To `Acquire`: it holds, from now on for its lease.
    Granted {
        /// The hold's number.
        fence: u64,
        /// Its place, from 1 on.
        place: u32,
    },
    /// To `Acquire`: it has a queue entry.
    Queued {
        /// How many are before it there.
        ahead: u64,
        /// So long the first lease lasts that ends, if it is not renewed.
        busy: Duration,
    },
    /// To `Acquire`: others hold all places, and it was not to wait.
    Busy {
        /// So long the first lease lasts that ends, if it is not renewed.
        busy: Duration,
    },
    /// To `Acquire` and `Attend`: the request has been given up before.
    Gone,
    /// To `Refresh`.
    Standings {
        /// Where each is, in the order of the tokens.
        standings: Vec<Standing>,
        /// So long the first lease lasts that ends, if it is not renewed.
        busy: Duration,
    },
    /// To `RenewAll`: does each hold, from now on for the lease at least? In their order.
    Renewed(Vec<bool>),
    /// To `Renew` and `Confirm`: it holds, from now on for its lease.
    Held,
    /// To `Renew` and `Begin`: it holds no more. To `Confirm`: that, or it holds by a greater
    /// number.
    Lost,
    /// To `Leave` and `End`: it held until now; or it let go by an earlier request.
    Released,
    /// To `Leave` and `End`: it did not hold.
    NotHeld,
    /// To `Begin`: the job has begun. Is the place dirty from a job that has not ended?
    Begun {
        /// Is it?
        dirty: bool,
    },
    /// To `Force`: did anybody hold it? To `Repair`: was it quarantined?
    Forced(bool),
    /// To `Look`.
    Seen {
        /// Who holds which place, and for how long at least.
        holders: Vec<(u32, Token, Duration)>,
        /// The number of the last hold. 0: there was none.
        fence: u64,
        /// How many wait.
        waiting: u64,
    },
    /// To `Attend`: the tick is its.
    Mine {
        /// The tick's number.
        tick: u64,
        /// The run's number.
        fence: u64,
    },
    /// To `Attend`: somebody has taken the tick.
    Taken {
        /// The one after it begins in so long.
        next: Duration,
    },
    /// To `Attend`: an earlier run is under way.
    StillRunning {
        /// The tick of that run.
        tick: u64,
        /// The one after it begins in so long.
        next: Duration,
    },
    /// To steps of a lock, of slots or of a job: others have said another number of places, and
    /// hold some, or wait.
    Differs {
        /// That number.
        places: u32,
    },
    /// To `Admission`.
    Admission(AdmissionAnswer),
    /// To `Mailbox`.
    Mailbox(MailboxAnswer),
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Neither in the queue, nor does it hold.
    Nowhere,
    /// In the queue.
    Queued,
    /// It holds.
    Holds,
}

/// A hint for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A place was granted to this request, which waits; or it waits in vain.
    Granted(Token),
    /// Its place was taken away from this one.
    Lost(Token),
    /// Notices may have been lost: all that wait look again.
    LookAgain,
}
