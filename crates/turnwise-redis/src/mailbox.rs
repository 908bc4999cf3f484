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
//! - M1: at most one request drains a mailbox. Only the drainer removes messages, by naming them.
//! - M2: the state, the removal of the messages that made it, and their outcomes are written in one
//!   step. So the state has seen each message once, whatever was repeated on the way.
//! - M3: a repeated step has one effect: a push by the message's id, an advance by its number and
//!   that of its hold.
//! - M4: a message that was handed to a drainer, and was not returned, may have begun: it cannot be
//!   withdrawn. Such messages are handed out one at a time, and only the first one's attempts
//!   count.
//! - M5: a message that was withdrawn, or is done, is known for a stated time: copies of its push
//!   that arrive meanwhile store nothing and claim nothing.
//! - M6: a mailbox with messages, or with a drainer, has a due time, at which a worker checks
//!   whether it is drained.
//! - M7: a delayed message is known, and is no message of the mailbox, before its time has come.
//!   The first step after that moves it behind the others. While there are only such messages, the
//!   first one's time is the due time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::record::{REMEMBERED, micros};
use crate::step::{
    Advance, DeadMessage, DrainClaim, FailedAttempt, Hand, MailboxAct, MailboxAnswer, MailboxSeen,
    MailboxStep, Notice, Progress, StoredMessage, Then, Token,
};

/// The error of a dead letter whose drainers have died.
pub(crate) const DRAINER_GONE: &str = "the drainer ended while the message ran";

/// The mailboxes of a shard. Times are microseconds of the store's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Shard {
    /// The number of shards: 0 if none was stated.
    shards: u32,
    mailboxes: BTreeMap<String, Mailbox>,
    /// Outcomes by actor and message, and until when they are known.
    outcomes: BTreeMap<(String, String), (Outcome, u64)>,
    /// The times at which outcomes are forgotten, in order. An outcome may have a later one as
    /// well.
    forgotten: BTreeSet<(u64, (String, String))>,
    due: Due,
    /// Dead letters by actor and message, with their positions in the order.
    dead: BTreeMap<(String, String), Dead>,
    deaths: u64,
    /// Waiting workers, and the time at which each stops waiting.
    workers: Vec<(u64, Token)>,
    /// Requests whose claims are refused, and until when that is known.
    gone: BTreeMap<Token, u64>,
}

/// The due times of mailboxes, by actor and by time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
struct Due {
    times: BTreeMap<String, u64>,
    order: BTreeSet<(u64, String)>,
}

impl Due {
    fn remove(&mut self, actor: &str) {
        if let Some(at) = self.times.remove(actor) {
            self.order.remove(&(at, actor.to_owned()));
        }
    }

