//! Errors of slots.

use std::error::Error;
use std::fmt;

use super::view::SlotId;
use crate::lock::LockError;
use crate::user_code::{Payload, discard, text};

/// The error of a slot that is not held, or is not clean.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotError<E> {
    /// It was not let in: no slot was free in time, or the pool was closed.
    NotAcquired(LockError),
    /// The set-up has failed. The slot was cleaned up, and goes on to the next.
    SetUp(E),
    /// The clean-up has failed, at the end of the use, [before the first
    /// one](crate::slots::SlotPoolBuilder::clean_first) or in a
    /// [repair](crate::SlotPool::repair): the slot is quarantined.
    CleanUp(E),
    /// The clean-up has panicked, with this text; or what reclaims did, or a value's drop: the slot
    /// is quarantined.
    CleanUpPanicked(String),
    /// It was lost before it was [finished](crate::Slot::finish): its lease was over. Nothing has
    /// changed, its holder of now goes on.
    Lost,
    /// It is not quarantined, or is being [repaired](crate::SlotPool::repair): nothing was done.
    NotQuarantined,
}

/// The error of a [job](crate::SlotPool::run) that was not run, or of its slot.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunSlotError<R, E> {
    /// The job was not run.
    NotStarted(SlotError<E>),
    /// The job has run, and longer than its lease: somebody else may have had the slot meanwhile.
    Lost {
        /// The value that the job returned.
        value: R,
    },
    /// The job had begun, and was dropped at an await, as its lease was over. Of async jobs alone
    /// ([`SlotPool::run_async`](crate::SlotPool::run_async)).
    Cut,
    /// The job has run; then the clean-up has failed, and the slot is quarantined.
    CleanUp {
        /// The value that the job returned.
        value: R,
        /// The slot.
        slot: SlotId,
        /// [`SlotError::CleanUp`] or [`SlotError::CleanUpPanicked`].
        error: SlotError<E>,
    },
}

impl<E> SlotError<E> {
    pub(super) fn of_clean_up(payload: Payload) -> Self {
        SlotError::CleanUpPanicked(panicked(payload))
    }
}

/// The text of a panic.
pub(super) fn panicked(payload: Payload) -> String {
    let text = text(&*payload).as_ref().to_owned();
    discard(payload);
    text
}

impl<E: fmt::Display> fmt::Display for SlotError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotError::NotAcquired(LockError::TimedOut { waited, .. }) => {
                write!(f, "no slot was free in {waited:?}")
            }
            SlotError::NotAcquired(LockError::Busy { .. }) => f.write_str("no slot is free"),
            SlotError::NotAcquired(LockError::Closed) => f.write_str("the pool was closed"),
            SlotError::NotAcquired(error) => error.fmt(f),
            SlotError::SetUp(error) => write!(f, "the set-up failed: {error}"),
            SlotError::CleanUp(error) => write!(f, "the clean-up failed: {error}"),
            SlotError::CleanUpPanicked(text) => write!(f, "the clean-up panicked: {text}"),
            SlotError::Lost => f.write_str("the slot was lost: its lease was over"),
            SlotError::NotQuarantined => f.write_str("the slot is not quarantined"),
        }
    }
}

impl<R, E: fmt::Display> fmt::Display for RunSlotError<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunSlotError::NotStarted(error) => error.fmt(f),
            RunSlotError::Lost { .. } => f.write_str("the job took longer than its lease"),
            RunSlotError::Cut => f.write_str("the job was cut at an await: its lease was over"),
            RunSlotError::CleanUp { slot, error, .. } => write!(f, "slot {slot}: {error}"),
        }
    }
}

// Whatever the value is: it is not shown, so `?` needs no bound.
impl<R, E: fmt::Debug> fmt::Debug for RunSlotError<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunSlotError::NotStarted(error) => f.debug_tuple("NotStarted").field(error).finish(),
            RunSlotError::Lost { .. } => f.debug_struct("Lost").finish_non_exhaustive(),
            RunSlotError::Cut => f.write_str("Cut"),
            RunSlotError::CleanUp { slot, error, .. } => f
                .debug_struct("CleanUp")
                .field("slot", slot)
                .field("error", error)
                .finish_non_exhaustive(),
        }
    }
}

impl<R, E> RunSlotError<R, E> {
    /// The outcome of a job that has run in this slot.
    pub(super) fn finished(
        slot: SlotId,
        ended: Result<(), SlotError<E>>,
        value: R,
    ) -> Result<R, Self> {
        match ended {
            Ok(()) => Ok(value),
            Err(SlotError::Lost) => Err(RunSlotError::Lost { value }),
            Err(error) => Err(RunSlotError::CleanUp { value, slot, error }),
        }
    }

    /// Drops the value of a job that has run: an error that can be shared whatever that is.
    pub fn without_value(self) -> RunSlotError<(), E> {
        match self {
            RunSlotError::NotStarted(error) => RunSlotError::NotStarted(error),
            RunSlotError::Lost { .. } => RunSlotError::Lost { value: () },
            RunSlotError::Cut => RunSlotError::Cut,
            RunSlotError::CleanUp { slot, error, .. } => {
                RunSlotError::CleanUp { value: (), slot, error }
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for SlotError<E> {}
impl<R, E: fmt::Debug + fmt::Display> Error for RunSlotError<R, E> {}
