//! A limit for what a task waits for.
//!
//! The limit is measured on the clock of the actor that is waited for, and its timers wake the
//! task: no runtime's timers are needed, and a virtual clock moves it. When the time is over, what
//! is waited for is given up by the same steps as in the blocking form, so it has the same
//! outcomes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::time::{Sleep, Timers};

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

/// Resolves at the end of the time.
pub(super) struct Over(When);

enum When {
    Never,
    Now,
    Then(Sleep),
}

impl Over {
    pub(super) const NEVER: Self = Over(When::Never);

    /// At this moment of the clock of a service; zero is in the past.
    pub(super) fn at(at: Option<Duration>, service: impl FnOnce() -> Timers) -> Self {
        Over(match at {
            None => When::Never,
            Some(Duration::ZERO) => When::Now,
            Some(at) => When::Then(service().sleep_until(at)),
        })
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            When::Never => Poll::Pending,
            When::Now => Poll::Ready(()),
            When::Then(sleep) => Pin::new(sleep).poll(cx),
        }
    }
}

impl<T> Within<T> {
    pub(super) fn new(over: Over, inner: T) -> Self {
        Within { inner: Some(inner), over }
    }

    /// It is ready: nothing wakes the task for it any more.
    pub(super) fn take(&mut self) -> Option<T> {
        self.over = Over::NEVER;
        self.inner.take()
    }
}

/// Polls a question; what comes of one that is given up is said by its blocking form.
macro_rules! question {
    ($question:ident) => {
        impl<R, M> Future for Within<$question<R, M>> {
            type Output = Result<R, WaitError<R, M>>;

            fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                let this = &mut *self;
                let Some(inner) = &mut this.inner else {
                    return Poll::Ready(Err(WaitError::Ask(AskError::Taken)));
                };
                if let Poll::Ready(answer) = Pin::new(inner).poll(cx) {
                    this.take();
                    return Poll::Ready(answer.map_err(WaitError::Ask));
                }
                std::task::ready!(this.over.poll(cx));
                let taken = Err(WaitError::Ask(AskError::Taken));
                let until = |inner: $question<R, M>| inner.until(Some(Duration::ZERO));
                let expire = |inner| $crate::turn::blocking::in_poll(|| until(inner));
                Poll::Ready(this.take().map_or(taken, expire))
            }
        }
    };
}

pub(super) use question;

impl<T: fmt::Debug> fmt::Debug for Within<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limited = !matches!(self.over.0, When::Never);
        f.debug_struct("Within").field("of", &self.inner).field("limited", &limited).finish()
    }
}
