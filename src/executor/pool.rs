//! The thread pool: how it is started, what it shares, and how it ends.

use std::fmt;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use crossbeam_deque::{Injector, Stealer, Worker};

use super::blocking::Blocking;
use super::sleep::{MOST_WORKERS, Sleep};
use super::slot::Slot;
use super::staff::{Place, Staff};
use super::worker::{run, schedule, take, works_for};
use crate::drain::carrier::{Drain, Executor};
use crate::drain::local::with_local;
use crate::drain::relief::relieve_anyway;
use crate::sync::{Condvar, Mutex};
use crate::unwind::shrug_off;
use crate::wait::Limit;

/// What the threads of a pool and its handles share.
pub(super) struct Shared {
    pub(super) sleep: Sleep,
    pub(super) injector: Injector<Drain>,
    pub(super) remotes: Box<[Remote]>,
    pub(super) staff: Mutex<Staff>,
    pub(super) place_free: Condvar,
    pub(super) all_gone: Condvar,
    /// The most threads beyond the workers; `None` if waits are refused.
    pub(super) most: Option<usize>,
    name: Box<str>,
    stack_size: Option<usize>,
    /// The system gave no thread at all: drains are run by those who bring them.
    inline: bool,
}

/// What others reach of a worker's place.
pub(super) struct Remote {
    pub(super) queue: Stealer<Drain>,
    pub(super) slot: DrainSlot,
}

/// A [`Slot`] for a drain.
pub(super) struct DrainSlot(Slot<()>);

impl DrainSlot {
    pub(super) fn put(&self, drain: Drain) -> Option<Drain> {
        Self::drain(self.0.put(drain.into_raw()))
    }

    pub(super) fn take(&self) -> Option<Drain> {
        Self::drain(self.0.take())
    }

    fn drain(raw: *mut ()) -> Option<Drain> {
        // SAFETY: the slot holds nothing else, and gives it out once.
        NonNull::new(raw).map(|raw| unsafe { Drain::from_raw(raw) })
    }
}

impl Drop for DrainSlot {
    fn drop(&mut self) {
        drop(Self::drain(self.0.put(null_mut())));
    }
}

impl Shared {
    pub(super) fn workers(&self) -> usize {
        self.remotes.len()
    }

    pub(super) fn slot(&self, number: usize) -> &DrainSlot {
        &self.remotes[number].slot
    }

    /// Is there something where searchers look?
    pub(super) fn has_work(&self) -> bool {
        !self.injector.is_empty() || self.remotes.iter().any(|remote| !remote.queue.is_empty())
    }

    /// Something has been put where searchers look.
    pub(super) fn announce(&self) {
        if self.sleep.announce().is_ended() {
            self.sweep();
        }
    }

    /// Takes in a drain that comes from no worker's place.
    pub(super) fn inject(&self, drain: Drain) {
        if self.inline {
            drain.run();
            return;
        }
        self.injector.push(drain);
        self.announce();
    }

    /// Drops a drain: its actor stops with `ExecutorGone`.
    pub(super) fn drop_unrun(&self, drain: Drain) {
        self.staff.lock().dropped += 1;
        shrug_off(|| drop(drain));
    }

    /// The pool has ended: drops what is queued.
    pub(super) fn sweep(&self) {
        while let Some(drain) = take(|| self.injector.steal()) {
            self.drop_unrun(drain);
        }
        for remote in &self.remotes {
            while let Some(drain) = take(|| remote.queue.steal()).or_else(|| remote.slot.take()) {
                self.drop_unrun(drain);
            }
        }
    }

    /// The same for a place, by its worker.
    pub(super) fn sweep_place(&self, place: &Place) {
        while let Some(drain) = place.queue.pop().or_else(|| self.slot(place.number).take()) {
            self.drop_unrun(drain);
        }
    }

    /// Starts a thread with a place, or one that stands by.
    pub(super) fn start_thread(self: &Arc<Self>, staff: &mut Staff, place: Option<Place>) -> io::Result<()> {
        let mut builder = thread::Builder::new().name(format!("{}-{}", self.name, staff.started));
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes);
        }
        let pool = self.clone();
        // The thread may do more with the pool than this caller: it is counted before it can end.
        staff.threads += 1;
        staff.started += 1;
        builder.spawn(move || run(pool, place)).map(drop).inspect_err(|_| staff.threads -= 1)
    }

    /// Ends the pool now, and drops what is queued.
    fn end(&self) {
        self.sleep.end();
        self.dismiss();
        self.sweep();
    }
}

