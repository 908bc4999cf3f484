//! The counts of an actor that is counted.

#![forbid(unsafe_code)]

/// Counts of an actor's messages by outcome, since it was made: see
/// [`Actor::snapshot`](crate::Actor::snapshot).
///
/// Late by at most a batch. When nothing runs or waits, what was accepted is `handled` and
/// `undelivered` together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Turns that were run, those that panicked included. A message that was withdrawn may be among
    /// them, for its place is passed: a question that was cancelled while it waited, a turn that
    /// was aborted before it began, or that of a sender who waited for room and left as it was let
    /// in.
    pub handled: u64,
    /// Turns, and hooks of a batch, that panicked.
    pub panicked: u64,
    /// Panics after which its policy restarted it, at once or after a rest.
    pub restarted: u64,
    /// Messages that were not accepted. An attempt ([`try_with`](crate::Actor::try_with)) that
    /// found the actor busy is none.
    pub refused: u64,
    /// Messages that were accepted and not handled: they went to the undelivered hook, their asker
    /// got an error, their closure stayed with its caller, or they were discarded.
    pub undelivered: u64,
    /// Drains that have spent their budget, and left what was left to the executor.
    pub handed_off: u64,
}
