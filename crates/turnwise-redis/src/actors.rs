//! Actors whose mailboxes and states are in a store, for programs on several machines.
//!
//! The sender that finds a mailbox idle drains it, as in process. It holds the mailbox by a lease,
//! runs its message and those that arrive meanwhile in a local [`turnwise::Actor`], and releases
//! the mailbox in the step that finds it empty. Other senders store their messages and return.

#[path = "actors/ask.rs"]
mod ask;
#[path = "actors/drain.rs"]
mod drain;
#[path = "actors/error.rs"]
mod error;
#[path = "actors/inbox.rs"]
pub(crate) mod inbox;
#[path = "actors/kind.rs"]
mod kind;
#[path = "actors/unknown.rs"]
mod unknown;
#[path = "actors/work.rs"]
mod work;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep_until;
use turnwise::{AsyncHandler, Handler, Reply, promise};
use turnwise_locks::Fence;

pub use ask::{Ask, Asked, Tell};
pub use drain::{Drained, NoTime, Successor, Until};
pub use error::{ActorsError, MessageError};
pub use kind::{ActorsBuilder, Drains, Fallible};
pub use work::Workers;

use crate::client::Client;
use crate::client::Owned;
use crate::name;
use crate::step::{DeadMessage, MailboxAct, MailboxAnswer, MailboxSeen, Progress};
use crate::time::{SHORTEST, after};
use kind::{Kind, converted};

/// The maximum number of dead letters of a page.
const PAGE: u32 = 1000;

/// Actors of a kind: see [`Remote::actors`](crate::Remote::actors). Clones share the same actors.
///
/// An actor exists as soon as it is named. Its state is the type's default before its first
/// message, and is stored as JSON from then on. Messages run one at a time, in the order in which
/// they arrived at the store, in whatever process drains the mailbox. All processes open the kind
/// with the same messages, except during a deployment: see [below](#versions).
///
/// - The stored state has seen each handled message once, whatever process is killed at whatever
///   time: it is written in the step that removes the message and stores its reply.
/// - Effects of a handler elsewhere happen at least once; with [one
///   attempt](ActorsBuilder::attempts), at most once.
/// - Two messages of one id are one, while the first one waits, and for the time that its outcome
///   is [kept](ActorsBuilder::keep_outcomes).
///
/// Handlers run on the kind's [executor](ActorsBuilder::executor). The state is written after each
/// message, so a large state costs as much each time. A state that cannot be read back, such as one
/// with a number that is not finite, runs no further message ([`MessageError::State`]). Messages
/// that a handler sends to its own local actor, through its context, are not stored. A handler that
/// stops its local actor has failed.
///
/// # Versions
/// A process may meet a message whose name its kind does not take: that of a newer version, or of
/// an older one. The process releases the mailbox, which is not drained for ten milliseconds, so
/// that order is kept. Then any process may claim it again, and one whose kind takes the message
/// runs it, and those behind it. A process that meets the same message again doubles that time, up
/// to a second.
///
/// A message that a process has met for [an hour](ActorsBuilder::give_up_unknown_after) becomes a
/// dead letter, and those behind it are run. [`requeue`](Actors::requeue) returns it to the mailbox
/// once a process takes it.
///
/// Such a message is `Waiting` by its [`outcome`](RemoteActor::outcome), with 0 ahead, and the
/// actor's [`info`](RemoteActor::info) has messages and no drainer. A
/// [`drain`](RemoteActor::drain) fails with [`MessageError::UnknownMessage`], which names it.
/// [`withdraw`](RemoteActor::withdraw) removes one that no version takes.
///
/// Attempts, pauses and the time of outcomes are those of the process that drains, whatever process
/// has sent the message. The store counts the failed attempts of a message, so the process that
/// makes the last one by its own number makes the dead letter. Other settings of other processes
/// are not refused: a deployment can change them. With [one attempt](ActorsBuilder::attempts) in
/// some processes only, a message may begin again in the others.
///
/// # Examples
/// ```
/// use serde::{Deserialize, Serialize};
/// use turnwise::{Context, Handler};
/// use turnwise_redis::Remote;
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Board {
///     total: u64,
/// }
/// #[derive(Serialize, Deserialize)]
/// struct Add(u64);
///
/// impl Handler<Add> for Board {
///     type Reply = u64;
///     fn handle(&mut self, Add(points): Add, _: &mut Context<'_, Self>) -> u64 {
///         self.total += points;
///         self.total
///     }
/// }
///
/// // `Remote::connect("redis://127.0.0.1/")` is the same over a server.
/// let boards = Remote::in_memory().actors::<Board>("board").message::<Add>("add").open()?;
/// let board = boards.of("eu")?;
/// board.tell(Add(3)).wait()?; // stored
/// board.tell(Add(4)).id("order 7").wait()?;
/// board.tell(Add(4)).id("order 7").wait()?; // the same message
/// assert_eq!(board.ask(Add(5)).wait()?, 12); // handled
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Actors<S> {
    kind: Arc<Kind<S>>,
    /// Dropped after the kind, which reports to the store before.
    client: Owned,
}

impl<S> Clone for Actors<S> {
    fn clone(&self) -> Self {
        Actors { kind: self.kind.clone(), client: self.client.clone() }
    }
}

impl<S> fmt::Debug for Actors<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actors").field("kind", &self.kind.name).finish_non_exhaustive()
    }
}

