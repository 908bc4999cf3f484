//! A kind of actors: its messages, how each is run, and what it was opened with.

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turnwise::{Actor, AskError, AsyncHandler, Executor, Handler, Spawner, ThreadPool};

use super::error::{ActorsError, MessageError};
use super::inbox::Shard;
use crate::client::Owned;
use crate::name;
use crate::step::{DrainClaim, Token};
use crate::time::SHORTEST;

/// The longest message, in bytes.
const LONGEST_MESSAGE: usize = 1 << 20;

/// The most shards.
const MOST_SHARDS: u32 = 1024;

/// The most messages that a drain takes at a time.
const MOST_AT_ONCE: u32 = 256;

/// Outcomes are kept at least so long: copies of a message may come that much later.
const SHORTEST_KEPT: Duration = Duration::from_secs(60);

/// The longest pause before an attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// What an attempt has come to: the reply, in bytes, or why there is none.
pub(super) type Ran = Result<Vec<u8>, NotDone>;

/// Why an attempt has no reply.
pub(super) enum NotDone {
    /// It has failed, and is tried again.
    Failed(String),
    /// It can never succeed.
    Poison(String),
    /// It has certainly not begun, and cannot: its executor has ended.
    NotRun,
}

impl From<AskError> for NotDone {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(..) => NotDone::NotRun,
            error => NotDone::Failed(error.to_string()),
        }
    }
}

/// A reply that may be an error: a `Result`.
pub trait Fallible {
    /// The error's text, if it is one.
    fn error(&self) -> Option<String>;
}

impl<T, E: fmt::Display> Fallible for Result<T, E> {
    fn error(&self) -> Option<String> {
        self.as_ref().err().map(ToString::to_string)
    }
}

type Running = Pin<Box<dyn Future<Output = Ran> + Send>>;
type Run<S> = Box<dyn Fn(&Actor<S>, &[u8]) -> Running + Send + Sync>;

/// When a sender drains the mailbox in which it leaves a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drains {
    /// Never: messages wait for [workers](crate::Actors::work), or for a
    /// [drain](crate::RemoteActor::drain).
    Never,
    /// If nobody does. The step that leaves the message claims the mailbox: right where senders
    /// seldom meet.
    IfFree,
    /// If nobody does. The step that leaves the message claims the mailbox where that has mostly
    /// succeeded lately. Where senders meet, it looks only, and a second step claims: such a step
    /// brings no state with it.
    #[default]
    Measured,
}

/// How actors of a kind are made: [`Remote::actors`](crate::Remote::actors).
#[must_use = "a builder makes nothing until it is opened"]
pub struct ActorsBuilder<S> {
    client: Owned,
    name: String,
    names: HashMap<TypeId, String>,
    runs: HashMap<String, Run<S>>,
    twice: Option<ActorsError>,
    settings: Settings,
    shards: u32,
    executor: Option<Arc<dyn Executor>>,
}

#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) attempts: u32,
    pub(super) pause: Duration,
    pub(super) keep: Duration,
    pub(super) lease: Duration,
    most: u32,
    pub(super) drains: Drains,
}

impl Settings {
    /// When an attempt is made again after as many have failed. None: never.
    pub(super) fn again(&self, failed: u32) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let doubled = 1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX);
        Some(self.pause.saturating_mul(doubled).min(LONGEST_PAUSE))
    }

    /// How many messages are handed out at a time. Of several a dead drainer may have begun all,
    /// and with one attempt none of them may begin again.
    pub(super) fn most(&self) -> u32 {
        if self.attempts == 1 { 1 } else { self.most }
    }

    pub(super) fn claim(&self, token: Token) -> DrainClaim {
        DrainClaim {
            token,
            lease: self.lease,
            most: self.most(),
            attempts: self.attempts,
            keep: self.keep,
        }
    }
}

/// A kind of actors, as its client knows it.
pub(super) struct Kind<S> {
    pub(super) name: String,
    pub(super) shards: Vec<Shard>,
    names: HashMap<TypeId, String>,
    runs: HashMap<String, Run<S>>,
    pub(super) settings: Settings,
    /// The actors that run messages here.
    pub(super) actors: Spawner<S>,
    /// Each drain is a turn of one of these.
    pub(super) drains: Spawner<()>,
    /// How long a turn takes, in microseconds: a moving average.
    mean: AtomicU64,
    /// How many of 1,024 claims with a push have succeeded lately.
    hits: AtomicU64,
}

