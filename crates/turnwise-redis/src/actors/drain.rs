//! The drain of a mailbox: messages run in a local actor, and leave the store by `Advance`.
//!
//! A drain is a turn of an actor of its own, on the executor of its kind. The local actor, its
//! state and the handlers live there; the client's thread has bytes only. A drain that is cut
//! because its executor ends releases the mailbox if no message that it was handed had begun. If
//! one had, the lease runs out, and the next drainer counts an attempt.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};
use turnwise::{Actor, Reply, promise};

use super::ask;
use super::error::MessageError;
use super::inbox::{MailboxHold, Shard};
use super::kind::{Drains, Kind, KindSettings, NotDone, converted, panicked};
use crate::business::UnderWay;
use crate::client::Client;
use crate::step::{
    Advance, FailedAttempt, Hand, MailboxAct, MailboxAnswer, Progress, StoredMessage, Then, Token,
};
use crate::time::{Moment, after};
use crate::user_code::caught;

/// The number of times that a successor is asked.
const ASKED: usize = 3;

/// The end of a drain: see [`RemoteActor::drain`](crate::RemoteActor::drain).
#[derive(Clone, Debug, Default)]
pub struct Until {
    pub(super) deadline: Option<Instant>,
    successor: Option<Arc<dyn AnySuccessor>>,
    /// True if a failed attempt ends the drain: its mailbox is due again after the pause.
    leaves_retries: bool,
}

/// An error: the budget is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTime;

impl fmt::Display for NoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the budget of a host must not be zero")
    }
}

impl std::error::Error for NoTime {}

impl Until {
    /// Drains until the mailbox is empty.
    pub fn empty() -> Self {
        Until::default()
    }

    /// Drains until the mailbox is empty, or an attempt has failed: for workers, which drain others
    /// meanwhile.
    pub(super) fn empty_or_failed() -> Self {
        Until { leaves_retries: true, ..Until::default() }
    }

    /// Drains for this time at most. A message is begun only if the rest of the time is at least
    /// the average duration of a message; the first one in any case.
    ///
    /// # Errors
    /// [`NoTime`] if the budget is zero: such a host would hand everything on for ever.
    pub fn within(budget: Duration) -> Result<Self, NoTime> {
        if budget.is_zero() {
            return Err(NoTime);
        }
        Ok(Until { deadline: Instant::now().checked_add(budget), ..Until::default() })
    }

    /// Asks another host to go on if messages are left when the time is over. Its acceptance is
    /// awaited while the mailbox is held, for one [lease](crate::ActorsBuilder::lease) at most.
    /// Handled messages are stored before. If it refuses three times, or does not answer in time,
    /// the actor is left to the [workers](crate::Actors::work).
    pub fn or_hand_to(mut self, successor: impl Successor) -> Self {
        self.successor = Some(Arc::new(successor));
        self
    }

    fn is_over(&self, mean: Duration) -> bool {
        self.deadline.is_some_and(|deadline| {
            Instant::now().checked_add(mean).is_none_or(|then| then > deadline)
        })
    }
}

/// Another host, which goes on when one has no time left: for example, another invocation of a
/// function.
///
/// Closures that return a future implement it.
pub trait Successor: Send + Sync + 'static {
    /// Takes over an actor by its id. The host drains it when this one has released it: a
    /// [drain](crate::RemoteActor::drain) with a deadline waits for that.
    ///
    /// # Errors
    /// The reason of a refusal.
    fn accept(&self, actor: &str) -> impl Future<Output = Result<(), String>> + Send;
}

impl<F, A> Successor for F
where
    F: Fn(String) -> A + Send + Sync + 'static,
    A: Future<Output = Result<(), String>> + Send,
{
    async fn accept(&self, actor: &str) -> Result<(), String> {
        self(actor.to_owned()).await
    }
}

type Accepted<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

