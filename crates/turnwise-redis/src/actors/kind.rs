//! A kind of actors: its messages, how each is run, and its settings.

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use turnwise::{Actor, AskError, AsyncHandler, Executor, Handler, Spawner, ThreadPool};

use super::error::{ActorsError, MessageError};
use super::inbox::Shard;
use super::unknown::Unknown;
use crate::client::Owned;
use crate::name;
use crate::record::micros;
use crate::step::{DrainClaim, Token};
use crate::time::SHORTEST;
use crate::user_code::caught;

/// The maximum length of a message, in bytes.
const LONGEST_MESSAGE: usize = 1 << 20;

/// The maximum number of shards.
const MOST_SHARDS: u32 = 1024;

/// The maximum number of messages that a drain takes at a time.
const MOST_AT_ONCE: u32 = 256;

/// The minimum time that outcomes are kept: copies of a message may arrive that much later.
pub(super) const SHORTEST_KEPT: Duration = Duration::from_secs(60);

/// The longest pause before an attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The result of an attempt: the serialized reply, or the reason why there is none.
pub(super) type Ran = Result<Vec<u8>, NotDone>;

/// The reasons why an attempt has no reply.
pub(super) enum NotDone {
    /// The attempt has failed, and can be repeated.
    Failed(String),
    /// No attempt can succeed.
    Poison(String),
    /// The attempt has certainly not begun, because its executor has ended.
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

/// A reply that may be an error, such as a `Result`.
pub trait Fallible {
    /// Returns the text of the error, if it is one.
    fn error(&self) -> Option<String>;
}

impl<T, E: fmt::Display> Fallible for Result<T, E> {
    fn error(&self) -> Option<String> {
        self.as_ref().err().map(ToString::to_string)
    }
}

type Running = Pin<Box<dyn Future<Output = Ran> + Send>>;
type Run<S> = Box<dyn Fn(&Actor<S>, &[u8]) -> Running + Send + Sync>;

/// The policy by which senders drain mailboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drains {
    /// Senders never drain. Messages wait for [workers](crate::Actors::work), or for a
    /// [drain](crate::RemoteActor::drain).
    Never,
    /// A sender drains a mailbox that has no drainer. The step that stores the message also claims
    /// the mailbox, which is best where senders seldom meet.
    IfFree,
    /// A sender drains a mailbox that has no drainer. The step that stores the message only checks,
    /// and a second one claims, which is best where senders often meet: the first one returns no
    /// state, and claims no mailbox that another process is about to drain.
    IfSeenFree,
    /// `IfFree` as long as that has mostly succeeded lately, and otherwise `IfSeenFree`.
    #[default]
    Measured,
}

/// The settings of a kind of actors: see [`Remote::actors`](crate::Remote::actors).
#[must_use = "a builder makes nothing until it is opened"]
pub struct ActorsBuilder<S> {
    client: Owned,
    name: String,
    names: HashMap<TypeId, String>,
    runs: HashMap<String, Run<S>>,
    twice: Option<ActorsError>,
    settings: KindSettings,
    shards: u32,
    executor: Option<Arc<dyn Executor>>,
}

#[derive(Clone, Copy)]
pub(super) struct KindSettings {
    pub(super) attempts: u32,
    pub(super) pause: Duration,
    pub(super) keep: Duration,
    pub(super) lease: Duration,
    pub(super) unknown: Duration,
    most: u32,
    pub(super) drains: Drains,
}

impl KindSettings {
    /// Returns the pause before the next attempt after this many failures. `None`: there is none.
    pub(super) fn again(&self, failed: u32) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let doubled = 1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX);
        Some(self.pause.saturating_mul(doubled).min(LONGEST_PAUSE))
    }

    /// Returns the maximum number of messages handed out at a time. A dead drainer may have begun
    /// all of several, and with one attempt none of them may begin again.
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

/// The last message that this process has sent to an actor whose mailbox was busy.
pub(super) struct Watched {
    pub(super) id: String,
    /// The time of the next look at it.
    pub(super) at: Instant,
}

