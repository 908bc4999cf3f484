//! Every public error.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A message that was not accepted, and why. The message is handed back: nothing is lost in silence.
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
    message: M,
    reason: Reason,
}

impl<M> SendError<M> {
    pub(crate) fn new(message: M, reason: Reason) -> Self {
        SendError { message, reason }
    }

    /// Why it was not accepted.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The message.
    pub fn message(&self) -> &M {
        &self.message
    }

    /// Gives the message back.
    pub fn into_message(self) -> M {
        self.message
    }

    /// Gives the message and the reason back.
    pub fn into_parts(self) -> (M, Reason) {
        (self.message, self.reason)
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
    /// Waiting for room could never end: this thread is inside a turn of the very actor.
    Deadlock,
    /// Waiting for room was refused: this thread is a pool's worker, and nobody could take its place meanwhile
    /// ([`executor::Blocking`](crate::executor::Blocking)).
    WouldBlock,
}

impl Reason {
    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Reason::Stopped(cause) if *cause != StopCause::Requested => Some(cause),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Full => f.write_str("the mailbox is full"),
            Reason::Closed => f.write_str("the actor is closed"),
            Reason::Stopped(cause) => write!(f, "the actor has stopped: {cause}"),
            Reason::Deadlock => f.write_str("an actor waited for itself"),
            Reason::WouldBlock => f.write_str("a pool's worker would have to wait, with nobody to take its place"),
        }
    }
}

/// Why an actor stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopCause {
    /// Somebody called `stop`.
    Requested,
    /// A turn panicked, with this text; or a hook of a pass, an own loop, or the factory of a lazy state.
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
    /// The mailbox was full: the question was not accepted and never ran.
    Full,
    /// The actor was closed: the question was not accepted and never ran.
    Closed,
    /// The actor stopped before it came to the question, which never ran.
    Stopped(StopCause),
    /// The question panicked, with this text.
    Panicked(Arc<str>),
    /// Waiting here could never end: this thread is inside a turn of the very actor.
    Deadlock,
    /// Waiting was refused: this thread is a pool's worker, and nobody could take its place meanwhile
    /// ([`executor::Blocking`](crate::executor::Blocking)). A closure for `with` did not run; a question stays in its mailbox.
    WouldBlock,
    /// The [`Promise`](crate::Promise) of an answer was dropped.
    Abandoned,
}

impl From<Reason> for AskError {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Full => AskError::Full,
            Reason::Closed => AskError::Closed,
            Reason::Stopped(cause) => AskError::Stopped(cause),
            Reason::Deadlock => AskError::Deadlock,
            Reason::WouldBlock => AskError::WouldBlock,
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Full => f.write_str("the mailbox is full"),
            AskError::Closed => f.write_str("the actor is closed"),
            AskError::Stopped(cause) => write!(f, "the actor has stopped: {cause}"),
            AskError::Panicked(text) => write!(f, "the message panicked: {text}"),
            AskError::Deadlock => f.write_str("an actor waited for itself"),
            AskError::WouldBlock => f.write_str("a pool's worker would have to wait, with nobody to take its place"),
            AskError::Abandoned => f.write_str("the promise of an answer was dropped"),
        }
    }
}

impl Error for AskError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AskError::Stopped(cause) if *cause != StopCause::Requested => Some(cause),
            _ => None,
        }
    }
}

/// Why an actor could not be owned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnError {
    /// A turn is under way: somebody owns it.
    Busy,
    /// It is closed, and everything accepted has been run.
    Closed,
    /// It has stopped.
    Stopped(StopCause),
}

impl fmt::Display for OwnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnError::Busy => f.write_str("the actor is in the middle of a turn"),
            OwnError::Closed => f.write_str("the actor is closed"),
            OwnError::Stopped(cause) => write!(f, "the actor has stopped: {cause}"),
        }
    }
}

impl Error for OwnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            OwnError::Stopped(cause) if *cause != StopCause::Requested => Some(cause),
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
            BuildError::BudgetZero => f.write_str("a drain needs a budget of at least one turn, and some time"),
        }
    }
}

impl Error for BuildError {}

/// The text of a panic's payload.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> Arc<str> {
    if let Some(text) = panic.downcast_ref::<&'static str>() {
        Arc::from(*text)
    } else if let Some(text) = panic.downcast_ref::<String>() {
        Arc::from(text.as_str())
    } else {
        Arc::from("a panic without a text")
    }
}
