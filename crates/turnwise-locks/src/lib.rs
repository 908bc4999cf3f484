#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admission;
mod entry_ref;
mod estimate;
pub mod guide;
mod keep;
mod keyed;
mod limits;
mod lock;
mod map;
mod overrun;
pub mod rate;
mod registry;
pub mod slots;
mod sync;
mod table;
pub mod ticks;
mod user_code;

pub use entry_ref::EntryRef;
pub use keyed::{
    Cut, Key, KeyInfo, Keyed, KeyedBuilder, KeyedReport, KeyedStats, NotStarted, Run, RunError,
};
pub use limits::Limits;
pub use lock::{
    Acquire, AcquireAll, AcquireMutex, AcquireMutexes, Call, Closed, Fence, Fenced, FencedError,
    Guard, KeyPermit, Latch, LockError, LockInfo, Locks, LocksBuilder, Lost, MutexGuard, Mutexes,
    Opening, Owner, Permit, ReadGuard, ReleaseError, RwGuard, RwLocks, Semaphore, SemaphoreInfo,
    Semaphores, WriteGuard,
};
pub use slots::{Slot, SlotId, SlotPool};
