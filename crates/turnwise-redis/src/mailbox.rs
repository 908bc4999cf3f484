//! The state machine of mailboxes, which the scripts implement in a server.
//!
//! ```text
//!            Push with a claim, Claim                Advance: the next messages
//!   idle ───────────────────────────────▶ drained ──────────────┐
//!     ▲                                     │  ▲ └──────────────┘
//!     │  Advance (none is left, a retry,    │  │ Renew: the lease begins anew
//!     └── or to let go), Abandon, its lease ┘  └─ Claim by another, when the lease is over
//!         is over
//! ```
//!
//! The word of an in-process mailbox counts messages, and the sender that moves it from 0 to 1
//! drains. Here the drainer's lease plays that role: the step that finds the mailbox empty also
//! releases it, so no message can be left without a drainer between the two.
//!
//! - STORED-1: at most one request drains a mailbox. Only the drainer removes messages, by naming
//!   them.
//! - STORED-2: the state, the removal of the messages that made it, and their outcomes are written
//!   in one step. So the state has seen each message once, whatever was repeated on the way.
//! - STORED-3: a repeated step has one effect: a push by the message's id, an advance by its number
//!   and that of its hold.
//! - STORED-4: a message that was handed to a drainer, and was not returned, may have begun: it
//!   cannot be withdrawn. Such messages are handed out one at a time, and only the first one's
//!   attempts count.
//! - STORED-5: a message that was withdrawn, or is done, is known for a stated time: copies of its
//!   push that arrive meanwhile store nothing and claim nothing.
//! - STORED-6: a mailbox with messages, or with a drainer, has a due time, at which a worker checks
//!   whether it is drained. A due time that is the first of its shard wakes a waiting worker, which
//!   else sleeps longer.
//! - STORED-7: a delayed message is known, and is no message of the mailbox, before its time has
//!   come. The first step after that moves it behind the others. While there are only such
//!   messages, the first one's time is the due time.
//!
//! | row | key | value |
//! |-----|-----|-------|
//! | head | `h` | the number of shards, waiting workers |
//! | mailbox | `a:ACTOR` | drainer, positions of its messages, due time |
//! | state | `s:ACTOR` | the actor's state |
//! | ids | `m:ACTOR:CHUNK` | the ids of messages that wait, at positions of this chunk |
//! | delayed | `l:ACTOR:TIME:ID` | a message that arrives at that time |
//! | id | `i:ACTOR:ID` | a message and its position, its time, or its outcome |
//! | due | `d:TIME:ACTOR` | when a worker checks a mailbox |
//! | dead | `x:PLACE` | a dead letter |
//! | gone | `g:TOKEN` | a request whose claims are refused, and until when that is known |
//! | expiry | `f:TIME:KEY` | when the row of that key is forgotten |
//!
//! An actor's name is preceded by its length where something follows it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::{REMEMBERED, micros};
use crate::rows::{Positions, Rows};
use crate::step::{
    Advance, DeadMessage, DrainClaim, FailedAttempt, Hand, MailboxAct, MailboxAnswer, MailboxSeen,
    MailboxStep, Notice, Progress, StoredMessage, Then, Token,
};

/// The error of a dead letter whose drainers have died.
pub(crate) const DRAINER_GONE: &str = "the drainer ended while the message ran";

