//! Messages that are sent to an actor, and the wait for their outcomes.

use std::collections::hash_map::Entry;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};
use turnwise::{Promise, Reply, promise};

use super::Actors;
use super::drain::{self, Held, Until};
use super::error::MessageError;
use super::inbox::{Inbox, MailboxHold};
use super::kind::{Drains, Kind, SHORTEST_KEPT, Watched};
use crate::client::Client;
use crate::name;
use crate::step::{MailboxAct, MailboxAnswer, Progress, StoredMessage, Token};
use crate::time::{LONGEST, Moment, SHORTEST, after};

/// A boxed future.
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The time at which a message arrives in its mailbox, as its sender states it.
#[derive(Clone, Copy)]
enum Arrival {
    After(Duration),
    At(SystemTime),
}

impl Arrival {
    fn delay(self) -> Duration {
        match self {
            Arrival::After(delay) => delay.min(LONGEST),
            Arrival::At(time) => {
                let delay = time.duration_since(SystemTime::now());
                delay.unwrap_or_default().min(LONGEST)
            }
        }
    }
}

/// A message before it is sent.
struct Prepared<S> {
    actors: Actors<S>,
    actor: String,
    name: String,
    body: Vec<u8>,
    id: Option<String>,
}

impl<S> Prepared<S> {
    fn new<M: Serialize + 'static>(
        actors: &Actors<S>,
        actor: &str,
        message: &M,
    ) -> Result<Self, MessageError> {
        let written = actors.kind.write(message)?;
        let (name, body) = (written.name, written.body);
        Ok(Prepared { actors: actors.clone(), actor: actor.to_owned(), name, body, id: None })
    }

    fn message(&mut self, asker: Option<&Token>) -> Result<StoredMessage, MessageError> {
        let id = match self.id.take() {
            Some(id) => id,
            None => self.actors.client.token().as_str().to_owned(),
        };
        name::check(&id)?;
        let (name, body) = (std::mem::take(&mut self.name), std::mem::take(&mut self.body));
        Ok(StoredMessage { id, name, body, asker: asker.cloned() })
    }
}

/// A message to be stored: see [`RemoteActor::tell`](crate::RemoteActor::tell). It is sent when it
/// is awaited or [waited](Self::wait) for.
#[must_use = "nothing is sent before it is awaited or waited for"]
pub struct Tell<S> {
    prepared: Result<Prepared<S>, MessageError>,
    arrival: Arrival,
}

