//! The re-exports of the published crate's root, as far as the packages that are built on it use
//! them.

pub(crate) use super::actor::{
    AbortHandle, Actor, AsyncTurn, Context, Handler, Promise, Reply, Spawner, WaitError, WeakActor,
    promise, promise_on,
};
pub(crate) use super::budget::Budget;
pub(crate) use super::cell::config::PanicPolicy;
pub(crate) use super::cell::executor::Executor;
pub(crate) use super::error::{AskError, BuildError, Cycle, EndCause, Reason, StopCause};
/// As in the root of the published crate.
pub(crate) fn in_turn() -> bool {
    super::thread::context::with_local(super::thread::context::Local::in_turn)
}
pub(crate) use super::time::{Clock, Limit, MonotonicClock};
