//! The verbs of an actor for senders that wait for room in a full mailbox.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::message::{Handler, Typed};
use super::outgoing::{Returned, Shown, as_sent};
use super::within::{Over, Within};
use super::{Actor, Reply, WaitError, awaiting};
use crate::cell::header::{AWAITS, Header};
use crate::cell::message::{Closure, Message};
use crate::cell::refs::Strong;
use crate::error::{AskError, Reason, SendError, Withdrawn};
use crate::mailbox::node::Envelope;
use crate::mailbox::oneshot::{Asker, oneshot};
use crate::panic;
use crate::send::push::By;
use crate::send::room::Waits;
use crate::time::{Cutoff, Limit};
use crate::turn::blocking::in_poll;
use crate::turn::envelope::Answers;
use crate::turn::envelope::ask::{Ask, Asked};
use crate::turn::envelope::awaited::{AsyncMessage, Awaited};
use crate::turn::envelope::tell::Tell;

/// An actor whose senders wait for room: see [`Actor::waiting`].
///
/// Each verb offers the message at once, as the same verb of the actor does. If the mailbox is
/// full, the message takes its place among those that wait, and what comes back waits: by a
/// blocking `wait`, a blocking `within` a limit, or as a future. Those that wait are let in in the
/// order of their calls, and a place that becomes free is theirs: no sender that comes later takes
/// it. Dropping what comes back before it is ready withdraws the message, unless it was let in
/// meanwhile. [All ways to wait](Actor#every-way-to-wait) stand in one table. No sender waits in
/// an actor that [drops the newest](crate::Overflow::DropNewest).
pub struct Waiting<'a, S> {
    pub(super) actor: &'a Actor<S>,
}

impl<S: Send + 'static> Waiting<'_, S> {
    /// As [`Actor::send`].
    pub fn send<F>(&self, message: F) -> Sending<F>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        Sending::new(&self.actor.handle, Closure::new(message))
    }

    /// As [`Actor::tell`].
    pub fn tell<M: Send + 'static>(&self, message: M) -> Sending<M>
    where
        S: Handler<M>,
    {
        Sending::new(&self.actor.handle, Typed(message))
    }

    /// As [`Actor::call`].
    pub fn call<F, R>(&self, question: F) -> Asking<R>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        Asking::new(&self.actor.handle, Closure::new(question))
    }

    /// As [`Actor::ask`].
    pub fn ask<M, R>(&self, message: M) -> Asking<R, M>
    where
        S: Handler<M, Reply = R>,
        M: Send + 'static,
        R: Send + 'static,
    {
        Asking::new(&self.actor.handle, Typed(message))
    }
}

impl<S> fmt::Debug for Waiting<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waiting").field(self.actor).finish()
    }
}

/// One that waits for room in any actor; `T` is what it gets if its message is not accepted.
trait InLine<T>: Send + Sync {
    /// Waits until this moment of the actor's clock.
    fn wait(self: Box<Self>, at: Option<Duration>) -> Result<(), T>;
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), T>>;
    fn header(&self) -> &Header;
}

/// One that waits, and what becomes of its message if that is not accepted.
struct RoomPlace<S: 'static, E: Envelope + 'static, F> {
    waits: Waits<S, E>,
    refused: F,
}

impl<S, E, T, F> InLine<T> for RoomPlace<S, E, F>
where
    S: Send + 'static,
    E: Envelope + Send + 'static,
    F: Fn(&Header, E, Reason) -> T + Send + Sync,
{
    fn wait(self: Box<Self>, at: Option<Duration>) -> Result<(), T> {
        let RoomPlace { waits, refused } = *self;
        let handle = waits.handle().clone();
        let wait = |handle: &mut Strong<S>| waits.wait(Cutoff::at(handle.header().clock(), at));
        let (handle, sent) = panic::owning(handle, wait);
        sent.map_err(|(message, reason)| refused(handle.header(), message, reason))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), T>> {
        let RoomPlace { waits, refused } = self;
        let sent = ready!(waits.poll(cx));
        let header = waits.handle().header();
        Poll::Ready(sent.map_err(|(message, reason)| refused(header, message, reason)))
    }

    fn header(&self) -> &Header {
        self.waits.handle().header()
    }
}

/// A message on its way into a mailbox that may be full: see [`Waiting`].
#[must_use = "dropping it withdraws the message"]
pub struct Sending<M> {
    state: SendingState<M>,
}

enum SendingState<M> {
    Sent,
    /// Boxed, so that a message that was refused is not in the way of one that was sent.
    Refused(Box<SendError<M>>),
    Waits(Box<dyn InLine<SendError<M>>>),
}