impl<S> Tell<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    pub(super) fn new<M: Serialize + 'static>(
        actors: &Actors<S>,
        actor: &str,
        message: &M,
    ) -> Self {
        let prepared = Prepared::new(actors, actor, message);
        Tell { prepared, arrival: Arrival::After(Duration::ZERO) }
    }

    /// Delays the message by this time from when the store receives it. It is stored at once, with
    /// the guarantees of any other: its id is known, it can be
    /// [withdrawn](crate::RemoteActor::withdraw), and [`outcome`](crate::RemoteActor::outcome)
    /// returns how long it is delayed.
    ///
    /// When its time has come it arrives in its mailbox, behind the messages that are there. It is
    /// drained by [workers](crate::Actors::work), by any process that sends to the actor, and,
    /// unless the kind is [never](crate::Drains::Never) drained by senders, by this process as long
    /// as that keeps the kind.
    ///
    /// # Examples
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use turnwise::{Context, Handler};
    /// use std::time::Duration;
    /// use turnwise_redis::{Outcome, Remote};
    /// # #[derive(Default, Serialize, Deserialize)]
    /// # struct Mails(u64);
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Remind;
    /// # impl Handler<Remind> for Mails {
    /// #     type Reply = u64;
    /// #     fn handle(&mut self, _: Remind, _: &mut Context<'_, Self>) -> u64 {
    /// #         self.0 += 1;
    /// #         self.0
    /// #     }
    /// # }
    ///
    /// let mails = Remote::in_memory().actors::<Mails>("mail").message::<Remind>("remind").open()?;
    /// let ada = mails.of("ada")?;
    /// let id = ada.tell(Remind).after(Duration::from_secs(3600)).wait()?;
    /// assert!(matches!(ada.outcome::<u64>(&id).wait()??, Outcome::Delayed { .. }));
    /// assert_eq!(ada.withdraw::<u64>(&id).wait()??, Outcome::Withdrawn);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after(self, delay: Duration) -> Self {
        Tell { arrival: Arrival::After(delay), ..self }
    }

    /// Delays the message until this time, as [`after`](Self::after) does. The time until then is
    /// counted by this machine's clock when it is sent, and by the store's clock from then on. A
    /// time that has passed is no delay.
    pub fn at(self, time: SystemTime) -> Self {
        Tell { arrival: Arrival::At(time), ..self }
    }

    /// Sets the message's id. A second message of the id is not stored, while the first one waits,
    /// and for the time that its outcome is [kept](crate::ActorsBuilder::keep_outcomes), whatever
    /// that is: also if the first one was withdrawn, or is a dead letter. That is no error;
    /// [`outcome`](crate::RemoteActor::outcome) returns what it is.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        if let Ok(prepared) = &mut self.prepared {
            prepared.id = Some(id.into());
        }
        self
    }

    /// Sends it. This call does not wait; the reply does. Dropping the reply does not withdraw the
    /// message.
    pub fn send(self) -> Reply<Result<String, MessageError>> {
        let (promise, reply) = promise();
        let mut prepared = match self.prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                promise.keep(Err(error));
                return reply;
            }
        };
        let message = match prepared.message(None) {
            Ok(message) => message,
            Err(error) => {
                promise.keep(Err(error));
                return reply;
            }
        };
        let (client, kind) = (Arc::clone(&prepared.actors.client), prepared.actors.kind.clone());
        let delay = self.arrival.delay();
        prepared.actors.client.spawn(async move {
            let (id, patience) = (message.id.clone(), client.patience());
            let pushed = push(&client, &kind, &prepared.actor, message, delay, patience).await;
            promise.keep(pushed.map(|_| id));
        });
        reply
    }

    /// Sends it, waits until it is stored, and returns its id. May block, for the client's
    /// [patience](crate::RemoteBuilder::give_up_after) at most.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn wait(self) -> Result<String, MessageError> {
        self.send().wait()?
    }
}

impl<S> IntoFuture for Tell<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    type Output = Result<String, MessageError>;
    type IntoFuture = Boxed<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let reply = self.send();
        Box::pin(async move { reply.await? })
    }
}

impl<S> fmt::Debug for Tell<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tell").finish_non_exhaustive()
    }
}

/// A request to be sent: see [`RemoteActor::ask`](crate::RemoteActor::ask). It is sent when it is
/// awaited or [waited](Self::wait) for.
#[must_use = "nothing is sent before it is awaited or waited for"]
pub struct Ask<S, R> {
    prepared: Result<Prepared<S>, MessageError>,
    limit: Option<Duration>,
    reply: PhantomData<fn() -> R>,
}