/// A kind of actors, as its client knows it.
pub(super) struct Kind<S> {
    pub(super) name: String,
    pub(super) shards: Vec<Shard>,
    names: HashMap<TypeId, String>,
    runs: HashMap<String, Run<S>>,
    pub(super) settings: KindSettings,
    /// The actors that run messages here.
    pub(super) actors: Spawner<S>,
    /// Actors whose turns are the drains.
    pub(super) drains: Spawner<()>,
    /// The average time of a turn in microseconds, as a moving average.
    mean: AtomicU64,
    /// The recent successes among 1,024 claims with a push.
    hits: AtomicU64,
    /// Actors that this process may have to drain later.
    watched: Mutex<HashMap<String, Watched>>,
    pub(super) unknown: Unknown,
}

impl<S> ActorsBuilder<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    pub(crate) fn new(client: Owned, name: &str) -> Self {
        let settings = KindSettings {
            attempts: 3,
            pause: Duration::from_secs(1),
            keep: Duration::from_secs(600),
            lease: client.lease(),
            unknown: Duration::from_secs(3600),
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

    /// Adds a type of messages, which are stored under this name. An attempt fails if the handler
    /// panics.
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

    /// Adds a type of messages whose reply is a `Result`, as [`message`](Self::message) does. An
    /// attempt also fails if the reply is an error.
    pub fn try_message<M>(self, name: &str) -> Self
    where
        S: Handler<M, Reply: Fallible + Serialize>,
        M: DeserializeOwned + Send + 'static,
    {
        self.runs::<M>(name, |actor, message| {
            let asked = actor.ask(message);
            Box::pin(async move { succeeded(&asked.await?) })
        })
    }

    /// Adds a type of messages with async handlers, as [`message`](Self::message) does.
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

    /// Adds a type of messages with async handlers whose reply is a `Result`, as
    /// [`try_message`](Self::try_message) does.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use serde::{Deserialize, Serialize};
    /// use turnwise::{AsyncContext, AsyncHandler};
    /// use turnwise_redis::{MessageError, Remote};
    ///
    /// #[derive(Default, Serialize, Deserialize)]
    /// struct Account;
    /// #[derive(Serialize, Deserialize)]
    /// struct Pay;
    ///
    /// impl AsyncHandler<Pay> for Account {
    ///     type Reply = Result<u32, String>;
    ///     async fn handle(&mut self, _: Pay, _: &mut AsyncContext<Self>) -> Self::Reply {
    ///         Err("no answer".to_owned()) // of a bank that was asked
    ///     }
    /// }
    ///
    /// let kind = Remote::in_memory().actors::<Account>("account").try_async_message::<Pay>("pay");
    /// let accounts = kind.attempts(2).pause(Duration::from_millis(1)).open()?;
    /// let failed = accounts.of("ada")?.ask_async(Pay).wait();
    /// assert!(matches!(failed, Err(MessageError::Dead { error }) if error == "no answer"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_async_message<M>(self, name: &str) -> Self
    where
        S: AsyncHandler<M, Reply: Fallible + Serialize>,
        M: DeserializeOwned + Send + 'static,
    {
        self.runs::<M>(name, |actor, message| {
            let asked = actor.ask_async(message);
            Box::pin(async move { succeeded(&asked.await?) })
        })
    }

    fn runs<M>(mut self, name: &str, run: fn(&Actor<S>, M) -> Running) -> Self
    where
        M: DeserializeOwned + Send + 'static,
    {
        let run: Run<S> =
            Box::new(move |actor, body| match converted(|| serde_json::from_slice(body)) {
                Ok(message) => run(actor, message),
                Err(error) => {
                    let poison = format!("the message cannot be deserialized: {error}");
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

    /// Sets the number of attempts at a message. The default is three. An attempt also fails if its
    /// process dies. A message whose attempts have all failed is a [dead
    /// letter](crate::Actors::dead_letters).
    ///
    /// With one attempt a handler begins at most once, whatever process is killed at whatever time;
    /// with more, at least once. The stored state sees a message once in either case.
    ///
    /// The number applies to messages that this process drains, whatever process has sent them, and
    /// is not compared with that of other processes. So a handler begins at most once only if all
    /// processes that drain the kind have one attempt.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.settings.attempts = attempts;
        self
    }

    /// Sets the pause before the second attempt. The default is a second. Each further pause is
    /// twice as long, up to an hour. Later messages wait, so the order is kept.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.settings.pause = pause;
        self
    }

    /// Sets the time for which a message that this process does not take is left to others: see
    /// [versions](crate::Actors#versions). After it, the message is a [dead
    /// letter](crate::Actors::dead_letters). The time begins when the process first meets the
    /// message as the next one of its actor. The default is an hour. It should be longer than a
    /// deployment.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use serde::{Deserialize, Serialize};
    /// use turnwise::{Context, Handler};
    /// use turnwise_redis::{Drains, Remote};
    ///
    /// #[derive(Default, Serialize, Deserialize)]
    /// struct Account;
    /// #[derive(Serialize, Deserialize)]
    /// struct Pay;
    ///
    /// impl Handler<Pay> for Account {
    ///     type Reply = ();
    ///     fn handle(&mut self, _: Pay, _: &mut Context<'_, Self>) {}
    /// }
    ///
    /// let remote = Remote::in_memory();
    /// let next = remote.actors::<Account>("account").message::<Pay>("pay 2");
    /// next.drains(Drains::Never).open()?.of("ada")?.tell(Pay).id("order 7").wait()?;
    ///
    /// let kind = remote.actors::<Account>("account").message::<Pay>("pay");
    /// let accounts = kind.give_up_unknown_after(Duration::ZERO).open()?;
    /// accounts.of("ada")?.ask(Pay).wait()?;
    /// assert_eq!(accounts.dead_letters(0, 10).wait()??[0].id, "order 7");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_up_unknown_after(mut self, limit: Duration) -> Self {
        self.settings.unknown = limit;
        self
    }

    /// Sets the time that outcomes are kept, and with them the ids of messages, of which a second
    /// one is refused. The default is ten minutes, the minimum one minute. A message that the store
    /// does not answer is sent again for half a minute at most, whatever the client's
    /// [patience](crate::RemoteBuilder::give_up_after): the process that drains it may keep its
    /// outcome for the minimum.
    pub fn keep_outcomes(mut self, time: Duration) -> Self {
        self.settings.keep = time;
        self
    }

    /// Sets the lease of a mailbox: how long a drainer that has died holds it. The default is the
    /// client's [lease](crate::RemoteBuilder::lease), the minimum ten milliseconds. It is renewed
    /// each third of it, however long a handler takes.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Sets the number of messages that a drain takes at a time. The default is 64, the maximum
    /// 256. With one attempt it takes one.
    pub fn batch(mut self, messages: u32) -> Self {
        self.settings.most = messages;
        self
    }

    /// Sets the number of shards over which the actors are spread, each of which a cluster keeps on
    /// one node. The default is one, the maximum 1,024. All clients use the same number for a kind.
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// Sets the policy by which senders drain. The default is [`Drains::Measured`].
    pub fn drains(mut self, drains: Drains) -> Self {
        self.settings.drains = drains;
        self
    }

    /// Sets the executor that runs handlers and drops states. The default is
    /// [`ThreadPool::global`](turnwise::ThreadPool::global).
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        self.executor = Some(Arc::new(executor));
        self
    }

    /// Returns the kind and its client.
    pub(super) fn kind(self) -> Result<(Kind<S>, Owned), ActorsError> {
        let ActorsBuilder { client, name, names, runs, twice, settings, shards, executor } = self;
        if let Some(error) = twice {
            return Err(error);
        }
        match settings {
            _ if runs.is_empty() => return Err(ActorsError::NoMessages),
            _ if shards == 0 || shards > MOST_SHARDS => return Err(ActorsError::Shards(shards)),
            KindSettings { attempts: 0, .. } => return Err(ActorsError::NoAttempts),
            KindSettings { most, .. } if most == 0 || most > MOST_AT_ONCE => {
                return Err(ActorsError::Batch(most));
            }
            KindSettings { lease, .. } if lease < SHORTEST => {
                return Err(ActorsError::LeaseTooShort);
            }
            KindSettings { keep, .. } if keep < SHORTEST_KEPT => {
                return Err(ActorsError::KeptTooShort);
            }
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
            watched: Mutex::default(),
            unknown: Unknown::default(),
        };
        Ok((kind, client))
    }
}

impl<S> fmt::Debug for ActorsBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorsBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Serializes a reply.
pub(super) fn encoded(value: &impl Serialize) -> Ran {
    let written = converted(|| serde_json::to_vec(value));
    written.map_err(|error| NotDone::Poison(format!("its reply: {error}")))
}

/// The reply as it is stored, unless it is an error.
fn succeeded(reply: &(impl Fallible + Serialize)) -> Ran {
    match caught(|| reply.error()) {
        Ok(Some(error)) => Err(NotDone::Failed(error)),
        Ok(None) => encoded(reply),
        Err(panic) => Err(NotDone::Failed(format!("its error: {}", panicked(&panic)))),
    }
}

/// Runs a conversion by code of users, whose panic is its error.
pub(super) fn converted<T>(convert: impl FnOnce() -> serde_json::Result<T>) -> Result<T, String> {
    match caught(convert) {
        Ok(converted) => converted.map_err(|error| error.to_string()),
        Err(panic) => Err(panicked(&panic)),
    }
}

/// The error of code of users that has panicked.
pub(super) fn panicked(text: &str) -> String {
    format!("it panicked: {text}")
}

/// A serialized message.
pub(super) struct Written<M> {
    pub(super) name: String,
    pub(super) body: Vec<u8>,
    of: PhantomData<fn(M)>,
}

impl<S> Kind<S> {
    /// Returns the shard of an actor, by FNV-1a, so that all clients agree.
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

