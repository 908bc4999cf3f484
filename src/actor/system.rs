//! A scope that owns the lifetime of actors: they end when it ends.
//!
//! A system keeps no actor going and runs nothing by itself. It knows which have not ended
//! ([`registry`](super::registry)), and ends them ([`shutdown`](super::shutdown)).
//!
//! Progress: `spawn` and an actor's end take a short lock; `shutdown` blocks up to its limit;
//! dropping the last handle of a system waits for nothing.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::registry::{Member, SystemShared};
use super::shutdown::{Closing, ShutdownReport, shut_down, stop_all};
use super::snapshot::show;
use super::{Actor, ActorBuilder, Spawner};
use crate::cell::refs::Strong;
use crate::error::{BuildError, Reason};
use crate::time::{Clock, Limit};

/// A scope that owns the lifetime of actors: none of them outlives it by more than the turn it is
/// in.
///
/// An actor of a system ends as any other (its last handle goes, it is closed or stopped, a turn
/// panics), or when the system does: by [`shutdown`](Self::shutdown), which lets its actors finish
/// what they have accepted until a deadline, or by the drop of the system's last handle, which
/// stops them. The system keeps no actor going, and forgets those that have ended.
///
/// Clones are handles to the same system. Its actors hold none: a system that is to end with one of
/// its actors has its only clone in that actor's state.
///
/// # Dropping
/// The drop of the last clone stops all actors of the system: what waits is given back, each asker
/// gets an error, and turns that run end in their own time. It waits for nothing, so a drop never
/// hangs. Outside of turns it runs undelivered hooks and end hooks of
/// actors that have no executor and are not being run; inside a turn, these are run when the
/// turn is over. After a complete shutdown there is nothing to do.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, System, ThreadPool};
///
/// let pool = ThreadPool::new()?;
/// let system = System::new();
/// let log = system.spawn(Actor::builder().name("log"), Vec::new())?;
/// let hits = system.spawn(Actor::builder().executor(pool.handle()), 0)?;
/// hits.send(|n| *n += 1)?;
/// let asked = hits.call(|n| *n);
///
/// let report = system.shutdown(Duration::from_secs(5))?;
/// assert!(report.is_complete());
/// assert_eq!((report.ended, report.stopped), (2, 0));
/// assert_eq!(asked.wait()?, 1);
/// assert!(log.send(|log| log.push("too late")).is_err());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone)]
#[must_use = "dropping the last handle of a system stops its actors"]
pub struct System {
    scope: Arc<Scope>,
}

/// Shared by the clones of a system: the last one drops it.
struct Scope {
    shared: Arc<SystemShared>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        stop_all(&self.shared);
    }
}

impl System {
    /// A system without actors, whose limits are measured on the machine's monotonic clock.
    pub fn new() -> Self {
        Self::of(SystemShared::new(None))
    }