/// A work-stealing thread pool for actors: an [`Executor`] by its [`handle`](Self::handle).
///
/// Each worker has a queue of its own, takes from the others' when that is empty, and sleeps when there is nothing at all: an idle pool uses
/// no processor time. An actor that is scheduled from a turn on a worker is run by the same worker next, with its memory warm, and others in
/// the order in which they came; an actor that has used up its budget goes behind everybody else.
///
/// A turn that waits, by [`with`](crate::Actor::with), [`Reply::wait`](crate::Reply::wait), [`blocking`](crate::blocking) and the like, leaves
/// its worker's place to another thread meanwhile, so a pool of one thread cannot wait for itself ([`Blocking`]). A turn that blocks in
/// another way keeps its worker, and the others go on.
///
/// Dropping the pool begins a graceful end and waits for nothing: from then on drains from outside are dropped, which stops their actors with
/// [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone); what is queued is run, and all that it hands on; then the threads end by
/// themselves. If the program ends before, so do they, as all threads do: a program that wants to be sure calls [`shutdown`](Self::shutdown).
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, ThreadPool};
///
/// let pool = ThreadPool::builder().threads(2).thread_name("ledger").build()?;
/// let sum = Actor::builder(0_u64).executor(pool.handle()).spawn()?;
/// for n in 1..=100 {
///     sum.send(move |sum| *sum += n)?; // run by a worker
/// }
/// assert_eq!(sum.ask(|sum| *sum).wait()?, 5050);
/// assert!(pool.shutdown(Duration::from_secs(10)).is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ThreadPool {
    shared: Arc<Shared>,
}

/// The way into a [`ThreadPool`]: an [`Executor`], cheap to clone (one atomic addition). It does not keep the pool going.
///
/// `execute` allocates nothing but the queues' memory: a worker's queue grows by doubling, and the one from outside takes a block for every 63
/// drains. From a worker it is lock-free; from outside it is, too, but for the thread that has just begun such a block, and for who wakes a
/// sleeping worker.
#[derive(Clone)]
pub struct PoolHandle {
    shared: Arc<Shared>,
}

impl Executor for PoolHandle {
    fn execute(&self, drain: Drain) {
        schedule(&self.shared, drain);
    }
}

static GLOBAL: OnceLock<PoolHandle> = OnceLock::new();

impl ThreadPool {
    /// A pool with a worker for each processor that this program may use.
    ///
    /// # Errors
    /// [`PoolError::Spawn`] if a thread cannot be started; those that could have ended again.
    ///
    /// # Examples
    /// ```
    /// let pool = turnwise::ThreadPool::new()?;
    /// assert!(pool.threads() >= 1);
    /// # Ok::<(), turnwise::executor::PoolError>(())
    /// ```
    pub fn new() -> Result<Self, PoolError> {
        Self::builder().build()
    }

    /// A pool with names, another size, or another way with turns that block.
    pub fn builder() -> PoolBuilder {
        PoolBuilder { threads: None, name: "turnwise".into(), stack_size: None, blocking: Blocking::default() }
    }

    /// The pool of the whole process. The first call starts it, with a worker for each processor that this program may use, unless
    /// [`PoolBuilder::build_global`] was there before. It is never shut down, and does not keep the process from ending.
    ///
    /// If the system gives fewer threads, it has fewer; if it gives none, drains are run by those who bring them.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, ThreadPool};
    ///
    /// let n = Actor::builder(1).executor(ThreadPool::global().clone()).spawn()?;
    /// assert_eq!(n.ask(|n| *n).wait()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn global() -> &'static PoolHandle {
        GLOBAL.get_or_init(|| Self::builder().start_what_can_be())
    }

    /// The executor to build actors with.
    pub fn handle(&self) -> PoolHandle {
        PoolHandle { shared: self.shared.clone() }
    }

    /// How many workers it has. Wait-free.
    pub fn threads(&self) -> usize {
        self.shared.workers()
    }

    /// Ends the pool, and waits for it, for `limit` at most. Blocks.
    ///
    /// From now on, drains from outside are dropped, which stops their actors with
    /// [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone). What is queued is run, and everything that it hands on to this pool; then
    /// the threads end. When the time is over, what is left is dropped: its actors stop, and everybody who waits for them is answered. A drain
    /// that is running then ends in its own time, and nobody waits for it.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, Reason, StopCause, ThreadPool};
    ///
    /// let pool = ThreadPool::new()?;
    /// let n = Actor::builder(0).executor(pool.handle()).spawn()?;
    /// let asked = n.ask(|n| *n);
    /// assert!(pool.shutdown(Duration::from_secs(10)).is_complete());
    /// assert_eq!(asked.wait(), Ok(0));
    ///
    /// n.send(|n| *n += 1)?; // accepted, and then there is nobody to run it
    /// assert_eq!(n.stop_cause(), Some(StopCause::ExecutorGone));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(self, limit: impl Into<Limit>) -> Shutdown {
        let shared = self.shared.clone();
        // Closes it.
        drop(self);
        if works_for(&shared) {
            return Shutdown::Inside;
        }
        let deadline = match limit.into() {
            Limit::Unlimited => None,
            Limit::Immediate => Some(Instant::now()),
            // A limit too large for the clock is no limit.
            Limit::Within(limit) => Instant::now().checked_add(limit),
        };
        let _away = with_local(relieve_anyway);
        let mut staff = shared.staff.lock();
        while staff.threads > 0 {
            let late = match deadline {
                None => {
                    shared.all_gone.wait(&mut staff);
                    false
                }
                Some(deadline) => shared.all_gone.wait_until(&mut staff, deadline).timed_out(),
            };
            if late && staff.threads > 0 {
                drop(staff);
                return shared.cut_off();
            }
        }
        Shutdown::Complete
    }

    /// Ends the pool without running what is queued: its actors stop with
    /// [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone), and everybody who waits for them is answered before this returns. Turns that
    /// are running end in their own time. Does not wait for them.
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
        self.shared.cut_off()
    }
}

