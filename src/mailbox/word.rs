//! The word of a mailbox, and all its transitions. `DESIGN.md` has both on one page.
//!
//! One `u64` counts the messages, holds the newest waiting one and says whether anything special is
//! going on. So "do I own it now?", "is my message in?" and "may I let go?" are each answered by
//! the one compare-and-swap that makes it so. With counter and queue in two words there is a gap
//! between the two steps of a send, in which an owner spins (counted, not yet queued) or a second
//! owner slips in (queued and run, not yet counted).
//!
//! | 63 .. 49  | 48        | 47 .. 5  | 4     | 3      | 2      | 1    | 0       |
//! |-----------|-----------|----------|-------|--------|--------|------|---------|
//! | COUNT `c` | SCHEDULED | HEAD `h` | WATCH | ORPHAN | CLOSED | none | PENDING |
//!
//! COUNT is the number of messages accepted and not settled, the running one included. HEAD is the
//! newest waiting node, 0 for none: the address of the node itself, for nodes are 32-byte aligned
//! and lie below 2^48. Without PENDING the mailbox is running, or idle, if `c` = 0. `S` is
//! [`COUNT_MAX`]: `c` = `S` means "at least". `f` stands for the flags.
//!
//! A mailbox is as large as it has to be: room is a matter of permits, in front of it
//! ([`super::semaphore`]). So the word need not tell a turn that has begun and goes on from a
//! message that waits: the one holds no permit, the other does.
//!
//! SCHEDULED, in the table `E`, says that the mailbox's one *entry* is out: in a thread's list, or
//! in an executor. All steps keep it but those that name it.
//!
//! | call                | from                 | to                                | the caller now owes ([`Duty`])               |
//! |---------------------|----------------------|-----------------------------------|----------------------------------------------|
//! | `claim`             | `0, -, 0`            | `1, -, 0`                         | runs its message, never stored, and drains   |
//! |                     | `0, -, E`            | `1, -, E`                         | the same                                     |
//! | `push` n, to drain  | `0, -, f`            | `n, -, f` not pending             | `Drain`: its messages are private, run them  |
//! |                     | `c, h, f` pending    | `min(c+n,S), -, f` not pending    | `TakeOver`: the saved list, `h`, its own     |
//! |                     | `c, h, f` else       | `min(c+n,S), node->h, f`          | `Nothing`                                    |
//! | `push` n, to leave  | `0, -, f`            | `n, node, f + E` pending          | `Scheduled`, or `Schedule` if E was raised   |
//! |                     | `c, h, f` pending    | `min(c+n,S), node->h, f + E`      | the same                                     |
//! |                     | `c, h, f` else       | `min(c+n,S), node->h, f`          | `Nothing`                                    |
//! | `push` n, to post   | as to leave          | as to leave, without raising E    | `Schedule`                                   |
//! | `push`, any         | closed               | same                              | refused, with its message                    |
//! | `leave_first`       | `0, -, 0`            | `1, node, E` pending              | `Scheduled`                                  |
//! | `raise` a flag      | as `push` with n = 0 | from `c` = 0 it becomes 1         | as `push`; `None` if it was raised already   |
//! | `raise`, drain only | `c, h, f` pending    | `c, h, f`, and the flag           | `Schedule`; else as `raise` to drain         |
//! | `take_over`         | `c, h, f` pending    | `c, -, f` not pending             | owns; `h` comes after the saved list         |
//! | `unschedule`        | `c, h, f + E` pending| as `take_over`, without E         | owns                                         |
//! |                     | `c, h, f + E` else   | `c, h, f`                         | nothing: the entry was stale                 |
//! |                     | DEAD                 | same                              | frees the cell                               |
//! | `unschedule_few`    | `c, h, E` pending    | `c, -, 0`                         | owns, as by `unschedule`; `c` are few        |
//! | `schedule`          | `c, h, f` pending    | `c, h, f + E`                     | the entry; `None` if E was raised            |
//! | `take` after `done` | `c, h, f`            | `c==S ? S : c-done, -, f`         | runs `h`, reversed                           |
//! | `release`           | `c, -, f` not ORPHAN | `0, -, f & (CLOSED + E)`          | touches it no more; wakes if WATCH was set   |
//! | `set_pending`, done | `c, h, f` running    | `c==S ? S : c-done, h, f` pending | touches it no more but to schedule it        |
//! |                     | the same, without E  | the same, with E                  | the entry                                    |
//! | `watch`             | `c, h, f`, c > 0     | `c, h, f + WATCH`                 | is woken by the owner                        |
//! | `is_left_to_entry`  | `c, -, f + E` orphan | DEAD                              | nothing: the entry frees the cell            |
//!
//! - COUNT is no condition of `release`: a private list run to its end and `h` = 0 mean that
//!   everything accepted has been run. `S` is left only so; therefore a `c` below `S` was never `S`
//!   since the last idle and is exact.
//! - All flags are zero on the fast path: `claim` and the first try of `release` are one
//!   compare-and-swap each, and any flag fails them.
//! - WATCH stays until the release, which wakes those that wait for idle.
//! - HANDOVER: `release`, `set_pending` Release -> `claim`, `push`, `raise`, `take_over` Acquire.
//!   The next owner sees all that the last one did.
//! - MESSAGE: `push` Release -> `take`, `take_over`, `push` (TakeOver), `raise` (TakeOver) Acquire.
//!   Later pushes are read-modify-writes and continue the release sequence, so the owner sees every
//!   node below HEAD, not only the newest.
//! - MEETING: `watch`, `meet` Release -> `release_met`, `raise` Acquire. A release of a watched
//!   word finds the waiter in the list. A waiter for the end that stands in the list before its
//!   `meet` is seen by the one that ends the mailbox after it; one that meets later sees that it
//!   has ended. The same holds of a thread that may help, and a `raise` that leaves a closed
//!   mailbox pending: `raise` calls it, or its `meet` sees that.
//! - LEFT: `unschedule`, `unschedule_only` Release -> `is_left_to_entry`, `look` Acquire;
//!   `is_left_to_entry` Release -> `unschedule` Acquire. The last reference and the entry come one
//!   after the other, and the second one frees the cell after all that the first one did.
//! - FAREWELL: `raise` Release -> `look` Acquire on a raised flag. A step that acts on CLOSED or
//!   ORPHAN sees all that the raiser did. A `look` that finds an idle word is a reader of HANDOVER:
//!   a last handle that is dropped then, alone with the cell, takes no step (MAILBOX-10).