    /// A system whose limits are measured on this clock, and those of all actors spawned in it that
    /// bring none of their own.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{System, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let system = System::with_clock(clock.clone());
    /// let n = system.actor(0)?;
    /// let waiting = std::thread::spawn(move || n.ended().within(Duration::from_secs(60)));
    /// clock.wait_for_sleepers(1);
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(waiting.join().unwrap(), Ok(false));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        Self::of(SystemShared::new(Some(Arc::new(clock))))
    }

    fn of(shared: Arc<SystemShared>) -> Self {
        System { scope: Arc::new(Scope { shared }) }
    }

    pub(super) fn shared(&self) -> &Arc<SystemShared> {
        &self.scope.shared
    }

    /// An actor of this system with this state, no limit and no hooks. Takes a short lock.
    ///
    /// # Errors
    /// [`BuildError::ShutDown`]: the state is dropped.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{BuildError, System};
    ///
    /// let system = System::new();
    /// assert_eq!(system.actor(1)?.with(|n| *n)?, 1);
    /// system.shutdown(Duration::ZERO)?;
    /// assert_eq!(system.actor(2).unwrap_err(), BuildError::ShutDown);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn actor<S: Send + 'static>(&self, state: S) -> Result<Actor<S>, BuildError> {
        self.spawn_with(None, state)
    }

    /// An actor of this system, configured by a builder. Takes a short lock.
    ///
    /// # Errors
    /// [`BuildError::ShutDown`], or why no actor can be built like that: the state is dropped.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Overflow, System};
    ///
    /// let system = System::new();
    /// let builder = Actor::builder().name("inbox").capacity(100, Overflow::Reject);
    /// let inbox = system.spawn(builder, Vec::<u32>::new())?;
    /// assert_eq!(inbox.name(), Some("inbox"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn spawn<S: Send + 'static>(
        &self,
        builder: ActorBuilder<S>,
        state: S,
    ) -> Result<Actor<S>, BuildError> {
        self.spawn_with(Some(&builder.build()?), state)
    }

    /// An actor of this system, made by a [`Spawner`]. One without a clock of its own gets the
    /// system's. Takes a short lock.
    ///
    /// A system registers each of its actors, which costs about 300 bytes more than
    /// [`Spawner::spawn`].
    ///
    /// # Errors
    /// [`BuildError::ShutDown`]: the state is dropped.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, BuildError, System};
    ///
    /// let system = System::new();
    /// let counters = Actor::builder().name("counter").build()?;
    /// let one = system.spawn_from(&counters, 1)?;
    /// assert_eq!((one.with(|n| *n)?, system.actors()), (1, 1));
    /// assert_eq!(system.shutdown(Duration::ZERO)?.ended, 1);
    /// assert_eq!(system.spawn_from(&counters, 2).unwrap_err(), BuildError::ShutDown);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn spawn_from<S: Send + 'static>(
        &self,
        spawner: &Spawner<S>,
        state: S,
    ) -> Result<Actor<S>, BuildError> {
        self.spawn_with(Some(spawner), state)
    }

    fn spawn_with<S: Send + 'static>(
        &self,
        spawner: Option<&Spawner<S>>,
        state: S,
    ) -> Result<Actor<S>, BuildError> {
        let shared = self.shared();
        let mut state = Some(state);
        let spawned = shared.spawn(|membership| {
            let state = state.take().expect("an actor is made once");
            let built = spawner.map(|spawner| spawner.built.clone());
            let guard = Box::new(membership);
            Actor { handle: Strong::guarded(state, built, guard, shared.own_clock()) }
        });
        // Not under the lock of the members: what is left of the state is dropped here.
        spawned.ok_or(BuildError::ShutDown)
    }

    /// The number of actors that have not ended. Stale on return: one is counted for a moment
    /// longer than [`ended`](Actor::ended) waits.
    pub fn actors(&self) -> usize {
        self.shared().len()
    }

    /// Returns true if it has been shut down. Once true, true for ever.
    pub fn is_shut_down(&self) -> bool {
        !self.shared().is_open()
    }

    /// Ends all actors of this system, and waits for that until `limit` is over. May block.
    ///
    /// No actor is taken in any more. All actors are closed: they take no new messages, and what
    /// was accepted is run, never on this thread. When the time is over, all actors that have not
    /// ended are stopped: what waits in them goes to the undelivered hooks, and askers are
    /// [refused](crate::AskError::Refused). A limit of zero is one attempt: only idle actors end by
    /// themselves.
    ///
    /// Called outside of turns, it runs the ends of idle actors that have no executor: their end
    /// hooks, and the drops of their states. They end one after the other on this thread. An end
    /// hook that waits for an actor, or awaits what this crate gives, hands the others over: they
    /// end in the fallback then. One that blocks on anything else does so inside of
    /// [`blocking`](crate::blocking). The call looks at the clock after each end; what has not
    /// ended when the time is over ends elsewhere, apart from a limit of zero, where all of these
    /// ends are in the call. An actor with an executor ends there, so with a
    /// limit of zero it may be reported as running.
    ///
    /// A turn is never interrupted. Actors inside one are named in the report; what waits behind
    /// that turn is given back when it ends. A worker of a pool that waits in here leaves its place
    /// to another thread; one that cannot ([`Blocking`](crate::executor::Blocking)) waits all the
    /// same.
    ///
    /// Stages that end in order are systems of their own, shut down from last to first, as in
    /// the example below.
    ///
    /// # Errors
    /// [`Reason::Deadlock`] inside a turn of one of the system's actors, which cannot end before
    /// this call returns: nothing has happened. Another thread may shut the system down meanwhile,
    /// and [`shutdown_async`](Self::shutdown_async) makes a future that may be given to one.
    ///
    /// Inside a turn of another actor, if one of the system's actors waits for that turn: the
    /// system is closed, and its actors end by themselves.
    ///
    /// [`Reason::WouldBlock`] inside of a runtime of one thread that one of the actors runs on
    /// ([`Executor::needs_this_thread`](crate::Executor::needs_this_thread)): the actors are
    /// closed.
    ///
    /// # Panics
    /// If the system's clock does. The actors that were closed by then end by themselves.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, AskError, StopCause, System};
    ///
    /// let queue = DrainQueue::new();
    /// let system = System::new();
    /// let n = system.spawn(Actor::builder().executor(queue.handle()), 0)?;
    /// n.send(|n| *n += 1)?; // waits in the queue
    /// let report = system.shutdown(Duration::ZERO)?; // no time for that
    /// assert_eq!((report.ended, report.stopped, report.running.len()), (0, 0, 1));
    /// queue.run_until_idle(); // gives the message back, and ends the actor
    /// assert!(system.shutdown(Duration::ZERO)?.is_complete());
    /// assert_eq!(n.stop_cause(), Some(StopCause::Requested));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Stages
    /// What sends stands behind what it sends to, and is shut down before it.
    /// ```
    /// use std::sync::mpsc;
    /// use turnwise::{Actor, Limit, System, ThreadPool};
    ///
    /// let pool = ThreadPool::new()?;
    /// let stages = vec![System::new(), System::new()];
    /// let (tx, rx) = mpsc::channel();
    /// let sum = stages[0].spawn(Actor::builder().on_end(move |sum, _| tx.send(sum).unwrap()), 0)?;
    /// let source = stages[1].spawn(Actor::builder().executor(pool.handle()), sum)?;
    /// source.send(|sum| sum.send(|n| *n += 1).unwrap())?;
    ///
    /// for stage in stages.iter().rev() {
    ///     assert!(stage.shutdown(Limit::Unlimited)?.is_complete());
    /// }
    /// assert_eq!(rx.recv()?, 1); // the source was done before the sum was closed
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn shutdown(&self, limit: impl Into<Limit>) -> Result<ShutdownReport, Reason> {
        shut_down(self.shared(), limit.into())
    }

    /// [`shutdown`](Self::shutdown) for a task: a future that closes the actors, and is ready when
    /// all have ended. Nothing happens before the first poll.
    ///
    /// By itself it has no limit and stops nothing: [`within_async`](Closing::within_async) gives
    /// it one. Polling it runs no turn and no end: these go to the actors' executors, and to the
    /// fallback. Dropping it after the first poll leaves the system shut down and its actors
    /// closed.
    ///
    /// # Errors
    /// [`Reason::Deadlock`] if it is polled inside a turn of one of the system's actors. It may be
    /// polled again elsewhere.
    ///
    /// # Examples
    /// ```
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, System};
    ///
    /// let queue = DrainQueue::new();
    /// let system = System::new();
    /// let n = system.spawn(Actor::builder().executor(queue.handle()), 0)?;
    /// n.send(|n| *n += 1)?;
    /// let mut closing = pin!(system.shutdown_async());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(closing.as_mut().poll(&mut cx).is_pending());
    /// assert!(n.is_closed());
    /// queue.run_until_idle();
    /// let Poll::Ready(report) = closing.poll(&mut cx) else { panic!("all have ended") };
    /// assert_eq!((report?.ended, system.actors()), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn shutdown_async(&self) -> Closing {
        Closing::new(self.clone())
    }
}

