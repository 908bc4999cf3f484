//! What an actor is doing, for `Debug`: as of one look, and stale on return.

#![forbid(unsafe_code)]

use std::fmt::{self, Display};

use crate::cell::header::{ENDED, Header};
use crate::error::EndCause;
use crate::mailbox::word::{CLOSED, Snapshot};

/// An actor's activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Activity {
    /// Nothing runs and nothing waits.
    Idle,
    /// Messages wait for a thread: its executor's, or one that sends to it or waits for it.
    Scheduled,
    /// Its turns are being run.
    Running,
    /// Its turn waits, and no thread is in it ([`Actor::run`](crate::Actor::run)).
    Waiting,
    /// Its state is gone.
    Ended,
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Activity::Idle => "idle",
            Activity::Scheduled => "scheduled",
            Activity::Running => "running",
            Activity::Waiting => "waiting",
            Activity::Ended => "ended",
        })
    }
}

/// An actor's activity, and the mailbox or time that it waits for.
pub(super) struct Standing {
    now: Snapshot,
    has_executor: bool,
    turn_waits: bool,
    /// Messages that wait.
    queued: u64,
    /// Senders that wait for room.
    pub(super) waiters: usize,
    ended: Option<EndCause>,
}

impl Standing {
    pub(super) fn of(header: &Header) -> Self {
        // MEETING: a look that finds it closed and idle sees what ended it.
        let now = header.word.look();
        Standing {
            now,
            has_executor: header.has_executor(),
            turn_waits: header.is_turn_waiting(),
            queued: header.waiting(),
            waiters: header.ext().map_or(0, |ext| ext.room.waiters()),
            ended: header.has(ENDED).then(|| header.end_cause()),
        }
    }

    pub(super) fn activity(&self) -> Activity {
        match self.now {
            _ if self.ended.is_some() => Activity::Ended,
            now if now.count() == 0 => Activity::Idle,
            now if now.is_pending() => Activity::Scheduled,
            _ if self.turn_waits => Activity::Waiting,
            _ => Activity::Running,
        }
    }

    /// Messages that wait.
    pub(super) fn queued(&self) -> usize {
        self.queued as usize
    }

    pub(super) fn is_closed(&self) -> bool {
        self.now.has(CLOSED)
    }
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queued = self.queued();
        if let Some(cause) = &self.ended {
            return write!(f, "ended: {cause}");
        }
        match self.activity() {
            Activity::Scheduled if self.has_executor => {
                write!(f, "{queued} queued, waiting for its executor")?;
            }
            Activity::Scheduled => write!(f, "{queued} queued, waiting for a thread")?,
            Activity::Running if queued > 0 => write!(f, "running, {queued} queued")?,
            Activity::Waiting if queued > 0 => write!(f, "a turn waits, {queued} queued")?,
            Activity::Waiting => f.write_str("a turn waits")?,
            activity => Display::fmt(&activity, f)?,
        }
        if self.waiters > 0 {
            write!(f, ", {} waiting for room", self.waiters)?;
        }
        if self.is_closed() {
            f.write_str(", closed")?;
        }
        Ok(())
    }
}

/// Shows what an actor is called, and what it is doing.
pub(super) fn show(f: &mut fmt::DebugStruct<'_, '_>, header: &Header) {
    let standing = Standing::of(header);
    f.field("name", &header.name()).field("state", &standing);
    // What has ended has said why.
    if let (None, Some(cause)) = (&standing.ended, header.stop_cause()) {
        f.field("stopped", &format_args!("{cause}"));
    }
    let discarded = header.discarded();
    if discarded > 0 {
        f.field("discarded", &discarded);
    }
}