impl<S> ActorsBuilder<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    pub(crate) fn new(client: Owned, name: &str) -> Self {
        let settings = Settings {
            attempts: 3,
            pause: Duration::from_secs(1),
            keep: Duration::from_secs(600),
            lease: client.lease(),
            most: 64,
            drains: Drains::Measured,
        };
        ActorsBuilder {
            client,
            name: name.to_owned(),
            names: HashMap::new(),
            runs: HashMap::new(),
            twice: None,
            settings,
            shards: 1,
            executor: None,
        }
    }

    /// It takes messages of this type, which are stored under this name. An attempt fails if the
    /// handler panics.
    pub fn message<M>(self, name: &str) -> Self
    where
        S: Handler<M, Reply: Serialize>,
        M: DeserializeOwned + Send + 'static,
    {
        self.runs::<M>(name, |actor, message| {
            let asked = actor.ask(message);
            Box::pin(async move { encoded(&asked.await?) })
        })
    }

    /// As [`message`](Self::message), of handlers whose reply is a `Result`: an attempt fails if
    /// that is an error, too.
    pub fn try_message<M>(self, name: &str) -> Self
    where
        S: Handler<M, Reply: Fallible + Serialize>,
        M: DeserializeOwned + Send + 'static,
    {
        self.runs::<M>(name, |actor, message| {
            let asked = actor.ask(message);
            Box::pin(async move {
                let reply = asked.await?;
                match reply.error() {
                    Some(error) => Err(NotDone::Failed(error)),
                    None => encoded(&reply),
                }
            })
        })
    }

    /// As [`message`](Self::message), of handlers that wait.
    pub fn async_message<M>(self, name: &str) -> Self
    where
        S: AsyncHandler<M, Reply: Serialize>,
        M: DeserializeOwned + Send + 'static,
    {
        self.runs::<M>(name, |actor, message| {
            let asked = actor.ask_async(message);
            Box::pin(async move { encoded(&asked.await?) })
        })
    }

    fn runs<M>(mut self, name: &str, run: fn(&Actor<S>, M) -> Running) -> Self
    where
        M: DeserializeOwned + Send + 'static,
    {
        let run: Run<S> = Box::new(move |actor, body| match serde_json::from_slice(body) {
            Ok(message) => run(actor, message),
            Err(error) => {
                let poison = format!("it cannot be read: {error}");
                Box::pin(async move { Err(NotDone::Poison(poison)) })
            }
        });
        if let Err(error) = name::check(name) {
            self.twice.get_or_insert(error.into());
        }
        if self.names.insert(TypeId::of::<M>(), name.to_owned()).is_some() {
            self.twice.get_or_insert(ActorsError::MessageTwice(name.to_owned()));
        }
        if self.runs.insert(name.to_owned(), run).is_some() {
            self.twice.get_or_insert(ActorsError::NameTwice(name.to_owned()));
        }
        self
    }

    /// How often a message is tried: three times, if this is not called. An attempt has failed,
    /// too, if the process dies in which it was made. What has failed as often is a [dead
    /// letter](crate::Actors::dead_letters).
    ///
    /// With one attempt a handler begins at most once, whatever process is killed when; with more,
    /// at least once. The stored state sees a message once in either case.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.settings.attempts = attempts;
        self
    }

    /// How long the second attempt is put off: a second, if this is not called. Each further one is
    /// put off for twice as long, to an hour. Messages behind it wait: the order is kept.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.settings.pause = pause;
        self
    }

    /// How long outcomes are kept, and with them the ids of messages, of which a second one is
    /// refused: ten minutes, if this is not called; a minute at least.
    pub fn keep_outcomes(mut self, time: Duration) -> Self {
        self.settings.keep = time;
        self
    }

    /// How long a mailbox is held by a drainer that has died: the client's
    /// [lease](crate::RemoteBuilder::lease), if this is not called; ten milliseconds at least. It
    /// is renewed each third of it, however long a handler takes.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How many messages a drain takes at a time: 64, if this is not called; to 256. With one
    /// attempt it takes one.
    pub fn batch(mut self, messages: u32) -> Self {
        self.settings.most = messages;
        self
    }

    /// Over how many shards its actors are spread, each of which a cluster keeps on one node: one,
    /// if this is not called; to 1,024. All clients say the same number of one kind.
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// When a sender drains: measured, if this is not called.
    pub fn drains(mut self, drains: Drains) -> Self {
        self.settings.drains = drains;
        self
    }

    /// Where handlers run, and states are dropped: in
    /// [`ThreadPool::global`](turnwise::ThreadPool::global), if this is not called.
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        self.executor = Some(Arc::new(executor));
        self
    }

    /// The kind, and the client that it is of.
    pub(super) fn kind(self) -> Result<(Kind<S>, Owned), ActorsError> {
        let ActorsBuilder { client, name, names, runs, twice, settings, shards, executor } = self;
        if let Some(error) = twice {
            return Err(error);
        }
        match settings {
            _ if runs.is_empty() => return Err(ActorsError::NoMessages),
            _ if shards == 0 || shards > MOST_SHARDS => return Err(ActorsError::Shards(shards)),
            Settings { attempts: 0, .. } => return Err(ActorsError::NoAttempts),
            Settings { most, .. } if most == 0 || most > MOST_AT_ONCE => {
                return Err(ActorsError::Batch(most));
            }
            Settings { lease, .. } if lease < SHORTEST => return Err(ActorsError::LeaseTooShort),
            Settings { keep, .. } if keep < SHORTEST_KEPT => return Err(ActorsError::KeptTooShort),
            _ => {}
        }
        name::check(&name)?;
        let key = |index| client.key("actor", &format!("{name}/{index}"));
        let keys = (0..shards).map(|index| Ok(Shard { key: key(index)?, shards }));
        let all = keys.collect::<Result<_, name::NameError>>()?;
        let executor = executor.unwrap_or_else(|| Arc::new(ThreadPool::global().clone()));
        let actors = Actor::builder().name(name.clone()).executor(executor.clone());
        let drains = Actor::builder().name(format!("drain of {name}")).executor(executor);
        let kind = Kind {
            shards: all,
            names,
            runs,
            settings,
            actors: actors.build().map_err(ActorsError::Build)?,
            drains: drains.build().map_err(ActorsError::Build)?,
            name,
            mean: AtomicU64::new(0),
            hits: AtomicU64::new(1024),
        };
        Ok((kind, client))
    }
}

