//! An application: its place in the queue is taken.
//!
//! Its turn and whoever gives it up meet at one [`Ticket`]: the first to claim it decides. If the
//! turn was first, the applicant is decided, and waits for the answer, past its limit too; if the
//! leaver was, the turn passes it over. So "timed out" and "in" exclude each other, and the answer
//! is a promise that is kept once.
//!
//! - C1: a ticket is claimed once, by the turn or by a leaver.
//! - C2: who gives up without the claim waits for the answer; who drops an application without it
//!   leaves the entry as it stands.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use turnwise::time::Sleep;
use turnwise::{Actor, AskError, EndCause, Limit, Reason, Reply, WaitError};

use super::Admitted;
use super::desk::{Application, Asks, Desk};
use super::error::Refused;
use super::ledger::Ledger;
use crate::limits::{Wait, shown};
use crate::registry::Time;
use crate::sync::Counted;
use crate::sync::atomic::{AtomicU32, Ordering};

/// What an applicant is told.
pub(super) type Told<R, E> = Result<Admitted<R>, Refused<E>>;

/// Where an application's turn and its leaver meet.
pub(super) struct Ticket {
    claimed: AtomicU32,
    pub(super) wait: Option<Wait>,
}

impl Ticket {
    pub(super) fn new(wait: Option<Wait>) -> Counted<Self> {
        Counted::new(Ticket { claimed: AtomicU32::new(0), wait })
    }

    /// True for the first (C1).
    #[must_use]
    pub(super) fn claim(&self) -> bool {
        // Ordering: Relaxed. The ticket decides, and publishes nothing: the application came to
        // its turn through the mailbox, and the answer comes through the promise.
        self.claimed.swap(1, Ordering::Relaxed) == 0
    }
}

/// The leaver's side: dropped, it has left, unless the turn was first (C2).
struct Leaver(Counted<Ticket>);

impl Drop for Leaver {
    fn drop(&mut self) {
        let _withdrawn = self.0.claim();
    }
}

/// An application for a place ([`Admission::apply`](crate::Admission::apply)): a `Future` on any
/// runtime, or something to [wait](Self::wait) for.
///
/// Its place in the queue was taken by the call that made it, and is kept whether anybody polls this
/// or not. Dropping it withdraws the application, unless its turn has come: then the entry stands,
/// if there is one. A future is woken at its limit.
///
/// It keeps the admission, and so its ledger, until it is over.
#[must_use = "dropping it withdraws the application, unless its turn has come"]
pub struct Apply<Id, L: Ledger<Id>> {
    stage: Stage<Id, L>,
}

enum Stage<Id, L: Ledger<Id>> {
    Waits(Waits<Id, L>),
    Over(Told<L::Row, L::Error>),
    Taken,
}

/// An application that is not answered.
struct Waits<Id, L: Ledger<Id>> {
    reply: Reply<Told<L::Row, L::Error>>,
    ticket: Leaver,
    /// Its limit, as long as that may end it.
    wait: Option<Wait>,
    actor: Actor<Desk<Id, L>>,
    time: Time,
    sleep: Option<Box<Sleep>>,
}

