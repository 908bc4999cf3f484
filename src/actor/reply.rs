//! The answer to come.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::within::{Over, Within};
use crate::cell::refs::{Ref, Strong};
use crate::cell::settings::Settings;
use crate::error::{ActorName, AskError, Reason, SendError, Who, Withdrawn};
use crate::mailbox::oneshot::{Accepted, Answerer, Asker, Promised, oneshot};
use crate::panic::{self, QuietDrop};
use crate::send::message::Answer;
use crate::send::wait::{Answered, Refused, poll_for, wait_for_promise};
use crate::sync::Exclusive;
use crate::time::{Clock, Cutoff, Limit, MonotonicClock, Timers};
use crate::turn::blocking::before_pending;

/// The answer to a question: a `Future` on any runtime, or something to wait for.
///
/// Every reply comes to an end: with the result, or with the reason why there is none. Dropping it
/// leaves the question in the mailbox. `M` is what [`cancel`](Self::cancel) gives back: the message
/// of an [`ask`](crate::Actor::ask), nothing for a closure.
///
/// As a future it never runs a turn of any actor. Polled again after it was ready, it is ready with
/// [`AskError::Taken`]. After [`Reason::Deadlock`], [`cancel`](Self::cancel) has the message.
#[must_use = "the question runs, and its answer is dropped: use `send` or `tell`; or `let _ =`, where it \
              is an async turn"]
pub struct Reply<R, M = ()> {
    inner: Inner<R, M>,
}

enum Inner<R, M> {
    /// Not to be reached by a shared reference: so the reply can be shared whatever the answer is.
    Ready(Exclusive<Result<R, AskError>>),
    /// The question was refused; its message is still there.
    Refused(AskError, Exclusive<M>),
    Pending(Asker<R, M>, Source),
    Taken,
}

/// The actor that is going to answer, and the clock on which waits for that are measured.
///
/// No enum, whose tag would take part in that of [`Inner`]: every `call` looks at it.
struct Source {
    /// None: a promise.
    actor: Option<Ref>,
    /// None: the actor's; for a promise, the machine's.
    clock: Option<Box<TimeSource>>,
}

/// A clock, and where tasks that wait by it have themselves woken; without one, in its own service.
struct TimeSource {
    /// It may be the last of the clock: an answer that is there is not lost by its drop.
    clock: QuietDrop<Arc<dyn Clock>>,
    timers: Option<Timers>,
}

impl Source {
    fn actor(cell: Ref) -> Self {
        Source { actor: Some(cell), clock: None }
    }

    fn promise(clock: Option<TimeSource>) -> Self {
        Source { actor: None, clock: clock.map(Box::new) }
    }

    fn clock(&self) -> &dyn Clock {
        match (&self.clock, &self.actor) {
            (Some(by), _) => &**by.clock,
            (None, Some(cell)) => cell.header().clock(),
            (None, None) => &MonotonicClock,
        }
    }

    /// The timers that wake tasks which wait by that clock.
    fn service(&self) -> Timers {
        match (&self.clock, &self.actor) {
            (Some(by), _) => by.timers.clone().unwrap_or_else(|| Timers::of(&by.clock)),
            (None, Some(cell)) => cell.header().config().service(),
            (None, None) => Timers::global().clone(),
        }
    }

    fn wait_for<R, M>(
        &self,
        asker: &mut Asker<R, M>,
        at: Option<Duration>,
    ) -> Result<Option<Answered<R>>, (AskError, Option<M>)> {
        let deadline = Cutoff::at(self.clock(), at);
        let answer = match &self.actor {
            Some(cell) => cell.wait_for(asker, deadline),
            None => wait_for_promise(asker, deadline),
        };
        match answer {
            Ok(Some(Err(error))) => Ok(Some(Err(self.name(error)))),
            Ok(answer) => Ok(answer),
            Err(refused) => Err(self.refused(refused)),
        }
    }

