//! The methods of [`Actor`].

#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{Hash, Hasher};

use super::message::{Handler, Typed};
use super::outgoing;
use super::reply;
use super::snapshot::show;
use super::{
    Actor, ActorBuilder, ActorSnapshot, Ending, Posted, Promise, Reply, Waiting, WeakActor,
};
use crate::cell::message::Closure;
use crate::cell::refs::Strong;
#[cfg(doc)]
use crate::error::Reason;
use crate::error::{AskError, SendError, StopCause};
use crate::mailbox::word::CLOSED;
use crate::send::push::By;
use crate::send::wait::WaitFor;
use crate::thread::waits_for::WaitSnapshot;

impl<S: Send + 'static> Actor<S> {
    /// An actor with this state, no limit and no hooks: one small allocation.
    ///
    /// A turn that panics stops it ([`PanicPolicy::Stop`](crate::PanicPolicy::Stop)).
    ///
    /// # Examples
    /// ```
    /// let log = turnwise::Actor::new(Vec::<String>::new());
    /// log.send(|log| log.push("started".into()))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(state: S) -> Self {
        Actor { handle: Strong::new(state) }
    }

    /// Configures actors with a name, a capacity, an executor, a panic policy or hooks.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Overflow};
    ///
    /// let inbox =
    ///     Actor::builder().name("inbox").capacity(1000, Overflow::Reject).spawn(vec![1, 2])?;
    /// assert_eq!(inbox.name(), Some("inbox"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> ActorBuilder<S> {
        ActorBuilder::new()
    }

    /// Sends a closure. Never waits: if the actor is idle the closure is run here and now,
    /// otherwise it is left in the mailbox.
    ///
    /// On return the message has been accepted: it will be run once, after those accepted before
    /// it, unless the actor is stopped first (then it goes to the undelivered hook). If it was run
    /// here, so were messages that arrived meanwhile, within the actor's
    /// [budget](ActorBuilder::budget). Its panic does not come back here: the [panic
    /// policy](crate::PanicPolicy) deals with it.
    ///
    /// Lock-free, apart from the global allocator for a closure of more than 48 bytes, and from an
    /// executor that is called. No heap allocation per message up to that size.
    ///
    /// # Errors
    /// The message comes back if the actor is closed or stopped, its mailbox full, or its executor
    /// gone.
    ///
    /// # Examples
    /// ```
    /// let sum = turnwise::Actor::new(0);
    /// for n in 1..=10 {
    ///     sum.send(move |sum| *sum += n)?;
    /// }
    /// assert_eq!(sum.with(|sum| *sum)?, 55);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[inline]
    pub fn send<F>(&self, message: F) -> Result<(), SendError<F>>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        outgoing::send(&self.handle, Closure::new(message), By::Sender)
    }

    /// Sends a typed message; as [`send`](Self::send) in every respect. What the handler returns is
    /// dropped.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Context, Handler};
    ///
    /// struct Till(u64);
    /// struct Coin(u64);
    /// impl Handler<Coin> for Till {
    ///     type Reply = ();
    ///     fn handle(&mut self, Coin(worth): Coin, _: &mut Context<'_, Self>) {
    ///         self.0 += worth;
    ///     }
    /// }
    ///
    /// let till = Actor::new(Till(10));
    /// till.tell(Coin(2))?;
    /// assert_eq!(till.with(|till| till.0)?, 12);
    /// till.close();
    /// assert_eq!(till.tell(Coin(5)).unwrap_err().into_message().0, 5);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[inline]
    pub fn tell<M: Send + 'static>(&self, message: M) -> Result<(), SendError<M>>
    where
        S: Handler<M>,
    {
        outgoing::send(&self.handle, Typed(message), By::Sender)
    }

    /// Sends a closure whose result comes back in a [`Reply`].
    ///
    /// Runs here and now if the actor is idle, and the reply is ready on return; otherwise one
    /// allocation carries question and answer. Lock-free, as [`send`](Self::send). Dropping the
    /// reply leaves the question in the mailbox. A question that is refused comes back as a reply
    /// with the reason.
    ///
    /// # Examples
    /// ```
    /// let stock = turnwise::Actor::new(vec![3, 1, 2]);
    /// let largest = stock.call(|stock| stock.iter().copied().max());
    /// assert_eq!(largest.wait()?, Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn call<F, R>(&self, question: F) -> Reply<R>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        outgoing::ask(&self.handle, Closure::new(question), By::Sender)
    }

    /// Sends a typed message whose result comes back in a [`Reply`]; as [`call`](Self::call) in
    /// every respect.
    ///
    /// [`Reply::cancel`] gives the message back, also if it was refused.
    #[inline]
    pub fn ask<M, R>(&self, message: M) -> Reply<R, M>
    where
        S: Handler<M, Reply = R>,
        M: Send + 'static,
        R: Send + 'static,
    {
        outgoing::ask(&self.handle, Typed(message), By::Sender)
    }

    /// Runs a closure on the state and waits for its result; the closure may borrow the caller's
    /// locals.
    ///
    /// On the spot if the actor is idle and may run here, at the price of a mutex; otherwise the
    /// message waits its turn like any other, without an allocation, and this thread sleeps. May
    /// block. Inside a turn of another actor that has sent to others, their messages go to their
    /// executors while this thread sleeps. For a wait with a limit, see [`call`](Self::call) and
    /// [`Reply::within`].
    ///
    /// The thread that is to run the actor's executor waits for ever in here: on an actor of a
    /// [`DrainQueue`](crate::executor::DrainQueue) that this thread runs, use [`call`](Self::call).
    ///
    /// # Errors
    /// [`AskError::Refused`], and the closure did not run: [`Reason::Deadlock`] inside a turn that
    /// the actor waits for, or its own, [`Reason::WouldBlock`] if this thread is a pool's worker
    /// that must not wait; or if the actor is closed, stopped or full.
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
        outgoing::with(&self.handle, f)
    }

    /// Runs a closure on the state here and now, or not at all: if nothing of the actor runs or
    /// waits. It may borrow the caller's locals, and need not be `Send`: no other thread gets it.
    ///
    /// It overtakes no message, and an attempt that fails leaves nothing in the mailbox. Of several
    /// threads that try an idle actor at the same time, at least one runs its closure. A capacity
    /// does not matter here.
    ///
    /// The closure is a turn like that of [`with`](Self::with), inside a turn of another actor,
    /// too: what it sends is run after it, or after the outermost turn; what has arrived meanwhile
    /// is run in this call, within the actor's [budget](ActorBuilder::budget). Lock-free; never
    /// waits for another thread.
    ///
    /// # Errors
    /// The closure comes back: with [`Reason::Busy`], or, inside a turn of this very actor, with
    /// [`Reason::Deadlock`], for there it never succeeds; with [`Reason::HasExecutor`] if the actor
    /// has an executor; or if the actor is closed or stopped.
    ///
    /// # Panics
    /// With the closure's own panic, after the policy has dealt with it.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Reason};
    ///
    /// let names = Actor::new(vec!["ada".to_string()]);
    /// let (mut longest, itself) = (String::new(), names.clone());
    /// let again = names.try_with(|names| {
    ///     longest.clone_from(&names[0]);
    ///     itself.try_with(|_| ()).unwrap_err().into_reason()
    /// });
    /// assert!(matches!(again.unwrap(), Reason::Deadlock(_)));
    /// assert_eq!(longest, "ada");
    /// ```
    #[inline]
    pub fn try_with<F, R>(&self, f: F) -> Result<R, SendError<F>>
    where
        F: FnOnce(&mut S) -> R,
    {
        outgoing::try_with(&self.handle, f)
    }

    /// Sends many closures in one step, in their order: all are accepted, side by side, or none.
    ///
    /// One compare-and-swap for all of them. The iterator is run to its end first; if it panics,
    /// nothing is sent. Lock-free, as [`send`](Self::send).
    ///
    /// # Errors
    /// All messages come back if the actor is closed, stopped, or has no room for all.
    ///
    /// # Examples
    /// ```
    /// let log = turnwise::Actor::new(Vec::new());
    /// log.send_many((1..=3).map(|n| move |log: &mut Vec<u32>| log.push(n)))?;
    /// assert_eq!(log.with(|log| log.clone())?, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn send_many<I>(&self, messages: I) -> Result<(), SendError<Vec<I::Item>>>
    where
        I: IntoIterator,
        I::Item: FnOnce(&mut S) + Send + 'static,
    {
        outgoing::send_many(&self.handle, messages.into_iter().map(Closure::new))
    }

    /// The verbs of a handle, for messages that must never run in the call: for callers that hold a
    /// lock which a message may want.
    ///
    /// # Examples
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// let seats = Arc::new(Mutex::new(10));
    /// let clerk = turnwise::Actor::new(seats.clone());
    /// let mut locked = seats.lock().unwrap();
    /// *locked -= 1;
    /// clerk.posted().send(|seats| *seats.lock().unwrap() -= 1)?; // `send` would wait for ever
    /// drop(locked);
    /// clerk.idle().wait()?;
    /// assert_eq!(*seats.lock().unwrap(), 8);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn posted(&self) -> Posted<'_, S> {
        Posted { actor: self }
    }

    /// The verbs of a handle, for senders that wait for room in a full mailbox.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, Overflow};
    ///
    /// let n = Actor::builder().capacity(1, Overflow::Reject).spawn(0)?;
    /// n.waiting().send(|n| *n += 1).wait()?;
    /// n.waiting().send(|n| *n += 1).within(Duration::from_millis(500))?;
    /// assert_eq!(n.waiting().call(|n| *n).wait()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn waiting(&self) -> Waiting<'_, S> {
        Waiting { actor: self }
    }

    /// Takes no new messages; those that were accepted before are run. False if it was closed
    /// already.
    ///
    /// One step in the order of the messages: what was accepted before it runs, what comes after is
    /// refused. Lock-free; never waits. If the actor is idle and may run here, it ends here and
    /// now.
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

    /// Takes no new messages and runs none of those that wait: each goes to the undelivered hook,
    /// its asker is [refused](AskError::Refused). The turn that is running ends in its own time.
    /// False if it was stopped already, or has ended. Lock-free; never waits.
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

    /// The next time that nothing runs or waits in the mailbox: a future, or something to
    /// [wait for](Ending::wait). It keeps a handle. The actor may be busy again by the time that
    /// the wait returns.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// n.send(|n| *n += 1)?;
    /// n.idle().wait()?; // or `n.idle().await`
    /// assert!(n.is_idle());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn idle(&self) -> Ending<S> {
        Ending::new(self.clone(), WaitFor::Idle)
    }

    /// The end of the actor: it is closed or stopped, and everything accepted has been run or given
    /// back, its end hook included. A future, or something to [wait for](Ending::wait). It keeps a
    /// handle, so an actor that is not closed or stopped does not end while it is there.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let n = turnwise::Actor::new(0);
    /// assert!(!n.ended().within(Duration::ZERO)?);
    /// n.close();
    /// n.ended().wait()?; // or `n.ended().await`
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ended(&self) -> Ending<S> {
        Ending::new(self.clone(), WaitFor::End)
    }

    /// A [`promise`](crate::promise) whose waits are measured on this actor's clock, as waits for
    /// the actor are. Lock-free.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, Promise, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let waiting = Actor::builder().clock(clock.clone()).spawn(Vec::<Promise<u32>>::new())?;
    /// let (promise, reply) = waiting.promise();
    /// waiting.send(move |waiting| waiting.push(promise))?;
    /// let late = std::thread::spawn(move || reply.within(Duration::from_secs(3600)));
    /// clock.wait_for_sleepers(1);
    /// clock.advance(Duration::from_secs(3600));
    /// assert!(late.join().unwrap().is_err());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn promise<R: Send + 'static>(&self) -> (Promise<R>, Reply<R>) {
        reply::promise_of(self.handle.header().config())
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

