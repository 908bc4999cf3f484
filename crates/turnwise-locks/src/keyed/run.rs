//! A run that was started: its place is taken.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use turnwise::time::Sleep;
use turnwise::{AbortHandle, Actor, AskError, Cycle, Limit, Reason, Reply};

use super::error::{NotStarted, RunError};
use super::turn::{Ended, as_try};
use crate::limits::{Terms, TimeSource, Wait};
use crate::registry::{KeySlot, Registry, name_of};
use crate::user_code::owning;

/// A run that has its place among those of its key ([`Keyed::start`](crate::Keyed::start),
/// [`Keyed::run_async`](crate::Keyed::run_async)): a `Future` on any runtime, or something to wait
/// for.
///
/// Dropping it leaves the closure in its place: it runs when its turn comes, unless its wait is
/// over by then. As a future it never runs a closure of any key. The first poll that finds it
/// pending arms a timer for its limit, if it has one ([`KeyedBuilder::timers`]), and is woken by
/// that; what has timed out certainly never runs.
///
/// [`KeyedBuilder::timers`]: crate::KeyedBuilder::timers
#[must_use = "whether it ran, and what came of it, is in here"]
pub struct Run<R> {
    inner: Inner<R>,
}

enum Inner<R> {
    Over(Result<R, RunError<R>>),
    Open(Open<R>),
    Taken,
}

/// A run whose outcome is to come.
pub(super) struct Open<R> {
    reply: Reply<Ended<R>>,
    wait: Option<Wait>,
    is_try: bool,
    time: TimeSource,
    /// That of its key.
    mailbox: Box<dyn Mailbox>,
    /// Until its limit; made by the first poll that is pending.
    sleep: Option<Box<Sleep>>,
    /// Of an async closure.
    abort: Option<AbortHandle>,
}

/// The mailbox of a key, whatever its type.
trait Mailbox: Send + Sync {
    /// The circle that a wait would close, if this thread is inside a turn of the key.
    fn own_circle(&self) -> Option<Cycle>;
    /// The name of the key.
    fn name(&self) -> Option<Arc<str>>;
}

impl<K: Send + Sync + 'static, S: Send + 'static> Mailbox for Actor<KeySlot<K, S>> {
    fn own_circle(&self) -> Option<Cycle> {
        own_circle(self)
    }

    fn name(&self) -> Option<Arc<str>> {
        name_of(self)
    }
}

/// The circle that a wait would close, if this thread is inside a turn of this actor. A wait that
/// is over at once says so.
pub(super) fn own_circle<K, S>(actor: &Actor<KeySlot<K, S>>) -> Option<Cycle>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    match actor.ended().within(Limit::Immediate) {
        Err(Reason::Deadlock(cycle)) => Some(cycle),
        _ => None,
    }
}

/// The error of a run that leaves its place to others: as many wait as may.
pub(super) fn full<K, S>(actor: &Actor<KeySlot<K, S>>) -> NotStarted
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    NotStarted::Full { key: name_of(actor) }
}

/// The error of a run that would be waited for: inside a turn that the key waits for, it
/// would wait for ever, if there were room.
pub(super) fn full_or_deadlock<K, S>(actor: &Actor<KeySlot<K, S>>) -> NotStarted
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    own_circle(actor).map_or_else(|| full(actor), NotStarted::Deadlock)
}

impl<R> Open<R> {
    pub(super) fn new<K, S>(
        reply: Reply<Ended<R>>,
        actor: Actor<KeySlot<K, S>>,
        terms: Terms,
        time: TimeSource,
    ) -> Self
    where
        K: Send + Sync + 'static,
        S: Send + 'static,
    {
        Open {
            reply,
            wait: terms.wait,
            is_try: terms.is_try,
            time,
            mailbox: Box::new(actor),
            sleep: None,
            abort: None,
        }
    }

    fn now(&self) -> Duration {
        self.time.now()
    }

    /// The circle that a wait for it would close, by this thread alone.
    fn closes(&self) -> Option<Cycle> {
        if self.reply.is_ready() { None } else { self.mailbox.own_circle() }
    }

    fn left(&self) -> Limit {
        match self.wait {
            None => Limit::Unlimited,
            Some(wait) => wait.at.saturating_sub(self.now()).into(),
        }
    }

