//! The protocol: a client sends the line [`REQUEST`], and gets one line of JSON for it.
//!
//! The line is a [`Snapshot`], or an [`Answer::Error`] that is followed by the end of the
//! connection. Each has the number of the protocol's version. Fields that are added leave the
//! version as it is: readers pass over what they do not know.

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
    /// When it was taken: milliseconds since the server was started.
    pub at_ms: u64,
    /// True if the system has been shut down.
    pub shut_down: bool,
    /// Messages that all its actors have discarded, those that have ended included.
    pub discarded: u64,
    /// The actors that have not ended, in the order in which they were spawned.
    pub actors: Vec<Actor>,
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
    /// Why it was stopped, if it was.
    pub stopped: Option<String>,
    /// Messages that it has accepted and dropped without handling them.
    pub discarded: u64,
    /// Counts of its messages, if it is [counted](turnwise::ActorBuilder::counted).
    pub counts: Option<Counts>,
    /// How long each look of the server has found it busy, with no message handled, as far as these
    /// are counted: how long its turn runs, and its oldest message waits, at least.
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
    /// How long each look of the server has found it so.
    pub for_ms: u64,
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