impl<S> Actor<S> {
    /// True if the actor refuses new messages. Once true, true for ever. Wait-free.
    pub fn is_closed(&self) -> bool {
        self.handle.header().word.load().has(CLOSED)
    }

    /// True if no message runs or waits. Stale on return. Wait-free.
    pub fn is_idle(&self) -> bool {
        self.handle.header().word.load().count() == 0
    }

    /// Messages accepted and not done, the running one included: an upper bound, late by at most a
    /// batch; from 32,767 on "at least". Stale on return. Wait-free.
    ///
    /// # Examples
    /// ```
    /// use turnwise::Actor;
    /// use turnwise::executor::DrainQueue;
    ///
    /// let queue = DrainQueue::new();
    /// let n = Actor::builder().executor(queue.handle()).spawn(0)?;
    /// n.send(|n| *n += 1)?;
    /// n.send(|n| *n += 1)?;
    /// assert_eq!(n.len(), 2);
    /// queue.run_until_idle();
    /// assert_eq!(n.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[expect(clippy::len_without_is_empty, reason = "`is_idle` is the question that makes sense")]
    pub fn len(&self) -> usize {
        self.handle.header().len() as usize
    }

    /// The name it was built with.
    pub fn name(&self) -> Option<&str> {
        self.handle.header().config().name.as_deref()
    }

