//! Executors of drains: a thread pool of our own, rayon's, a tokio runtime, or a queue run by
//! hand.
//!
//! An actor that is built with an [`Executor`](crate::Executor) is run there: senders leave their
//! messages and return. What an executor is given is a [`Drain`](crate::Drain), one per actor at
//! most, however many messages wait.
//!
//! | executor                         | threads                        | a turn that waits                            | when it is gone                   |
//! |----------------------------------|--------------------------------|----------------------------------------------|-----------------------------------|
//! | none                             | those that send                | sleeps; what it has sent goes to the fallback | -                                 |
//! | [`ThreadPool`]                   | its own, started at once       | another thread takes over its worker's place | actors stop with `ExecutorGone`   |
//! | [`ThreadPool::global`]           | its own, started on first need | the same                                     | it never is                       |
//! | `Rayon` (feature `rayon`)        | rayon's                        | keeps a thread of rayon's                    | it lives as long as actors use it |
//! | `Tokio::new` (feature `tokio`)   | the runtime's workers          | another thread takes over its worker's place | actors stop with `ExecutorGone`   |
//! | `Tokio::for_blocking`            | the runtime's, for blocking work | keeps one of those                         | actors stop with `ExecutorGone`   |
//! | [`DrainQueue`]                   | those that run the queue       | keeps that thread                            | actors stop with `ExecutorGone`   |
//! | any closure that takes a `Drain` | up to it                       | up to it                                     | it drops the drain: the same      |
//!
//! The *fallback* runs what has no executor and is not run by its sender: the pool of the process;
//! or, on a thread that is inside a tokio runtime (with the feature `tokio`), a pool whose threads
//! enter that runtime for each drain.
//!
//! # Fairness
//! No executor keeps an actor waiting for ever because others always have something to do: not for
//! one that is fed without an end, nor for any number that send to themselves. A drain ends with
//! its actor's budget, and what is left of it goes behind others.
//!
//! | executor       | a drain waits for                                                                                                |
//! |----------------|------------------------------------------------------------------------------------------------------------------|
//! | [`ThreadPool`] | those that were queued before it; and each 61st that a worker runs comes from outside, if one waits there          |
//! | `Rayon`        | those that were queued before it: one queue for all actors in a rayon pool, first come, first run. Rayon's own jobs from outside of its pool wait until no drain is left |
//! | `Tokio::new`   | what tokio's scheduler runs before it: its queues are fair                                                        |
//! | `Tokio::for_blocking` | nothing, up to the runtime's number of such threads; then what was queued before it                        |
//! | [`DrainQueue`] | those that were queued before it; with a seed, a random number of others                                          |
//!
//! A turn is never interrupted: each turn that takes long keeps one thread of the executor for
//! itself. In a [`ThreadPool`], what waits behind it is moved to other workers after some
//! milliseconds.

// From below, each knowing only those before it: blocking, pool; builder; global. The others
// (manual, rayon, tokio) stand by themselves.
mod blocking;
mod builder;
mod global;
mod manual;
mod pool;
#[cfg(feature = "rayon")]
mod rayon;
#[cfg(feature = "tokio")]
mod tokio;

#[cfg(feature = "rayon")]
pub use self::rayon::Rayon;
#[cfg(feature = "tokio")]
pub use self::tokio::Tokio;
pub use blocking::{Blocking, blocking};
pub use builder::{PoolBuilder, PoolError};
pub use manual::{DrainQueue, QueueHandle};
pub use pool::{PoolHandle, Shutdown, ThreadPool};
