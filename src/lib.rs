#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod actor;
mod drain;
mod error;
mod mailbox;
mod reply;
mod sync;
mod wait;

pub use actor::{Actor, ActorBuilder, Overflow, Reply, WaitError, WeakActor};
pub use drain::block::Panic;
pub use drain::carrier::{Drain, Executor};
pub use error::{AskError, BuildError, Reason, SendError, StopCause};
