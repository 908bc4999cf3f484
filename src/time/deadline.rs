//! One limit for several waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Clock, Cutoff, Limit, MonotonicClock};

/// When something is to be over at the latest: made once, at the call, and carried through all its
/// waits.
///
/// Each wait takes what is left as its [`Limit`], and measures that on its own clock. Once the
/// deadline is over, that is [`Limit::Immediate`]: one attempt.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, Deadline};
///
/// fn sum(
///     numbers: &[Actor<u32>],
///     limit: Duration,
/// ) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
///     let deadline = Deadline::new(limit); // for all of them together
///     let mut sum = 0;
///     for n in numbers {
///         sum += n.call(|n| *n).within(&deadline)?;
///     }
///     Ok(sum)
/// }
/// assert_eq!(sum(&[Actor::new(1), Actor::new(2)], Duration::from_secs(5))?, 3);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone)]
pub struct Deadline {
    /// None: the machine's.
    clock: Option<Arc<dyn Clock>>,
    /// Never, or at this time; zero is in the past.
    at: Option<Duration>,
}

impl Deadline {
    /// So long from now, on the machine's clock. A limit too large for the clock is no limit.
    pub fn new(limit: impl Into<Limit>) -> Self {
        Deadline { clock: None, at: Cutoff::new(&MonotonicClock, limit.into()).moment() }
    }

    /// The same on another clock.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use turnwise::{Deadline, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let deadline = Deadline::on(Arc::new(clock.clone()), Duration::from_secs(3));
    /// clock.advance(Duration::from_secs(2));
    /// assert_eq!(deadline.remaining(), Some(Duration::from_secs(1)));
    /// clock.advance(Duration::from_secs(2));
    /// assert!(deadline.is_over());
    /// ```
    pub fn on(clock: Arc<dyn Clock>, limit: impl Into<Limit>) -> Self {
        let at = Cutoff::new(&*clock, limit.into()).moment();
        Deadline { clock: Some(clock), at }
    }

    /// One that is never over.
    pub const fn never() -> Self {
        Deadline { clock: None, at: None }
    }

    fn cutoff(&self) -> Cutoff<'_> {
        Cutoff::at(self.clock.as_deref().unwrap_or(&MonotonicClock), self.at)
    }

    /// Is the time over? Once true, true for ever.
    pub fn is_over(&self) -> bool {
        self.cutoff().is_over()
    }

    /// What is left: nothing once it is over, `None` if it never is.
    pub fn remaining(&self) -> Option<Duration> {
        self.cutoff().remaining()
    }
}

/// A deadline on the machine's clock.
impl From<Limit> for Deadline {
    fn from(limit: Limit) -> Self {
        Deadline::new(limit)
    }
}

/// What is left.
impl From<&Deadline> for Limit {
    fn from(deadline: &Deadline) -> Self {
        deadline.remaining().map_or(Limit::Unlimited, Limit::from)
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("at", &self.at).finish_non_exhaustive()
    }
}
