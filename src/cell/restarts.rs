//! How often an actor is restarted, and how soon.
//!
//! - L1: an owner that rests is in [`Rests`] (`lie_down`), with a number of its own. Whoever takes
//!   it out (`get_up`) has to go on with it: the timer, by that number, or whoever stops the actor.
//!   A stop is raised before the lock is taken, and looked for after the owner was put there: one of
//!   the two sees the other. Both make the allocation that the lock is in, if it is not there: who
//!   finds none has not been ordered by it.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use super::owner::Resting;
use crate::sync::Mutex;
use crate::time::Timer;

/// How often an actor whose turns panic is restarted, how long it rests before, and so when it is
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
    /// So many restarts within any time of that length, each at once. One more stops the actor. A
    /// time of zero forgets each restart at once: then there is no limit but a stop.
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

    /// The rest before the restart after these.
    fn rest(&self, restarts: usize) -> Duration {
        let doubled = u32::try_from(restarts).ok().and_then(|n| 1_u32.checked_shl(n));
        let rest = doubled.and_then(|factor| self.first.checked_mul(factor));
        rest.map_or(self.longest, |rest| rest.min(self.longest))
    }
}

/// What an actor's restarts have come to.
#[derive(Default)]
pub(crate) struct Rests(Mutex<State>);

#[derive(Default)]
struct State {
    /// When it was restarted, the latest ones.
    restarts: VecDeque<Duration>,
    /// That of the last rest.
    number: u64,
    resting: Option<(Resting, Option<Timer>)>,
}

impl Rests {
    /// One more restart, if it is allowed: so long after `now`. If not, how many there were.
    pub(super) fn next(&self, restarts: &Restarts, now: Duration) -> Result<Duration, u32> {
        let had = &mut self.0.lock().restarts;
        let is_old =
            |then: &Duration| then.checked_add(restarts.within).is_some_and(|end| end <= now);
        while had.front().is_some_and(is_old) {
            had.pop_front();
        }
        if had.len() >= restarts.most as usize {
            return Err(restarts.most);
        }
        let rest = restarts.rest(had.len());
        had.push_back(now.saturating_add(rest));
        Ok(rest)
    }

    /// Puts an owner there; the number takes it out.
    pub(crate) fn lie_down(&self, owner: Resting) -> u64 {
        let mut state = self.0.lock();
        state.number += 1;
        debug_assert!(state.resting.is_none(), "two owners");
        state.resting = Some((owner, None));
        state.number
    }

    /// The timer of that rest, which is cancelled with it. It comes back if that is over.
    pub(crate) fn keep_timer(&self, number: u64, timer: Timer) -> Option<Timer> {
        let mut state = self.0.lock();
        let is_this = state.number == number;
        match &mut state.resting {
            Some((_, of)) if is_this => of.replace(timer),
            _ => Some(timer),
        }
    }

    /// Takes the owner out, of that rest, or whatever rest it is. The timer is to be cancelled.
    pub(crate) fn get_up(&self, number: Option<u64>) -> Option<(Resting, Option<Timer>)> {
        let mut state = self.0.lock();
        if number.is_some_and(|number| number != state.number) {
            return None;
        }
        state.resting.take()
    }
}
