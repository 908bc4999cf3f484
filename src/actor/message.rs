//! Typed messages: sugar over the same mailbox, in one order with the closures.

use std::any::Any;
use std::fmt;

use super::reply::promise_of;
use super::{Actor, Promise, Reply, WeakActor};
use crate::cell::config::Undelivered;
use crate::cell::message::Message;
use crate::cell::owner::InTurn;
use crate::error::{Reason, SendError, StopCause};
use crate::send::push::By;

/// What a state does with messages of type `M`.
///
/// A message is stored in the mailbox as it is. Messages and closures may be mixed on one actor;
/// they run in the order of their acceptance.
///
/// # Examples
/// ```
/// use turnwise::{Actor, Context, Handler};
///
/// struct Account(u64);
/// struct Deposit(u64);
/// struct Balance;
///
/// impl Handler<Deposit> for Account {
///     type Reply = u64;
///     fn handle(&mut self, Deposit(amount): Deposit, _: &mut Context<'_, Self>) -> u64 {
///         self.0 += amount;
///         self.0
///     }
/// }
/// impl Handler<Balance> for Account {
///     type Reply = u64;
///     fn handle(&mut self, _: Balance, _: &mut Context<'_, Self>) -> u64 {
///         self.0
///     }
/// }
///
/// let account = Actor::new(Account(10));
/// account.tell(Deposit(5))?;
/// assert_eq!(account.ask(Balance).wait()?, 15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Handler<M>: Sized {
    /// What the sender of an [`ask`](Actor::ask) gets.
    type Reply: Send + 'static;

    /// One turn.
    fn handle(&mut self, message: M, cx: &mut Context<'_, Self>) -> Self::Reply;
}

/// The actor that a handler runs in, seen from inside.
pub struct Context<'a, S> {
    pub(super) turn: InTurn<'a, S>,
}

impl<S> Context<'_, S> {
    /// A handle to this actor; none once all handles are gone and it is only running what was left:
    /// an actor never comes back.
    pub fn actor(&self) -> Option<Actor<S>> {
        self.turn.handle().map(|handle| Actor { handle })
    }

    /// A handle to this actor that does not keep it going.
    pub fn weak(&self) -> WeakActor<S> {
        WeakActor::of(self.turn.weak())
    }

    /// Stops this actor when the turn is over, as [`Actor::stop`] does.
    pub fn stop(&mut self) {
        self.turn.stop();
    }

    /// The name that the actor was built with.
    pub fn name(&self) -> Option<&str> {
        self.turn.header().config().name.as_deref()
    }

    /// A [`promise`](crate::promise) whose waits are measured on this actor's clock, as waits for
    /// the actor are. Lock-free.
    pub fn promise<R: Send + 'static>(&self) -> (Promise<R>, Reply<R>) {
        promise_of(self.turn.header().config())
    }

    /// Messages that wait behind this one: late by at most a batch, "at least" from 65,534 on.
    pub fn waiting(&self) -> usize {
        self.turn.header().word.load().waiting() as usize
    }
}

impl<S> fmt::Debug for Context<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("actor", &self.name())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// A typed message in the mailbox.
pub(super) struct Typed<M>(pub(super) M);

impl<S: Handler<M> + 'static, M: Send + 'static> Message<S> for Typed<M> {
    type Answer = S::Reply;
    type Payload = M;

    #[inline(always)]
    fn run(self, state: &mut S, turn: InTurn<'_, S>) -> S::Reply {
        state.handle(self.0, &mut Context { turn })
    }

    fn payload(self) -> M {
        self.0
    }

    fn undelivered(self) -> Undelivered<S> {
        Undelivered::Message(Box::new(self.0) as Box<dyn Any + Send>)
    }
}

/// A refused message, for its sender.
#[cold]
pub(super) fn message_back<M>((message, reason): (Typed<M>, Reason)) -> SendError<M> {
    SendError::new(message.0, reason)
}

impl<S: Send + 'static> Actor<S> {
    /// Sends a typed message; as [`send`](Self::send) in every respect. What the handler returns is
    /// dropped.
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    #[inline]
    pub fn tell<M: Send + 'static>(&self, message: M) -> Result<(), SendError<M>>
    where
        S: Handler<M>,
    {
        self.handle.send(Typed(message)).map_err(message_back)
    }

    /// Sends a typed message whose result comes back in a [`Reply`]; as [`call`](Self::call) in
    /// every respect.
    ///
    /// [`Reply::cancel`] gives the message back, also if it was refused.
    #[inline]
    pub fn ask<M: Send + 'static>(&self, message: M) -> Reply<S::Reply, M>
    where
        S: Handler<M>,
    {
        Reply::of(self.handle.ask(Typed(message), By::Sender), |Typed(message)| message)
    }

    /// This actor as one that takes messages of type `M`, whatever else it is.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Context, Handler, Recipient};
    ///
    /// struct Log(Vec<String>);
    /// struct Count(usize);
    /// impl Handler<&'static str> for Log {
    ///     type Reply = ();
    ///     fn handle(&mut self, line: &'static str, _: &mut Context<'_, Self>) {
    ///         self.0.push(line.into());
    ///     }
    /// }
    /// impl Handler<&'static str> for Count {
    ///     type Reply = ();
    ///     fn handle(&mut self, _: &'static str, _: &mut Context<'_, Self>) {
    ///         self.0 += 1;
    ///     }
    /// }
    ///
    /// let (log, count) = (Actor::new(Log(vec![])), Actor::new(Count(0)));
    /// let all: [Recipient<&'static str>; 2] = [log.recipient(), count.recipient()];
    /// for recipient in &all {
    ///     recipient.tell("hello")?;
    /// }
    /// assert_eq!(count.with(|count| count.0)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recipient<M: Send + 'static>(&self) -> Recipient<M>
    where
        S: Handler<M>,
    {
        Recipient { actor: Box::new(self.clone()) }
    }
}

trait Takes<M>: Send + Sync {
    fn tell(&self, message: M) -> Result<(), SendError<M>>;
    fn is_closed(&self) -> bool;
    fn stop_cause(&self) -> Option<StopCause>;
    fn name(&self) -> Option<&str>;
    fn another(&self) -> Box<dyn Takes<M>>;
}

impl<S: Handler<M> + Send + 'static, M: Send + 'static> Takes<M> for Actor<S> {
    fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.tell(message)
    }
    fn is_closed(&self) -> bool {
        self.is_closed()
    }
    fn stop_cause(&self) -> Option<StopCause> {
        self.stop_cause()
    }
    fn name(&self) -> Option<&str> {
        self.name()
    }
    fn another(&self) -> Box<dyn Takes<M>> {
        Box::new(self.clone())
    }
}

/// A handle to any actor that takes messages of type `M`: see [`Actor::recipient`]. It keeps the
/// actor going.
pub struct Recipient<M> {
    actor: Box<dyn Takes<M>>,
}

impl<M> Recipient<M> {
    /// As [`Actor::tell`].
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.actor.tell(message)
    }

    /// As [`Actor::is_closed`].
    pub fn is_closed(&self) -> bool {
        self.actor.is_closed()
    }

    /// As [`Actor::stop_cause`].
    pub fn stop_cause(&self) -> Option<StopCause> {
        self.actor.stop_cause()
    }

    /// As [`Actor::name`].
    pub fn name(&self) -> Option<&str> {
        self.actor.name()
    }
}

impl<M> Clone for Recipient<M> {
    fn clone(&self) -> Self {
        Recipient { actor: self.actor.another() }
    }
}

impl<M> fmt::Debug for Recipient<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipient")
            .field("name", &self.name())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