#![forbid(unsafe_code)]

use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::config::COUNT_MAX;
use crate::sync::{Backoff, hint};

const COUNT_SHIFT: u32 = 49;
/// One message.
const ONE: u64 = 1 << COUNT_SHIFT;
const HEAD: u64 = (SCHEDULED - 1) & !FLAGS;
/// An entry of this mailbox is out: in a thread's list, or in an executor.
const SCHEDULED: u64 = 1 << 48;
/// The value that the last reference leaves behind for the entry that is out.
const DEAD: u64 = u64::MAX;
/// The low bits that a node's address leaves free.
pub(crate) const FLAGS: u64 = 31;
const PENDING: u64 = 1;
pub(crate) const CLOSED: u64 = 4;
pub(crate) const ORPHAN: u64 = 8;
const WATCH: u64 = 16;

/// A value of the word, read once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Snapshot(u64);

/// The use that a step makes of the ownership it wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Drain here and now.
    Drain,
    /// Drain here and now, or not at all: nothing is pushed if another thread runs the mailbox. A
    /// raised flag leaves a pending mailbox pending.
    DrainOnly,
    /// Leave it pending, with an entry: it is the caller's, unless one is out already.
    Leave,
    /// Leave it pending, for a drain without an entry.
    Post,
}

/// The duty that a transition leaves to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an owner that forgets its duty strands the mailbox"]
pub(crate) enum Duty {
    /// Nothing: another thread owns the mailbox and will see to it.
    Nothing,
    /// The mailbox is pending, and its one entry is the caller's to put somewhere.
    Scheduled,
    /// It is pending, and its entry is not the caller's.
    Schedule,
    /// It was idle: the caller owns it, and what it pushed is its private list.
    Drain,
    /// It was pending: the caller owns it; its private list is the saved one, then the HEAD it
    /// replaced, then what it pushed.
    TakeOver,
}