    /// The cause of the actor's stop, if it was stopped.
    pub fn stop_cause(&self) -> Option<StopCause> {
        self.handle.header().stop_cause()
    }

    /// Returns the actor's activity and its numbers: as of one look, and stale on return.
    ///
    /// Waits for no turn, and runs none. Takes a short lock each for the senders that wait for
    /// room, for the cause of a stop, and for the counts of an actor that was [built to be
    /// counted](ActorBuilder::counted). Allocates the name.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Overflow, PanicPolicy};
    ///
    /// let n = Actor::builder()
    ///     .capacity(8, Overflow::Reject)
    ///     .counted(true)
    ///     .panic_policy(PanicPolicy::Resume)
    ///     .spawn(0)?;
    /// n.send(|n| *n += 1)?;
    /// n.send(|_| panic!("oops"))?;
    /// n.close();
    /// assert!(n.send(|n| *n += 1).is_err());
    ///
    /// let snapshot = n.snapshot();
    /// assert_eq!((snapshot.capacity, snapshot.discarded), (Some(8), 0));
    /// let stats = snapshot.stats.unwrap();
    /// assert_eq!((stats.handled, stats.panicked, stats.refused), (2, 1, 1));
    /// assert_eq!(Actor::new(0).snapshot().stats, None);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn snapshot(&self) -> ActorSnapshot {
        let addr = self.handle.addr();
        ActorSnapshot::of(self.handle.header(), addr, WaitSnapshot::look().of(addr))
    }
}

/// By identity: equal handles lead to the same actor, as clones do. Wait-free.
///
/// # Examples
/// ```
/// use turnwise::Actor;
///
/// let (one, other) = (Actor::new(0), Actor::new(0));
/// assert!(one == one.clone() && one != other);
/// ```
impl<S> PartialEq for Actor<S> {
    fn eq(&self, other: &Self) -> bool {
        self.handle.addr() == other.handle.addr()
    }
}

impl<S> Eq for Actor<S> {}

/// By identity, as [`PartialEq`].
impl<S> Hash for Actor<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.handle.addr().hash(state);
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
        let mut f = f.debug_struct("Actor");
        show(&mut f, self.handle.header());
        f.field("handles", &self.handle.handles()).finish_non_exhaustive()
    }
}
