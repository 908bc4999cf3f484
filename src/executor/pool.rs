//! The thread pool: its handles, and how it ends.

#![forbid(unsafe_code)]

use std::fmt;
use std::time::Instant;

use crate::cell::executor::{Drain, Executor};
use crate::enrolled::Enrolled;
use crate::pool::{Pool, PoolId};
use crate::time::Limit;
use crate::turn::blocking::relieve_anyway;

/// A work-stealing thread pool for actors: an [`Executor`] by its [`handle`](Self::handle).
///
/// Each worker has a queue of its own, takes from the others' when that is empty, and sleeps when
/// there is nothing at all: an idle pool uses no processor time. An actor that is scheduled from a
/// turn on a worker is run by the same worker next, with its memory warm, and others in the order
/// in which they came; an actor that has used up its budget goes behind all others.
///
/// A turn that waits, by [`with`](crate::Actor::with), [`Reply::wait`](crate::Reply::wait),
/// [`blocking`](crate::blocking) and the like, leaves its worker's place to another thread
/// meanwhile, so a pool of one thread cannot wait for itself ([`Blocking`](super::Blocking)). A
/// turn that blocks in another way, or takes long, keeps its worker. What waits behind it is moved
/// to the others after some milliseconds; and if all workers are stuck in such turns, other threads
/// run what waits, one at first, then more ([`Blocking`](super::Blocking)). A pool in which no two
/// turns may ever run at a time has one worker and [`Blocking::Refuse`](super::Blocking::Refuse).
///
/// Dropping the pool begins a graceful end and waits for nothing: from then on drains from outside
/// are dropped, which stops their actors with
/// [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone); what is queued is run, and all that
/// it hands on; then the threads end by themselves. If the program ends before, so do they, as all
/// threads do: a program that wants to be sure calls [`shutdown`](Self::shutdown).
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, ThreadPool};
///
/// let pool = ThreadPool::builder().threads(2).thread_name("ledger").build()?;
/// let sum = Actor::builder().executor(pool.handle()).spawn(0_u64)?;
/// for n in 1..=100 {
///     sum.send(move |sum| *sum += n)?; // run by a worker
/// }
/// assert_eq!(sum.call(|sum| *sum).wait()?, 5050);
/// assert!(pool.shutdown(Duration::from_secs(10)).is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ThreadPool(pub(super) Pool<Drain>);

/// The way into a [`ThreadPool`]: an [`Executor`], cheap to clone (one atomic addition). It does
/// not keep the pool going.
///
/// `execute` allocates nothing but the queues' memory: a worker's queue grows by doubling, and the
/// one from outside takes a block for every 63 drains. From a worker it is lock-free. From outside
/// it is, too, with two exceptions: a thread that has just begun such a block may be waited for,
/// and waking a sleeping worker takes a lock.
#[derive(Clone)]
pub struct PoolHandle(pub(super) Pool<Drain>);

impl Executor for PoolHandle {
    fn execute(&self, drain: Drain) {
        self.0.submit(drain);
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn enrolled(&self) -> Option<&Enrolled<Drain>> {
        Some(self.0.enrolled())
    }

    fn is(&self, pool: PoolId) -> bool {
        pool == self.0.id()
    }
}

impl ThreadPool {
    /// The executor to build actors with.
    pub fn handle(&self) -> PoolHandle {
        PoolHandle(self.0.clone())
    }

    /// The number of its workers. Wait-free.
    pub fn threads(&self) -> usize {
        self.0.workers()
    }

    /// Ends the pool, and waits for it, for `limit` at most. Blocks.
    ///
    /// From now on, drains from outside are dropped, which stops their actors with
    /// [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone). What is queued is run, and
    /// everything that it hands on to this pool; then the threads end. When the time is over, what
    /// is left is dropped: its actors stop, and every caller that waits for them is answered, as by
    /// [`shutdown_now`](Self::shutdown_now). A drain that is running then ends in its own time, and
    /// is not waited for. Turns that are still suspended when the threads end are cut
    /// ([`Shutdown::Cut`]): nothing could go on with them.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, ThreadPool};
    ///
    /// let pool = ThreadPool::new()?;
    /// let pool_handle = pool.handle();
    /// let n = Actor::builder().executor(pool.handle()).spawn(0)?;
    /// let asked = n.call(|n| *n);
    /// assert!(pool.shutdown(Duration::from_secs(10)).is_complete());
    /// assert_eq!(asked.wait(), Ok(0));
    ///
    /// assert!(turnwise::Executor::is_closed(&pool_handle)); // no thread is left to run anything
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(self, limit: impl Into<Limit>) -> Shutdown {
        let pool = self.0.clone();
        // Closes it.
        drop(self);
        if pool.is_current() {
            return Shutdown::Inside;
        }
        let deadline = match limit.into() {
            Limit::Unlimited => None,
            Limit::Immediate => Some(Instant::now()),
            // A limit too large for the clock is no limit.
            Limit::Within(limit) => Instant::now().checked_add(limit),
        };
        let ended = relieve_anyway(|| pool.wait_all_gone(deadline));
        let (dropped, _) = pool.dropped_and_left();
        if ended && !pool.has_cut() && dropped == 0 { Shutdown::Complete } else { cut_off(&pool) }
    }

    /// Ends the pool without running what is queued: its actors stop with
    /// [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone), and every caller that waits for
    /// them is answered before this returns; inside a turn, after that turn. Turns that are running
    /// end in their own time. Does not wait for them. The actors end one after the other on this
    /// thread. An end hook that waits for an actor, or awaits what this crate gives, hands the
    /// others over: they end in the fallback then, perhaps after this has returned.
    ///
    /// # Examples
    /// ```
    /// use turnwise::ThreadPool;
    ///
    /// let pool = ThreadPool::new()?;
    /// println!("{:?}", pool.shutdown_now());
    /// # Ok::<(), turnwise::executor::PoolError>(())
    /// ```
    pub fn shutdown_now(self) -> Shutdown {
        cut_off(&self.0)
    }
}

fn cut_off(pool: &Pool<Drain>) -> Shutdown {
    pool.cut_off();
    let (dropped, threads) = pool.dropped_and_left();
    Shutdown::Cut { dropped, threads }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Outcome of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it says whether everything was run"]
pub enum Shutdown {
    /// Everything was run, and the threads have ended.
    Complete,
    /// The time was over, or turns were suspended, or a drain came from outside after the call.
    /// What was left was dropped, if there was something: its actors have stopped, and the callers
    /// that waited for them were answered. Or threads had not ended yet.
    Cut {
        /// Drains that were dropped un-run until now, one per actor.
        dropped: usize,
        /// Threads that had not ended yet: each is in a turn, or about to end.
        threads: usize,
    },
    /// It was called by a turn on one of the pool's own threads, which it would have waited for.
    /// The pool ends when everything is run.
    Inside,
}

impl Shutdown {
    /// True if everything was run, and the threads have ended.
    pub fn is_complete(self) -> bool {
        self == Shutdown::Complete
    }
}

impl PoolHandle {
    /// The number of workers of the pool. Wait-free.
    pub fn threads(&self) -> usize {
        self.0.workers()
    }

    /// True on a thread of the pool. Wait-free.
    ///
    /// # Examples
    /// ```
    /// let pool = turnwise::ThreadPool::new()?;
    /// assert!(!pool.handle().is_current());
    /// # Ok::<(), turnwise::executor::PoolError>(())
    /// ```
    pub fn is_current(&self) -> bool {
        self.0.is_current()
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PoolHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