/// A step has won the mailbox of this word. Made by such steps alone.
#[derive(Debug)]
#[must_use = "an owner that forgets its mailbox strands it"]
pub(crate) struct Won(*const Word);

/// A step has raised SCHEDULED in this word. Made by such steps alone.
#[derive(Debug)]
#[must_use = "an entry that is forgotten strands its mailbox"]
pub(crate) struct Raised(*const Word);

/// The nodes that a step has taken out of HEAD, newest first, or has kept from being put there:
/// the owner's, who is their holder (NODE-1). It may be empty.
#[derive(Debug)]
#[must_use = "nodes that are forgotten are leaked, with their messages"]
pub(crate) struct Head(pub(super) u64);

/// The duty that a push or a raise leaves to its caller: a [`Duty`], with the rights that go
/// with it.
#[derive(Debug)]
#[must_use = "an owner that forgets its duty strands the mailbox"]
pub(crate) enum Due {
    Nothing,
    Scheduled(Raised),
    Schedule,
    Drain(Won, Head),
    TakeOver(Won, Head),
}

/// The next step of an owner whose private list is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an owner that forgets its duty strands the mailbox"]
pub(crate) enum Next {
    /// Messages wait: takes them.
    Take,
    /// Ends the actor, and looks again.
    End,
    /// Lets the mailbox go, to this value.
    Release(Snapshot),
    /// Gives the handles' reference up: the mailbox is not run again.
    Bury,
}

/// The reason that nothing was pushed; the word is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Closed,
    /// Another thread runs it ([`Entry::DrainOnly`]).
    Busy,
}

/// Outcome of an entry's step.
#[derive(Debug)]
#[must_use = "an owner that forgets its duty strands the mailbox"]
pub(crate) enum Unscheduled {
    /// It was pending: the caller owns it, and what was in HEAD.
    Owns(Won, Head),
    /// Another thread owns it, or none does.
    Stale,
    /// The memory was left to this entry.
    Dead,
}

impl Entry {
    fn leaves(self) -> bool {
        matches!(self, Entry::Leave | Entry::Post)
    }
}

impl Snapshot {
    pub(crate) const IDLE: Snapshot = Snapshot(0);

    /// Messages accepted and not settled; at [`COUNT_MAX`], at least that.
    #[inline]
    pub(crate) fn count(self) -> u64 {
        self.0 >> COUNT_SHIFT
    }
    /// The address of the newest waiting node, or 0.
    #[inline]
    pub(crate) fn head(self) -> u64 {
        self.0 & HEAD
    }
    #[inline]
    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
    #[inline]
    pub(crate) fn is_pending(self) -> bool {
        self.has(PENDING)
    }
    #[inline]
    pub(crate) fn is_watched(self) -> bool {
        self.has(WATCH)
    }
    /// Messages that wait: all but the running one. Of a pending mailbox, a turn that has begun is
    /// one of them.
    #[inline]
    pub(crate) fn waiting(self) -> u64 {
        if self.is_pending() { self.count() } else { self.count().saturating_sub(1) }
    }

    /// True if an entry is out.
    #[inline]
    pub(crate) fn is_scheduled(self) -> bool {
        self.has(SCHEDULED)
    }

    #[inline]
    fn flags(self) -> u64 {
        self.0 & (FLAGS | SCHEDULED)
    }
    #[inline]
    fn new(count: u64, head: u64, flags: u64) -> Self {
        debug_assert!(count <= COUNT_MAX && head & !HEAD == 0);
        debug_assert!(flags & !(FLAGS | SCHEDULED) == 0);
        Snapshot(count << COUNT_SHIFT | head | flags)
    }
    /// COUNT after `done` turns: saturation is sticky.
    #[inline]
    fn settled(self, done: u64) -> u64 {
        let count = self.count();
        if count == COUNT_MAX {
            COUNT_MAX
        } else {
            debug_assert!(done <= count, "settling {done} of {self:?}");
            count - done
        }
    }

