//! The time that a run may wait, and the time that it should take.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Clock, Limit, MonotonicClock, Promise, Reply, promise, promise_on};

use crate::user_code::{catch, discard};

/// The time that a run, or a request for a lock, a permit or a slot, waits for its turn, and the
/// time that it may take then: two durations that cannot be mixed up.
///
/// The wait is measured once, from the call to the start. A wait of zero is one immediate attempt
/// that overtakes no other; an executor has a millisecond to begin it.
///
/// The lease is measured from the start. What becomes of it differs. Blocking code is never cut: a
/// closure that takes longer still has the key to itself until it returns, and its caller learns
/// ([`RunError::Overran`](crate::RunError::Overran)). A lock, a permit or a slot goes on to the
/// next, and its holder [learns of it](crate::Guard::is_lost).
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_locks::{Keyed, Limits};
///
/// let keyed = Keyed::new();
/// let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_secs(60));
/// assert_eq!(keyed.run_within("job", limits, |()| 2)?, 2);
/// # Ok::<(), turnwise_locks::RunError<i32>>(())
/// ```
///
/// ```compile_fail,E0277
/// # use std::time::Duration;
/// # use turnwise_locks::Locks;
/// let locks = Locks::new();
/// let guard = locks.lock_within("job", Duration::from_secs(5)); // waits, or lasts?
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    wait: Limit,
    lease: Option<Duration>,
    early: bool,
}

impl Limits {
    /// No limit at all.
    pub const NONE: Limits = Limits { wait: Limit::Unlimited, lease: None, early: false };

    /// Waits for its turn so long at most, and may then take as long as it takes.
    pub fn wait(limit: impl Into<Limit>) -> Self {
        // Whatever made it: no time is no waiting.
        let wait = match limit.into() {
            Limit::Within(Duration::ZERO) => Limit::Immediate,
            wait => wait,
        };
        Limits { wait, lease: None, early: false }
    }

    /// With a lease: a closure that takes longer is reported, an async one is cut at its await, a
    /// lock that is held longer is taken away.
    ///
    /// # Panics
    /// If the lease is zero: it would be over before it begins.
    #[track_caller]
    pub fn lease(self, lease: Duration) -> Self {
        assert!(!lease.is_zero(), "a lease must not be zero");
        Limits { lease: Some(lease), ..self }
    }

    /// Refused at once if its turn is not to be expected in time: if those that run and wait before
    /// it, as long as uses of this key have lasted lately, take longer than the wait
    /// ([`NotStarted::Expected`](crate::NotStarted::Expected)). It takes no place then.
    ///
    /// Where several hold at a time, as permits do, as many end in the time of one.
    ///
    /// How long uses last is a decaying mean over those that have limits; a use without any reads
    /// no clock, and counts as one of those that wait. Nothing is measured before the first call
    /// with this flag, and none is refused before something was measured. What is known of a key
    /// outlives its idle times.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::{Keyed, Limits};
    ///
    /// let keyed = Keyed::new();
    /// let hasty = Limits::wait(Duration::from_millis(50)).refuse_early();
    /// assert_eq!(keyed.run_within("a", hasty, |()| 1)?, 1); // there is no other
    /// # Ok::<(), turnwise_locks::RunError<i32>>(())
    /// ```
    pub fn refuse_early(self) -> Self {
        Limits { early: true, ..self }
    }

    /// The lease, if there is one.
    pub fn leased(self) -> Option<Duration> {
        self.lease
    }

    /// The time that it may wait for its turn.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::Limit;
    /// use turnwise_locks::Limits;
    ///
    /// let second = Duration::from_secs(1);
    /// let limits = Limits::wait(second).lease(2 * second);
    /// assert_eq!(limits.waited(), Limit::Within(second));
    /// assert_eq!(limits.leased(), Some(2 * second));
    /// ```
    pub fn waited(self) -> Limit {
        self.wait
    }

    pub(crate) fn unleased(self) -> Self {
        Limits { lease: None, ..self }
    }

    /// The limits with this rest of the wait.
    pub(crate) fn left(self, left: Duration) -> Self {
        Limits { wait: Limits::wait(left).wait, ..self }
    }

