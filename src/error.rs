//! Every public error.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::panic::{self, Payload};
use crate::sync::Exclusive;

/// A message that was not accepted, and why. The message is handed back: nothing is lost in
/// silence.
///
/// # Examples
/// ```
/// # use turnwise::{Actor, Reason};
/// let numbers = Actor::new(Vec::new());
/// numbers.close();
/// let refused = numbers.send(|numbers| numbers.push(1)).unwrap_err();
/// assert_eq!(refused.reason(), &Reason::Closed);
/// let message = refused.into_message();
/// message(&mut vec![0]); // it is the caller's again
/// ```
pub struct SendError<M> {
    /// Not to be reached by a shared reference: so the error can be shared whatever the message is.
    message: Exclusive<M>,
    reason: Reason,
    who: Who,
}

impl<M> SendError<M> {
    pub(crate) fn new(message: M, reason: Reason, who: Who) -> Self {
        SendError { message: Exclusive::new(message), reason, who }
    }

    /// Maps what the message was made of.
    #[inline]
    pub(crate) fn map<N>(self, back: impl FnOnce(M) -> N) -> SendError<N> {
        let SendError { message, reason, who } = self;
        SendError::new(back(message.into_inner()), reason, who)
    }

    /// The actor that did not accept it: its name, or the type of its state if it has none.
    pub fn actor(&self) -> &str {
        self.who.as_str()
    }

    /// The reason that it was not accepted.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The message.
    pub fn message_mut(&mut self) -> &mut M {
        self.message.get_mut()
    }

    /// Gives the message back.
    pub fn into_message(self) -> M {
        self.message.into_inner()
    }

    /// Gives the message and the reason back.
    pub fn into_parts(self) -> (M, Reason) {
        (self.message.into_inner(), self.reason)
    }

    /// Drops the message, and keeps the reason: an error without a type parameter.
    pub fn into_reason(self) -> Reason {
        self.reason
    }
}

/// Drops the message. So `?` works in functions that return [`Reason`], or [`AskError`].
impl<M> From<SendError<M>> for Reason {
    fn from(error: SendError<M>) -> Self {
        error.reason
    }
}

/// Drops the message.
impl<M> From<SendError<M>> for AskError {
    fn from(error: SendError<M>) -> Self {
        AskError::Refused(error.reason, error.who.into())
    }
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError")
            .field("actor", &self.actor())
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message not accepted by `{}`: {}", self.actor(), self.reason)
    }
}

impl<M> Error for SendError<M> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason.cause()
    }
}

/// The message of a question that was cancelled
/// ([`WaitError::Cancelled`](crate::WaitError::Cancelled)): it certainly never runs.
pub struct Withdrawn<M> {
    message: Exclusive<M>,
    who: Option<Who>,
}

impl<M> Withdrawn<M> {
    pub(crate) fn new(message: M, who: Option<Who>) -> Self {
        Withdrawn { message: Exclusive::new(message), who }
    }

    /// The actor that has not run it: its name, or the type of its state if it has none. `None` if
    /// the answer was [promised](crate::promise) by no actor.
    pub fn actor(&self) -> Option<&str> {
        self.who.as_ref().map(Who::as_str)
    }

    /// Gives the message back.
    pub fn into_message(self) -> M {
        self.message.into_inner()
    }
}

impl<M> fmt::Debug for Withdrawn<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Withdrawn").field("actor", &self.actor()).finish_non_exhaustive()
    }
}

/// The reason that a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// As many messages wait as the mailbox has room for.
    Full,
    /// The actor was closed: it takes no new messages.
    Closed,
    /// The actor was stopped.
    Stopped(StopCause),
    /// Waiting could never end: what is waited for waits for this turn, directly or through others
    /// ([`Cycle`]).
    Deadlock(Cycle),
    /// Waiting was refused: this thread is a pool's worker, and no thread could take its place
    /// meanwhile ([`executor::Blocking`](crate::executor::Blocking)); or it is the one that the
    /// actor's executor needs
    /// ([`Executor::needs_this_thread`](crate::Executor::needs_this_thread)).
    WouldBlock,
    /// Something runs or waits in the mailbox: [`Actor::try_with`](crate::Actor::try_with)
    /// overtakes no other, and does not wait.
    Busy,
    /// The actor is run by its executor, so not by this thread.
    HasExecutor,
}

impl Reason {
    /// True if the caller must not wait as it was about to: its program is wrong.
    pub(crate) fn forbids_wait(&self) -> bool {
        matches!(self, Reason::Deadlock(_) | Reason::WouldBlock)
    }

    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Reason::Stopped(cause) if *cause != StopCause::Requested => Some(cause),
            _ => None,
        }
    }
}

