//! Waiting: who sleeps, how to wake him, and by which clock a wait ends.

use std::fmt;
use std::sync::OnceLock;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::sync::Mutex;
use crate::sync::thread::{self, Thread};
use crate::unwind::shrug_off;

/// Somebody who sleeps.
#[derive(Debug)]
pub(crate) enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    /// Wakes him. A waker that panics hurts nobody else.
    pub(crate) fn wake(self) {
        shrug_off(|| match self {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => waker.wake(),
        });
    }
}

/// A monotonic clock: every limit of an actor is measured on one, so tests can bring their own.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, Clock, MonotonicClock};
///
/// #[derive(Debug)]
/// struct Doubled;
/// impl Clock for Doubled {
///     fn now(&self) -> Duration {
///         MonotonicClock.now() * 2
///     }
/// }
/// let hasty = Actor::builder(0).clock(Doubled).spawn()?;
/// assert!(!hasty.wait_ended(Duration::from_millis(2))?); // after one millisecond
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time since some fixed moment. Never goes back.
    fn now(&self) -> Duration;

    /// Blocks this thread until it is unparked or the clock shows `at`. It may return earlier: the caller looks again.
    ///
    /// A clock that does not follow real time should unpark the thread when it has been moved to `at`.
    fn park_until(&self, at: Duration) {
        thread::park_timeout(at.saturating_sub(self.now()).min(Duration::from_millis(10)));
    }
}

/// The system's monotonic clock: every actor's, unless it was built with another.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn park_until(&self, at: Duration) {
        thread::park_timeout(at.saturating_sub(self.now()));
    }
}

/// How long a caller is ready to wait. A `Duration` is one: of zero, it is [`Limit::Immediate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// As long as it takes.
    Unlimited,
    /// Not at all: one attempt.
    Immediate,
    /// So long at most, from the call on.
    Within(Duration),
}

impl From<Duration> for Limit {
    fn from(limit: Duration) -> Self {
        if limit.is_zero() { Limit::Immediate } else { Limit::Within(limit) }
    }
}

/// When a wait ends at the latest: made once, at the call, and carried along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline<'a> {
    clock: &'a dyn Clock,
    /// Never, or at this time; zero is in the past.
    at: Option<Duration>,
}

impl<'a> Deadline<'a> {
    /// A limit too large for the clock is no limit.
    pub(crate) fn new(clock: &'a dyn Clock, limit: Limit) -> Self {
        let at = match limit {
            Limit::Unlimited => None,
            Limit::Immediate => Some(Duration::ZERO),
            Limit::Within(limit) => clock.now().checked_add(limit),
        };
        Deadline { clock, at }
    }

    /// Is the time over?
    pub(crate) fn is_over(self) -> bool {
        self.at.is_some_and(|at| at.is_zero() || self.clock.now() >= at)
    }

    /// Parks this thread until it is woken or the time is over (false). May return true without cause.
    pub(crate) fn park(self) -> bool {
        match self.at {
            None => thread::park(),
            Some(_) if self.is_over() => return false,
            Some(at) => self.clock.park_until(at),
        }
        true
    }
}

/// Those who watch a mailbox (R14). They look again when woken, so all are woken.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<List>);

#[derive(Default)]
struct List {
    next: u64,
    waiting: Vec<(u64, Waiter)>,
}

impl Waiters {
    /// Adds one; the number takes it out again.
    pub(crate) fn add(&self, waiter: Waiter) -> u64 {
        let mut list = self.0.lock();
        list.next += 1;
        let number = list.next;
        list.waiting.push((number, waiter));
        number
    }

    /// Takes one out that may have been woken already.
    pub(crate) fn remove(&self, number: u64) {
        self.0.lock().waiting.retain(|(at, _)| *at != number);
    }

    pub(crate) fn wake_all(&self) {
        let woken = std::mem::take(&mut self.0.lock().waiting);
        woken.into_iter().for_each(|(_, waiter)| waiter.wake());
    }
}
