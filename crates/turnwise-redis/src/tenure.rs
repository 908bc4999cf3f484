//! The validity of a hold, as this machine knows it.

use std::fmt;
use std::future::{Future, pending};
use std::panic::RefUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;

use crate::time::Moment;

/// State of a hold, shared by its guards and the client's thread. It does not keep the hold.
pub(crate) struct Tenure {
    /// The end of the lease by this machine's clock, counted from before its request was sent.
    until: watch::Sender<Moment>,
    lost: AtomicBool,
    /// The number of guards that want the hold renewed. It is renewed while there is one.
    renewers: AtomicUsize,
}

// Each field is one value. The channel says so of itself only without a feature of tokio.
impl RefUnwindSafe for Tenure {}

impl Tenure {
    pub(crate) fn new(until: Moment, renewed: bool) -> Arc<Tenure> {
        Arc::new(Tenure {
            until: watch::Sender::new(until),
            lost: AtomicBool::new(false),
            renewers: AtomicUsize::new(usize::from(renewed)),
        })
    }

    /// Counts another guard that wants the hold renewed.
    pub(crate) fn renews_for_another(&self) {
        self.renewers.fetch_add(1, Relaxed);
    }

    /// Stops counting a guard that wanted the hold renewed.
    pub(crate) fn renews_no_more(&self, renews: &AtomicBool) {
        if renews.swap(false, Relaxed) {
            self.renewers.fetch_sub(1, Relaxed);
        }
    }

    pub(crate) fn is_renewed(&self) -> bool {
        self.renewers.load(Relaxed) > 0
    }

    /// Extends the hold to this moment, unless it is lost.
    pub(crate) fn lasts(&self, until: Moment) {
        if !self.lost.load(Relaxed) {
            self.until.send_modify(|lasts| *lasts = (*lasts).max(until));
        }
    }

    pub(crate) fn until(&self) -> Moment {
        *self.until.borrow()
    }

    /// Returns a receiver that is notified when the end moves.
    pub(crate) fn changes(&self) -> watch::Receiver<Moment> {
        self.until.subscribe()
    }

    /// True if the hold was lost, whatever the time is.
    pub(crate) fn was_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.was_lost() || Moment::now() >= self.until()
    }

    pub(crate) fn lose(&self) {
        self.lost.store(true, Relaxed);
        // Wakes those that wait for the end.
        self.until.send_modify(|until| *until = (*until).min(Moment::now()));
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self.is_lost() {
            true => Duration::ZERO,
            false => self.until().remaining(),
        }
    }

    /// Returns a future that completes when the hold is lost.
    pub(crate) fn lost(self: &Arc<Self>) -> Lost {
        let (tenure, mut until) = (Arc::downgrade(self), self.until.subscribe());
        let is_lost = move || tenure.upgrade().map(|tenure: Arc<Tenure>| tenure.is_lost());
        Lost {
            inner: Box::pin(async move {
                while let Some(false) = is_lost() {
                    // The guards are gone, so it cannot be lost any more.
                    if until.changed().await.is_err() {
                        pending().await
                    }
                }
            }),
        }
    }
}

/// A future that completes when a lock is lost: see [`Guard::lost`](crate::Guard::lost). It does
/// not keep the lock.
#[must_use = "a future does nothing unless polled"]
pub struct Lost {
    inner: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Future for Lost {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.as_mut().poll(cx)
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::PRETENDED;

    #[test]
    fn tenures_are_over_when_the_machine_has_been_suspended() {
        let hour = Duration::from_secs(3600);
        PRETENDED.set(Some(Duration::ZERO));
        let tenure = Tenure::new(Moment::now().and(hour), true);
        assert!(!tenure.is_lost());
        PRETENDED.set(Some(hour * 2));
        assert!(tenure.is_lost() && tenure.remaining().is_zero());
        // The store still has it.
        tenure.lasts(Moment::now().and(hour));
        assert!(!tenure.is_lost());
    }
}
