//! The end of a system as a future.

#![forbid(unsafe_code)]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::shutdown::{Progress, ShutdownReport};
use super::system::System;
use super::within::{Over, Within};
use crate::time::{Cutoff, Limit, Timers};

impl System {
    /// [`shutdown`](Self::shutdown) for a task: a future that closes the actors level by level, and
    /// is ready when all have ended. Nothing happens before the first poll.
    ///
    /// By itself it has no limit and stops nobody: [`within_async`](Closing::within_async) gives it
    /// one. Polling it runs no turn and no end: these go
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

impl Closing {
    /// The shutdown with a limit, as [`System::shutdown`] has it: when the time is over, all actors
    /// that have not ended are stopped, and the future is ready with the report. The time counts
    /// from this call on, by the system's clock; the task is woken by [that clock's
    /// timers](crate::time::Timers::of).
    ///
    /// Polling it runs no turn and no end. So an actor that is stopped by it ends in its executor,
    /// or in the fallback, and may be reported as running.
    ///
    /// # Panics
    /// If the system's clock does.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, System};
    ///
    /// let queue = DrainQueue::new();
    /// let system = System::new();
    /// let n = system.spawn(Actor::builder(0).name("n").executor(queue.handle()))?;
    /// n.send(|n| *n += 1)?; // nobody runs this in time
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let report =
    ///     runtime.block_on(system.shutdown_async().within_async(Duration::from_millis(5)));
    /// assert_eq!(report.running, ["n"]);
    /// queue.run_until_idle(); // gives the message back, and ends the actor
    /// assert!(system.shutdown(Duration::ZERO).is_complete());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn within_async(self, limit: impl Into<Limit>) -> Within<Self> {
        let shared = self.system.shared();
        let at = Cutoff::new(shared.clock(), limit.into()).moment();
        let over = Over::at(at, || match shared.own_clock() {
            Some(clock) => Timers::of(clock),
            None => Timers::global().clone(),
        });
        Within::new(over, self)
    }

    /// The time is over: stops what is left.
    pub(super) fn expire(&mut self) -> ShutdownReport {
        self.progress.stop(self.system.shared())
    }
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
