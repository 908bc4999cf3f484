//! Actors that take messages of one type, whatever else they are.

use std::any::{Any, type_name};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use super::message::{Handler, Typed};
use super::{Actor, Asking, Reply, Sending, WeakActor};
use crate::cell::config::Undelivered;
use crate::cell::message::Message;
use crate::cell::owner::InTurn;
use crate::error::{SendError, StopCause};
use crate::send::push::By;

impl<S: Send + 'static> Actor<S> {
    /// This actor as one that takes messages of type `M`, whatever else it is, and whatever it
    /// answers: an [`ask`](Recipient::ask) of it gives `()`, when the message was handled.
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
    /// let all: [Recipient<&'static str>; 2] = [log.recipient(), count.recipient()];
    /// for recipient in &all {
    ///     recipient.tell("hello")?;
    ///     recipient.ask("are you there?").wait()?;
    /// }
    /// assert_eq!(count.with(|count| count.0)?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recipient<M: Send + 'static>(&self) -> Recipient<M>
    where
        S: Handler<M>,
    {
        Recipient { actor: Through::<S, Quiet<M>>::boxed(self.clone()) }
    }

    /// This actor as one that answers messages of type `M` with its handler's reply, whatever else
    /// it is.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Context, Handler, Recipient};
    ///
    /// struct Shop(u32);
    /// struct Price(&'static str);
    /// impl Handler<Price> for Shop {
    ///     type Reply = u32;
    ///     fn handle(&mut self, Price(thing): Price, _: &mut Context<'_, Self>) -> u32 {
    ///         self.0 * thing.len() as u32
    ///     }
    /// }
    ///
    /// let shops: Vec<Recipient<Price, u32>> =
    ///     [3, 2].map(|margin| Actor::new(Shop(margin)).reply_recipient()).into();
    /// let prices: Vec<_> = shops.iter().map(|shop| shop.ask(Price("tea"))).collect();
    /// let prices: Result<Vec<_>, _> = prices.into_iter().map(|price| price.wait()).collect();
    /// assert_eq!(prices?, [9, 6]);
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    pub fn reply_recipient<M: Send + 'static>(&self) -> Recipient<M, S::Reply>
    where
        S: Handler<M>,
    {
        Recipient { actor: Through::<S, Typed<M>>::boxed(self.clone()) }
    }
}

/// A typed message whose answer concerns nobody: that it was handled does.
struct Quiet<M>(M);

impl<M> From<M> for Quiet<M> {
    fn from(message: M) -> Self {
        Quiet(message)
    }
}

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

    fn kind() -> &'static str {
        type_name::<M>()
    }
}

trait Takes<M, R>: Send + Sync {
    fn tell(&self, message: M) -> Result<(), SendError<M>>;
    fn ask(&self, message: M) -> Reply<R, M>;
    fn tell_waiting(&self, message: M) -> Sending<M>;
    fn ask_waiting(&self, message: M) -> Asking<R, M>;
    fn is_closed(&self) -> bool;
    fn stop_cause(&self) -> Option<StopCause>;
    fn name(&self) -> Option<&str>;
    fn addr(&self) -> usize;
    fn another(&self) -> Box<dyn Takes<M, R>>;
    fn downgrade(&self) -> Box<dyn Finds<M, R>>;
}

trait Finds<M, R>: Send + Sync {
    fn upgrade(&self) -> Option<Box<dyn Takes<M, R>>>;
    fn name(&self) -> Option<&str>;
    fn addr(&self) -> usize;
    fn another(&self) -> Box<dyn Finds<M, R>>;
}

/// A handle to an actor, and as what its messages travel.
struct Through<H, L> {
    actor: H,
    by: PhantomData<fn(L) -> L>,
}

impl<S, L> Through<S, L> {
    fn boxed<M, R>(actor: Actor<S>) -> Box<dyn Takes<M, R>>
    where
        Through<Actor<S>, L>: Takes<M, R> + 'static,
    {
        Box::new(Through { actor, by: PhantomData })
    }
}