impl<S, R> Ask<S, R>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
    R: DeserializeOwned,
{
    pub(super) fn new<M: Serialize + 'static>(
        actors: &Actors<S>,
        actor: &str,
        message: &M,
    ) -> Self {
        let prepared = Prepared::new(actors, actor, message);
        Ask { prepared, limit: None, reply: PhantomData }
    }

    /// Sets the message's id. A second request of the id gets the reply to the first one.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        if let Ok(prepared) = &mut self.prepared {
            prepared.id = Some(id.into());
        }
        self
    }

    /// Sets a limit, after which the message is withdrawn, and certainly never runs. If it may have
    /// begun, or another request has sent the message of this id, the request fails with
    /// [`MessageError::Running`].
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sends it. This call does not wait; the returned future does.
    pub fn send(self) -> Asked<R> {
        let (promise, reply) = promise();
        let asked = Asked { reply: Some(reply), read: PhantomData };
        let mut prepared = match self.prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                promise.keep(Err(error));
                return asked;
            }
        };
        let client = Arc::clone(&prepared.actors.client);
        let inbox = Inbox::open(&client, client.token());
        let message = match prepared.message(Some(inbox.token())) {
            Ok(message) => message,
            Err(error) => {
                promise.keep(Err(error));
                return asked;
            }
        };
        let (kind, called) = (prepared.actors.kind.clone(), Instant::now());
        let until = self.limit.map(|limit| called + limit.min(LONGEST));
        prepared.actors.client.spawn(async move {
            let actor = prepared.actor;
            let question = Question { client, kind, actor, message, inbox };
            let answer = question.ask(called, until, &promise).await;
            promise.keep(answer);
        });
        asked
    }

    /// Sends it, and waits for the reply. May block, for its [limit](Self::within), and without one
    /// until the reply comes.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn wait(self) -> Result<R, MessageError> {
        self.send().wait()
    }
}

impl<S, R> IntoFuture for Ask<S, R>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
    R: DeserializeOwned,
{
    type Output = Result<R, MessageError>;
    type IntoFuture = Asked<R>;

    fn into_future(self) -> Asked<R> {
        self.send()
    }
}

impl<S, R> fmt::Debug for Ask<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// A request that was sent: a future for any runtime, which can also be [waited](Self::wait) for.
/// Dropping it does not withdraw the message.
#[must_use = "the reply comes when it is awaited or waited for"]
pub struct Asked<R> {
    /// `Some` until it is waited for.
    reply: Option<Reply<Answered>>,
    read: PhantomData<fn() -> R>,
}

/// The serialized reply.
type Answered = Result<Vec<u8>, MessageError>;

impl<R: DeserializeOwned> Asked<R> {
    /// Waits for the reply. May block.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn wait(mut self) -> Result<R, MessageError> {
        let reply = self.reply.take().ok_or(MessageError::Closed)?;
        read(&reply.wait()??)
    }

    /// True if the reply has come. Wait-free.
    pub fn is_ready(&self) -> bool {
        self.reply.as_ref().is_some_and(Reply::is_ready)
    }
}

impl<R> Drop for Asked<R> {
    fn drop(&mut self) {
        // The client waits for an answer no more, and may end.
        drop(self.reply.take().map(Reply::cancel));
    }
}

fn read<R: DeserializeOwned>(reply: &[u8]) -> Result<R, MessageError> {
    serde_json::from_slice(reply).map_err(|error| MessageError::Decode(error.to_string()))
}

impl<R: DeserializeOwned> Future for Asked<R> {
    type Output = Result<R, MessageError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(reply) = &mut self.reply else {
            return Poll::Ready(Err(MessageError::Closed));
        };
        let reply = std::task::ready!(Pin::new(reply).poll(cx));
        Poll::Ready(reply?.and_then(|reply| read(&reply)))
    }
}

impl<R> Unpin for Asked<R> {}

impl<R> fmt::Debug for Asked<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = self.reply.as_ref().is_some_and(Reply::is_ready);
        f.debug_struct("Asked").field("ready", &ready).finish_non_exhaustive()
    }
}

