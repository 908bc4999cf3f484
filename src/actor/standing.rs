//! What an actor is doing, for `Debug`: as of one look, and stale on return.

#![forbid(unsafe_code)]

use std::fmt;

use crate::cell::header::{ENDED, Header};
use crate::error::EndCause;
use crate::mailbox::word::{CLOSED, Snapshot};

/// What an actor is doing, and what it waits for.
pub(super) struct Standing {
    now: Snapshot,
    executor_only: bool,
    /// Senders that wait for room.
    seats: usize,
    ended: Option<EndCause>,
}

impl Standing {
    pub(super) fn of(header: &Header) -> Self {
        // MEETING: whoever sees that it is closed and idle sees what ended it.
        let now = header.word.look();
        Standing {
            now,
            executor_only: header.is_executor_only(),
            seats: header.ext().map_or(0, |ext| ext.room.len()),
            ended: header.has(ENDED).then(|| header.end_cause()),
        }
    }
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (now, waiting) = (self.now, self.now.waiting());
        match &self.ended {
            Some(cause) => return write!(f, "ended: {cause}"),
            None if now.count() == 0 => f.write_str("idle")?,
            None if now.is_pending() && self.executor_only => {
                write!(f, "{waiting} queued, waiting for its executor")?;
            }
            None if now.is_pending() => write!(f, "{waiting} queued, waiting for a thread")?,
            None if waiting > 0 => write!(f, "running, {waiting} queued")?,
            None => f.write_str("running")?,
        }
        if self.seats > 0 {
            write!(f, ", {} waiting for room", self.seats)?;
        }
        if now.has(CLOSED) {
            f.write_str(", closed")?;
        }
        Ok(())
    }
}

/// Shows what an actor is called, and what it is doing.
pub(super) fn show(f: &mut fmt::DebugStruct<'_, '_>, header: &Header) {
    f.field("name", &header.name()).field("state", &Standing::of(header));
    if let Some(cause) = header.stop_cause() {
        f.field("stopped", &format_args!("{cause}"));
    }
    let discarded = header.discarded();
    if discarded > 0 {
        f.field("discarded", &discarded);
    }
}
