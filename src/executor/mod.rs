//! Where drains run: a thread pool of our own, rayon's, a tokio runtime, or a queue that is run by hand.
//!
//! An actor that is built with an [`Executor`](crate::Executor) is run there: senders leave their messages and go. What an executor is given
//! is a [`Drain`](crate::Drain), one per actor at most, however many messages wait.
//!
//! | executor                             | threads                        | a turn that waits                            | when it is gone                        |
//! |--------------------------------------|--------------------------------|----------------------------------------------|----------------------------------------|
//! | none                                 | those that send                | sleeps; another thread keeps its promises    | -                                      |
//! | [`ThreadPool`]                       | its own, started at once       | another thread takes over its worker's place | actors stop with `ExecutorGone`        |
//! | [`ThreadPool::global`]               | its own, started on first need | the same                                     | it never is                            |
//! | `Rayon` (feature `rayon`)            | rayon's                        | keeps a thread of rayon's                    | it lives as long as actors use it      |
//! | `Tokio` (feature `tokio`)            | the runtime's                  | keeps a thread of the runtime's              | actors stop with `ExecutorGone`        |
//! | [`DrainQueue`]                       | whoever runs the queue         | keeps that thread                            | actors stop with `ExecutorGone`        |
//! | any closure that takes a `Drain`     | up to it                       | up to it                                     | it drops the drain: the same           |

// The floor, from below. `sleep` and `slot` hold every atomic of the pool, know nothing of drains, and are compiled by the models too.
mod blocking;
#[cfg(feature = "rayon")]
mod on_rayon;
#[cfg(feature = "tokio")]
mod on_tokio;
mod pool;
mod queue;
mod sleep;
mod slot;
mod staff;
mod worker;

/// Who drains are handed to that have no executor of their own. The one thing up here that the floors below know of.
pub(crate) const PROCESS_WIDE: Option<fn() -> &'static dyn crate::drain::carrier::Executor> = Some(|| ThreadPool::global());

pub use blocking::{Blocking, blocking};
#[cfg(feature = "rayon")]
pub use on_rayon::Rayon;
#[cfg(feature = "tokio")]
pub use on_tokio::Tokio;
pub use pool::{PoolBuilder, PoolError, PoolHandle, Shutdown, ThreadPool};
pub use queue::{DrainQueue, QueueHandle};
