//! Jobs in places that are cleaned up.
//!
//! A place is dirty in the store from the beginning of a job to its end, which follows the
//! clean-up. So if the process of a job is killed, the next job in that place cleans it up first. A
//! place whose clean-up fails is quarantined, and is not granted before it is repaired.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use turnwise_locks::Limits;

use crate::error::{LockError, ReleaseError};
use crate::lock::Guard;
use crate::slots::Slots;

/// Jobs in numbered places, each of which is clean when its job begins: see [`Slots::cleaned`].
pub struct CleanSlots<E> {
    slots: Slots,
    clean_up: Arc<dyn Fn(u32) -> Result<(), E> + Send + Sync>,
}

impl<E> Clone for CleanSlots<E> {
    fn clone(&self) -> Self {
        CleanSlots { slots: self.slots.clone(), clean_up: self.clean_up.clone() }
    }
}

impl<E> fmt::Debug for CleanSlots<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CleanSlots").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// An error of a job, before or after its run.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotJobError<R, E> {
    /// The job was not run: no place was granted.
    NotStarted(LockError),
    /// The job was not run: its place was dirty, and the clean-up failed. The place is quarantined.
    NotClean {
        /// The place.
        place: u32,
        /// The error of the clean-up.
        error: E,
    },
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
        place: u32,
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

impl<R, E: fmt::Display> fmt::Display for SlotJobError<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotJobError::NotStarted(error) => write!(f, "the job was not run: {error}"),
            SlotJobError::NotClean { place, error } => {
                write!(f, "the job was not run: place {place} cannot be cleaned up: {error}")
            }
            SlotJobError::Lost { .. } => f.write_str("the job has run, and its place was lost"),
            SlotJobError::CleanUp { place, error, .. } => {
                write!(f, "the job has run, and place {place} cannot be cleaned up: {error}")
            }
            SlotJobError::Store { error, .. } => write!(f, "the job has run: {error}"),
        }
    }
}

impl<R, E: fmt::Display> fmt::Debug for SlotJobError<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotJobError({self})")
    }
}

impl<R, E: fmt::Display> Error for SlotJobError<R, E> {}

impl<E> CleanSlots<E> {
    pub(crate) fn new(
        slots: Slots,
        clean_up: impl Fn(u32) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        CleanSlots { slots, clean_up: Arc::new(clean_up) }
    }

    /// Returns the pool.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Runs a job in a place, and cleans the place up however the job ends. May block. The clean-up
    /// runs on this thread.
    ///
    /// # Errors
    /// [`SlotJobError`], which contains the job's value if it has run.
    ///
    /// # Panics
    /// With the panic of the job, after its place was cleaned up; or with that of the clean-up,
    /// after its place was quarantined.
    pub fn run<R>(
        &self,
        limits: impl Into<Limits>,
        job: impl FnOnce(&Guard) -> R,
    ) -> Result<R, SlotJobError<R, E>> {
        let guard = self.slots.take_within(limits).wait().map_err(SlotJobError::NotStarted)?;
        let begun = guard.begin().wait().unwrap_or_else(|error| Err(error.into()));
        let guard = match self.started(guard, begun) {
            Ok(guard) => guard,
            Err((error, None)) => return Err(error),
            Err((error, Some(guard))) => {
                let _ = guard.end(true).wait();
                return Err(error);
            }
        };
        let ended = catch_unwind(AssertUnwindSafe(|| job(&guard)));
        let place = guard.place();
        let cleaned = self.clean(&guard);
        let released = guard.end(!matches!(cleaned, Ok(Ok(()))));
        let released = released.wait();
        result(place, ended, cleaned, released)
    }

    /// Runs an async job as [`run`](Self::run) does. If the returned future is dropped before it
    /// completes, the place is released dirty, and the next job there cleans it up first.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    pub async fn run_async<R>(
        &self,
        limits: impl Into<Limits>,
        job: impl AsyncFnOnce(&Guard) -> R,
    ) -> Result<R, SlotJobError<R, E>> {
        let guard = self.slots.take_within(limits).await.map_err(SlotJobError::NotStarted)?;
        let begun = guard.begin().await.unwrap_or_else(|error| Err(error.into()));
        let guard = match self.started(guard, begun) {
            Ok(guard) => guard,
            Err((error, None)) => return Err(error),
            Err((error, Some(guard))) => {
                let _ = guard.end(true).await;
                return Err(error);
            }
        };
        // A panic drops the guard: the place stays dirty, and the next job there cleans it up.
        let value = job(&guard).await;
        let place = guard.place();
        let cleaned = self.clean(&guard);
        let released = guard.end(!matches!(cleaned, Ok(Ok(())))).await;
        result(place, Ok(value), cleaned, released)
    }

    fn clean(&self, guard: &Guard) -> thread::Result<Result<(), E>> {
        let place = guard.place();
        catch_unwind(AssertUnwindSafe(|| (self.clean_up)(place)))
    }

    /// Cleans a dirty place up. Returns the guard of a place that has to be quarantined with the
    /// error.
    #[allow(clippy::type_complexity, reason = "an error, and the guard that is left to be ended")]
    fn started<R>(
        &self,
        guard: Guard,
        begun: Result<bool, LockError>,
    ) -> Result<Guard, (SlotJobError<R, E>, Option<Guard>)> {
        match begun {
            Ok(false) => Ok(guard),
            Ok(true) => match self.clean(&guard) {
                Ok(Ok(())) => Ok(guard),
                Ok(Err(error)) => {
                    let place = guard.place();
                    Err((SlotJobError::NotClean { place, error }, Some(guard)))
                }
                Err(panic) => {
                    drop(guard.end(true));
                    resume_unwind(panic)
                }
            },
            Err(error) => Err((SlotJobError::NotStarted(error), None)),
        }
    }
}

fn result<R, E>(
    place: u32,
    ended: thread::Result<R>,
    cleaned: thread::Result<Result<(), E>>,
    released: Result<(), ReleaseError>,
) -> Result<R, SlotJobError<R, E>> {
    let value = ended.unwrap_or_else(|panic| resume_unwind(panic));
    match (cleaned, released) {
        (Err(panic), _) => resume_unwind(panic),
        (Ok(Err(error)), _) => Err(SlotJobError::CleanUp { value, place, error }),
        (Ok(Ok(())), Ok(())) => Ok(value),
        (Ok(Ok(())), Err(ReleaseError::Lost(_))) => Err(SlotJobError::Lost { value }),
        (Ok(Ok(())), Err(error)) => Err(SlotJobError::Store { value, error }),
    }
}
