#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod estimate;
pub mod guide;
mod keep;
mod keyed;
mod limits;
mod lock;
mod overrun;
mod registry;
mod slots;
mod sync;
mod table;
mod user_code;

pub use keyed::{
    Key, KeyInfo, Keyed, KeyedBuilder, KeyedReport, NotStarted, Run, RunError, TryRun,
};
pub use limits::Limits;
pub use lock::{
    Acquire, AcquireAll, BelowZero, Fence, Fenced, FencedError, Guard, Latch, LockError, LockInfo,
    Locks, LocksBuilder, Lost, LostError, MultiGuard, NotZero, Opening, Owner, Permit, ReadGuard,
    RwLocks, RwLocksBuilder, Semaphore, SemaphoreBuilder, SemaphoreInfo, WriteGuard,
};
pub use overrun::Overrun;
pub use slots::{
    AcquireSlot, CleanUpError, FinishError, PoolView, RepairError, RunSlotError, Slot,
    SlotBuildError, SlotError, SlotId, SlotPool, SlotPoolBuilder, SlotState, SlotView,
};
