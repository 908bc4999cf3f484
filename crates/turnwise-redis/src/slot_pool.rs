//! Jobs in places that are set up before each use and cleaned up after it.
//!
//! A place is dirty in the store from the beginning of a job to its end, which follows the
//! clean-up. So if the process of a job is killed, the next job in that place cleans it up first. A
//! place whose clean-up fails is quarantined, and is not granted before it is repaired.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use turnwise_locks::{Fence, Limits, SlotId};

use crate::error::{LockError, ReleaseError};
use crate::lock::Guard;
use crate::slots::{Slots, SlotsError};
use crate::tenure::Lost;

/// Runs jobs in numbered places, among all programs that use the store: see
/// [`Remote::slot_pool`](crate::Remote::slot_pool).
///
/// Its calls are those of the in-process [`SlotPool`](turnwise_locks::SlotPool). Set-up and
/// clean-up run in the process of the job, so all programs have to do the same there. Clones are
/// the same pool.
///
/// # Examples
/// ```
/// use std::io;
/// use turnwise_redis::{Limits, Remote};
///
/// let boxes = Remote::in_memory()
///     .slot_pool("boxes", 2)
///     .set_up(|slot| Ok::<_, io::Error>(format!("the folder of box {}", slot.index())))
///     .clean_up(|_, folder| {
///         println!("{folder:?} is emptied");
///         Ok(())
///     })
///     .build()?;
/// let index = boxes.run(Limits::NONE, |slot| slot.id().index()).unwrap();
/// assert_eq!(index, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SlotPool<T = (), E = Infallible> {
    slots: Slots,
    hooks: Arc<Hooks<T, E>>,
}

/// Describes a pool before it is made: see [`Remote::slot_pool`](crate::Remote::slot_pool).
#[must_use = "nothing is made before `build`"]
pub struct SlotPoolBuilder<T = (), E = Infallible> {
    slots: Result<Slots, SlotsError>,
    hooks: Hooks<T, E>,
}

struct Hooks<T, E> {
    set_up: Box<dyn Fn(SlotId) -> Result<T, E> + Send + Sync>,
    clean_up: Option<CleanUp<T, E>>,
}

type CleanUp<T, E> = Box<dyn Fn(SlotId, Option<T>) -> Result<(), E> + Send + Sync>;

/// The place of a job, and the value of its set-up, which it leads to.
pub struct Slot<T> {
    guard: Guard,
    id: SlotId,
    value: T,
}

/// Why a job was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotError<E> {
    /// No place was granted.
    NotAcquired(LockError),
    /// The set-up failed. The place was cleaned up.
    SetUp(E),
    /// The place was dirty, as an earlier job there did not end, and its clean-up failed. The place
    /// is quarantined.
    CleanUp {
        /// The place.
        slot: SlotId,
        /// The error of the clean-up.
        error: E,
    },
}

/// Why a job was not run, or what became of its place.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunSlotError<R, E> {
    /// The job was not run.
    NotStarted(SlotError<E>),
    /// The job has run, but its hold was lost: another job may have had the place meanwhile.
    Lost {
        /// The value that the job returned.
        value: R,
    },
    /// The job has run, but the clean-up failed. The place is quarantined.
    CleanUp {
        /// The value that the job returned.
        value: R,
        /// The place.
        slot: SlotId,
        /// The error of the clean-up.
        error: E,
    },
    /// The job has run, and its place was cleaned up, but the store does not answer. The next job
    /// there may clean it up once more.
    Store {
        /// The value that the job returned.
        value: R,
        /// The error of the release.
        error: ReleaseError,
    },
}

/// A place in which no job begins, and whether it is quarantined.
type Left = Option<(Guard, bool)>;

impl SlotPoolBuilder {
    pub(crate) fn new(slots: Result<Slots, SlotsError>) -> Self {
        let hooks = Hooks { set_up: Box::new(|_| Ok(())), clean_up: None };
        SlotPoolBuilder { slots, hooks }
    }

    /// Makes a place ready for each use, and the value that its job has. Its types are those of the
    /// pool.
    ///
    /// # Panics
    /// If it comes after [`clean_up`](Self::clean_up).
    #[track_caller]
    pub fn set_up<T, E>(
        self,
        set_up: impl Fn(SlotId) -> Result<T, E> + Send + Sync + 'static,
    ) -> SlotPoolBuilder<T, E> {
        assert!(self.hooks.clean_up.is_none(), "`set_up` comes before `clean_up`");
        let hooks = Hooks { set_up: Box::new(set_up), clean_up: None };
        SlotPoolBuilder { slots: self.slots, hooks }
    }
}

