//! The interface of a peer, and the state that its actors guard.
//!
//! The state is the same everywhere and counts its messages, so the thread that handles the last
//! message records the end of a trial, and no peer needs to keep an order for it.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tokio::sync::Notify;

/// A way to have actors: the handle of one.
pub(crate) trait Peer: Clone + Send + Sync + 'static {
    /// As in the lock file, which has the version, if it is a package.
    const PACKAGE: &'static str;
    /// The calls that are used, and their callers.
    const WAY: &'static str;
    /// The capacity of a mailbox; `None`: limited by memory only.
    const BOUND: Option<usize>;
    /// The maximum number of actors at once.
    const MOST: usize = usize::MAX;
    /// A note for the comparison.
    const NOTE: Option<&'static str> = None;

    /// Creates an actor. Called by a launched future; the place spreads actors where the peer does
    /// not do it by itself.
    fn spawn(place: usize, state: State<Self>) -> impl Future<Output = Self> + Send;
    /// Sends a message without an answer; waits for room if the mailbox is bounded.
    fn tell(&self, rounds: u32) -> impl Future<Output = ()> + Send;
    /// Sends a message and waits for its answer.
    fn ask(&self, rounds: u32) -> impl Future<Output = u64> + Send;
    /// Sends the actor its neighbour, and waits until it has it.
    fn link(&self, next: Option<Self>) -> impl Future<Output = ()> + Send;
    /// Sends a message that goes on to the neighbour until it has been handled `hops` times.
    fn pass(&self, hops: u64) -> impl Future<Output = ()> + Send;
    /// Drops a handle: without any, the actor ends.
    fn end(self) {}
    /// Runs a future on the host of this peer's users: a task of its runtime, or a thread.
    fn launch(place: usize, task: impl Future<Output = ()> + Send + 'static);
}

/// The state that an actor guards.
pub(crate) struct State<P> {
    /// Messages that are still to come.
    left: u64,
    value: u64,
    next: Option<P>,
    trial: Arc<Trial>,
}

impl<P> State<P> {
    /// The state of an actor that is to handle `messages`.
    pub(crate) fn new(trial: &Arc<Trial>, messages: u64) -> Self {
        trial.alive.fetch_add(1, Ordering::Relaxed);
        State { left: messages, value: 1, next: None, trial: trial.clone() }
    }

    /// The handler of a message without an answer.
    #[inline]
    pub(crate) fn count(&mut self, rounds: u32) {
        self.work(rounds);
    }

    /// The handler of a message: counts it and works for this many rounds. Returns how many are
    /// still to come; after the last, from `u64::MAX` down.
    #[inline]
    pub(crate) fn work(&mut self, rounds: u32) -> u64 {
        self.value = spend(self.value, rounds);
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 {
            self.trial.one_is_through();
        }
        self.left
    }

    /// The handler of a message that goes round: returns its next receiver, unless this was its
    /// last hop.
    #[inline]
    pub(crate) fn pass(&mut self, hops: u64) -> Option<&P> {
        self.work(0);
        if hops > 1 { self.next.as_ref() } else { None }
    }

    pub(crate) fn link(&mut self, next: Option<P>) {
        self.next = next;
    }
}

impl<P> Drop for State<P> {
    fn drop(&mut self) {
        // Ordering: AcqRel, so that the note is written after all other states are gone.
        if self.trial.alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.trial.gone.note();
        }
    }
}

/// State shared by all actors of one trial.
pub(crate) struct Trial {
    /// Actors that have not handled all their messages.
    busy: AtomicU64,
    /// States that have not been dropped.
    alive: AtomicU64,
    pub(crate) handled: Moment,
    pub(crate) gone: Moment,
}

impl Trial {
    pub(crate) fn new(actors: usize) -> Arc<Self> {
        let (handled, gone) = (Moment::default(), Moment::default());
        Arc::new(Trial {
            busy: AtomicU64::new(actors as u64),
            alive: AtomicU64::new(0),
            handled,
            gone,
        })
    }

    #[cold]
    fn one_is_through(&self) {
        // Ordering: AcqRel, so that the note is written after the last message of each actor.
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.handled.note();
        }
    }
}

/// The time of an event, for a thread that waits for it.
#[derive(Default)]
pub(crate) struct Moment {
    at: Mutex<Option<Clocks>>,
    noted: Notify,
}

impl Moment {
    fn note(&self) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Clocks::now());
        self.noted.notify_one();
    }

    pub(crate) async fn reached(&self) -> Clocks {
        loop {
            if let Some(clocks) = *self.at.lock().unwrap_or_else(PoisonError::into_inner) {
                return clocks;
            }
            self.noted.notified().await;
        }
    }
}

/// A point of time, and the processor time of the whole process until then.
#[derive(Clone, Copy)]
pub(crate) struct Clocks {
    wall: Instant,
    cpu: Duration,
}

/// The duration of a trial.
#[derive(Clone, Copy)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Clocks {
    pub(crate) fn now() -> Self {
        Clocks { wall: Instant::now(), cpu: ProcessTime::now().as_duration() }
    }

    pub(crate) fn until(self, end: Clocks) -> Took {
        Took { wall: end.wall - self.wall, cpu: end.cpu - self.cpu }
    }
}

/// Squarings in a chain, as in the workloads of the crate's own benchmarks: each needs the one
/// before, so nothing can shorten it.
#[inline(always)]
pub(crate) fn spend(mut value: u64, rounds: u32) -> u64 {
    for _ in 0..rounds {
        value = value.wrapping_mul(value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    value
}
