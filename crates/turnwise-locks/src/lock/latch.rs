//! Waiting until something has happened a number of times.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use turnwise::time::Timers;
use turnwise::{Clock, Limit, Promise, Reply, WaitError, promise_on};

use super::error::{Closed, LockError};
use crate::sync::Mutex;

/// A count that goes down: all who wait go on when it is zero.
///
/// Once it is zero, it can be [set again](Self::reset). Clones are the same latch.
///
/// # Examples
/// ```
/// use std::thread;
/// use turnwise_locks::Latch;
///
/// let done = Latch::new(3);
/// for _ in 0..3 {
///     let done = done.clone();
///     thread::spawn(move || done.count_down());
/// }
/// done.opened().wait()?;
/// assert_eq!(done.count(), 0);
/// # Ok::<(), turnwise_locks::LockError>(())
/// ```
#[derive(Clone)]
pub struct Latch {
    shared: Arc<Shared>,
}

// A lock, and no mailbox: a count has an answer wherever it is asked for, inside a waker of the
// latch and on a worker that must not wait, too. Nothing of the user's runs under it.
struct Shared {
    count: Mutex<Count>,
    clock: Arc<dyn Clock>,
}

struct Count {
    left: u64,
    waiting: Vec<Promise<()>>,
    /// At this number, those that have gone are swept out.
    sweep_at: usize,
}

impl Latch {
    /// A latch that opens after this number of counts. One of zero is open.
    pub fn new(count: u64) -> Self {
        Self::with(count, Timers::global().clock().clone())
    }

    /// With the clock that limits of waits are measured on.
    pub fn with_clock(count: u64, clock: impl Clock + 'static) -> Self {
        Self::with(count, Arc::new(clock))
    }

    fn with(count: u64, clock: Arc<dyn Clock>) -> Self {
        let count = Count { left: count, waiting: Vec::new(), sweep_at: 16 };
        Latch { shared: Arc::new(Shared { count: Mutex::new(count), clock }) }
    }

    /// Counts down by one; at zero, nothing changes. Never waits for those that wait. May block,
    /// for some ten instructions of another thread.
    pub fn count_down(&self) {
        let _ = self.count_down_by(1);
    }

    /// Counts down by this number, and returns how many are left. `None`: there were fewer, and
    /// nothing has changed. May block, as [`count_down`](Self::count_down).
    ///
    /// # Examples
    /// ```
    /// let latch = turnwise_locks::Latch::new(3);
    /// assert_eq!(latch.count_down_by(4), None);
    /// assert_eq!(latch.count_down_by(2), Some(1));
    /// ```
    #[must_use = "a latch with fewer is not counted down"]
    pub fn count_down_by(&self, by: u64) -> Option<u64> {
        let (left, open) = {
            let mut count = self.shared.count.lock();
            count.left = count.left.checked_sub(by)?;
            (count.left, if count.left == 0 { count.open() } else { Vec::new() })
        };
        open.into_iter().for_each(|promise| promise.keep(()));
        Some(left)
    }

    /// The count that is left. Stale on return. May block, as [`count_down`](Self::count_down).
    pub fn count(&self) -> u64 {
        self.shared.count.lock().left
    }

    /// Sets it again. False: it is not zero, and nothing has changed. May block, as
    /// [`count_down`](Self::count_down).
    #[must_use = "a latch that is not zero is not set"]
    pub fn reset(&self, to: u64) -> bool {
        let mut count = self.shared.count.lock();
        let is_open = count.left == 0;
        if is_open {
            count.left = to;
        }
        is_open
    }

    /// A promise that is kept when the count is zero: a `Future` on any runtime, or something to
    /// [wait](Opening::wait) for. One that was made before the count is zero is ready then, also if
    /// the latch is set again at once.
    pub fn opened(&self) -> Opening {
        let (promise, reply) = promise_on(self.shared.clock.clone());
        let (open, gone) = {
            let mut count = self.shared.count.lock();
            match count.left {
                0 => (Some(promise), Vec::new()),
                _ => (None, count.enter(promise)),
            }
        };
        // What has gone has a waker of the user's.
        drop(gone);
        open.into_iter().for_each(|promise| promise.keep(()));
        Opening { reply: Some(reply) }
    }
}

impl Count {
    fn open(&mut self) -> Vec<Promise<()>> {
        self.sweep_at = 16;
        std::mem::take(&mut self.waiting)
    }

    /// One more waits. Those that have gone come back.
    fn enter(&mut self, promise: Promise<()>) -> Vec<Promise<()>> {
        let mut gone = Vec::new();
        if self.waiting.len() >= self.sweep_at {
            let all = std::mem::take(&mut self.waiting);
            (gone, self.waiting) = all.into_iter().partition(Promise::is_cancelled);
            self.sweep_at = self.waiting.len() * 2 + 16;
        }
        self.waiting.push(promise);
        gone
    }
}

/// A latch that is waited for: [`Latch::opened`].
///
/// Awaited, it fails if every latch is gone, as none can count down then; and it panics if it is
/// polled after completion.
#[must_use = "a latch that is not waited for was not worth the call"]
pub struct Opening {
    reply: Option<Reply<()>>,
}

impl Opening {
    /// Waits until the count is zero. May block.
    ///
    /// # Errors
    /// [`LockError::WouldBlock`] on a worker that must not wait; [`LockError::Closed`] if every
    /// latch is gone: then none can count down.
    pub fn wait(mut self) -> Result<(), LockError> {
        self.wait_timeout(Limit::Unlimited).unwrap_or(Err(LockError::Taken))
    }

    /// Waits until the count is zero, for so long at most. None: it is not yet. May block.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, limit: impl Into<Limit>) -> Option<Result<(), LockError>> {
        let Some(reply) = self.reply.take() else { return Some(Err(LockError::Taken)) };
        match reply.wait_timeout(limit) {
            Ok(()) => Some(Ok(())),
            Err(WaitError::TimedOut(reply)) => {
                self.reply = Some(reply);
                None
            }
            Err(WaitError::Ask(error)) => Some(Err(error.into())),
            Err(_) => unreachable!("a wait that is kept is not taken back"),
        }
    }
}

impl Future for Opening {
    type Output = Result<(), Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(reply) = &mut self.reply else { panic!("`Opening` polled after completion") };
        let polled = Pin::new(reply).poll(cx);
        if polled.is_ready() {
            self.reply = None;
        }
        // A promise is refused to no task: it is kept, or gone.
        polled.map_err(|_| Closed)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        // The latch sweeps out what was cancelled.
        if let Some(reply) = self.reply.take() {
            drop(reply.cancel());
        }
    }
}

// No panic leaves it half changed.
impl UnwindSafe for Latch {}
impl RefUnwindSafe for Latch {}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").finish_non_exhaustive()
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.reply.as_ref().is_none_or(Reply::is_ready);
        f.debug_struct("Opening").field("open", &open).finish()
    }
}