impl Default for System {
    fn default() -> Self {
        Self::new()
    }
}

struct ShownMember<'a>(&'a dyn Member);

impl fmt::Debug for ShownMember<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Actor");
        show(&mut f, self.0.cell().header());
        f.finish()
    }
}

/// Its actors, with what each is doing: stale on return. It takes a short lock.
///
/// # Examples
/// ```
/// use turnwise::executor::DrainQueue;
/// use turnwise::{Actor, System};
///
/// let queue = DrainQueue::new();
/// let system = System::new();
/// let till = system.spawn(Actor::builder().name("till").executor(queue.handle()), 0)?;
/// till.send(|n| *n += 1)?;
/// assert_eq!(
///     format!("{system:?}"),
///     "System { shut_down: false, actors: [Actor { name: \"till\", \
///      state: 1 queued, waiting for its executor }], discarded: 0 }"
/// );
/// # queue.run_until_idle();
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Before anything is written: a writer is the user's, and so are the hooks that may go with
        // a member.
        let members = self.shared().members();
        let shown = members.iter().map(|member| format!("{:?}", ShownMember(&**member)));
        let shown = shown.collect::<Vec<_>>().join(", ");
        drop(members);
        f.debug_struct("System")
            .field("shut_down", &self.is_shut_down())
            .field("actors", &format_args!("[{shown}]"))
            .field("discarded", &self.shared().discarded())
            .finish()
    }
}
