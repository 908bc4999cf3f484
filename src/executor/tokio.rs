//! Drains as tasks of a tokio runtime.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use ::tokio::runtime::{self, Handle, RuntimeFlavor};
use ::tokio::task::AbortHandle;

use crate::cell::executor::{Drain, Executor};
use crate::enrolled::Enrolled;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::turn::deferred::drop_drains;

/// An [`Executor`] that runs each drain as a task of a tokio runtime. With the feature `tokio`.
///
/// One allocation per drain, tokio's; and one task for each executor that is made (not for its
/// clones), which does nothing, and by whose end it sees that the runtime is shut down. Drains that
/// wait in the runtime then are dropped, and so are those that come later: their actors stop with
/// [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone).
///
/// # Examples
/// ```
/// use turnwise::Actor;
/// use turnwise::executor::Tokio;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
/// let n = Actor::builder().executor(Tokio::new(runtime.handle().clone())).spawn(1)?;
/// let two = runtime.block_on(async { n.call(|n| *n + 1).await })?;
/// assert_eq!(two, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Tokio {
    runtime: Handle,
    blocking: bool,
    sentinel: Arc<Sentinel>,
}

impl Tokio {
    /// As tasks on the runtime's workers: for turns that are short. While a turn waits, another
    /// thread takes over the place of its worker, by
    /// [`block_in_place`](::tokio::task::block_in_place).
    ///
    /// A runtime of one thread has no such thread: a blocking wait for one of these actors inside
    /// of it is refused, with [`Reason::WouldBlock`](crate::Reason::WouldBlock). `.await` it. Of a
    /// thread that is inside a guard of another runtime ([`Handle::enter`]), tokio names that one:
    /// there the wait is not refused, and never ends.
    pub fn new(runtime: Handle) -> Self {
        let sentinel = Sentinel::of(&runtime);
        Tokio { runtime, blocking: false, sentinel }
    }

    /// On the runtime's threads for blocking work: for turns that are long, or wait.
    pub fn for_blocking(runtime: Handle) -> Self {
        Tokio { blocking: true, ..Self::new(runtime) }
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

    fn is_closed(&self) -> bool {
        // Ordering: Acquire, as in `Gone`.
        self.sentinel.seen.gone.load(Acquire) != 0
    }

    fn needs_this_thread(&self) -> bool {
        let flavor = self.runtime.runtime_flavor();
        // A runtime of one thread has that one as its worker; its threads for blocking work are
        // none.
        !self.blocking
            && flavor != RuntimeFlavor::MultiThread
            && runtime::worker_index().is_some()
            && Handle::try_current().is_ok_and(|here| here.id() == self.runtime.id())
    }

    fn enrolled(&self) -> Option<&Enrolled<Drain>> {
        Some(&self.sentinel.seen.enrolled)
    }
}

impl fmt::Debug for Tokio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokio").field("blocking", &self.blocking).finish_non_exhaustive()
    }
}

/// Sees the end of a runtime, by a task that is dropped with it.
struct Sentinel {
    seen: Arc<Runtime>,
    task: AbortHandle,
}

/// State that the task shares with the executor.
#[derive(Default)]
struct Runtime {
    gone: AtomicU32,
    enrolled: Enrolled<Drain>,
}

/// Says that the task was dropped.
struct Gone(Arc<Runtime>);

impl Drop for Gone {
    fn drop(&mut self) {
        // Ordering: Release, with the Acquire of `is_closed`: what the shutdown did before is seen
        // with it.
        self.0.gone.store(1, Release);
        drop_drains(self.0.enrolled.end());
    }
}

impl Sentinel {
    fn of(runtime: &Handle) -> Arc<Self> {
        let seen = Arc::new(Runtime::default());
        let last = Gone(seen.clone());
        let task = runtime.spawn(async move {
            let _last = last;
            std::future::pending::<()>().await;
        });
        Arc::new(Sentinel { seen, task: task.abort_handle() })
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.task.abort();
    }
}
