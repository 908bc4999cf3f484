//! News for tasks that wait.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tokio::sync::Notify;

/// Counts news. Waiters are woken in the order in which they wait, so that tests make the same
/// steps each time; those of a `watch` channel are woken in any order.
#[derive(Debug, Default)]
pub(crate) struct News {
    count: AtomicU64,
    told: Notify,
}

impl News {
    pub(crate) fn tell(&self) {
        self.count.fetch_add(1, SeqCst);
        self.told.notify_waiters();
    }

    /// The news so far.
    pub(crate) fn seen(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// Waits for news since these.
    pub(crate) async fn since(&self, seen: u64) {
        // Woken also by news between the two lines.
        let told = self.told.notified();
        if self.seen() == seen {
            told.await;
        }
    }
}
