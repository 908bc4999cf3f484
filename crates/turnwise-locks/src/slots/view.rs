//! Snapshots of a pool.

use std::fmt;
use std::time::Duration;

use crate::lock::Fence;

/// The number of a slot: from 0 to one less than the [size](crate::SlotPool::resize) of its pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub(super) u32);

impl SlotId {
    /// The slot with this number, if a pool can have that many: for a call that names one.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::slots::SlotError;
    /// use turnwise_locks::{SlotId, SlotPool};
    ///
    /// let pool = SlotPool::new(2)?;
    /// let id = SlotId::from_index(1).unwrap();
    /// assert!(matches!(pool.repair(id), Err(SlotError::NotQuarantined)));
    /// # Ok::<(), turnwise_locks::slots::SlotBuildError>(())
    /// ```
    pub fn from_index(index: usize) -> Option<SlotId> {
        let most = crate::slots::SlotPool::MOST;
        u32::try_from(index).ok().filter(|_| index < most).map(SlotId)
    }

    /// Its number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotId({})", self.0)
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SlotState {
    /// It is not used.
    Free,
    /// Its set-up runs, or the clean-up [before its first
    /// use](crate::slots::SlotPoolBuilder::clean_first).
    SetUp,
    /// It has a [`Slot`](crate::Slot), which may be forgotten.
    Held,
    /// Its clean-up runs: after a use, or for a repair.
    CleanUp,
    /// Its lease was over: it is [reclaimed](crate::slots::SlotPoolBuilder::reclaim), and then
    /// cleaned up.
    Reclaim,
    /// Its clean-up has failed: none gets it before it is [repaired](crate::SlotPool::repair).
    Quarantined,
}

/// A look at a pool.
///
/// `in_use`, `free` and `quarantined` together are the number of slots, and of those that are to
/// retire when they come back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolView {
    /// The number of its slots.
    pub slots: usize,
    /// The number that have a user, or are set up, cleaned up or reclaimed.
    pub in_use: usize,
    /// The number that are free. A holder that was let in may not have taken one yet.
    pub free: usize,
    /// The number that are quarantined.
    pub quarantined: usize,
    /// The number that are not free, and retire when they are: the pool has shrunk.
    pub retiring: usize,
    /// The number of requests that wait. Zero after the pool was closed, inside a waker of one, and
    /// on a worker that must not wait for the queue.
    pub waiting: usize,
    /// The time that the first of them has waited, if it has a limit.
    pub oldest_wait: Option<Duration>,
    /// Each slot, by number: those of the pool, and after them those that are to retire.
    pub each: Vec<SlotView>,
}

/// A look at a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotView {
    /// Its number.
    pub id: SlotId,
    /// Its state.
    pub state: SlotState,
    /// The hold that uses it, or has used it last if it is quarantined.
    pub fence: Option<Fence>,
    /// The time since it was taken.
    pub age: Option<Duration>,
    /// The rest of its lease, if it has one.
    pub remaining: Option<Duration>,
}