    #[cold]
    fn refused<M>(&self, Refused { reason, question }: Refused<M>) -> (AskError, Option<M>) {
        (self.name(reason.into()), question)
    }

    /// The error, with the name of who was asked.
    #[cold]
    fn name(&self, error: AskError) -> AskError {
        error.named(|| self.who())
    }

    fn who(&self) -> Option<Who> {
        self.actor.as_ref().map(|cell| cell.header().who())
    }
}

/// The error of a limited wait. `Cancelled` and having run exclude each other.
#[non_exhaustive]
pub enum WaitError<R, M = ()> {
    /// There will be none.
    Ask(AskError),
    /// The time is over; the question is still waiting or running, and here is its reply.
    TimedOut(Reply<R, M>),
    /// The time was over before its turn: it certainly never runs. Here is the message.
    Cancelled(Withdrawn<M>),
}

impl<R, M> Reply<R, M> {
    /// Makes a reply of a question's outcome; `back` makes the message of one that was refused.
    #[inline]
    pub(crate) fn of<S, L>(
        handle: &Strong<S>,
        answer: Result<Answer<R, M>, (L, Reason)>,
        back: impl FnOnce(L) -> M,
    ) -> Self {
        let inner = match answer {
            Ok(Answer::Ready(answer)) => Inner::Ready(Exclusive::new(answer)),
            Ok(Answer::Pending(asker, cell)) => Inner::Pending(asker, Source::actor(cell)),
            Err((message, reason)) => {
                let error = handle.header().refused_question(reason);
                Inner::Refused(error, Exclusive::new(back(message)))
            }
        };
        Reply { inner }
    }

    pub(crate) fn pending(asker: Asker<R, M>, cell: Ref) -> Self {
        Reply { inner: Inner::Pending(asker, Source::actor(cell)) }
    }

    /// The end of a wait that begins now.
    pub(crate) fn moment(&self, limit: Limit) -> Option<Duration> {
        self.source().and_then(|source| Cutoff::new(source.clock(), limit).moment())
    }

    /// The actor that is going to answer.
    pub(crate) fn who(&self) -> Option<Who> {
        self.source().and_then(Source::who)
    }

    /// The end of a task's wait that begins now, and what wakes it then.
    pub(super) fn over(&self, limit: Limit) -> Over {
        match self.source() {
            Some(source) => Over::at(self.moment(limit), || source.service()),
            None => Over::Never,
        }
    }

    /// The source of an answer that is to come.
    fn source(&self) -> Option<&Source> {
        match &self.inner {
            Inner::Pending(_, source) => Some(source),
            _ => None,
        }
    }

    /// True if the answer is there. Wait-free.
    pub fn is_ready(&self) -> bool {
        match &self.inner {
            Inner::Ready(_) | Inner::Refused(..) => true,
            Inner::Pending(asker, _) => asker.is_done(),
            Inner::Taken => false,
        }
    }

    /// Waits for the answer. May block. Inside a turn that has sent to others, their messages go to
    /// their executors while this thread sleeps.
    ///
    /// # Errors
    /// [`Reason::Deadlock`] inside a turn that the actor waits for, or would have to (at once, if
    /// it is its own), [`Reason::WouldBlock`] on a worker that must not wait: the question was
    /// withdrawn, and never runs, unless it has begun. Else the reason why there is no answer.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(20);
    /// assert_eq!(n.call(|n| *n + 1).wait()?, 21);
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    #[inline]
    pub fn wait(self) -> Result<R, AskError> {
        match self.inner {
            Inner::Ready(answer) => answer.into_inner(),
            inner => wait_slow(inner),
        }
    }