trait AnySuccessor: Send + Sync {
    fn accept_any<'a>(&'a self, actor: &'a str) -> Accepted<'a>;
}

impl<T: Successor> AnySuccessor for T {
    fn accept_any<'a>(&'a self, actor: &'a str) -> Accepted<'a> {
        Box::pin(self.accept(actor))
    }
}

impl fmt::Debug for dyn AnySuccessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a successor")
    }
}

/// The result of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// The number of handled messages.
    pub handled: u64,
    /// The number of failed attempts.
    pub failed: u64,
    /// The number of messages left at the release.
    pub left: u64,
    /// True if a successor has accepted what is left.
    pub handed_over: bool,
    /// The last refusal of the successor, which has refused three times, or has not answered.
    pub refused: Option<String>,
    /// True if another client drains the actor, or the mailbox was lost to one.
    pub by_another: bool,
}

/// A hold of a mailbox, with the messages that were handed out.
pub(super) struct Held {
    client: Arc<Client>,
    shard: Shard,
    tenure: Arc<MailboxHold>,
    hand: Hand,
    /// The fence of the hold, and the number of its next step.
    fence: u64,
    number: u64,
    /// True if copies of its claim may be on their way.
    late: bool,
    /// True if a message of the hand may have begun.
    begun: bool,
    /// True once the mailbox is released or lost.
    over: bool,
    /// The end of the program waits for this.
    _under_way: UnderWay,
}

impl Held {
    pub(super) fn new(
        client: &Arc<Client>,
        shard: &Shard,
        tenure: Arc<MailboxHold>,
        hand: Hand,
        late: bool,
    ) -> Self {
        let (client, shard, under_way) =
            (client.clone(), shard.clone(), client.business.under_way());
        let fence = hand.fence;
        Held {
            client,
            shard,
            tenure,
            hand,
            fence,
            number: 1,
            late,
            begun: false,
            over: false,
            _under_way: under_way,
        }
    }

    /// Reports progress from the client's thread. Outcomes are delivered there, where notices of
    /// them arrive, so that waiters of this client find them.
    async fn advance(
        &mut self,
        done: &[(StoredMessage, Vec<u8>)],
        state: Option<Vec<u8>>,
        failed: Option<FailedAttempt>,
        keep: Duration,
        then: Then,
    ) -> Result<MailboxAnswer, MessageError> {
        let sent = Moment::now();
        let dead = failed.as_ref().filter(|failed| failed.again.is_none());
        let dead = dead.map(|failed| Progress::Dead { error: failed.error.clone() });
        let failing = self.hand.messages.get(done.len());
        let ended = done.iter().map(|(message, reply)| (message, Progress::Done(reply.clone())));
        let outcomes: Vec<_> = ended
            .chain(failing.zip(dead))
            .filter_map(|(message, outcome)| Some((message.asker.clone()?, outcome)))
            .collect();
        let act = MailboxAct::Advance(Advance {
            actor: self.tenure.actor.clone(),
            fence: self.fence,
            number: self.number,
            done: done.iter().map(|(_, reply)| reply.clone()).collect(),
            state,
            failed,
            keep,
            then,
        });
        let is_written =
            |answer: &_| matches!(answer, MailboxAnswer::Handed(_) | MailboxAnswer::LetGo { .. });
        let (client, shard) = (self.client.clone(), self.shard.clone());
        let step = async move {
            let answer = shard.step(&client, act, client.patience()).await.0;
            if answer.as_ref().is_ok_and(is_written) {
                outcomes.into_iter().for_each(|(asker, is)| client.outcome_is(&asker, is));
            }
            answer
        };
        let answer = self.client.reply(step).await??;
        if is_written(&answer) {
            self.number += 1;
            self.tenure.lasts(sent);
        }
        Ok(answer)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A late copy of the claim would hold the mailbox again, without a drainer.
        let tells = if self.over { self.late } else { !self.begun };
        if !tells {
            return;
        }
        let (client, shard) = (self.client.clone(), self.shard.clone());
        let (actor, token) = (self.tenure.actor.clone(), self.tenure.token.clone());
        self.client.spawn(async move { abandon(&client, &shard, actor, token).await });
    }
}