impl<T, E> SlotPoolBuilder<T, E> {
    /// Removes what a job leaves, such as files in a folder or an account. It gets the value of the
    /// set-up, or none after a set-up that failed, and after a job whose process was killed. If it
    /// fails, the place is quarantined. Without this, a place is clean when its value is dropped.
    pub fn clean_up(
        mut self,
        clean_up: impl Fn(SlotId, Option<T>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.clean_up = Some(Box::new(clean_up));
        self
    }

    /// Makes the pool. Nothing is sent.
    ///
    /// # Errors
    /// [`SlotsError`].
    pub fn build(self) -> Result<SlotPool<T, E>, SlotsError> {
        Ok(SlotPool { slots: self.slots?, hooks: Arc::new(self.hooks) })
    }
}

impl<T, E> SlotPool<T, E> {
    /// Returns the places, to look at them, and to [repair](Slots::repair) one.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Runs a job in a place, and cleans the place up however the job ends. May block. Set-up and
    /// clean-up run on this thread.
    ///
    /// # Errors
    /// [`RunSlotError`], which contains the job's value if it has run.
    ///
    /// # Panics
    /// With the panic of the set-up or of the job, after its place was cleaned up; or with that of
    /// the clean-up, after its place was quarantined.
    pub fn run<R>(
        &self,
        limits: impl Into<Limits>,
        job: impl FnOnce(&mut Slot<T>) -> R,
    ) -> Result<R, RunSlotError<R, E>> {
        let guard = self.slots.acquire(limits).wait().map_err(SlotError::NotAcquired);
        let guard = guard.map_err(RunSlotError::NotStarted)?;
        let begun = guard.begin().wait().unwrap_or_else(|error| Err(error.into()));
        let mut slot = match self.start(guard, begun) {
            Ok(slot) => slot,
            Err((error, left)) => {
                if let Some((guard, quarantine)) = left {
                    let _ = guard.end(quarantine).wait();
                }
                return Err(RunSlotError::NotStarted(error));
            }
        };
        let ended = catch_unwind(AssertUnwindSafe(|| job(&mut slot)));
        let Slot { guard, id, value } = slot;
        let cleaned = self.clean(id, Some(value));
        let released = guard.end(!matches!(cleaned, Ok(Ok(())))).wait();
        result(id, ended, cleaned, released)
    }

    /// Runs an async job as [`run`](Self::run) does. If the returned future is dropped before it
    /// completes, the place is released dirty, and the next job there cleans it up first.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub async fn run_async<R>(
        &self,
        limits: impl Into<Limits>,
        job: impl AsyncFnOnce(&mut Slot<T>) -> R,
    ) -> Result<R, RunSlotError<R, E>> {
        let guard = self.slots.acquire(limits).await.map_err(SlotError::NotAcquired);
        let guard = guard.map_err(RunSlotError::NotStarted)?;
        let begun = guard.begin().await.unwrap_or_else(|error| Err(error.into()));
        let mut slot = match self.start(guard, begun) {
            Ok(slot) => slot,
            Err((error, left)) => {
                if let Some((guard, quarantine)) = left {
                    let _ = guard.end(quarantine).await;
                }
                return Err(RunSlotError::NotStarted(error));
            }
        };
        // A panic drops the guard: the place stays dirty, and the next job there cleans it up.
        let returned = job(&mut slot).await;
        let Slot { guard, id, value } = slot;
        let cleaned = self.clean(id, Some(value));
        let released = guard.end(!matches!(cleaned, Ok(Ok(())))).await;
        result(id, Ok(returned), cleaned, released)
    }

    fn clean(&self, id: SlotId, value: Option<T>) -> thread::Result<Result<(), E>> {
        catch_unwind(AssertUnwindSafe(|| match &self.hooks.clean_up {
            Some(clean_up) => clean_up(id, value),
            None => {
                drop(value);
                Ok(())
            }
        }))
    }

    /// Cleans a dirty place up, and sets it up.
    fn start(
        &self,
        guard: Guard,
        begun: Result<bool, LockError>,
    ) -> Result<Slot<T>, (SlotError<E>, Left)> {
        let dirty = match begun {
            Ok(dirty) => dirty,
            Err(error) => return Err((SlotError::NotAcquired(error), None)),
        };
        let id = SlotId::from_index(guard.place() as usize - 1);
        let Some(id) = id else { unreachable!("a pool has as many places") };
        if dirty {
            match self.clean(id, None) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    return Err((SlotError::CleanUp { slot: id, error }, Some((guard, true))));
                }
                Err(panic) => {
                    drop(guard.end(true));
                    resume_unwind(panic)
                }
            }
        }
        let failed = match catch_unwind(AssertUnwindSafe(|| (self.hooks.set_up)(id))) {
            Ok(Ok(value)) => return Ok(Slot { guard, id, value }),
            Ok(Err(error)) => Ok(SlotError::SetUp(error)),
            Err(panic) => Err(panic),
        };
        let quarantine = !matches!(self.clean(id, None), Ok(Ok(())));
        match failed {
            Ok(error) => Err((error, Some((guard, quarantine)))),
            Err(panic) => {
                drop(guard.end(quarantine));
                resume_unwind(panic)
            }
        }
    }
}

