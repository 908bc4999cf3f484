//! Drains as tasks of a tokio runtime.

#![forbid(unsafe_code)]

use std::fmt;

use ::tokio::runtime::Handle;

use crate::drain::carrier::{Drain, Executor};

/// An [`Executor`] that runs each drain as a task of a tokio runtime. With the feature `tokio`.
///
/// One allocation per drain, tokio's. When the runtime is shut down, drains that wait in it are dropped, and so are those that come later:
/// their actors stop with [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone).
///
/// # Examples
/// ```
/// use turnwise::Actor;
/// use turnwise::executor::Tokio;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
/// let n = Actor::builder(1).executor(Tokio::new(runtime.handle().clone())).spawn()?;
/// let two = runtime.block_on(async { n.ask(|n| *n + 1).await })?;
/// assert_eq!(two, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Tokio {
    runtime: Handle,
    blocking: bool,
}

impl Tokio {
    /// As tasks on the runtime's workers: for turns that are short. A turn that waits keeps its worker meanwhile.
    pub fn new(runtime: Handle) -> Self {
        Tokio { runtime, blocking: false }
    }

    /// On the runtime's threads for blocking work: for turns that are long, or wait.
    pub fn for_blocking(runtime: Handle) -> Self {
        Tokio { runtime, blocking: true }
    }
}

impl Executor for Tokio {
    fn execute(&self, drain: Drain) {
        if self.blocking {
            self.runtime.spawn_blocking(|| drain.run());
        } else {
            self.runtime.spawn(async { drain.run() });
        }
    }
}

impl fmt::Debug for Tokio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokio").field("blocking", &self.blocking).finish_non_exhaustive()
    }
}