    /// Waits for the answer, for `limit` at most; zero is one look. The question keeps its place.
    /// May block.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] gives the reply back: the question may still run. Else as
    /// [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{WaitError, promise};
    ///
    /// let (promise, reply) = promise();
    /// let Err(WaitError::TimedOut(reply)) = reply.wait_timeout(Duration::from_millis(1)) else {
    ///     panic!("it was not answered yet")
    /// };
    /// promise.keep(2);
    /// assert_eq!(reply.wait()?, 2);
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    pub fn wait_timeout(self, limit: impl Into<Limit>) -> Result<R, WaitError<R, M>> {
        let limit = limit.into();
        match panic::owning(self, |this| this.wait_by_ref(limit)) {
            (_, Ok(Some(answer))) => Ok(answer),
            (this, Ok(None)) => Err(WaitError::TimedOut(this)),
            (_, Err(error)) => Err(WaitError::Ask(error)),
        }
    }

    /// Waits for the answer, for `limit` at most, and keeps the reply whatever comes of it; zero is
    /// one look. `None`: it is not there yet. The question keeps its place. May block.
    ///
    /// # Errors
    /// [`Reason::Deadlock`] and [`Reason::WouldBlock`] say that this thread cannot wait: the
    /// question was withdrawn, and [`cancel`](Self::cancel) has its message, unless it has begun.
    /// Else as [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// use turnwise::promise;
    ///
    /// let (promise, mut reply) = promise();
    /// assert_eq!(reply.wait_by_ref(std::time::Duration::ZERO)?, None);
    /// promise.keep(2);
    /// assert_eq!(reply.wait_by_ref(std::time::Duration::ZERO)?, Some(2));
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    pub fn wait_by_ref(&mut self, limit: impl Into<Limit>) -> Result<Option<R>, AskError> {
        let at = self.moment(limit.into());
        match &mut self.inner {
            Inner::Pending(asker, source) => match source.wait_for(asker, at).transpose() {
                Some(waited) => self.end(waited).map(Some),
                None => Ok(None),
            },
            Inner::Refused(error, _) => Err(error.clone()),
            _ => wait_slow(std::mem::replace(&mut self.inner, Inner::Taken)).map(Some),
        }
    }

    /// A wait is over: the answer is taken out, and a question that was refused stays.
    fn end(&mut self, waited: Result<Answered<R>, (AskError, Option<M>)>) -> Result<R, AskError> {
        match waited {
            Ok(answer) => {
                self.inner = Inner::Taken;
                answer
            }
            Err((error, message)) => {
                if let Some(message) = message {
                    self.inner = Inner::Refused(error.clone(), Exclusive::new(message));
                }
                Err(error)
            }
        }
    }

    /// Waits for the answer, for `limit` at most, and then cancels the question if it has not
    /// started. May block. Zero is one look.
    ///
    /// # Errors
    /// [`WaitError::Cancelled`] gives the message back: it certainly never runs.
    /// [`WaitError::TimedOut`] gives the reply back: the question is running.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, WaitError};
    ///
    /// let queue = DrainQueue::new(); // not run
    /// let n = Actor::builder().executor(queue.handle()).spawn(0)?;
    /// let answer = n.call(|n| *n).within(Duration::from_millis(5));
    /// assert!(matches!(answer, Err(WaitError::Cancelled(_))));
    /// # Ok::<(), turnwise::BuildError>(())
    /// ```
    pub fn within(self, limit: impl Into<Limit>) -> Result<R, WaitError<R, M>> {
        let limit = limit.into();
        let (this, at) = panic::owning(self, |this| this.moment(limit));
        this.until(at)
    }

