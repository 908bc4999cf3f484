//! Jobs that run once per tick, on the machine that attends first.
//!
//! The store's clock defines the ticks, and the store records the last one that was taken. An
//! attempt is for the tick whose beginning is nearest. So contenders whose clocks call them a
//! little early or a little late contend for the same tick: none is run twice, and none is left
//! out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwise::AskError;
pub use turnwise_locks::ticks::Schedule;

use crate::attempt::{Acquire, Caller};
use crate::business::Handles;
use crate::client::Owned;
use crate::error::{LockError, StoreError};
use crate::lock::Guard;
use crate::name::NameError;
use crate::requests::{Request, Share};
use crate::step::{Answer, Step};
use crate::time::Moment;

/// Jobs by name: see [`Remote::ticks`](crate::Remote::ticks). Clones share the same jobs.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_redis::ticks::NotMine;
/// use turnwise_redis::Remote;
///
/// let hourly = Remote::in_memory().ticks().job("backup", Duration::from_secs(3600))?;
/// let run = hourly.take().wait()?;
/// println!("tick {} is this program's", run.tick());
/// drop(run);
/// // Once an hour, however short it was.
/// assert!(matches!(hourly.take().wait(), Err(NotMine::Taken { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Ticks {
    client: Owned,
}

/// Runs a job once per tick among all programs that use the store: see
/// [`Remote::once_per_tick`](crate::Remote::once_per_tick).
///
/// Its calls are those of the in-process [`OncePerTick`](turnwise_locks::ticks::OncePerTick), and
/// so is the tick that a call belongs to: the one that has begun, or with
/// [`nearest`](Self::nearest) the one that begins nearest to it. The store's clock says what time
/// it is. Clones are the same jobs.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_locks::ticks::Schedule;
/// use turnwise_redis::ticks::NotMine;
/// use turnwise_redis::Remote;
///
/// let daily = Schedule::every(Duration::from_secs(24 * 3600));
/// let jobs = Remote::in_memory().once_per_tick(daily)?;
/// assert!(jobs.try_run("clean up", |tick| println!("tick {tick}")).is_ok());
/// let second = jobs.try_run("clean up", |_| unreachable!());
/// assert!(matches!(second, Err(NotMine::Taken { .. }))); // unless it is midnight
/// # Ok::<(), turnwise_redis::ticks::JobError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OncePerTick {
    ticks: Ticks,
    every: Duration,
    offset: Duration,
    nearest: bool,
    overlap: bool,
}

/// The error of a job that was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotMine {
    /// The tick has run, or runs, elsewhere.
    Taken {
        /// The number of the tick.
        tick: u64,
        /// The time until the next tick.
        next: Duration,
    },
    /// A run of an earlier tick has not ended.
    StillRunning {
        /// The number of that tick.
        tick: u64,
        /// The time until the next tick.
        next: Duration,
    },
    /// The store did not answer, or the name is not valid. If the tick was taken by the attempt, it
    /// is not run again.
    Failed(LockError),
}

impl fmt::Display for NotMine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotMine::Taken { tick, next } => {
                write!(f, "tick {tick} was taken; the next is in {next:?}")
            }
            NotMine::StillRunning { tick, .. } => write!(f, "the run of tick {tick} has not ended"),
            NotMine::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotMine {}

impl From<StoreError> for NotMine {
    fn from(error: StoreError) -> Self {
        NotMine::Failed(error.into())
    }
}

impl From<AskError> for NotMine {
    fn from(error: AskError) -> Self {
        NotMine::Failed(error.into())
    }
}

impl OncePerTick {
    pub(crate) fn new(ticks: Ticks, schedule: Schedule) -> Result<Self, JobError> {
        let (every, offset) = schedule.period().ok_or(JobError::OwnSchedule)?;
        if every < Duration::from_micros(1) {
            return Err(JobError::Step);
        }
        Ok(OncePerTick { ticks, every, offset, nearest: false, overlap: false })
    }

    /// A call belongs to the tick that begins nearest to it: for calls at the beginning of a tick
    /// that may be a little early, as those of cron on several machines.
    #[must_use]
    pub fn nearest(self) -> Self {
        OncePerTick { nearest: true, ..self }
    }

    /// A run that lasts beyond its tick does not keep others from running the next one: see
    /// [`Job::allow_overlap`].
    #[must_use]
    pub fn allow_overlap(self) -> Self {
        OncePerTick { overlap: true, ..self }
    }

    /// Runs the job on this thread, if it did not run in this tick, on whatever machine. Waits for
    /// the store's answer, and for no run. May block.
    ///
    /// The tick is used by that, also if the job panics: the panic goes to the caller, and the next
    /// run is one of the next tick.
    ///
    /// # Errors
    /// [`NotMine`]: the job was not run.
    ///
    /// # Panics
    /// With the job's own panic.
    pub fn try_run<R>(&self, job: &str, f: impl FnOnce(u64) -> R) -> Result<R, NotMine> {
        let run = self.take(job).wait().map_err(|why| self.until(why))?;
        Ok(f(run.tick()))
    }

    /// [`try_run`](Self::try_run) for a task. Dropped while the job runs, it ends the run; the tick
    /// stays used.
    ///
    /// # Errors
    /// [`NotMine`]: the job was not run.
    pub async fn try_run_async<R>(
        &self,
        job: &str,
        f: impl AsyncFnOnce(u64) -> R,
    ) -> Result<R, NotMine> {
        let run = self.take(job).await.map_err(|why| self.until(why))?;
        Ok(f(run.tick()).await)
    }