impl<M: 'static> Sending<M> {
    fn new<S, L>(handle: &Strong<S>, message: L) -> Self
    where
        S: Send + 'static,
        L: Message<S> + Returned<As = M>,
    {
        as_sent!(handle, message => Self::of(handle, message))
    }

    #[inline(always)]
    fn of<S, L>(handle: &Strong<S>, message: L) -> Self
    where
        S: Send + 'static,
        L: Message<S> + Returned<As = M>,
    {
        let refused = |header: &Header, tell: Tell<S, L>, reason| {
            header.refused(1, tell.message.returned(), reason)
        };
        let state = match handle.send_or_wait(Tell::new(message)) {
            Ok(Ok(())) => SendingState::Sent,
            Ok(Err((tell, Reason::Full))) => {
                handle.drop_newest(tell.message);
                SendingState::Sent
            }
            Ok(Err((tell, reason))) => {
                SendingState::Refused(Box::new(refused(handle.header(), tell, reason)))
            }
            Err(waits) => SendingState::Waits(Box::new(RoomPlace { waits, refused })),
        };
        Sending { state }
    }
}

impl<M> Sending<M> {
    /// Waits until the message is accepted. May block.
    ///
    /// # Errors
    /// The message comes back, and certainly was not sent, if the actor is closed or stopped;
    /// [`Reason::Deadlock`] inside a turn that the actor waits for, or its own,
    /// [`Reason::WouldBlock`] on a pool's worker that must not wait.
    pub fn wait(self) -> Result<(), SendError<M>> {
        self.within(Limit::Unlimited)
    }

    /// Waits for `limit` at most; zero is one look.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`Reason::Full`] when the time is over.
    pub fn within(self, limit: impl Into<Limit>) -> Result<(), SendError<M>> {
        match self.state {
            SendingState::Sent => Ok(()),
            SendingState::Refused(error) => Err(*error),
            SendingState::Waits(waiter) => {
                let limit = limit.into();
                let (waiter, at) = panic::owning(waiter, |waiter| {
                    Cutoff::new(waiter.header().clock(), limit).moment()
                });
                waiter.wait(at)
            }
        }
    }

    /// [`within`](Self::within) for a task: a future with the same outcomes. The time counts from
    /// this call on, by the actor's clock; the task is woken by [the actor's
    /// timers](crate::ActorBuilder::timers). Polling it runs no turn.
    ///
    /// # Panics
    /// If the clock does; then the message is withdrawn.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, Overflow, Reason};
    ///
    /// let queue = DrainQueue::new(); // not run
    /// let builder = Actor::builder().executor(queue.handle()).capacity(1, Overflow::Reject);
    /// let n = builder.spawn(0)?;
    /// n.send(|n| *n += 1)?;
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let sent = n.waiting().send(|n| *n += 1).within_async(Duration::from_millis(5));
    /// assert_eq!(runtime.block_on(sent).unwrap_err().into_reason(), Reason::Full);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn within_async(self, limit: impl Into<Limit>) -> Within<Self> {
        let limit = limit.into();
        let (this, over) = panic::owning(self, |this| match &this.state {
            SendingState::Waits(waiter) => Over::of(limit, waiter.header()),
            SendingState::Sent | SendingState::Refused(_) => Over::Never,
        });
        Within::new(over, this)
    }
}

impl<M> Future for Sending<M> {
    type Output = Result<(), SendError<M>>;

    /// Runs no turn. Polled again after it was ready, it is ready with `Ok`.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let SendingState::Waits(waiter) = &mut self.state {
            let sent = ready!(waiter.poll(cx));
            in_poll(|| self.state = SendingState::Sent);
            return Poll::Ready(sent);
        }
        Poll::Ready(match std::mem::replace(&mut self.state, SendingState::Sent) {
            SendingState::Refused(error) => Err(*error),
            _ => Ok(()),
        })
    }
}

// Nothing in it is pinned: messages are moved freely.
impl<M> Unpin for Sending<M> {}

impl<M> fmt::Debug for Sending<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = matches!(self.state, SendingState::Waits(_));
        f.debug_struct("Sending").field("waits", &waits).finish_non_exhaustive()
    }
}

/// A question on its way into a mailbox that may be full, and to its answer: see [`Waiting`].
#[must_use = "dropping it withdraws the question"]
pub struct Asking<R, M = ()> {
    /// Before `reply`: a question that is withdrawn leaves the queue first.
    waiter: Option<Box<dyn InLine<Reason>>>,
    reply: Reply<R, M>,
}

impl<R: Send + 'static, M: Send + 'static> Asking<R, M> {
    fn new<S, L>(handle: &Strong<S>, message: L) -> Self
    where
        S: Send + 'static,
        L: Message<S, Answer = R, Payload = M> + Shown,
    {
        as_sent!(handle, message => match handle.ask(message, By::Sender) {
            Err((message, Reason::Full)) if !handle.drops_newest() => {
                let (answerer, asker) = oneshot(Asked::new(message));
                Self::sent(handle, Ask::<S, _>::new(answerer), asker)
            }
            // If there is room, it is a question like any other.
            answer => {
                let reply = Reply::of(handle, answer, Message::<S>::payload);
                Asking { waiter: None, reply }
            }
        })
    }

