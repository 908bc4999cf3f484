//! The shipped floors, file by file, on a [`sync`] of their own: the std flavour whose every atomic operation is a *step* at which the
//! thread may be delayed at random ([`pause::chaos`]), listed ([`pause::trace`]) or stopped until a test lets it go ([`pause::Gate`]).
//!
//! The published crate carries no hooks: only this package has them, by supplying `crate::sync`.

#[path = "../../../src/actor/mod.rs"]
mod actor;
#[path = "../../../src/drain/mod.rs"]
#[allow(dead_code, reason = "the executors, which use the rest, are not here")]
mod drain;
#[path = "../../../src/error.rs"]
mod error;
#[path = "../../../src/mailbox/mod.rs"]
mod mailbox;
/// There is no pool of the whole process: without an executor of its own, an actor has no budget here.
mod executor {
    pub(crate) const PROCESS_WIDE: Option<fn() -> &'static dyn crate::drain::carrier::Executor> = None;
}
pub mod pause;
#[path = "../../../src/reply.rs"]
mod reply;
mod sync;
#[path = "../../../src/unwind.rs"]
mod unwind;
#[path = "../../../src/wait.rs"]
mod wait;

pub use actor::{
    Actor, ActorBuilder, BulkHandler, Context, Handler, Promise, Recipient, Reply, ShutdownReport, SpawnError, SpawnReason, System,
    Unanswered, WaitError, WeakActor, promise,
};
pub use drain::budget::{Budget, Remaining};
pub use drain::bulk::Bulk;
pub use drain::carrier::{Drain, Executor};
pub use drain::letter::Undelivered;
pub use drain::plan::{Overflow, Panic};
pub use drain::turns::own::Owned;
pub use error::{AskError, BuildError, EndCause, OwnError, Reason, SendError, StopCause};
pub use wait::{Clock, Limit, MonotonicClock, VirtualClock};
