//! The builder of a pool.

#![forbid(unsafe_code)]

use std::fmt;
use std::io;

use super::blocking::Blocking;
use super::pool::ThreadPool;
use crate::pool::{Pool, PoolConfig};

impl ThreadPool {
    /// A pool with a worker for each processor that this program may use.
    ///
    /// # Errors
    /// [`PoolError::Spawn`] if a thread cannot be started; those that could have ended again.
    ///
    /// # Examples
    /// ```
    /// let pool = turnwise::ThreadPool::new()?;
    /// assert!(pool.threads() >= 1);
    /// # Ok::<(), turnwise::executor::PoolError>(())
    /// ```
    pub fn new() -> Result<Self, PoolError> {
        Self::builder().build()
    }

    /// A pool with names, another size, or another way with turns that block.
    pub fn builder() -> PoolBuilder {
        PoolBuilder(PoolConfig::default())
    }
}

/// Describes a [`ThreadPool`] before it is started: see [`ThreadPool::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing is started before `build`"]
pub struct PoolBuilder(PoolConfig);

impl PoolBuilder {
    /// The number of workers, and so of turns that run at a time. Without this, one for each
    /// processor that this program may use.
    pub fn threads(mut self, workers: usize) -> Self {
        self.0.workers = workers;
        self
    }

    /// Sets the name of the threads, which a number follows. Without this, `turnwise`.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.0.name = name.into();
        self
    }

    /// The size of each thread's stack, in bytes, 128 KiB at least: a worker needs some of it
    /// itself. Without this, the standard library's.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.0.stack_size = Some(bytes.max(128 * 1024));
        self
    }

    /// Sets the policy for turns that wait. Without this, up to 256 threads take over for them.
    ///
    /// # Examples
    /// ```
    /// use turnwise::executor::Blocking;
    /// use turnwise::{Actor, AskError, Reason, ThreadPool};
    ///
    /// let pool = ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build()?;
    /// let one = Actor::builder().executor(pool.handle()).spawn(1)?;
    /// let (promise, reply) = turnwise::promise::<()>();
    /// let (tell, told) = std::sync::mpsc::channel();
    /// one.send(move |_| tell.send(reply.wait()).unwrap())?; // waits on a worker of this pool
    /// assert_eq!(told.recv()?, Err(AskError::from(Reason::WouldBlock)));
    /// promise.keep(());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking(mut self, blocking: Blocking) -> Self {
        self.0.most = match blocking {
            Blocking::Compensate { most } => Some(most),
            Blocking::Refuse => None,
        };
        self
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// No workers, too many, or a thread that cannot be started: those that could have ended again.
    ///
    /// # Examples
    /// ```
    /// use turnwise::ThreadPool;
    /// use turnwise::executor::PoolError;
    ///
    /// assert!(matches!(ThreadPool::builder().threads(0).build(), Err(PoolError::NoThreads)));
    /// ```
    pub fn build(self) -> Result<ThreadPool, PoolError> {
        let largest = PoolConfig::LARGEST;
        match self.0.workers {
            0 => return Err(PoolError::NoThreads),
            asked if asked > largest => return Err(PoolError::TooManyThreads { asked, largest }),
            _ => {}
        }
        if self.0.name.contains('\0') {
            return Err(PoolError::InvalidName);
        }
        match Pool::start(self.0) {
            (pool, None) => Ok(ThreadPool(pool)),
            (pool, Some(error)) => {
                pool.cut_off();
                Err(PoolError::Spawn(error))
            }
        }
    }
}

/// The error of a pool that was not started.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// A pool without workers would run nothing.
    NoThreads,
    /// More workers than it can count.
    TooManyThreads {
        /// The value that was asked for.
        asked: usize,
        /// The most there can be.
        largest: usize,
    },
    /// The name has a NUL in it, which a thread's must not.
    InvalidName,
    /// The system gave no thread.
    Spawn(io::Error),
    /// The pool of the whole process is running already.
    GlobalExists,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::NoThreads => f.write_str("a pool needs a worker at least"),
            PoolError::TooManyThreads { asked, largest } => {
                write!(f, "{asked} workers are over the limit of {largest}")
            }
            PoolError::InvalidName => f.write_str("the name of a pool's threads has a NUL in it"),
            PoolError::Spawn(_) => f.write_str("a thread of the pool could not be started"),
            PoolError::GlobalExists => {
                f.write_str("the pool of the whole process is running already")
            }
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolError::Spawn(error) => Some(error),
            _ => None,
        }
    }
}
