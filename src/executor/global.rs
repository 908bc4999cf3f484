//! The pool of the process, as an executor: it is what actors without one fall back to.

#![forbid(unsafe_code)]

use std::sync::OnceLock;

use super::builder::{PoolBuilder, PoolError};
use super::pool::{PoolHandle, ThreadPool};
use crate::fallback;

/// The handle that is lent out.
static HANDLE: OnceLock<PoolHandle> = OnceLock::new();

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
        HANDLE.get_or_init(|| PoolHandle(fallback::pool().clone()))
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
        if fallback::has_pool() {
            return Err(PoolError::GlobalExists);
        }
        let pool = self.build()?;
        // Dropped, it ends at once if another one was quicker.
        fallback::set_pool(pool.0.clone()).map_err(|_| PoolError::GlobalExists)?;
        std::mem::forget(pool);
        Ok(ThreadPool::global())
    }
}