    /// `push` of a chain of `n` nodes whose newest is at `top`; the chain's oldest node must link
    /// to [`Snapshot::head`].
    #[inline]
    pub(crate) fn push(self, top: u64, n: u64, entry: Entry) -> Result<(Snapshot, Duty), Refusal> {
        if self.has(CLOSED) {
            return Err(Refusal::Closed);
        }
        if entry == Entry::DrainOnly && self.count() > 0 && !self.is_pending() {
            return Err(Refusal::Busy);
        }
        let count = (self.count() + n).min(COUNT_MAX);
        Ok(self.enter(count, top, entry))
    }

    /// `push` of one node that leaves nothing owing: the same value as there, in fewer steps.
    /// `None` if it would, or refuse.
    #[inline(always)]
    fn push_busy(self, node: u64, entry: Entry) -> Option<Snapshot> {
        let entry_comes = entry == Entry::Leave && self.is_scheduled();
        let owns_nothing = !self.is_pending() || entry_comes;
        let one = if self.count() == COUNT_MAX { 0 } else { ONE };
        let next = Snapshot((self.0 & !HEAD).wrapping_add(one) | node);
        let pushed = (owns_nothing && self.count() > 0 && !self.has(CLOSED)).then_some(next);
        let by_the_table = || self.push(node, 1, entry).map(|(next, _)| next).ok();
        debug_assert!(pushed.is_none() || pushed == by_the_table());
        pushed
    }

    /// `raise` of CLOSED or ORPHAN; `None` if it is raised already.
    #[inline]
    pub(crate) fn raise(self, flag: u64, entry: Entry) -> Option<(Snapshot, Duty)> {
        if self.has(flag) {
            return None;
        }
        let raised = Snapshot(self.0 | flag);
        if entry == Entry::DrainOnly && self.is_pending() {
            return Some((raised, Duty::Schedule));
        }
        Some(raised.enter(self.count().max(1), self.head(), entry))
    }

    #[inline]
    fn enter(self, count: u64, top: u64, entry: Entry) -> (Snapshot, Duty) {
        let kept = self.flags() & !PENDING;
        if self.count() > 0 && !self.is_pending() {
            return (Snapshot::new(count, top, self.flags()), Duty::Nothing);
        }
        if entry.leaves() {
            let scheduled = if entry == Entry::Leave { SCHEDULED } else { 0 };
            let owed =
                if scheduled > self.0 & SCHEDULED { Duty::Scheduled } else { Duty::Schedule };
            return (Snapshot::new(count, top, kept | PENDING | scheduled), owed);
        }
        if self.count() == 0 {
            return (Snapshot::new(count, 0, kept), Duty::Drain);
        }
        (Snapshot::new(count, 0, kept), Duty::TakeOver)
    }

    /// `take_over`; `None` if it is not pending: anybody may have taken it over.
    #[inline]
    pub(crate) fn take_over(self) -> Option<Snapshot> {
        self.is_pending().then_some(Snapshot(self.0 & !(HEAD | PENDING)))
    }

    /// `take` after `done` turns.
    #[inline]
    pub(crate) fn take(self, done: u64) -> Snapshot {
        Snapshot::new(self.settled(done), 0, self.flags())
    }

    /// `release`, with the private list at its end; `None` if messages wait or the last handle has
    /// gone, so that the owner has to end it.
    #[inline]
    pub(crate) fn release(self) -> Option<Snapshot> {
        (self.head() == 0 && !self.has(ORPHAN))
            .then(|| Snapshot::new(0, 0, self.flags() & (CLOSED | SCHEDULED)))
    }

    /// The next step, with the private list at its end.
    #[inline]
    pub(crate) fn let_go(self, has_ended: bool) -> Next {
        match self.release() {
            _ if self.head() != 0 => Next::Take,
            // No handle can send any more, or none is let in, and all has been run.
            _ if self.has(CLOSED | ORPHAN) && !has_ended => Next::End,
            Some(next) => Next::Release(next),
            None => Next::Bury,
        }
    }

    /// `set_pending` after `done` turns, with something left to run; `scheduled`: with an entry.
    #[inline]
    pub(crate) fn set_pending(self, done: u64, scheduled: bool) -> Snapshot {
        debug_assert!(!(scheduled && self.is_scheduled()), "two entries");
        let scheduled = if scheduled { SCHEDULED } else { 0 };
        Snapshot::new(self.settled(done), self.head(), self.flags() | PENDING | scheduled)
    }

