//! What a user names: [`Actor`], its handles, its builder and its replies. No unsafe: everything here goes through `drain`.

#![forbid(unsafe_code)]

mod builder;
mod bulk;
mod message;
mod own;
mod reply;
mod system;
mod turn;
mod weak;

use std::fmt;
use std::future::Future;

pub use builder::ActorBuilder;
pub use bulk::BulkHandler;
pub use message::{Context, Handler, Recipient};
pub use reply::{Promise, Reply, Unanswered, WaitError, promise};
pub use system::{ShutdownReport, SpawnError, SpawnReason, System};
pub use turn::{remaining, renew};
pub use weak::WeakActor;

use crate::drain::handle::Handle;
use crate::drain::letter::Closure;
use crate::drain::waits::NotWaited;
use crate::error::{AskError, Reason, SendError, StopCause};
use crate::mailbox::word::CLOSED;
use crate::wait::Limit;

/// A handle to an object that takes one message at a time, with no lock around it and no thread of its own.
///
/// Whoever sends to an idle actor runs the message on the spot, then whatever has arrived meanwhile, and lets go; everybody else leaves
/// the message and walks on. So messages run one at a time, in the order in which they were accepted, and each sees all that the ones
/// before it did. Handles are cheap to clone (one atomic addition). When the last one is dropped, the messages that wait are run, then
/// the state is dropped.
///
/// A message sent from inside a turn (of any actor) never runs inside that turn: it is run by this thread when the turn is over, or by
/// any thread that comes by earlier. A message is a closure that gets the state.
///
/// # Examples
/// ```
/// use std::collections::HashMap;
/// use turnwise::Actor;
///
/// let hits = Actor::new(HashMap::<String, u64>::new());
/// hits.send(|hits| *hits.entry("home".into()).or_default() += 1)?;
/// let pages = hits.with(|hits| hits.len())?;
/// assert_eq!(pages, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Actor<S> {
    handle: Handle<S>,
}

