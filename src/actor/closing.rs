//! The end of a system as a future.

#![forbid(unsafe_code)]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::shutdown::{Progress, ShutdownReport};
use super::system::System;

impl System {
    /// [`shutdown`](Self::shutdown) for a task: a future that closes the actors level by level, and
    /// is ready when all have ended. Nothing happens before the first poll.
    ///
    /// It has no limit and stops nobody: the caller's runtime has timeouts, and then
    /// `shutdown(Duration::ZERO)` stops what is left. Polling it runs no turn and no end: these go
    /// to the actors' executors, and to the fallback. Dropping it leaves the system closed: nobody
    /// is taken in, but actors of levels that it has not come to still accept messages.
    ///
    /// As with `shutdown`, an actor inside whose turn the future is polled is not waited for, and
    /// reported as running.
    ///
    /// # Examples
    /// ```
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, System};
    ///
    /// let queue = DrainQueue::new();
    /// let system = System::new();
    /// let n = system.spawn(Actor::builder(0).executor(queue.handle()))?;
    /// n.send(|n| *n += 1)?;
    /// let mut closing = pin!(system.shutdown_async());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(closing.as_mut().poll(&mut cx).is_pending());
    /// assert!(n.is_closed());
    /// queue.run_until_idle();
    /// let Poll::Ready(report) = closing.poll(&mut cx) else { panic!("all have ended") };
    /// assert_eq!((report.ended, report.is_complete()), (1, true));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn shutdown_async(&self) -> Closing {
        Closing { system: self.clone(), progress: Progress::default() }
    }
}

/// A future that ends a system: see [`System::shutdown_async`].
///
/// It keeps a handle to the system. Polling it runs no turn. Dropped before it is ready, it leaves
/// a system that takes nobody in; actors of levels that it has not come to stay open.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Closing {
    system: System,
    progress: Progress,
}

impl Future for Closing {
    /// Polled again, it is the same.
    type Output = ShutdownReport;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Closing { system, progress } = self.get_mut();
        progress.poll(system.shared(), cx)
    }
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing").field("report", &self.progress.report()).finish_non_exhaustive()
    }
}
