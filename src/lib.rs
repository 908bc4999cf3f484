// Where the README's links lead in rustdoc: the first definition of a name is the one that holds.
//! [architecture]: https://github.com/turnwise/turnwise/blob/main/ARCHITECTURE.md
//! [compare]: https://github.com/turnwise/turnwise/blob/main/COMPARE.md
//! [contributing]: https://github.com/turnwise/turnwise/blob/main/CONTRIBUTING.md
//! [design]: https://github.com/turnwise/turnwise/blob/main/DESIGN.md
//! [examples]: https://github.com/turnwise/turnwise/blob/main/examples/README.md
//! [table]: https://github.com/turnwise/turnwise/raw/main/crates/turnwise-top/docs/table.svg
//! [platform]: https://github.com/turnwise/turnwise/blob/main/PLATFORM.md
//! [guarantees]: crate::guide::guarantees
//! [guide]: crate::guide
//! [performance]: crate::guide::performance
//! [verification]: crate::guide::verification
//! [user-code]: crate::guide::user_code
//! [changes]: https://docs.rs/crate/turnwise/latest/source/CHANGELOG.md
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]

mod actor;
mod budget;
mod cell;
mod enrolled;
mod error;
pub mod executor;
mod fallback;
pub mod guide;
mod mailbox;
mod panic;
mod pool;
mod send;
mod sync;
mod thread;
pub mod time;
mod turn;
mod wait_list;

pub use actor::{
    AbortHandle, Actor, ActorBuilder, AsyncContext, AsyncHandler, AsyncTurn, Context, Handler,
    Promise, Recipient, Reply, ShutdownReport, Spawner, System, WaitError, WeakActor, promise,
    promise_on,
};
pub use budget::Budget;
pub use cell::config::{PanicPolicy, Undelivered};
pub use cell::executor::{Drain, Executor};
pub use cell::restarts::Restarts;
pub use cell::settings::Overflow;
pub use error::{
    ActorName, AskError, BuildError, Cycle, EndCause, Reason, SendError, StopCause, TurnPanic,
    Withdrawn,
};
pub use executor::{ThreadPool, blocking};
pub use time::{Clock, Limit, MonotonicClock, VirtualClock};

/// Futures and views that methods of [`Actor`] and [`System`] return, for code that keeps them.
pub mod wait {
    pub use crate::actor::{Asking, Closing, Ending, Posted, Sending, Waiting, Within};
}

/// Activity of actors, and counts of their messages.
pub mod snapshot {
    pub use crate::actor::{Activity, ActorSnapshot, SystemSnapshot, SystemView};
    pub use crate::cell::stats::Stats;
}

/// True inside a turn of some actor, and inside a call of an executor's that a send has
/// made. A [`send`](Actor::send) leaves its message in the mailbox there, instead of running it.
///
/// For what is built on actors, and keeps to the same rule. Wait-free.
///
/// # Examples
/// ```
/// assert!(!turnwise::in_turn());
/// assert!(turnwise::Actor::new(()).with(|()| turnwise::in_turn())?);
/// # Ok::<(), turnwise::AskError>(())
/// ```
pub fn in_turn() -> bool {
    thread::context::with_local(thread::context::Local::in_turn)
}
