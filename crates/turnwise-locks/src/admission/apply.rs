//! An application: its place in the queue is taken.
//!
//! Its turn and the one that gives it up meet at its promise: the first to claim or to cancel it
//! decides. If the turn was first, the applicant is decided, and waits for the answer, past its
//! limit too; if the leaver was, the turn passes it over. So "timed out" and "in" exclude each
//! other, and the answer is a promise that is kept once.
//!
//! One whose turn comes in the call itself has no promise: its answer is there on return.
//!
//! - APPLY-1: a promise is claimed by the turn or cancelled by a leaver, never both.
//! - APPLY-2: who gives up and cannot cancel waits for the answer; who drops an application that
//!   cannot be cancelled leaves the entry as it stands.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use turnwise::time::Sleep;
use turnwise::{Actor, AskError, EndCause, Limit, Reason, Reply, in_turn};

use super::Admitted;
use super::decider::{Application, Asks, Decider};
use super::error::Refused;
use super::ledger::Ledger;
use crate::limits::{Terms, TimeSource, Wait};
use crate::sync::hint;

/// The answer to an applicant.
pub(super) type Outcome<R, E> = Result<Admitted<R>, Refused<E>>;

/// The answer to come. Dropped, its applicant has left, unless the turn was first (APPLY-2).
struct Awaited<T>(Option<Reply<T>>);

impl<T> Awaited<T> {
    /// True for the first (APPLY-1): the turn passes it over.
    #[must_use]
    fn cancel(&mut self) -> bool {
        match self.0.take().map(Reply::cancel) {
            Some(Err(reply)) => {
                self.0 = Some(reply);
                false
            }
            cancelled => cancelled.is_some(),
        }
    }

    fn is_ready(&self) -> bool {
        self.0.as_ref().is_none_or(Reply::is_ready)
    }

    /// See [`Reply::wait_by_ref`].
    fn wait(&mut self, limit: Limit) -> Result<Option<T>, AskError> {
        self.0.as_mut().map_or(Err(AskError::Taken), |reply| reply.wait_by_ref(limit))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
        let reply = self.0.as_mut();
        reply.map_or(Poll::Ready(Err(AskError::Taken)), |reply| Pin::new(reply).poll(cx))
    }
}

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        let _withdrawn = self.cancel();
    }
}

/// An application for a place ([`Admission::apply`](crate::admission::Admission::apply)): a
/// `Future` on any runtime, or something to [wait](Self::wait) for.
///
/// Its place in the queue was taken by the call that made it, and is kept whether anybody polls
/// this or not. Dropping it withdraws the application, unless its turn has come: then the entry
/// stands, if there is one. A future is woken at its limit.
///
/// It keeps the admission, and so its ledger, until it is over.
#[must_use = "dropping it withdraws the application, unless its turn has come"]
pub struct Apply<Id, L: Ledger<Id>> {
    stage: Stage<Id, L>,
    /// It was not to wait.
    is_try: bool,
}

enum Stage<Id, L: Ledger<Id>> {
    Waits(Waits<Id, L>),
    Over(Outcome<L::Row, L::Error>),
    Taken,
}

/// One that was not to wait is busy if its time is over.
fn as_try<R, E>(is_try: bool, outcome: Outcome<R, E>) -> Outcome<R, E> {
    match outcome {
        Err(Refused::TimedOut { .. }) if is_try => Err(Refused::Busy),
        outcome => outcome,
    }
}

/// An application that is not answered.
struct Waits<Id, L: Ledger<Id>> {
    reply: Awaited<Outcome<L::Row, L::Error>>,
    /// Its limit, as long as that may end it.
    wait: Option<Wait>,
    actor: Actor<Decider<Id, L>>,
    time: TimeSource,
    sleep: Option<Box<Sleep>>,
}