    /// [`within`](Self::within) for a task: a future with the same outcomes. The time counts from
    /// this call on, by the actor's clock; the task is woken by [the actor's
    /// timers](crate::ActorBuilder::timers). Polling it runs no turn.
    ///
    /// # Panics
    /// If the clock does; then the question is as if its reply had been dropped.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, WaitError};
    ///
    /// let queue = DrainQueue::new(); // not run
    /// let n = Actor::builder().executor(queue.handle()).spawn(0)?;
    /// // It has no timers of its own.
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let answer = runtime.block_on(n.call(|n| *n).within_async(Duration::from_millis(5)));
    /// assert!(matches!(answer, Err(WaitError::Cancelled(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within_async(self, limit: impl Into<Limit>) -> Within<Self> {
        let limit = limit.into();
        let (this, over) = panic::owning(self, |this| this.over(limit));
        Within::new(over, this)
    }

    pub(crate) fn until(self, at: Option<Duration>) -> Result<R, WaitError<R, M>> {
        let Inner::Pending(asker, source) = self.inner else {
            return wait_slow(self.inner).map_err(WaitError::Ask);
        };
        let waits = |(asker, source): &mut (_, Source)| source.wait_for(asker, at);
        let ((asker, source), refused) = match panic::owning((asker, source), waits) {
            (_, Err((error, Some(_)))) => return Err(WaitError::Ask(error)),
            (_, Ok(Some(answer))) => return answer.map_err(WaitError::Ask),
            // This thread must not wait for what has begun, or was promised.
            (pending, Err((error, None))) => (pending, Some(error)),
            (pending, Ok(None)) => (pending, None),
        };
        // What the question holds is dropped there, if it is not wanted back: user code.
        let cancel = |(asker, _): &mut (Asker<R, M>, Source)| asker.cancel();
        let ((mut asker, source), cancelled) = panic::owning((asker, source), cancel);
        if let Some(message) = cancelled {
            return Err(match refused {
                Some(error) => WaitError::Ask(error),
                None => WaitError::Cancelled(Withdrawn::new(message, source.who())),
            });
        }
        // It has started, and may have been done since: a last look.
        match asker.take() {
            Some(answer) => answer.map_err(|error| WaitError::Ask(source.name(error))),
            None => Err(match refused {
                Some(error) => WaitError::Ask(error),
                None => WaitError::TimedOut(Reply { inner: Inner::Pending(asker, source) }),
            }),
        }
    }

    /// Cancels the question, if it has not started: then it certainly never runs, and its message
    /// comes back; so does that of a question that was refused. Lock-free.
    ///
    /// The question keeps its place in the mailbox until that is reached.
    ///
    /// # Errors
    /// The reply comes back if the question is running or done.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// let done = n.call(|n| *n += 1);
    /// let reply = done.cancel().unwrap_err(); // it was run at once
    /// reply.wait()?;
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    pub fn cancel(self) -> Result<M, Self> {
        match self.inner {
            Inner::Pending(asker, source) => {
                let cancel = |(asker, _): &mut (Asker<R, M>, Source)| asker.cancel();
                let ((asker, source), cancelled) = panic::owning((asker, source), cancel);
                cancelled.ok_or(Reply { inner: Inner::Pending(asker, source) })
            }
            Inner::Refused(_, message) => Ok(message.into_inner()),
            inner => Err(Reply { inner }),
        }
    }
}

#[cold]
#[inline(never)]
fn wait_slow<R, M>(inner: Inner<R, M>) -> Result<R, AskError> {
    match inner {
        Inner::Ready(answer) => answer.into_inner(),
        Inner::Refused(error, _) => Err(error),
        Inner::Pending(asker, source) => {
            let waits = |(asker, source): &mut (_, Source)| source.wait_for(asker, None);
            match panic::owning((asker, source), waits).1 {
                Ok(answer) => answer.unwrap_or_else(|| Err(AskError::Abandoned(ActorName::ANY))),
                Err((error, _)) => Err(error),
            }
        }
        Inner::Taken => Err(AskError::Taken),
    }
}

/// A promise of an answer, and the reply that will have it: for a handler that does not know the
/// answer yet.
///
/// The handler returns the reply at once. It keeps the promise in its state, or passes it on in a
/// message to another actor. One allocation. Lock-free.
///
/// A limited wait for the reply is measured on the machine's clock. For one by the actor's, see
/// [`Context::promise`](crate::Context::promise); by any other, [`promise_on`].
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
/// let dish = kitchen.ask(Order);
/// kitchen.tell(Ready)?;
/// assert_eq!(dish.wait()?.wait()?, "soup");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn promise<R: Send + 'static>() -> (Promise<R>, Reply<R>) {
    promised(None)
}

