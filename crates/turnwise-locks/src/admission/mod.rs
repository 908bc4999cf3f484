//! First come, first served, exactly to a limit: [`Admission`].
//!
//! Applications are messages to an actor that owns the [`Ledger`], so the order of applying is the
//! order of deciding. Those that have come together are committed together.

// `decider` commits once for a whole pass of applications. One (`apply`) may be given up as long as
// its turn has not come.
//
// - ADMISSION-1: rows that are committed are never more than the limit that held when they were
//   entered.
// - ADMISSION-2: every application is answered, once, and truly.
// - ADMISSION-3: the board shows what is committed, and is written before any answer.

mod apply;
mod decider;
mod error;
mod ledger;
mod seats;

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Actor, AskError, Budget, Clock, EndCause, Executor, Limit, Reason, in_turn};

pub use apply::Apply;
pub use error::{Fault, OpenError, Refused};
pub use ledger::{CommitError, InMemory, Ledger};

use crate::estimate::Estimate;
use crate::limits::{Limits, TimeSource};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Counted, Mutex};
use crate::user_code::{catch, discard};
use apply::Outcome;
use decider::Decider;
use seats::Winners;

/// An applicant who is in: committed, and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admitted<R> {
    /// The receipt of the ledger.
    pub row: R,
    /// Its place in the order of entry, the first being 1.
    pub place: u64,
}

/// The progress of an admission, by what is committed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// The number of those who are in.
    pub count: u64,
    /// The number of those who may be.
    pub limit: u64,
    /// True if it is closed, for good.
    pub closed: bool,
    /// `count / limit`; 1 if the limit is 0.
    pub ratio: f64,
    /// The number of those who wait for their turn or a commit: an upper bound, late by at
    /// most a pass.
    pub waiting: usize,
}

/// First come, first served, exactly to a limit, one entry per applicant; written into a
/// [`Ledger`] of the caller's, and closed for good when the limit is reached.
///
/// Applicants are decided one after the other, in the order of their calls. What several have
/// brought while one commit was under way is committed together, up to a
/// [group](AdmissionBuilder::group): one `fsync` serves them all, and still none hears "in"
/// before it is durable. Every applicant is answered, and truly.
///
/// Without an [executor](AdmissionBuilder::executor), the applying threads run the ledger: one of
/// them at a time, for all. Clones are the same admission. When the last of them is dropped,
/// applications that wait are decided, and then the ledger is dropped.
///
/// # Examples
/// ```
/// use std::thread;
/// use turnwise_locks::admission::{Admission, InMemory};
/// use turnwise_locks::Limits;
///
/// let raffle = Admission::open(InMemory, 15)?;
/// let accepted = thread::scope(|s| {
///     let entrants: Vec<_> = (0..100)
///         .map(|id| {
///             let raffle = &raffle;
///             s.spawn(move || raffle.apply(id, Limits::NONE).wait().is_ok())
///         })
///         .collect();
///     entrants.into_iter().filter_map(|it| it.join().unwrap().then_some(())).count()
/// });
/// assert_eq!((accepted, raffle.status().count), (15, 15));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Admission<Id, L: Ledger<Id>> {
    actor: Actor<Decider<Id, L>>,
    board: Counted<Board>,
    time: TimeSource,
    /// The most entries of a pass, and the time that it takes them.
    group: (usize, Duration),
}