impl<Id, L> Apply<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    pub(super) fn refused(why: Refused<L::Error>) -> Self {
        Apply::over(Err(why))
    }

    /// Decided already.
    pub(super) fn over(outcome: Outcome<L::Row, L::Error>) -> Self {
        Apply { stage: Stage::Over(outcome), is_try: false }
    }

    /// Takes a place in the queue.
    pub(super) fn new(
        actor: Actor<Decider<Id, L>>,
        id: Id,
        terms: Terms,
        time: TimeSource,
    ) -> Self {
        let Terms { wait, is_try, .. } = terms;
        let (promise, reply) = actor.promise();
        let asks = Asks { id, promise: Some(promise) };
        let application = Application { wait: wait.map(Box::new), asks };
        match actor.tell(application) {
            // It comes here from a shutdown, or from an executor that is gone.
            Err(_) => Apply::refused(Refused::Gone(end_of(&actor))),
            Ok(()) => {
                let reply = Awaited(Some(reply));
                let waits = Waits { reply, wait, actor, time, sleep: None };
                Apply { stage: Stage::Waits(waits), is_try }
            }
        }
    }

    /// Waits for the answer, until the deadline that was made by the call; and beyond it, if the
    /// turn has come by then. May block.
    ///
    /// # Errors
    /// See [`Refused`].
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::admission::{Admission, InMemory, Refused};
    /// use turnwise_locks::Limits;
    ///
    /// let raffle = Admission::open(InMemory, 1)?;
    /// assert_eq!(raffle.apply("ada", Limits::NONE).wait()?.place, 1);
    /// let closed = raffle.apply("grace", Limits::NONE).wait();
    /// assert!(matches!(closed, Err(Refused::Closed { limit: 1 })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(mut self) -> Result<Admitted<L::Row>, Refused<L::Error>> {
        self.wait_until(None).unwrap_or(Err(Refused::Taken))
    }

    /// Waits for the answer for so long at most; the place in the queue stays. None: there is none
    /// yet. May block.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise_locks::admission::{Admission, InMemory};
    /// use turnwise_locks::Limits;
    ///
    /// let queue = DrainQueue::new(); // not run yet
    /// let raffle = Admission::builder(InMemory, 1).executor(queue.handle()).open()?;
    /// let mut ada = raffle.apply("ada", Limits::NONE);
    /// assert!(ada.wait_timeout(Duration::from_millis(1)).is_none());
    /// queue.run_until_idle();
    /// assert_eq!(ada.wait()?.place, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_timeout(&mut self, limit: impl Into<Limit>) -> Option<Outcome<L::Row, L::Error>> {
        let until = match limit.into() {
            Limit::Unlimited => None,
            Limit::Immediate => Some(Duration::ZERO),
            Limit::Within(limit) => match &self.stage {
                Stage::Waits(waits) => waits.time.now().checked_add(limit),
                _ => None,
            },
        };
        self.wait_until(until)
    }

    /// True if the answer is there. Wait-free.
    pub fn is_ready(&self) -> bool {
        match &self.stage {
            Stage::Waits(waits) => waits.reply.is_ready(),
            Stage::Over(_) => true,
            Stage::Taken => false,
        }
    }

    fn wait_until(&mut self, until: Option<Duration>) -> Option<Outcome<L::Row, L::Error>> {
        loop {
            self.stage = match std::mem::replace(&mut self.stage, Stage::Taken) {
                Stage::Taken => return Some(Err(Refused::Taken)),
                Stage::Over(outcome) => return Some(as_try(self.is_try, outcome)),
                Stage::Waits(waits) => match waits.step(until) {
                    Ok(stage) => stage,
                    Err(waits) => {
                        self.stage = Stage::Waits(waits);
                        return None;
                    }
                },
            };
        }
    }
}

