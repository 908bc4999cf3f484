//! A pool before it is made.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Actor, Clock, Executor, Spawner};

use super::SlotPool;
use super::error::SlotError;
use super::pool::{Hooks, Pool, SetUp};
use super::shared::Shared;
use super::view::SlotId;
use crate::lock::Fence;

/// Describes a pool before it is made: see [`SlotPool::builder`].
#[must_use = "nothing is made before `build`"]
pub struct SlotPoolBuilder<T: 'static = (), E: 'static = Infallible> {
    slots: usize,
    common: SlotSettings,
    hooks: Hooks<T, E>,
}

#[derive(Default)]
struct SlotSettings {
    lease: Option<Duration>,
    clean_first: bool,
    timers: Option<Timers>,
    helper: Option<Spawner<()>>,
}

/// The error of a pool that was not made, or not resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotBuildError {
    /// A pool has at least one slot.
    NoSlots,
    /// There is a [largest number](SlotPool::MOST).
    TooMany {
        /// The limit.
        most: usize,
    },
}

/// A size that a pool can have.
pub(super) fn size(slots: usize) -> Result<usize, SlotBuildError> {
    match slots {
        0 => Err(SlotBuildError::NoSlots),
        _ if slots > SlotPool::MOST => Err(SlotBuildError::TooMany { most: SlotPool::MOST }),
        _ => Ok(slots),
    }
}

impl SlotPoolBuilder {
    pub(super) fn new(slots: usize) -> Self {
        let set_up = SetUp::Plain(|| ());
        let hooks = Hooks { set_up, clean_up: None, reclaim: None, on_quarantine: None };
        SlotPoolBuilder { slots, common: SlotSettings::default(), hooks }
    }

    /// Makes a slot ready for each use, and the value that its user has: in the poll, or in the
    /// call, in which the slot comes. It returns when the slot is ready, so nothing has to be
    /// waited for. Its types are those of the pool: say it before the hooks that get them.
    ///
    /// If it fails, or panics, the slot is cleaned up once without a value, and goes on; the error
    /// goes to the caller, and so does the panic.
    ///
    /// # Panics
    /// If it comes after [`clean_up`](Self::clean_up) or [`on_quarantine`](Self::on_quarantine):
    /// their types are those of the value and the error that it returns.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::slots::SlotError;
    /// use turnwise_locks::SlotPool;
    ///
    /// let pool = SlotPool::builder(1)
    ///     .set_up(|slot| if slot.index() == 0 { Err("no such device") } else { Ok(slot) })
    ///     .build()?;
    /// assert_eq!(pool.try_acquire().unwrap_err(), SlotError::SetUp("no such device"));
    /// assert_eq!(pool.view().free, 1);
    /// # Ok::<(), turnwise_locks::slots::SlotBuildError>(())
    /// ```
    #[track_caller]
    pub fn set_up<T, E>(
        self,
        set_up: impl Fn(SlotId) -> Result<T, E> + Send + Sync + 'static,
    ) -> SlotPoolBuilder<T, E> {
        let Hooks { clean_up, reclaim, on_quarantine, .. } = self.hooks;
        assert!(clean_up.is_none() && on_quarantine.is_none(), "`set_up` comes before its hooks");
        let set_up = SetUp::Run(Box::new(set_up));
        let hooks = Hooks { set_up, clean_up: None, reclaim, on_quarantine: None };
        SlotPoolBuilder { slots: self.slots, common: self.common, hooks }
    }
}

