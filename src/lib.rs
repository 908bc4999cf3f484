#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod actor;
mod budget;
mod cell;
mod drain;
mod envelope;
mod error;
pub mod executor;
pub mod guide;
mod mailbox;
mod panic;
mod send;
mod sync;
pub mod time;
mod wait_list;

pub use actor::{
    Actor, ActorBuilder, Asking, Closing, Context, Ending, Handler, Lossy, Posted, Promise,
    Recipient, Reply, Sending, ShutdownReport, SpawnError, SpawnReason, System, Template,
    TemplateBuilder, WaitError, Waiting, WeakActor, promise, promise_on,
};
pub use budget::Budget;
pub use cell::config::{Overflow, PanicPolicy, SharedPolicy, Undelivered};
pub use cell::executor::{Drain, Executor};
pub use error::{AskError, BuildError, EndCause, Reason, SendError, StopCause, Withdrawn};
pub use executor::{ThreadPool, blocking};
pub use time::{Clock, Deadline, Limit, MonotonicClock, VirtualClock};

/// Where drains go whose actor has no executor: the one thing of the executors that the floors
/// below them know of. The models have another.
pub(crate) const FALLBACK: &dyn cell::executor::Fallback = &executor::Fallback;
