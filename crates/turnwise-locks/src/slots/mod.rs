//! Numbered slots: at most one user each, set up before and cleaned up after.
//!
//! A [`SlotPool`] hands them out. Here are its builder, its errors, and what a look at it shows.

// A pool stands on a `Semaphore`, which is fair, wakes exactly one, and knows
// limits and those that give up. The holder of a permit takes the lowest unused number: a
// few instructions under the lock of the shared part, which never wait for anything.
// There is no second queue, and no probing. A permit that is there is a compare-and-swap.
//
// ```text
//          take           stay            end            free
//   Free --------> SetUp -------> Held --------> CleanUp ------> Free
//                    |              | expire       |  ^ fail
//                    | clean        v              v  | repair
//                    `---------> Reclaim ----->  Quarantined
// ```
//
// - SLOTS-1: a number that is not Free has a permit, which its cell keeps. So there are at least as
//   many free numbers as permits without a number, and `take` always finds one.
// - SLOTS-2: a number is free before its permit goes back: the next to be let in finds it.
// - SLOTS-3: what a hold owes (that its slot is cleaned, and its permit given back) is taken out of
//   Held once, by the guard's end or by its expiry, under the lock; both name the hold by its
//   fence. The fence of a hold is drawn in the step that takes the number, so those of one slot
//   increase.
// - SLOTS-4: no user code under the lock, in a turn of the semaphore or on the thread of the
//   timers: set-up runs where the slot is waited for, clean-up where its guard ends; what an expiry
//   does runs in the pool's executor, or in the process's pool if that is gone.
// - SLOTS-5: the semaphore has a permit for each slot of the pool, and one for each quarantined
//   number beyond its size, as that keeps its own. The number is read in the turn that sets it:
//   whichever of two changes comes last, sets the newest.
// - SLOTS-6: quarantined slots keep their permits. Nothing but a clean-up that succeeds gives one
//   back.

mod acquire;
mod builder;
mod error;
mod job;
mod pool;
mod shared;
mod slot;
mod view;

use std::convert::Infallible;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

pub use acquire::AcquireSlot;
pub use builder::{SlotBuildError, SlotPoolBuilder};
pub use error::{RunSlotError, SlotError};
pub use job::SlotRun;
pub use slot::Slot;
pub use view::{PoolView, SlotId, SlotState, SlotView};

use pool::Pool;
use turnwise::AsyncTurn;

use crate::limits::Limits;
use crate::user_code::owning;

/// Numbered slots, as those of sandboxes, GPUs or ports: each has one user at most, is set up
/// before the use and cleaned up after it.
///
/// A request takes its place in the queue in the very call, and the slots are handed on in that
/// order, to those that wait only; nothing polls. A slot that is acquired is a [`Slot`]: only that
/// holds it, and only its end gives it back, however the job ends. Set-up and clean-up are
/// [given once](SlotPool::builder), and run on the thread, or in the task, of the one that uses the
/// slot: a slow one holds up no other. A slot whose clean-up fails is not used again before it is
/// [repaired](Self::repair). With a [lease](SlotPoolBuilder::lease), a holder that hangs is ended,
/// and its slot goes on to the next.
///
/// Clones are the same pool. It lives as long as a clone, a slot or a request does.
///
/// # Examples
/// ```
/// use std::io;
/// use turnwise_locks::{Limits, SlotId, SlotPool};
///
/// /// A folder of one's own for each slot.
/// let root = std::env::temp_dir().join(format!("slots-{}", std::process::id()));
/// let folder = move |slot: SlotId| root.join(slot.to_string());
/// let theirs = folder.clone();
///
/// let pool = SlotPool::builder(8)
///     .set_up(move |slot| {
///         std::fs::create_dir_all(folder(slot))?;
///         Ok::<_, io::Error>(folder(slot))
///     })
///     .clean_up(move |slot, _| std::fs::remove_dir_all(theirs(slot)))
///     .build()?;
///
/// let size = pool.run(Limits::NONE, |folder| {
///     std::fs::write(folder.join("answer"), "42").unwrap();
///     std::fs::read(folder.join("answer")).unwrap().len()
/// })?;
/// assert_eq!(size, 2);
/// assert_eq!(pool.view().free, 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SlotPool<T: 'static = (), E: 'static = Infallible> {
    pool: Arc<Pool<T, E>>,
}

impl SlotPool {
    /// The largest number of slots that a pool has.
    pub const MOST: usize = 65_536;