impl<S, M, L> Takes<M, L::Answer> for Through<Actor<S>, L>
where
    S: Send + 'static,
    M: Send + 'static,
    L: Message<S, Payload = M> + From<M>,
{
    fn tell(&self, message: M) -> Result<(), SendError<M>> {
        let sent = self.actor.handle.send(L::from(message));
        sent.map_err(|error| error.map(L::payload))
    }
    fn ask(&self, message: M) -> Reply<L::Answer, M> {
        let answer = self.actor.handle.ask(L::from(message), By::Sender);
        Reply::of(&self.actor.handle, answer, L::payload)
    }
    fn tell_waiting(&self, message: M) -> Sending<M> {
        Sending::new(&self.actor.handle, L::from(message), L::payload)
    }
    fn ask_waiting(&self, message: M) -> Asking<L::Answer, M> {
        Asking::new(&self.actor.handle, L::from(message), L::payload)
    }
    fn is_closed(&self) -> bool {
        self.actor.is_closed()
    }
    fn stop_cause(&self) -> Option<StopCause> {
        self.actor.stop_cause()
    }
    fn name(&self) -> Option<&str> {
        self.actor.name()
    }
    fn addr(&self) -> usize {
        self.actor.handle.addr()
    }
    fn another(&self) -> Box<dyn Takes<M, L::Answer>> {
        Through::<S, L>::boxed(self.actor.clone())
    }
    fn downgrade(&self) -> Box<dyn Finds<M, L::Answer>> {
        Box::new(Through::<_, L> { actor: self.actor.downgrade(), by: PhantomData })
    }
}

impl<S, M, L> Finds<M, L::Answer> for Through<WeakActor<S>, L>
where
    S: Send + 'static,
    M: Send + 'static,
    L: Message<S, Payload = M> + From<M>,
{
    fn upgrade(&self) -> Option<Box<dyn Takes<M, L::Answer>>> {
        self.actor.upgrade().map(Through::<S, L>::boxed)
    }
    fn name(&self) -> Option<&str> {
        self.actor.name()
    }
    fn addr(&self) -> usize {
        self.actor.cell().addr()
    }
    fn another(&self) -> Box<dyn Finds<M, L::Answer>> {
        Box::new(Through::<_, L> { actor: self.actor.clone(), by: PhantomData })
    }
}

/// A handle to any actor that takes messages of type `M`, and answers them with an `R`: see
/// [`Actor::recipient`] and [`Actor::reply_recipient`]. It keeps the actor going.
///
/// Two are equal if they lead to the same actor. So a set of subscribers is a `HashSet` of them. A
/// clone is one allocation.
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
/// assert!(subscribers.insert(one.recipient()) && subscribers.insert(other.recipient()));
/// assert!(!subscribers.insert(one.recipient()), "it is there already");
/// assert!(subscribers.remove(&other.recipient()));
/// ```
pub struct Recipient<M, R = ()> {
    actor: Box<dyn Takes<M, R>>,
}

impl<M, R> Recipient<M, R> {
    /// As [`Actor::tell`].
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    pub fn tell(&self, message: M) -> Result<(), SendError<M>> {
        self.actor.tell(message)
    }

    /// As [`Actor::ask`].
    pub fn ask(&self, message: M) -> Reply<R, M> {
        self.actor.ask(message)
    }

