//! The protocol: a client sends the line [`REQUEST`], and gets one line of JSON for it.
//!
//! The line is a [`Snapshot`], or an [`Answer::Error`] that is followed by the end of the
//! connection. Each has the number of the protocol's version. Fields that are added leave the
//! version as it is: readers pass over what they do not know.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ClientError;

/// The version of the protocol. It rises when a field gets another meaning or goes.
pub const VERSION: u32 = 1;

/// The line that asks for a snapshot.
pub(crate) const REQUEST: &[u8] = b"snapshot\n";

/// The actors of a program's system, as one line of JSON carries them.
///
/// Numbers, names and times are those of the server that has served it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// [`VERSION`] of the server.
    pub version: u32,
    /// The name of the program's file.
    pub program: String,
    /// The process.
    pub pid: u32,
    /// The time at which it was taken: milliseconds since the server was started.
    pub at_ms: u64,
    /// True if the system has been shut down.
    pub shut_down: bool,
    /// Messages that all its actors have discarded, those that have ended included.
    pub discarded: u64,
    /// The actors that have not ended, in the order in which they were spawned.
    pub actors: Vec<Actor>,
    /// The [sources](crate::Server::source) that the program has added, with their last reports.
    #[serde(default)]
    pub sources: Vec<Source>,
}

/// An actor in a [`Snapshot`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Actor {
    /// Tells it from all others that the server has seen.
    pub number: u64,
    /// Its name, or the type of its state.
    pub name: String,
    /// `idle`, `scheduled`, `running` or `waiting`, as
    /// [`Activity`](turnwise::snapshot::Activity) prints.
    pub activity: String,
    /// Messages that wait.
    pub queued: usize,
    /// The largest number of messages that may wait, if there is one.
    pub capacity: Option<usize>,
    /// Senders that wait for room.
    pub waiting_for_room: usize,
    /// It takes nothing new.
    pub closed: bool,
    /// The cause of its stop, if it was stopped.
    pub stopped: Option<String>,
    /// Messages that it has accepted and dropped without handling them.
    pub discarded: u64,
    /// Counts of its messages, if it is [counted](turnwise::ActorBuilder::counted).
    pub counts: Option<Counts>,
    /// The time for which each look of the server found it busy, with no message handled, as far as
    /// these are counted: its turn runs, and its oldest message waits, for that time at least.
    pub busy_ms: Option<u64>,
    /// The actor that holds up its turn.
    pub waits_for: Option<WaitsFor>,
}

/// Counts of an actor's messages, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Counts {
    /// Turns that were run.
    pub handled: u64,
    /// Turns that panicked.
    pub panicked: u64,
    /// Panics after which it was restarted.
    pub restarted: u64,
    /// Messages that were not accepted.
    pub refused: u64,
    /// Messages that were accepted and not handled.
    pub undelivered: u64,
    /// Drains that have spent their budget, and left the rest to the executor.
    pub handed_off: u64,
}

/// A thread inside of an actor's turn sleeps until another actor answers, is idle, or ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WaitsFor {
    /// The other actor's number; it may be one that is not in the snapshot, of another system.
    pub number: u64,
    /// The time for which each look of the server has found it so, and of a counted actor nothing
    /// handled.
    pub for_ms: u64,
}

/// A source of the program in a [`Snapshot`], with its last report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Source {
    /// Its name.
    pub name: String,
    /// The age of the report. Of a source that has not reported, how long ago it was added.
    pub age_ms: u64,
    /// The error of the last call, or its panic. The report is an earlier one then.
    pub failure: Option<String>,
    /// The last report.
    pub report: Report,
}

/// The rows of a source: see [`Server::source`](crate::Server::source).
///
/// A server keeps 1,000 actors and 1,000 dead letters of a report, and 200 characters of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Report {
    /// Actors whose mailboxes are elsewhere.
    pub actors: Vec<StoredActor>,
    /// Messages all of whose attempts have failed.
    pub dead_letters: Vec<DeadLetter>,
    /// The number of actors and dead letters that are not in the report. The server adds those that
    /// it has cut off.
    pub left_out: u64,
}

/// An actor whose mailbox is in a store, in a [`Report`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StoredActor {
    /// Its name, which the source's name precedes in the table.
    pub name: String,
    /// A process runs its messages.
    pub running: bool,
    /// Messages that wait, those that a process has taken included.
    pub queued: u64,
    /// Messages that arrive later.
    pub delayed: u64,
    /// Failed attempts at its first message.
    pub failed_attempts: u32,
    /// The time for which each report has found it running, or with messages. The server sets it.
    pub busy_ms: Option<u64>,
}

impl StoredActor {
    /// An actor that is idle.
    pub fn new(name: impl Into<String>) -> Self {
        StoredActor { name: name.into(), ..Self::default() }
    }
}

/// A message all of whose attempts have failed, in a [`Report`]. It has no body: snapshots hold no
/// messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The actor's name.
    pub actor: String,
    /// The message's id.
    pub id: String,
    /// The name of the message's type.
    pub message: String,
    /// The number of failed attempts.
    pub attempts: u32,
    /// The error of the last one.
    pub error: String,
}

impl DeadLetter {
    /// The letter of this id to this actor.
    pub fn new(actor: impl Into<String>, id: impl Into<String>) -> Self {
        DeadLetter { actor: actor.into(), id: id.into(), ..Self::default() }
    }
}

/// A line of the server's: one of them.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Snapshot(Snapshot),
    Error { error: String },
}

/// The part of each line that says how to read the rest.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Milliseconds, rounded down.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the line that says why there is no snapshot.
pub(crate) fn error_line(error: &str) -> Vec<u8> {
    let line = serde_json::json!({ "version": VERSION, "error": error });
    format!("{line}\n").into_bytes()
}

impl Snapshot {
    /// Reads the line of a server.
    ///
    /// # Errors
    /// [`ClientError::Version`] if the line is of another version of the protocol,
    /// [`ClientError::Refused`] if the server says why it sends none, [`ClientError::Malformed`] if
    /// it is no line of a server.
    ///
    /// # Examples
    /// ```
    /// use turnwise_top::{ClientError, Snapshot};
    ///
    /// let line = r#"{"version":1,"program":"shop","pid":7,"at_ms":0,"shut_down":false,
    ///     "discarded":0,"actors":[]}"#;
    /// assert_eq!(Snapshot::from_json(line)?.program, "shop");
    /// let newer = Snapshot::from_json(r#"{"version":2}"#);
    /// assert!(matches!(newer, Err(ClientError::Version { theirs: 2 })));
    /// # Ok::<(), ClientError>(())
    /// ```
    pub fn from_json(line: &str) -> Result<Self, ClientError> {
        let Versioned { version } = serde_json::from_str(line).map_err(ClientError::malformed)?;
        if version != VERSION {
            return Err(ClientError::Version { theirs: version });
        }
        match serde_json::from_str(line).map_err(ClientError::malformed)? {
            Answer::Snapshot(snapshot) => Ok(snapshot),
            Answer::Error { error } => Err(ClientError::Refused(error)),
        }
    }

    /// Returns it as a line of a server, without the line's end.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are valid JSON")
    }
}
