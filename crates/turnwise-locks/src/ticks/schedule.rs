//! Schedules: the tick at a time, and when the next one begins.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Cuts time into ticks: from the time since the Unix epoch to the number of a tick. That grows
/// with time, and names the tick among all contenders.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_locks::ticks::Schedule;
///
/// let hour = Duration::from_secs(3600);
/// let nightly = Schedule::every(24 * hour).offset(3 * hour); // at three, UTC
/// assert_eq!(nightly.tick_at(2 * 24 * hour + 4 * hour), 2);
/// assert_eq!(nightly.tick_at(2 * 24 * hour + 2 * hour), 1);
/// ```
#[derive(Clone)]
pub struct Schedule(ScheduleKind);

#[derive(Clone)]
enum ScheduleKind {
    Every { step: Duration, offset: Duration },
    Own(Arc<dyn Fn(Duration) -> (u64, Duration) + Send + Sync>),
}

impl Schedule {
    /// A tick each `step`, counted from the epoch.
    ///
    /// # Panics
    /// If the step is zero.
    #[track_caller]
    pub fn every(step: Duration) -> Schedule {
        assert!(!step.is_zero(), "the time between two ticks must not be zero");
        Schedule(ScheduleKind::Every { step, offset: Duration::ZERO })
    }

    /// Tick 0 begins so long after the epoch, and all others with it; all time before is of tick 0,
    /// too. It is a part of the step: of a longer one, full steps do not count. Changes nothing
    /// about a schedule [of one's own](Self::from_fn).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::ticks::Schedule;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let nightly = Schedule::every(24 * hour).offset(27 * hour); // at three, every day
    /// assert_eq!(nightly.period(), Some((24 * hour, 3 * hour)));
    /// ```
    #[must_use]
    pub fn offset(self, offset: Duration) -> Schedule {
        Schedule(match self.0 {
            ScheduleKind::Every { step, .. } => {
                ScheduleKind::Every { step, offset: duration(offset.as_nanos() % step.as_nanos()) }
            }
            own => own,
        })
    }

    /// Any other cut, a cron expression's for example: from the time since the epoch to the number
    /// of the tick, and to when the next one begins. The number must grow with time.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::ticks::Schedule;
    ///
    /// // At ten and at twenty seconds of each minute.
    /// let twice = Schedule::from_fn(|time| {
    ///     let (minute, second) = (time.as_secs() / 60, time.as_secs() % 60);
    ///     let (number, next) = match second {
    ///         0..10 => (2 * minute, 10),
    ///         10..20 => (2 * minute + 1, 20),
    ///         _ => (2 * minute + 2, 70),
    ///     };
    ///     (number, Duration::from_secs(60 * minute + next))
    /// });
    /// assert_eq!(twice.tick_at(Duration::from_secs(75)), 3);
    /// ```
    pub fn from_fn(cut: impl Fn(Duration) -> (u64, Duration) + Send + Sync + 'static) -> Schedule {
        Schedule(ScheduleKind::Own(Arc::new(cut)))
    }

    /// The number of the tick of this time since the epoch.
    pub fn tick_at(&self, time: Duration) -> u64 {
        self.look(time).0
    }

    /// The tick that begins nearest to this time since the epoch. Of a schedule
    /// [of one's own](Self::from_fn), the tick of this time.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::ticks::Schedule;
    ///
    /// let hourly = Schedule::every(Duration::from_secs(3600));
    /// let early = Duration::from_millis(3_599_990); // ten milliseconds before one o'clock
    /// assert_eq!(hourly.tick_at(early), 0);
    /// assert_eq!(hourly.nearest_tick_at(early), 1);
    /// ```
    pub fn nearest_tick_at(&self, time: Duration) -> u64 {
        self.look_nearest(time).0
    }

    /// The time between its ticks, and when tick 0 begins, after the epoch. `None` of a schedule
    /// [of one's own](Self::from_fn).
    pub fn period(&self) -> Option<(Duration, Duration)> {
        match self.0 {
            ScheduleKind::Every { step, offset } => Some((step, offset)),
            ScheduleKind::Own(_) => None,
        }
    }

    /// The tick that begins nearest, and when the next one begins.
    pub(super) fn look_nearest(&self, time: Duration) -> (u64, Duration) {
        match self.period() {
            Some((step, _)) => self.look(time.saturating_add(step / 2)),
            None => self.look(time),
        }
    }

    /// The tick, and when the next one begins.
    pub(super) fn look(&self, time: Duration) -> (u64, Duration) {
        match &self.0 {
            ScheduleKind::Every { step, offset } => {
                let number = time.saturating_sub(*offset).as_nanos() / step.as_nanos();
                let next = duration((number + 1).saturating_mul(step.as_nanos()));
                let next = next.saturating_add(*offset);
                (u64::try_from(number).unwrap_or(u64::MAX), next)
            }
            ScheduleKind::Own(cut) => cut(time),
        }
    }
}

fn duration(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % 1_000_000_000) as u32)
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ScheduleKind::Every { step, offset } => f
                .debug_struct("Schedule")
                .field("step", step)
                .field("offset", offset)
                .finish_non_exhaustive(),
            ScheduleKind::Own(_) => f.debug_struct("Schedule").finish_non_exhaustive(),
        }
    }
}