fn result<R, E>(
    slot: SlotId,
    ended: thread::Result<R>,
    cleaned: thread::Result<Result<(), E>>,
    released: Result<(), ReleaseError>,
) -> Result<R, RunSlotError<R, E>> {
    let value = ended.unwrap_or_else(|panic| resume_unwind(panic));
    match (cleaned, released) {
        (Err(panic), _) => resume_unwind(panic),
        (Ok(Err(error)), _) => Err(RunSlotError::CleanUp { value, slot, error }),
        (Ok(Ok(())), Ok(())) => Ok(value),
        (Ok(Ok(())), Err(ReleaseError::Lost(_))) => Err(RunSlotError::Lost { value }),
        (Ok(Ok(())), Err(error)) => Err(RunSlotError::Store { value, error }),
    }
}

impl<T> Slot<T> {
    /// The number of the place, from 0.
    pub fn id(&self) -> SlotId {
        self.id
    }

    /// The number of this use: larger than that of every use of the pool before.
    pub fn fence(&self) -> Fence {
        self.guard.fence()
    }

    /// True if the place was taken away: its lease is over, or it was forced.
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Returns a future that completes when the place is lost: see [`Guard::lost`].
    pub fn lost(&self) -> Lost {
        self.guard.lost()
    }

    /// The time that the hold lasts at least: see [`Guard::remaining`].
    pub fn remaining(&self) -> Option<Duration> {
        self.guard.remaining()
    }

    /// The guard of the place.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

impl<T> Deref for Slot<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Slot<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T, E> Clone for SlotPool<T, E> {
    fn clone(&self) -> Self {
        SlotPool { slots: self.slots.clone(), hooks: self.hooks.clone() }
    }
}

impl<T, E> fmt::Debug for SlotPool<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotPool").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl<T, E> fmt::Debug for SlotPoolBuilder<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotPoolBuilder").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<R, E> RunSlotError<R, E> {
    /// Drops the value of a job that has run: an error that can be shared whatever that is.
    ///
    /// # Examples
    /// ```
    /// use std::convert::Infallible;
    /// use turnwise_redis::slots::RunSlotError;
    ///
    /// let error: RunSlotError<u32, Infallible> = RunSlotError::Lost { value: 7 };
    /// assert_eq!(error.without_value(), RunSlotError::Lost { value: () });
    /// ```
    pub fn without_value(self) -> RunSlotError<(), E> {
        match self {
            RunSlotError::NotStarted(error) => RunSlotError::NotStarted(error),
            RunSlotError::Lost { .. } => RunSlotError::Lost { value: () },
            RunSlotError::CleanUp { slot, error, .. } => {
                RunSlotError::CleanUp { value: (), slot, error }
            }
            RunSlotError::Store { error, .. } => RunSlotError::Store { value: (), error },
        }
    }
}

impl<E: fmt::Display> fmt::Display for SlotError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotError::NotAcquired(error) => error.fmt(f),
            SlotError::SetUp(error) => write!(f, "the set-up failed: {error}"),
            SlotError::CleanUp { slot, error } => {
                write!(f, "slot {slot} cannot be cleaned up: {error}")
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for SlotError<E> {}

impl<R, E: fmt::Display> fmt::Display for RunSlotError<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunSlotError::NotStarted(error) => write!(f, "the job was not run: {error}"),
            RunSlotError::Lost { .. } => f.write_str("the job has run, and its slot was lost"),
            RunSlotError::CleanUp { slot, error, .. } => {
                write!(f, "the job has run, and slot {slot} cannot be cleaned up: {error}")
            }
            RunSlotError::Store { error, .. } => write!(f, "the job has run: {error}"),
        }
    }
}

// Whatever the value is: it is not shown, so `?` needs no bound.
impl<R, E: fmt::Display> fmt::Debug for RunSlotError<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunSlotError({self})")
    }
}

impl<R, E: fmt::Display> Error for RunSlotError<R, E> {}