    /// `schedule`; `None` if it is not pending, or an entry is out.
    #[inline]
    pub(crate) fn schedule(self) -> Option<Snapshot> {
        (self.is_pending() && !self.is_scheduled()).then_some(Snapshot(self.0 | SCHEDULED))
    }

    /// `unschedule` by the entry: the next value, and whether the caller then owns.
    #[inline]
    pub(crate) fn unschedule(self) -> (Snapshot, bool) {
        let next = self.take_over();
        (Snapshot(next.unwrap_or(self).0 & !SCHEDULED), next.is_some())
    }

    /// `watch`; `None` if nothing runs or waits.
    #[inline]
    pub(crate) fn watch(self) -> Option<Snapshot> {
        (self.count() > 0).then_some(Snapshot(self.0 | WATCH))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("count", &self.count())
            .field("head", &format_args!("{:#x}", self.head()))
            .field("pending", &self.is_pending())
            .field("closed", &self.has(CLOSED))
            .field("orphan", &self.has(ORPHAN))
            .field("watch", &self.has(WATCH))
            .field("scheduled", &self.is_scheduled())
            .finish()
    }
}

impl Won {
    #[inline(always)]
    pub(crate) fn is_of(&self, word: &Word) -> bool {
        std::ptr::eq(self.0, word)
    }
}

impl Raised {
    #[inline(always)]
    pub(crate) fn is_of(&self, word: &Word) -> bool {
        std::ptr::eq(self.0, word)
    }
}