impl<S> ActorsBuilder<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    /// Opens the kind. Nothing is sent.
    ///
    /// # Errors
    /// [`ActorsError`].
    pub fn open(self) -> Result<Actors<S>, ActorsError> {
        let (kind, client) = self.kind()?;
        Ok(Actors { kind: Arc::new(kind), client })
    }
}

/// A message all of whose attempts have failed: see [`Actors::dead_letters`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The actor.
    pub actor: String,
    /// The message's id.
    pub id: String,
    /// The name of the message's type.
    pub message: String,
    /// The message as JSON.
    pub body: String,
    /// The number of failed attempts.
    pub attempts: u32,
    /// The error of the last one.
    pub error: String,
}

impl<S> Actors<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    /// The actor of this id. Nothing is sent.
    ///
    /// # Errors
    /// [`MessageError::Name`].
    pub fn of(&self, id: &str) -> Result<RemoteActor<S>, MessageError> {
        name::check(id)?;
        Ok(RemoteActor { actors: self.clone(), id: id.into() })
    }

    /// Starts workers, which drain actors with waiting messages: those that senders leave to
    /// workers, those whose drainer has died, and those whose next attempt is due. At most
    /// `at_a_time` drains run at a time; zero counts as one.
    ///
    /// The messages of a dead drainer are recovered within one and a half leases, by any process
    /// that has workers, sends the actor a message, or waits for an answer of it.
    ///
    /// # Examples
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use turnwise::{Context, Handler};
    /// use turnwise_redis::{Drains, Remote};
    /// # #[derive(Default, Serialize, Deserialize)]
    /// # struct Mails(u64);
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Send;
    /// # impl Handler<Send> for Mails {
    /// #     type Reply = u64;
    /// #     fn handle(&mut self, _: Send, _: &mut Context<'_, Self>) -> u64 {
    /// #         self.0 += 1;
    /// #         self.0
    /// #     }
    /// # }
    ///
    /// let remote = Remote::in_memory();
    /// let mails = remote.actors::<Mails>("mail").message::<Send>("send").drains(Drains::Never);
    /// let mails = mails.open()?;
    /// let asked = mails.of("ada")?.ask(Send).send(); // waits for a worker
    /// let workers = mails.work(4);
    /// assert_eq!(asked.wait()?, 1);
    /// workers.stop().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "dropping them stops the workers"]
    pub fn work(&self, at_a_time: usize) -> Workers {
        Workers::start(&self.client, &self.kind, at_a_time)
    }

    /// Returns up to `most` messages all of whose attempts have failed, the oldest of each shard
    /// first, without the first `from`; at most 1,000. They stay until they are
    /// [requeued](Self::requeue) or [discarded](Self::discard).
    pub fn dead_letters(
        &self,
        from: u64,
        most: u32,
    ) -> Reply<Result<Vec<DeadLetter>, MessageError>> {
        let kind = self.kind.clone();
        let (from, most) = (from.min(u64::from(u32::MAX)), most.min(PAGE));
        self.spawn(move |client| async move {
            let (mut letters, mut skip, mut wanted) = (Vec::new(), from, most);
            for shard in &kind.shards {
                let act = MailboxAct::DeadLetters { from: skip, most: wanted };
                let answer = shard.step(&client, act, client.patience()).await.0?;
                let MailboxAnswer::Dead { all, dead } = answer else {
                    return Err(MessageError::Closed);
                };
                skip = skip.saturating_sub(all);
                wanted -= u32::try_from(dead.len()).unwrap_or(wanted).min(wanted);
                letters.extend(dead.into_iter().map(letter));
            }
            Ok(letters)
        })
    }

    /// Returns a dead letter to its mailbox, behind all messages, with all its attempts. It is
    /// drained by [workers](Self::work), and by the next process that sends to the actor. Returns
    /// false if there is no letter of this id.
    pub fn requeue(&self, actor: &str, id: &str) -> Reply<Result<bool, MessageError>> {
        self.bury(actor, MailboxAct::Requeue { actor: actor.to_owned(), message: id.to_owned() })
    }

    /// Deletes a dead letter. Returns false if there is no letter of this id.
    pub fn discard(&self, actor: &str, id: &str) -> Reply<Result<bool, MessageError>> {
        self.bury(actor, MailboxAct::Discard { actor: actor.to_owned(), message: id.to_owned() })
    }

    fn bury(&self, actor: &str, act: MailboxAct) -> Reply<Result<bool, MessageError>> {
        self.step(actor, act, |answer| match answer {
            MailboxAnswer::Was(was) => Some(Ok(was)),
            _ => None,
        })
    }

    /// Sends a step, and reads its answer on a thread that may block: users' code converts it.
    fn step<R: Send + 'static>(
        &self,
        actor: &str,
        act: MailboxAct,
        read: impl FnOnce(MailboxAnswer) -> Option<Result<R, MessageError>> + Send + 'static,
    ) -> Reply<Result<R, MessageError>> {
        let (promise, reply) = promise();
        let (client, shard) = (Arc::clone(&self.client), self.kind.shard(actor).clone());
        self.client.spawn(async move {
            let answer = shard.step(&client, act, client.patience()).await.0;
            let read = |answer| read(answer).unwrap_or(Err(MessageError::Closed));
            let io = client.io.clone();
            // What is read is dropped there, too, if the reply is gone.
            io.spawn_blocking(move || {
                promise.keep(answer.and_then(read));
                // Until here the client's thread goes on.
                drop(client);
            });
        });
        reply
    }

    fn spawn<R, F>(&self, task: impl FnOnce(Arc<Client>) -> F) -> Reply<R>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        self.client.reply(task(Arc::clone(&self.client)))
    }
}