/// A [`promise`] whose waits are measured on this clock: a limited wait for its reply ends when
/// that clock says so. Two allocations.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use std::thread;
/// use std::time::Duration;
/// use turnwise::{VirtualClock, WaitError, promise_on};
///
/// let clock = VirtualClock::new();
/// let (_promise, reply) = promise_on::<u32>(Arc::new(clock.clone()));
/// let waiter = thread::spawn(move || reply.within(Duration::from_secs(3600)));
/// clock.wait_for_sleepers(1);
/// clock.advance(Duration::from_secs(3600)); // an hour, at once
/// assert!(matches!(waiter.join().unwrap(), Err(WaitError::Cancelled(_))));
/// ```
pub fn promise_on<R: Send + 'static>(clock: Arc<dyn Clock>) -> (Promise<R>, Reply<R>) {
    promised(Some(TimeSource { clock: QuietDrop::new(clock), timers: None }))
}

/// A promise whose waits are measured on an actor's clock.
pub(super) fn promise_of<R: Send + 'static>(config: &Settings) -> (Promise<R>, Reply<R>) {
    let by = |clock: &Arc<dyn Clock>| TimeSource {
        clock: QuietDrop::new(clock.clone()),
        timers: config.timers.clone(),
    };
    promised(config.clock.as_ref().map(by))
}

fn promised<R: Send + 'static>(clock: Option<TimeSource>) -> (Promise<R>, Reply<R>) {
    let (answerer, asker) = oneshot(Promised);
    let promise = Promise { answerer: Some(answerer), accepted: None };
    (promise, Reply { inner: Inner::Pending(asker, Source::promise(clock)) })
}

/// The duty to answer: see [`promise`]. Dropping it answers with [`AskError::Abandoned`].
#[must_use = "a promise that is dropped is broken"]
pub struct Promise<R> {
    answerer: Option<Answerer<Promised, R>>,
    /// In its place, once the reply cannot be cancelled any more.
    accepted: Option<Accepted<Promised, R>>,
}

impl<R> Promise<R> {
    /// Gives the answer. Lock-free.
    pub fn keep(mut self, answer: R) {
        drop(self.settle(Ok(answer)));
    }

    /// Gives the answer, or has it back: for an answer that another asker would like to have.
    /// Lock-free.
    ///
    /// A reply that was dropped without being cancelled accepts the answer and drops it.
    ///
    /// # Errors
    /// The answer comes back if the reply was cancelled.
    ///
    /// # Examples
    /// ```
    /// use turnwise::promise;
    ///
    /// let (seat, reply) = promise();
    /// assert!(reply.cancel().is_ok());
    /// let (next, other) = promise();
    /// if let Err(free) = seat.try_keep(7) {
    ///     next.keep(free);
    /// }
    /// assert_eq!(other.wait()?, 7);
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    pub fn try_keep(mut self, answer: R) -> Result<(), R> {
        match self.settle(Ok(answer)) {
            Err(Ok(answer)) => Err(answer),
            _ => Ok(()),
        }
    }

    /// Begins to answer: from now on the reply cannot be cancelled. False if it was. Lock-free.
    ///
    /// For an answer that has an effect of its own, which a reply that is cancelled must not have:
    /// of this and [`Reply::cancel`], the first one decides. Once it has succeeded, it does so
    /// again.
    ///
    /// # Examples
    /// ```
    /// use turnwise::promise;
    ///
    /// let (mut seat, reply) = promise();
    /// assert!(seat.claim());
    /// let reply = reply.cancel().unwrap_err(); // too late
    /// seat.keep(7);
    /// assert_eq!(reply.wait()?, 7);
    ///
    /// let (mut seat, reply) = promise::<i32>();
    /// assert!(reply.cancel().is_ok());
    /// assert!(!seat.claim());
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    #[must_use = "nothing may be done for a reply that was cancelled"]
    pub fn claim(&mut self) -> bool {
        self.accepted = self.accepted.take().or_else(|| self.answerer.take()?.claim());
        self.accepted.is_some()
    }