    /// Waits for room with a turn that may wait.
    pub(super) fn of_turn<S, L>(handle: &Strong<S>, message: L) -> Self
    where
        S: Send + 'static,
        L: AsyncMessage<S, Answer = R, Payload = M> + Shown,
    {
        as_sent!(handle, message => {
            let (turn, asker) = Awaited::new(message);
            handle.header().announce(AWAITS);
            if handle.drops_newest() {
                let reply = awaiting::sent(handle, turn, asker, By::Sender);
                return Asking { waiter: None, reply };
            }
            Self::sent(handle, turn, asker)
        })
    }

    /// Sends a question, or has it wait for room.
    fn sent<S, E>(handle: &Strong<S>, question: E, asker: Asker<R, M>) -> Self
    where
        S: Send + 'static,
        E: Answers + Send + 'static,
    {
        let reply = Reply::pending(asker, handle.to_ref());
        let refused = |header: &Header, question: E, reason: Reason| {
            header.report_refused(&reason, 1);
            match &reason {
                Reason::Full => question.leave(),
                _ => question.refuse(reason.clone()),
            }
            reason
        };
        let waiter = match handle.send_or_wait(question) {
            Ok(Ok(())) => None,
            Ok(Err((question, reason))) => {
                refused(handle.header(), question, reason);
                None
            }
            Err(waits) => Some(Box::new(RoomPlace { waits, refused }) as Box<dyn InLine<Reason>>),
        };
        Asking { waiter, reply }
    }
}

impl<R, M> Asking<R, M> {
    /// Waits until the question is accepted and answered. May block.
    ///
    /// # Errors
    /// As [`Reply::wait`].
    pub fn wait(mut self) -> Result<R, AskError> {
        if let Some(waiter) = self.waiter.take() {
            // A question that is refused is answered with the reason.
            let _ = waiter.wait(None);
        }
        self.reply.wait()
    }

    /// Waits for `limit` at most, room and answer together; zero is one look. A question that
    /// has not started by then is withdrawn. May block.
    ///
    /// # Errors
    /// As [`Reply::within`].
    pub fn within(self, limit: impl Into<Limit>) -> Result<R, WaitError<R, M>> {
        let limit = limit.into();
        let (this, at) = panic::owning(self, |this| this.reply.moment(limit));
        this.until(at)
    }

    /// [`within`](Self::within) for a task: a future with the same outcomes. The time counts from
    /// this call on, by the actor's clock; the task is woken by [the actor's
    /// timers](crate::ActorBuilder::timers). Polling it runs no turn.
    ///
    /// # Panics
    /// If the clock does; then the question is withdrawn if it has no room yet.
    pub fn within_async(self, limit: impl Into<Limit>) -> Within<Self> {
        let limit = limit.into();
        let (this, over) = panic::owning(self, |this| this.reply.over(limit));
        Within::new(over, this)
    }

    pub(super) fn until(self, at: Option<Duration>) -> Result<R, WaitError<R, M>> {
        let wait = |this: &mut Self| this.waiter.take().map(|waiter| waiter.wait(at));
        let (this, waited) = panic::owning(self, wait);
        if let Some(Err(Reason::Full)) = waited {
            let who = this.reply.who();
            return match this.reply.cancel() {
                Ok(message) => Err(WaitError::Cancelled(Withdrawn::new(message, who))),
                Err(reply) => Err(WaitError::TimedOut(reply)),
            };
        }
        this.reply.until(at)
    }
}

impl<R, M> Future for Asking<R, M> {
    type Output = Result<R, AskError>;

    /// Runs no turn. Polled again after it was ready, it is ready with [`AskError::Taken`].
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(waiter) = &mut self.waiter {
            // A question that is refused is answered with the reason.
            let _ = ready!(waiter.poll(cx));
            in_poll(|| self.waiter = None);
        }
        Pin::new(&mut self.reply).poll(cx)
    }
}

// Nothing in it is pinned.
impl<R, M> Unpin for Asking<R, M> {}

impl<R, M> fmt::Debug for Asking<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("reply", &self.reply).finish_non_exhaustive()
    }
}

impl<R, M> Future for Within<Asking<R, M>> {
    type Output = Result<R, WaitError<R, M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let late = |asking: Asking<R, M>| asking.until(Some(Duration::ZERO));
        let polled = self.poll_once(cx, |answer| answer.map_err(WaitError::Ask), late);
        polled.map(|answer| answer.unwrap_or(Err(WaitError::Ask(AskError::Taken))))
    }
}

impl<M> Future for Within<Sending<M>> {
    type Output = Result<(), SendError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The message is withdrawn, unless it was let in meanwhile.
        let late = |sending: Sending<M>| sending.within(Limit::Immediate);
        self.poll_once(cx, |sent| sent, late).map(|sent| sent.unwrap_or(Ok(())))
    }
}