fn letter(dead: DeadMessage) -> DeadLetter {
    let DeadMessage { actor, message, attempts, error } = dead;
    let body = String::from_utf8_lossy(&message.body).into_owned();
    DeadLetter { actor, id: message.id, message: message.name, body, attempts, error }
}

/// An actor whose mailbox and state are in a store: see [`Actors::of`]. Clones are the same actor.
pub struct RemoteActor<S> {
    actors: Actors<S>,
    id: Arc<str>,
}

impl<S> Clone for RemoteActor<S> {
    fn clone(&self) -> Self {
        RemoteActor { actors: self.actors.clone(), id: self.id.clone() }
    }
}

impl<S> fmt::Debug for RemoteActor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RemoteActor");
        shown.field("kind", &self.actors.kind.name).field("id", &self.id).finish()
    }
}

/// The progress of a message: see [`RemoteActor::outcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<R> {
    /// The message is [delayed](Tell::after).
    Delayed {
        /// The time until it arrives in its mailbox.
        remaining: Duration,
    },
    /// The message waits.
    Waiting {
        /// The number of messages before it.
        ahead: u64,
    },
    /// The message was handed to a drainer.
    Running {
        /// The number of the attempt, from 1 on.
        attempt: u32,
    },
    /// The message was handled, with this reply.
    Done(R),
    /// All attempts have failed, and the message is a dead letter.
    Dead {
        /// The error of the last one.
        error: String,
    },
    /// The message was withdrawn, and certainly never runs.
    Withdrawn,
    /// The message is not known: it was never stored, or its outcome is no longer kept.
    Unknown,
}

