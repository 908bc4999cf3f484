//! Typed messages: sugar over the same mailbox, in one order with the closures.

use std::any::Any;
use std::fmt;

use super::outgoing::{Returned, Shown};
use super::reply::promise_of;
use super::{Actor, Promise, Reply, WeakActor};
use crate::cell::config::Undelivered;
use crate::cell::message::Message;
use crate::cell::resident::InTurn;

/// Handles messages of type `M`.
///
/// A message is stored in the mailbox as it is. Messages and closures may be mixed on one actor;
/// they run in the order of their acceptance.
///
/// A handler that awaits is an [`AsyncHandler`](super::AsyncHandler). An `async fn handle` of this
/// trait does not compile: error E0053, "expected .., found future".
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
#[diagnostic::on_unimplemented(
    message = "an actor of `{Self}` does not take this message",
    label = "`Handler<{M}>` is not implemented for `{Self}`",
    note = "implement `Handler` of the message's type for the state, or send a closure: \
            `actor.send(|state| ..)`",
    note = "a message with an `AsyncHandler` is sent by `ask_async`, and named to a store's actors by \
            `async_message`"
)]
pub trait Handler<M>: Sized {
    /// The answer to the sender of an [`ask`](Actor::ask).
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

    /// Messages that wait behind this one: late by at most a batch, "at least" from 32,766 on.
    pub fn waiting(&self) -> usize {
        self.turn.header().waiting() as usize
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

impl<M> Shown for Typed<M> {
    type As = M;
}

impl<M> Returned for Typed<M> {
    fn returned(self) -> M {
        self.0
    }
}