impl<Id, L> Waits<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    /// Waits once. It comes back if `until` was over first.
    fn step(mut self, until: Option<Duration>) -> Result<Stage<Id, L>, Self> {
        if in_turn() {
            let is_ready = self.reply.is_ready();
            if let (false, Err(reason @ Reason::Deadlock(_))) =
                (is_ready, self.actor.ended().within(Limit::Immediate))
            {
                // This thread is inside a turn of the admission: the answer cannot come meanwhile.
                return Ok(self.give_in(AskError::from(reason)));
            }
        } else if until.is_none() {
            // Who sleeps has to be woken by the one that decides; while that one does so, the next
            // comes too late, and has to sleep.
            let _ = hint::done_soon(|| self.reply.is_ready());
        }
        let own = self.wait.map(|wait| wait.at);
        let first = [own, until].into_iter().flatten().min();
        let left = match first {
            None => Limit::Unlimited,
            Some(at) => at.saturating_sub(self.time.now()).into(),
        };
        match self.reply.wait(left) {
            Ok(Some(outcome)) => Ok(Stage::Over(outcome)),
            Ok(None) if own.is_some() && first == own => Ok(self.time_out()),
            Ok(None) => Err(self),
            Err(error) => Ok(self.give_in(error)),
        }
    }

    /// The time is over: it is not let in any more, unless its turn has come.
    fn time_out(mut self) -> Stage<Id, L> {
        match self.wait.take() {
            Some(wait) if self.reply.cancel() => {
                let waited = self.time.now().saturating_sub(wait.called);
                Stage::Over(Err(Refused::TimedOut { waited }))
            }
            // APPLY-2.
            _ => Stage::Waits(self),
        }
    }

    /// There is no answer, or this thread cannot wait for it.
    fn give_in(mut self, error: AskError) -> Stage<Id, L> {
        Stage::Over(Err(match error {
            AskError::Refused(reason @ (Reason::Deadlock(_) | Reason::WouldBlock), _) => {
                match self.reply.cancel() {
                    true => Refused::Withdrawn(reason),
                    false => Refused::NotAwaited(reason),
                }
            }
            // The promise was dropped with the application: the mailbox has given it back.
            _ => Refused::Gone(end_of(&self.actor)),
        }))
    }

    /// True if its time is over. If not, the task is woken when it is.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(wait) = self.wait else { return false };
        let left = wait.at.saturating_sub(self.time.now());
        let time = &self.time;
        let sleep = self.sleep.get_or_insert_with(|| Box::new(time.timers().sleep(left)));
        left.is_zero() || Pin::new(sleep).poll(cx).is_ready()
    }
}

/// The reason why no answer comes.
fn end_of<S: Send + 'static>(actor: &Actor<S>) -> EndCause {
    actor.stop_cause().map_or(EndCause::Closed, EndCause::Stopped)
}

impl<Id, L> Future for Apply<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    type Output = Result<Admitted<L::Row>, Refused<L::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            this.stage = match std::mem::replace(&mut this.stage, Stage::Taken) {
                Stage::Taken => return Poll::Ready(Err(Refused::Taken)),
                Stage::Over(outcome) => return Poll::Ready(as_try(this.is_try, outcome)),
                Stage::Waits(mut waits) => match waits.reply.poll(cx) {
                    Poll::Ready(Ok(outcome)) => Stage::Over(outcome),
                    Poll::Ready(Err(error)) => waits.give_in(error),
                    Poll::Pending if waits.is_late(cx) => waits.time_out(),
                    Poll::Pending => {
                        this.stage = Stage::Waits(waits);
                        return Poll::Pending;
                    }
                },
            };
        }
    }
}

// The answer is not pinned: it is handed out by value.
impl<Id, L: Ledger<Id>> Unpin for Apply<Id, L> {}

impl<Id, L: Ledger<Id>> fmt::Debug for Apply<Id, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = match &self.stage {
            Stage::Waits(waits) => waits.reply.is_ready(),
            Stage::Over(_) => true,
            Stage::Taken => false,
        };
        f.debug_struct("Apply").field("ready", &ready).finish_non_exhaustive()
    }
}
