//! Clocks and limits: by which clock a wait ends, and when. Timers: what runs when it is due.
//!
//! | what | by |
//! |---|---|
//! | a function, once | [`Timers::after`], [`Timers::at`] |
//! | a function, again and again | [`Timers::every`] |
//! | a task that waits for a time | [`Timers::sleep`] |
//! | a limit | [`Limit`], on the [`Clock`] of the actor |
//! | time in tests | [`VirtualClock`], [`Timers::by_hand`] |

#![forbid(unsafe_code)]

// By path, because the models include this file by path, and would look beside it.
#[path = "time/every.rs"]
mod every;
#[path = "time/sleep.rs"]
mod sleep;
#[path = "time/timers.rs"]
pub(crate) mod timers;
#[path = "time/virtual_clock.rs"]
mod virtual_clock;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::sync::thread;

pub use every::{Every, Tick, TimerError};
pub use sleep::Sleep;
pub use timers::{Timer, Timers};
pub use virtual_clock::VirtualClock;

/// A monotonic clock. Every limit of an actor is measured on one, so tests can bring their own, or
/// use a [`VirtualClock`].
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
/// let hasty = Actor::builder().clock(Doubled).spawn(0)?;
/// assert!(!hasty.ended().within(Duration::from_millis(2))?); // after one millisecond
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time since some fixed moment. Never goes back.
    fn now(&self) -> Duration;

    /// Blocks this thread until it is unparked or the clock shows `at`. It may return earlier: the
    /// caller looks again.
    ///
    /// A clock that does not follow real time unparks the thread when it has been moved to `at`.
    /// Nothing else that it does here may park the thread: the wake-up that is waited for would be
    /// used up.
    fn park_until(&self, at: Duration) {
        thread::park_timeout(at.saturating_sub(self.now()).min(Duration::from_millis(10)));
    }

    /// The identity of the clock: limits by clocks that say the same are compared with each other
    /// ([`Cycle`](crate::Cycle)). Its address, unless its clones are one clock.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }
}

/// A shared clock is the same clock.
impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }

    fn park_until(&self, at: Duration) {
        (**self).park_until(at);
    }

    fn identity(&self) -> usize {
        (**self).identity()
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

    fn identity(&self) -> usize {
        // No clock has this address, and all of these are one.
        0
    }
}

/// The time that a caller may wait. A `Duration` is a limit; a zero one is [`Limit::Immediate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// As long as it takes.
    Unlimited,
    /// Not at all: one attempt.
    Immediate,
    /// At most this long, from the call on; not at all if it is zero.
    Within(Duration),
}

impl Limit {
    /// A time of zero is [`Immediate`](Self::Immediate), also if it was not made from a `Duration`.
    pub(crate) fn normal(self) -> Self {
        if let Limit::Within(limit) = self { limit.into() } else { self }
    }
}

impl From<Duration> for Limit {
    fn from(limit: Duration) -> Self {
        if limit.is_zero() { Limit::Immediate } else { Limit::Within(limit) }
    }
}

/// The latest end of one wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cutoff<'a> {
    clock: &'a dyn Clock,
    /// Never, or at this time; zero is in the past.
    at: Option<Duration>,
}

impl<'a> Cutoff<'a> {
    /// A limit too large for the clock is no limit.
    pub(crate) fn new(clock: &'a dyn Clock, limit: Limit) -> Self {
        let at = match limit.normal() {
            Limit::Unlimited => None,
            Limit::Immediate => Some(Duration::ZERO),
            Limit::Within(limit) => clock.now().checked_add(limit),
        };
        Cutoff { clock, at }
    }

    /// At this moment of the clock, or never.
    pub(crate) fn at(clock: &'a dyn Clock, at: Option<Duration>) -> Self {
        Cutoff { clock, at }
    }

    /// The moment, if there is one; zero is in the past.
    pub(crate) fn moment(self) -> Option<Duration> {
        self.at
    }

    /// The end of the wait, to be compared with others; none if it has none.
    pub(crate) fn end(self) -> Option<End> {
        self.at.map(|at| End { clock: self.clock.identity(), at })
    }

    /// Returns true if it never comes.
    pub(crate) fn is_never(self) -> bool {
        self.at.is_none()
    }

    /// Returns true if the time is over.
    pub(crate) fn is_over(self) -> bool {
        self.at.is_some_and(|at| at.is_zero() || self.clock.now() >= at)
    }

    /// Parks this thread until it is woken, or the time is over (false). May return true without
    /// cause. `is_woken`: what the caller has been woken for is there. A clock's code may have used
    /// the wake-up up, so that is the last look before the thread parks.
    pub(crate) fn park(self, is_woken: impl FnOnce() -> bool) -> bool {
        match self.at {
            None => thread::park(),
            Some(_) if self.is_over() => return false,
            Some(_) if is_woken() => {}
            Some(at) => self.clock.park_until(at),
        }
        true
    }
}

/// The end of a wait, and the clock that it is read by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Its [identity](Clock::identity).
    clock: usize,
    at: Duration,
}

impl End {
    /// Returns true if it comes before the other one; `None` if they are by different clocks.
    pub(crate) fn is_before(self, other: End) -> Option<bool> {
        (self.clock == other.clock).then_some(self.at < other.at)
    }
}
