//! Actors whose mailboxes and states are in a store, for programs on several machines.
//!
//! The sender that finds a mailbox idle drains it, as in process: it holds the mailbox by a lease,
//! runs its message and those that arrive meanwhile in a local [`turnwise::Actor`], and lets go in
//! the step that finds nothing left. Every other sender leaves its message and returns.

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
#[path = "actors/work.rs"]
mod work;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep_until;
use turnwise::{AsyncHandler, Handler, Reply};
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
use kind::Kind;

/// The most dead letters of a page.
const PAGE: u32 = 1000;

/// Actors of a kind: see [`Remote::actors`](crate::Remote::actors). Clones are the same actors.
///
/// An actor is there as soon as it is named. Its state is the type's default before its first
/// message, and in the store from then on, as JSON. Messages run one at a time, in the order in
/// which they came to the store, in whatever process drains the mailbox: all of them open the kind
/// with the same messages.
///
/// - The state that is stored has seen each message that was handled once, whatever was killed
///   when: it is written in the step that removes the message and keeps its reply.
/// - What a handler does elsewhere is done at least once; with
///   [one attempt](ActorsBuilder::attempts), at most once.
/// - Two messages of one id are one, as long as the first one waits, and for the time that its
///   outcome is [kept](ActorsBuilder::keep_outcomes).
///
/// Handlers run on the kind's [executor](ActorsBuilder::executor). The state is written after each
/// message: large ones cost as much each time. What a handler sends to its own local actor, by its
/// context, is not stored; and one that stops its local actor has failed.
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
    /// After the kind: what that has yet to say is said before.
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

/// A message that was given up: [`Actors::dead_letters`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The actor.
    pub actor: String,
    /// The message's id.
    pub id: String,
    /// Which type of message it is.
    pub message: String,
    /// What it says, as JSON.
    pub body: String,
    /// How many attempts have failed.
    pub attempts: u32,
    /// Why the last one has.
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

    /// Drains actors whose messages wait: those that senders leave to workers, those whose drainer
    /// has died, and those whose next attempt is due. As many at a time; at least one.
    ///
    /// What a dead process drained is recovered within one and a half leases by whatever process
    /// has workers, or sends the actor a message, or waits for an answer of it.
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
    /// let asked = mails.of("ada")?.ask(Send).send(); // nobody drains it
    /// let workers = mails.work(4);
    /// assert_eq!(asked.wait()?, 1);
    /// workers.stop().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "dropping them stops the workers"]
    pub fn work(&self, at_a_time: usize) -> Workers {
        Workers::start(&self.client, &self.kind, at_a_time)
    }

    /// Messages whose attempts have all failed, the oldest of each shard first: without the first
    /// ones, as many, and 1,000 at most. They stay until they are [requeued](Self::requeue) or
    /// [discarded](Self::discard).
    pub fn dead_letters(
        &self,
        from: u64,
        most: u32,
    ) -> Reply<Result<Vec<DeadLetter>, MessageError>> {
        let kind = self.kind.clone();
        let most = most.min(PAGE);
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

    /// Leaves a dead letter in its mailbox again, behind all messages, with all its attempts.
    /// False: there is none of this id.
    pub fn requeue(&self, actor: &str, id: &str) -> Reply<Result<bool, MessageError>> {
        self.bury(actor, MailboxAct::Requeue { actor: actor.to_owned(), message: id.to_owned() })
    }

    /// Forgets a dead letter. False: there is none of this id.
    pub fn discard(&self, actor: &str, id: &str) -> Reply<Result<bool, MessageError>> {
        self.bury(actor, MailboxAct::Discard { actor: actor.to_owned(), message: id.to_owned() })
    }

    fn bury(&self, actor: &str, act: MailboxAct) -> Reply<Result<bool, MessageError>> {
        self.once(actor, act, |answer| match answer {
            MailboxAnswer::Was(was) => Some(Ok(was)),
            _ => None,
        })
    }

    fn once<R: Send + 'static>(
        &self,
        actor: &str,
        act: MailboxAct,
        read: impl FnOnce(MailboxAnswer) -> Option<Result<R, MessageError>> + Send + 'static,
    ) -> Reply<Result<R, MessageError>> {
        let shard = self.kind.shard(actor).clone();
        self.spawn(|client| async move {
            let answer = shard.step(&client, act, client.patience()).await.0?;
            read(answer).unwrap_or(Err(MessageError::Closed))
        })
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

/// An actor whose mailbox and state are in a store: [`Actors::of`]. Clones are the same actor.
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

/// Where a message is: [`RemoteActor::outcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<R> {
    /// It waits, behind as many others.
    Waiting {
        /// As many.
        ahead: u64,
    },
    /// A drainer has it in its hands.
    Running {
        /// Which attempt it is, from 1 on.
        attempt: u32,
    },
    /// It was handled, with this reply.
    Done(R),
    /// All its attempts have failed: it is a dead letter.
    Dead {
        /// Why the last one has.
        error: String,
    },
    /// It was withdrawn, and certainly never runs.
    Withdrawn,
    /// Nothing is known of it: it never came, or its outcome was not kept that long.
    Unknown,
}

