//! Jobs in places that are set up before each use and cleaned up after it.
//!
//! A place is dirty in the store from the beginning of a job to its end, which follows the
//! clean-up. So if the process of a job is killed, the next job in that place cleans it up first. A
//! place whose clean-up fails is quarantined, and is not granted before it is repaired.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use turnwise_locks::{Fence, Limits, SlotId};

use crate::attempt::Call;
use crate::error::{LockError, ReleaseError};
use crate::lock::Guard;
use crate::slots::{SlotBuildError, Slots};
use crate::tenure::Lost;
use crate::user_code::caught;

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
    lease: Option<Duration>,
    hooks: Arc<Hooks<T, E>>,
}

/// Describes a pool before it is made: see [`Remote::slot_pool`](crate::Remote::slot_pool).
#[must_use = "nothing is made before `build`"]
pub struct SlotPoolBuilder<T = (), E = Infallible> {
    slots: Result<Slots, SlotBuildError>,
    lease: Option<Duration>,
    hooks: Hooks<T, E>,
}

struct Hooks<T, E> {
    set_up: Box<dyn Fn(SlotId) -> Result<T, E> + Send + Sync>,
    clean_up: Option<CleanUp<T, E>>,
    on_quarantine: Option<OnQuarantine<E>>,
}

type CleanUp<T, E> = Box<dyn Fn(SlotId, Option<T>) -> Result<(), E> + Send + Sync>;

type OnQuarantine<E> = Box<dyn Fn(SlotId, &SlotError<E>) + Send + Sync>;

/// The place of a job, and the value of its set-up, which it leads to.
pub struct Slot<T = (), E = Infallible> {
    /// Dropped before the place is released.
    value: T,
    guard: Guard,
    id: SlotId,
    /// The error of its pool, which slots in process name, too.
    error: PhantomData<fn() -> E>,
}

/// The error of a job that was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotError<E> {
    /// No place was granted.
    NotAcquired(LockError),
    /// The set-up failed. The place was cleaned up.
    SetUp(E),
    /// The clean-up failed: after the job, or before it, as an earlier job there did not end. The
    /// place is quarantined.
    CleanUp(E),
    /// The clean-up panicked, with this text. The place is quarantined.
    CleanUpPanicked(String),
}

