//! Permits.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use turnwise::Actor;

use super::acquire::{Acquire, Wanted};
use super::call::Call;
use super::error::{Closed, LockError};
use super::fast::Lender;
use super::guard::guard;
use super::keys::LocksBuilder;
use super::turns::{Common, Core};
use crate::limits::Limits;
use crate::registry::KeySlot;

guard! {
    /// Permits that are held: [`Semaphore::acquire`]. Dropping it gives them back to the
    /// next request.
    Permit
}

impl Permit {
    /// The number of its permits.
    pub fn permits(&self) -> u64 {
        self.held.weight()
    }

    /// Takes some of its permits out, as a hold of their own with a later fence. `None` if it has
    /// not more than that many, or was [lost](Self::is_lost). The rest of a lease goes on for both.
    /// Lock-free.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Semaphore;
    ///
    /// let seats = Semaphore::new(3);
    /// let mut all = seats.try_acquire(3)?;
    /// let one = all.split(1).unwrap();
    /// assert_eq!((all.permits(), one.permits()), (2, 1));
    /// drop(one);
    /// assert_eq!(seats.available(), 1);
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn split(&mut self, permits: u64) -> Option<Permit> {
        self.held.split(permits).map(|held| Permit { held })
    }

    /// Takes in the permits of another hold of the same semaphore; its own fence and lease stay.
    /// Lock-free.
    ///
    /// # Errors
    /// The other hold comes back: it is one of another semaphore, or one of the two was
    /// [lost](Self::is_lost).
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Semaphore;
    ///
    /// let seats = Semaphore::new(3);
    /// let mut two = seats.try_acquire(2)?;
    /// two.merge(seats.try_acquire(1)?).unwrap();
    /// assert_eq!((two.permits(), seats.available()), (3, 0));
    /// assert!(two.merge(Semaphore::new(1).try_acquire(1)?).is_err());
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn merge(&mut self, other: Permit) -> Result<(), Permit> {
        self.held.merge(other.held).map_err(|held| Permit { held })
    }

    /// Ends the hold and does not give its permits back: the semaphore has fewer from now on.
    /// Nothing changes if it was [lost](Self::is_lost). Lock-free.
    ///
    /// # Examples
    /// ```
    /// let seats = turnwise_locks::Semaphore::new(3);
    /// seats.try_acquire(2)?.forget();
    /// assert_eq!(seats.info().wait()?.permits, 1);
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn forget(self) {
        self.held.forget();
    }
}

/// A fair semaphore: permits that are handed out in the order of the calls.
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
/// assert!(matches!(seats.try_acquire(1), Err(LockError::Busy { .. })));
/// drop(one);
/// let three = seats.try_acquire(1)?;
/// assert!(three.fence() > two.fence());
/// # Ok::<(), LockError>(())
/// ```
#[derive(Clone)]
pub struct Semaphore {
    lender: Arc<Lender<()>>,
}

/// A look at a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreInfo {
    /// The number of permits in all.
    pub permits: u64,
    /// The number of permits that are not handed out.
    pub available: u64,
    /// The number of requests that wait.
    pub waiting: usize,
    /// The time that the first of them waits: one with limits, or after the first look at this
    /// semaphore.
    pub oldest_wait: Option<Duration>,
}

/// Panics if no permits are asked for.
#[track_caller]
pub(super) fn assert_some(permits: u64) {
    assert!(permits > 0, "a request needs at least one permit");
}

impl Semaphore {
    /// A semaphore with this many permits. With none, a request for one waits until one is
    /// [added](Self::add).
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Semaphore;
    ///
    /// let arrived = Semaphore::new(0);
    /// let signal = arrived.clone();
    /// let other = std::thread::spawn(move || signal.add(1));
    /// arrived.acquire().wait()?.forget(); // each signal counts once
    /// assert_eq!(arrived.available(), 0);
    /// # other.join().unwrap();
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn new(permits: u64) -> Self {
        Self::builder(permits).build()
    }

    /// With a clock, or timers, of its own.
    pub fn builder(permits: u64) -> LocksBuilder<Self> {
        LocksBuilder::new(move |timing| {
            let common = Common::lending(timing.timers);
            let actor = Actor::new(KeySlot::alone(Core::lending(permits, &common)));
            Semaphore { lender: Arc::new(Lender { common, actor }) }
        })
    }

    /// Asks for one permit, without a limit. Awaited, it fails after a [`close`](Self::close) only.
    pub fn acquire(&self) -> Acquire<(), Permit, Closed> {
        match self.lender.lend(1) {
            Some(permit) => Acquire::fast(permit),
            None => self.ask(1, Limits::NONE),
        }
    }