impl<Id, L> Apply<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    pub(super) fn refused(why: Refused<L::Error>) -> Self {
        Apply { stage: Stage::Over(Err(why)) }
    }

    /// Takes a place in the queue.
    pub(super) fn new(actor: Actor<Desk<Id, L>>, id: Id, wait: Option<Wait>, time: Time) -> Self {
        let (promise, reply) = actor.promise();
        let ticket = Ticket::new(wait);
        let application = Application { ticket: ticket.clone(), asks: Asks { id, promise } };
        match actor.tell(application) {
            // It comes here from a shutdown, or from an executor that is gone.
            Err(_) => Apply::refused(Refused::Gone(end_of(&actor))),
            Ok(()) => {
                let ticket = Leaver(ticket);
                let waits = Waits { reply, ticket, wait, actor, time, sleep: None };
                Apply { stage: Stage::Waits(waits) }
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
    /// use turnwise_locks::{Admission, InMemory, Limits, Refused};
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
    /// use turnwise_locks::{Admission, InMemory, Limits};
    ///
    /// let queue = DrainQueue::new(); // not run yet
    /// let raffle = Admission::builder(InMemory, 1).executor(queue.handle()).open()?;
    /// let mut ada = raffle.apply("ada", Limits::NONE);
    /// assert!(ada.wait_timeout(Duration::from_millis(1)).is_none());
    /// queue.run_until_idle();
    /// assert_eq!(ada.wait()?.place, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_timeout(&mut self, limit: impl Into<Limit>) -> Option<Told<L::Row, L::Error>> {
        let until = match limit.into() {
            Limit::Unlimited => None,
            Limit::Immediate => Some(Duration::ZERO),
            Limit::Within(limit) => match &self.stage {
                Stage::Waits(waits) => waits.now().checked_add(limit),
                _ => None,
            },
        };
        self.wait_until(until)
    }

    /// Is the answer there? Wait-free.
    pub fn is_ready(&self) -> bool {
        match &self.stage {
            Stage::Waits(waits) => waits.reply.is_ready(),
            Stage::Over(_) => true,
            Stage::Taken => false,
        }
    }

    fn wait_until(&mut self, until: Option<Duration>) -> Option<Told<L::Row, L::Error>> {
        loop {
            self.stage = match std::mem::replace(&mut self.stage, Stage::Taken) {
                Stage::Taken => return Some(Err(Refused::Taken)),
                Stage::Over(told) => return Some(told),
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
    fn now(&self) -> Duration {
        shown(|| self.time.now())
    }

    /// Waits once. It comes back if `until` was over first.
    fn step(self, until: Option<Duration>) -> Result<Stage<Id, L>, Self> {
        if !self.reply.is_ready()
            && self.actor.wait_ended(Limit::Immediate) == Err(Reason::Deadlock)
        {
            // This thread is inside a turn of the admission: the answer cannot come meanwhile.
            return Ok(self.give_in(AskError::Refused(Reason::Deadlock)));
        }
        let own = self.wait.map(|wait| wait.at);
        let first = [own, until].into_iter().flatten().min();
        let left = match first {
            None => Limit::Unlimited,
            Some(at) => at.saturating_sub(self.now()).into(),
        };
        let Waits { reply, ticket, wait, actor, time, sleep } = self;
        match reply.wait_timeout(left) {
            Ok(told) => Ok(Stage::Over(told)),
            Err(WaitError::TimedOut(reply)) => {
                let waits = Waits { reply, ticket, wait, actor, time, sleep };
                if own.is_some() && first == own { Ok(waits.time_out()) } else { Err(waits) }
            }
            Err(WaitError::Ask(error)) => Ok(given_in(error, &ticket.0, &actor)),
            Err(_) => unreachable!("a place that is kept is not taken back"),
        }
    }

    /// The time is over: it is not let in any more, unless its turn has come.
    fn time_out(mut self) -> Stage<Id, L> {
        match self.wait.take() {
            Some(wait) if self.ticket.0.claim() => {
                let waited = self.now().saturating_sub(wait.called);
                Stage::Over(Err(Refused::TimedOut { waited }))
            }
            // C2.
            _ => Stage::Waits(self),
        }
    }

    fn give_in(self, error: AskError) -> Stage<Id, L> {
        given_in(error, &self.ticket.0, &self.actor)
    }

    /// Is its time over? If not, the task is woken when it is.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(wait) = self.wait else { return false };
        let left = wait.at.saturating_sub(self.now());
        let time = &self.time;
        let sleep = self.sleep.get_or_insert_with(|| Box::new(time.timers().sleep(left)));
        left.is_zero() || Pin::new(sleep).poll(cx).is_ready()
    }
}

/// There is no answer, or this thread cannot wait for it.
fn given_in<Id, L>(error: AskError, ticket: &Ticket, actor: &Actor<Desk<Id, L>>) -> Stage<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    Stage::Over(Err(match error {
        AskError::Refused(reason @ (Reason::Deadlock | Reason::WouldBlock)) => {
            match ticket.claim() {
                true => Refused::Withdrawn(reason),
                false => Refused::NotAwaited(reason),
            }
        }
        // The promise was dropped with the application: the mailbox has given it back.
        _ => Refused::Gone(end_of(actor)),
    }))
}

/// Why there is nobody who would answer.
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
                Stage::Over(told) => return Poll::Ready(told),
                Stage::Waits(mut waits) => match Pin::new(&mut waits.reply).poll(cx) {
                    Poll::Ready(Ok(told)) => Stage::Over(told),
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

// What is told is not pinned: it is handed out by value.
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
