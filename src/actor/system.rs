//! A scope that owns the lifetime of actors: they end when it ends.
//!
//! A system keeps nobody going and runs nothing by itself. It knows who has not ended yet ([`roster`]), and uses what every user of an actor has:
//! weak handles, `close`, `stop`, `drain`, the wait for the end, and the end hook; and beyond that only the question whether this thread is
//! inside a turn, and a wait by the system's clock.
//!
//! A shutdown never runs a message on the thread that called it: if an actor is found with messages and nobody at it, threads made for that
//! run them, so that the caller is there when the time is over. He then stops what is left. What he runs himself is what an ending runs: end
//! hooks, undelivered hooks, drops of states and messages. (Only if the machine has no thread to give does he run messages, before he waits.)
//! The same thread waits for the ends of adopted actors, until the deadline.
//!
//! - Y1: sealed first, top down; then nothing is added, so the lists only get shorter.
//! - Y2: whoever is below ends before those above are closed: an actor above may be sent to by those below until they have ended.
//! - Y3: a member in whose turn the calling thread is cannot end before the call returns: it is closed, reported, and not waited for.
//!
//! Progress: `spawn`, `adopt` and an actor's end take a short lock; `shutdown` blocks up to its limit; dropping a system waits for nobody.

#![forbid(unsafe_code)]

mod roster;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::{Actor, ActorBuilder};
use crate::drain::storage::before_pending;
use crate::error::BuildError;
use crate::sync::thread;
use crate::wait::{Clock, Deadline, Limit};
use roster::{Member, Sealed, Shared};

/// A scope that owns the lifetime of actors: none of them outlives it by more than the turn it is in.
///
/// An actor of a system ends as any other (its last handle goes, it is closed or stopped, a turn panics), or when the system does: by
/// [`shutdown`](Self::shutdown), which lets them finish what they have accepted until a deadline, or by the system's drop, which stops them.
/// The system keeps no actor going, and forgets those that have ended.
///
/// # Dropping
/// All actors of the system and of the systems below it are stopped: what waits is given back, each asker is told, and turns that run end in
/// their own time. Nobody is waited for, so a drop never hangs; it runs undelivered hooks and end hooks of actors that nobody is running. In
/// a turn of one of its own actors it is the same: that actor is stopped when the turn is over. After a complete shutdown there is nothing to do.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, System};
///
/// let system = System::new();
/// let log = system.spawn(Actor::builder(Vec::new()).name("log"))?;
/// let hits = system.actor(0)?;
/// hits.enqueue(|n| *n += 1)?; // nobody runs this yet
/// let asked = hits.ask(|n| *n);
///
/// let report = system.shutdown(Duration::from_secs(5));
/// assert!(report.is_complete());
/// assert_eq!((report.ended, report.stopped), (2, 0));
/// assert_eq!(asked.wait()?, 1);
/// assert!(log.send(|log| log.push("too late")).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a system stops its actors"]
pub struct System {
    shared: Arc<Shared>,
}

impl System {
    /// A system without actors, whose limits are measured on the machine's monotonic clock.
    pub fn new() -> Self {
        System { shared: Shared::new(None) }
    }

    /// A system whose limits are measured on this clock, and those of all actors spawned in it that bring none of their own.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{System, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let system = System::with_clock(clock.clone());
    /// let n = system.actor(0)?;
    /// let waiting = std::thread::spawn(move || n.wait_ended(Duration::from_secs(60)));
    /// clock.wait_for_sleepers(1);
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(waiting.join().unwrap(), Ok(false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        System { shared: Shared::new(Some(Arc::new(clock))) }
    }

    /// An actor of this system with this state, no limit and no hooks. Takes a short lock.
    ///
    /// # Errors
    /// The state comes back if the system has been shut down.
    ///
    /// # Examples
    /// ```
    /// # use turnwise::System;
    /// use std::time::Duration;
    ///
    /// let system = System::new();
    /// assert_eq!(system.actor(1)?.with(|n| *n)?, 1);
    /// system.shutdown(Duration::ZERO);
    /// assert_eq!(system.actor(2).unwrap_err().into_refused(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn actor<S: Send + 'static>(&self, state: S) -> Result<Actor<S>, SpawnError<S>> {
        self.spawn(Actor::builder(state)).map_err(|error| {
            let (builder, reason) = error.into_parts();
            let state = builder.into_state().expect("it was built around one");
            SpawnError::new(state, reason)
        })
    }