/// Releases a mailbox in which nothing was begun, and has late claims by the request refused.
pub(super) async fn abandon(client: &Arc<Client>, shard: &Shard, actor: String, token: Token) {
    let act = MailboxAct::Abandon { actor, token };
    // If the store does not receive it, the lease expires.
    let _ = shard.step(client, act, client.patience()).await;
}

/// Claims a mailbox.
pub(super) async fn claim<S>(
    client: &Arc<Client>,
    kind: &Kind<S>,
    actor: &str,
) -> Result<Result<Held, MailboxAnswer>, MessageError> {
    let (token, shard) = (client.token(), kind.shard(actor));
    let claim = kind.settings.claim(token.clone());
    let lease = claim.lease;
    let sent = Moment::now();
    let act = MailboxAct::Claim { actor: actor.to_owned(), claim };
    match shard.step(client, act, client.patience()).await {
        (Ok(MailboxAnswer::Handed(hand)), late) => {
            let tenure = MailboxHold::begin(client, shard, actor, token, lease, sent);
            Ok(Ok(Held::new(client, shard, tenure, hand, late)))
        }
        (Ok(answer), _) => Ok(Err(answer)),
        (Err(error), _) => {
            abandon(client, shard, actor.to_owned(), token).await;
            Err(error)
        }
    }
}

impl<S> Kind<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    /// Drains a held mailbox on the kind's executor.
    pub(super) fn drain(
        self: &Arc<Self>,
        held: Held,
        until: Until,
    ) -> Reply<Result<Drained, MessageError>> {
        let kind = self.clone();
        let drain = self.drains.spawn(());
        drain.run(async move |_: &mut ()| drain_held(&kind, held, until).await)
    }
}

