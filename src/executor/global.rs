//! The pool of the process, and where drains go that have no executor of their own.

#![forbid(unsafe_code)]

use std::sync::OnceLock;

use super::builder::{PoolBuilder, PoolError};
use super::pool::{PoolHandle, ThreadPool};
use crate::cell::executor::{Drain, Executor};

static GLOBAL: OnceLock<PoolHandle> = OnceLock::new();

impl ThreadPool {
    /// The pool of the whole process. The first call starts it, with a worker for each processor
    /// that this program may use, unless [`PoolBuilder::build_global`] was there before. It is
    /// never shut down, and does not keep the process from ending.
    ///
    /// If the system gives fewer threads, it has fewer. If it gives none, drains wait; each one
    /// that comes has the pool try again.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, ThreadPool};
    ///
    /// let n = Actor::builder().executor(ThreadPool::global().clone()).spawn(1)?;
    /// assert_eq!(n.call(|n| *n).wait()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn global() -> &'static PoolHandle {
        GLOBAL.get_or_init(start_what_can_be)
    }
}

impl PoolBuilder {
    /// Starts it as the pool of the whole process, [`ThreadPool::global`].
    ///
    /// # Errors
    /// [`PoolError::GlobalExists`] if that is running already; else as [`build`](Self::build).
    ///
    /// # Examples
    /// ```standalone_crate
    /// use turnwise::ThreadPool;
    ///
    /// let pool = ThreadPool::builder().threads(2).build_global()?;
    /// assert_eq!(pool.threads(), 2);
    /// assert!(ThreadPool::builder().build_global().is_err());
    /// # Ok::<(), turnwise::executor::PoolError>(())
    /// ```
    pub fn build_global(self) -> Result<&'static PoolHandle, PoolError> {
        if GLOBAL.get().is_some() {
            return Err(PoolError::GlobalExists);
        }
        let pool = self.build()?;
        // Dropped, it ends at once if another one was quicker.
        GLOBAL.set(pool.handle()).map_err(|_| PoolError::GlobalExists)?;
        std::mem::forget(pool);
        Ok(ThreadPool::global())
    }
}

/// The pool with as many threads as can be had.
fn start_what_can_be() -> PoolHandle {
    match ThreadPool::builder().start() {
        Ok((shared, error)) => PoolHandle { shared, lacks_threads: error.is_some() },
        Err(_) => unreachable!("the default is a good one"),
    }
}

/// Where a drain goes whose actor has no executor: to the tokio runtime that this thread is in
/// (with the feature `tokio`), else to the pool of the process.
#[derive(Debug)]
pub(crate) struct Fallback;

impl crate::cell::executor::Fallback for Fallback {
    #[cfg(feature = "tokio")]
    fn before_block(&self) {
        super::tokio::before_block();
    }
}

impl Executor for Fallback {
    fn execute(&self, drain: Drain) {
        #[cfg(feature = "tokio")]
        let Err(drain) =
            super::tokio::spawn_here(drain, |drain| ThreadPool::global().execute(drain))
        else {
            return;
        };
        ThreadPool::global().execute(drain);
    }

    /// Is there no thread that would run a drain, and none to be had?
    fn is_closed(&self) -> bool {
        #[cfg(feature = "tokio")]
        if super::tokio::is_here() {
            return false;
        }
        !ThreadPool::global().has_threads()
    }
}
