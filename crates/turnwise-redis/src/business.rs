//! What a client has yet to tell its store, and who waits for that.
//!
//! - B1: a task that tells the store of an end is counted from before it is spawned until it is
//!   over.
//! - B2: the last handle of a client that a program drops waits until nothing is counted, for
//!   [`AT_THE_END`] at most. So what is given back as `main` ends reaches the store.
//! - B3: tasks of the client's thread have no handle: what they make gets one as it is handed out.
//! - B4: a task that borrows what a program has is counted meanwhile: it may become the last one
//!   that has it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// How long the last handle waits at most.
pub(crate) const AT_THE_END: Duration = Duration::from_millis(200);

/// The tasks of a client's thread that have to end before the program does.
#[derive(Default)]
pub(crate) struct Business {
    under_way: Mutex<usize>,
    none: Condvar,
    /// The client's own thread, which must not wait for itself.
    thread: Mutex<Option<ThreadId>>,
}

impl Business {
    fn count(&self) -> MutexGuard<'_, usize> {
        // Nothing that can panic is done under it.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is the client's thread.
    pub(crate) fn runs_here(&self) {
        let here = Some(thread::current().id());
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = here;
    }

    /// Something is under way as long as what is returned lives.
    pub(crate) fn under_way(self: &Arc<Self>) -> UnderWay {
        *self.count() += 1;
        UnderWay(self.clone())
    }

    /// Spawns a task that is counted.
    pub(crate) fn spawn<F>(self: &Arc<Self>, io: &Handle, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        // In this order they are dropped, whenever that is.
        let all = (task, self.under_way());
        io.spawn(async move {
            let (task, _under_way) = all;
            task.await
        })
    }

    /// Waits until nothing is under way, for so long at most. False: something is.
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

/// Something is under way as long as this lives.
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

/// A program's handle of a client: all that it has of one share it. Dropping the last one waits.
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
