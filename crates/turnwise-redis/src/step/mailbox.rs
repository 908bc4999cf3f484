//! The steps of mailboxes, and their answers. The rules STEP-1 to STEP-5 are those of all steps.

use std::time::Duration;

use super::Token;

/// A step of the mailboxes of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxStep {
    /// The number of shards of the kind of actors. All steps of one kind state the same.
    pub shards: u32,
    /// The action.
    pub act: MailboxAct,
}

impl MailboxAct {
    /// The actor whose delayed messages arrive first, if their time has come.
    pub(crate) fn actor(&self) -> Option<&str> {
        match self {
            MailboxAct::Push { actor, .. }
            | MailboxAct::Claim { actor, .. }
            | MailboxAct::Advance(Advance { actor, .. })
            | MailboxAct::Abandon { actor, .. }
            | MailboxAct::Outcome { actor, .. }
            | MailboxAct::Withdraw { actor, .. }
            | MailboxAct::Revoke { actor, .. }
            | MailboxAct::Requeue { actor, .. }
            | MailboxAct::Look { actor } => Some(actor),
            _ => None,
        }
    }
}

impl MailboxStep {
    /// The step's name in refusals.
    pub fn name(&self) -> &'static str {
        match self.act {
            MailboxAct::Push { .. } => "push",
            MailboxAct::Claim { .. } => "claim",
            MailboxAct::Advance(_) => "advance",
            MailboxAct::Abandon { .. } => "abandon",
            MailboxAct::Renew { .. } => "renew",
            MailboxAct::Outcome { .. } => "look at",
            MailboxAct::Withdraw { .. } | MailboxAct::Revoke { .. } => "withdraw",
            MailboxAct::Due { .. } => "look for work",
            MailboxAct::DeadLetters { .. } => "list",
            MailboxAct::Requeue { .. } => "requeue",
            MailboxAct::Discard { .. } => "discard",
            MailboxAct::Look { .. } => "look at",
        }
    }
}

/// A message of an actor in a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct StoredMessage {
    /// The id, generated or chosen by the sender. It is unique for an actor.
    pub id: String,
    /// The name of the message's type.
    pub name: String,
    /// The content.
    pub body: Vec<u8>,
    /// The request that waits for the outcome, if there is one: it gets a notice.
    pub asker: Option<Token>,
}

/// A request to drain a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainClaim {
    /// The request.
    pub token: Token,
    /// The lease of the mailbox, unless it is renewed.
    pub lease: Duration,
    /// The maximum number of messages handed out at a time.
    pub most: u32,
    /// The number of drainers that may die while they run a message, after which it is a dead
    /// letter.
    pub attempts: u32,
    /// The time that its outcome is kept then.
    pub keep: Duration,
}

/// The progress of a drainer, and its next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The actor.
    pub actor: String,
    /// The fence of its hold. A late copy of a claim may hold the mailbox again, with another
    /// fence.
    pub fence: u64,
    /// The number of this step in the hold: the first is 1, and each is one greater than the last.
    pub number: u64,
    /// The replies to the first messages that were handed out, in order. These leave the mailbox.
    pub done: Vec<Vec<u8>>,
    /// The state after them. `None`: unchanged.
    pub state: Option<Vec<u8>>,
    /// The attempt at the message after them, if it has failed.
    pub failed: Option<FailedAttempt>,
    /// The time that outcomes are kept.
    pub keep: Duration,
    /// The next action. If no message is ready, the mailbox is released.
    pub then: Then,
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The error.
    pub error: String,
    /// The time until the next attempt. `None`: the message is a dead letter.
    pub again: Option<Duration>,
}

/// The next action of a drainer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Takes the next messages, and extends the lease.
    Next {
        /// The maximum number of messages. Zero: the mailbox is held, and none is handed out.
        most: u32,
        /// The lease.
        lease: Duration,
    },
    /// Releases the mailbox.
    LetGo {
        /// The time after which workers check what is left.
        after: Duration,
    },
    /// Releases the mailbox, which is not claimed during this time.
    PutOff {
        /// The time.
        pause: Duration,
    },
}