    /// Waits for its turn until the deadline, and then for its end.
    pub(super) fn settle(self) -> Ended<R> {
        if let Some(cycle) = self.closes() {
            return match self.reply.cancel() {
                Ok(()) => Ended::Not(NotStarted::Deadlock(cycle).into()),
                Err(reply) => awaited(reply),
            };
        }
        let wait = |this: &mut Self| this.reply.wait_by_ref(this.left());
        let (this, waited) = owning(self, wait);
        let Open { reply, wait, time, mailbox, .. } = this;
        let ended = match waited {
            Ok(Some(ended)) => ended,
            Ok(None) => match reply.cancel() {
                Ok(()) => {
                    let called = wait.map_or(Duration::ZERO, |wait| wait.called);
                    Ended::late(time.now().saturating_sub(called))
                }
                // It has begun: it has no limit any more.
                Err(reply) => awaited(reply),
            },
            // What has not begun was withdrawn.
            Err(AskError::Refused(reason @ (Reason::Deadlock(_) | Reason::WouldBlock), _)) => {
                match reply.cancel() {
                    Ok(()) => Ended::Not(NotStarted::from(reason).into()),
                    Err(reply) => awaited(reply),
                }
            }
            Err(error) => Ended::Not(error.into()),
        };
        ended.about(|| mailbox.name())
    }

    /// It cannot be waited for. What was cancelled certainly never runs, so it is cancelled before
    /// this is said.
    fn refused(self, cycle: Cycle) -> Result<R, RunError<R>> {
        match self.cancel() {
            Ok(()) => Err(NotStarted::Deadlock(cycle).into()),
            Err(_) => Err(RunError::NotAwaited(Reason::Deadlock(cycle))),
        }
    }

    /// Takes it back, if it has not begun.
    fn cancel(self) -> Result<(), Self> {
        let Open { reply, wait, is_try, time, mailbox, sleep, abort } = self;
        let open = |reply| Open { reply, wait, is_try, time, mailbox, sleep, abort };
        reply.cancel().map_err(open)
    }

    /// Gives it up if its limit is over. One that has begun has no limit any more.
    fn give_up(self) -> Result<Ended<R>, Self> {
        let late = |this: &mut Self| this.wait.and_then(|wait| wait.over(this.now()));
        let (this, waited) = owning(self, late);
        let Some(waited) = waited else {
            return Err(this);
        };
        let key = this.mailbox.name();
        let late = |()| Ended::late(waited).about(|| key);
        this.cancel().map(late).map_err(|mut open| {
            open.wait = None;
            open.sleep = None;
            open
        })
    }

    /// Polls the timer of its limit, if it has one: true if that is over.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(wait) = self.wait else { return false };
        let time = &self.time;
        let sleep = self.sleep.get_or_insert_with(|| {
            let timers = time.timers();
            // Not sooner: the clock goes on meanwhile.
            Box::new(timers.sleep(wait.at.saturating_sub(timers.now())))
        });
        let late = Pin::new(sleep).poll(cx).is_ready();
        if late {
            // A clock that goes back has the next look arm another.
            self.sleep = None;
        }
        late
    }
}

/// Waits for the end of a run that has begun.
fn awaited<R>(reply: Reply<Ended<R>>) -> Ended<R> {
    match reply.wait() {
        Ok(ended) => ended,
        Err(AskError::Refused(reason @ (Reason::Deadlock(_) | Reason::WouldBlock), _)) => {
            Ended::Not(RunError::NotAwaited(reason))
        }
        Err(error) => Ended::Not(error.into()),
    }
}

impl<R> Run<R> {
    pub(super) fn over(outcome: Result<R, RunError<R>>) -> Self {
        Run { inner: Inner::Over(outcome) }
    }

    pub(super) fn open<K, S>(
        reply: Reply<Ended<R>>,
        actor: Actor<KeySlot<K, S>>,
        terms: Terms,
        registry: &Registry<K, S>,
    ) -> Self
    where
        K: Send + Sync + 'static,
        S: Send + 'static,
    {
        if reply.is_ready() {
            let outcome = |ended: Ended<R>| ended.about(|| name_of(&actor)).outcome();
            let outcome = reply.wait().map_or_else(|error| Err(error.into()), outcome);
            return Run::over(as_try(terms.is_try, outcome));
        }
        Run { inner: Inner::Open(Open::new(reply, actor, terms, registry.time.clone())) }
    }

    /// It is that of an async closure.
    pub(super) fn abortable(mut self, handle: AbortHandle) -> Self {
        if let Inner::Open(open) = &mut self.inner {
            open.abort = Some(handle);
        }
        self
    }

    /// True if the outcome is there. Wait-free.
    pub fn is_over(&self) -> bool {
        match &self.inner {
            Inner::Over(_) => true,
            Inner::Open(open) => open.reply.is_ready(),
            Inner::Taken => false,
        }
    }