impl<Id, L> Admission<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    /// Opens an admission, run by those who apply, in groups of 256 at most. Asks the ledger who is
    /// in.
    ///
    /// A limit of zero is reached from the start. So is one that the ledger's rows have passed:
    /// that is closed, not accepted.
    ///
    /// # Errors
    /// [`OpenError::Load`]: the ledger could not say who is in.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::admission::{Admission, InMemory};
    /// use turnwise_locks::Limits;
    ///
    /// let none = Admission::open(InMemory, 0)?;
    /// assert!(none.status().closed);
    /// assert!(none.apply("ada", Limits::NONE).wait().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(ledger: L, limit: u64) -> Result<Self, OpenError<L::Error>> {
        Self::builder(ledger, limit).open()
    }

    /// An admission with an executor, another clock, or another group.
    ///
    /// # Examples
    /// ```
    /// use turnwise::ThreadPool;
    /// use turnwise_locks::admission::{Admission, InMemory};
    /// use turnwise_locks::Limits;
    ///
    /// let pool = ThreadPool::builder().threads(1).build()?;
    /// let raffle = Admission::builder(InMemory, 2).group(64).executor(pool.handle()).open()?;
    /// assert_eq!(raffle.apply("ada", Limits::NONE).wait()?.place, 1); // on the pool
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(ledger: L, limit: u64) -> AdmissionBuilder<Id, L> {
        AdmissionBuilder {
            ledger,
            limit,
            group: GROUP,
            longest: GROUP_TIME,
            executor: None,
            clock: None,
            timers: None,
            _ids: std::marker::PhantomData,
        }
    }

    /// Applies for a place. Takes one in the queue, in this call; the answer is in what comes back.
    ///
    /// Without an executor, and if no other thread does, this one decides here and now, the
    /// commit included. Inside a turn of any actor it never does.
    ///
    /// The wait is measured from this call to the start of its turn, on the admission's clock. One
    /// whose turn has begun in time is decided and committed, however long that takes. With a wait
    /// of zero it is [`Refused::Busy`]: at once if others are before it, and in a millisecond if an
    /// executor does not come to it. With [`Limits::refuse_early`], it is refused at once if its
    /// turn is not to be expected in time.
    /// A lease is refused ([`Refused::HasLease`]): an entry is durable, and cannot be cut.
    ///
    /// Once it is closed, that is said at once, without a place in the queue, to those who are not
    /// in. Those who are hear of their place, however often they ask.
    ///
    /// Lock-free up to the queue, apart from the global allocator; with an early refusal, a mutex
    /// is held for some instructions. The ledger's calls may block.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::admission::{Admission, InMemory, Refused};
    /// use turnwise_locks::Limits;
    ///
    /// let raffle = Admission::open(InMemory, 2)?;
    /// let limits = Limits::wait(Duration::from_secs(5)).refuse_early();
    /// assert_eq!(raffle.apply("ada", limits).wait()?.place, 1);
    /// let again = raffle.apply("ada", Limits::wait(Duration::from_secs(5))).wait();
    /// assert!(matches!(again, Err(Refused::Duplicate { place: 1 })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply(&self, id: Id, limits: impl Into<Limits>) -> Apply<Id, L> {
        let limits = limits.into();
        if limits.leased().is_some() {
            return Apply::refused(Refused::HasLease);
        }
        if let Some(winners) = self.board.winners.get() {
            // Its turn says what becomes of a panic.
            let is_out = !catch(|| winners.may_hold(&id)).unwrap_or_else(|payload| {
                discard(payload);
                true
            });
            // For good: it needs no turn.
            if is_out {
                return Apply::refused(Refused::Closed { limit: self.board.shown.0.lock().limit });
            }
        }
        if limits.is_early() {
            self.board.want();
        }
        let id = match self.decide_here(id) {
            Ok(outcome) => return Apply::over(outcome),
            Err(id) => id,
        };
        if limits.is_immediate() && !self.actor.is_idle() {
            return Apply::refused(Refused::Busy);
        }
        let terms = limits.terms_elsewhere(|| self.time.now());
        if let Some(wait) = terms.wait.filter(|_| terms.early) {
            let expected = self.board.expected(self.actor.len(), self.group);
            if expected > wait.at.saturating_sub(wait.called) {
                return Apply::refused(Refused::Expected { wait: expected });
            }
        }
        Apply::new(self.actor.clone(), id, terms, self.time.clone())
    }

    /// Decides an applicant in this call, if none is before it: it is its turn now, whatever its
    /// limit is.
    fn decide_here(&self, id: Id) -> Result<Outcome<L::Row, L::Error>, Id> {
        if in_turn() {
            return Err(id);
        }
        let mut id = Some(id);
        let turn = |decider: &mut Decider<Id, L>| id.take().map(|id| decider.admit_here(id));
        match self.actor.try_with(turn) {
            Ok(Some(outcome)) => Ok(outcome),
            _ => Err(id.expect("a turn that did not come has taken nothing")),
        }
    }

    /// Sets the limit, for all that apply after this. Those before it are decided first, by the old
    /// one. A limit that is reached by that closes the admission; zero closes it in any case. May
    /// block.
    ///
    /// # Errors
    /// [`Refused::Closed`] if the limit was reached before: closed is closed for good.
    /// [`Refused::Gone`] after the end of the admission; [`Refused::Withdrawn`] inside one of its
    /// turns, and on a pool's worker that must not wait. The limit is as it was.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::admission::{Admission, InMemory, Refused};
    /// use turnwise_locks::Limits;
    ///
    /// let raffle = Admission::open(InMemory, 1)?;
    /// raffle.set_limit(2)?;
    /// raffle.apply("ada", Limits::NONE).wait()?;
    /// raffle.apply("grace", Limits::NONE).wait()?;
    /// assert!(matches!(raffle.set_limit(3), Err(Refused::Closed { limit: 2 })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limit(&self, limit: u64) -> Result<(), Refused<L::Error>> {
        match self.actor.with(|decider| decider.set_limit(limit)) {
            Ok(set) => set,
            Err(AskError::Refused(reason @ (Reason::Deadlock(_) | Reason::WouldBlock), _)) => {
                Err(Refused::Withdrawn(reason))
            }
            Err(_) => Err(Refused::Gone(
                self.actor.stop_cause().map_or(EndCause::Closed, EndCause::Stopped),
            )),
        }
    }

    /// Takes no new applications, decides those that wait, and drops the ledger. True when all that
    /// is over, false if `limit` passed first. May block.
    ///
    /// # Errors
    /// [`Reason::Deadlock`] inside a turn of the admission, [`Reason::WouldBlock`] on a pool's
    /// worker that must not wait: it is shut down, and not waited for.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::admission::{Admission, InMemory, Refused};
    /// use turnwise_locks::Limits;
    ///
    /// let raffle = Admission::open(InMemory, 1)?;
    /// assert!(raffle.shutdown(Duration::from_secs(5))?);
    /// let late = raffle.apply("ada", Limits::NONE).wait();
    /// assert!(matches!(late, Err(Refused::Gone(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(&self, limit: impl Into<Limit>) -> Result<bool, Reason> {
        self.actor.close();
        self.actor.ended().within(limit)
    }

    /// Takes no new applications, and refuses those that wait ([`Refused::Gone`]). Those whose turn
    /// has come are committed and answered. Lock-free; waits for nothing.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::admission::{Admission, InMemory, Refused};
    /// use turnwise_locks::Limits;
    ///
    /// let raffle = Admission::open(InMemory, 1)?;
    /// raffle.stop();
    /// let late = raffle.apply("ada", Limits::NONE).wait();
    /// assert!(matches!(late, Err(Refused::Gone(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) {
        self.actor.stop();
    }
}

