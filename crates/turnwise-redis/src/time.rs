//! Durations and moments.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

/// The shortest duration that timers and networks can keep.
pub(crate) const SHORTEST: Duration = Duration::from_millis(10);

/// The longest duration that is used; more is as good as for ever. A server's numbers are exact to
/// 2^53 microseconds, far above this.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Returns the instant that is this far from now.
pub(crate) fn after(duration: Duration) -> Instant {
    Instant::now() + duration.min(LONGEST)
}

/// A moment of a clock that goes on while this machine is suspended, as the store's clock does.
/// Timers do not advance meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Instant);

impl Moment {
    pub(crate) fn now() -> Self {
        Moment(Instant::now() + suspended())
    }

    /// Returns the moment that is this much later.
    pub(crate) fn and(self, time: Duration) -> Self {
        Moment(self.0 + time.min(LONGEST))
    }

    /// Returns the time until this moment.
    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Moment::now().0)
    }

    /// Returns the instant for a timer that starts now.
    pub(crate) fn timer(self) -> Instant {
        self.0.checked_sub(suspended()).unwrap_or(self.0)
    }
}

thread_local! {
    /// A suspension of this machine that tests pretend on this thread. `None`: the system's.
    pub(crate) static PRETENDED: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Returns how long this machine has been suspended since its start, where the system provides
/// that.
fn suspended() -> Duration {
    if let Some(pretended) = PRETENDED.get() {
        return pretended;
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use nix::time::{ClockId, clock_gettime};
        let time = |clock| clock_gettime(clock).map(Duration::from);
        if let (Ok(awake), Ok(all)) =
            (time(ClockId::CLOCK_MONOTONIC), time(ClockId::CLOCK_BOOTTIME))
        {
            return all.saturating_sub(awake);
        }
    }
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_while_the_machine_is_suspended() {
        let hour = Duration::from_secs(3600);
        let then = Moment::now().and(hour);
        assert!(then.remaining() > hour / 2 && then.timer() > Instant::now() + hour / 2);
        PRETENDED.set(Some(suspended() + hour * 2));
        assert!(Moment::now() > then && then.remaining().is_zero());
        assert!(then.timer() < Instant::now());
        // A later moment is not affected by an earlier suspension.
        assert!(Moment::now().and(hour).remaining() > hour / 2);
    }
}
