//! A limit for what a task waits for.
//!
//! The limit is measured on the clock of the actor that is waited for, and its timers wake the
//! task: no runtime's timers are needed, and a virtual clock moves it. When the time is over, what
//! is waited for is given up by the same steps as in the blocking form, so it has the same
//! outcomes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::cell::header::Header;
use crate::time::{Cutoff, Limit, Sleep, Timers};
use crate::turn::blocking::in_poll;

/// A future with a limit: what `within_async` makes of a [`Reply`](crate::Reply), a
/// [`Sending`](crate::wait::Sending), an [`Asking`](crate::wait::Asking), an
/// [`Ending`](crate::wait::Ending) or a [`Closing`](crate::wait::Closing).
///
/// | of | ready with | when the time is over |
/// |---|---|---|
/// | [`Reply`](crate::Reply), [`Asking`](crate::wait::Asking) | the answer | [`WaitError::Cancelled`](crate::WaitError::Cancelled) with the message, which certainly never runs; or [`WaitError::TimedOut`](crate::WaitError::TimedOut) with the reply: it is running |
/// | [`Sending`](crate::wait::Sending) | `Ok` | the message, with [`Reason::Full`](crate::Reason::Full): it was certainly not sent |
/// | [`Ending`](crate::wait::Ending) | `Ok(true)` | `Ok(false)` |
/// | [`Closing`](crate::wait::Closing) | the report | the report: what had not ended was stopped |
///
/// What is ready when it is polled is not late, however long the future was not polled. A limit of
/// zero is one look, by the first poll; a limit too large for the clock is none.
///
/// Polling it runs no turn. It may be polled by `&mut` in a `select!` loop: a branch that was not
/// taken loses nothing, and the time goes on. Dropping it is dropping what it was made of: a
/// question that has room keeps its place, one that waits for room is withdrawn. Polled again after
/// it was ready, it is ready with [`AskError::Taken`](crate::AskError::Taken); that of a `Sending`
/// with `Ok`, that of a `Closing` with its report once more. That of an `Ending` looks again.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, promise};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let (promise, reply) = promise();
/// std::thread::spawn(move || promise.keep(7));
/// assert_eq!(runtime.block_on(reply.within_async(Duration::from_secs(60))).unwrap(), 7);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the limit does nothing unless it is awaited"]
pub struct Within<T> {
    /// Before its limit: a task that is woken by what it waits for is not woken by the limit later.
    pub(super) inner: Option<T>,
    pub(super) over: Over,
}

/// The end of the time.
pub(super) enum Over {
    Never,
    Now,
    Then(Sleep),
}

impl Over {
    /// Of a limit that begins now, by this actor's clock.
    pub(super) fn of(limit: Limit, header: &Header) -> Self {
        Over::at(Cutoff::new(header.clock(), limit).moment(), || header.config().service())
    }

    /// At this moment of the clock of a service; zero is in the past.
    pub(super) fn at(at: Option<Duration>, service: impl FnOnce() -> Timers) -> Self {
        match at {
            None => Over::Never,
            Some(Duration::ZERO) => Over::Now,
            Some(at) => Over::Then(service().sleep_until(at)),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Over::Never => Poll::Pending,
            Over::Now => Poll::Ready(()),
            Over::Then(sleep) => Pin::new(sleep).poll(cx),
        }
    }
}

impl<T> Within<T> {
    pub(super) fn new(over: Over, inner: T) -> Self {
        Within { inner: Some(inner), over }
    }
}

impl<T: Future + Unpin> Within<T> {
    /// Polls what has one outcome: `done` of what it is ready with, or, when the time is over,
    /// `late` of itself. `None` if it was ready before.
    pub(super) fn poll_once<R>(
        &mut self,
        cx: &mut Context<'_>,
        done: impl FnOnce(T::Output) -> R,
        late: impl FnOnce(T) -> R,
    ) -> Poll<Option<R>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let ready = match Pin::new(inner).poll(cx) {
            Poll::Ready(ready) => Some(ready),
            Poll::Pending => {
                ready!(self.over.poll(cx));
                None
            }
        };
        // Nothing wakes the task for it any more.
        self.over = Over::Never;
        let inner = self.inner.take();
        Poll::Ready(match ready {
            Some(ready) => Some(done(ready)),
            None => inner.map(|inner| in_poll(|| late(inner))),
        })
    }
}

impl<T: fmt::Debug> fmt::Debug for Within<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limited = !matches!(self.over, Over::Never);
        f.debug_struct("Within").field("of", &self.inner).field("limited", &limited).finish()
    }
}