impl<T: 'static, E: 'static> SlotPoolBuilder<T, E> {
    /// Makes a slot clean, whatever has happened to it, before anybody else gets it.
    ///
    /// After a use it gets the value, on the thread that ends the use. It gets none where there is
    /// none: after a set-up that has failed, after a holder that was [reclaimed](Self::reclaim) and
    /// may have its value still, before the [first use](Self::clean_first), and for a
    /// [repair](SlotPool::repair). It is one function, so that each of them comes to the same.
    ///
    /// If it fails, or panics, the slot is [quarantined](Self::on_quarantine). Without this, a slot
    /// is clean when its value is dropped.
    pub fn clean_up(
        mut self,
        clean_up: impl Fn(SlotId, Option<T>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.clean_up = Some(Box::new(clean_up));
        self
    }

    /// Cleans each slot up before its first use, too: it may be dirty from a process that was here
    /// before. If that fails, the slot is quarantined, and the caller gets
    /// [`SlotError::CleanUp`](crate::slots::SlotError::CleanUp).
    pub fn clean_first(mut self) -> Self {
        self.common.clean_first = true;
        self
    }

    /// Sets the lease of a use, which begins at the end of its set-up, unless its
    /// [limits](crate::Limits::lease) say otherwise or it is [renewed](crate::Slot::renew).
    ///
    /// At its end the holder [loses](crate::Slot::lost) the slot; it is [reclaimed](Self::reclaim),
    /// cleaned up without its value, and given on with a larger fence. An async
    /// [job](crate::SlotPool::run_async) is cut before that. What the late holder does
    /// with its guard changes nothing then. All this happens in the pool's
    /// [executor](Self::executor). Set-up and clean-up are not part of it: one that hangs holds its
    /// slot.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn lease(mut self, lease: Duration) -> Self {
        assert!(!lease.is_zero(), "a lease must not be zero");
        self.common.lease = Some(lease);
        self
    }

    /// Ends a holder whose lease is over, before its slot is cleaned up: kills the process that
    /// hangs, say. It gets the slot, and the fence of the hold. If it panics, the slot is
    /// quarantined, for its holder may have it still.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::time::Duration;
    /// use turnwise_locks::{Limits, SlotPool};
    ///
    /// let killed = Arc::new(AtomicU64::new(0));
    /// let seen = killed.clone();
    /// let pool = SlotPool::builder(1)
    ///     .lease(Duration::from_millis(1))
    ///     .reclaim(move |_, fence| seen.store(fence.number(), Ordering::SeqCst))
    ///     .build()?;
    /// let hangs = pool.try_acquire()?;
    /// let next = pool.acquire(Limits::NONE).wait()?; // the only slot there is
    /// assert_eq!(killed.load(Ordering::SeqCst), hangs.fence().number());
    /// assert!(hangs.is_lost() && next.fence() > hangs.fence());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim(mut self, reclaim: impl Fn(SlotId, Fence) + Send + Sync + 'static) -> Self {
        self.hooks.reclaim = Some(Box::new(reclaim));
        self
    }

    /// Sets a listener for slots that are quarantined: its clean-up has failed or panicked, at
    /// the end of a use or in a repair. None gets it before it is [repaired](SlotPool::repair).
    /// A repair in this call that fails calls it again, on top of itself: one that is tried until
    /// it succeeds belongs in a timer, or on another thread. Its own panics are ignored.
    pub fn on_quarantine(
        mut self,
        tell: impl Fn(SlotId, &SlotError<E>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.on_quarantine = Some(Box::new(tell));
        self
    }

    /// Sets the executor that reclaims slots whose lease is over, each by itself: a holder that is
    /// hard to end delays no other if there are enough threads. Without this, or if it is gone, the
    /// process's [pool](turnwise::ThreadPool::global).
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        match Actor::builder().executor(executor).build() {
            Ok(spawner) => self.common.helper = Some(spawner),
            Err(_) => unreachable!("nothing was said of limits"),
        }
        self
    }

    /// As [`LocksBuilder::timers`](crate::LocksBuilder::timers).
    pub fn timers(mut self, timers: Timers) -> Self {
        self.common.timers = Some(timers);
        self
    }

    /// As [`LocksBuilder::clock`](crate::LocksBuilder::clock).
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        self.common.timers = Some(Timers::of(&clock));
        self
    }

    /// Makes the pool.
    ///
    /// # Errors
    /// See [`SlotBuildError`].
    pub fn build(self) -> Result<SlotPool<T, E>, SlotBuildError> {
        let SlotPoolBuilder { slots, common, hooks } = self;
        let SlotSettings { lease, clean_first, timers, helper } = common;
        let slots = size(slots)?;
        let shared = Shared::new(slots, timers, helper, clean_first);
        Ok(SlotPool { pool: Arc::new(Pool { shared, lease, hooks }) })
    }
}

impl<T: 'static, E: 'static> fmt::Debug for SlotPoolBuilder<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotPoolBuilder").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl fmt::Display for SlotBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotBuildError::NoSlots => f.write_str("a pool has at least one slot"),
            SlotBuildError::TooMany { most } => write!(f, "a pool has {most} slots at most"),
        }
    }
}

impl Error for SlotBuildError {}
