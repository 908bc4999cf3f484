//! Timers that come again.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::timers::{Delivered, Fired, Moment, TimerJob};
use crate::panic;
use crate::sync::Mutex;

/// The schedule of a periodic timer: see [`Timers::every`](super::Timers::every).
///
/// The step is fixed: the ticks are due at `first`, `first + step`, `first + 2 * step` and so on,
/// however long the function takes. Ticks that are overdue are made up for one after the other, but
/// no more than the last few of them; those before are dropped, and the next tick says how many.
///
/// # Examples
/// A stall of ten steps: five ticks run, five are dropped.
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use turnwise::VirtualClock;
/// use turnwise::time::{Every, Timers};
///
/// let clock = VirtualClock::new();
/// let timers = Timers::by_hand(clock.clone());
/// let (tell, told) = mpsc::channel();
/// let every = Every::step(Duration::from_secs(1));
/// timers.every(every, move |tick| tell.send((tick.number, tick.dropped)).unwrap())?.forget();
/// clock.advance(Duration::from_secs(10));
/// assert_eq!(timers.run_due(), 5);
/// drop(timers);
/// assert_eq!(told.iter().collect::<Vec<_>>(), [(6, 5), (7, 0), (8, 0), (9, 0), (10, 0)]);
/// # Ok::<(), turnwise::time::TimerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says when, not what"]
pub struct Every {
    step: Duration,
    first: Duration,
    most: u32,
}

impl Every {
    /// Every `step`, for the first time when one step has passed.
    pub const fn step(step: Duration) -> Self {
        Every { step, first: step, most: 5 }
    }

    /// For the first time when `delay` has passed.
    pub const fn first_after(self, delay: Duration) -> Self {
        Every { first: delay, ..self }
    }

    /// At most this many overdue ticks are run one after the other; the older ones are dropped. 5
    /// without this. Zero counts as one: the latest tick is never dropped.
    pub const fn catch_up(self, most: u32) -> Self {
        Every { most: if most == 0 { 1 } else { most }, ..self }
    }

    pub(super) fn first(self) -> Duration {
        self.first
    }
}

/// Every so long, for the first time when one step has passed: [`Every::step`].
impl From<Duration> for Every {
    fn from(step: Duration) -> Self {
        Every::step(step)
    }
}

/// One tick of a periodic timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The number of the tick, from 1 on; those that were dropped are counted.
    pub number: u64,
    /// The moment at which it was due, by the clock of its service.
    pub due: Duration,
    /// The time from then until it was taken up.
    pub late: Duration,
    /// The number of ticks that were dropped since the last one that ran.
    pub dropped: u64,
}

/// The error of a timer that cannot be armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerError {
    /// A periodic timer with a step of zero would never let anything else run.
    StepZero,
}

impl fmt::Display for TimerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimerError::StepZero => f.write_str("a periodic timer needs a step above zero"),
        }
    }
}

impl Error for TimerError {}

/// A function that is called again and again.
pub(super) struct Periodic<F> {
    every: Every,
    progress: Mutex<TickTimes<F>>,
}

struct TickTimes<F> {
    /// Out while it runs.
    function: Option<F>,
    /// The ticks that have run or were dropped.
    past: u64,
    /// Those that were dropped since one ran.
    dropped: u64,
}

impl<F> Periodic<F> {
    pub(super) fn new(every: Every, function: F) -> Result<Self, TimerError> {
        if every.step.is_zero() {
            return Err(TimerError::StepZero);
        }
        let progress = TickTimes { function: Some(function), past: 0, dropped: 0 };
        Ok(Periodic { every, progress: Mutex::new(progress) })
    }
}

impl<F: FnMut(Tick) -> Delivered + Send> TimerJob for Periodic<F> {
    fn comes_again(&self) -> bool {
        true
    }

    fn put_off(&self, due: Duration, now: Duration) -> Option<Moment> {
        // Later ticks that are due, too.
        let behind = (now - due).as_nanos() / self.every.step.as_nanos();
        let dropped = (behind + 1).checked_sub(u128::from(self.every.most))?;
        if dropped == 0 {
            return None;
        }
        let mut progress = self.progress.lock();
        let count = u64::try_from(dropped).unwrap_or(u64::MAX);
        progress.past = progress.past.saturating_add(count);
        progress.dropped = progress.dropped.saturating_add(count);
        // No later than `now`, so it can be shown.
        Some(Moment::after(due, duration(self.every.step.as_nanos() * dropped)))
    }

    fn fire(&self, due: Duration, now: Duration) -> Fired {
        let (function, tick) = {
            let mut progress = self.progress.lock();
            progress.past = progress.past.saturating_add(1);
            let dropped = std::mem::take(&mut progress.dropped);
            let tick = Tick { number: progress.past, due, late: now - due, dropped };
            (progress.function.take(), tick)
        };
        let Some(mut function) = function else { return Fired { lost: false, next: None } };
        let called = panic::catch(|| function(tick));
        let accepted = called.map_err(panic::discard).ok();
        // Back in its place, also to be dropped.
        self.progress.lock().function = Some(function);
        let goes_on = matches!(accepted, Some(Delivered::Yes | Delivered::No));
        Fired {
            lost: matches!(accepted, Some(Delivered::No | Delivered::NeverAgain)),
            next: goes_on.then(|| Moment::after(due, self.every.step)),
        }
    }

    fn discard(&self) {
        let function = self.progress.lock().function.take();
        drop(function);
    }
}

/// A number of nanoseconds, which a duration can hold.
fn duration(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % SECOND) as u32)
}