impl Error for Reason {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Full => f.write_str("the mailbox is full"),
            Reason::Closed => f.write_str("the actor is closed"),
            Reason::Stopped(cause) => write!(f, "the actor has stopped: {cause}"),
            Reason::Deadlock(cycle) => cycle.fmt(f),
            Reason::WouldBlock => f.write_str(
                "this thread must not wait: no other one would take its place; await it",
            ),
            Reason::Busy => f.write_str("the actor is busy"),
            Reason::HasExecutor => f.write_str("the actor is run by its executor"),
        }
    }
}

/// Actors whose turns wait for each other, in a circle: none of them could ever go on.
///
/// One of them is refused ([`Reason::Deadlock`]), and only one, at once: the last, whose wait would
/// have closed the circle; if waits of it have limits, the one whose limit would end first. The
/// others go on when it does. Its question is withdrawn, and never runs: a wait for a question that
/// has begun is not refused. Of limits by [different clocks](crate::Clock::identity) the first is
/// not known: one of them ends.
///
/// A wait has a place in a circle if a thread sleeps in it inside a turn: for an answer, for room,
/// for an actor to be idle or to end. A [`shutdown`](crate::System::shutdown) waits for the end of
/// one actor after the other. A future that an async turn polls with another waker than its own, as
/// `FuturesUnordered` does, counts as a thread that sleeps there, for a `block_on` looks the same:
/// such a turn may be refused though it would go on. At most 4,096 turns are followed.
///
/// A circle that goes through something else is not found: through a [`promise`](crate::promise), a
/// lock or a channel, a `block_on` inside a turn, a turn that [awaits](crate::Actor::run), or an
/// executor all of whose threads sleep. Nor is one of replies alone that were handed to turns which
/// have not asked: two turns that get each other's when both have begun.
///
/// A thread that calls [`with`](crate::Actor::with) inside a turn may run there, after its own
/// closure, what others have left in that mailbox. What it runs so may not wait for the turns that
/// the thread is inside of: it is refused.
///
/// Knapp's survey (Deadlock Detection in Distributed Databases, 1987) calls this the
/// single-resource model: a turn waits for one thing at a time, so a circle is found by a walk.
///
/// # Examples
/// ```
/// use turnwise::{Actor, AskError, Reason};
///
/// let ada = Actor::builder().name("ada").spawn(1)?;
/// let bob = Actor::builder().name("bob").spawn(2)?;
/// let (back, there) = (ada.clone(), bob.clone());
/// let answer = ada.with(move |_| there.with(move |_| back.with(|n| *n)))??;
/// let Err(AskError::Refused(Reason::Deadlock(cycle), _)) = &answer else { panic!("{answer:?}") };
/// assert_eq!(cycle.actors(), ["bob", "ada"]);
/// assert_eq!(cycle.to_string(), "`bob` waits for `ada`, which waits for `bob`");
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Cycle(Arc<Vec<String>>);

impl Cycle {
    pub(crate) fn new(actors: Vec<String>) -> Self {
        Cycle(Arc::new(actors))
    }

    /// The names of the actors, or the types of their states. The turn of the first is the one that
    /// is refused; each waits for the next, and the last one for the first.
    pub fn actors(&self) -> &[String] {
        &self.0
    }
}

impl<T: Into<String>, const N: usize> From<[T; N]> for Cycle {
    fn from(actors: [T; N]) -> Self {
        Cycle::new(actors.map(Into::into).into())
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, others) = match &**self.0 {
            [] => return f.write_str("a turn waits for itself"),
            [one] => return write!(f, "`{one}` waits for itself"),
            [first, others @ ..] => (first, others),
        };
        write!(f, "`{first}` waits for ")?;
        for other in others {
            write!(f, "`{other}`, which waits for ")?;
        }
        write!(f, "`{first}`")
    }
}

impl fmt::Debug for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cycle").field(&self.actors()).finish()
    }
}

/// The panic of a turn, or of a hook of a batch: what it said, and whose it was.
///
/// Two of them are equal if they say the same, of whichever actor: an actor's name is for people.
///
/// # Examples
/// ```
/// use turnwise::{Actor, AskError};
///
/// let till = Actor::builder().name("till").spawn(0)?;
/// let error = till.call(|_| panic!("jammed")).wait().unwrap_err();
/// let AskError::Panicked(panic) = &error else { panic!("{error}") };
/// assert_eq!((panic.actor(), panic.text()), (Some("till"), "jammed"));
/// assert_eq!(error.to_string(), "the message panicked in `till`: jammed");
/// assert_eq!(error, AskError::Panicked("jammed".into()));
/// # Ok::<(), turnwise::BuildError>(())
/// ```
#[derive(Clone)]
pub struct TurnPanic(Arc<TurnPanicParts>);