/// The error of a job that was not run, or of its place.
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
        /// [`SlotError::CleanUp`] or [`SlotError::CleanUpPanicked`].
        error: SlotError<E>,
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
    pub(crate) fn new(slots: Result<Slots, SlotBuildError>) -> Self {
        let hooks = Hooks { set_up: Box::new(|_| Ok(())), clean_up: None, on_quarantine: None };
        SlotPoolBuilder { slots, lease: None, hooks }
    }

    /// Makes a place ready for each use, and the value that its job has. Its types are those of the
    /// pool.
    ///
    /// # Panics
    /// If it comes after [`clean_up`](Self::clean_up) or [`on_quarantine`](Self::on_quarantine).
    #[track_caller]
    pub fn set_up<T, E>(
        self,
        set_up: impl Fn(SlotId) -> Result<T, E> + Send + Sync + 'static,
    ) -> SlotPoolBuilder<T, E> {
        let Hooks { clean_up, on_quarantine, .. } = self.hooks;
        assert!(clean_up.is_none(), "`set_up` comes before `clean_up`");
        assert!(on_quarantine.is_none(), "`set_up` comes before `on_quarantine`");
        let hooks = Hooks { set_up: Box::new(set_up), clean_up: None, on_quarantine: None };
        SlotPoolBuilder { slots: self.slots, lease: self.lease, hooks }
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

    /// The maximum duration of a job, set-up and clean-up included, unless the
    /// [limits](Limits::lease) of its call say otherwise. At its end the place is lost, and the
    /// next job there cleans it up first. Without this, a place is held until its job ends.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn lease(mut self, lease: Duration) -> Self {
        assert!(!lease.is_zero(), "a lease must not be zero");
        self.lease = Some(lease);
        self
    }

    /// Sets a listener for places that a job of this program quarantines, as their clean-up failed
    /// or panicked. Called on the thread of the clean-up, which holds the place until the call has
    /// ended; its own panics are ignored.
    ///
    /// # Examples
    /// ```
    /// use turnwise_redis::{Limits, Remote};
    ///
    /// let boxes = Remote::in_memory()
    ///     .slot_pool("boxes", 2)
    ///     .set_up(|_| Ok::<_, String>(()))
    ///     .clean_up(|_, _| Err("the disk is full".to_owned()))
    ///     .on_quarantine(|slot, error| println!("box {slot}: {error}"))
    ///     .build()?;
    /// assert!(boxes.run(Limits::NONE, |_| ()).is_err());
    /// assert_eq!(boxes.slots().info().wait()?.quarantined, [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_quarantine(
        mut self,
        tell: impl Fn(SlotId, &SlotError<E>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.on_quarantine = Some(Box::new(tell));
        self
    }

    /// Makes the pool. Nothing is sent.
    ///
    /// # Errors
    /// [`SlotBuildError`].
    pub fn build(self) -> Result<SlotPool<T, E>, SlotBuildError> {
        let SlotPoolBuilder { slots, lease, hooks } = self;
        Ok(SlotPool { slots: slots?, lease, hooks: Arc::new(hooks) })
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
    /// With the panic of the set-up or of the job, after its place was cleaned up.
    pub fn run<R>(
        &self,
        limits: impl Into<Limits>,
        job: impl FnOnce(&mut Slot<T, E>) -> R,
    ) -> Result<R, RunSlotError<R, E>> {
        let guard = self.slots.acquire(self.limits(limits)).wait().map_err(SlotError::NotAcquired);
        let guard = guard.map_err(RunSlotError::NotStarted)?;
        let begun = guard.begin().wait();
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
        let Slot { guard, id, value, .. } = slot;
        let cleaned = self.clean(id, Some(value));
        let released = guard.end(cleaned.is_err()).wait();
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
        job: impl AsyncFnOnce(&mut Slot<T, E>) -> R,
    ) -> Result<R, RunSlotError<R, E>> {
        let guard = self.slots.acquire(self.limits(limits)).await.map_err(SlotError::NotAcquired);
        let guard = guard.map_err(RunSlotError::NotStarted)?;
        let begun = guard.begin().await;
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
        let Slot { guard, id, value, .. } = slot;
        let cleaned = self.clean(id, Some(value));
        let released = guard.end(cleaned.is_err()).await;
        result(id, Ok(returned), cleaned, released)
    }

    /// The limits of a job, with the lease of the pool if it has none of its own.
    fn limits(&self, limits: impl Into<Limits>) -> Limits {
        let limits = limits.into();
        match self.lease {
            Some(lease) if limits.leased().is_none() => limits.lease(lease),
            _ => limits,
        }
    }

    /// Cleans a place up, which has to be quarantined if that fails.
    fn clean(&self, id: SlotId, value: Option<T>) -> Result<(), SlotError<E>> {
        let cleaned = caught(|| match &self.hooks.clean_up {
            Some(clean_up) => clean_up(id, value),
            None => {
                drop(value);
                Ok(())
            }
        });
        let error = match cleaned {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => SlotError::CleanUp(error),
            Err(text) => SlotError::CleanUpPanicked(text),
        };
        if let Some(tell) = &self.hooks.on_quarantine {
            let _ = caught(|| tell(id, &error));
        }
        Err(error)
    }

    /// Cleans a dirty place up, and sets it up.
    fn start(
        &self,
        guard: Guard,
        begun: Result<bool, LockError>,
    ) -> Result<Slot<T, E>, (SlotError<E>, Left)> {
        let dirty = match begun {
            Ok(dirty) => dirty,
            Err(error) => return Err((SlotError::NotAcquired(error), None)),
        };
        let id = SlotId::from_index(guard.place() as usize - 1);
        let Some(id) = id else { unreachable!("a pool has as many places") };
        if dirty && let Err(error) = self.clean(id, None) {
            return Err((error, Some((guard, true))));
        }
        let failed = match catch_unwind(AssertUnwindSafe(|| (self.hooks.set_up)(id))) {
            Ok(Ok(value)) => return Ok(Slot { guard, id, value, error: PhantomData }),
            Ok(Err(error)) => Ok(SlotError::SetUp(error)),
            Err(panic) => Err(panic),
        };
        let quarantine = self.clean(id, None).is_err();
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
    cleaned: Result<(), SlotError<E>>,
    released: Result<(), ReleaseError>,
) -> Result<R, RunSlotError<R, E>> {
    let value = ended.unwrap_or_else(|panic| resume_unwind(panic));
    match (cleaned, released) {
        (Err(error), _) => Err(RunSlotError::CleanUp { value, slot, error }),
        (Ok(()), Ok(())) => Ok(value),
        (Ok(()), Err(ReleaseError::Lost(_))) => Err(RunSlotError::Lost { value }),
        (Ok(()), Err(error)) => Err(RunSlotError::Store { value, error }),
    }
}

impl<T, E> Slot<T, E> {
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

    /// Starts the lease anew: see [`Guard::renew`].
    pub fn renew(&self, lease: Duration) -> Call<(), ReleaseError> {
        self.guard.renew(lease)
    }

    /// The guard of the place.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

impl<T, E> Deref for Slot<T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T, E> DerefMut for Slot<T, E> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

// Whatever the hooks are: each job has a place to itself.
impl<T, E> UnwindSafe for SlotPool<T, E> {}
impl<T, E> RefUnwindSafe for SlotPool<T, E> {}

impl<T, E> Clone for SlotPool<T, E> {
    fn clone(&self) -> Self {
        SlotPool { slots: self.slots.clone(), lease: self.lease, hooks: self.hooks.clone() }
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

impl<T, E> fmt::Debug for Slot<T, E> {
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
            SlotError::CleanUp(error) => write!(f, "the clean-up failed: {error}"),
            SlotError::CleanUpPanicked(text) => write!(f, "the clean-up panicked: {text}"),
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
                write!(f, "the job has run; slot {slot}: {error}")
            }
            RunSlotError::Store { error, .. } => write!(f, "the job has run: {error}"),
        }
    }
}

// Whatever the value is: it is not shown, so `?` needs no bound.
impl<R, E: fmt::Debug> fmt::Debug for RunSlotError<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunSlotError::NotStarted(error) => f.debug_tuple("NotStarted").field(error).finish(),
            RunSlotError::Lost { .. } => f.debug_struct("Lost").finish_non_exhaustive(),
            RunSlotError::CleanUp { slot, error, .. } => f
                .debug_struct("CleanUp")
                .field("slot", slot)
                .field("error", error)
                .finish_non_exhaustive(),
            RunSlotError::Store { error, .. } => {
                f.debug_struct("Store").field("error", error).finish_non_exhaustive()
            }
        }
    }
}

impl<R, E: fmt::Debug + fmt::Display> Error for RunSlotError<R, E> {}