/// Stores a message, and starts a drain if the mailbox has none and senders drain its kind. Returns
/// the progress of a message whose id was known before.
async fn push<S>(
    client: &Arc<Client>,
    kind: &Arc<Kind<S>>,
    actor: &str,
    message: StoredMessage,
    delay: Duration,
    until: Instant,
) -> Result<Option<Progress>, MessageError>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    let (shard, token) = (kind.shard(actor), client.token());
    let claims = delay.is_zero() && kind.claims_at_once();
    let claim = claims.then(|| kind.settings.claim(token.clone()));
    let (id, sent) = (message.id.clone(), Moment::now());
    let act = MailboxAct::Push { actor: actor.to_owned(), message, delay, claim };
    // A copy that arrived after the outcome was forgotten would be another message. Its drainer may
    // keep outcomes for less time than this process.
    let until = until.min(after(SHORTEST_KEPT / 2));
    match shard.step(client, act, until).await.0 {
        Ok(MailboxAnswer::Handed(hand)) => {
            kind.was_free(true);
            let lease = kind.settings.lease;
            let tenure = MailboxHold::begin(client, shard, actor, token, lease, sent);
            let held = Held::new(client, shard, tenure, hand, false);
            drop(kind.drain(held, Until::empty()));
            Ok(None)
        }
        Ok(MailboxAnswer::Pushed { ahead, busy }) => {
            let progress = if delay.is_zero() {
                kind.was_free(busy.is_zero());
                Progress::Waiting { ahead, busy }
            } else {
                Progress::Delayed { left: delay }
            };
            if kind.settings.drains != Drains::Never {
                drains(client, kind, actor, id, &progress);
            }
            Ok(None)
        }
        Ok(MailboxAnswer::Known(progress)) => {
            // Its sender may be gone, or the answer to an earlier copy was lost.
            if kind.settings.drains != Drains::Never {
                drains(client, kind, actor, id, &progress);
            }
            Ok(Some(progress))
        }
        Ok(_) => Err(MessageError::Closed),
        Err(error) => {
            // A late copy of the push must not claim the mailbox.
            if claims {
                let (client, shard, actor) = (client.clone(), shard.clone(), actor.to_owned());
                let io = client.clone();
                io.spawn(async move { drain::abandon(&client, &shard, actor, token).await });
            }
            Err(error)
        }
    }
}

/// Drains the mailbox of a message that is known: now, later, or if its drainer dies.
fn drains<S>(
    client: &Arc<Client>,
    kind: &Arc<Kind<S>>,
    actor: &str,
    id: String,
    progress: &Progress,
) where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    match progress {
        Progress::Waiting { busy: Duration::ZERO, .. } => drain_if_free(client, kind, actor, id),
        Progress::Waiting { busy, .. } | Progress::Running { busy, .. } => {
            watch(client, kind, actor, id, *busy);
        }
        Progress::Delayed { left } => drain_later(client, kind, actor, id, *left),
        _ => {}
    }
}

/// Starts a drain of the mailbox of a message, which had no drainer. It is looked at again if
/// another process has claimed it meanwhile.
fn drain_if_free<S>(client: &Arc<Client>, kind: &Arc<Kind<S>>, actor: &str, id: String)
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    let (client, kind, actor) = (client.clone(), kind.clone(), actor.to_owned());
    let io = client.io.clone();
    io.spawn(async move {
        if let Some(busy) = drain_now(&client, &kind, &actor).await {
            watch(&client, &kind, &actor, id, busy);
        }
    });
}

/// Claims a mailbox, and starts its drain. Returns for how long another process has it.
async fn drain_now<S>(client: &Arc<Client>, kind: &Arc<Kind<S>>, actor: &str) -> Option<Duration>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    match drain::claim(client, kind, actor).await {
        Ok(Ok(held)) => drop(kind.drain(held, Until::empty())),
        Ok(Err(MailboxAnswer::Busy { left })) => return Some(left),
        _ => {}
    }
    None
}

