//! Every public error.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::sync::Arc;

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
}

impl<M> SendError<M> {
    pub(crate) fn new(message: M, reason: Reason) -> Self {
        SendError { message: Exclusive::new(message), reason }
    }

    /// Why it was not accepted.
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

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message not accepted: {}", self.reason)
    }
}

impl<M> Error for SendError<M> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason.cause()
    }
}

/// The message of a question that was cancelled
/// ([`WaitError::Cancelled`](crate::WaitError::Cancelled)): it certainly never runs.
pub struct Withdrawn<M>(Exclusive<M>);

impl<M> Withdrawn<M> {
    pub(crate) fn new(message: M) -> Self {
        Withdrawn(Exclusive::new(message))
    }

    /// Gives the message back.
    pub fn into_message(self) -> M {
        self.0.into_inner()
    }
}

impl<M> fmt::Debug for Withdrawn<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Withdrawn").finish_non_exhaustive()
    }
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// As many messages wait as the mailbox has room for.
    Full,
    /// The actor was closed: it takes no new messages.
    Closed,
    /// The actor was stopped.
    Stopped(StopCause),
    /// Waiting could never end: this thread is inside a turn of the very actor.
    Deadlock,
    /// Waiting was refused: this thread is a pool's worker, and no thread could take its place
    /// meanwhile ([`executor::Blocking`](crate::executor::Blocking)).
    WouldBlock,
    /// Something runs or waits in the mailbox: [`Actor::try_with`](crate::Actor::try_with) overtakes
    /// nobody, and does not wait.
    Busy,
    /// The actor is run by its executor alone, so not by this thread.
    Elsewhere,
}

impl Reason {
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
            Reason::Deadlock => f.write_str("an actor waited for itself"),
            Reason::WouldBlock => {
                f.write_str("a pool's worker would have to wait, with nobody to take its place")
            }
            Reason::Busy => f.write_str("the actor is busy"),
            Reason::Elsewhere => f.write_str("the actor is run by its executor alone"),
        }
    }
}

/// Why an actor stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopCause {
    /// Somebody called `stop`.
    Requested,
    /// A turn panicked, with this text; or a hook of a batch.
    Panicked(Arc<str>),
    /// Its executor dropped a [`Drain`](crate::Drain) without running it.
    ExecutorGone,
}

impl fmt::Display for StopCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopCause::Requested => f.write_str("stop was requested"),
            StopCause::Panicked(text) => write!(f, "a turn panicked: {text}"),
            StopCause::ExecutorGone => f.write_str("its executor is gone"),
        }
    }
}

impl Error for StopCause {}

/// Why an actor has ended: what its end hook is told.
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
    /// Why it was stopped, if it was.
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

/// Why an asker gets no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// The question was not accepted, the actor stopped before its turn, or it may not be waited
    /// for here ([`Reason::Deadlock`], [`Reason::WouldBlock`]). A question that was accepted keeps
    /// its place in the mailbox in the last case; in the others it certainly never runs.
    Refused(Reason),
    /// The question panicked, with this text.
    Panicked(Arc<str>),
    /// The [`Promise`](crate::Promise) of an answer was dropped.
    Abandoned,
    /// The answer was taken by an earlier poll.
    Taken,
}

impl From<Reason> for AskError {
    fn from(reason: Reason) -> Self {
        AskError::Refused(reason)
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Refused(reason) => reason.fmt(f),
            AskError::Panicked(text) => write!(f, "the message panicked: {text}"),
            AskError::Abandoned => f.write_str("the promise of an answer was dropped"),
            AskError::Taken => f.write_str("the answer was taken before"),
        }
    }
}

impl Error for AskError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AskError::Refused(reason) => reason.cause(),
            _ => None,
        }
    }
}

/// A number that an actor cannot be built with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A mailbox without room could accept nothing.
    CapacityZero,
    /// Beyond this limit the count of waiting messages is not exact.
    CapacityTooLarge {
        /// What was asked for.
        asked: usize,
        /// The largest capacity there is.
        largest: usize,
    },
    /// A drain without a turn, or without time, would be handed on for ever.
    BudgetZero,
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
        }
    }
}

impl Error for BuildError {}
