//! Actors that take messages of one type, whatever else they are.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::message::{Handler, Typed};
use super::outgoing::Shown;
use super::{Actor, Reply, outgoing};
use crate::cell::config::Undelivered;
use crate::cell::header::Header;
use crate::cell::message::Message;
use crate::cell::resident::InTurn;
use crate::error::{SendError, StopCause};
use crate::mailbox::word::CLOSED;
use crate::send::push::By;

/// A typed message whose answer is not wanted, but that it was handled.
struct Quiet<M>(M);

impl<S: Handler<M> + 'static, M: Send + 'static> Message<S> for Quiet<M> {
    type Answer = ();
    type Payload = M;

    fn run(self, state: &mut S, turn: InTurn<'_, S>) {
        drop(Typed(self.0).run(state, turn));
    }

    fn payload(self) -> M {
        self.0
    }

    fn undelivered(self) -> Undelivered<S> {
        Undelivered::Message(Box::new(self.0) as Box<dyn Any + Send>)
    }
}

impl<M> Shown for Quiet<M> {
    type As = M;
}

trait Takes<M>: Send + Sync {
    fn tell(&self, message: M) -> Result<(), SendError<M>>;
    fn ask(&self, message: M) -> Reply<(), M>;
    fn header(&self) -> &Header;
}

impl<S, M> Takes<M> for Actor<S>
where
    S: Handler<M> + Send + 'static,
    M: Send + 'static,
{
    fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.tell(message)
    }

    fn ask(&self, message: M) -> Reply<(), M> {
        outgoing::ask(&self.handle, Quiet(message), By::Sender)
    }

    fn header(&self) -> &Header {
        self.handle.header()
    }
}

/// A handle to any actor that takes messages of type `M`. It keeps the actor going.
///
/// Two are equal if they lead to the same actor. So a set of subscribers is a `HashSet` of them. A
/// clone is one atomic addition.
///
/// # Examples
/// ```
/// use std::collections::HashSet;
/// use turnwise::{Actor, Context, Handler, Recipient};
///
/// struct Sum(u64);
/// impl Handler<u64> for Sum {
///     type Reply = ();
///     fn handle(&mut self, n: u64, _: &mut Context<'_, Self>) {
///         self.0 += n;
///     }
/// }
///
/// let (one, other) = (Actor::new(Sum(0)), Actor::new(Sum(0)));
/// let mut subscribers = HashSet::<Recipient<u64>>::new();
/// assert!(subscribers.insert(Recipient::new(&one)) && subscribers.insert(Recipient::new(&other)));
/// assert!(!subscribers.insert(Recipient::new(&one)), "it is there already");
/// assert!(subscribers.remove(&Recipient::new(&other)));
/// ```
pub struct Recipient<M> {
    actor: Arc<dyn Takes<M>>,
}

impl<M> Recipient<M> {
    /// Returns a handle to the actor, which takes messages of type `M`, whatever else it takes, and
    /// whatever it answers: an [`ask`](Self::ask) gives `()`, when the message was handled.
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
    ///     type Reply = usize;
    ///     fn handle(&mut self, _: &'static str, _: &mut Context<'_, Self>) -> usize {
    ///         self.0 += 1;
    ///         self.0
    ///     }
    /// }
    ///
    /// let (log, count) = (Actor::new(Log(vec![])), Actor::new(Count(0)));
    /// let all: [Recipient<&'static str>; 2] = [Recipient::new(&log), Recipient::new(&count)];
    /// for recipient in &all {
    ///     recipient.tell("hello")?;
    ///     recipient.ask("are you there?").wait()?;
    /// }
    /// assert_eq!(count.with(|count| count.0)?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new<S: Handler<M> + Send + 'static>(actor: &Actor<S>) -> Self
    where
        M: Send + 'static,
    {
        Recipient { actor: Arc::new(actor.clone()) }
    }

    /// As [`Actor::tell`].
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.actor.tell(message)
    }

    /// As [`Actor::ask`]; the answer says that the message was handled.
    pub fn ask(&self, message: M) -> Reply<(), M> {
        self.actor.ask(message)
    }

    /// As [`Actor::is_closed`].
    pub fn is_closed(&self) -> bool {
        self.actor.header().word.load().has(CLOSED)
    }

    /// As [`Actor::stop_cause`].
    pub fn stop_cause(&self) -> Option<StopCause> {
        self.actor.header().stop_cause()
    }

    /// As [`Actor::name`].
    pub fn name(&self) -> Option<&str> {
        self.actor.header().config().name.as_deref()
    }
}

impl<M> Clone for Recipient<M> {
    fn clone(&self) -> Self {
        Recipient { actor: self.actor.clone() }
    }
}

impl<M> PartialEq for Recipient<M> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.actor.header(), other.actor.header())
    }
}

impl<M> Eq for Recipient<M> {}

impl<M> Hash for Recipient<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.actor.header(), state);
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