    /// True if messages of this name are run here. One without a name was deleted by hand, and an
    /// attempt at it fails for good.
    pub(super) fn takes(&self, name: &str) -> bool {
        name.is_empty() || self.runs.contains_key(name)
    }

    /// Makes an attempt at a message of this name.
    pub(super) fn run(&self, actor: &Actor<S>, name: &str, body: &[u8]) -> Running {
        match self.runs.get(name) {
            Some(run) => run(actor, body),
            None => {
                let poison = "the message is gone from the store".to_owned();
                Box::pin(async move { Err(NotDone::Poison(poison)) })
            }
        }
    }

    /// Returns the average time of a turn.
    pub(super) fn mean(&self) -> Duration {
        Duration::from_micros(self.mean.load(Relaxed))
    }

    /// Updates the average time of a turn.
    pub(super) fn took(&self, time: Duration) {
        let time = micros(time);
        // An update may overwrite another one: this is an estimate.
        let mean = self.mean.load(Relaxed);
        let mean = if mean == 0 { time } else { mean - mean / 8 + time / 8 };
        self.mean.store(mean, Relaxed);
    }

    pub(super) fn watched(&self) -> MutexGuard<'_, HashMap<String, Watched>> {
        // No code of users runs under this lock.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a push also claims the mailbox.
    pub(super) fn claims_at_once(&self) -> bool {
        match self.settings.drains {
            Drains::Never | Drains::IfSeenFree => false,
            Drains::IfFree => true,
            // Below one in eight, the state and the messages are seldom wanted.
            Drains::Measured => self.hits.load(Relaxed) >= 128,
        }
    }

    /// Records whether the mailbox was free when a message arrived.
    pub(super) fn was_free(&self, free: bool) {
        let hits = self.hits.load(Relaxed);
        self.hits.store(hits - hits / 16 + if free { 64 } else { 0 }, Relaxed);
    }
}
