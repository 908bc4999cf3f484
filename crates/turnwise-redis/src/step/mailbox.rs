//! The steps of mailboxes, and their answers. The rules S1 to S5 are those of all steps.

use std::time::Duration;

use super::Token;

/// What is asked of the mailboxes of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct MailboxStep {
    /// How many shards the kind of actors has. All steps of one kind say the same.
    pub shards: u32,
    /// What to do.
    pub act: MailboxAct,
}

impl MailboxStep {
    /// What it is called where it is refused.
    pub fn name(&self) -> &'static str {
        match self.act {
            MailboxAct::Push { .. } => "push",
            MailboxAct::Claim { .. } => "claim",
            MailboxAct::Advance(_) => "advance",
            MailboxAct::Abandon { .. } => "abandon",
            MailboxAct::Renew { .. } => "renew",
            MailboxAct::Outcome { .. } => "look at",
            MailboxAct::Withdraw { .. } => "withdraw",
            MailboxAct::Due { .. } => "look for work",
            MailboxAct::DeadLetters { .. } => "list",
            MailboxAct::Requeue { .. } => "requeue",
            MailboxAct::Discard { .. } => "discard",
            MailboxAct::Look { .. } => "look at",
        }
    }
}

/// A message of an actor in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct StoredMessage {
    /// Its number, or the sender's own name for it. No two of one actor have the same.
    pub id: String,
    /// Which type of message it is.
    pub name: String,
    /// What it says.
    pub body: Vec<u8>,
    /// The request that waits for its outcome, if one does: it gets a notice.
    pub asker: Option<Token>,
}

/// A request to drain a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct DrainClaim {
    /// The request.
    pub token: Token,
    /// How long the mailbox is held, if nobody renews it.
    pub lease: Duration,
    /// How many messages are handed out at a time.
    pub most: u32,
    /// A message whose drainers have died in the midst of it this often is a dead letter.
    pub attempts: u32,
    /// How long its outcome is kept then.
    pub keep: Duration,
}

/// What a drainer has done, and what it does next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct Advance {
    /// The actor.
    pub actor: String,
    /// The number of its hold. A late copy of a claim may hold the mailbox again, by another
    /// number.
    pub fence: u64,
    /// One more than that of the drainer's step before; that of its first is 1.
    pub number: u64,
    /// The replies to the first messages that it was handed, in their order. These leave the
    /// mailbox.
    pub done: Vec<Vec<u8>>,
    /// The state after them. None: it is as it was.
    pub state: Option<Vec<u8>>,
    /// The message after them, if its attempt has failed.
    pub failed: Option<FailedAttempt>,
    /// How long outcomes are kept.
    pub keep: Duration,
    /// What the drainer does next. Without a message that is ready, it lets go.
    pub then: Then,
}

/// An attempt that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub struct FailedAttempt {
    /// Why.
    pub error: String,
    /// The message is tried again after this time. None: it is a dead letter.
    pub again: Option<Duration>,
}

/// What a drainer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub enum Then {
    /// It takes the next messages, as many at most, and holds the mailbox for so long.
    Next {
        /// As many.
        most: u32,
        /// So long.
        lease: Duration,
    },
    /// It lets go. Workers look at what is left after this time.
    LetGo {
        /// This time.
        after: Duration,
    },
}

/// What to do with mailboxes: see each one's [`MailboxAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub enum MailboxAct {
    /// Leaves a message, unless there is one of its id, or was one not long ago. With a claim, and
    /// if nobody drains the mailbox, it is claimed in the same step.
    Push {
        /// The actor.
        actor: String,
        /// The message.
        message: StoredMessage,
        /// The claim.
        claim: Option<DrainClaim>,
    },
    /// Claims a mailbox, if nobody drains it and a message is ready.
    Claim {
        /// The actor.
        actor: String,
        /// The claim.
        claim: DrainClaim,
    },
    /// Says what was done, and takes the next messages or lets go.
    Advance(Advance),
    /// Lets go of a mailbox of which nothing was done, and refuses claims by this request from now
    /// on.
    Abandon {
        /// The actor.
        actor: String,
        /// The request.
        token: Token,
    },
    /// Holds mailboxes for so long from now at least, if they are still held.
    Renew {
        /// The actors, each with the request by which it is drained.
        drained: Vec<(String, Token)>,
        /// So long.
        lease: Duration,
    },
    /// Looks for the outcome of a message.
    Outcome {
        /// The actor.
        actor: String,
        /// The message's id.
        message: String,
    },
    /// Takes a message back that no drainer has begun.
    Withdraw {
        /// The actor.
        actor: String,
        /// The message's id.
        message: String,
        /// It may be on its way yet: then it is refused when it comes.
        late: bool,
        /// How long it is known that it was withdrawn.
        keep: Duration,
    },
    /// Looks for mailboxes that have to be looked at. Those that are found are shown to no other
    /// worker for the time of the grip.
    Due {
        /// The worker: it gets a notice when there is work, if there is none now.
        worker: Token,
        /// How long it waits for that notice.
        alive: Duration,
        /// How many it takes at most.
        most: u32,
        /// The time of the grip.
        grip: Duration,
    },
    /// Lists dead letters, the oldest first.
    DeadLetters {
        /// Without as many.
        from: u64,
        /// As many at most.
        most: u32,
    },
    /// Leaves a dead letter in its mailbox again, behind all messages.
    Requeue {
        /// The actor.
        actor: String,
        /// The message's id.
        message: String,
    },
    /// Forgets a dead letter.
    Discard {
        /// The actor.
        actor: String,
        /// The message's id.
        message: String,
    },
    /// Looks at a mailbox.
    Look {
        /// The actor.
        actor: String,
    },
}

