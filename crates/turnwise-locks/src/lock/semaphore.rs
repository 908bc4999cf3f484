//! Permits.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Actor, Clock};

use super::acquire::{Acquire, Wanted};
use super::desk::{Common, Core};
use super::error::LockError;
use super::guard::guard;
use super::keys::Timing;
use super::loan::{Lender, Tray, Trays};
use crate::limits::Limits;
use crate::registry::Slot;
use crate::sync::Mutex;

guard! {
    /// Permits that are held: [`Semaphore::acquire`]. Dropping it gives them back, to whoever waits
    /// next.
    Permit
}

/// A fair semaphore: so many permits, handed out in the order of the calls.
///
/// A request for many is not overtaken by those for few. Permits may have a lease: after that they
/// go on to the next, and the late holder's release changes nothing. Clones are the same semaphore.
///
/// # Examples
/// ```
/// use turnwise_locks::{LockError, Semaphore};
///
/// let seats = Semaphore::new(2);
/// let (one, two) = (seats.acquire().wait()?, seats.acquire().wait()?);
/// assert_eq!(seats.try_acquire(1).unwrap_err(), LockError::Busy);
/// drop(one);
/// let three = seats.try_acquire(1)?;
/// assert!(three.fence() > two.fence());
/// # Ok::<(), LockError>(())
/// ```
#[derive(Clone)]
pub struct Semaphore {
    lender: Arc<Lender<()>>,
}

/// What is known of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreInfo {
    /// So many permits there are in all.
    pub permits: u64,
    /// So many are not handed out.
    pub available: u64,
    /// So many requests hold some.
    pub holders: usize,
    /// So many requests wait.
    pub waiting: usize,
    /// So long the first of them waits.
    pub oldest_wait: Option<Duration>,
}

impl Semaphore {
    /// So many permits. There may be none: until some are [added](Self::add), every request is
    /// refused with [`LockError::TooMany`].
    pub fn new(permits: u64) -> Self {
        Self::builder(permits).build()
    }

    /// With a clock, or timers, of its own.
    pub fn builder(permits: u64) -> SemaphoreBuilder {
        SemaphoreBuilder { permits, timing: Timing::default() }
    }

    /// Asks for one permit, without a limit.
    pub fn acquire(&self) -> Acquire<(), Permit> {
        self.acquire_within(1, Limits::NONE)
    }

