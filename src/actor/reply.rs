//! The answer to come.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::drain::handle::Answer;
use crate::drain::storage::{Storage, before_pending, wait_for_promise};
use crate::error::AskError;
use crate::reply::{Answerer, Asker, Promised, cell};
use crate::wait::{Deadline, Limit, MonotonicClock, Waiter};

/// The answer to a question: a `Future` on any runtime, or something to wait for.
///
/// Every reply comes to an end: with the result, or with the reason why there is none. Dropping it leaves the question in the mailbox.
/// `M` is what [`cancel`](Self::cancel) gives back: the message of a [`call`](crate::Actor::call), nothing for a closure.
#[must_use = "an answer that nobody looks at was not worth a question: use `send`"]
pub struct Reply<R, M = ()> {
    inner: Inner<R, M>,
}

enum Inner<R, M> {
    Ready(Result<R, AskError>),
    Pending(Asker<R, M>, From),
    Taken,
}

/// Who is going to answer.
enum From {
    Actor(Storage),
    Promise,
}

impl From {
    fn wait_for<R, M>(&self, asker: &mut Asker<R, M>, limit: Limit) -> Option<Result<R, AskError>> {
        match self {
            From::Actor(storage) => storage.wait_for(asker, storage.deadline(limit)),
            From::Promise => wait_for_promise(asker, Deadline::new(&MonotonicClock, limit)),
        }
    }

    fn is_running_here(&self) -> bool {
        matches!(self, From::Actor(storage) if storage.is_running_here())
    }

    fn come_by(&self) {
        if let From::Actor(storage) = self {
            storage.come_by();
        }
        before_pending();
    }
}

/// Why a limited wait has no result.
#[non_exhaustive]
pub enum WaitError<R, M = ()> {
    /// There will be none.
    Ask(AskError),
    /// The time is over; the question is still waiting or running, and here is its reply.
    TimedOut(Reply<R, M>),
}

/// Why a limited question has no answer. `Cancelled` and having run exclude each other.
#[non_exhaustive]
pub enum Unanswered<R, M = ()> {
    /// There will be none.
    Ask(AskError),
    /// The time was over before its turn: it certainly never runs. Here is the message.
    Cancelled(M),
    /// The time was over during its turn: it is running, and here is its reply.
    Running(Reply<R, M>),
}

