//! Limits and pauses of restarts.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::Mutex;

/// Limits and pauses of the restarts of an actor whose turns panic, and so the time at which it is
/// given up: see [`PanicPolicy::restart_within`](crate::PanicPolicy::restart_within).
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::Restarts;
///
/// // After 10, 20, 40 and 50 ms; the fifth panic within a minute stops the actor.
/// let restarts = Restarts::at_most(4, Duration::from_secs(60))
///     .backoff(Duration::from_millis(10), Duration::from_millis(50));
/// # let _ = restarts;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it is for a panic policy"]
pub struct Restarts {
    most: u32,
    within: Duration,
    first: Duration,
    longest: Duration,
}

impl Restarts {
    /// At most this many restarts within any time of that length, each at once. One more stops the
    /// actor. No actor is built with a time of zero, which would forget each restart at once
    /// ([`BuildError::RestartTimeZero`](crate::BuildError::RestartTimeZero)), unless there is no
    /// restart to forget.
    pub const fn at_most(restarts: u32, within: Duration) -> Self {
        let (first, longest) = (Duration::ZERO, Duration::ZERO);
        Restarts { most: restarts, within, first, longest }
    }

    /// The actor rests before it is restarted: for `first`, and for twice as long for each restart
    /// that it has had within the time of [`at_most`](Self::at_most); never for more than
    /// `longest`. That time should be several times `longest`, or old restarts are forgotten before
    /// the next one comes.
    pub const fn backoff(self, first: Duration, longest: Duration) -> Self {
        Restarts { first, longest, ..self }
    }

    /// Returns true if it would restart without a limit.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.most > 0 && self.within.is_zero()
    }

    /// The pause between a panic and the restart after these.
    fn after(&self, restarts: usize) -> Duration {
        if self.first.is_zero() {
            return Duration::ZERO;
        }
        let doubled = u32::try_from(restarts).ok().and_then(|n| 1_u32.checked_shl(n));
        let backoff = doubled.and_then(|factor| self.first.checked_mul(factor));
        backoff.map_or(self.longest, |backoff| backoff.min(self.longest))
    }
}

/// The latest times at which an actor was restarted.
#[derive(Default)]
pub(crate) struct History(Mutex<VecDeque<Duration>>);

impl History {
    /// The latest restart comes now, perhaps later than it was to come.
    pub(crate) fn comes(&self, now: Duration) {
        if let Some(latest) = self.0.lock().back_mut() {
            *latest = now.max(*latest);
        }
    }

    /// One more restart, if it is allowed: so long after `now`, or at once, if it must not wait. If
    /// it is not allowed, how many there were.
    pub(super) fn next(
        &self,
        restarts: &Restarts,
        now: Duration,
        may_wait: bool,
    ) -> Result<Duration, u32> {
        let mut had = self.0.lock();
        let is_old =
            |then: &Duration| then.checked_add(restarts.within).is_some_and(|end| end <= now);
        while had.front().is_some_and(is_old) {
            had.pop_front();
        }
        if had.len() >= restarts.most as usize {
            return Err(restarts.most);
        }
        let backoff = if may_wait { restarts.after(had.len()) } else { Duration::ZERO };
        had.push_back(now.saturating_add(backoff));
        Ok(backoff)
    }
}