struct TurnPanicParts {
    actor: Option<Box<str>>,
    text: Arc<str>,
}

impl TurnPanic {
    pub(crate) fn of(actor: &str, payload: &Payload) -> Self {
        let text = panic::text(payload.as_ref());
        TurnPanic(Arc::new(TurnPanicParts { actor: Some(actor.into()), text }))
    }

    /// The message of the panic.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The actor whose turn it was: its name, or the type of its state if it has none. `None` if
    /// this was made of a text alone.
    pub fn actor(&self) -> Option<&str> {
        self.0.actor.as_deref()
    }

    /// Tells what panicked, where, and how.
    fn tell(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.actor() {
            Some(actor) => write!(f, "{what} panicked in `{actor}`: {}", self.text()),
            None => write!(f, "{what} panicked: {}", self.text()),
        }
    }
}

impl<T: Into<Arc<str>>> From<T> for TurnPanic {
    fn from(text: T) -> Self {
        TurnPanic(Arc::new(TurnPanicParts { actor: None, text: text.into() }))
    }
}

impl PartialEq for TurnPanic {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for TurnPanic {}

impl PartialEq<str> for TurnPanic {
    fn eq(&self, text: &str) -> bool {
        self.text() == text
    }
}

impl PartialEq<&str> for TurnPanic {
    fn eq(&self, text: &&str) -> bool {
        self.text() == *text
    }
}

impl fmt::Display for TurnPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell("a turn", f)
    }
}

impl fmt::Debug for TurnPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("TurnPanic");
        self.actor().map(|actor| f.field("actor", &actor));
        f.field("text", &self.text()).finish()
    }
}

/// The name of a mailbox's actor.
#[derive(Clone)]
pub(crate) struct Who {
    pub(crate) name: Option<Arc<str>>,
    /// The type of its state.
    pub(crate) of: fn() -> &'static str,
}

impl Who {
    pub(crate) fn as_str(&self) -> &str {
        self.name.as_deref().unwrap_or_else(self.of)
    }
}

/// The cause of an actor's stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopCause {
    /// `stop` was called.
    Requested,
    /// A turn panicked, or a hook of a batch.
    Panicked(TurnPanic),
    /// Its executor dropped a [`Drain`](crate::Drain) without running it.
    ExecutorGone,
    /// A turn panicked, after as many restarts as it may have
    /// ([`PanicPolicy::restart_within`](crate::PanicPolicy::restart_within)).
    GaveUp {
        /// The number of restarts it has had, within the time that counts.
        restarts: u32,
        /// The last panic.
        panic: TurnPanic,
    },
}

impl fmt::Display for StopCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopCause::Requested => f.write_str("stop was requested"),
            StopCause::Panicked(panic) => panic.fmt(f),
            StopCause::ExecutorGone => f.write_str("its executor is gone"),
            StopCause::GaveUp { restarts, panic } => {
                write!(f, "given up after {restarts} restarts: {panic}")
            }
        }
    }
}

impl Error for StopCause {}

/// The cause of an actor's end, for its end hook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// It was closed, and everything accepted has been run.
    Closed,
    /// Its last handle was dropped, and everything accepted has been run.
    Dropped,
    /// It was stopped before.
    Stopped(StopCause),
}

impl EndCause {
    /// The cause of its stop, if it was stopped.
    pub fn stop_cause(self) -> Option<StopCause> {
        match self {
            EndCause::Stopped(cause) => Some(cause),
            EndCause::Closed | EndCause::Dropped => None,
        }
    }
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndCause::Closed => f.write_str("it was closed"),
            EndCause::Dropped => f.write_str("its last handle was dropped"),
            EndCause::Stopped(cause) => write!(f, "it has stopped: {cause}"),
        }
    }
}

/// The error of an asker that gets no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// The question was not accepted, the actor stopped before its turn, or it may not be waited
    /// for here ([`Reason::Deadlock`], [`Reason::WouldBlock`]) and was withdrawn. It certainly
    /// never runs. One that had begun by then goes on: [`Reason::WouldBlock`] is said of it all the
    /// same, and [`Reason::Deadlock`] by the very turn that it runs in.
    Refused(Reason, ActorName),
    /// The question panicked.
    Panicked(TurnPanic),
    /// No one is left that could answer: the [`Promise`](crate::Promise) of an answer was dropped,
    /// or all wakers of a turn that waits ([`Actor::run`](crate::Actor::run)) were.
    Abandoned(ActorName),
    /// A turn that waited was cut: it was [aborted](crate::AbortHandle), or its actor stopped. It
    /// may have done a part of what it was to do.
    Aborted(ActorName),
    /// The answer was taken by an earlier poll.
    Taken,
}

