#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod actors;
pub mod admission;
mod admission_record;
mod applications;
mod attempt;
mod business;
mod client;
mod cluster;
pub mod engine;
mod error;
#[cfg(feature = "sqlite")]
mod file;
pub mod guide;
mod io;
mod lock;
mod mailbox;
mod majority;
mod memory;
mod name;
mod news;
mod record;
mod refused;
mod remote;
mod report;
mod requests;
mod rows;
mod scripts;
mod sent;
mod sentinel;
mod server;
mod slot_pool;
pub mod slots;
pub mod step;
mod store;
mod suits;
mod tenure;
pub mod ticks;
mod time;
#[cfg(feature = "tls")]
mod tls;
mod user_code;
mod view;
mod wires;

pub use actors::{
    ActorInfo, Actors, ActorsBuilder, ActorsError, Ask, Asked, DeadLetter, Drained, Drains,
    Fallible, MessageError, NoTime, Outcome, RemoteActor, Successor, Tell, Until, Workers,
};
pub use attempt::{Acquire, Call};
pub use error::{ConnectError, Effect, LockError, Refusal, ReleaseError, StoreError, Votes};
#[cfg(feature = "sqlite")]
pub use file::FileStore;
pub use lock::{Guard, LockInfo, Locks};
pub use majority::{Majority, MajorityBuilder, MajorityError, MajorityGuard};
pub use memory::MemoryStore;
pub use name::NameError;
pub use remote::{Remote, RemoteBuilder};
pub use server::RedisStore;
pub use slot_pool::{Slot, SlotPool};
pub use slots::Slots;
pub use store::{Called, Life, NoticeSink, Store};
pub use tenure::Lost;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use turnwise_locks::{Fence, Fenced, FencedError, Limits, Owner, SlotId};
