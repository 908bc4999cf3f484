//! Time, as a step of a thread.

use std::time::Duration;

use super::super::time::Clock;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::thread::{Thread, current, park};

/// A clock that stands still until a thread of the model moves it past everything.
#[derive(Debug, Default)]
pub(super) struct Steps {
    over: AtomicU32,
    sleepers: Mutex<Vec<Thread>>,
}

/// A limit that is over when the clock was moved.
pub(super) const LIMIT: Duration = Duration::from_secs(1);

impl Steps {
    /// Ends all limits that have begun.
    pub(super) fn tick(&self) {
        let mut sleepers = self.sleepers.lock();
        self.over.fetch_add(1, Relaxed);
        sleepers.drain(..).for_each(|thread| thread.unpark());
    }
}

// SAFETY: loom's threads are coroutines of one thread, and what is shared is checked by it.
unsafe impl Sync for Steps {}
// SAFETY: as above.
unsafe impl Send for Steps {}

impl Clock for Steps {
    fn now(&self) -> Duration {
        100 * LIMIT * self.over.load(Relaxed)
    }

    fn park_until(&self, at: Duration) {
        {
            let mut sleepers = self.sleepers.lock();
            if self.now() >= at {
                return;
            }
            sleepers.push(current());
        }
        park();
        // Entries that are left in the list of a clock are no error.
        self.sleepers.lock().clear();
    }
}