    /// An actor of this system, as described by its builder. Takes a short lock.
    ///
    /// # Errors
    /// The builder comes back if the system has been shut down, or if no actor can be built like that.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Overflow, System};
    ///
    /// let system = System::new();
    /// let inbox = system.spawn(Actor::builder(Vec::<u32>::new()).name("inbox").capacity(100, Overflow::Reject))?;
    /// assert_eq!(inbox.name(), Some("inbox"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn<S: Send + 'static>(&self, builder: ActorBuilder<S>) -> Result<Actor<S>, SpawnError<ActorBuilder<S>>> {
        let limits = match builder.limits() {
            Ok(limits) => limits,
            Err(error) => return Err(SpawnError::new(builder, SpawnReason::Build(error))),
        };
        let mut builder = Some(builder);
        let spawned = self.shared.spawn(|membership| {
            let builder = builder.take().expect("an actor is made once");
            let clock = self.shared.own_clock();
            builder.clock_unless_set(clock).after_end(membership).made(limits)
        });
        spawned.ok_or_else(|| SpawnError::new(builder.expect("nothing was made"), SpawnReason::ShutDown))
    }

    /// Takes an actor in that was made elsewhere: it ends with the system at the latest. Takes a short lock, and at times looks which of the
    /// adopted ones have gone.
    ///
    /// The system does not hear of its end, as it does of its own actors'. So once the last handle of an adopted actor has gone, it is no longer
    /// the system's: what it has accepted is run, but nobody waits for that. An actor adopted twice is counted twice.
    ///
    /// # Errors
    /// If the system has been shut down.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, System};
    ///
    /// let n = Actor::new(0);
    /// let system = System::new();
    /// system.adopt(&n)?;
    /// system.shutdown(Duration::from_secs(1));
    /// assert!(n.is_closed());
    /// # Ok::<(), turnwise::SpawnReason>(())
    /// ```
    pub fn adopt<S: Send + 'static>(&self, actor: &Actor<S>) -> Result<(), SpawnReason> {
        if self.shared.adopt(actor) { Ok(()) } else { Err(SpawnReason::ShutDown) }
    }

    /// A system below this one, with the same clock. It ends with this one at the latest, and before this one's own actors.
    ///
    /// So a service that is made of stages shuts down in order: whatever sends goes below whatever is sent to.
    ///
    /// # Errors
    /// If this system has been shut down.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use turnwise::{Actor, Limit, System};
    ///
    /// let sinks = System::new();
    /// let sources = sinks.child()?;
    /// let (tx, rx) = mpsc::channel();
    /// let sum = sinks.spawn(Actor::builder(0).on_end(move |sum, _| tx.send(sum).unwrap()))?;
    /// let source = sources.actor(sum)?;
    /// source.enqueue(|sum| sum.send(|n| *n += 1).unwrap())?; // nobody has run this yet
    ///
    /// assert!(sinks.shutdown(Limit::Unlimited).is_complete());
    /// assert_eq!(rx.recv()?, Some(1)); // the source was done before the sum was closed
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn child(&self) -> Result<System, SpawnReason> {
        self.shared.child().map(|shared| System { shared }).ok_or(SpawnReason::ShutDown)
    }

    /// How many actors have not ended, those of the systems below too. Stale on return. Adopted ones that have gone may be counted until the
    /// next look at them.
    pub fn actors(&self) -> usize {
        self.shared.actors()
    }

    /// Has it been shut down? Once true, true for ever.
    pub fn is_shut_down(&self) -> bool {
        !self.shared.is_open()
    }

    /// Ends all actors of this system and of the systems below, and waits for that until `limit` is over. May block.
    ///
    /// Nobody is taken in any more. Then, level by level, the lowest first, all actors are closed: they take no new messages, and what was
    /// accepted is run, if need be by a thread that is made for it. When the time is over, all actors that have not ended are stopped: what
    /// waits in them goes to the undelivered hooks, and askers get [`AskError::Stopped`](crate::AskError::Stopped). With a limit of zero
    /// that is at once, and only idle actors end by themselves.
    ///
    /// A turn is never interrupted. Actors inside one are named in the report; what waits behind that turn is given back when it ends. This holds,
    /// too, for an actor in whose turn this is called: it is closed, and not waited for.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{AskError, StopCause, System};
    ///
    /// let system = System::new();
    /// let n = system.actor(0)?;
    /// n.enqueue(|n| *n += 1)?;
    /// let asked = n.ask(|n| *n); // run now, by this thread: it comes by
    /// assert_eq!(asked.wait()?, 1);
    ///
    /// n.enqueue(|n| *n += 1)?;
    /// let report = system.shutdown(Duration::ZERO); // no time for that
    /// assert_eq!((report.ended, report.stopped), (0, 1));
    /// assert_eq!(n.with(|n| *n), Err(AskError::Stopped(StopCause::Requested)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(&self, limit: impl Into<Limit>) -> ShutdownReport {
        let deadline = Deadline::new(self.shared.clock(), limit.into());
        let levels = self.shared.seal();
        let all: usize = levels.iter().flatten().map(|sealed| sealed.crew().count()).sum();

        let in_time = levels.iter().rev().all(|level| end_level(level, deadline));

        if !in_time {
            // The idle ones need not be stopped.
            levels.iter().rev().for_each(|level| close_idle(level));
        }
        let left: Vec<_> = levels.iter().flatten().flat_map(Sealed::left).collect();
        let mut report = ShutdownReport { ended: all - left.len(), ..ShutdownReport::default() };
        if !in_time {
            stop(left.iter().copied());
            levels.iter().flatten().for_each(Sealed::look_again);
        }
        report.running = levels.iter().flatten().flat_map(Sealed::left).map(|member| member.name()).collect();
        // Nobody is added: who is left now was left before.
        report.stopped = left.len() - report.running.len();
        report
    }
}