/// A row of a shard. Times are microseconds of the store's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum MailboxRow {
    Head(Head),
    Mailbox(Mailbox),
    State(Vec<u8>),
    Ids(Vec<String>),
    Delayed(u64, StoredMessage),
    Id(Id),
    /// The due time, and the actor.
    Due(u64, String),
    Dead(Dead),
    Gone(u64),
    /// The time, and the key of the row that is forgotten then.
    Expiry(u64, String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The number of shards: 0 if none was stated.
    shards: u32,
    /// The number of all dead letters, and of those that are listed.
    deaths: u64,
    dead: u64,
    /// Waiting workers, and the time at which each stops waiting.
    workers: Vec<(u64, Token)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Mailbox {
    drainer: Option<Drainer>,
    /// The fence of the last hold.
    fence: u64,
    messages: Positions,
    /// The number of leading messages that dead drainers may have begun, or that have failed.
    begun: u32,
    /// The number of failed attempts at the first message.
    attempts: u32,
    /// The time before which it is not drained.
    ready: u64,
    /// The last hold that was released, and the number of the step that did it.
    last: Option<(u64, u64)>,
    /// The number of delayed messages, and when the first one arrives.
    delayed: u64,
    later: Option<u64>,
    due: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Drainer {
    token: Token,
    until: u64,
    number: u64,
    /// The number of leading messages that it was handed.
    handed: u32,
}

/// A message that is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Id {
    Waiting(u64, StoredMessage),
    Delayed(u64),
    Ended {
        outcome: KeptOutcome,
        /// The time until which that is known.
        until: u64,
        /// The place of the dead letter, while there is one: it is known.
        letter: Option<u64>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum KeptOutcome {
    Done(Vec<u8>),
    Dead(String),
    Withdrawn,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Dead {
    actor: String,
    message: StoredMessage,
    attempts: u32,
    error: String,
}

impl From<KeptOutcome> for Progress {
    fn from(outcome: KeptOutcome) -> Self {
        match outcome {
            KeptOutcome::Done(reply) => Progress::Done(reply),
            KeptOutcome::Dead(error) => Progress::Dead { error },
            KeptOutcome::Withdrawn => Progress::Withdrawn,
        }
    }
}

/// Returns the time until then.
fn left(until: u64, now: u64) -> Duration {
    Duration::from_micros(until.saturating_sub(now))
}

fn after(now: u64, duration: Duration) -> u64 {
    now.saturating_add(micros(duration))
}

const HEAD: &str = "h";

fn mailbox_key(actor: &str) -> String {
    format!("a:{actor}")
}

fn state_key(actor: &str) -> String {
    format!("s:{actor}")
}

fn ids_key(actor: &str, chunk: u64) -> String {
    format!("m:{}:{actor}:{chunk:016x}", actor.len())
}

fn id_key(actor: &str, id: &str) -> String {
    format!("i:{}:{actor}:{id}", actor.len())
}

fn delayed_prefix(actor: &str) -> String {
    format!("l:{}:{actor}:", actor.len())
}

fn due_key(at: u64, actor: &str) -> String {
    format!("d:{at:016x}:{actor}")
}

fn letter_key(place: u64) -> String {
    format!("x:{place:016x}")
}

fn gone_key(token: &Token) -> String {
    format!("g:{}", token.as_str())
}

/// The keys of rows that most runs of a step read.
pub(crate) fn reads(act: &MailboxAct) -> Vec<String> {
    let mut keys = vec![HEAD.to_owned()];
    if let Some(actor) = act.actor() {
        keys.push(mailbox_key(actor));
    }
    match act {
        MailboxAct::Push { actor, message, claim, .. } => {
            keys.push(id_key(actor, &message.id));
            keys.extend(claim.as_ref().map(|claim| gone_key(&claim.token)));
        }
        MailboxAct::Claim { actor, claim } => {
            keys.extend([gone_key(&claim.token), state_key(actor)]);
        }
        MailboxAct::Outcome { actor, message }
        | MailboxAct::Withdraw { actor, message, .. }
        | MailboxAct::Revoke { actor, message, .. } => {
            keys.push(id_key(actor, message));
        }
        MailboxAct::Look { actor } => keys.push(state_key(actor)),
        MailboxAct::Renew { drained, .. } => {
            keys.extend(drained.iter().map(|(actor, _)| mailbox_key(actor)));
        }
        _ => {}
    }
    keys
}

/// Executes a step at this time.
pub(crate) fn step(
    rows: &mut dyn Rows<MailboxRow>,
    now: u64,
    step: &MailboxStep,
    notices: &mut Vec<Notice>,
) -> MailboxAnswer {
    let head = match rows.get(HEAD) {
        Some(MailboxRow::Head(head)) => head,
        _ => Head::default(),
    };
    if head.shards != 0 && head.shards != step.shards {
        return MailboxAnswer::Differs { shards: head.shards };
    }
    let before = head.clone();
    let mut shard = ShardStep { rows, now, head, notices };
    let answer = match step.act.actor() {
        Some(actor) => shard.with(actor, |shard, mailbox| {
            shard.arrive(mailbox);
            shard.act(step, mailbox)
        }),
        None => shard.act_on_many(&step.act),
    };
    if shard.head != before {
        let head = MailboxRow::Head(shard.head);
        rows.put(HEAD.to_owned(), head);
    }
    answer
}

/// Forgets an actor's state, or all of its mailbox but the messages: `s:ACTOR`, `a:ACTOR`.
pub(crate) fn forget_part(rows: &mut dyn Rows<MailboxRow>, part: &str) {
    match rows.get(part) {
        Some(MailboxRow::State(_)) => rows.remove(part),
        Some(MailboxRow::Mailbox(Mailbox { messages, delayed, later, due, .. })) => {
            let mailbox = Mailbox { messages, delayed, later, due, ..Mailbox::default() };
            rows.put(part.to_owned(), MailboxRow::Mailbox(mailbox));
        }
        _ => {}
    }
}

/// The mailboxes of a shard, during a step.
struct ShardStep<'a> {
    rows: &'a mut dyn Rows<MailboxRow>,
    now: u64,
    head: Head,
    notices: &'a mut Vec<Notice>,
}

/// The mailbox of an actor, during a step.
struct Open<'a> {
    actor: &'a str,
    mailbox: Mailbox,
}

impl Mailbox {
    fn drained(&self, now: u64) -> Option<&Drainer> {
        self.drainer.as_ref().filter(|drainer| drainer.until > now)
    }

    /// Returns the rest of the drainer's lease, or of the pause before the next attempt.
    fn busy(&self, now: u64) -> Duration {
        left(self.drained(now).map_or(self.ready, |drainer| drainer.until), now)
    }

    fn handed(&self) -> u32 {
        self.drainer.as_ref().map_or(0, |drainer| drainer.handed)
    }

    /// Returns the number of messages to hand out next.
    fn most(&self, most: u32) -> u32 {
        let most = if self.begun > 0 { most.min(1) } else { most };
        most.min(u32::try_from(self.messages.len()).unwrap_or(u32::MAX))
    }
}

impl ShardStep<'_> {
    /// Runs a part of a step on a mailbox, and stores it if it has changed.
    fn with<R>(&mut self, actor: &str, part: impl FnOnce(&mut Self, &mut Open<'_>) -> R) -> R {
        let key = mailbox_key(actor);
        let mailbox = match self.rows.get(&key) {
            Some(MailboxRow::Mailbox(mailbox)) => mailbox,
            _ => Mailbox::default(),
        };
        let mut open = Open { actor, mailbox: mailbox.clone() };
        let result = part(self, &mut open);
        if open.mailbox != mailbox {
            self.rows.put(key, MailboxRow::Mailbox(open.mailbox));
        }
        result
    }

    fn act(&mut self, step: &MailboxStep, open: &mut Open<'_>) -> MailboxAnswer {
        match &step.act {
            MailboxAct::Push { message, delay, claim, .. } => {
                let answer = self.push(open, message, *delay, claim.as_ref());
                if !matches!(answer, MailboxAnswer::Known(_)) {
                    self.head.shards = step.shards;
                }
                answer
            }
            MailboxAct::Claim { claim, .. } => self.claim(open, claim),
            MailboxAct::Advance(advance) => self.advance(open, advance),
            MailboxAct::Abandon { token, .. } => {
                let (key, until) = (gone_key(token), after(self.now, REMEMBERED));
                self.rows.put(key.clone(), MailboxRow::Gone(until));
                self.expires(key, until);
                let drainer = open.mailbox.drainer.as_ref();
                let held = drainer.is_some_and(|drainer| drainer.token == *token);
                if held {
                    self.let_go(open, Duration::ZERO);
                }
                MailboxAnswer::Was(held)
            }
            MailboxAct::Outcome { message, .. } => {
                MailboxAnswer::Progress(self.outcome(open, message))
            }
            MailboxAct::Withdraw { message, late, keep, .. } => {
                MailboxAnswer::Progress(self.withdraw(open, message, None, *late, *keep))
            }
            MailboxAct::Revoke { message, asker, late, keep, .. } => {
                MailboxAnswer::Progress(self.withdraw(open, message, Some(asker), *late, *keep))
            }
            MailboxAct::Requeue { actor, message } => match self.take_letter(actor, message) {
                Some(dead) => {
                    self.append(open, dead.message);
                    self.is_due(open);
                    MailboxAnswer::Was(true)
                }
                None => MailboxAnswer::Was(false),
            },
            MailboxAct::Look { actor } => {
                let state = self.state(actor);
                let mailbox = &open.mailbox;
                let drainer = mailbox.drained(self.now);
                MailboxAnswer::Seen(MailboxSeen {
                    waiting: mailbox.messages.len(),
                    drainer: drainer.map(|it| (it.token.clone(), left(it.until, self.now))),
                    attempts: mailbox.attempts,
                    fence: mailbox.fence,
                    state,
                    delayed: mailbox.delayed,
                })
            }
            act => self.act_on_many(act),
        }
    }

    fn act_on_many(&mut self, act: &MailboxAct) -> MailboxAnswer {
        match act {
            MailboxAct::Renew { drained, lease } => {
                let until = after(self.now, *lease);
                let renewed = drained.iter().map(|(actor, token)| {
                    self.with(actor, |shard, mailbox| shard.lasts(mailbox, token, until))
                });
                MailboxAnswer::Renewed(renewed.collect())
            }
            MailboxAct::Due { worker, alive, most, grip } => {
                self.look_for_work(worker, *alive, *most, *grip)
            }
            MailboxAct::DeadLetters { from, most } => {
                let from = usize::try_from(*from).unwrap_or(usize::MAX);
                let letters = self.rows.first("x:", from.saturating_add(*most as usize));
                let page = letters.into_iter().skip(from).filter_map(|(_, row)| match row {
                    MailboxRow::Dead(Dead { actor, message, attempts, error }) => {
                        Some(DeadMessage { actor, message, attempts, error })
                    }
                    _ => None,
                });
                MailboxAnswer::Dead { all: self.head.dead, dead: page.collect() }
            }
            MailboxAct::Discard { actor, message } => {
                MailboxAnswer::Was(self.discard(actor, message))
            }
            _ => unreachable!("a step of one actor"),
        }
    }

    fn state(&mut self, actor: &str) -> Option<Vec<u8>> {
        match self.rows.get(&state_key(actor))? {
            MailboxRow::State(state) => Some(state),
            _ => None,
        }
    }

    fn id(&mut self, actor: &str, id: &str) -> Option<Id> {
        match self.rows.get(&id_key(actor, id))? {
            // Rows are forgotten some time after they have expired.
            MailboxRow::Id(Id::Ended { until, letter: None, .. }) if until <= self.now => None,
            MailboxRow::Id(id) => Some(id),
            _ => None,
        }
    }

    fn set_id(&mut self, actor: &str, id: &str, is: Id) {
        self.rows.put(id_key(actor, id), MailboxRow::Id(is));
    }

    fn hand(&mut self, open: &Open<'_>, with_state: bool) -> Hand {
        let Open { actor, mailbox } = open;
        let mut messages = Vec::new();
        let mut ids = (u64::MAX, Vec::new());
        for position in mailbox.messages.iter().take(mailbox.handed() as usize) {
            let (chunk, index) = Positions::chunk(position);
            if chunk != ids.0 {
                ids = (chunk, self.ids(actor, chunk));
            }
            let id = ids.1.get(index).and_then(|id| self.id(actor, id));
            if let Some(Id::Waiting(_, message)) = id {
                messages.push(message);
            }
        }
        Hand {
            fence: mailbox.fence,
            attempts: mailbox.attempts,
            state: if with_state { self.state(actor) } else { None },
            messages,
            left: mailbox.messages.len().saturating_sub(mailbox.handed().into()),
        }
    }

    /// Returns the ids of a chunk of positions.
    fn ids(&mut self, actor: &str, chunk: u64) -> Vec<String> {
        match self.rows.get(&ids_key(actor, chunk)) {
            Some(MailboxRow::Ids(ids)) => ids,
            _ => Vec::new(),
        }
    }

    /// Removes the first message. Its id is that of a waiting one until its outcome is stored.
    fn pop(&mut self, open: &mut Open<'_>) -> Option<StoredMessage> {
        let mailbox = &mut open.mailbox;
        mailbox.begun = mailbox.begun.saturating_sub(1);
        mailbox.attempts = 0;
        let first = mailbox.messages.iter().next()?;
        let (chunk, index) = Positions::chunk(first);
        let ids = self.ids(open.actor, chunk);
        self.remove(open, first);
        match self.id(open.actor, ids.get(index)?) {
            Some(Id::Waiting(_, message)) => Some(message),
            _ => None,
        }
    }

    /// Removes a position, and the chunks that are no longer used.
    fn remove(&mut self, open: &mut Open<'_>, position: u64) {
        let before = open.mailbox.messages.chunks();
        open.mailbox.messages.remove(position);
        let after = open.mailbox.messages.chunks();
        for chunk in before.filter(|chunk| !after.contains(chunk)) {
            self.rows.remove(&ids_key(open.actor, chunk));
        }
    }

    /// Adds a message behind the others.
    fn append(&mut self, open: &mut Open<'_>, message: StoredMessage) {
        let position = open.mailbox.messages.push();
        let (chunk, index) = Positions::chunk(position);
        let mut ids = self.ids(open.actor, chunk);
        ids.resize(index, String::new());
        ids.push(message.id.clone());
        self.rows.put(ids_key(open.actor, chunk), MailboxRow::Ids(ids));
        self.rows
            .put(id_key(open.actor, &message.id), MailboxRow::Id(Id::Waiting(position, message)));
    }

    /// Moves messages whose time has come behind the others.
    fn arrive(&mut self, open: &mut Open<'_>) {
        while open.mailbox.later.is_some_and(|at| at <= self.now) {
            let first = self.rows.first(&delayed_prefix(open.actor), 1).pop();
            if let Some((key, MailboxRow::Delayed(_, message))) = first {
                self.rows.remove(&key);
                open.mailbox.delayed -= 1;
                self.append(open, message);
            }
            self.first_later(open);
        }
    }

    /// Reads the time of the first delayed message.
    fn first_later(&mut self, open: &mut Open<'_>) {
        let first = self.rows.first(&delayed_prefix(open.actor), 1).pop();
        open.mailbox.later = match first {
            Some((_, MailboxRow::Delayed(at, _))) => Some(at),
            _ => None,
        };
    }

    /// Sets when a worker checks the mailbox.
    fn set_due(&mut self, open: &mut Open<'_>, at: Option<u64>) {
        if open.mailbox.due == at {
            return;
        }
        if let Some(before) = open.mailbox.due {
            self.rows.remove(&due_key(before, open.actor));
        }
        if let Some(at) = at {
            let row = MailboxRow::Due(at, open.actor.to_owned());
            self.rows.put(due_key(at, open.actor), row);
        }
        open.mailbox.due = at;
    }

    /// Sets the due time of a mailbox that has messages and no drainer: now, or when it is ready.
    fn is_due(&mut self, open: &mut Open<'_>) {
        let mailbox = &open.mailbox;
        if mailbox.drained(self.now).is_some() {
            return;
        }
        let at = mailbox.ready.max(self.now);
        if mailbox.due.is_none_or(|due| due > at) {
            self.set_due(open, Some(at));
        }
        if at == self.now || self.is_first(open) {
            self.wake_worker();
        }
    }

    /// True if no mailbox of the shard is due before this one: a waiting worker may have another
    /// time in mind.
    fn is_first(&mut self, open: &Open<'_>) -> bool {
        let first = self.rows.first("d:", 1).pop();
        matches!(first, Some((_, MailboxRow::Due(_, actor))) if actor == open.actor)
    }

    /// Sets the due time of a mailbox without messages: that of its first delayed one.
    fn due_later(&mut self, open: &mut Open<'_>) {
        let Mailbox { later, ready, .. } = open.mailbox;
        self.set_due(open, later.map(|at| at.max(ready)));
        if later.is_some() && self.is_first(open) {
            self.wake_worker();
        }
    }

    /// Wakes a waiting worker.
    fn wake_worker(&mut self) {
        let workers = &mut self.head.workers;
        workers.retain(|(until, _)| *until > self.now);
        let first = (0..workers.len()).min_by_key(|index| &workers[*index]);
        if let Some(first) = first {
            self.notices.push(Notice::Granted(workers.swap_remove(first).1));
        }
    }

    fn push(
        &mut self,
        open: &mut Open<'_>,
        message: &StoredMessage,
        delay: Duration,
        claim: Option<&DrainClaim>,
    ) -> MailboxAnswer {
        let now = self.now;
        match self.outcome(open, &message.id) {
            Progress::Unknown => {}
            // The answer to an earlier copy may have been lost, which has claimed the mailbox.
            Progress::Running { .. } | Progress::Waiting { .. }
                if let Some(claim) = claim
                    && self.lasts(open, &claim.token, after(now, claim.lease)) =>
            {
                return MailboxAnswer::Handed(self.hand(open, true));
            }
            progress => return MailboxAnswer::Known(progress),
        }
        let ahead = open.mailbox.messages.len();
        if !delay.is_zero() {
            let at = after(now, delay);
            let key = format!("{}{at:016x}:{}", delayed_prefix(open.actor), message.id);
            self.rows.put(key, MailboxRow::Delayed(at, message.clone()));
            self.set_id(open.actor, &message.id, Id::Delayed(at));
            let mailbox = &mut open.mailbox;
            mailbox.delayed += 1;
            mailbox.later = Some(mailbox.later.map_or(at, |later| later.min(at)));
            if ahead == 0 {
                self.due_later(open);
            }
            return MailboxAnswer::Pushed { ahead, busy: delay };
        }
        self.append(open, message.clone());
        if let Some(claim) = claim
            && let MailboxAnswer::Handed(hand) = self.claim(open, claim)
        {
            return MailboxAnswer::Handed(hand);
        }
        self.is_due(open);
        MailboxAnswer::Pushed { ahead, busy: open.mailbox.busy(now) }
    }

    /// Extends the lease of a mailbox to this time, if the token drains it.
    fn lasts(&mut self, open: &mut Open<'_>, token: &Token, until: u64) -> bool {
        let drainer = open.mailbox.drainer.as_mut();
        let Some(drainer) = drainer.filter(|drainer| drainer.token == *token) else {
            return false;
        };
        drainer.until = drainer.until.max(until);
        let until = drainer.until;
        self.set_due(open, Some(until));
        true
    }

    fn claim(&mut self, open: &mut Open<'_>, claim: &DrainClaim) -> MailboxAnswer {
        let now = self.now;
        if let Some(MailboxRow::Gone(until)) = self.rows.get(&gone_key(&claim.token))
            && until > now
        {
            return MailboxAnswer::Gone;
        }
        if self.lasts(open, &claim.token, after(now, claim.lease)) {
            return MailboxAnswer::Handed(self.hand(open, true));
        }
        let mailbox = &mut open.mailbox;
        if let Some(drainer) = &mailbox.drainer {
            if drainer.until > now {
                return MailboxAnswer::Busy { left: left(drainer.until, now) };
            }
            let handed = drainer.handed;
            mailbox.drainer = None;
            mailbox.begun = mailbox.begun.max(handed);
            if handed > 0 {
                mailbox.attempts += 1;
                if mailbox.attempts >= claim.attempts {
                    self.bury(open, DRAINER_GONE, claim.keep);
                }
            }
        }
        let mailbox = &mut open.mailbox;
        if mailbox.messages.is_empty() {
            self.due_later(open);
            return MailboxAnswer::Empty;
        }
        if mailbox.ready > now {
            return MailboxAnswer::Busy { left: left(mailbox.ready, now) };
        }
        let until = after(now, claim.lease);
        mailbox.fence = now.max(mailbox.fence + 1);
        let handed = mailbox.most(claim.most);
        let token = claim.token.clone();
        mailbox.drainer = Some(Drainer { token, until, number: 0, handed });
        self.set_due(open, Some(until));
        MailboxAnswer::Handed(self.hand(open, true))
    }

    /// Turns the first message into a dead letter.
    fn bury(&mut self, open: &mut Open<'_>, error: &str, keep: Duration) {
        let attempts = open.mailbox.attempts;
        let Some(message) = self.pop(open) else { return };
        self.head.deaths += 1;
        self.head.dead += 1;
        let (place, error) = (self.head.deaths, error.to_owned());
        self.ended(open.actor, &message, KeptOutcome::Dead(error.clone()), keep, Some(place));
        let dead = Dead { actor: open.actor.to_owned(), message, attempts, error };
        self.rows.put(letter_key(place), MailboxRow::Dead(dead));
    }

    /// Removes a dead letter.
    fn take_letter(&mut self, actor: &str, id: &str) -> Option<Dead> {
        let Some(Id::Ended { letter: Some(place), .. }) = self.id(actor, id) else { return None };
        let key = letter_key(place);
        let Some(MailboxRow::Dead(dead)) = self.rows.get(&key) else { return None };
        self.rows.remove(&key);
        self.head.dead -= 1;
        Some(dead)
    }

    fn discard(&mut self, actor: &str, id: &str) -> bool {
        let known = self.id(actor, id);
        let was = self.take_letter(actor, id).is_some();
        if was && let Some(Id::Ended { outcome, until, .. }) = known {
            if until > self.now {
                self.set_id(actor, id, Id::Ended { outcome, until, letter: None });
            } else {
                self.rows.remove(&id_key(actor, id));
            }
        }
        was
    }

    fn ended(
        &mut self,
        actor: &str,
        message: &StoredMessage,
        outcome: KeptOutcome,
        keep: Duration,
        letter: Option<u64>,
    ) {
        self.keep_outcome(actor, &message.id, outcome, keep, letter);
        self.notices.extend(message.asker.clone().map(Notice::Granted));
    }

    fn keep_outcome(
        &mut self,
        actor: &str,
        id: &str,
        outcome: KeptOutcome,
        keep: Duration,
        letter: Option<u64>,
    ) {
        let until = after(self.now, keep);
        self.set_id(actor, id, Id::Ended { outcome, until, letter });
        self.expires(id_key(actor, id), until);
    }

    /// Notes that a row expires then. Two of those that have expired are forgotten, if they have
    /// no later expiry.
    fn expires(&mut self, key: String, until: u64) {
        self.rows.put(format!("f:{until:016x}:{key}"), MailboxRow::Expiry(until, key));
        for (expiry, row) in self.rows.first("f:", 2) {
            let MailboxRow::Expiry(at, key) = row else { continue };
            if at > self.now {
                return;
            }
            self.rows.remove(&expiry);
            match self.rows.get(&key) {
                Some(
                    MailboxRow::Gone(until) | MailboxRow::Id(Id::Ended { until, letter: None, .. }),
                ) if until <= self.now => self.rows.remove(&key),
                _ => {}
            }
        }
    }

    fn advance(&mut self, open: &mut Open<'_>, advance: &Advance) -> MailboxAnswer {
        let Advance { actor, fence, number, done, state, failed, keep, then } = advance;
        let now = self.now;
        let mailbox = &open.mailbox;
        let left_before = mailbox.last == Some((*fence, *number));
        match &mailbox.drainer {
            Some(drainer) if mailbox.fence == *fence => {
                if drainer.number == *number {
                    let token = drainer.token.clone();
                    if let Then::Next { lease, .. } = then {
                        self.lasts(open, &token, after(now, *lease));
                    }
                    return MailboxAnswer::Handed(self.hand(open, false));
                }
                if drainer.number + 1 != *number {
                    return MailboxAnswer::Lost;
                }
            }
            _ if left_before => {
                let left_now = mailbox.messages.len();
                return MailboxAnswer::LetGo { left: left_now, wait: left(mailbox.ready, now) };
            }
            _ => return MailboxAnswer::Lost,
        }
        for reply in done {
            let Some(message) = self.pop(open) else { break };
            self.ended(actor, &message, KeptOutcome::Done(reply.clone()), *keep, None);
        }
        if let Some(state) = state {
            self.rows.put(state_key(actor), MailboxRow::State(state.clone()));
        }
        let mut put_off = false;
        if let Some(FailedAttempt { error, again }) = failed {
            let mailbox = &mut open.mailbox;
            mailbox.attempts += 1;
            match again {
                Some(again) => {
                    mailbox.begun = mailbox.begun.max(1);
                    mailbox.ready = after(now, *again);
                    put_off = true;
                }
                None => self.bury(open, error, *keep),
            }
        }
        let mailbox = &mut open.mailbox;
        if let Then::PutOff { pause } = then {
            mailbox.ready = mailbox.ready.max(after(now, *pause));
        }
        if let Then::Next { most, lease } = then
            && !put_off
            && !mailbox.messages.is_empty()
        {
            let (handed, until) = (mailbox.most(*most), after(now, *lease));
            if let Some(drainer) = &mut mailbox.drainer {
                drainer.number = *number;
                drainer.handed = handed;
                drainer.until = drainer.until.max(until);
                let until = drainer.until;
                self.set_due(open, Some(until));
            }
            return MailboxAnswer::Handed(self.hand(open, false));
        }
        mailbox.last = Some((*fence, *number));
        let wait = match then {
            Then::LetGo { after } if !put_off => *after,
            _ => Duration::ZERO,
        };
        self.let_go(open, wait);
        let Mailbox { messages, ready, .. } = &open.mailbox;
        MailboxAnswer::LetGo { left: messages.len(), wait: left(*ready, now) }
    }

    /// Releases a mailbox. Workers check what is left after this time.
    fn let_go(&mut self, open: &mut Open<'_>, wait: Duration) {
        open.mailbox.drainer = None;
        if open.mailbox.messages.is_empty() {
            return self.due_later(open);
        }
        if wait.is_zero() {
            self.set_due(open, None);
            self.is_due(open);
        } else {
            self.set_due(open, Some(after(self.now, wait)));
        }
    }

    fn outcome(&mut self, open: &Open<'_>, message: &str) -> Progress {
        let (now, mailbox) = (self.now, &open.mailbox);
        let position = match self.id(open.actor, message) {
            None => return Progress::Unknown,
            Some(Id::Ended { outcome, .. }) => return outcome.into(),
            Some(Id::Delayed(at)) => return Progress::Delayed { left: left(at, now) },
            Some(Id::Waiting(position, _)) => position,
        };
        let ahead = mailbox.messages.ahead(position);
        match mailbox.drained(now) {
            Some(drainer) if ahead == 0 => {
                Progress::Running { attempt: mailbox.attempts + 1, busy: left(drainer.until, now) }
            }
            _ => Progress::Waiting { ahead, busy: mailbox.busy(now) },
        }
    }

    fn withdraw(
        &mut self,
        open: &mut Open<'_>,
        message: &str,
        asker: Option<&Token>,
        late: bool,
        keep: Duration,
    ) -> Progress {
        let known = self.id(open.actor, message);
        let progress = self.outcome(open, message);
        let is_another = |stored: &StoredMessage| asker.is_some() && stored.asker.as_ref() != asker;
        let withdrawn = match (&progress, known) {
            (Progress::Waiting { ahead, .. }, Some(Id::Waiting(position, stored))) => {
                let mailbox = &open.mailbox;
                let may_have_begun = *ahead < u64::from(mailbox.begun.max(mailbox.handed()));
                if may_have_begun || is_another(&stored) {
                    return progress;
                }
                self.remove(open, position);
                true
            }
            (Progress::Delayed { .. }, Some(Id::Delayed(at))) => {
                let key = format!("{}{at:016x}:{message}", delayed_prefix(open.actor));
                if let Some(MailboxRow::Delayed(_, stored)) = self.rows.get(&key)
                    && is_another(&stored)
                {
                    return progress;
                }
                self.rows.remove(&key);
                open.mailbox.delayed -= 1;
                self.first_later(open);
                true
            }
            (Progress::Unknown, _) => late,
            _ => false,
        };
        if !withdrawn {
            return progress;
        }
        if progress != Progress::Unknown && open.mailbox.messages.is_empty() {
            self.due_later(open);
        }
        self.keep_outcome(open.actor, message, KeptOutcome::Withdrawn, keep, None);
        Progress::Withdrawn
    }

    fn look_for_work(
        &mut self,
        worker: &Token,
        alive: Duration,
        most: u32,
        grip: Duration,
    ) -> MailboxAnswer {
        let now = self.now;
        let grip = after(now, grip);
        self.head.workers.retain(|(_, waiting)| waiting != worker);
        let mut actors = Vec::new();
        for (_, row) in self.rows.first("d:", most as usize) {
            match row {
                MailboxRow::Due(at, actor) if at <= now => actors.push(actor),
                _ => break,
            }
        }
        for actor in &actors {
            self.with(actor, |shard, open| shard.set_due(open, Some(grip)));
        }
        if actors.is_empty() {
            self.head.workers.push((after(now, alive), worker.clone()));
        }
        let next = match self.rows.first("d:", 1).pop() {
            Some((_, MailboxRow::Due(at, _))) => Some(left(at, now)),
            _ => None,
        };
        MailboxAnswer::Due { actors, next }
    }
}