    fn set(&mut self, actor: &str, at: u64) {
        self.remove(actor);
        self.times.insert(actor.to_owned(), at);
        self.order.insert((at, actor.to_owned()));
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
struct Mailbox {
    drainer: Option<Drainer>,
    /// The fence of the last hold.
    fence: u64,
    messages: VecDeque<Message>,
    /// The ids of `messages`.
    ids: BTreeSet<String>,
    /// The number of leading messages that dead drainers may have begun, or that have failed.
    begun: u32,
    /// The number of failed attempts at the first message.
    attempts: u32,
    /// The time before which it is not drained.
    ready: u64,
    /// The last hold that was released, and the number of the step that did it.
    last: Option<(u64, u64)>,
    state: Option<Vec<u8>>,
    /// Delayed messages by id, with the times at which they arrive; and their order.
    delayed: BTreeMap<String, (u64, Message)>,
    later: BTreeSet<(u64, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
struct Drainer {
    token: Token,
    until: u64,
    number: u64,
    /// The number of leading messages that it was handed.
    handed: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
struct Message {
    id: String,
    name: String,
    body: Vec<u8>,
    asker: Option<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
enum Outcome {
    Done(Vec<u8>),
    Dead(String),
    Withdrawn,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
struct Dead {
    place: u64,
    message: Message,
    attempts: u32,
    error: String,
}

impl From<StoredMessage> for Message {
    fn from(StoredMessage { id, name, body, asker }: StoredMessage) -> Self {
        Message { id, name, body, asker }
    }
}

impl From<Message> for StoredMessage {
    fn from(Message { id, name, body, asker }: Message) -> Self {
        StoredMessage { id, name, body, asker }
    }
}

impl From<Outcome> for Progress {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done(reply) => Progress::Done(reply),
            Outcome::Dead(error) => Progress::Dead { error },
            Outcome::Withdrawn => Progress::Withdrawn,
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

impl Mailbox {
    fn drained(&self, now: u64) -> Option<&Drainer> {
        self.drainer.as_ref().filter(|drainer| drainer.until > now)
    }

    fn hand(&self, with_state: bool) -> Hand {
        let handed = self.drainer.as_ref().map_or(0, |drainer| drainer.handed as usize);
        Hand {
            fence: self.fence,
            attempts: self.attempts,
            state: if with_state { self.state.clone() } else { None },
            messages: self.messages.iter().take(handed).cloned().map(Into::into).collect(),
            left: (self.messages.len() - handed) as u64,
        }
    }

    /// Returns the number of messages to hand out next.
    fn most(&self, most: u32) -> u32 {
        let most = if self.begun > 0 { 1 } else { most.max(1) };
        most.min(u32::try_from(self.messages.len()).unwrap_or(u32::MAX))
    }

    /// Removes the first message.
    fn pop(&mut self) -> Option<Message> {
        self.begun = self.begun.saturating_sub(1);
        self.attempts = 0;
        let message = self.messages.pop_front()?;
        self.ids.remove(&message.id);
        Some(message)
    }

    fn push(&mut self, message: Message) {
        self.ids.insert(message.id.clone());
        self.messages.push_back(message);
    }

    /// Moves messages whose time has come behind the others.
    fn arrive(&mut self, now: u64) {
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, id)) = self.later.pop_first() else { return };
            if let Some((_, message)) = self.delayed.remove(&id) {
                self.push(message);
            }
        }
    }

    fn progress(&self, now: u64, message: &str) -> Option<Progress> {
        if let Some((at, _)) = self.delayed.get(message) {
            return Some(Progress::Delayed { left: left(*at, now) });
        }
        if !self.ids.contains(message) {
            return None;
        }
        let ahead = self.messages.iter().position(|waiting| waiting.id == message)?;
        Some(match self.drained(now) {
            Some(drainer) if ahead == 0 => {
                Progress::Running { attempt: self.attempts + 1, busy: left(drainer.until, now) }
            }
            drainer => {
                let until = drainer.map_or(self.ready, |drainer| drainer.until);
                Progress::Waiting { ahead: ahead as u64, busy: left(until, now) }
            }
        })
    }
}

impl Shard {
    /// Executes a step at this time.
    pub(crate) fn step(
        &mut self,
        now: u64,
        step: &MailboxStep,
        notices: &mut Vec<Notice>,
    ) -> MailboxAnswer {
        if self.shards != 0 && self.shards != step.shards {
            return MailboxAnswer::Differs { shards: self.shards };
        }
        self.forget_old(now);
        self.gone.retain(|_, until| *until > now);
        if let Some(mailbox) = step.act.actor().and_then(|actor| self.mailboxes.get_mut(actor)) {
            mailbox.arrive(now);
        }
        match &step.act {
            MailboxAct::Push { actor, message, delay, claim } => {
                let answer = self.push(now, actor, message, *delay, claim.as_ref(), notices);
                if !matches!(answer, MailboxAnswer::Known(_)) {
                    self.shards = step.shards;
                }
                answer
            }
            MailboxAct::Claim { actor, claim } => self.claim(now, actor, claim, notices),
            MailboxAct::Advance(advance) => self.advance(now, advance, notices),
            MailboxAct::Abandon { actor, token } => {
                self.gone.insert(token.clone(), after(now, REMEMBERED));
                MailboxAnswer::Was(self.abandon(now, actor, token, notices))
            }
            MailboxAct::Renew { drained, lease } => {
                let until = after(now, *lease);
                let renewed = drained.iter().map(|(actor, token)| self.lasts(actor, token, until));
                MailboxAnswer::Renewed(renewed.collect())
            }
            MailboxAct::Outcome { actor, message } => {
                MailboxAnswer::Progress(self.outcome(now, actor, message))
            }
            MailboxAct::Withdraw { actor, message, late, keep } => {
                MailboxAnswer::Progress(self.withdraw(now, actor, message, *late, *keep))
            }
            MailboxAct::Due { worker, alive, most, grip } => {
                self.look_for_work(now, worker, *alive, *most, *grip)
            }
            MailboxAct::DeadLetters { from, most } => {
                let mut dead: Vec<_> = self.dead.iter().collect();
                dead.sort_by_key(|(_, dead)| dead.place);
                let from = usize::try_from(*from).unwrap_or(usize::MAX);
                let page = dead.into_iter().skip(from).take(*most as usize);
                let page = page.map(|((actor, _), dead)| DeadMessage {
                    actor: actor.clone(),
                    message: dead.message.clone().into(),
                    attempts: dead.attempts,
                    error: dead.error.clone(),
                });
                MailboxAnswer::Dead { all: self.dead.len() as u64, dead: page.collect() }
            }
            MailboxAct::Requeue { actor, message } => {
                let key = (actor.clone(), message.clone());
                let Some(dead) = self.dead.remove(&key) else { return MailboxAnswer::Was(false) };
                self.outcomes.remove(&key);
                self.mailbox(actor).push(dead.message);
                self.is_due(now, actor, notices);
                MailboxAnswer::Was(true)
            }
            MailboxAct::Discard { actor, message } => {
                let key = (actor.clone(), message.clone());
                MailboxAnswer::Was(self.dead.remove(&key).is_some())
            }
            MailboxAct::Look { actor } => {
                let mailbox = self.mailboxes.get(actor).cloned().unwrap_or_default();
                let drainer = mailbox.drained(now);
                MailboxAnswer::Seen(MailboxSeen {
                    waiting: mailbox.messages.len() as u64,
                    drainer: drainer.map(|it| (it.token.clone(), left(it.until, now))),
                    attempts: mailbox.attempts,
                    fence: mailbox.fence,
                    state: mailbox.state,
                    delayed: mailbox.delayed.len() as u64,
                })
            }
        }
    }

    /// Forgets an actor's state, or all of its mailbox but the messages: `s:ACTOR`, `a:ACTOR`.
    pub(crate) fn forget_part(&mut self, part: &str) {
        let Some((kind, actor)) = part.split_once(':') else { return };
        let Some(mailbox) = self.mailboxes.get_mut(actor) else { return };
        match kind {
            "s" => mailbox.state = None,
            _ => {
                let Mailbox { messages, ids, state, delayed, later, .. } = std::mem::take(mailbox);
                *mailbox = Mailbox { messages, ids, state, delayed, later, ..Mailbox::default() };
            }
        }
    }

    fn mailbox(&mut self, actor: &str) -> &mut Mailbox {
        self.mailboxes.entry(actor.to_owned()).or_default()
    }

    /// Sets the due time of a mailbox that has messages and no drainer: now, or when it is ready.
    fn is_due(&mut self, now: u64, actor: &str, notices: &mut Vec<Notice>) {
        let mailbox = self.mailbox(actor);
        if mailbox.drained(now).is_some() {
            return;
        }
        let at = mailbox.ready.max(now);
        if self.due.times.get(actor).is_none_or(|due| *due > at) {
            self.due.set(actor, at);
        }
        if at == now {
            self.wake_worker(now, notices);
        }
    }

    /// Sets the due time of a mailbox without messages: that of its first delayed one.
    fn due_later(&mut self, actor: &str) {
        let mailbox = self.mailbox(actor);
        let first = mailbox.later.first().map(|(at, _)| (*at).max(mailbox.ready));
        match first {
            Some(at) => self.due.set(actor, at),
            None => self.due.remove(actor),
        }
    }

    /// Wakes a waiting worker.
    fn wake_worker(&mut self, now: u64, notices: &mut Vec<Notice>) {
        self.workers.retain(|(until, _)| *until > now);
        let first = (0..self.workers.len()).min_by_key(|index| &self.workers[*index]);
        if let Some(first) = first {
            notices.push(Notice::Granted(self.workers.swap_remove(first).1));
        }
    }

    fn push(
        &mut self,
        now: u64,
        actor: &str,
        message: &StoredMessage,
        delay: Duration,
        claim: Option<&DrainClaim>,
        notices: &mut Vec<Notice>,
    ) -> MailboxAnswer {
        match self.outcome(now, actor, &message.id) {
            Progress::Unknown => {}
            // The answer to an earlier copy may have been lost, which has claimed the mailbox.
            Progress::Running { .. } | Progress::Waiting { .. }
                if let Some(claim) = claim
                    && self.lasts(actor, &claim.token, after(now, claim.lease)) =>
            {
                return MailboxAnswer::Handed(self.mailbox(actor).hand(true));
            }
            progress => return MailboxAnswer::Known(progress),
        }
        let mailbox = self.mailbox(actor);
        let ahead = mailbox.messages.len() as u64;
        if !delay.is_zero() {
            let (at, id) = (after(now, delay), message.id.clone());
            mailbox.later.insert((at, id.clone()));
            mailbox.delayed.insert(id, (at, message.clone().into()));
            if ahead == 0 {
                self.due_later(actor);
            }
            return MailboxAnswer::Pushed { ahead, free: false };
        }
        mailbox.push(message.clone().into());
        if let Some(claim) = claim
            && let MailboxAnswer::Handed(hand) = self.claim(now, actor, claim, notices)
        {
            return MailboxAnswer::Handed(hand);
        }
        let mailbox = self.mailbox(actor);
        let free = mailbox.drained(now).is_none() && mailbox.ready <= now;
        self.is_due(now, actor, notices);
        MailboxAnswer::Pushed { ahead, free }
    }

    /// Extends the lease of a mailbox to this time, if the token drains it.
    fn lasts(&mut self, actor: &str, token: &Token, until: u64) -> bool {
        let drainer = self.mailboxes.get_mut(actor).and_then(|mailbox| mailbox.drainer.as_mut());
        let Some(drainer) = drainer.filter(|drainer| drainer.token == *token) else {
            return false;
        };
        drainer.until = drainer.until.max(until);
        let until = drainer.until;
        self.due.set(actor, until);
        true
    }

    fn claim(
        &mut self,
        now: u64,
        actor: &str,
        claim: &DrainClaim,
        notices: &mut Vec<Notice>,
    ) -> MailboxAnswer {
        if self.gone.contains_key(&claim.token) {
            return MailboxAnswer::Gone;
        }
        if !self.mailboxes.contains_key(actor) {
            return MailboxAnswer::Empty;
        }
        if self.lasts(actor, &claim.token, after(now, claim.lease)) {
            return MailboxAnswer::Handed(self.mailbox(actor).hand(true));
        }
        let mailbox = self.mailbox(actor);
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
                    self.bury(now, actor, DRAINER_GONE, claim.keep, notices);
                }
            }
        }
        let mailbox = self.mailbox(actor);
        if mailbox.messages.is_empty() {
            self.due_later(actor);
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
        let hand = mailbox.hand(true);
        self.due.set(actor, until);
        MailboxAnswer::Handed(hand)
    }

    /// Turns the first message into a dead letter.
    fn bury(
        &mut self,
        now: u64,
        actor: &str,
        error: &str,
        keep: Duration,
        notices: &mut Vec<Notice>,
    ) {
        let mailbox = self.mailbox(actor);
        let attempts = mailbox.attempts;
        let Some(message) = mailbox.pop() else { return };
        self.ended(now, actor, &message, Outcome::Dead(error.to_owned()), keep, notices);
        self.deaths += 1;
        let (place, error) = (self.deaths, error.to_owned());
        let key = (actor.to_owned(), message.id.clone());
        self.dead.insert(key, Dead { place, message, attempts, error });
    }

    fn ended(
        &mut self,
        now: u64,
        actor: &str,
        message: &Message,
        outcome: Outcome,
        keep: Duration,
        notices: &mut Vec<Notice>,
    ) {
        self.keep_outcome(now, actor, &message.id, outcome, keep);
        notices.extend(message.asker.clone().map(Notice::Granted));
    }

    fn keep_outcome(
        &mut self,
        now: u64,
        actor: &str,
        message: &str,
        outcome: Outcome,
        keep: Duration,
    ) {
        let (key, until) = ((actor.to_owned(), message.to_owned()), after(now, keep));
        self.forgotten.insert((until, key.clone()));
        self.outcomes.insert(key, (outcome, until));
    }

    fn forget_old(&mut self, now: u64) {
        while self.forgotten.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, key)) = self.forgotten.pop_first() else { return };
            if self.outcomes.get(&key).is_some_and(|(_, until)| *until <= now) {
                self.outcomes.remove(&key);
            }
        }
    }