impl Shared {
    fn cut_off(&self) -> Shutdown {
        self.end();
        let staff = self.staff.lock();
        Shutdown::Cut { dropped: staff.dropped, threads: staff.threads }
    }
}

// A panic shows nobody a pool in the middle of a step: what is locked or atomic in it runs no user code.
impl UnwindSafe for ThreadPool {}
impl RefUnwindSafe for ThreadPool {}
impl UnwindSafe for PoolHandle {}
impl RefUnwindSafe for PoolHandle {}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.sleep.close();
    }
}

/// What a shutdown came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "it says whether everything was run"]
pub enum Shutdown {
    /// Everything was run, and the threads have ended.
    Complete,
    /// The time was over. What was left was dropped, if there was something: its actors have stopped, and those who waited for them were told.
    /// Or threads had not ended yet.
    Cut {
        /// Drains that were dropped un-run until now, one per actor.
        dropped: usize,
        /// Threads that had not ended yet: each is in a turn, or about to end.
        threads: usize,
    },
    /// It was called by a turn on one of the pool's own threads, which it would have waited for. The pool ends when everything is run.
    Inside,
}

impl Shutdown {
    /// Was everything run, and have the threads ended?
    pub fn is_complete(self) -> bool {
        self == Shutdown::Complete
    }
}

/// Describes a [`ThreadPool`] before it is started: see [`ThreadPool::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing is started before `build`"]
pub struct PoolBuilder {
    threads: Option<usize>,
    name: String,
    stack_size: Option<usize>,
    blocking: Blocking,
}

impl PoolBuilder {
    /// How many workers: as many turns run at a time. Without this, one for each processor that this program may use.
    pub fn threads(mut self, workers: usize) -> Self {
        self.threads = Some(workers);
        self
    }

