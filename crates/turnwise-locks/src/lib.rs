#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod admission;
mod estimate;
pub mod guide;
mod keep;
mod keyed;
mod limits;
mod lock;
mod map;
mod overrun;
mod rate;
mod registry;
mod slots;
mod sync;
mod table;
mod ticks;
mod user_code;

pub use admission::{
    Admission, AdmissionBuilder, Admitted, Apply, CommitError, Fault, InMemory, Ledger, LimitError,
    Loaded, OpenError, Refused, Status,
};
pub use keyed::{
    Cut, Key, KeyInfo, Keyed, KeyedBuilder, KeyedReport, NotStarted, Run, RunError, TryRun,
};
pub use limits::Limits;
pub use lock::{
    Acquire, AcquireAll, AcquireMutex, AcquireMutexes, BelowZero, Closed, Fence, Fenced,
    FencedError, Guard, KeyPermit, Latch, LockError, LockInfo, Locks, LocksBuilder, Lost,
    LostError, MultiGuard, MutexGuard, Mutexes, NotZero, Opening, Owner, Permit, ReadGuard,
    RwGuard, RwLocks, RwLocksBuilder, Semaphore, SemaphoreBuilder, SemaphoreInfo, Semaphores,
    SemaphoresBuilder, WriteGuard,
};
pub use overrun::Overrun;
pub use rate::{AcquireRate, Rate, RateError, RateLimits};
pub use slots::{
    AcquireSlot, CleanUpError, FinishError, PoolView, RepairError, RunSlotError, Slot,
    SlotBuildError, SlotError, SlotId, SlotPool, SlotPoolBuilder, SlotRun, SlotState, SlotView,
};
pub use ticks::{
    Attendance, Missed, NotMine, OncePerTick, OncePerTickBuilder, Schedule, StepZero, TickNumber,
};