/// The actions of mailboxes, each of which has its [`MailboxAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MailboxAct {
    /// Stores a message, unless its id is known. With a claim, and if the mailbox has no drainer,
    /// the same step claims it, unless the message is delayed.
    Push {
        /// The actor.
        actor: String,
        /// The message.
        message: StoredMessage,
        /// The time after which it arrives in the mailbox.
        delay: Duration,
        /// The claim.
        claim: Option<DrainClaim>,
    },
    /// Claims a mailbox, if it has no drainer and a message is ready.
    Claim {
        /// The actor.
        actor: String,
        /// The claim.
        claim: DrainClaim,
    },
    /// Reports progress, and takes the next messages or releases the mailbox.
    Advance(Advance),
    /// Releases a mailbox none of whose messages was begun, and refuses claims by this request from
    /// now on.
    Abandon {
        /// The actor.
        actor: String,
        /// The request.
        token: Token,
    },
    /// Extends the leases of mailboxes, counted from now, if they are still held.
    Renew {
        /// The actors, each with the request that drains it.
        drained: Vec<(String, Token)>,
        /// The lease.
        lease: Duration,
    },
    /// Returns the outcome of a message.
    Outcome {
        /// The actor.
        actor: String,
        /// The message's id.
        message: String,
    },
    /// Withdraws a message that no drainer has begun.
    Withdraw {
        /// The actor.
        actor: String,
        /// The message's id.
        message: String,
        /// True if the message may be on its way. It is refused then when it arrives.
        late: bool,
        /// The time that the withdrawal is remembered.
        keep: Duration,
    },
    /// Withdraws the message of a request, as `Withdraw` does. A message of the same id that
    /// another request has sent is left as it is.
    Revoke {
        /// The actor.
        actor: String,
        /// The message's id.
        message: String,
        /// The request, which the message names as its asker.
        asker: Token,
        /// See `Withdraw`.
        late: bool,
        /// See `Withdraw`.
        keep: Duration,
    },
    /// Returns mailboxes that are due. They are not returned to other workers for the time of the
    /// grip.
    Due {
        /// The worker, which gets a notice when there is work, if there is none now.
        worker: Token,
        /// The time that it waits for the notice.
        alive: Duration,
        /// The maximum number of mailboxes.
        most: u32,
        /// The time of the grip.
        grip: Duration,
    },
    /// Returns dead letters, the oldest first.
    DeadLetters {
        /// The number of letters to skip.
        from: u64,
        /// The maximum number of letters.
        most: u32,
    },
    /// Returns a dead letter to its mailbox, behind all messages.
    Requeue {
        /// The actor.
        actor: String,
        /// The message's id.
        message: String,
    },
    /// Deletes a dead letter.
    Discard {
        /// The actor.
        actor: String,
        /// The message's id.
        message: String,
    },
    /// Reads the state of a mailbox.
    Look {
        /// The actor.
        actor: String,
    },
}

/// The messages that a drainer was handed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    /// The fence of the hold.
    pub fence: u64,
    /// The number of failed attempts at the first message.
    pub attempts: u32,
    /// The actor's state, if it has one. Only a claim returns it.
    pub state: Option<Vec<u8>>,
    /// The next messages, in order.
    pub messages: Vec<StoredMessage>,
    /// The number of further messages.
    pub left: u64,
}

/// The progress of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The message is not known.
    Unknown,
    /// The message is delayed.
    Delayed {
        /// The time until it arrives.
        left: Duration,
    },
    /// The message waits.
    Waiting {
        /// The number of messages before it.
        ahead: u64,
        /// The rest of the drainer's lease, or of the pause before the next attempt. Zero: neither.
        busy: Duration,
    },
    /// The message was handed to a drainer.
    Running {
        /// The number of the attempt, from 1 on.
        attempt: u32,
        /// The rest of the drainer's lease.
        busy: Duration,
    },
    /// The message was handled, with this reply.
    Done(Vec<u8>),
    /// The message is a dead letter.
    Dead {
        /// The error of its last attempt.
        error: String,
    },
    /// The message was withdrawn, and certainly never runs.
    Withdrawn,
}

/// A dead letter: see [`MailboxAct::DeadLetters`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadMessage {
    /// The actor.
    pub actor: String,
    /// The message.
    pub message: StoredMessage,
    /// The number of failed attempts.
    pub attempts: u32,
    /// The error of the last one.
    pub error: String,
}

/// A snapshot of a mailbox: see [`MailboxAct::Look`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxSeen {
    /// The number of messages, including those that were handed out.
    pub waiting: u64,
    /// The drainer, and the rest of its lease.
    pub drainer: Option<(Token, Duration)>,
    /// The number of failed attempts at the first message.
    pub attempts: u32,
    /// The fence of the last hold. 0: there was none.
    pub fence: u64,
    /// The actor's state, if it has one.
    pub state: Option<Vec<u8>>,
    /// The number of delayed messages.
    pub delayed: u64,
}

/// The answer to a step of mailboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MailboxAnswer {
    /// To all: other clients use another number of shards.
    Differs {
        /// The number that they use.
        shards: u32,
    },
    /// To `Push`: the message is stored.
    Pushed {
        /// The number of messages before it.
        ahead: u64,
        /// The rest of the drainer's lease, of the pause before the next attempt, or of the
        /// message's delay. Zero: none of them.
        busy: Duration,
    },
    /// To `Push`: a message of this id is known.
    Known(Progress),
    /// To `Push`, `Claim` and `Advance`: this drainer holds the mailbox, with these messages.
    Handed(Hand),
    /// To `Claim`: another drainer holds the mailbox, or its next attempt is delayed.
    Busy {
        /// The rest of the lease, or of the delay.
        left: Duration,
    },
    /// To `Claim`: there are no messages.
    Empty,
    /// To `Claim`: the request was given up before.
    Gone,
    /// To `Advance`: the mailbox was released.
    LetGo {
        /// The number of messages left.
        left: u64,
        /// The time until the next attempt.
        wait: Duration,
    },
    /// To `Advance`: the mailbox was lost, and nothing was written.
    Lost,
    /// To `Abandon`, `Requeue` and `Discard`: true if the mailbox was held, or the letter existed.
    Was(bool),
    /// To `Renew`: true for each mailbox, in order, that is still held.
    Renewed(Vec<bool>),
    /// To `Outcome`. To `Withdraw` and `Revoke`: the progress of a message that was not withdrawn.
    Progress(Progress),
    /// To `Due`.
    Due {
        /// The actors.
        actors: Vec<String>,
        /// The time until the next mailbox is due, if that is known.
        next: Option<Duration>,
    },
    /// To `DeadLetters`.
    Dead {
        /// The number of all dead letters.
        all: u64,
        /// The letters of this page.
        dead: Vec<DeadMessage>,
    },
    /// To `Look`.
    Seen(MailboxSeen),
}
