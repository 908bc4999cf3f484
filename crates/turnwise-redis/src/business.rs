//! Reports that a client owes its store, and the wait for them at the end of a program.
//!
//! - BUSINESS-1: a task that reports an end to the store is counted from before it is spawned until
//!   it completes.
//! - BUSINESS-2: dropping a program's last handle of a client waits until nothing is counted, for
//!   [`AT_THE_END`] at most. So what is released as `main` ends reaches the store.
//! - BUSINESS-3: tasks of the client's thread have no handle. What they create gets one when it is
//!   handed out.
//! - BUSINESS-4: a task that borrows what a program owns is counted meanwhile, because it may
//!   become the last owner.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::io::Io;

/// The maximum time that dropping the last handle waits.
pub(crate) const AT_THE_END: Duration = Duration::from_millis(200);

/// Tasks of a client's thread that have to complete before the program ends.
#[derive(Default)]
pub(crate) struct Business {
    under_way: Mutex<usize>,
    none: Condvar,
    /// The client's own thread, which must not wait for itself.
    thread: Mutex<Option<ThreadId>>,
}

impl Business {
    fn count(&self) -> MutexGuard<'_, usize> {
        // No code that can panic runs under this lock.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the current thread as the client's.
    pub(crate) fn runs_here(&self) {
        let here = Some(thread::current().id());
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = here;
    }

    /// Counts a task until the returned guard is dropped.
    pub(crate) fn under_way(self: &Arc<Self>) -> UnderWay {
        *self.count() += 1;
        UnderWay(self.clone())
    }

    /// Spawns a task that is counted.
    pub(crate) fn spawn<F>(self: &Arc<Self>, io: &Io, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        // Dropped in this order, also if the runtime drops the task.
        let all = (task, self.under_way());
        io.spawn(async move {
            let (task, _under_way) = all;
            task.await
        })
    }

    /// Waits until nothing is counted, or until the limit. Returns false in the latter case.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let thread = *self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread == Some(thread::current().id()) {
            return *self.count() == 0;
        }
        let (began, mut count) = (Instant::now(), self.count());
        while *count > 0 {
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return false;
            }
            let waited = self.none.wait_timeout(count, left);
            count = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Counts a task while it lives.
pub(crate) struct UnderWay(Arc<Business>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut count = self.0.count();
        *count -= 1;
        if *count == 0 {
            self.0.none.notify_all();
        }
    }
}

/// A program's handle of a client, shared by all its objects. Dropping the last one waits.
#[derive(Clone)]
pub(crate) struct Handles {
    _shared: Arc<Last>,
}

struct Last(Arc<Business>);

impl Handles {
    pub(crate) fn new(business: &Arc<Business>) -> Self {
        Handles { _shared: Arc::new(Last(business.clone())) }
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        self.0.wait(AT_THE_END);
    }
}