impl AskError {
    /// The actor that was asked: its name, or the type of its state if it has none. `None` if this
    /// is about no actor in particular, as a [`promise`](crate::promise) is.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, AskError, Reason, StopCause};
    ///
    /// let till = Actor::builder().name("till").spawn(0)?;
    /// till.stop();
    /// let error = till.call(|sum| *sum).wait().unwrap_err();
    /// assert_eq!(error.actor(), Some("till"));
    /// let text = "no answer from `till`: the actor has stopped: stop was requested";
    /// assert_eq!(error.to_string(), text);
    /// assert_eq!(error, AskError::from(Reason::Stopped(StopCause::Requested)));
    /// # Ok::<(), turnwise::BuildError>(())
    /// ```
    pub fn actor(&self) -> Option<&str> {
        match self {
            AskError::Refused(_, actor) | AskError::Abandoned(actor) | AskError::Aborted(actor) => {
                actor.as_str()
            }
            AskError::Panicked(panic) => panic.actor(),
            AskError::Taken => None,
        }
    }

    /// This error, with the name of the actor that was asked.
    #[cold]
    pub(crate) fn named(mut self, who: impl FnOnce() -> Option<Who>) -> Self {
        match &mut self {
            AskError::Refused(_, actor) | AskError::Abandoned(actor) | AskError::Aborted(actor) => {
                if actor.0.is_none() {
                    *actor = ActorName(who().map(Arc::new));
                }
            }
            AskError::Panicked(_) | AskError::Taken => {}
        }
        self
    }
}

/// The name of the actor that an [`AskError`] is about.
///
/// All are equal, as a name is for people: an error equals one that is made of [`ANY`](Self::ANY).
#[derive(Clone, Default)]
pub struct ActorName(Option<Arc<Who>>);

impl ActorName {
    /// No name, and equal to each.
    pub const ANY: Self = ActorName(None);

    /// The actor's name, or the type of its state if it has none. `None` if no actor in particular
    /// was asked.
    pub fn as_str(&self) -> Option<&str> {
        self.0.as_deref().map(Who::as_str)
    }
}

impl From<Who> for ActorName {
    fn from(who: Who) -> Self {
        ActorName(Some(Arc::new(who)))
    }
}

impl PartialEq for ActorName {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ActorName {}

impl fmt::Debug for ActorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_str() {
            Some(name) => name.fmt(f),
            None => f.write_str("_"),
        }
    }
}

impl From<Reason> for AskError {
    fn from(reason: Reason) -> Self {
        AskError::Refused(reason, ActorName::ANY)
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.actor()) {
            (AskError::Panicked(_) | AskError::Taken, _) | (_, None) => {}
            (_, Some(actor)) => write!(f, "no answer from `{actor}`: ")?,
        }
        match self {
            AskError::Refused(reason, _) => reason.fmt(f),
            AskError::Panicked(panic) => panic.tell("the message", f),
            AskError::Abandoned(_) => f.write_str("the promise or the turn was dropped"),
            AskError::Aborted(_) => f.write_str("the turn was cut while it waited"),
            AskError::Taken => f.write_str("the answer was taken before"),
        }
    }
}

impl Error for AskError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AskError::Refused(reason, _) => reason.cause(),
            _ => None,
        }
    }
}

/// The error of an actor that was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A mailbox without room could accept nothing.
    CapacityZero,
    /// Beyond this limit the count of waiting messages is not exact.
    CapacityTooLarge {
        /// The value that was asked for.
        asked: usize,
        /// The largest capacity there is.
        largest: usize,
    },
    /// A drain without a turn, or without time, would be handed on for ever.
    BudgetZero,
    /// Restarts that are limited within no time would have no limit.
    RestartTimeZero,
    /// The [system](crate::System) that was to take it in has been shut down.
    ShutDown,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::CapacityZero => f.write_str("a mailbox needs a capacity of at least 1"),
            BuildError::CapacityTooLarge { asked, largest } => {
                write!(f, "a capacity of {asked} is over the limit of {largest} waiting messages")
            }
            BuildError::BudgetZero => {
                f.write_str("a drain needs a budget of at least one turn, and some time")
            }
            BuildError::RestartTimeZero => {
                f.write_str("restarts need some time that they are limited within")
            }
            BuildError::ShutDown => f.write_str("the system has been shut down"),
        }
    }
}

impl Error for BuildError {}