    /// The same verbs, for senders that wait for room in a full mailbox: as [`Actor::waiting`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, Context, Handler, Overflow};
    ///
    /// struct Sum(u64);
    /// impl Handler<u64> for Sum {
    ///     type Reply = u64;
    ///     fn handle(&mut self, n: u64, _: &mut Context<'_, Self>) -> u64 {
    ///         self.0 += n;
    ///         self.0
    ///     }
    /// }
    ///
    /// let sum = Actor::builder().capacity(1, Overflow::Reject).spawn(Sum(0))?.reply_recipient();
    /// sum.waiting().tell(2).wait()?;
    /// assert_eq!(sum.waiting().ask(3).within(Duration::from_secs(1)).unwrap(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waiting(&self) -> WaitingRecipient<'_, M, R> {
        WaitingRecipient { actor: &*self.actor }
    }

    /// A handle that does not keep the actor going.
    pub fn downgrade(&self) -> WeakRecipient<M, R> {
        WeakRecipient { actor: self.actor.downgrade() }
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

/// A recipient whose senders wait for room: see [`Recipient::waiting`] and
/// [`Waiting`](crate::Waiting).
pub struct WaitingRecipient<'a, M, R = ()> {
    actor: &'a dyn Takes<M, R>,
}

impl<M, R> WaitingRecipient<'_, M, R> {
    /// As [`Recipient::tell`].
    pub fn tell(&self, message: M) -> Sending<M> {
        self.actor.tell_waiting(message)
    }

    /// As [`Recipient::ask`].
    pub fn ask(&self, message: M) -> Asking<R, M> {
        self.actor.ask_waiting(message)
    }
}

/// A handle to any actor that takes messages of type `M`, which does not keep it going: see
/// [`Recipient::downgrade`].
///
/// Two are equal if they lead, or have led, to the same actor.
///
/// # Examples
/// ```
/// use turnwise::{Actor, Context, Handler, WeakRecipient};
///
/// struct Sum(u64);
/// impl Handler<u64> for Sum {
///     type Reply = ();
///     fn handle(&mut self, n: u64, _: &mut Context<'_, Self>) {
///         self.0 += n;
///     }
/// }
///
/// let sum = Actor::new(Sum(0));
/// let mut subscribers: Vec<WeakRecipient<u64>> = vec![sum.recipient().downgrade()];
/// drop(sum);
/// subscribers.retain(|subscriber| subscriber.upgrade().is_some());
/// assert!(subscribers.is_empty());
/// ```
pub struct WeakRecipient<M, R = ()> {
    actor: Box<dyn Finds<M, R>>,
}

impl<M, R> WeakRecipient<M, R> {
    /// A handle, unless all of them have been dropped: an actor never comes back. Lock-free.
    pub fn upgrade(&self) -> Option<Recipient<M, R>> {
        self.actor.upgrade().map(|actor| Recipient { actor })
    }

    /// The name that the actor was built with.
    pub fn name(&self) -> Option<&str> {
        self.actor.name()
    }
}

impl<M, R> Clone for Recipient<M, R> {
    fn clone(&self) -> Self {
        Recipient { actor: self.actor.another() }
    }
}

impl<M, R> Clone for WeakRecipient<M, R> {
    fn clone(&self) -> Self {
        WeakRecipient { actor: self.actor.another() }
    }
}

impl<M, R> PartialEq for Recipient<M, R> {
    fn eq(&self, other: &Self) -> bool {
        self.actor.addr() == other.actor.addr()
    }
}

impl<M, R> Eq for Recipient<M, R> {}

impl<M, R> Hash for Recipient<M, R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.actor.addr().hash(state);
    }
}

impl<M, R> PartialEq for WeakRecipient<M, R> {
    fn eq(&self, other: &Self) -> bool {
        // It keeps the actor's memory: no other actor comes there meanwhile.
        self.actor.addr() == other.actor.addr()
    }
}

impl<M, R> Eq for WeakRecipient<M, R> {}

impl<M, R> Hash for WeakRecipient<M, R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.actor.addr().hash(state);
    }
}

impl<M, R> fmt::Debug for Recipient<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipient")
            .field("name", &self.name())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl<M, R> fmt::Debug for WaitingRecipient<'_, M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingRecipient").field("name", &self.actor.name()).finish_non_exhaustive()
    }
}

impl<M, R> fmt::Debug for WeakRecipient<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakRecipient").field("name", &self.name()).finish_non_exhaustive()
    }
}