/// The word itself.
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn new() -> Self {
        Word(AtomicU64::new(0))
    }

    /// A value that may be stale on return.
    #[inline]
    pub(crate) fn load(&self) -> Snapshot {
        // Ordering: Relaxed. Nothing is read through it: the value is shown to users or is the
        // guess of a compare-and-swap.
        Snapshot(self.0.load(Relaxed))
    }

    /// The owner's look at what keeps it from letting go.
    #[inline]
    pub(crate) fn look(&self) -> Snapshot {
        // Ordering: Acquire, reader side of FAREWELL: an owner that ends a mailbox comes after
        // everything that its handles did.
        Snapshot(self.0.load(Acquire))
    }

    /// The blind first attempt of a send: never a load before it, so the line comes over once.
    #[inline(always)]
    pub(crate) fn claim(&self) -> Result<Won, Snapshot> {
        // Ordering: Acquire, reader side of HANDOVER. A failure is only the guess of the next
        // attempt.
        match self.0.compare_exchange(0, ONE, Acquire, Relaxed) {
            Ok(_) => Ok(Won(self)),
            Err(now) => Err(Snapshot(now)),
        }
    }

    /// `claim` of an idle mailbox whose entry is out, stale; after one that has failed.
    #[inline]
    pub(crate) fn claim_beside(&self, seen: Snapshot) -> Result<Won, Snapshot> {
        if seen.0 != SCHEDULED {
            return Err(seen);
        }
        // Ordering: Acquire, reader side of HANDOVER.
        match self.0.compare_exchange(SCHEDULED, ONE | SCHEDULED, Acquire, Relaxed) {
            Ok(_) => Ok(Won(self)),
            Err(now) => Err(Snapshot(now)),
        }
    }

    /// `claim` until it has won, or the mailbox is not idle: an attempt that fails because an entry
    /// has come out or was used up meanwhile is not the last.
    pub(crate) fn claim_idle(&self) -> Result<Won, Snapshot> {
        let mut claimed = self.claim();
        while let Err(seen) = claimed {
            claimed = match seen.0 {
                0 => self.claim(),
                SCHEDULED => self.claim_beside(seen),
                _ => return Err(seen),
            };
        }
        claimed
    }

    /// Retries `claim` briefly while exactly one message is running and none is queued. Claiming
    /// moves fewer cache lines than enqueueing, and cannot overtake an accepted message.
    #[cold]
    pub(crate) fn claim_soon(&self, seen: Snapshot) -> Result<Won, Snapshot> {
        let mut claimed = self.claim_beside(seen);
        let _ = hint::done_soon(|| {
            if matches!(claimed, Err(Snapshot(ONE))) {
                claimed = self.claim();
            }
            !matches!(claimed, Err(Snapshot(ONE)))
        });
        claimed
    }

    /// True if COUNT holds nothing but `done` finished turns. Stale on return.
    #[inline]
    pub(crate) fn is_still(&self, done: u64) -> bool {
        self.load() == Snapshot::new(done.min(COUNT_MAX), 0, 0)
    }

    /// The blind first attempt of letting go after one turn.
    #[inline(always)]
    pub(crate) fn release_one(&self) -> bool {
        // Ordering: Release, writer side of HANDOVER.
        self.0.compare_exchange(ONE, 0, Release, Relaxed).is_ok()
    }

    /// Letting go after one turn of a mailbox whose entry is out.
    pub(crate) fn release_beside(&self) -> bool {
        self.release_from(Snapshot(ONE | SCHEDULED), Snapshot(SCHEDULED)).is_ok()
    }

    /// The blind first attempt of a push of one node that its sender leaves: the entry is the
    /// caller's.
    #[inline(always)]
    pub(crate) fn leave_first(&self, node: u64) -> Result<Raised, Snapshot> {
        // Ordering: Release, writer side of MESSAGE.
        match self.0.compare_exchange(0, ONE | node | SCHEDULED | PENDING, Release, Relaxed) {
            Ok(_) => Ok(Raised(self)),
            Err(now) => Err(Snapshot(now)),
        }
    }

    /// `push` of one node, for as long as another thread owns the mailbox and takes
    /// messages, or, by `entry`, if it is left to an entry that is out; else the word as it was
    /// seen last.
    ///
    /// One that fails twice running meets another that goes in and out faster than the word's line
    /// comes over. To leave that one alone for a while costs less than to take the line away each
    /// time.
    #[inline(always)]
    pub(crate) fn push_busy(
        &self,
        seen: Snapshot,
        node: u64,
        entry: Entry,
        mut link: impl FnMut(u64),
    ) -> Result<(), Snapshot> {
        let (backoff, mut failed) = (Backoff::new(), false);
        let mut now = seen;
        while let Some(next) = now.push_busy(node, entry) {
            link(now.head());
            // Ordering: Release, writer side of MESSAGE. The mailbox stays another thread's:
            // nothing is read.
            match self.0.compare_exchange(now.0, next.0, Release, Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => now = Snapshot(seen),
            }
            if failed {
                hint::stand_back();
            }
            failed = true;
            backoff.snooze();
        }
        Err(now)
    }

    /// `push` with back-off, which gives the processor away from the seventh failure on: the one
    /// that runs the messages may be waiting for it. `link` gets the head that the chain's oldest
    /// node must link to.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        seen: Snapshot,
        (top, n): (u64, u64),
        entry: Entry,
        mut link: impl FnMut(u64),
    ) -> Result<Due, Refusal> {
        let backoff = Backoff::new();
        let mut now = seen;
        loop {
            let (next, duty) = now.push(top, n, entry)?;
            link(if duty == Duty::Drain { 0 } else { now.head() });
            let swapped = match duty {
                // Ordering: Release, writer side of MESSAGE. The mailbox stays another thread's:
                // nothing is read.
                Duty::Nothing | Duty::Scheduled | Duty::Schedule => {
                    self.0.compare_exchange(now.0, next.0, Release, Relaxed)
                }
                // Ordering: Acquire, reader side of HANDOVER, and of MESSAGE for what waits below.
                // The chain stays private.
                Duty::Drain | Duty::TakeOver => {
                    self.0.compare_exchange(now.0, next.0, Acquire, Relaxed)
                }
            };
            match swapped {
                Ok(_) => return Ok(self.due(duty, top)),
                Err(seen) => now = Snapshot(seen),
            }
            backoff.snooze();
        }
    }

    /// Converts a step's duty into one with rights. If the caller owns it now, the nodes from
    /// `head` on are the caller's.
    #[inline(always)]
    fn due(&self, duty: Duty, head: u64) -> Due {
        match duty {
            Duty::Nothing => Due::Nothing,
            Duty::Scheduled => Due::Scheduled(Raised(self)),
            Duty::Schedule => Due::Schedule,
            Duty::Drain => Due::Drain(Won(self), Head(head)),
            Duty::TakeOver => Due::TakeOver(Won(self), Head(head)),
        }
    }

    /// `raise` of CLOSED or ORPHAN; `None` if it was raised already.
    pub(crate) fn raise(&self, flag: u64, entry: Entry) -> Option<Due> {
        self.raise_if(flag, entry, |_| true)
    }

    /// `raise` of CLOSED if the mailbox is idle.
    pub(crate) fn raise_if_idle(&self, flag: u64, entry: Entry) -> Option<Due> {
        self.raise_if(flag, entry, |now| now.count() == 0)
    }

    fn raise_if(&self, flag: u64, entry: Entry, wanted: impl Fn(Snapshot) -> bool) -> Option<Due> {
        let mut now = self.load();
        loop {
            let (next, duty) = if wanted(now) { now.raise(flag, entry)? } else { return None };
            // Ordering: AcqRel. Release: writer side of FAREWELL. Acquire: reader side of HANDOVER
            // and MESSAGE, if it now owns, and of MEETING, for those that may help.
            match self.0.compare_exchange(now.0, next.0, AcqRel, Relaxed) {
                Ok(_) => return Some(self.due(duty, now.head())),
                Err(seen) => now = Snapshot(seen),
            }
        }
    }

    /// `take_over`, with the HEAD that is now the caller's.
    pub(crate) fn take_over(&self) -> Option<(Won, Head)> {
        let mut now = self.load();
        loop {
            // Ordering: Acquire, reader side of HANDOVER (the saved list too) and of MESSAGE.
            match self.0.compare_exchange(now.0, now.take_over()?.0, Acquire, Relaxed) {
                Ok(_) => return Some((Won(self), Head(now.head()))),
                Err(seen) => now = Snapshot(seen),
            }
        }
    }

    /// `schedule`: the entry is the caller's now; `None` if it is not.
    pub(crate) fn schedule(&self) -> Option<Raised> {
        let mut now = self.load();
        loop {
            let next = now.schedule()?;
            // Ordering: Relaxed. As a read-modify-write it continues the release sequences that the
            // entry reads from.
            match self.0.compare_exchange(now.0, next.0, Relaxed, Relaxed) {
                Ok(_) => return Some(Raised(self)),
                Err(seen) => now = Snapshot(seen),
            }
        }
    }

    /// `unschedule` by the entry, which is used up: it takes a pending mailbox over, or was stale.
    pub(crate) fn unschedule(&self) -> Unscheduled {
        let mut now = self.load();
        loop {
            if now.0 == DEAD {
                // Ordering: Acquire, reader side of LEFT. Nothing else touches the word any more.
                self.0.load(Acquire);
                return Unscheduled::Dead;
            }
            let (next, owns) = now.unschedule();
            // Ordering: AcqRel. Acquire: reader side of HANDOVER and of MESSAGE. Release: writer
            // side of LEFT.
            match self.0.compare_exchange(now.0, next.0, AcqRel, Relaxed) {
                Ok(_) if owns => return Unscheduled::Owns(Won(self), Head(now.head())),
                Ok(_) => return Unscheduled::Stale,
                Err(seen) => now = Snapshot(seen),
            }
        }
    }

    /// `unschedule` by its first guess, for a mailbox in which at most this many messages wait and
    /// of which nothing else is to be said: the HEAD that is now the caller's, which is empty only
    /// if a list is saved, and the number of messages.
    #[inline(always)]
    pub(crate) fn unschedule_few(&self, most: u64) -> Option<(Won, Head, u64)> {
        let now = self.load();
        if now.flags() != SCHEDULED | PENDING || now.count() > most {
            return None;
        }
        // Ordering: Acquire, reader side of HANDOVER (the saved list too) and of MESSAGE. What the
        // owner does with the cell after this, its release tells LEFT.
        let next = now.0 & !(HEAD | FLAGS | SCHEDULED);
        debug_assert_eq!((Snapshot(next), true), now.unschedule());
        let won = self.0.compare_exchange(now.0, next, Acquire, Relaxed).is_ok();
        won.then(|| (Won(self), Head(now.head()), now.count()))
    }

    /// The entry is given up by one that has a reference: true if the mailbox was left to it.
    pub(crate) fn unschedule_only(&self) -> bool {
        // Ordering: Release, writer side of LEFT: a step that finds the word idle sees the
        // reference that has taken the entry's place. Ownership and nodes stay where they are.
        Snapshot(self.0.fetch_and(!SCHEDULED, Release)).is_pending()
    }

    /// The last reference is gone: true if an entry is out, which frees the memory then.
    pub(crate) fn is_left_to_entry(&self) -> bool {
        // Ordering: Acquire, reader side of LEFT. None is made any more.
        if !Snapshot(self.0.load(Acquire)).is_scheduled() {
            return false;
        }
        // Ordering: AcqRel. Either side of LEFT: the second to come frees.
        Snapshot(self.0.swap(DEAD, AcqRel)).is_scheduled()
    }

    /// `take` by the owner: what was in HEAD.
    pub(crate) fn take(&self, seen: Snapshot, done: u64) -> Head {
        let mut now = seen;
        loop {
            // Ordering: Acquire, reader side of MESSAGE.
            match self.0.compare_exchange(now.0, now.take(done).0, Acquire, Relaxed) {
                Ok(_) => return Head(now.head()),
                Err(seen) => now = Snapshot(seen),
            }
        }
    }

    /// The guess of `release` after `done` turns since the last step: no load, as on the fast path.
    #[inline]
    pub(crate) fn release_guess(&self, done: u64) -> Result<(), Snapshot> {
        let guess = Snapshot::new(done.min(COUNT_MAX), 0, 0);
        // Ordering: Release, writer side of HANDOVER.
        match self.0.compare_exchange(guess.0, 0, Release, Relaxed) {
            Ok(_) => Ok(()),
            Err(now) => Err(Snapshot(now)),
        }
    }

    /// `release` from `seen`, which has no message and no ORPHAN.
    pub(crate) fn release_from(&self, seen: Snapshot, next: Snapshot) -> Result<(), Snapshot> {
        // Ordering: Release, writer side of HANDOVER.
        match self.0.compare_exchange(seen.0, next.0, Release, Relaxed) {
            Ok(_) => Ok(()),
            Err(now) => Err(Snapshot(now)),
        }
    }

    /// `release` from `seen` of a mailbox that has ended or is watched.
    pub(crate) fn release_met(&self, seen: Snapshot, next: Snapshot) -> Result<(), Snapshot> {
        // Ordering: AcqRel. Release: writer side of HANDOVER. Acquire: reader side of MEETING.
        match self.0.compare_exchange(seen.0, next.0, AcqRel, Relaxed) {
            Ok(_) => Ok(()),
            Err(now) => Err(Snapshot(now)),
        }
    }

    /// A look that cannot be missed: either it sees that the mailbox has ended, or the one who ends
    /// it sees all that came before this look.
    pub(crate) fn meet(&self) -> Snapshot {
        // Ordering: Release, writer side of MEETING. Who sees the end here looks again, by `look`.
        Snapshot(self.0.fetch_or(0, Release))
    }

    /// `set_pending` by the owner, with its saved list in place; `scheduled`: the entry is the
    /// caller's, and comes back.
    pub(crate) fn set_pending(&self, done: u64, scheduled: bool) -> Option<Raised> {
        let mut now = self.load();
        loop {
            // Ordering: Release, writer side of HANDOVER (the saved list too).
            match self.0.compare_exchange(
                now.0,
                now.set_pending(done, scheduled).0,
                Release,
                Relaxed,
            ) {
                Ok(_) => return scheduled.then_some(Raised(self)),
                Err(seen) => now = Snapshot(seen),
            }
        }
    }

    /// `watch`; false if nothing runs or waits.
    pub(crate) fn watch(&self) -> bool {
        let mut now = self.load();
        loop {
            let Some(next) = now.watch() else { return false };
            // Ordering: Release, writer side of MEETING.
            match self.0.compare_exchange(now.0, next.0, Release, Relaxed) {
                Ok(_) => return true,
                Err(seen) => now = Snapshot(seen),
            }
        }
    }
}