    /// Waits for its turn, until the deadline that was made when it was started, and then for its
    /// end. May block.
    ///
    /// # Errors
    /// Whatever became of it instead of a plain value: see [`RunError`].
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Keyed, Limits};
    ///
    /// let keyed = Keyed::new();
    /// let run = keyed.start("a", Limits::NONE, |()| 1 + 1);
    /// assert_eq!(run.wait()?, 2);
    /// # Ok::<(), turnwise_locks::RunError<i32>>(())
    /// ```
    pub fn wait(self) -> Result<R, RunError<R>> {
        match self.inner {
            Inner::Over(outcome) => outcome,
            Inner::Open(open) => as_try(open.is_try, open.settle().outcome()),
            Inner::Taken => Err(RunError::Taken),
        }
    }

    /// Takes it back, if it has not begun: then it certainly never runs, as one that was refused.
    /// Its captured values are dropped here.
    ///
    /// # Errors
    /// The run comes back if it has begun, or is over.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Keyed, Limits};
    ///
    /// let keyed = Keyed::new();
    /// keyed.run("a", |()| {
    ///     let waiting = keyed.start("a", Limits::NONE, |()| unreachable!());
    ///     assert!(waiting.cancel().is_ok());
    /// })?;
    /// # Ok::<(), turnwise_locks::RunError<()>>(())
    /// ```
    pub fn cancel(self) -> Result<(), Self> {
        let inner = match self.inner {
            Inner::Over(Err(RunError::NotStarted(_) | RunError::Gone(_))) => return Ok(()),
            Inner::Open(open) => match open.cancel() {
                Ok(()) => return Ok(()),
                Err(open) => Inner::Open(open),
            },
            inner => inner,
        };
        Err(Run { inner })
    }

    /// As [`cancel`](Self::cancel); and an async closure that has begun is dropped at the await
    /// that it is at, or comes to, unless it is done before: then the outcome says so
    /// ([`Cut::Aborted`](crate::Cut::Aborted)). The next run of the key starts after its
    /// destructors. A closure that is not async runs to its end. Does not wait.
    ///
    /// # Errors
    /// The run comes back if it has begun, or is over.
    ///
    /// # Examples
    /// ```
    /// use std::future::pending;
    /// use turnwise_locks::{Cut, Keyed, Limits, RunError};
    ///
    /// let keyed = Keyed::new();
    /// let minute = Limits::NONE.lease(std::time::Duration::from_secs(60));
    /// let run = keyed.run_async("a", minute, async |()| {
    ///     pending::<()>().await
    /// });
    /// let begun = run.abort().unwrap_err();
    /// assert_eq!(begun.wait(), Err(RunError::Cut(Cut::Aborted)));
    /// assert_eq!(keyed.run("a", |()| 7)?, 7);
    /// # Ok::<(), RunError<i32>>(())
    /// ```
    pub fn abort(self) -> Result<(), Self> {
        self.cancel().inspect_err(|run| {
            if let Inner::Open(Open { abort: Some(handle), .. }) = &run.inner {
                handle.abort();
            }
        })
    }
}

impl<R> Future for Run<R> {
    type Output = Result<R, RunError<R>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let open = match std::mem::replace(&mut self.inner, Inner::Taken) {
            Inner::Over(outcome) => return Poll::Ready(outcome),
            Inner::Taken => return Poll::Ready(Err(RunError::Taken)),
            Inner::Open(open) => open,
        };
        let (is_try, mut open) = (open.is_try, open);
        if let Some(cycle) = open.closes() {
            return Poll::Ready(open.refused(cycle));
        }
        loop {
            if !open.reply.is_ready() {
                open = match open.give_up() {
                    Ok(late) => return Poll::Ready(as_try(is_try, late.outcome())),
                    Err(open) => open,
                };
            }
            let (polled_open, polled) = owning(open, |open| Pin::new(&mut open.reply).poll(cx));
            open = polled_open;
            match polled {
                Poll::Pending => {}
                Poll::Ready(Err(AskError::Refused(Reason::Deadlock(cycle), _)))
                    if !open.reply.is_ready() =>
                {
                    return Poll::Ready(open.refused(cycle));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(ended)) => {
                    let ended = ended.about(|| open.mailbox.name());
                    return Poll::Ready(as_try(is_try, ended.outcome()));
                }
            }
            let (looked, late) = owning(open, |open| open.is_late(cx));
            open = looked;
            if !late {
                self.inner = Inner::Open(open);
                return Poll::Pending;
            }
        }
    }
}

// The outcome is not pinned: it is handed out by value.
impl<R> Unpin for Run<R> {}

impl<R> fmt::Debug for Run<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("over", &self.is_over()).finish_non_exhaustive()
    }
}