/// Starts a drain when a delayed message has arrived, if the program keeps its kind until then.
fn drain_later<S>(
    client: &Arc<Client>,
    kind: &Arc<Kind<S>>,
    actor: &str,
    id: String,
    mut delay: Duration,
) where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    let (io, actor) = (client.io.clone(), actor.to_owned());
    let (client, kind) = (Arc::downgrade(client), Arc::downgrade(kind));
    io.spawn(async move {
        loop {
            sleep_until(after(delay)).await;
            let (Some(client), Some(kind)) = (client.upgrade(), kind.upgrade()) else { return };
            let act = MailboxAct::Outcome { actor: actor.clone(), message: id.clone() };
            match kind.shard(&actor).step(&client, act, client.patience()).await.0 {
                // The store's clock is behind, or was.
                Ok(MailboxAnswer::Progress(Progress::Delayed { left })) => delay = left,
                Ok(MailboxAnswer::Progress(progress)) => {
                    return drains(&client, &kind, &actor, id, &progress);
                }
                // The store does not answer.
                Err(MessageError::Store(_)) => delay = kind.settings.lease,
                _ => return,
            }
        }
    });
}

/// Drains a mailbox that is busy for this time, unless its drainer goes on, or another one takes it
/// then. It is looked at whenever it may be free, while the last message that this process has sent
/// to it waits.
pub(super) fn watch<S>(
    client: &Arc<Client>,
    kind: &Arc<Kind<S>>,
    actor: &str,
    id: String,
    busy: Duration,
) where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    let mut at = after(busy.saturating_add(SHORTEST));
    match kind.watched().entry(actor.to_owned()) {
        Entry::Occupied(mut watched) if watched.get().at <= at => {
            watched.get_mut().id = id;
            return;
        }
        entry => drop(entry.insert_entry(Watched { id, at })),
    }
    let (io, actor) = (client.io.clone(), actor.to_owned());
    let (client, kind) = (Arc::downgrade(client), Arc::downgrade(kind));
    io.spawn(async move {
        loop {
            sleep_until(at).await;
            let (Some(client), Some(kind)) = (client.upgrade(), kind.upgrade()) else { return };
            let is_ours = |watched: &Watched| (watched.at == at).then(|| watched.id.clone());
            // An earlier look may have taken its place.
            let Some(id) = kind.watched().get(&actor).and_then(is_ours) else { return };
            let act = MailboxAct::Outcome { actor: actor.clone(), message: id.clone() };
            let lease = kind.settings.lease;
            let busy = match kind.shard(&actor).step(&client, act, client.patience()).await.0 {
                Ok(MailboxAnswer::Progress(
                    Progress::Waiting { busy, .. } | Progress::Running { busy, .. },
                )) => match busy.is_zero() {
                    true => drain_now(&client, &kind, &actor).await.or(Some(lease)),
                    false => Some(busy),
                },
                Err(MessageError::Store(_)) => Some(lease),
                _ => None,
            };
            let mut all = kind.watched();
            let Some(watched) = all.get_mut(&actor).filter(|watched| watched.at == at) else {
                return;
            };
            if busy.is_none() && watched.id == id {
                all.remove(&actor);
                return;
            }
            at = after(busy.unwrap_or_default().saturating_add(SHORTEST));
            watched.at = at;
        }
    });
}

/// A request, until its reply comes.
struct Question<S> {
    client: Arc<Client>,
    kind: Arc<Kind<S>>,
    actor: String,
    message: StoredMessage,
    inbox: Inbox,
}