async fn drain_held<S>(
    kind: &Arc<Kind<S>>,
    mut held: Held,
    until: Until,
) -> Result<Drained, MessageError>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    let settings = kind.settings;
    let mut drained = Drained::default();
    // The stored state, the state after the last message, and the actor that contains it.
    let mut stored = held.hand.state.take();
    let (mut state, mut local) = (stored.clone(), None::<Actor<S>>);
    loop {
        let mut messages = VecDeque::from(held.hand.messages.clone());
        let (mut done, mut failed, mut over) = (Vec::new(), None, false);
        // The error that prevents further messages, and what becomes of the mailbox.
        let mut stuck = None;
        let mut attempts = held.hand.attempts;
        while let Some(message) = messages.pop_front() {
            over = until.is_over(kind.mean()) && drained.handled + drained.failed > 0;
            if over || held.tenure.is_lost() {
                break;
            }
            if !kind.takes(&message.name) {
                let (StoredMessage { id, name, .. }, limit) = (message, settings.unknown);
                if let Some(pause) = kind.unknown.pause(&held.tenure.actor, &id, limit) {
                    let unknown = MessageError::UnknownMessage { id, message: name };
                    stuck = Some((unknown, Then::PutOff { pause }));
                } else {
                    let error = format!("no process has taken `{name}` within {limit:?}");
                    failed = Some(FailedAttempt { error, again: None });
                }
                break;
            }
            let is_new = local.is_none();
            let actor = match &local {
                Some(actor) => actor,
                None => match read(state.as_deref()) {
                    Ok(state) => local.insert(kind.actors.spawn(state)),
                    Err(error) => {
                        stuck = Some((error, Then::LetGo { after: settings.lease }));
                        break;
                    }
                },
            };
            let began = Instant::now();
            held.begun = true;
            let ran = attempt(kind, actor, &message).await;
            kind.took(began.elapsed());
            match ran {
                Ok((reply, after)) => {
                    (state, attempts) = (Some(after), 0);
                    done.push((message, reply));
                    drained.handled += 1;
                }
                Err(NotDone::NotRun) if !is_new => {
                    // A message beside the mailbox has ended this local actor since the last one.
                    local = None;
                    messages.push_front(message);
                }
                Err(NotDone::NotRun) => {
                    let gone = MessageError::ExecutorGone;
                    stuck = Some((gone, Then::LetGo { after: Duration::ZERO }));
                    break;
                }
                Err(NotDone::Failed(error)) => {
                    failed = Some(FailedAttempt { error, again: settings.again(attempts + 1) });
                    break;
                }
                Err(NotDone::Poison(error)) => {
                    failed = Some(FailedAttempt { error, again: None });
                    break;
                }
            }
        }
        if failed.is_some() {
            drained.failed += 1;
            // The local actor is dropped with whatever the attempt has left of its state.
            local = None;
        }
        let mut then = Then::Next { most: settings.most(), lease: settings.lease };
        let successor = until.successor.as_deref().filter(|_| over);
        if over {
            then = match successor {
                // What was handled is stored, however long the successor takes.
                Some(_) => Then::Next { most: 0, lease: settings.lease },
                None => Then::LetGo { after: Duration::ZERO },
            };
        } else if let Some((_, releases)) = &stuck {
            then = *releases;
        }
        let changed = if state == stored { None } else { state.clone() };
        let last = held.hand.messages.last().map(|message| message.id.clone());
        let again = failed.as_ref().is_some_and(|failed| failed.again.is_some());
        let advanced = held.advance(&done, changed, failed, settings.keep, then).await;
        let advanced = match (advanced, successor) {
            (Ok(MailboxAnswer::Handed(hand)), Some(successor)) => {
                (held.hand, held.begun) = (hand, false);
                done.clear();
                hand_over(&settings, &mut held, successor, &mut drained).await
            }
            (advanced, _) => advanced,
        };
        let answer = match advanced {
            Ok(answer) => answer,
            Err(error) => {
                // The mailbox is held until the lease is over, and no other process may know of it.
                watch_for(kind, &held.client, &held.tenure.actor, last);
                return Err(error);
            }
        };
        stored.clone_from(&state);
        held.begun = false;
        match answer {
            MailboxAnswer::Handed(hand) => held.hand = hand,
            MailboxAnswer::LetGo { left, wait } => {
                held.over = true;
                drained.left = left;
                if let Some((error, _)) = stuck {
                    if matches!(error, MessageError::UnknownMessage { .. }) {
                        // The processes that take it may be gone when its turn is over.
                        watch_for(kind, &held.client, &held.tenure.actor, last);
                    }
                    return Err(error);
                }
                // The next attempt, after its pause, can be made by this process.
                let waits = again || !wait.is_zero();
                if !waits || until.deadline.is_some() || until.leaves_retries {
                    return Ok(drained);
                }
                drop(local.take());
                let (client, actor) = (held.client.clone(), held.tenure.actor.clone());
                drop(held);
                match claim_later(client, kind, &actor, wait, last).await? {
                    Some(again) => held = again,
                    None => return Ok(drained),
                }
                stored = held.hand.state.take();
                state.clone_from(&stored);
            }
            _ => {
                held.over = true;
                drained.by_another = true;
                // Nothing of this step was written: another drainer handles them.
                drained.handled -= done.len() as u64;
                return Ok(drained);
            }
        }
    }
}

/// Asks the successor to go on with a mailbox, and releases it.
async fn hand_over(
    settings: &KindSettings,
    held: &mut Held,
    successor: &dyn AnySuccessor,
    drained: &mut Drained,
) -> Result<MailboxAnswer, MessageError> {
    let limit = settings.lease;
    let accepted = ask(&held.client, successor, &held.tenure.actor, limit).await;
    drained.handed_over = accepted.is_ok();
    drained.refused = accepted.err();
    // Workers check later, if a successor has accepted it.
    let after = if drained.handed_over { settings.lease } else { Duration::ZERO };
    held.advance(&[], None, None, settings.keep, Then::LetGo { after }).await
}

