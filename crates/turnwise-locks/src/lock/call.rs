//! Calls that are over when they come back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use turnwise::Limit;

use super::error::LockError;

/// The outcome of a call of a lock, or of a hold: a `Future` on any runtime, or something to
/// [wait](Self::wait) for.
///
/// The call was made before this comes back, and its outcome is there: neither waits, and dropping
/// this takes nothing back. Over a store the calls of these names are answered by the store; a
/// program that awaits them is one text for both.
///
/// # Examples
/// ```
/// let locks = turnwise_locks::Locks::new();
/// let guard = locks.lock("a").wait()?;
/// assert_eq!(locks.info("a").wait()?.unwrap().fence, Some(guard.fence()));
/// guard.release().wait()?; // or `.await`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it says what came of the call"]
pub struct Call<T, E = LockError> {
    /// Until it is taken.
    outcome: Option<Result<T, E>>,
}

impl<T, E> Call<T, E> {
    pub(crate) fn over(outcome: Result<T, E>) -> Self {
        Call { outcome: Some(outcome) }
    }

    /// Returns the outcome. Wait-free.
    ///
    /// # Errors
    /// As the call says.
    ///
    /// # Panics
    /// If the outcome was taken before.
    pub fn wait(mut self) -> Result<T, E> {
        self.take()
    }

    /// Returns the outcome, and never `None`: no limit passes before it. Wait-free.
    ///
    /// # Errors
    /// As the call says.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, _limit: impl Into<Limit>) -> Option<Result<T, E>> {
        Some(self.take())
    }

    /// True unless the outcome was taken. Wait-free.
    pub fn is_ready(&self) -> bool {
        self.outcome.is_some()
    }

    fn take(&mut self) -> Result<T, E> {
        match self.outcome.take() {
            Some(outcome) => outcome,
            None => panic!("`Call` polled after completion"),
        }
    }
}

impl<T, E> Future for Call<T, E> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.get_mut().take())
    }
}

// The outcome is not pinned: it is handed out by value.
impl<T, E> Unpin for Call<T, E> {}

impl<T, E> fmt::Debug for Call<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
