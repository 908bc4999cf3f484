//! Why there are no actors of a kind, and why a message has no reply.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use turnwise::{AskError, BuildError};

use crate::error::StoreError;
use crate::name::NameError;

/// Why there are no actors of a kind.
#[derive(Debug)]
#[non_exhaustive]
pub enum ActorsError {
    /// The kind's name, or that of a message, cannot be one.
    Name(NameError),
    /// It takes no messages.
    NoMessages,
    /// Two types of messages have this name.
    NameTwice(String),
    /// One type of messages has two names: this is the second.
    MessageTwice(String),
    /// It would have no shard, or more than 1,024.
    Shards(u32),
    /// Messages would have no attempt.
    NoAttempts,
    /// A lease under ten milliseconds cannot be kept over a network.
    LeaseTooShort,
    /// Outcomes would be kept for less than a minute: copies of a message may come later.
    KeptTooShort,
    /// A drain would take no message, or more than 256, at a time.
    Batch(u32),
    /// The actors cannot be built.
    Build(BuildError),
}

impl fmt::Display for ActorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActorsError::Name(error) => error.fmt(f),
            ActorsError::NoMessages => f.write_str("a kind of actors needs a type of messages"),
            ActorsError::NameTwice(name) => write!(f, "two types of messages are named `{name}`"),
            ActorsError::MessageTwice(name) => {
                write!(f, "the messages named `{name}` have another name")
            }
            ActorsError::Shards(shards) => write!(f, "from 1 to 1,024 shards, not {shards}"),
            ActorsError::NoAttempts => f.write_str("a message needs an attempt"),
            ActorsError::LeaseTooShort => f.write_str("a lease needs ten milliseconds"),
            ActorsError::KeptTooShort => f.write_str("an outcome is kept for a minute at least"),
            ActorsError::Batch(batch) => {
                write!(f, "from 1 to 256 messages are taken at a time, not {batch}")
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

/// Why a message was not stored, or has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// The actor's name, or the message's id, cannot be one.
    Name(NameError),
    /// The kind takes no messages of this type.
    Unregistered {
        /// The type.
        message: &'static str,
    },
    /// The message cannot be written.
    Encode(String),
    /// The message is longer than it may be.
    TooLong {
        /// So long it is, in bytes.
        bytes: usize,
    },
    /// The store did not answer. A message may be stored nevertheless: with the same id it is sent
    /// again without harm.
    Store(StoreError),
    /// Other clients have opened the kind with another number of shards.
    OtherShards {
        /// That number.
        shards: u32,
    },
    /// Its turn did not come in time. It was withdrawn, and certainly never runs.
    TimedOut {
        /// So long it has waited.
        waited: Duration,
    },
    /// It did not end in time, and may have begun: [`outcome`](crate::RemoteActor::outcome) tells.
    Running {
        /// Its id.
        id: String,
    },
    /// All its attempts have failed: it is a dead letter.
    Dead {
        /// Why the last one has.
        error: String,
    },
    /// It was withdrawn by somebody else, and certainly never runs.
    Withdrawn,
    /// Nothing is known of it any more: its outcome was not kept that long, or the store has lost
    /// it.
    Forgotten,
    /// The reply cannot be read.
    Decode(String),
    /// The actor's state cannot be read. Nothing was run.
    State(String),
    /// The executor that is to run it has ended. Nothing was run.
    ExecutorGone,
    /// The client has ended.
    Closed,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Name(error) => error.fmt(f),
            MessageError::Unregistered { message } => {
                write!(f, "this kind of actors takes no `{message}`")
            }
            MessageError::Encode(why) => write!(f, "the message cannot be written: {why}"),
            MessageError::TooLong { bytes } => write!(f, "the message has {bytes} bytes"),
            MessageError::Store(error) => error.fmt(f),
            MessageError::OtherShards { shards } => {
                write!(f, "other clients say that the kind has {shards} shards")
            }
            MessageError::TimedOut { waited } => {
                write!(f, "its turn did not come in {waited:.1?}, and it was withdrawn")
            }
            MessageError::Running { id } => {
                write!(f, "the message `{id}` may have begun, and has not ended")
            }
            MessageError::Dead { error } => write!(f, "all attempts have failed: {error}"),
            MessageError::Withdrawn => f.write_str("the message was withdrawn"),
            MessageError::Forgotten => f.write_str("nothing is known of the message any more"),
            MessageError::Decode(why) => write!(f, "the reply cannot be read: {why}"),
            MessageError::State(why) => write!(f, "the actor's state cannot be read: {why}"),
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