/// What is known of an actor: [`RemoteActor::info`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ActorInfo<S> {
    /// How many messages wait, those in a drainer's hands included.
    pub waiting: u64,
    /// Who drains it: the number of its client, and of its request.
    pub drainer: Option<String>,
    /// How long its lease lasts, if it is not renewed.
    pub remaining: Duration,
    /// How many attempts at the first message have failed.
    pub attempts: u32,
    /// The last hold's number, if there was one.
    pub fence: Option<Fence>,
    /// The state, as the last step has stored it. None: nothing was handled yet.
    pub state: Option<S>,
}

impl<S> RemoteActor<S>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    /// The actor's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Leaves a message, of a type that the kind takes. What is awaited is that it is stored, not
    /// that it is handled.
    pub fn tell<M: Serialize + 'static>(&self, message: M) -> Tell<S> {
        Tell::new(&self.actors, &self.id, &message)
    }

    /// Leaves a message, and asks for the reply of its handler.
    pub fn ask<M>(&self, message: M) -> Ask<S, S::Reply>
    where
        M: Serialize + 'static,
        S: Handler<M, Reply: DeserializeOwned>,
    {
        Ask::new(&self.actors, &self.id, &message)
    }

    /// As [`ask`](Self::ask), of a handler that waits.
    pub fn ask_async<M>(&self, message: M) -> Ask<S, S::Reply>
    where
        M: Serialize + 'static,
        S: AsyncHandler<M, Reply: DeserializeOwned>,
    {
        Ask::new(&self.actors, &self.id, &message)
    }

    /// Where a message is, by its id, with a reply of this type. Stale on return, unless it is
    /// over.
    pub fn outcome<R>(&self, id: &str) -> Reply<Result<Outcome<R>, MessageError>>
    where
        R: DeserializeOwned + Send + 'static,
    {
        let act = MailboxAct::Outcome { actor: self.id.to_string(), message: id.to_owned() };
        self.progress(act)
    }

    /// Takes a message back, by its id. [`Outcome::Withdrawn`]: it certainly never runs; otherwise
    /// it may have begun, or is over.
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
        self.actors.once(&self.id, act, |answer| {
            let MailboxAnswer::Progress(progress) = answer else { return None };
            Some(match progress {
                Progress::Waiting { ahead, .. } => Ok(Outcome::Waiting { ahead }),
                Progress::Running { attempt, .. } => Ok(Outcome::Running { attempt }),
                Progress::Done(reply) => ask::read(&reply).map(Outcome::Done),
                Progress::Dead { error } => Ok(Outcome::Dead { error }),
                Progress::Withdrawn => Ok(Outcome::Withdrawn),
                Progress::Unknown => Ok(Outcome::Unknown),
            })
        })
    }

    /// What is known of the actor. Stale on return.
    pub fn info(&self) -> Reply<Result<ActorInfo<S>, MessageError>> {
        let act = MailboxAct::Look { actor: self.id.to_string() };
        self.actors.once(&self.id, act, |answer| {
            let MailboxAnswer::Seen(seen) = answer else { return None };
            let MailboxSeen { waiting, drainer, attempts, fence, state } = seen;
            let read = |state: Vec<u8>| serde_json::from_slice(&state);
            let state = match state.map(read).transpose() {
                Ok(state) => state,
                Err(error) => return Some(Err(MessageError::State(error.to_string()))),
            };
            let (drainer, remaining) = drainer.unzip();
            Some(Ok(ActorInfo {
                waiting,
                drainer: drainer.map(|token| token.as_str().to_owned()),
                remaining: remaining.unwrap_or_default(),
                attempts,
                fence: (fence > 0).then(|| Fence::from_number(fence)),
                state,
            }))
        })
    }

    /// Drains the actor here, until then. If somebody else does, a drain with a deadline waits for
    /// that one to let go, and one without returns. A failed attempt ends a drain with a deadline.
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
    /// // A host that ends in five seconds, and has another one go on.
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
                        // One that is cut has said to the store what it could.
                        let gone = Err(MessageError::ExecutorGone);
                        return kind.drain(held, until).await.unwrap_or(gone);
                    }
                    Err(MailboxAnswer::Busy { left }) => left,
                    Err(_) => return Ok(Drained::default()),
                };
                let by_another = Drained { by_another: true, ..Drained::default() };
                let Some(deadline) = until.deadline else { return Ok(by_another) };
                let again = after(pause.min(busy.max(Duration::from_millis(1))));
                if again.into_std() >= deadline {
                    return Ok(by_another);
                }
                sleep_until(again).await;
                pause = (pause * 2).min(Duration::from_millis(200));
            }
        })
    }
}
