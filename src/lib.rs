#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod actor;
mod drain;
mod error;
pub mod executor;
pub mod guide;
mod mailbox;
mod reply;
mod sync;
mod unwind;
mod wait;

pub use actor::{
    Actor, ActorBuilder, BulkHandler, Context, Handler, Promise, Recipient, Reply, ShutdownReport, SpawnError, SpawnReason, System,
    Unanswered, WaitError, WeakActor, promise, remaining, renew,
};
pub use drain::budget::{Budget, Remaining};
pub use drain::bulk::Bulk;
pub use drain::carrier::{Drain, Executor};
pub use drain::letter::Undelivered;
pub use drain::plan::{Overflow, Panic};
pub use drain::turns::own::Owned;
pub use error::{AskError, BuildError, EndCause, OwnError, Reason, SendError, StopCause};
pub use executor::{ThreadPool, blocking};
pub use wait::{Clock, Limit, MonotonicClock, VirtualClock};