impl<R, M> Reply<R, M> {
    #[inline]
    pub(crate) fn new(answer: Answer<R, M>) -> Self {
        let inner = match answer {
            Answer::Ready(answer) => Inner::Ready(answer),
            Answer::Pending(asker, storage) => Inner::Pending(asker, From::Actor(storage)),
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

    /// Waits for the answer. May block. Inside a turn that has sent to others, another thread runs them while this one sleeps.
    ///
    /// # Errors
    /// [`AskError::Deadlock`] at once inside a turn of the actor that was asked, [`AskError::WouldBlock`] on a worker that must not wait: the
    /// question stays in its mailbox. Else the reason why there is no answer.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(20);
    /// assert_eq!(n.ask(|n| *n + 1).wait()?, 21);
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    #[inline]
    pub fn wait(self) -> Result<R, AskError> {
        match self.inner {
            Inner::Ready(answer) => answer,
            Inner::Pending(asker, from) => wait_slow(asker, &from),
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
    pub fn wait_timeout(mut self, limit: impl Into<Limit>) -> Result<R, WaitError<R, M>> {
        match std::mem::replace(&mut self.inner, Inner::Taken) {
            Inner::Ready(answer) => answer.map_err(WaitError::Ask),
            Inner::Pending(mut asker, from) => match from.wait_for(&mut asker, limit.into()) {
                Some(answer) => answer.map_err(WaitError::Ask),
                None => Err(WaitError::TimedOut(Reply { inner: Inner::Pending(asker, from) })),
            },
            Inner::Taken => panic!("the reply was taken by a poll before"),
        }
    }

    /// Waits for the answer, for `limit` at most, and then cancels the question if it has not started. May block.
    ///
    /// # Errors
    /// [`Unanswered::Cancelled`] gives the message back: it certainly never runs. [`Unanswered::Running`] gives the reply back: it is running.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, Drain, Unanswered};
    ///
    /// let nobody = Actor::builder(0).executor(std::mem::forget::<Drain>).spawn()?;
    /// nobody.with(|_| ())?;
    /// let busy = nobody.ask(|n| *n);
    /// assert!(busy.wait_or_cancel(Duration::from_millis(5)).is_ok(), "a waiting caller comes by himself");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_or_cancel(mut self, limit: impl Into<Limit>) -> Result<R, Unanswered<R, M>> {
        // Inside a turn of this very actor it cannot have started: it is taken back.
        if let Inner::Pending(asker, from) = &mut self.inner {
            if !asker.is_done() && from.is_running_here() && asker.cancel().is_some() {
                return Err(Unanswered::Ask(AskError::Deadlock));
            }
        }
        // A worker that must not wait takes it back too.
        if let Inner::Pending(asker, from) = &mut self.inner {
            match from.wait_for(asker, limit.into()) {
                Some(Err(AskError::WouldBlock)) if asker.cancel().is_some() => return Err(Unanswered::Ask(AskError::WouldBlock)),
                Some(Err(AskError::WouldBlock)) | None => {}
                Some(answer) => return answer.map_err(Unanswered::Ask),
            }
        }
        match self.wait_timeout(Limit::Immediate) {
            Ok(answer) => Ok(answer),
            Err(WaitError::Ask(error)) => Err(Unanswered::Ask(error)),
            Err(WaitError::TimedOut(reply)) => match reply.cancel() {
                Ok(message) => Err(Unanswered::Cancelled(message)),
                // It may have been done since: a last look.
                Err(reply) => match reply.wait_timeout(Limit::Immediate) {
                    Ok(answer) => Ok(answer),
                    Err(WaitError::Ask(error)) => Err(Unanswered::Ask(error)),
                    Err(WaitError::TimedOut(reply)) => Err(Unanswered::Running(reply)),
                },
            },
        }
    }

    /// Cancels the question, if it has not started: then it certainly never runs, and its message comes back. Lock-free.
    ///
    /// The question keeps its place in the mailbox until that is reached.
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
    pub fn cancel(mut self) -> Result<M, Self> {
        let cancelled = match &mut self.inner {
            Inner::Pending(asker, _) => asker.cancel(),
            _ => None,
        };
        cancelled.ok_or(self)
    }
}

#[cold]
#[inline(never)]
fn wait_slow<R, M>(mut asker: Asker<R, M>, from: &From) -> Result<R, AskError> {
    from.wait_for(&mut asker, Limit::Unlimited).expect("a wait without a limit ends with an answer")
}

impl<R, M> Reply<Reply<R>, M> {
    /// The answer that was promised in the answer: of a handler that returns a [`Reply`] and answers later.
    ///
    /// # Errors
    /// The first reason why there is none.
    pub async fn flatten(self) -> Result<R, AskError> {
        self.await?.await
    }

    /// Waits for the answer that was promised in the answer. May block.
    ///
    /// # Errors
    /// As [`wait`](Reply::wait), of either.
    pub fn wait_flat(self) -> Result<R, AskError> {
        self.wait()?.wait()
    }
}

/// A promise of an answer, and the reply that will have it: for a handler that does not know the answer yet.
///
/// The handler returns the reply at once and keeps the promise, in its state, in a message to another actor, or wherever it is kept.
/// One allocation. Lock-free.
///
/// # Examples
/// ```
/// use turnwise::{Actor, Context, Handler, Promise, Reply, promise};
///
/// struct Kitchen(Vec<Promise<&'static str>>);
/// struct Order;
/// struct Ready;
///
/// impl Handler<Order> for Kitchen {
///     type Reply = Reply<&'static str>; // the dish, when it is ready
///     fn handle(&mut self, _: Order, _: &mut Context<'_, Self>) -> Reply<&'static str> {
///         let (promise, reply) = promise();
///         self.0.push(promise);
///         reply
///     }
/// }
/// impl Handler<Ready> for Kitchen {
///     type Reply = ();
///     fn handle(&mut self, _: Ready, _: &mut Context<'_, Self>) {
///         self.0.drain(..).for_each(|order| order.keep("soup"));
///     }
/// }
///
/// let kitchen = Actor::new(Kitchen(Vec::new()));
/// let dish = kitchen.call(Order);
/// kitchen.tell(Ready)?;
/// assert_eq!(dish.wait_flat()?, "soup");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn promise<R: Send + 'static>() -> (Promise<R>, Reply<R>) {
    let (answerer, asker) = cell(Promised);
    let promise = Promise { answerer: Some(answerer) };
    (promise, Reply { inner: Inner::Pending(asker, From::Promise) })
}

/// The duty to answer: see [`promise`]. Dropping it answers with [`AskError::Abandoned`].
#[must_use = "a promise that is dropped is broken"]
pub struct Promise<R> {
    answerer: Option<Answerer<Promised, R>>,
}

impl<R> Promise<R> {
    /// Gives the answer. Lock-free.
    pub fn keep(mut self, answer: R) {
        self.settle(Ok(answer));
    }

    /// Was the reply cancelled? Then nobody looks at the answer. Stale on return. Wait-free.
    pub fn is_cancelled(&self) -> bool {
        self.answerer.as_ref().is_some_and(Answerer::is_cancelled)
    }

    fn settle(&mut self, answer: Result<R, AskError>) {
        if let Some(answerer) = self.answerer.take() {
            match answerer.start() {
                Some(Promised) => answerer.finish(answer),
                None => answerer.leave(),
            }
        }
    }
}

impl<R> Drop for Promise<R> {
    fn drop(&mut self) {
        self.settle(Err(AskError::Abandoned));
    }
}

impl<R> fmt::Debug for Promise<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

impl<R, M> Future for Reply<R, M> {
    type Output = Result<R, AskError>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Inner::Pending(asker, from) = &mut this.inner {
            let answer = asker.take().or_else(|| {
                if from.is_running_here() {
                    return Some(Err(AskError::Deadlock));
                }
                from.come_by();
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
impl<R, M> Unpin for Reply<R, M> {}

impl<R, M> fmt::Debug for Reply<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl<R, M> fmt::Debug for WaitError<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Ask(error) => f.debug_tuple("Ask").field(error).finish(),
            WaitError::TimedOut(reply) => f.debug_tuple("TimedOut").field(reply).finish(),
        }
    }
}

impl<R, M> fmt::Display for WaitError<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Ask(error) => error.fmt(f),
            WaitError::TimedOut(_) => f.write_str("no answer in time; the question is still waiting or running"),
        }
    }
}

impl<R, M> std::error::Error for WaitError<R, M> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WaitError::Ask(error) => Some(error),
            WaitError::TimedOut(_) => None,
        }
    }
}

impl<R, M> fmt::Debug for Unanswered<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Ask(error) => f.debug_tuple("Ask").field(error).finish(),
            Unanswered::Cancelled(_) => f.debug_tuple("Cancelled").finish_non_exhaustive(),
            Unanswered::Running(reply) => f.debug_tuple("Running").field(reply).finish(),
        }
    }
}

impl<R, M> fmt::Display for Unanswered<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Ask(error) => error.fmt(f),
            Unanswered::Cancelled(_) => f.write_str("not started in time: the message was cancelled and never runs"),
            Unanswered::Running(_) => f.write_str("not done in time: the message is running"),
        }
    }
}

impl<R, M> std::error::Error for Unanswered<R, M> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Unanswered::Ask(error) => Some(error),
            _ => None,
        }
    }
}