impl<S> Question<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    async fn ask(
        mut self,
        called: Instant,
        until: Option<Instant>,
        asked: &Promise<Answered>,
    ) -> Answered {
        let patience = self.client.patience();
        let given_up = until.map_or(patience, |until| until.min(patience));
        let id = self.message.id.clone();
        let message = self.message.clone();
        let pushed =
            push(&self.client, &self.kind, &self.actor, message, Duration::ZERO, given_up).await;
        match pushed {
            Ok(None) => {}
            Ok(Some(progress)) => {
                if let Some(over) = over(progress) {
                    return over;
                }
            }
            // The message may have arrived, or may still arrive.
            Err(error) => return self.withdraw(&id, true, called, error).await,
        }
        // The time until the next look without a notice.
        let third = self.client.place() / 3;
        let mut pause = third;
        loop {
            let look = after(pause);
            self.inbox.changed(until.map_or(look, |until| until.min(look))).await;
            // A drain of this client may have the outcome whose notice came just before: once for
            // the task that reads its answer, and once for the one that delivers the outcome.
            yield_now().await;
            yield_now().await;
            if let Some(outcome) = self.inbox.outcome() {
                return over(outcome).unwrap_or(Err(MessageError::Forgotten));
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                let waited = called.elapsed();
                let late = MessageError::TimedOut { waited };
                return self.withdraw(&id, false, called, late).await;
            }
            if until.is_none() && asked.is_cancelled() {
                // It is a message without an asker from now on.
                if self.kind.settings.drains != Drains::Never {
                    let busy = self.kind.settings.lease / 2;
                    watch(&self.client, &self.kind, &self.actor, id, busy);
                }
                return Err(MessageError::Closed);
            }
            self.inbox.mark_read();
            let act = MailboxAct::Outcome { actor: self.actor.clone(), message: id.clone() };
            let patience = self.client.patience();
            let end = until.map_or(patience, |until| until.min(patience));
            let shard = self.kind.shard(&self.actor);
            let progress = match shard.step(&self.client, act, end).await.0 {
                Ok(MailboxAnswer::Progress(progress)) => progress,
                Ok(_) => return Err(MessageError::Closed),
                // At its limit it is withdrawn.
                Err(MessageError::Store(_)) if end < patience => continue,
                Err(error) => return Err(error),
            };
            let busy = match &progress {
                Progress::Waiting { busy, .. } | Progress::Running { busy, .. } => *busy,
                Progress::Delayed { left } => *left,
                _ => Duration::ZERO,
            };
            if let Some(over) = over(progress) {
                return over;
            }
            if busy.is_zero() && self.kind.settings.drains != Drains::Never {
                // Its drainer is gone, or has released the mailbox.
                drain_if_free(&self.client, &self.kind, &self.actor, id.clone());
            }
            pause = third.min(busy.max(SHORTEST * 10).saturating_add(SHORTEST));
        }
    }

    /// Withdraws the message for this reason, unless it may have begun. One of the same id that
    /// another request has sent is left as it is.
    async fn withdraw(
        &self,
        id: &str,
        late: bool,
        called: Instant,
        why: MessageError,
    ) -> Result<Vec<u8>, MessageError> {
        let act = MailboxAct::Revoke {
            actor: self.actor.clone(),
            message: id.to_owned(),
            asker: self.inbox.token().clone(),
            late,
            keep: self.kind.settings.keep,
        };
        let shard = self.kind.shard(&self.actor);
        match shard.step(&self.client, act, after(self.client.place())).await.0 {
            Ok(MailboxAnswer::Progress(Progress::Withdrawn)) if !late => Err(why),
            Ok(MailboxAnswer::Progress(Progress::Withdrawn)) => {
                Err(MessageError::TimedOut { waited: called.elapsed() })
            }
            Ok(MailboxAnswer::Progress(progress)) => {
                over(progress).unwrap_or_else(|| Err(MessageError::Running { id: id.to_owned() }))
            }
            Ok(_) => Err(why),
            Err(_) if late => Err(why),
            Err(_) => Err(MessageError::Running { id: id.to_owned() }),
        }
    }
}

/// Converts a final progress into the result of the request.
fn over(progress: Progress) -> Option<Result<Vec<u8>, MessageError>> {
    Some(match progress {
        Progress::Delayed { .. } | Progress::Waiting { .. } | Progress::Running { .. } => {
            return None;
        }
        Progress::Done(reply) => Ok(reply),
        Progress::Dead { error } => Err(MessageError::Dead { error }),
        Progress::Withdrawn => Err(MessageError::Withdrawn),
        _ => Err(MessageError::Forgotten),
    })
}
