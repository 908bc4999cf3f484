//! Errors of kinds of actors, and of messages.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use turnwise::{AskError, BuildError};

use crate::error::StoreError;
use crate::name::NameError;

/// An error that the parameters of a kind cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum ActorsError {
    /// The kind's name, or that of a message, is not valid.
    Name(NameError),
    /// The kind takes no messages.
    NoMessages,
    /// Two types of messages have this name.
    NameTwice(String),
    /// One type of messages has two names: this is the second.
    MessageTwice(String),
    /// The number of shards is 0, or exceeds 1,024.
    Shards(u32),
    /// The number of attempts is 0.
    NoAttempts,
    /// The lease is shorter than ten milliseconds, which cannot be kept over a network.
    LeaseTooShort,
    /// Outcomes would be kept for less than a minute, and copies of a message may arrive later.
    KeptTooShort,
    /// The number of messages that a drain takes at a time is 0, or exceeds 256.
    Batch(u32),
    /// The actors cannot be built.
    Build(BuildError),
}

impl fmt::Display for ActorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActorsError::Name(error) => error.fmt(f),
            ActorsError::NoMessages => {
                f.write_str("a kind of actors must take at least one type of messages")
            }
            ActorsError::NameTwice(name) => write!(f, "two types of messages are named `{name}`"),
            ActorsError::MessageTwice(name) => {
                write!(f, "the messages named `{name}` have a second name")
            }
            ActorsError::Shards(shards) => {
                write!(f, "the number of shards must be from 1 to 1,024, not {shards}")
            }
            ActorsError::NoAttempts => f.write_str("a message must have at least one attempt"),
            ActorsError::LeaseTooShort => f.write_str("a lease must be at least ten milliseconds"),
            ActorsError::KeptTooShort => {
                f.write_str("an outcome must be kept for at least a minute")
            }
            ActorsError::Batch(batch) => {
                write!(f, "a drain must take from 1 to 256 messages at a time, not {batch}")
            }
            ActorsError::Build(error) => error.fmt(f),
        }
    }
}

impl Error for ActorsError {}

impl From<NameError> for ActorsError {
    fn from(error: NameError) -> Self {
        ActorsError::Name(error)
    }
}

/// An error of a message: it was not stored, or has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// The actor's name, or the message's id, is not valid.
    Name(NameError),
    /// The kind takes no messages of this type.
    Unregistered {
        /// The type.
        message: &'static str,
    },
    /// The message cannot be serialized.
    Encode(String),
    /// The message exceeds the maximum length.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The store did not answer. The message may be stored nevertheless; sending it again with the
    /// same id does no harm.
    Store(StoreError),
    /// Other clients use another number of shards for the kind.
    OtherShards {
        /// The number that they use.
        shards: u32,
    },
    /// The message did not run in time. It was withdrawn, and certainly never runs.
    TimedOut {
        /// The time that it has waited.
        waited: Duration,
    },
    /// The message was not done in time, and may have begun.
    /// [`outcome`](crate::RemoteActor::outcome) returns its progress.
    Running {
        /// Its id.
        id: String,
    },
    /// All attempts have failed, and the message is a dead letter.
    Dead {
        /// The error of the last attempt.
        error: String,
    },
    /// The message was withdrawn, by a call or at the limit of another request of its id, and
    /// certainly never runs.
    Withdrawn,
    /// The message is no longer known: its outcome is no longer kept, or the store has lost it.
    Forgotten,
    /// The reply cannot be deserialized.
    Decode(String),
    /// The actor's state cannot be deserialized. Nothing was run.
    State(String),
    /// The next message is of a type that the kind does not take in this process. It was left,
    /// with those behind it, to processes whose kind takes it.
    UnknownMessage {
        /// Its id.
        id: String,
        /// The name of its type.
        message: String,
    },
    /// The executor of the actors has ended. Nothing was run.
    ExecutorGone,
    /// The client has ended.
    Closed,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Name(error) => error.fmt(f),
            MessageError::Unregistered { message } => {
                write!(f, "this kind of actors takes no messages of type `{message}`")
            }
            MessageError::Encode(why) => write!(f, "the message cannot be serialized: {why}"),
            MessageError::TooLong { bytes } => {
                write!(f, "the message has {bytes} bytes, which exceeds the limit")
            }
            MessageError::Store(error) => error.fmt(f),
            MessageError::OtherShards { shards } => {
                write!(f, "other clients use {shards} shards for the kind")
            }
            MessageError::TimedOut { waited } => {
                write!(f, "the message did not run within {waited:.1?}, and was withdrawn")
            }
            MessageError::Running { id } => {
                write!(f, "the message `{id}` was not done in time, and may have begun")
            }
            MessageError::Dead { error } => write!(f, "all attempts have failed: {error}"),
            MessageError::Withdrawn => f.write_str("the message was withdrawn"),
            MessageError::Forgotten => f.write_str("the message is no longer known"),
            MessageError::Decode(why) => write!(f, "the reply cannot be deserialized: {why}"),
            MessageError::State(why) => {
                write!(f, "the actor's state cannot be deserialized: {why}")
            }
            MessageError::UnknownMessage { id, message } => write!(
                f,
                "the next message, `{id}`, is named `{message}`, which the kind does not take here"
            ),
            MessageError::ExecutorGone => f.write_str("the executor of the actors has ended"),
            MessageError::Closed => f.write_str("the client has ended"),
        }
    }
}

impl Error for MessageError {}

impl From<StoreError> for MessageError {
    fn from(error: StoreError) -> Self {
        MessageError::Store(error)
    }
}

impl From<NameError> for MessageError {
    fn from(error: NameError) -> Self {
        MessageError::Name(error)
    }
}

impl From<AskError> for MessageError {
    fn from(_: AskError) -> Self {
        MessageError::Closed
    }
}
