//! The shipped floors, file by file, on a [`sync`] of their own: the std flavour whose every atomic
//! operation is a *step* at which the thread may be delayed at random ([`pause::chaos`]), listed
//! ([`pause::trace`]) or stopped until a test lets it go ([`pause::Gate`]).
//!
//! The published crate carries no hooks: only this package has them, by supplying `crate::sync`.

#[path = "../../../src/actor/mod.rs"]
mod actor;
#[path = "../../../src/budget.rs"]
mod budget;
#[path = "../../../src/cell/mod.rs"]
#[allow(dead_code, reason = "the executors, which use the rest, are not here")]
mod cell;
#[path = "../../../src/enrolled.rs"]
#[allow(dead_code, reason = "the executors, which use the rest, are not here")]
mod enrolled;
#[path = "../../../src/error.rs"]
mod error;
#[path = "../../../loom-tests/src/fallback.rs"]
mod fallback;
#[path = "../../../src/mailbox/mod.rs"]
mod mailbox;
#[path = "../../../src/panic.rs"]
mod panic;
pub mod pause;
#[path = "../../../src/pool/mod.rs"]
#[allow(dead_code, reason = "the executors, which use it, are not here")]
mod pool;
#[path = "../../../src/send/mod.rs"]
mod send;
mod sync;
#[path = "../../../src/thread/mod.rs"]
#[allow(dead_code, reason = "the executors, which use the rest, are not here")]
mod thread;
#[path = "../../../src/time.rs"]
pub mod time;
#[path = "../../../src/turn/mod.rs"]
#[allow(dead_code, reason = "the executors, which use the rest, are not here")]
mod turn;
#[path = "../../../src/wait_list.rs"]
mod wait_list;

pub use actor::{
    AbortHandle, Activity, Actor, ActorBuilder, ActorSnapshot, Asking, AsyncContext, AsyncHandler,
    AsyncTurn, Closing, Context, Ending, Handler, Posted, Promise, Recipient, Reply, Sending,
    ShutdownReport, Spawner, System, SystemSnapshot, SystemView, WaitError, Waiting, WeakActor,
    Within, promise, promise_on,
};
pub use budget::Budget;
pub use cell::config::{PanicPolicy, Undelivered};
pub use cell::executor::{Drain, Executor};
pub use cell::settings::Overflow;
pub use error::{
    ActorName, AskError, BuildError, EndCause, Reason, SendError, StopCause, TurnPanic,
};
pub use fallback::{Later, later};
pub use time::{Clock, Limit, MonotonicClock, VirtualClock};
