//! Sleeping without a thread.

#![forbid(unsafe_code)]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::timers::{Fired, Moment, TimerEntry, TimerJob, Timers};
use crate::panic;
use crate::sync::Mutex;

/// A future that is ready when its time has come: see [`Timers::sleep`].
///
/// It keeps its service going. Polled again after it was ready, it is ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Sleep {
    timers: Timers,
    due: Moment,
    /// Armed by the first poll that finds it too early.
    entry: Option<Arc<TimerEntry<Wake>>>,
}

/// Wakes a task.
struct Wake(Mutex<SleepState>);

#[derive(Default)]
struct SleepState {
    fired: bool,
    waker: Option<Waker>,
}

impl TimerJob for Wake {
    fn fire(&self, _: Duration, _: Duration) -> Fired {
        let waker = {
            let mut woken = self.0.lock();
            woken.fired = true;
            woken.waker.take()
        };
        panic::ignore(|| waker.into_iter().for_each(Waker::wake));
        Fired { lost: false, next: None }
    }

    fn discard(&self) {
        let waker = self.0.lock().waker.take();
        drop(waker);
    }
}

impl Sleep {
    pub(super) fn new(timers: Timers, due: Moment) -> Self {
        Sleep { timers, due, entry: None }
    }

    fn is_over(&self) -> bool {
        matches!(self.due, Moment::At(due) if self.timers.now() >= due)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.is_over() {
            return Poll::Ready(());
        }
        // The waker's clone and drop are user code: not under the lock.
        let waker = cx.waker().clone();
        let Some(entry) = &this.entry else {
            let woken = SleepState { fired: false, waker: Some(waker) };
            let entry = TimerEntry::new(Wake(Mutex::new(woken)));
            this.timers.arm(this.due, entry.clone());
            this.entry = Some(entry);
            return Poll::Pending;
        };
        let (fired, before) = {
            let mut woken = entry.job.0.lock();
            (woken.fired, woken.waker.replace(waker))
        };
        panic::ignore(|| drop(before));
        if fired { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            let entry: Arc<TimerEntry<dyn TimerJob>> = entry;
            self.timers.disarm(&entry);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("due", &self.due).finish_non_exhaustive()
    }
}
