#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod actors;
mod admission;
mod admission_record;
mod applications;
mod attempt;
mod business;
mod client;
mod cluster;
mod error;
#[cfg(feature = "sqlite")]
mod file;
pub mod guide;
mod lock;
mod mailbox;
mod majority;
mod memory;
mod name;
mod record;
mod refused;
mod remote;
mod requests;
mod scripts;
mod sent;
mod sentinel;
mod server;
mod slot_pool;
mod slots;
pub mod step;
mod store;
mod tables;
mod tenure;
mod tick;
mod time;
#[cfg(feature = "tls")]
mod tls;

pub use actors::{
    ActorInfo, Actors, ActorsBuilder, ActorsError, Ask, Asked, DeadLetter, Drained, Drains,
    Fallible, MessageError, NoTime, Outcome, RemoteActor, Successor, Tell, Until, Workers,
};
pub use admission::{Admission, AdmissionInfo, Admitted, Reservation, Row};
pub use attempt::{Acquire, Release};
pub use error::{ConnectError, Effect, LockError, Refusal, ReleaseError, StoreError, Votes};
#[cfg(feature = "sqlite")]
pub use file::FileStore;
pub use lock::{Guard, LockInfo, Locks};
pub use majority::{Majority, MajorityBuilder, MajorityError, MajorityGuard};
pub use memory::MemoryStore;
pub use name::NameError;
pub use refused::{AdmissionError, Refused};
pub use remote::{Remote, RemoteBuilder};
pub use server::RedisStore;
pub use slot_pool::{RunSlotError, Slot, SlotError, SlotPool, SlotPoolBuilder};
pub use slots::{Slots, SlotsError, SlotsInfo};
pub use store::{Called, Life, NoticeSink, Store};
pub use tenure::Lost;
pub use tick::{Attendance, Job, JobError, JobRun, NotMine, OncePerTick, Ticks};
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use turnwise_locks::{
    Fence, Fenced, FencedError, Limits, Owner, Schedule, SlotId, StepZero, TickNumber,
};