/// A snapshot of an actor: see [`RemoteActor::info`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ActorInfo<S> {
    /// The number of messages, including those that were handed to a drainer.
    pub waiting: u64,
    /// The drainer: the number of its client, and of its request.
    pub drainer: Option<String>,
    /// The rest of the drainer's lease, if it is not renewed.
    pub remaining: Duration,
    /// The number of failed attempts at the first message.
    pub attempts: u32,
    /// The fence of the last hold, if there was one.
    pub fence: Option<Fence>,
    /// The stored state. `None` before the first message was handled.
    pub state: Option<S>,
    /// The number of [delayed](Tell::after) messages.
    pub delayed: u64,
}

impl<S> RemoteActor<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    /// The actor's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sends a message of a type that the kind takes. The future completes when the message is
    /// stored, not when it is handled.
    pub fn tell<M: Serialize + 'static>(&self, message: M) -> Tell<S> {
        Tell::new(&self.actors, &self.id, &message)
    }

    /// Sends a message, and requests the reply of its handler.
    ///
    /// Handlers may ask other actors. An actor that asks itself, and actors that ask one another in
    /// a circle, wait until a [limit](Ask::within) ends that.
    pub fn ask<M, R>(&self, message: M) -> Ask<S, R>
    where
        S: Handler<M, Reply = R>,
        M: Serialize + 'static,
        R: DeserializeOwned + Send + 'static,
    {
        Ask::new(&self.actors, &self.id, &message)
    }

    /// Asks an async handler, as [`ask`](Self::ask) does.
    pub fn ask_async<M, R>(&self, message: M) -> Ask<S, R>
    where
        S: AsyncHandler<M, Reply = R>,
        M: Serialize + 'static,
        R: DeserializeOwned + Send + 'static,
    {
        Ask::new(&self.actors, &self.id, &message)
    }

    /// Returns the progress of a message by its id, with a reply of this type. It may be stale by
    /// the time it is read, unless it is final.
    pub fn outcome<R>(&self, id: &str) -> Reply<Result<Outcome<R>, MessageError>>
    where
        R: DeserializeOwned + Send + 'static,
    {
        let act = MailboxAct::Outcome { actor: self.id.to_string(), message: id.to_owned() };
        self.progress(act)
    }

    /// Withdraws a message by its id. With [`Outcome::Withdrawn`] it certainly never runs;
    /// otherwise it may have begun, or has an outcome.
    pub fn withdraw<R>(&self, id: &str) -> Reply<Result<Outcome<R>, MessageError>>
    where
        R: DeserializeOwned + Send + 'static,
    {
        let keep = self.actors.kind.settings.keep;
        let (actor, message) = (self.id.to_string(), id.to_owned());
        self.progress(MailboxAct::Withdraw { actor, message, late: false, keep })
    }

    fn progress<R>(&self, act: MailboxAct) -> Reply<Result<Outcome<R>, MessageError>>
    where
        R: DeserializeOwned + Send + 'static,
    {
        self.actors.step(&self.id, act, |answer| {
            let MailboxAnswer::Progress(progress) = answer else { return None };
            Some(match progress {
                Progress::Delayed { left } => Ok(Outcome::Delayed { remaining: left }),
                Progress::Waiting { ahead, .. } => Ok(Outcome::Waiting { ahead }),
                Progress::Running { attempt, .. } => Ok(Outcome::Running { attempt }),
                Progress::Done(reply) => converted(|| serde_json::from_slice(&reply))
                    .map(Outcome::Done)
                    .map_err(MessageError::Decode),
                Progress::Dead { error } => Ok(Outcome::Dead { error }),
                Progress::Withdrawn => Ok(Outcome::Withdrawn),
                Progress::Unknown => Ok(Outcome::Unknown),
            })
        })
    }

    /// Returns a snapshot of the actor, which may be stale by the time it is read.
    pub fn info(&self) -> Reply<Result<ActorInfo<S>, MessageError>> {
        let act = MailboxAct::Look { actor: self.id.to_string() };
        self.actors.step(&self.id, act, |answer| {
            let MailboxAnswer::Seen(seen) = answer else { return None };
            let MailboxSeen { waiting, drainer, attempts, fence, state, delayed } = seen;
            let read = |state: Vec<u8>| converted(|| serde_json::from_slice(&state));
            let state = match state.map(read).transpose() {
                Ok(state) => state,
                Err(error) => return Some(Err(MessageError::State(error))),
            };
            let (drainer, remaining) = drainer.unzip();
            Some(Ok(ActorInfo {
                waiting,
                drainer: drainer.map(|token| token.as_str().to_owned()),
                remaining: remaining.unwrap_or_default(),
                attempts,
                fence: (fence > 0).then(|| Fence::from_number(fence)),
                state,
                delayed,
            }))
        })
    }

    /// Drains the actor here. If another process drains it, a drain with a deadline waits for its
    /// release, and one without returns. A failed attempt ends a drain with a deadline.
    ///
    /// # Examples
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use turnwise::{Context, Handler};
    /// use std::time::Duration;
    /// use turnwise_redis::{Drains, Remote, Until};
    /// # #[derive(Default, Serialize, Deserialize)]
    /// # struct Mails(u64);
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Send;
    /// # impl Handler<Send> for Mails {
    /// #     type Reply = u64;
    /// #     fn handle(&mut self, _: Send, _: &mut Context<'_, Self>) -> u64 {
    /// #         self.0 += 1;
    /// #         self.0
    /// #     }
    /// # }
    ///
    /// let remote = Remote::in_memory();
    /// let mails = remote.actors::<Mails>("mail").message::<Send>("send").drains(Drains::Never);
    /// let ada = mails.open()?.of("ada")?;
    /// ada.tell(Send).wait()?;
    /// // This host ends in five seconds, and asks another one to go on.
    /// let invoke = |actor: String| async move { Err(format!("no other host for {actor}")) };
    /// let until = Until::within(Duration::from_secs(5))?.or_hand_to(invoke);
    /// assert_eq!(ada.drain(until).wait()??.handled, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain(&self, until: Until) -> Reply<Result<Drained, MessageError>> {
        let (kind, id) = (self.actors.kind.clone(), self.id.clone());
        self.actors.spawn(|client| async move {
            let mut pause = SHORTEST;
            loop {
                let busy = match drain::claim(&client, &kind, &id).await? {
                    Ok(held) => {
                        // A drain that is cut has reported what it could.
                        let gone = Err(MessageError::ExecutorGone);
                        return kind.drain(held, until).await.unwrap_or(gone);
                    }
                    Err(MailboxAnswer::Busy { left }) => left,
                    Err(_) => return Ok(Drained::default()),
                };
                let by_another = Drained { by_another: true, ..Drained::default() };
                let Some(deadline) = until.deadline else { return Ok(by_another) };
                let again = after(pause.min(busy.max(Duration::from_millis(1))));
                if again >= deadline {
                    return Ok(by_another);
                }
                sleep_until(again).await;
                pause = (pause * 2).min(Duration::from_millis(200));
            }
        })
    }
}