impl<S> fmt::Debug for ActorsBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorsBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

pub(super) fn encoded(value: &impl Serialize) -> Ran {
    let poison = |error: serde_json::Error| NotDone::Poison(format!("its reply: {error}"));
    serde_json::to_vec(value).map_err(poison)
}

/// A message that is to be stored.
pub(super) struct Written<M> {
    pub(super) name: String,
    pub(super) body: Vec<u8>,
    of: PhantomData<fn(M)>,
}

impl<S> Kind<S> {
    /// The shard of an actor: by FNV-1a, so all clients agree.
    pub(super) fn shard(&self, actor: &str) -> &Shard {
        let hash = actor.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let count = self.shards.len() as u64;
        &self.shards[usize::try_from(hash % count).unwrap_or_default()]
    }

    pub(super) fn write<M: Serialize + 'static>(
        &self,
        message: &M,
    ) -> Result<Written<M>, MessageError> {
        let unregistered = MessageError::Unregistered { message: type_name::<M>() };
        let name = self.names.get(&TypeId::of::<M>()).ok_or(unregistered)?.clone();
        let encode = |error: serde_json::Error| MessageError::Encode(error.to_string());
        let body = serde_json::to_vec(message).map_err(encode)?;
        match body.len() {
            bytes if bytes > LONGEST_MESSAGE => Err(MessageError::TooLong { bytes }),
            _ => Ok(Written { name, body, of: PhantomData }),
        }
    }

    /// Makes an attempt at a message of this name.
    pub(super) fn run(&self, actor: &Actor<S>, name: &str, body: &[u8]) -> Running {
        match self.runs.get(name) {
            Some(run) => run(actor, body),
            None => {
                let poison = format!("this kind of actors takes no message named `{name}`");
                Box::pin(async move { Err(NotDone::Poison(poison)) })
            }
        }
    }

    /// How long a turn takes.
    pub(super) fn mean(&self) -> Duration {
        Duration::from_micros(self.mean.load(Relaxed))
    }

    /// A turn took so long.
    pub(super) fn took(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        // One update may overwrite another one's: it is an estimate.
        let mean = self.mean.load(Relaxed);
        let mean = if mean == 0 { time } else { mean - mean / 8 + time / 8 };
        self.mean.store(mean, Relaxed);
    }

    /// Does a push claim the mailbox, too?
    pub(super) fn claims_at_once(&self) -> bool {
        match self.settings.drains {
            Drains::Never => false,
            Drains::IfFree => true,
            // Below one of eight, the state and the messages are seldom wanted.
            Drains::Measured => self.hits.load(Relaxed) >= 128,
        }
    }

    /// The mailbox was free, or was not, as a message came.
    pub(super) fn was_free(&self, free: bool) {
        let hits = self.hits.load(Relaxed);
        self.hits.store(hits - hits / 16 + if free { 64 } else { 0 }, Relaxed);
    }
}
