//! The fallback runs the drains of actors that have no executor, or whose executor does not take
//! them: in the tokio runtime that the thread is in (with the feature `tokio`), else in a pool of
//! the process.
//!
//! The models have another of these.

#[cfg(feature = "tokio")]
mod inside;
#[cfg(feature = "tokio")]
mod runtime;

use std::sync::OnceLock;

use crate::cell::executor::Drain;
use crate::pool::{Pool, PoolConfig};

static POOL: OnceLock<Pool<Drain>> = OnceLock::new();

/// The pool of the process, started with as many threads as can be had if it is not running.
pub(crate) fn pool() -> &'static Pool<Drain> {
    POOL.get_or_init(|| Pool::start(PoolConfig::default()).0)
}

/// True if it is running.
pub(crate) fn has_pool() -> bool {
    POOL.get().is_some()
}

/// Makes this one the pool of the process, unless one is running: then it comes back.
pub(crate) fn set_pool(pool: Pool<Drain>) -> Result<(), Pool<Drain>> {
    POOL.set(pool)
}

/// Has a drain run by another thread.
pub(crate) fn execute(drain: Drain) {
    #[cfg(feature = "tokio")]
    let Err(drain) = runtime::execute(drain) else { return };
    pool().submit(drain);
}

/// True if there is no thread that would run a drain, and none to be had.
pub(crate) fn is_closed() -> bool {
    #[cfg(feature = "tokio")]
    if runtime::is_here() {
        return !inside::pool().has_threads();
    }
    !pool().has_threads()
}

/// Runs what blocks this thread: what it has scheduled before does not wait for it.
pub(crate) fn block<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(feature = "tokio")]
    return runtime::block(f);
    #[cfg(not(feature = "tokio"))]
    f()
}

/// Code that is not known to this crate may block this thread: what it has scheduled before must
/// not wait for it.
pub(crate) fn before_block() {
    #[cfg(feature = "tokio")]
    runtime::before_block();
}