    /// Asks for permits, with [limits](crate::Locks::lock_within). More than there are in all are
    /// refused at once, with [`LockError::TooMany`].
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Limits, LockError, Semaphore};
    ///
    /// let seats = Semaphore::new(3);
    /// let some = seats.acquire_within(2, Limits::NONE).wait()?;
    /// let waiting = seats.acquire_within(3, Limits::NONE);
    /// assert_eq!(seats.try_acquire(1).unwrap_err(), LockError::Busy); // not before the three
    /// drop(some);
    /// let all = waiting.wait()?;
    /// let refused = seats.acquire_within(4, Limits::NONE).wait();
    /// assert_eq!(refused.unwrap_err(), LockError::TooMany { permits: 3 });
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn acquire_within(&self, permits: u64, limits: impl Into<Limits>) -> Acquire<(), Permit> {
        let limits = limits.into();
        if permits > 0 && limits.are_plain() {
            if let Some(loan) = self.lender.lend(permits) {
                return Acquire::loan(loan);
            }
        }
        self.ask(permits, limits)
    }

    /// Asks for permits that are not lent, in a turn.
    pub(crate) fn ask(&self, permits: u64, limits: Limits) -> Acquire<(), Permit> {
        if limits.has_lease_of_zero() {
            return Acquire::refused(LockError::LeaseZero);
        }
        if permits == 0 {
            return Acquire::refused(LockError::NoPermits);
        }
        let terms = limits.terms(|| self.lender.common.now());
        let wanted = Wanted { owner: None, weight: permits, limits };
        Acquire::new(self.lender.place(), wanted, terms)
    }

    /// A permit of the tray was given back that it did not take.
    pub(crate) fn pay_back(&self) {
        self.lender.pay_back(1);
    }

    /// Permits, if they are there now and nobody waits.
    ///
    /// # Errors
    /// [`LockError::Busy`], [`LockError::TooMany`], [`LockError::NoPermits`],
    /// [`LockError::Closed`].
    pub fn try_acquire(&self, permits: u64) -> Result<Permit, LockError> {
        self.acquire_within(permits, Duration::ZERO).wait()
    }

    /// Adds permits; those that wait next may get them.
    pub fn add(&self, permits: u64) {
        self.turn(move |core, common| core.resize(|before| before.saturating_add(permits), common));
    }

    /// Takes permits away for good, down to none: those that are not handed out at once, the others
    /// as they come back. Requests for more than are left are refused.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Semaphore;
    ///
    /// let seats = Semaphore::new(3);
    /// let two = seats.try_acquire(2)?;
    /// seats.reduce(2);
    /// assert_eq!(seats.info()?.available, 0);
    /// drop(two);
    /// assert_eq!(seats.info()?.available, 1);
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn reduce(&self, permits: u64) {
        self.turn(move |core, common| core.resize(|before| before.saturating_sub(permits), common));
    }

    /// So many permits from now on, as is decided in the turn that changes it.
    pub(crate) fn resize(&self, permits: impl FnOnce() -> u64 + Send + 'static) {
        self.turn(move |core, common| core.resize(|_| permits(), common));
    }

    /// All permits that are there now, if there are any, and nobody waits.
    ///
    /// # Errors
    /// [`LockError::Busy`]; and those of [`info`](Self::info).
    pub fn drain(&self) -> Result<Permit, LockError> {
        loop {
            let available = self.info()?.available;
            if available == 0 {
                return Err(LockError::Busy);
            }
            // Others may come in between: then there are fewer.
            match self.try_acquire(available) {
                Err(LockError::Busy) if self.info()?.waiting == 0 => {}
                Err(LockError::TooMany { .. }) => {}
                result => return result,
            }
        }
    }

    /// What is known of it. Stale on return. May block, as long as one of its turns lasts.
    ///
    /// # Errors
    /// Nothing is known: [`LockError::Closed`] after a [`close`](Self::close),
    /// [`LockError::WouldBlock`] on a worker that must not wait, [`LockError::Deadlock`] inside a
    /// waker of this very semaphore.
    pub fn info(&self) -> Result<SemaphoreInfo, LockError> {
        let common = &self.lender.common;
        let known = self.lender.actor.with(|slot| {
            slot.state.as_mut().map(|core| {
                let view = core.view(common);
                let now = common.now();
                SemaphoreInfo {
                    permits: view.capacity,
                    available: view.capacity.saturating_sub(view.used),
                    holders: view.holds,
                    waiting: view.waiting,
                    oldest_wait: view.oldest_wait.map(|since| now.saturating_sub(since)),
                }
            })
        });
        known?.ok_or(LockError::Closed)
    }

    /// Takes no more requests: they fail with [`LockError::Closed`], and so do those that wait.
    pub fn close(&self) {
        self.lender.close();
    }

    fn turn(&self, f: impl FnOnce(&mut Core<()>, &Arc<Common>) + Send + 'static) {
        self.lender.place().end(f);
    }
}

// No panic leaves it half changed.
impl UnwindSafe for Semaphore {}
impl RefUnwindSafe for Semaphore {}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").finish_non_exhaustive()
    }
}

/// Describes a semaphore before it is made: see [`Semaphore::builder`].
#[must_use = "nothing is made before `build`"]
pub struct SemaphoreBuilder {
    permits: u64,
    timing: Timing,
}

impl SemaphoreBuilder {
    /// As [`LocksBuilder::timers`](crate::LocksBuilder::timers).
    pub fn timers(mut self, timers: Timers) -> Self {
        self.timing.timers = Some(timers);
        self
    }

    /// As [`LocksBuilder::clock`](crate::LocksBuilder::clock).
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.timing.clock(clock);
        self
    }

    /// Makes the semaphore.
    pub fn build(self) -> Semaphore {
        let trays = Arc::new(Mutex::new(Tray::of(self.permits)));
        self.lending_from(trays)
    }

    /// With its tray in the lock of what goes with its permits; that has them.
    pub(crate) fn lending_from(self, trays: Arc<dyn Trays>) -> Semaphore {
        let core = Core::lending(self.permits, trays.clone());
        let actor = Actor::new(Slot::alone(core));
        Semaphore { lender: Arc::new(Lender { trays, common: self.timing.common(), actor }) }
    }
}

impl fmt::Debug for SemaphoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphoreBuilder").field("permits", &self.permits).finish_non_exhaustive()
    }
}