impl<S: Send + 'static> Actor<S> {
    /// An actor with this state, no limit and no hooks: one small allocation.
    ///
    /// A turn that panics stops it ([`Panic::Stop`](crate::Panic::Stop)).
    ///
    /// # Examples
    /// ```
    /// let log = turnwise::Actor::new(Vec::<String>::new());
    /// log.send(|log| log.push("started".into()))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(state: S) -> Self {
        Actor { handle: Handle::new(state) }
    }

    /// An actor with a name, a capacity, a panic policy or hooks.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Overflow};
    ///
    /// let inbox = Actor::builder(Vec::<u32>::new()).name("inbox").capacity(1000, Overflow::Reject).spawn()?;
    /// assert_eq!(inbox.name(), Some("inbox"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(state: S) -> ActorBuilder<S> {
        ActorBuilder::new(state)
    }

    /// An actor whose state is made by this factory before its first turn; as [`ActorBuilder::lazy`], with nothing else said about it.
    ///
    /// # Examples
    /// ```
    /// let cache = turnwise::Actor::lazy(|| vec![0_u8; 1 << 20]);
    /// cache.send(|cache| cache[0] = 1)?; // here it is made
    /// assert_eq!(cache.with(|cache| cache.len())?, 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lazy(factory: impl FnOnce() -> S + Send + 'static) -> Self {
        ActorBuilder::lazy(factory).made(builder::Limits::NONE)
    }

    /// Sends a message. Never waits: if the actor is idle it is run here and now, otherwise it is left in the mailbox.
    ///
    /// On return the message has been accepted: it will be run once, after those accepted before it, unless the actor is stopped first
    /// (then it goes to the undelivered hook). If it was run here, so were the messages that arrived meanwhile. Its panic does not come
    /// back here: the [panic policy](crate::Panic) deals with it.
    ///
    /// Lock-free, apart from the global allocator for a closure of more than 48 bytes. No heap allocation per message up to that size.
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    ///
    /// # Examples
    /// ```
    /// let sum = turnwise::Actor::new(0);
    /// for n in 1..=10 {
    ///     sum.send(move |sum| *sum += n)?;
    /// }
    /// assert_eq!(sum.with(|sum| *sum)?, 55);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn send<F>(&self, message: F) -> Result<(), SendError<F>>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        self.handle.send(Closure::new(message)).map_err(closure_back)
    }

    /// Sends a message if there is room for it; the same as [`send`](Self::send) with [`Overflow::Reject`](crate::Overflow::Reject), whatever was chosen.
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Overflow, Reason};
    ///
    /// let one = Actor::builder(0).capacity(1, Overflow::Reject).spawn()?;
    /// one.enqueue(|n| *n += 1)?; // waits: nobody drains yet
    /// let refused = one.enqueue(|n| *n += 1).unwrap_err();
    /// assert_eq!(refused.reason(), &Reason::Full);
    /// one.drain();
    /// one.try_send(refused.into_message())?;
    /// assert_eq!(one.with(|n| *n)?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_send<F>(&self, message: F) -> Result<(), SendError<F>>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        self.handle.try_send(Closure::new(message)).map_err(closure_back)
    }

    /// Sends a message, and waits for room until `limit` is over if the mailbox is full. May block.
    ///
    /// Those who wait are let in by the drainer in the order in which they came, several at a time. With another
    /// [`Overflow`](crate::Overflow) than `Reject`, nobody has to wait. Inside a turn of another actor that has
    /// sent to others, another thread runs them while this one sleeps.
    ///
    /// # Errors
    /// The message comes back, and certainly was not sent: [`Reason::Full`](crate::Reason::Full) when the time is over,
    /// [`Reason::Deadlock`](crate::Reason::Deadlock) at once inside a turn of this very actor, or if the actor is closed or stopped.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, Limit, Overflow};
    ///
    /// let n = Actor::builder(0).capacity(1, Overflow::Reject).spawn()?;
    /// n.send_within(Duration::from_millis(500), |n| *n += 1)?;
    /// n.send_within(Limit::Unlimited, |n| *n += 1)?;
    /// assert_eq!(n.with(|n| *n)?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_within<F>(&self, limit: impl Into<Limit>, message: F) -> Result<(), SendError<F>>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        self.handle.send_within(Closure::new(message), limit.into()).map_err(closure_back)
    }

    /// Sends a message, and waits for room without blocking the thread. Dropping the future before it is ready withdraws the message, unless
    /// it was let in meanwhile.
    ///
    /// # Errors
    /// The message comes back if the actor is closed or stopped, or if this is awaited inside a turn of this very actor.
    ///
    /// # Examples
    /// ```
    /// # use std::future::Future;
    /// let n = turnwise::Actor::new(0);
    /// let mut sending = std::pin::pin!(n.send_async(|n| *n += 1));
    /// let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// assert!(sending.as_mut().poll(&mut cx).is_ready());
    /// assert_eq!(n.with(|n| *n)?, 1);
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    pub fn send_async<F>(&self, message: F) -> impl Future<Output = Result<(), SendError<F>>> + Send
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        let sending = self.handle.send_async(Closure::new(message));
        async move { sending.await.map_err(closure_back) }
    }

    /// Sends many messages in one step, in their order: all are accepted, side by side, or none.
    ///
    /// One compare-and-swap for all of them. The iterator is run to its end first; if it panics, nothing is sent. Lock-free, as `send`.
    ///
    /// # Errors
    /// All messages come back if the actor is closed, stopped, or has not room for all.
    ///
    /// # Examples
    /// ```
    /// let log = turnwise::Actor::new(Vec::new());
    /// log.send_many((1..=3).map(|n| move |log: &mut Vec<u32>| log.push(n)))?;
    /// assert_eq!(log.with(|log| log.clone())?, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_many<I>(&self, messages: I) -> Result<(), SendError<Vec<I::Item>>>
    where
        I: IntoIterator,
        I::Item: FnOnce(&mut S) + Send + 'static,
    {
        let sent = self.handle.send_many(messages.into_iter().map(Closure::new));
        sent.map_err(|(messages, reason)| SendError::new(messages.into_iter().map(|message| message.f).collect(), reason))
    }

    /// Sends a message that never runs in this call: for callers that hold a lock which a message may want.
    ///
    /// If nobody is draining, the mailbox is handed to the actor's executor, or, without one, to a thread made for it; several posts
    /// make one such hand-over. As [`send`](Self::send) in every other respect. A caller that may drain and
    /// comes by earlier runs the message: then there is nothing left for the other thread to do.
    ///
    /// Does not wait for other threads. Without an executor, and if the system has no thread to give, the message waits as after
    /// [`enqueue`](Self::enqueue).
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    ///
    /// # Examples
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// let seats = Arc::new(Mutex::new(10));
    /// let clerk = turnwise::Actor::new(seats.clone());
    /// let mut locked = seats.lock().unwrap();
    /// *locked -= 1;
    /// clerk.post(|seats| *seats.lock().unwrap() -= 1)?; // `send` would wait here for ever
    /// drop(locked);
    /// clerk.wait_idle()?;
    /// assert_eq!(*seats.lock().unwrap(), 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn post<F>(&self, message: F) -> Result<(), SendError<F>>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        self.handle.leave(Closure::new(message)).map_err(closure_back)
    }

    /// Leaves a message in the mailbox, never drains here, and tells nobody: [`post`](Self::post) without the hand-over.
    ///
    /// If nobody is draining, the message waits for the next `send`, `with`, wait, [`drain`](Self::drain), `close` or drop of a handle that
    /// comes by. Lock-free, as `send`.
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    ///
    /// # Examples
    /// ```
    /// let log = turnwise::Actor::new(Vec::new());
    /// log.enqueue(|log| log.push(1))?;
    /// assert_eq!(log.len(), 1); // nothing has run
    /// assert!(log.drain()); // outside of the lock
    /// assert_eq!(log.with(|log| log.clone())?, [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enqueue<F>(&self, message: F) -> Result<(), SendError<F>>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        self.handle.enqueue(Closure::new(message)).map_err(closure_back)
    }

    /// Runs what waits in the mailbox here and now, if nobody else does. True if this call ran something.
    ///
    /// Lock-free; runs until the mailbox is empty. Inside a turn of this very actor it does nothing.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// assert!(!n.drain());
    /// n.enqueue(|n| *n += 1)?;
    /// assert!(n.drain());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain(&self) -> bool {
        self.handle.drain()
    }

    /// Asks: sends a message whose result comes back in a [`Reply`].
    ///
    /// Runs here and now if the actor is idle, and the reply is ready on return; otherwise one allocation carries question and answer.
    /// Lock-free. Dropping the reply leaves the question in the mailbox.
    ///
    /// A question that is refused comes back as a reply with the reason; [`try_ask`](Self::try_ask) hands the closure back.
    ///
    /// # Examples
    /// ```
    /// let stock = turnwise::Actor::new(vec![3, 1, 2]);
    /// let largest = stock.ask(|stock| stock.iter().copied().max());
    /// assert_eq!(largest.wait()?, Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn ask<F, R>(&self, question: F) -> Reply<R>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        match self.handle.ask(Closure::new(question)) {
            Ok(answer) => Reply::new(answer),
            Err((_, reason)) => Reply::failed(reason.into()),
        }
    }

    /// [`ask`](Self::ask) that hands a refused question back.
    ///
    /// # Errors
    /// The question comes back if the actor is closed, stopped, or its mailbox full.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(1);
    /// n.close();
    /// let question = n.try_ask(|n| *n).unwrap_err().into_message();
    /// assert_eq!(question(&mut 7), 7);
    /// ```
    pub fn try_ask<F, R>(&self, question: F) -> Result<Reply<R>, SendError<F>>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.ask(Closure::new(question)).map(Reply::new).map_err(closure_back)
    }

    /// Asks and waits, for `limit` at most; a question that has not started by then is cancelled. May block.
    ///
    /// # Errors
    /// [`Unanswered::Cancelled`]: it certainly never runs. [`Unanswered::Running`]: it is running, and here is its reply.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let n = turnwise::Actor::new(2);
    /// let answer = n.ask_within(Duration::from_millis(100), |n| *n * 2);
    /// assert!(matches!(answer, Ok(4)));
    /// ```
    pub fn ask_within<F, R>(&self, limit: impl Into<Limit>, question: F) -> Result<R, Unanswered<R>>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        self.ask(question).wait_or_cancel(limit)
    }

    /// Runs a closure on the state and waits for its result; the closure may borrow the caller's locals.
    ///
    /// On the spot if the actor is idle, at the price of a mutex; otherwise the message waits its turn like any other, without an
    /// allocation, and this thread sleeps. May block. Inside a turn of another actor that has
    /// sent to others, another thread runs them while this one sleeps.
    ///
    /// # Errors
    /// [`AskError::Deadlock`] at once inside a turn of this very actor, [`AskError::WouldBlock`] if it is busy and this thread is a pool's worker
    /// that must not wait; else if the actor is closed, stopped or full. The closure did not run.
    ///
    /// # Panics
    /// With the closure's own panic, after the policy has dealt with it.
    ///
    /// # Examples
    /// ```
    /// let names = turnwise::Actor::new(vec!["ada".to_string()]);
    /// let mut longest = String::new();
    /// names.with(|names| longest.clone_from(&names[0]))?;
    /// assert_eq!(longest, "ada");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn with<F, R>(&self, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        self.handle.with(f)
    }

    /// Takes no new messages; those that were accepted before are run. False if it was closed already.
    ///
    /// One step in the order of the messages: what was accepted before it runs, what comes after is refused. Lock-free; never waits. If the
    /// actor is idle it ends here and now.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// assert!(n.close());
    /// assert!(!n.close());
    /// assert!(n.send(|n| *n += 1).is_err());
    /// ```
    pub fn close(&self) -> bool {
        self.handle.close()
    }

    /// Closes the actor if nothing runs or waits in it: one compare-and-swap. True if it did.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// n.enqueue(|n| *n += 1)?;
    /// assert!(!n.close_if_idle());
    /// n.drain();
    /// assert!(n.close_if_idle());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close_if_idle(&self) -> bool {
        self.handle.close_if_idle()
    }

    /// Takes no new messages and runs none of those that wait: each goes to the undelivered hook, its asker gets
    /// [`AskError::Stopped`]. The turn that is running ends in its own time. False if it was stopped already. Lock-free; never waits.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Reason, StopCause};
    ///
    /// let n = Actor::new(0);
    /// n.stop();
    /// let refused = n.send(|n| *n += 1).unwrap_err();
    /// assert_eq!(refused.reason(), &Reason::Stopped(StopCause::Requested));
    /// ```
    pub fn stop(&self) -> bool {
        self.handle.stop()
    }

    /// Waits until nothing runs or waits in the mailbox; it may be busy again on return. May block.
    ///
    /// # Errors
    /// [`AskError::Deadlock`] inside a turn of this very actor, [`AskError::WouldBlock`] on a pool's worker that must not wait.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// n.send(|n| *n += 1)?;
    /// n.wait_idle()?;
    /// assert!(n.is_idle());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_idle(&self) -> Result<(), AskError> {
        self.handle.wait_idle(self.handle.deadline(Limit::Unlimited)).map_err(|why| match why {
            NotWaited::WouldBlock => AskError::WouldBlock,
            NotWaited::Deadlock | NotWaited::TimedOut => AskError::Deadlock,
        })
    }

    /// Waits until the actor is closed and everything accepted has been run or given back, its end hook included. May block.
    /// True if that is so, false if `limit` passed first.
    ///
    /// # Errors
    /// [`AskError::Deadlock`] inside a turn of this very actor, [`AskError::WouldBlock`] on a pool's worker that must not wait.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let n = turnwise::Actor::new(0);
    /// assert!(!n.wait_ended(Duration::ZERO)?);
    /// n.close();
    /// assert!(n.wait_ended(Duration::from_secs(1))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_ended(&self, limit: impl Into<Limit>) -> Result<bool, AskError> {
        match self.handle.wait_ended(self.handle.deadline(limit.into())) {
            Ok(()) => Ok(true),
            Err(NotWaited::TimedOut) => Ok(false),
            Err(NotWaited::Deadlock) => Err(AskError::Deadlock),
            Err(NotWaited::WouldBlock) => Err(AskError::WouldBlock),
        }
    }

    /// A handle that does not keep the actor going.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// let weak = n.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(n);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn downgrade(&self) -> WeakActor<S> {
        WeakActor::of(self.handle.downgrade())
    }
}