    fn take(&self, job: &str) -> Acquire<JobRun, NotMine> {
        let job = match self.ticks.job(job, self.every) {
            Ok(job) => job,
            Err(JobError::Name(error)) => return Acquire::over(Err(NotMine::Failed(error.into()))),
            Err(JobError::Step | JobError::OwnSchedule) => unreachable!("it was looked at"),
        };
        let job = Job { offset: self.offset.saturating_add(self.later()), ..job };
        if self.overlap { job.allow_overlap().take() } else { job.take() }
    }

    /// A job counts to the nearest tick. So half a tick later, it counts from the beginning of one.
    fn later(&self) -> Duration {
        if self.nearest { Duration::ZERO } else { self.every / 2 }
    }

    /// The next tick was counted half a tick later, or not.
    fn until(&self, mut why: NotMine) -> NotMine {
        if let NotMine::Taken { next, .. } | NotMine::StillRunning { next, .. } = &mut why {
            *next = next.saturating_sub(self.later());
        }
        why
    }
}

/// A job and its schedule: see [`Ticks::job`]. Clones are the same job.
#[derive(Clone)]
pub struct Job {
    client: Owned,
    key: String,
    name: Arc<str>,
    every: Duration,
    offset: Duration,
    overlap: bool,
}

/// An error that the parameters of a job cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobError {
    /// The name is not valid.
    Name(NameError),
    /// The time between ticks is less than a microsecond.
    Step,
    /// The schedule was made by [`Schedule::from_fn`]: the store counts periods.
    OwnSchedule,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::Name(error) => error.fmt(f),
            JobError::Step => f.write_str("ticks are a microsecond apart at least"),
            JobError::OwnSchedule => f.write_str("a store counts ticks of one length"),
        }
    }
}

impl std::error::Error for JobError {}

/// A run of a job, which ends when this is dropped.
#[derive(Debug)]
#[must_use = "the run ends when this is dropped"]
pub struct JobRun {
    tick: u64,
    guard: Guard,
}

impl Ticks {
    pub(crate) fn new(client: Owned) -> Self {
        Ticks { client }
    }

    /// A job whose ticks begin each `every`, counted from the Unix epoch on the store's clock.
    /// Nothing is sent.
    ///
    /// An attempt belongs to the tick whose beginning is nearest: from half of `every` before it to
    /// half after it. Contenders that are called at the beginning of a tick, as by cron, agree on
    /// it although their clocks differ. The in-process
    /// [`OncePerTick`](turnwise_locks::ticks::OncePerTick) has one clock, and counts from the
    /// beginning of a tick to the next.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn job(&self, name: &str, every: Duration) -> Result<Job, JobError> {
        // The store counts microseconds.
        if every < Duration::from_micros(1) {
            return Err(JobError::Step);
        }
        let key = self.client.key("tick", name).map_err(JobError::Name)?;
        let (client, name) = (self.client.clone(), name.into());
        Ok(Job { client, key, name, every, offset: Duration::ZERO, overlap: false })
    }
}

impl Job {
    /// Delays the beginning of ticks: by three hours, for ticks that begin at three o'clock.
    /// Contenders that are called at another time than the full period set this: clocks may differ
    /// by less than half of `every` around it. Of one that is longer than `every`, full periods do
    /// not count, as in [`Schedule::offset`].
    #[must_use]
    pub fn offset(self, offset: Duration) -> Self {
        let period = Schedule::every(self.every).offset(offset).period();
        Job { offset: period.map_or(Duration::ZERO, |(_, offset)| offset), ..self }
    }

    /// Takes a tick also while a run of an earlier one has not ended. [The guard](JobRun::guard) of
    /// the earlier run counts as lost from then on; the run itself is not stopped.
    #[must_use]
    pub fn allow_overlap(self) -> Self {
        Job { overlap: true, ..self }
    }

    /// Takes the tick whose beginning is nearest, unless it was taken before, on whatever machine.
    /// Does not wait for a run; the answer comes from the store.
    ///
    /// The run is renewed until it is dropped. If its client dies, the tick is not run again, and
    /// the next one is free when the client's [lease](crate::RemoteBuilder::lease) is over.
    ///
    /// Fails with [`NotMine`] if the tick is not this program's.
    pub fn take(&self) -> Acquire<JobRun, NotMine> {
        let handed = |run: &mut JobRun, handles: &Handles| run.guard.handed(handles);
        let request = Request::take(&self.client, &self.key, 1, None);
        let name = self.name.clone();
        let Job { every, offset, overlap, .. } = *self;
        Acquire::new(&self.client.home, &self.client.handles, handed, |caller| {
            take(caller, request, name, (every, offset, overlap))
        })
    }
}

/// Takes a tick.
async fn take(
    caller: Caller,
    request: Share,
    name: Arc<str>,
    (every, offset, overlap): (Duration, Duration, bool),
) -> Result<JobRun, NotMine> {
    let client = request.client.clone();
    let (token, lease) = (request.token.clone(), client.lease());
    let step = Step::Attend { token, every, offset, lease, overlap };
    let sent = Moment::now();
    Err(match request.ask(&caller, step, client.patience()).await? {
        Answer::Mine { tick, fence } => {
            let guard = Guard::of_run(request, name, fence, sent);
            return Ok(JobRun { tick, guard });
        }
        Answer::StillRunning { tick, next } => NotMine::StillRunning { tick, next },
        Answer::Taken { tick, next } => NotMine::Taken { tick, next },
        _ => NotMine::Failed(LockError::Closed),
    })
}

impl JobRun {
    /// The number of the tick.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// The guard of the run, with its fence.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Returns the guard, whose release ends the run: see [`Guard::release`].
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks").field("store", &self.client.store).finish_non_exhaustive()
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Job");
        shown.field("name", &self.name).field("every", &self.every).finish_non_exhaustive()
    }
}
