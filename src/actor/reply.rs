//! The answer to come.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::drain::handle::{Asked, Storage};
use crate::error::AskError;
use crate::reply::Asker;
use crate::wait::{Deadline, Waiter};

/// The answer to a question: a `Future` on any runtime, or something to wait for.
///
/// Every reply comes to an end: with the result, or with the reason why there is none. Dropping it leaves the question in the mailbox.
#[must_use = "an answer that nobody looks at was not worth a question: use `send`"]
pub struct Reply<R> {
    inner: Inner<R>,
}

enum Inner<R> {
    Ready(Result<R, AskError>),
    Pending(Asker<R>, Storage),
    Taken,
}

/// Why a limited wait has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum WaitError<R> {
    /// There will be none.
    Ask(AskError),
    /// The time is over; the question is still waiting or running, and here is its reply.
    TimedOut(Reply<R>),
}

impl<R> Reply<R> {
    #[inline]
    pub(crate) fn new(asked: Asked<R>) -> Self {
        let inner = match asked {
            Asked::Ready(answer) => Inner::Ready(answer),
            Asked::Pending(asker, storage) => Inner::Pending(asker, storage),
        };
        Reply { inner }
    }

    pub(crate) fn failed(error: AskError) -> Self {
        Reply { inner: Inner::Ready(Err(error)) }
    }

    /// Is the answer there? Wait-free.
    pub fn is_ready(&self) -> bool {
        match &self.inner {
            Inner::Ready(_) => true,
            Inner::Pending(asker, _) => asker.is_done(),
            Inner::Taken => false,
        }
    }

    /// Waits for the answer. May block. Inside a turn, what that turn has sent is run first.
    ///
    /// # Errors
    /// [`AskError::Deadlock`] at once inside a turn of the actor that was asked: the question stays in its mailbox. Else the reason why
    /// there is no answer.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(20);
    /// assert_eq!(n.ask(|n| *n + 1).wait()?, 21);
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    #[inline]
    pub fn wait(mut self) -> Result<R, AskError> {
        match std::mem::replace(&mut self.inner, Inner::Taken) {
            Inner::Ready(answer) => answer,
            Inner::Pending(mut asker, storage) => {
                storage.wait_for(&mut asker, Deadline::NEVER).expect("a wait without a limit ends with an answer")
            }
            Inner::Taken => panic!("the reply was taken by a poll before"),
        }
    }

    /// Waits for the answer, for `limit` at most; zero is one look. May block.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] gives the reply back: the question may still run. Else as [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, WaitError};
    ///
    /// let n = Actor::new(1);
    /// n.enqueue(|n| *n += 1)?;
    /// let answer = n.ask(|n| *n).wait_timeout(Duration::from_millis(10));
    /// assert!(matches!(answer, Ok(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_timeout(mut self, limit: Duration) -> Result<R, WaitError<R>> {
        match std::mem::replace(&mut self.inner, Inner::Taken) {
            Inner::Ready(answer) => answer.map_err(WaitError::Ask),
            Inner::Pending(mut asker, storage) => match storage.wait_for(&mut asker, Deadline::after(limit)) {
                Some(answer) => answer.map_err(WaitError::Ask),
                None => Err(WaitError::TimedOut(Reply { inner: Inner::Pending(asker, storage) })),
            },
            Inner::Taken => panic!("the reply was taken by a poll before"),
        }
    }

    /// Cancels the question, if it has not started: then it certainly never runs, and is dropped here. Lock-free.
    ///
    /// # Errors
    /// The reply comes back if the question is running or done.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// let done = n.ask(|n| *n += 1);
    /// let reply = done.cancel().unwrap_err(); // it was run at once
    /// reply.wait()?;
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    pub fn cancel(mut self) -> Result<(), Self> {
        let cancelled = match &mut self.inner {
            Inner::Pending(asker, _) => asker.cancel(),
            _ => false,
        };
        if cancelled { Ok(()) } else { Err(self) }
    }
}

impl<R> Future for Reply<R> {
    type Output = Result<R, AskError>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Inner::Pending(asker, storage) = &mut this.inner {
            let answer = asker.take().or_else(|| {
                if storage.is_running_here() {
                    return Some(Err(AskError::Deadlock));
                }
                storage.come_by();
                if asker.watch(Waiter::Task(cx.waker().clone())) { None } else { asker.take() }
            });
            let Some(answer) = answer else { return Poll::Pending };
            this.inner = Inner::Taken;
            return Poll::Ready(answer);
        }
        match std::mem::replace(&mut this.inner, Inner::Taken) {
            Inner::Ready(answer) => Poll::Ready(answer),
            _ => panic!("the reply was taken by a poll before"),
        }
    }
}

// The answer is not pinned: it is handed out by value.
impl<R> Unpin for Reply<R> {}

impl<R> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl<R> fmt::Display for WaitError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Ask(error) => error.fmt(f),
            WaitError::TimedOut(_) => f.write_str("no answer in time; the question is still waiting or running"),
        }
    }
}

impl<R: fmt::Debug> std::error::Error for WaitError<R> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WaitError::Ask(error) => Some(error),
            WaitError::TimedOut(_) => None,
        }
    }
}