    /// True if the reply was cancelled: the answer is dropped. Stale on return. Wait-free.
    pub fn is_cancelled(&self) -> bool {
        let is_accepted = self.accepted.is_some();
        !is_accepted && self.answerer.as_ref().is_none_or(Answerer::is_cancelled)
    }

    /// Gives an answer; it comes back if none is wanted any more.
    fn settle(&mut self, answer: Result<R, AskError>) -> Result<(), Result<R, AskError>> {
        if let Some(accepted) = self.accepted.take() {
            accepted.finish(answer);
            return Ok(());
        }
        match self.answerer.take() {
            Some(answerer) => answerer.settle(answer),
            None => Err(answer),
        }
    }
}

impl<R> Drop for Promise<R> {
    fn drop(&mut self) {
        if self.answerer.is_some() || self.accepted.is_some() {
            drop(self.settle(Err(AskError::Abandoned(ActorName::ANY))));
        }
    }
}

impl<R> fmt::Debug for Promise<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

impl<R, M> Future for Reply<R, M> {
    type Output = Result<R, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Inner::Pending(asker, source) = &mut self.inner else {
            return Poll::Ready(wait_slow(std::mem::replace(&mut self.inner, Inner::Taken)));
        };
        let waited = match &source.actor {
            Some(cell) => {
                ready!(cell.poll_for(asker, cx)).map_err(|refused| source.refused(refused))
            }
            None => {
                if !asker.is_done() {
                    before_pending(cx.waker());
                }
                Ok(ready!(poll_for(asker, cx)))
            }
        };
        let waited = waited.map(|answer| answer.map_err(|error| source.name(error)));
        Poll::Ready(self.end(waited))
    }
}

// The answer is not pinned: it is handed out by value.
impl<R, M> Unpin for Reply<R, M> {}

impl<R, M> fmt::Debug for Reply<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl<R, M> From<AskError> for WaitError<R, M> {
    fn from(error: AskError) -> Self {
        WaitError::Ask(error)
    }
}

/// Drops the message.
impl<R, M, N> From<SendError<N>> for WaitError<R, M> {
    fn from(error: SendError<N>) -> Self {
        WaitError::Ask(error.into())
    }
}

impl<R, M> fmt::Debug for WaitError<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Ask(error) => f.debug_tuple("Ask").field(error).finish(),
            WaitError::TimedOut(reply) => f.debug_tuple("TimedOut").field(reply).finish(),
            WaitError::Cancelled(withdrawn) => f.debug_tuple("Cancelled").field(withdrawn).finish(),
        }
    }
}

impl<R, M> fmt::Display for WaitError<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by =
            |who: Option<&str>, link| who.map_or(String::new(), |who| format!("{link}`{who}`"));
        match self {
            WaitError::Ask(error) => error.fmt(f),
            WaitError::TimedOut(reply) => {
                let by = by(reply.who().as_ref().map(Who::as_str), " from ");
                write!(f, "no answer{by} in time; the question is still waiting or running")
            }
            WaitError::Cancelled(withdrawn) => {
                let by = by(withdrawn.actor(), " by ");
                write!(f, "not started{by} in time: the message was cancelled and never runs")
            }
        }
    }
}

impl<R, M> std::error::Error for WaitError<R, M> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WaitError::Ask(error) => Some(error),
            _ => None,
        }
    }
}

impl<R, M> Future for Within<Reply<R, M>> {
    type Output = Result<R, WaitError<R, M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let late = |reply: Reply<R, M>| reply.until(Some(Duration::ZERO));
        let polled = self.poll_once(cx, |answer| answer.map_err(WaitError::Ask), late);
        polled.map(|answer| answer.unwrap_or(Err(WaitError::Ask(AskError::Taken))))
    }
}
