//! The worker that a thread is, as what runs on the thread sees it.
//!
//! A job that is about to sleep keeps others from running: those that wait behind it, one of which
//! it may be waiting for. Its pool compensates for it, as ForkJoinPool's managed blockers do: the
//! pool is asked before the wait ([`reserve`]), so that a thread stands by or the wait is refused;
//! that thread takes the worker's place over as it goes to sleep ([`Reserved::leave`]); and when
//! the wait is over ([`Away`] is dropped), the worker goes on. On any other thread all of this does
//! nothing.
//!
//! - CURRENT-1: what [`CURRENT`] refers to is borrowed by [`Current::set`], which is below on the
//!   thread's stack, and is there until that returns.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::job::PoolId;
use crate::sync::{hint, thread_plain};

/// The wait is refused: no thread could take over this worker's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WouldBlock;

/// A worker of a pool, whatever its jobs are.
pub(crate) trait Worker {
    /// Sees to it that a thread stands by. False: there is nothing to take over.
    fn reserve(&self) -> Result<bool, WouldBlock>;
    /// The thread that stands by is not needed.
    fn cancel(&self);
    /// This thread is about to sleep: the one that stands by takes over. The answer is for
    /// [`come_back`](Self::come_back); there is none if there is nothing to take over any more.
    fn leave(&self) -> Option<u64>;
    /// This thread is awake again.
    fn come_back(&self, left: u64);
    /// This thread is about to sleep, and none takes over: others may take what they can.
    fn share(&self);
    /// True if this thread has nothing else to do, and should wait a moment for what
    /// would come to the job in hand.
    fn lingers(&self) -> bool;
    /// It has waited, and something has come, or nothing.
    fn has_lingered(&self, for_one: bool);
    /// The job in hand has had its time: true if it goes on at once, because nothing else waits.
    fn goes_on(&self) -> bool;
}

/// The role of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    /// The pool whose worker it is.
    pool: PoolId,
    worker: Option<NonNull<dyn Worker>>,
}

thread_plain! {
    static CURRENT: Cell<Current> = Cell::new(Current::NONE);
}

impl Current {
    const NONE: Self = Current { pool: PoolId::NONE, worker: None };

    /// Runs `f` with this thread as that worker of that pool.
    pub(crate) fn set<R>(
        pool: PoolId,
        worker: &(dyn Worker + 'static),
        f: impl FnOnce() -> R,
    ) -> R {
        struct ResetCurrent;
        impl Drop for ResetCurrent {
            fn drop(&mut self) {
                CURRENT.with(|current| current.set(Current::NONE));
            }
        }
        let worker = Some(NonNull::from(worker));
        CURRENT.with(|current| current.set(Current { pool, worker }));
        let _leaves = ResetCurrent;
        f()
    }

    /// The worker that this thread is, if it is one of that pool's.
    #[inline(always)]
    pub(super) fn of(id: PoolId) -> Option<NonNull<dyn Worker>> {
        let Current { pool, worker } = CURRENT.with(Cell::get);
        if pool == id { worker } else { None }
    }
}

#[inline]
fn with_worker<R>(f: impl FnOnce(PoolId, &dyn Worker) -> R) -> Option<R> {
    let Current { pool, worker } = CURRENT.with(Cell::get);
    // SAFETY: CURRENT-1; `f` keeps nothing of it.
    worker.map(|worker| f(pool, unsafe { worker.as_ref() }))
}

/// A thread stands by, if one is needed: this one may go to sleep.
#[must_use]
#[derive(Debug)]
pub(crate) struct Reserved {
    is_needed: bool,
    _this_thread: PhantomData<*const ()>,
}

/// This thread sleeps, or is about to; until this is dropped.
#[must_use]
#[derive(Debug)]
pub(crate) struct Away {
    left: Option<u64>,
    _this_thread: PhantomData<*const ()>,
}

/// Asks whether this thread may go to sleep. Needed where the wait cannot be given up later.
pub(crate) fn reserve() -> Result<Reserved, WouldBlock> {
    let is_needed = with_worker(|_, worker| worker.reserve()).unwrap_or(Ok(false))?;
    Ok(Reserved { is_needed, _this_thread: PhantomData })
}

impl Reserved {
    /// The thread that stands by takes over.
    pub(crate) fn leave(mut self) -> Away {
        let is_needed = std::mem::take(&mut self.is_needed);
        let left = if is_needed { with_worker(|_, worker| worker.leave()).flatten() } else { None };
        Away { left, _this_thread: PhantomData }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.is_needed {
            with_worker(|_, worker| worker.cancel());
        }
    }
}

impl Away {
    /// From a sleep that must not be refused: others may take what they can.
    pub(crate) fn sharing() -> Self {
        with_worker(|_, worker| worker.share());
        Away { left: None, _this_thread: PhantomData }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some(left) = self.left {
            with_worker(|_, worker| worker.come_back(left));
        }
    }
}

/// Waits a moment, if this thread has nothing else to do, until `is_needed`.
#[inline]
pub(crate) fn linger(is_needed: impl FnMut() -> bool) {
    with_worker(|_, worker| {
        if worker.lingers() {
            worker.has_lingered(hint::soon(is_needed));
        }
    });
}

/// The job in hand has had its time: would it come back to this thread at once, if it came to a
/// pool that `is_home`?
pub(crate) fn goes_on(is_home: impl FnOnce(PoolId) -> bool) -> bool {
    with_worker(|pool, worker| is_home(pool) && worker.goes_on()).unwrap_or(false)
}