    /// Asks for permits, with [limits](crate::Locks::lock_within). A request for several, and for
    /// more than there are in all, is refused at once with [`LockError::TooMany`].
    ///
    /// # Panics
    /// If no permits are asked for.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Limits, LockError, Semaphore};
    ///
    /// let seats = Semaphore::new(3);
    /// let some = seats.acquire_within(2, Limits::NONE).wait()?;
    /// let waiting = seats.acquire_within(3, Limits::NONE);
    /// assert!(matches!(seats.try_acquire(1), Err(LockError::Busy { .. }))); // behind it
    /// drop(some);
    /// let all = waiting.wait()?;
    /// let refused = seats.acquire_within(4, Limits::NONE).wait();
    /// assert_eq!(refused.unwrap_err(), LockError::TooMany { permits: 3 });
    /// # Ok::<(), LockError>(())
    /// ```
    #[track_caller]
    pub fn acquire_within(&self, permits: u64, limits: impl Into<Limits>) -> Acquire<(), Permit> {
        assert_some(permits);
        let limits = limits.into();
        if limits.are_plain() {
            if let Some(permit) = self.lender.lend(permits) {
                return Acquire::fast(permit);
            }
        }
        self.ask(permits, limits)
    }

    /// Asks for permits in a turn.
    pub(crate) fn ask<E>(&self, permits: u64, limits: Limits) -> Acquire<(), Permit, E> {
        let terms = limits.terms(|| self.lender.common.now());
        let wanted = Wanted { owner: None, weight: permits, limits };
        Acquire::new(self.lender.place(), wanted, terms)
    }

    /// Takes a permit without a turn, if one is there and no request is before.
    pub(crate) fn take(&self) -> bool {
        self.lender.take(1).is_some()
    }

    /// Puts back a permit that was [taken](Self::take).
    pub(crate) fn put(&self) {
        self.lender.put(1);
    }

    /// Permits, if they are there now and no request waits.
    ///
    /// # Errors
    /// [`LockError::TooMany`], and those of [`Locks::try_lock`](crate::Locks::try_lock).
    ///
    /// # Panics
    /// As [`acquire_within`](Self::acquire_within).
    #[track_caller]
    pub fn try_acquire(&self, permits: u64) -> Result<Permit, LockError> {
        self.acquire_within(permits, Limits::wait(Duration::ZERO)).wait()
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
    /// assert_eq!(seats.info().wait()?.available, 0);
    /// drop(two);
    /// assert_eq!(seats.info().wait()?.available, 1);
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn reduce(&self, permits: u64) {
        self.turn(move |core, common| core.resize(|before| before.saturating_sub(permits), common));
    }

    /// Sets the number of permits, as is decided in the turn that changes it.
    pub(crate) fn resize(&self, permits: impl FnOnce() -> u64 + Send + 'static) {
        self.turn(move |core, common| core.resize(|_| permits(), common));
    }

    /// All permits that are there now, if there are any, and no request waits.
    ///
    /// # Errors
    /// [`LockError::Busy`]; and those of [`info`](Self::info).
    pub fn drain(&self) -> Result<Permit, LockError> {
        loop {
            let available = self.info().wait()?.available;
            if available == 0 {
                return Err(LockError::Busy { key: None });
            }
            // Others may come in between: then there are fewer.
            match self.try_acquire(available) {
                Err(LockError::Busy { .. }) if self.info().wait()?.waiting == 0 => {}
                Err(LockError::TooMany { .. }) => {}
                result => return result,
            }
        }
    }

    /// The number of permits that a request would get at once: none while another waits. Stale on
    /// return. Wait-free.
    ///
    /// # Examples
    /// ```
    /// let seats = turnwise_locks::Semaphore::new(3);
    /// let two = seats.try_acquire(2)?;
    /// assert_eq!(seats.available(), 1);
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn available(&self) -> u64 {
        self.lender.at_once()
    }

    /// A look at it. Stale on return. This call may block, as long as one of its turns lasts.
    ///
    /// Nothing is known if it fails: with [`LockError::Closed`] after a [`close`](Self::close),
    /// [`LockError::WouldBlock`] on a worker that must not wait, [`LockError::Deadlock`] inside a
    /// waker of this very semaphore.
    pub fn info(&self) -> Call<SemaphoreInfo> {
        let common = &self.lender.common;
        common.watch();
        let known = self.lender.actor.with(|slot| {
            slot.state.as_mut().filter(|core| !core.is_closed()).map(|core| {
                let view = core.view(common);
                let now = common.now();
                SemaphoreInfo {
                    permits: view.capacity,
                    available: view.capacity.saturating_sub(view.used),
                    waiting: view.waiting,
                    oldest_wait: view.oldest_wait.map(|since| now.saturating_sub(since)),
                }
            })
        });
        Call::over(known.map_err(LockError::from).and_then(|known| known.ok_or(LockError::Closed)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_taken_without_a_turn_again_some_time_after_an_early_refusal() {
        let semaphore = Semaphore::new(1);
        let early = Limits::wait(Duration::from_nanos(1)).refuse_early();
        let held = semaphore.try_acquire(1).unwrap();
        assert!(semaphore.acquire_within(1, early).wait().is_err());
        drop(held);
        let turns = (0..1_000).take_while(|_| {
            let took = semaphore.lender.lend(1);
            if took.is_none() {
                drop(semaphore.acquire().wait().unwrap());
            }
            took.is_none()
        });
        assert_eq!(turns.count(), 64);
    }
}