/// What a drainer has in its hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    /// The hold's number.
    pub fence: u64,
    /// How many attempts at the first message have failed.
    pub attempts: u32,
    /// The actor's state, if it has one. Only a claim brings it.
    pub state: Option<Vec<u8>>,
    /// The next messages, in their order.
    pub messages: Vec<StoredMessage>,
    /// How many more there are.
    pub left: u64,
}

/// Where a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Nothing is known of it.
    Unknown,
    /// It waits.
    Waiting {
        /// How many are before it.
        ahead: u64,
        /// How long the mailbox is held, or the next attempt is put off, for at least. Zero: by
        /// nobody.
        busy: Duration,
    },
    /// A drainer has it in its hands.
    Running {
        /// Which attempt it is, from 1 on.
        attempt: u32,
        /// How long the mailbox is held.
        busy: Duration,
    },
    /// It was handled, with this reply.
    Done(Vec<u8>),
    /// It is a dead letter.
    Dead {
        /// Why its last attempt has failed.
        error: String,
    },
    /// It was withdrawn, and certainly never runs.
    Withdrawn,
}

/// A message that was given up: [`MailboxAct::DeadLetters`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadMessage {
    /// The actor.
    pub actor: String,
    /// The message.
    pub message: StoredMessage,
    /// How many attempts have failed.
    pub attempts: u32,
    /// Why the last one has.
    pub error: String,
}

/// What is known of a mailbox: [`MailboxAct::Look`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxSeen {
    /// How many messages wait, those that are handed out included.
    pub waiting: u64,
    /// Who drains it, and for how long at least.
    pub drainer: Option<(Token, Duration)>,
    /// How many attempts at the first message have failed.
    pub attempts: u32,
    /// The number of the last hold. 0: there was none.
    pub fence: u64,
    /// The actor's state, if it has one.
    pub state: Option<Vec<u8>>,
}

/// What a step of mailboxes has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MailboxAnswer {
    /// To all: other clients have said another number of shards.
    Differs {
        /// That number.
        shards: u32,
    },
    /// To `Push`: it is stored.
    Pushed {
        /// How many are before it.
        ahead: u64,
        /// Does nobody drain the mailbox?
        free: bool,
    },
    /// To `Push`: there is a message of this id, or was one.
    Known(Progress),
    /// To `Push`, `Claim` and `Advance`: the mailbox is held by this drainer, with these messages.
    Handed(Hand),
    /// To `Claim`: somebody drains it, or its next attempt is put off.
    Busy {
        /// For so long at least.
        left: Duration,
    },
    /// To `Claim`: there are no messages.
    Empty,
    /// To `Claim`: the request has been given up before.
    Gone,
    /// To `Advance`: the mailbox was let go.
    LetGo {
        /// How many messages are left.
        left: u64,
        /// How long the next attempt is put off.
        wait: Duration,
    },
    /// To `Advance`: the mailbox was lost, and nothing was written.
    Lost,
    /// To `Abandon`, `Requeue` and `Discard`: was there anything?
    Was(bool),
    /// To `Renew`: is each still held? In their order.
    Renewed(Vec<bool>),
    /// To `Outcome`. To `Withdraw`, unless it was withdrawn: why not.
    Progress(Progress),
    /// To `Due`.
    Due {
        /// These actors.
        actors: Vec<String>,
        /// When the next one is due, if that is known.
        next: Option<Duration>,
    },
    /// To `DeadLetters`.
    Dead {
        /// How many there are in all.
        all: u64,
        /// These.
        dead: Vec<DeadMessage>,
    },
    /// To `Look`.
    Seen(MailboxSeen),
}