/// Closes all actors of a level, and waits for their ends; false if the time is over before.
fn end_level(level: &[Sealed], deadline: Deadline<'_>) -> bool {
    close_idle(level);
    let left: Vec<_> = level.iter().flat_map(Sealed::left).filter(|member| !member.is_running_here()).cloned().collect();
    if left.is_empty() {
        return true;
    }
    if deadline.is_over() {
        return false;
    }
    // Intake ends here and now. In a turn, closing runs nothing: it promises to drain what it finds with nobody at it, and the promises of a
    // turn can be given away.
    let closing = Actor::new(()).with(|()| {
        left.iter().for_each(|member| member.close());
        before_pending();
    });
    closing.expect("a new actor takes its turns");
    // Those with an executor were carried there; whether that will ever run them is not known. And adopted ones do not tell of their ends.
    let strangers: Vec<_> = level.iter().map(Sealed::strangers).collect();
    let (helper, until) = (Arc::new((left, strangers)), deadline.moment());
    let help = move || {
        let (left, strangers) = &*helper;
        left.iter().for_each(|member| member.drain());
        strangers.iter().for_each(|strangers| strangers.see_off(until));
    };
    if !thread::spawn_detached(help.clone()) {
        // No thread is to be had: then on this one, for as long as it takes.
        help();
    }
    level.iter().all(|sealed| sealed.wait_ended(deadline))
}

/// Ends the idle ones, and closes those in whose turns this thread is.
fn close_idle(level: &[Sealed]) {
    for (_, member) in level.iter().flat_map(Sealed::crew) {
        if member.is_running_here() { member.close() } else { member.close_if_idle() }
    }
    level.iter().for_each(Sealed::look_again);
}

/// Stops all of them, and gives back what waits where nobody else does.
fn stop<'a>(members: impl Iterator<Item = &'a Arc<dyn Member>> + Clone) {
    members.clone().for_each(|member| member.stop());
    members.for_each(|member| member.drain());
}

impl Default for System {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let levels = self.shared.seal();
        let left: Vec<_> = levels.iter().rev().flatten().flat_map(Sealed::left).collect();
        stop(left.iter().copied());
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").finish_non_exhaustive()
    }
}

/// What became of the actors of a system that was shut down: each is in one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// So many ended by themselves: all that they had accepted was run, unless a turn's panic had stopped them.
    pub ended: usize,
    /// So many were stopped when the time was over, and have ended.
    pub stopped: usize,
    /// Those that have not ended, for somebody is inside a turn of theirs, or is just giving back what waits behind it: by name, or by the type
    /// of their state. They end with that turn.
    pub running: Vec<String>,
}

impl ShutdownReport {
    /// Have all of them ended?
    pub fn is_complete(&self) -> bool {
        self.running.is_empty()
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ended, {} stopped, {} inside a turn", self.ended, self.stopped, self.running.len())?;
        if !self.is_complete() {
            write!(f, ": {}", self.running.join(", "))?;
        }
        Ok(())
    }
}

/// An actor that a system did not take in, and why. What it was to be made of is handed back.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, Overflow, SpawnReason, System};
///
/// let system = System::new();
/// let refused = system.spawn(Actor::builder("state").capacity(0, Overflow::Reject)).unwrap_err();
/// assert!(matches!(refused.reason(), SpawnReason::Build(_)));
/// let builder = refused.into_refused().capacity(1, Overflow::Reject);
///
/// system.shutdown(Duration::ZERO);
/// let refused = system.spawn(builder).unwrap_err();
/// assert_eq!(refused.reason(), &SpawnReason::ShutDown);
/// let actor = refused.into_refused().spawn()?; // nobody's but the caller's
/// assert_eq!(actor.with(|state| *state)?, "state");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SpawnError<T> {
    refused: Box<T>,
    reason: SpawnReason,
}

impl<T> SpawnError<T> {
    fn new(refused: T, reason: SpawnReason) -> Self {
        SpawnError { refused: Box::new(refused), reason }
    }

    /// Why there is no actor.
    pub fn reason(&self) -> &SpawnReason {
        &self.reason
    }

    /// Gives the state, or the builder, back.
    pub fn into_refused(self) -> T {
        *self.refused
    }

    /// Gives the state, or the builder, back, and the reason.
    pub fn into_parts(self) -> (T, SpawnReason) {
        (*self.refused, self.reason)
    }
}

impl<T> fmt::Debug for SpawnError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SpawnError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no actor was made: {}", self.reason)
    }
}

impl<T> Error for SpawnError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason.source()
    }
}

/// Why a system did not take an actor in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnReason {
    /// The system has been shut down.
    ShutDown,
    /// No actor can be built like that.
    Build(BuildError),
}

impl fmt::Display for SpawnReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnReason::ShutDown => f.write_str("the system has been shut down"),
            SpawnReason::Build(error) => error.fmt(f),
        }
    }
}

impl Error for SpawnReason {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SpawnReason::ShutDown => None,
            SpawnReason::Build(error) => Some(error),
        }
    }
}