    /// What the threads are called, with a number behind it. Without this, `turnwise`.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The size of each thread's stack, in bytes, 64 KiB at least: a worker needs some of it itself. Without this, the standard library's.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes.max(64 * 1024));
        self
    }

    /// What becomes of turns that wait. Without this, up to 256 threads take over for them.
    ///
    /// # Examples
    /// ```
    /// use turnwise::executor::Blocking;
    /// use turnwise::{Actor, AskError, ThreadPool};
    ///
    /// let pool = ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build()?;
    /// let one = Actor::builder(1).executor(pool.handle()).spawn()?;
    /// let (promise, reply) = turnwise::promise::<()>();
    /// let waited = one.ask(move |_| reply.wait());
    /// assert_eq!(waited.wait()?, Err(AskError::WouldBlock));
    /// promise.keep(());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking(mut self, blocking: Blocking) -> Self {
        self.blocking = blocking;
        self
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// No workers, too many, or a thread that cannot be started: those that could have ended again.
    ///
    /// # Examples
    /// ```
    /// use turnwise::ThreadPool;
    /// use turnwise::executor::PoolError;
    ///
    /// assert!(matches!(ThreadPool::builder().threads(0).build(), Err(PoolError::NoThreads)));
    /// ```
    pub fn build(self) -> Result<ThreadPool, PoolError> {
        match self.start()? {
            (shared, None) => Ok(ThreadPool { shared }),
            (shared, Some(error)) => {
                shared.end();
                Err(PoolError::Spawn(error))
            }
        }
    }

    /// Starts it as the pool of the whole process, [`ThreadPool::global`].
    ///
    /// # Errors
    /// [`PoolError::GlobalExists`] if that is running already; else as [`build`](Self::build).
    ///
    /// # Examples
    /// ```standalone_crate
    /// use turnwise::ThreadPool;
    ///
    /// let pool = ThreadPool::builder().threads(2).build_global()?;
    /// assert_eq!(pool.threads(), 2);
    /// assert!(ThreadPool::builder().build_global().is_err());
    /// # Ok::<(), turnwise::executor::PoolError>(())
    /// ```
    pub fn build_global(self) -> Result<&'static PoolHandle, PoolError> {
        if GLOBAL.get().is_some() {
            return Err(PoolError::GlobalExists);
        }
        let pool = self.build()?;
        // Dropped, it ends at once if another one was quicker.
        GLOBAL.set(pool.handle()).map_err(|_| PoolError::GlobalExists)?;
        std::mem::forget(pool);
        Ok(ThreadPool::global())
    }

    /// The pool, and why it has fewer threads than it should, if it has.
    fn start(self) -> Result<(Arc<Shared>, Option<io::Error>), PoolError> {
        let threads = self.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, |n| n.get()).min(MOST_WORKERS));
        match threads {
            0 => return Err(PoolError::NoThreads),
            asked if asked > MOST_WORKERS => return Err(PoolError::TooManyThreads { asked, largest: MOST_WORKERS }),
            _ => {}
        }
        Ok(self.start_with(threads, false))
    }

    fn start_with(self, threads: usize, inline: bool) -> (Arc<Shared>, Option<io::Error>) {
        let queues = (0..threads).map(|_| Worker::new_fifo()).collect::<Vec<_>>();
        let shared = Arc::new(Shared {
            sleep: Sleep::new(threads),
            injector: Injector::new(),
            remotes: queues.iter().map(|queue| Remote { queue: queue.stealer(), slot: DrainSlot(Slot::new()) }).collect(),
            staff: Mutex::new(Staff::default()),
            place_free: Condvar::new(),
            all_gone: Condvar::new(),
            most: match self.blocking {
                Blocking::Compensate { most } => Some(most),
                Blocking::Refuse => None,
            },
            name: self.name.into_boxed_str(),
            stack_size: self.stack_size,
            inline,
        });
        let mut error = None;
        if !inline {
            for (number, queue) in queues.into_iter().enumerate() {
                let place = Place { number, queue, tick: 0, warm: 0, random: 0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1) };
                let started = shared.start_thread(&mut shared.staff.lock(), Some(place));
                if let Err(why) = started {
                    error = Some(why);
                    break;
                }
            }
        }
        (shared, error)
    }

    /// The pool with as many threads as can be had.
    fn start_what_can_be(self) -> PoolHandle {
        let inline = self.clone();
        if let Ok((shared, error)) = self.start() {
            if error.is_none() || shared.staff.lock().threads > 0 {
                return PoolHandle { shared };
            }
        }
        PoolHandle { shared: inline.start_with(1, true).0 }
    }
}

impl PoolHandle {
    /// How many workers the pool has. Wait-free.
    pub fn threads(&self) -> usize {
        self.shared.workers()
    }

    /// Is this thread one of the pool's? Wait-free.
    ///
    /// # Examples
    /// ```
    /// let pool = turnwise::ThreadPool::new()?;
    /// assert!(!pool.handle().is_current());
    /// # Ok::<(), turnwise::executor::PoolError>(())
    /// ```
    pub fn is_current(&self) -> bool {
        works_for(&self.shared)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.sleep.look();
        f.debug_struct("ThreadPool")
            .field("name", &self.name)
            .field("workers", &self.workers())
            .field("asleep", &now.sleepers())
            .field("searching", &now.searchers())
            .field("closing", &now.is_closing())
            .field("ended", &now.is_ended())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl fmt::Debug for PoolHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

/// Why a pool was not started.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// A pool without workers would run nothing.
    NoThreads,
    /// More workers than it can count.
    TooManyThreads {
        /// What was asked for.
        asked: usize,
        /// The most there can be.
        largest: usize,
    },
    /// The system gave no thread.
    Spawn(io::Error),
    /// The pool of the whole process is running already.
    GlobalExists,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::NoThreads => f.write_str("a pool needs a worker at least"),
            PoolError::TooManyThreads { asked, largest } => write!(f, "{asked} workers are over the limit of {largest}"),
            PoolError::Spawn(_) => f.write_str("a thread of the pool could not be started"),
            PoolError::GlobalExists => f.write_str("the pool of the whole process is running already"),
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolError::Spawn(error) => Some(error),
            _ => None,
        }
    }
}