    /// A pool with this many slots, without a set-up or a clean-up.
    ///
    /// # Errors
    /// [`SlotBuildError::NoSlots`], [`SlotBuildError::TooMany`].
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::SlotPool;
    ///
    /// let pool = SlotPool::new(2)?;
    /// let (zero, one) = (pool.try_acquire()?, pool.try_acquire()?);
    /// assert_eq!((zero.id().index(), one.id().index()), (0, 1));
    /// assert!(pool.try_acquire().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(slots: usize) -> Result<Self, SlotBuildError> {
        Self::builder(slots).build()
    }

    /// A pool with a set-up, a clean-up, a lease or a clock.
    pub fn builder(slots: usize) -> SlotPoolBuilder {
        SlotPoolBuilder::new(slots)
    }
}

impl<T: 'static, E: 'static> SlotPool<T, E> {
    /// Asks for a slot: how long to wait, and [for how long](SlotPoolBuilder::lease) to hold. The
    /// place in the queue is taken here, and kept whether anybody polls or not. A wait of zero is
    /// one attempt. Lock-free but for short locks; the [`AcquireSlot`] waits.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::slots::SlotError;
    /// use turnwise_locks::{Limits, LockError, SlotPool};
    ///
    /// let pool = SlotPool::new(1)?;
    /// let slot = pool.acquire(Limits::wait(Duration::from_secs(1))).wait()?;
    /// let late = pool.acquire(Limits::wait(Duration::from_millis(1))).wait();
    /// assert!(matches!(late, Err(SlotError::NotAcquired(LockError::TimedOut { .. }))));
    /// slot.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(&self, limits: impl Into<Limits>) -> AcquireSlot<T, E> {
        AcquireSlot::new(&self.pool, limits.into())
    }

    /// A slot, if one is free now and no request waits: it overtakes none. Waits for no holder; it
    /// takes as long as the set-up.
    ///
    /// # Errors
    /// As [`AcquireSlot::wait`]; [`LockError::Busy`](crate::LockError::Busy).
    ///
    /// # Panics
    /// With the set-up's own panic.
    pub fn try_acquire(&self) -> Result<Slot<T, E>, SlotError<E>> {
        self.acquire(Limits::wait(std::time::Duration::ZERO)).wait()
    }

    /// Runs a job in a slot: acquires it, and finishes it however the job ends. May block.
    ///
    /// # Errors
    /// The job was not run, or has run and its slot was lost or could not be cleaned up: see
    /// [`RunSlotError`], which has the job's value then.
    ///
    /// # Panics
    /// With the panic of the set-up or of the job; the slot is cleaned up, and given back.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Limits, SlotPool};
    ///
    /// let pool = SlotPool::new(8)?;
    /// let port = pool.run(Limits::NONE, |slot| 9_000 + slot.id().index())?;
    /// assert_eq!(port, 9_000); // the lowest that is free
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<R>(
        &self,
        limits: impl Into<Limits>,
        job: impl FnOnce(&mut Slot<T, E>) -> R,
    ) -> Result<R, RunSlotError<R, E>> {
        let (job, acquired) = owning(job, |_| self.acquire(limits).wait());
        let slot = acquired.map_err(RunSlotError::NotStarted)?;
        let (slot, value) = owning(slot, job);
        RunSlotError::finished(slot.id(), slot.finish(), value)
    }

    /// Runs an async job in a slot: acquires it, in the order of the calls, and finishes it however
    /// the job ends. No thread is blocked; the job runs in the polls of what comes back, and set-up
    /// and clean-up do, too.
    ///
    /// **The lease cuts the job**, whether anybody polls it or not: at its end the job's future is
    /// dropped, in the pool's [executor](SlotPoolBuilder::executor); then the slot is
    /// [reclaimed](SlotPoolBuilder::reclaim), cleaned up without its value, and given on. So the
    /// next user comes after the destructors. The outcome is [`RunSlotError::Cut`]. A job that is
    /// in a poll then is reclaimed meanwhile, and dropped at its next await: the clean-up waits for
    /// that, so the slot stays with a job that blocks. One that is done in that poll has
    /// [lost](RunSlotError::Lost) its slot, and no other had it.
    ///
    /// Dropping the [`SlotRun`] leaves the queue, or drops the job and cleans its slot up. Without
    /// a lease, an unpolled job keeps its slot.
    ///
    /// # Examples
    /// ```
    /// use std::future::pending;
    /// use std::time::Duration;
    /// use turnwise_locks::slots::RunSlotError;
    /// use turnwise_locks::{Limits, SlotPool};
    ///
    /// let pool = SlotPool::new(1)?;
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(async {
    ///     let lease = Limits::NONE.lease(Duration::from_millis(5));
    ///     let hangs = pool.run_async(lease, async |_| pending::<()>().await);
    ///     let next = pool.run_async(Limits::NONE, async |slot| slot.id().index());
    ///     assert_eq!(hangs.await, Err(RunSlotError::Cut));
    ///     assert_eq!(next.await, Ok(0));
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_async<R, F>(&self, limits: impl Into<Limits>, job: F) -> SlotRun<R, T, E>
    where
        T: Send,
        E: Send,
        R: Send + 'static,
        F: for<'a> AsyncTurn<&'a mut Slot<T, E>, R, Future: Send> + Send + 'static,
    {
        SlotRun::new(self.acquire(limits), job)
    }

    /// Sets the number of slots. More are there at once. Fewer: those that are used go on, and the
    /// slots beyond the new number retire as they come back; until then none is let in for them.
    /// So at most this number is used, or as many as were when it shrank. Does not wait.
    ///
    /// # Errors
    /// [`SlotBuildError::NoSlots`] (a pool that is to let none in is [closed](Self::close)),
    /// [`SlotBuildError::TooMany`]: nothing has changed.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::SlotPool;
    ///
    /// let pool = SlotPool::new(2)?;
    /// let (zero, one) = (pool.try_acquire()?, pool.try_acquire()?);
    /// pool.resize(1)?;
    /// drop(zero);
    /// assert!(pool.try_acquire().is_err()); // one is used still
    /// drop(one);
    /// assert_eq!(pool.try_acquire()?.id().index(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resize(&self, slots: usize) -> Result<(), SlotBuildError> {
        self.pool.resize(slots)
    }

    /// A look at the pool, and at each slot. Stale on return. Takes a short lock, and may
    /// block, as long as a turn of the queue lasts.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::slots::SlotState;
    /// use turnwise_locks::SlotPool;
    ///
    /// let pool = SlotPool::new(2)?;
    /// let slot = pool.try_acquire()?;
    /// let view = pool.view();
    /// assert_eq!((view.in_use, view.free, view.waiting), (1, 1, 0));
    /// assert_eq!(view.each[0].fence, Some(slot.fence()));
    /// assert_eq!(view.each[1].state, SlotState::Free);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn view(&self) -> PoolView {
        self.pool.view()
    }

    /// Cleans a quarantined slot again, here, without its value; if that succeeds, the slot goes on
    /// to the next request.
    ///
    /// # Errors
    /// [`SlotError::NotQuarantined`]: nothing was done. [`SlotError::CleanUp`]: it failed
    /// again, and the slot stays where it is.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::slots::SlotError;
    /// use turnwise_locks::SlotPool;
    ///
    /// let failures = std::sync::Mutex::new(2);
    /// let pool = SlotPool::builder(1)
    ///     .set_up(|_| Ok::<_, &str>(()))
    ///     .clean_up(move |_, _| {
    ///         let mut left = failures.lock().unwrap();
    ///         if *left == 0 { Ok(()) } else { *left -= 1; Err("the disk is full") }
    ///     })
    ///     .build()?;
    /// let slot = pool.try_acquire().unwrap();
    /// let id = slot.id();
    /// drop(slot);
    /// assert_eq!(pool.view().quarantined, 1);
    /// assert!(matches!(pool.repair(id), Err(SlotError::CleanUp(_)))); // fails a second time
    /// assert!(pool.repair(id).is_ok());
    /// assert_eq!(pool.view().free, 1);
    /// # Ok::<(), turnwise_locks::slots::SlotBuildError>(())
    /// ```
    pub fn repair(&self, slot: SlotId) -> Result<(), SlotError<E>> {
        self.pool.repair(slot)
    }

    /// Takes no more requests: they fail with [`LockError::Closed`](crate::LockError::Closed), and
    /// so do those that wait. Slots that are used go on, and are cleaned up at their end.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Limits, SlotPool};
    ///
    /// let pool = SlotPool::new(1)?;
    /// let slot = pool.try_acquire()?;
    /// let waiting = pool.acquire(Limits::NONE);
    /// pool.close();
    /// assert!(waiting.wait().is_err());
    /// assert!(!slot.is_lost());
    /// slot.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        self.pool.close();
    }
}

impl<T: 'static, E: 'static> Clone for SlotPool<T, E> {
    fn clone(&self) -> Self {
        SlotPool { pool: self.pool.clone() }
    }
}

// No panic leaves it half changed.
impl<T: 'static, E: 'static> UnwindSafe for SlotPool<T, E> {}
impl<T: 'static, E: 'static> RefUnwindSafe for SlotPool<T, E> {}

impl<T: 'static, E: 'static> fmt::Debug for SlotPool<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotPool").finish_non_exhaustive()
    }
}