/// Watches a mailbox that this process may have to drain again, if senders drain its kind.
fn watch_for<S>(kind: &Arc<Kind<S>>, client: &Arc<Client>, actor: &str, last: Option<String>)
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    if let (Some(last), true) = (last, kind.settings.drains != Drains::Never) {
        // So that it is found one and a half leases after a death.
        ask::watch(client, kind, actor, last, kind.settings.lease / 2);
    }
}

/// Claims a mailbox again after this time. Returns `None` if the program has dropped the client by
/// then, or another client drains the mailbox.
async fn claim_later<S>(
    client: Arc<Client>,
    kind: &Arc<Kind<S>>,
    actor: &str,
    wait: Duration,
    last: Option<String>,
) -> Result<Option<Held>, MessageError>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    let (promise, reply) = promise();
    let (io, kind, actor) = (client.io.clone(), kind.clone(), actor.to_owned());
    // The client may be dropped meanwhile.
    let waiting = Arc::downgrade(&client);
    drop(client);
    io.spawn(async move {
        sleep_until(after(wait)).await;
        let Some(client) = waiting.upgrade() else { return };
        let claimed = claim(&client, &kind, &actor).await;
        if !matches!(claimed, Ok(Ok(_))) {
            watch_for(&kind, &client, &actor, last);
        }
        promise.keep(claimed);
    });
    match reply.await {
        Ok(claimed) => Ok(claimed?.ok()),
        Err(_) => Ok(None),
    }
}

fn read<S: DeserializeOwned + Default>(state: Option<&[u8]>) -> Result<S, MessageError> {
    let read = || state.map_or_else(|| Ok(S::default()), serde_json::from_slice);
    converted(read).map_err(MessageError::State)
}

/// Runs a message, and serializes the state that it leaves.
async fn attempt<S: Serialize + Send + 'static>(
    kind: &Kind<S>,
    actor: &Actor<S>,
    message: &StoredMessage,
) -> Result<(Vec<u8>, Vec<u8>), NotDone> {
    let running = kind.run(actor, &message.name, &message.body);
    // Directly behind the message, so that one drain runs both.
    let written = actor.call(|state: &mut S| serde_json::to_vec(state));
    let reply = running.await?;
    // The handler has run, so an error now is a failure of its attempt.
    let failed = |error: &dyn fmt::Display| NotDone::Failed(format!("its state: {error}"));
    let state = written.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Ok((reply, state))
}

/// Asks a successor, three times and for this time at most. A panic is a refusal, unless it is that
/// of a future that has answered.
async fn ask(
    client: &Client,
    successor: &dyn AnySuccessor,
    actor: &str,
    limit: Duration,
) -> Result<(), String> {
    let mut over = {
        let _timers = client.io.enter();
        Box::pin(sleep_until(after(limit)))
    };
    let mut refused = String::new();
    for _ in 0..ASKED {
        let mut accepts = match caught(|| successor.accept_any(actor)) {
            Ok(accepts) => accepts,
            Err(panic) => {
                refused = panicked(&panic);
                continue;
            }
        };
        let answer = poll_fn(|cx| match caught(|| accepts.as_mut().poll(cx)) {
            Ok(Poll::Ready(answer)) => Poll::Ready(Some(answer)),
            Ok(Poll::Pending) => over.as_mut().poll(cx).map(|()| None),
            Err(panic) => Poll::Ready(Some(Err(panicked(&panic)))),
        });
        let answer = answer.await;
        let _ = caught(|| drop(accepts));
        match answer {
            Some(Ok(())) => return Ok(()),
            Some(Err(why)) => refused = why,
            None => return Err(format!("it did not answer within {limit:?}")),
        }
    }
    Err(refused)
}