impl<Id, L: Ledger<Id>> Admission<Id, L> {
    /// Its progress. All who heard "in" before the call are counted. Holds a mutex for some
    /// instructions, and waits for nothing: so it is no [`Call`](crate::Call), as it is over a
    /// store, where another machine has the answer.
    pub fn status(&self) -> Status {
        let Shown { count, limit, closed, .. } = *self.board.shown.0.lock();
        let ratio = if limit == 0 { 1.0 } else { count as f64 / limit as f64 };
        Status { count, limit, closed, ratio, waiting: self.actor.len() }
    }
}

impl<Id, L: Ledger<Id>> Clone for Admission<Id, L> {
    fn clone(&self) -> Self {
        let (actor, board, time) = (self.actor.clone(), self.board.clone(), self.time.clone());
        Admission { actor, board, time, group: self.group }
    }
}

impl<Id, L: Ledger<Id>> fmt::Debug for Admission<Id, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("actor", &self.actor).finish_non_exhaustive()
    }
}

/// Applicants of a pass, unless the builder says otherwise.
const GROUP: usize = 256;
/// The time that a pass takes entries, unless the builder says otherwise.
const GROUP_TIME: Duration = Duration::from_millis(10);

/// Describes an admission before it is opened: see [`Admission::builder`].
#[must_use = "nothing is opened before `open`"]
pub struct AdmissionBuilder<Id, L> {
    ledger: L,
    limit: u64,
    group: usize,
    longest: Duration,
    executor: Option<Arc<dyn Executor>>,
    clock: Option<Arc<dyn Clock>>,
    timers: Option<Timers>,
    _ids: std::marker::PhantomData<fn(Id)>,
}