    pub(crate) fn is_immediate(self) -> bool {
        self.wait == Limit::Immediate
    }

    /// True if it may be refused early.
    pub(crate) fn is_early(self) -> bool {
        self.early && self.wait != Limit::Unlimited
    }

    /// True if nothing but the wait is limited, and estimates do not matter.
    pub(crate) fn are_plain(self) -> bool {
        self.lease.is_none() && !self.early
    }

    /// The terms of a call that does not wait: it reads no clock.
    pub(crate) fn immediate(self) -> Terms {
        Terms { lease: self.lease, ..Terms::NONE }
    }

    /// [`terms`](Self::terms) of a call that an executor runs. It has a millisecond to come to one
    /// that does not wait.
    pub(crate) fn terms_elsewhere(self, now: impl FnOnce() -> Duration) -> Terms {
        match self.is_immediate() {
            true => {
                let limits = Limits { wait: Limit::Within(Duration::from_millis(1)), ..self };
                Terms { is_try: true, ..limits.terms(now) }
            }
            false => self.terms(now),
        }
    }

    /// The terms of a call that is made now. A limit too large for the clock is no limit.
    pub(crate) fn terms(self, now: impl FnOnce() -> Duration) -> Terms {
        let Limit::Within(wait) = self.wait else {
            return self.immediate();
        };
        let called = now();
        let wait = called.checked_add(wait).map(|at| Wait { called, at });
        let early = self.early && wait.is_some();
        Terms { wait, lease: self.lease, early, is_try: false }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::NONE
    }
}

impl From<Limit> for Limits {
    fn from(wait: Limit) -> Self {
        Limits::wait(wait)
    }
}

/// The limits of one call: its deadline is made once, and carried along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) wait: Option<Wait>,
    pub(crate) lease: Option<Duration>,
    /// It is refused if it is not to be expected in time.
    pub(crate) early: bool,
    /// It does not wait: it is busy if its time is over.
    pub(crate) is_try: bool,
}

/// Timers and the time by their clock: those that were given, or the machine's.
///
/// The clock is the user's. One that panics shows what it showed last: so a lease that begins in
/// that moment does not end in it.
#[derive(Clone)]
pub(crate) struct TimeSource(Option<Arc<GivenTime>>);

struct GivenTime {
    timers: Timers,
    /// The time shown last, in nanoseconds.
    last: AtomicU64,
}

impl TimeSource {
    /// With these timers, or those of the machine's clock, which does not panic.
    pub(crate) fn new(timers: Option<Timers>) -> Self {
        let given = |timers| Arc::new(GivenTime { timers, last: AtomicU64::default() });
        let time = TimeSource(timers.map(given));
        // What it shows if it panics from now on.
        time.now();
        time
    }

    pub(crate) fn now(&self) -> Duration {
        let Some(given) = &self.0 else { return MonotonicClock.now() };
        // Ordering: Relaxed. A time to go on with: nothing is published by it.
        match catch(|| given.timers.now()) {
            Ok(now) => {
                given.last.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Relaxed);
                now
            }
            Err(payload) => {
                discard(payload);
                Duration::from_nanos(given.last.load(Relaxed))
            }
        }
    }

    pub(crate) fn timers(&self) -> &Timers {
        self.0.as_ref().map_or_else(|| Timers::global(), |given| &given.timers)
    }

    /// A promise whose reply is waited for by this clock.
    pub(crate) fn promise<T: Send + 'static>(&self) -> (Promise<T>, Reply<T>) {
        match &self.0 {
            None => promise(),
            Some(given) => promise_on(given.timers.clock().clone()),
        }
    }
}

/// From when to when a call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) called: Duration,
    pub(crate) at: Duration,
}

impl Terms {
    pub(crate) const NONE: Terms = Terms { wait: None, lease: None, early: false, is_try: false };

    /// True if it has any limit. Then it reads the clock.
    pub(crate) fn are_limits(self) -> bool {
        self.wait.is_some() || self.lease.is_some()
    }
}

impl Wait {
    /// The time that it has waited, if its limit is over.
    pub(crate) fn over(self, now: Duration) -> Option<Duration> {
        (now >= self.at).then(|| now.saturating_sub(self.called))
    }
}