    fn advance(&mut self, now: u64, advance: &Advance, notices: &mut Vec<Notice>) -> MailboxAnswer {
        let Advance { actor, fence, number, done, state, failed, keep, then } = advance;
        let Some(mailbox) = self.mailboxes.get_mut(actor) else { return MailboxAnswer::Lost };
        let left_before = mailbox.last == Some((*fence, *number));
        match &mailbox.drainer {
            Some(drainer) if mailbox.fence == *fence => {
                if drainer.number == *number {
                    let token = drainer.token.clone();
                    if let Then::Next { lease, .. } = then {
                        self.lasts(actor, &token, after(now, *lease));
                    }
                    return MailboxAnswer::Handed(self.mailbox(actor).hand(false));
                }
                if drainer.number + 1 != *number {
                    return MailboxAnswer::Lost;
                }
            }
            _ if left_before => {
                let left_now = mailbox.messages.len() as u64;
                return MailboxAnswer::LetGo { left: left_now, wait: left(mailbox.ready, now) };
            }
            _ => return MailboxAnswer::Lost,
        }
        for reply in done {
            let Some(message) = self.mailbox(actor).pop() else { break };
            self.ended(now, actor, &message, Outcome::Done(reply.clone()), *keep, notices);
        }
        let mailbox = self.mailbox(actor);
        if state.is_some() {
            mailbox.state.clone_from(state);
        }
        let mut put_off = false;
        if let Some(FailedAttempt { error, again }) = failed {
            mailbox.attempts += 1;
            match again {
                Some(again) => {
                    mailbox.begun = mailbox.begun.max(1);
                    mailbox.ready = after(now, *again);
                    put_off = true;
                }
                None => self.bury(now, actor, error, *keep, notices),
            }
        }
        let mailbox = self.mailbox(actor);
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
                self.due.set(actor, until);
            }
            return MailboxAnswer::Handed(self.mailbox(actor).hand(false));
        }
        mailbox.last = Some((*fence, *number));
        let wait = match then {
            Then::LetGo { after } if !put_off => *after,
            _ => Duration::ZERO,
        };
        self.let_go(now, actor, wait, notices);
        let mailbox = self.mailbox(actor);
        MailboxAnswer::LetGo { left: mailbox.messages.len() as u64, wait: left(mailbox.ready, now) }
    }

    fn abandon(&mut self, now: u64, actor: &str, token: &Token, notices: &mut Vec<Notice>) -> bool {
        let drainer = self.mailboxes.get(actor).and_then(|it| it.drainer.as_ref());
        let held = drainer.is_some_and(|drainer| drainer.token == *token);
        if held {
            self.let_go(now, actor, Duration::ZERO, notices);
        }
        held
    }

    /// Releases a mailbox. Workers check what is left after this time.
    fn let_go(&mut self, now: u64, actor: &str, wait: Duration, notices: &mut Vec<Notice>) {
        let mailbox = self.mailbox(actor);
        mailbox.drainer = None;
        if mailbox.messages.is_empty() {
            return self.due_later(actor);
        }
        if wait.is_zero() {
            self.due.remove(actor);
            self.is_due(now, actor, notices);
        } else {
            self.due.set(actor, after(now, wait));
        }
    }

    fn outcome(&self, now: u64, actor: &str, message: &str) -> Progress {
        let mailbox = self.mailboxes.get(actor);
        if let Some(progress) = mailbox.and_then(|it| it.progress(now, message)) {
            return progress;
        }
        let key = (actor.to_owned(), message.to_owned());
        if let Some(dead) = self.dead.get(&key) {
            return Progress::Dead { error: dead.error.clone() };
        }
        let outcome = self.outcomes.get(&key);
        outcome.map_or(Progress::Unknown, |(outcome, _)| outcome.clone().into())
    }

    fn withdraw(
        &mut self,
        now: u64,
        actor: &str,
        message: &str,
        late: bool,
        keep: Duration,
    ) -> Progress {
        let progress = self.outcome(now, actor, message);
        let withdrawn = match &progress {
            Progress::Waiting { ahead, .. } => {
                let mailbox = self.mailbox(actor);
                let handed = mailbox.drainer.as_ref().map_or(0, |drainer| drainer.handed);
                if *ahead < u64::from(mailbox.begun.max(handed)) {
                    return progress;
                }
                mailbox.messages.retain(|waiting| waiting.id != message);
                mailbox.ids.remove(message);
                if mailbox.messages.is_empty() {
                    self.due_later(actor);
                }
                true
            }
            Progress::Delayed { .. } => {
                let mailbox = self.mailbox(actor);
                if let Some((at, message)) = mailbox.delayed.remove(message) {
                    mailbox.later.remove(&(at, message.id));
                }
                if mailbox.messages.is_empty() {
                    self.due_later(actor);
                }
                true
            }
            Progress::Unknown => late,
            _ => false,
        };
        if !withdrawn {
            return progress;
        }
        self.keep_outcome(now, actor, message, Outcome::Withdrawn, keep);
        Progress::Withdrawn
    }

    fn look_for_work(
        &mut self,
        now: u64,
        worker: &Token,
        alive: Duration,
        most: u32,
        grip: Duration,
    ) -> MailboxAnswer {
        self.workers.retain(|(_, waiting)| waiting != worker);
        let due = self.due.order.iter().take_while(|(at, _)| *at <= now).take(most as usize);
        let actors: Vec<_> = due.map(|(_, actor)| actor.clone()).collect();
        for actor in &actors {
            self.due.set(actor, after(now, grip));
        }
        if actors.is_empty() {
            self.workers.push((after(now, alive), worker.clone()));
        }
        let next = self.due.order.first().map(|(at, _)| left(*at, now));
        MailboxAnswer::Due { actors, next }
    }
}
