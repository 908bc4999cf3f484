//! An actor, as of one look: for people, and for pages of metrics.

#![forbid(unsafe_code)]

use std::fmt;

use crate::cell::header::{ENDED, Header};
use crate::cell::stats::Stats;
use crate::error::StopCause;
use crate::mailbox::word::CLOSED;

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

/// An actor's activity and its numbers: [`Actor::snapshot`](crate::Actor::snapshot), and each
/// actor in a [`SystemSnapshot`](crate::snapshot::SystemSnapshot).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActorSnapshot {
    /// Tells the actor from all others of its process, until its memory is freed. Another actor may
    /// have the number then.
    pub id: u64,
    /// The actor's name, or the type of its state.
    pub name: String,
    /// The actor's activity.
    pub activity: Activity,
    /// Messages that wait, the running one not counted.
    pub queued: usize,
    /// The largest number of messages that may wait, if there is one.
    pub capacity: Option<usize>,
    /// Senders that wait for room.
    pub waiting_for_room: usize,
    /// The [`id`](Self::id) of the actor that holds up its turn: a thread inside of the turn sleeps
    /// for an answer of that actor, for it to be idle or to end, or runs a turn of it on top. A
    /// turn that awaits ([`Activity::Waiting`]) keeps no thread, and has none.
    pub waits_for: Option<u64>,
    /// It takes nothing new.
    pub closed: bool,
    /// The cause of its stop, if it was stopped.
    pub stopped: Option<StopCause>,
    /// Messages that it has accepted, not handled, and dropped: because it has no [undelivered
    /// hook](crate::ActorBuilder::on_undelivered), or because they are questions whose reply was
    /// dropped before. Counted for every actor.
    pub discarded: u64,
    /// Counts of its messages by outcome, if it is [counted](crate::ActorBuilder::counted).
    pub stats: Option<Stats>,
}

impl ActorSnapshot {
    /// As of one look: stale on return.
    pub(super) fn of(header: &Header, addr: usize, waits_for: Option<usize>) -> Self {
        // MEETING: a look that finds it closed and idle sees what ended it.
        let now = header.word.look();
        let activity = match now {
            _ if header.has(ENDED) => Activity::Ended,
            now if now.count() == 0 => Activity::Idle,
            now if now.is_pending() => Activity::Scheduled,
            _ if header.is_turn_waiting(false) => Activity::Waiting,
            _ => Activity::Running,
        };
        ActorSnapshot {
            id: addr as u64,
            name: header.name().to_owned(),
            activity,
            queued: header.waiting() as usize,
            capacity: header.config().capacity(),
            waiting_for_room: header.ext().map_or(0, |ext| ext.room.waiters()),
            waits_for: waits_for.map(|addr| addr as u64),
            closed: now.has(CLOSED),
            stopped: header.stop_cause(),
            discarded: header.discarded(),
            stats: header.stats(),
        }
    }
}

/// An actor's activity, and what waits at it, for `Debug`.
struct Standing<'a>(&'a ActorSnapshot, &'a Header);

impl fmt::Debug for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Standing(ActorSnapshot { activity, queued, waiting_for_room, closed, .. }, header) =
            self;
        match activity {
            Activity::Ended => return write!(f, "ended: {}", header.end_cause()),
            Activity::Scheduled if header.has_executor() => {
                write!(f, "{queued} queued, waiting for its executor")?;
            }
            Activity::Scheduled => write!(f, "{queued} queued, waiting for a thread")?,
            Activity::Running if *queued > 0 => write!(f, "running, {queued} queued")?,
            Activity::Waiting if *queued > 0 => write!(f, "a turn waits, {queued} queued")?,
            Activity::Waiting => f.write_str("a turn waits")?,
            activity => fmt::Display::fmt(activity, f)?,
        }
        if *waiting_for_room > 0 {
            write!(f, ", {waiting_for_room} waiting for room")?;
        }
        if *closed {
            f.write_str(", closed")?;
        }
        Ok(())
    }
}

/// Shows what an actor is called, and what it is doing.
pub(super) fn show(f: &mut fmt::DebugStruct<'_, '_>, header: &Header) {
    let seen = ActorSnapshot::of(header, 0, None);
    f.field("name", &seen.name).field("state", &Standing(&seen, header));
    // What has ended has said why.
    if let Some(cause) = seen.stopped.as_ref().filter(|_| seen.activity != Activity::Ended) {
        f.field("stopped", &format_args!("{cause}"));
    }
    if seen.discarded > 0 {
        f.field("discarded", &seen.discarded);
    }
}