/// A refused closure, for its sender.
#[cold]
fn closure_back<F, R>((message, reason): (Closure<F, R>, Reason)) -> SendError<F> {
    SendError::new(message.f, reason)
}

impl<S> Actor<S> {
    /// Does the actor refuse new messages? Once true, true for ever. Wait-free.
    pub fn is_closed(&self) -> bool {
        self.handle.core().word.load().has(CLOSED)
    }

    /// Does nothing run or wait in it? Stale on return. Wait-free.
    pub fn is_idle(&self) -> bool {
        self.handle.core().word.load().count() == 0
    }

    /// Messages accepted and not done, the running one included: an upper bound, late by at most a batch; from 65,535 on "at least". Stale
    /// on return. Wait-free.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// n.enqueue(|n| *n += 1)?;
    /// n.enqueue(|n| *n += 1)?;
    /// assert_eq!(n.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[expect(clippy::len_without_is_empty, reason = "`is_idle` is the question that makes sense of an actor")]
    pub fn len(&self) -> usize {
        self.handle.core().word.load().count() as usize
    }

    /// The name it was built with.
    pub fn name(&self) -> Option<&str> {
        self.handle.core().about().name.as_deref()
    }

    /// The largest number of messages that may wait, if there is one.
    pub fn capacity(&self) -> Option<usize> {
        self.handle.core().capacity()
    }

    /// Why the actor was stopped, if it was.
    pub fn stop_cause(&self) -> Option<StopCause> {
        self.handle.core().stop_cause()
    }

    /// Do both handles lead to the same actor?
    pub fn same_actor(&self, other: &Self) -> bool {
        std::ptr::eq(self.handle.core(), other.handle.core())
    }
}

impl<S> Clone for Actor<S> {
    #[inline]
    fn clone(&self) -> Self {
        Actor { handle: self.handle.clone() }
    }
}

impl<S> fmt::Debug for Actor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.handle.core().word.load();
        f.debug_struct("Actor")
            .field("name", &self.name())
            .field("messages", &now.count())
            .field("closed", &now.has(CLOSED))
            .field("handles", &self.handle.handles())
            .finish_non_exhaustive()
    }
}