impl<Id, L> AdmissionBuilder<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    /// The most applicants that are committed together; 256 without this. None is kept waiting
    /// to fill it: a pass is what has come while the last one was under way.
    ///
    /// A pass is answered as a whole, after its commit. So a commit that takes long wants a large
    /// group, and entries that take long want a small one.
    pub fn group(self, applicants: usize) -> Self {
        AdmissionBuilder { group: applicants, ..self }
    }

    /// A pass that takes entries for so long is committed, however few they are; 10 ms without
    /// this. So where entries are slow, those that are in do not wait for a whole group. The entry
    /// that is under way then is still one of the pass. [`Duration::MAX`]: the group alone ends a
    /// pass.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::admission::{Admission, InMemory};
    /// use turnwise_locks::Limits;
    ///
    /// // A commit for each entry.
    /// let raffle = Admission::builder(InMemory, 2).group_time(Duration::ZERO).open()?;
    /// assert_eq!(raffle.apply("ada", Limits::NONE).wait()?.place, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group_time(self, longest: Duration) -> Self {
        AdmissionBuilder { longest, ..self }
    }

    /// Runs the ledger in this executor, and nowhere else: for a ledger that blocks, among tasks.
    pub fn executor(self, executor: impl Executor + 'static) -> Self {
        AdmissionBuilder { executor: Some(Arc::new(executor)), ..self }
    }

    /// The clock that limits are measured on; without this, the system's monotonic one.
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        AdmissionBuilder { clock: Some(Arc::new(clock)), ..self }
    }

    /// The timers that wake what waits for a limit in a task. Their clock is the admission's, too,
    /// whatever [`clock`](Self::clock) says. Without this, they are those [of the
    /// clock](Timers::of), or [the process's](Timers::global).
    pub fn timers(self, timers: Timers) -> Self {
        AdmissionBuilder { timers: Some(timers), ..self }
    }

    /// Opens the admission: asks the ledger who is in, on this thread.
    ///
    /// # Errors
    /// [`OpenError::Load`] if the ledger could not say who is in, [`OpenError::GroupZero`] for
    /// empty groups.
    pub fn open(self) -> Result<Admission<Id, L>, OpenError<L::Error>> {
        let AdmissionBuilder { ledger, limit, group, longest, executor, clock, timers, .. } = self;
        if group == 0 {
            return Err(OpenError::GroupZero);
        }
        let timers = timers.or_else(|| clock.as_ref().map(Timers::of));
        let its_clock = timers.as_ref().map(|timers| timers.clock().clone());
        let time = TimeSource::new(timers);
        let board = Counted::new(Board::new());
        let decider = Decider::open(ledger, limit, (group, longest), (board.clone(), time.clone()));
        // The decider ends a pass at the group by itself; the budget has the thread that drains
        // give the rest to others then, and not in the midst of a pass.
        let turns = u32::try_from(group).unwrap_or(u32::MAX);
        let mut actor = Actor::builder()
            .name("admission")
            .budget(Budget::turns(turns))
            .on_batch_end(|decider: &mut Decider<_, L>, _| decider.batch_ends());
        if let Some(clock) = its_clock {
            actor = actor.clock(clock);
        }
        if let Some(executor) = executor {
            actor = actor.executor(executor);
        }
        let actor = actor.spawn(decider.map_err(OpenError::Load)?).map_err(OpenError::Build)?;
        Ok(Admission { actor, board, time, group: (group, longest) })
    }
}

impl<Id, L> fmt::Debug for AdmissionBuilder<Id, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionBuilder")
            .field("limit", &self.limit)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

/// The view of an admission for those who do not wait for its turns. What all read lies apart
/// from what each pass writes.
#[repr(align(128))]
struct Board {
    /// It is closed, and they are in. Set after that was shown.
    winners: OnceLock<Winners>,
    /// 1: a request wants to know how long it takes. Before that, nothing is measured.
    wanted: AtomicU32,
    shown: Apart<Mutex<Shown>>,
}

#[repr(align(128))]
struct Apart<T>(T);

#[derive(Default)]
struct Shown {
    count: u64,
    limit: u64,
    closed: bool,
    entry: Estimate,
    commit: Estimate,
}

impl Board {
    fn new() -> Self {
        let shown = Apart(Mutex::new(Shown::default()));
        Board { winners: OnceLock::new(), wanted: AtomicU32::new(0), shown }
    }

    fn show(&self, count: u64, limit: u64, closed: bool) {
        let mut shown = self.shown.0.lock();
        (shown.count, shown.limit, shown.closed) = (count, limit, closed);
    }

    fn is_wanted(&self) -> bool {
        // Ordering: Relaxed. Nothing is published by it, and it is set some time.
        self.wanted.load(Ordering::Relaxed) == 1
    }

    fn entry_took(&self, time: Duration) {
        self.shown.0.lock().entry.took(time);
    }

    fn commit_took(&self, time: Duration) {
        self.shown.0.lock().commit.took(time);
    }

    /// From now on it is measured how long turns take.
    fn want(&self) {
        // Ordering: Relaxed. See `is_wanted`.
        self.wanted.store(1, Ordering::Relaxed);
    }

    /// The time of a wait for a turn behind that many.
    fn expected(&self, before: usize, (group, longest): (usize, Duration)) -> Duration {
        let shown = self.shown.0.lock();
        // A pass ends by its number or by its time.
        let each = shown.entry.wait(0, Duration::ZERO).as_nanos().max(1);
        let in_time = usize::try_from(longest.as_nanos().div_ceil(each)).unwrap_or(usize::MAX);
        let commits = before.div_ceil(group.min(in_time).max(1));
        let wait = |estimate: &Estimate, times: usize| match times.checked_sub(1) {
            Some(others) => estimate.wait(others, Duration::ZERO),
            None => Duration::ZERO,
        };
        wait(&shown.entry, before).saturating_add(wait(&shown.commit, commits))
    }
}
