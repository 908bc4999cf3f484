//! The work of one drain before another thread goes on: a number of turns, a time, or both.
//!
//! A drain counts its turns down, one subtraction and one branch each, to the next *look*; only
//! there is anything compared or a clock read ([`Meter::look`]). With a limit of turns alone, the
//! look comes when they are used up. With a limit of time:
//!
//! - The clock is read when the drain begins, and after its first turn. The default budget of a
//!   caller is read for the first time after [`GRACE`] turns, and counts from there: a short drain
//!   never reads a clock.
//! - A stretch between two looks that took at most a sixteenth of the time that is left is followed
//!   by one of eight times as many turns, at most [`FARTHEST`]; one that took at most half of it,
//!   by one as long; any other by a single turn.
//!
//! So a drain oversteps its time by less than one turn as long as its turns are equally long. Turns
//! that become longer from one stretch to the next can add what [`FARTHEST`] of them take, and no
//! more. A turn is never interrupted.
//!
//! The drain of a caller that waits ([`Until`]) looks after every turn. Before the caller's own
//! message is done, only the caller's deadline ends it; afterwards the budget does.
//!
//! - BUDGET-1: a budget ends a drain only if another thread can go on with it (an argument of
//!   [`Meter::look`]). Then the drain is handed off before it lets go (MAILBOX-8), or, if nothing
//!   is left, simply ends.

#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

use crate::panic;
use crate::time::{Clock, Cutoff};

/// Turns of a drain before a default budget reads the clock.
const GRACE: u32 = 8;
/// The most turns between two looks at the clock.
const FARTHEST: u32 = 64;
/// No limit of turns, and no look in sight.
pub(crate) const NEVER: u32 = u32::MAX;

/// The most that one drain does, in turns, in time, or both; whichever is used up first ends it.
///
/// What is left then is handed on: to the actor's executor, or, if it has none, to
/// [`ThreadPool::global`](crate::ThreadPool::global), which starts on the first such need (with the
/// feature `tokio`, to the runtime that the thread is in). If nothing is left, nothing is handed
/// on. See [`ActorBuilder::budget`](crate::ActorBuilder::budget).
///
/// A drain ends between two turns; a turn is never interrupted. The clock is read after the first
/// turn and then at growing distances, of 64 turns at most. So a drain whose turns are equally long
/// oversteps its time by less than one of them. If they become longer on the way, it oversteps it
/// by what 64 of them take at most.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, Budget};
///
/// let n = Actor::builder().budget(Budget::turns(256).time(Duration::from_millis(1))).spawn(0)?;
/// n.send(|n| *n += 1)?;
///
/// let forever = Actor::builder().budget(Budget::UNLIMITED).spawn(0)?;
/// forever.send(|n| *n += 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// [`NEVER`]: no limit.
    turns: u32,
    time: Option<Duration>,
    /// Turns before the clock is read, fewer than `turns`; 0: it is read when the drain begins.
    grace: u32,
}

impl Budget {
    /// No end: a drain goes on for as long as messages come.
    pub const UNLIMITED: Budget = Budget { turns: NEVER, time: None, grace: 0 };
    /// In an executor, unless the builder says otherwise.
    pub(crate) const POSTED: Budget = Budget::turns(64);
    /// On the threads that send, unless the builder says otherwise.
    pub(crate) const INLINE: Budget =
        Budget { turns: NEVER, time: Some(Duration::from_millis(1)), grace: GRACE };

    /// This many turns. `u32::MAX` is no limit.
    pub const fn turns(turns: u32) -> Self {
        Budget { turns, time: None, grace: 0 }
    }

    /// Adds a limit of time, by the actor's clock. A time that the clock never comes to is no
    /// limit.
    pub const fn time(self, limit: Duration) -> Self {
        Budget { turns: self.turns, time: Some(limit), grace: 0 }
    }

    /// True if it would end before the first turn.
    pub(crate) fn is_zero(self) -> bool {
        self.turns == 0 || self.time.is_some_and(|time| time.is_zero())
    }

    pub(crate) const fn is_unlimited(self) -> bool {
        self.turns == NEVER && self.time.is_none()
    }

    /// Turns to the first look; 0: the clock is to be read at once.
    pub(crate) const fn first_look(self) -> u32 {
        match self.time {
            None => self.turns,
            Some(_) => self.grace,
        }
    }
}

impl From<u32> for Budget {
    fn from(turns: u32) -> Self {
        Budget::turns(turns)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turns = (self.turns != NEVER).then_some(self.turns);
        f.debug_struct("Budget")
            .field("turns", &turns)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

/// The end of a caller's wait while it drains.
pub(crate) struct Until<'a> {
    /// True if the caller's own message is done.
    pub(crate) done: &'a dyn Fn() -> bool,
    /// It leaves as soon as that is done, and does not go on within the budget.
    pub(crate) at_once: bool,
    pub(crate) deadline: Cutoff<'a>,
}

impl Until<'_> {
    /// True if its time is over. A clock that panics shows nothing.
    pub(crate) fn is_over(&self) -> bool {
        let over = panic::catch(|| self.deadline.is_over()).map_err(panic::discard);
        over == Ok(true)
    }
}

/// The way in which a drain is left that has more to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// The mailbox goes to its executor: this thread has done enough.
    HandOff,
    /// The mailbox goes to the end of this thread's own list: others come first.
    Defer,
}

/// The part of its budget that a drain has used.
pub(crate) struct Meter<'a> {
    /// Turns to the next look.
    until_look: u32,
    /// That count at the last look.
    armed: u32,
    /// Nothing before the first look.
    account: Option<Account>,
    until: Option<&'a Until<'a>>,
}

/// State that one look leaves to the next.
struct Account {
    budget: Budget,
    /// Turns that are left.
    turns: u64,
    /// The clock's time when the limit began to count, if it has.
    begun: Option<Duration>,
    /// The clock's time at the last look.
    seen: Duration,
}

/// Facts about the drain that a look needs.
pub(crate) struct Surroundings<'a> {
    pub(crate) budget: Budget,
    pub(crate) clock: &'a dyn Clock,
    /// True if another thread can go on. The call may start threads.
    pub(crate) hands_off: &'a dyn Fn() -> bool,
    /// True if the drain is on top of a turn of the same thread.
    pub(crate) nested: bool,
}

impl<'a> Meter<'a> {
    /// A drain begins whose first look comes after this many turns.
    #[inline(always)]
    pub(crate) fn new(first_look: u32) -> Self {
        Meter { until_look: first_look, armed: first_look, account: None, until: None }
    }

    /// The drain of a caller that waits begins.
    pub(crate) fn waiting(until: &'a Until<'a>) -> Self {
        Meter { until_look: 1, armed: 1, account: None, until: Some(until) }
    }

    /// A drain begins that no other thread can go on with.
    pub(crate) fn unlimited() -> Self {
        Meter::new(NEVER)
    }

    /// True if it is that of a caller that waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.until.is_some()
    }

    /// True if the clock is to be read before the first turn.
    #[inline(always)]
    pub(crate) fn is_timed(&self) -> bool {
        self.until_look == 0
    }

    /// One turn is done.
    #[inline(always)]
    pub(crate) fn count(&mut self) {
        self.until_look = self.until_look.wrapping_sub(1);
    }

    /// True if it is time to look.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.until_look == 0
    }

    /// Reads the clock before the first turn.
    #[cold]
    pub(crate) fn begin(&mut self, budget: Budget, clock: &dyn Clock) {
        let mut account = Account::new(budget);
        account.read(clock);
        self.account = Some(account);
        self.arm(1);
    }

    /// Looks: is the drain over, and what becomes of the rest? A clock that panics does not end it.
    #[cold]
    #[inline(never)]
    pub(crate) fn look(&mut self, around: Surroundings<'_>) -> Option<Leave> {
        if let Some(until) = self.until {
            return self.look_for(until, around);
        }
        let stretch = self.armed;
        let account = self.account.get_or_insert_with(|| Account::new(around.budget));
        account.spend(stretch);
        let mut next = account.look(around.clock, stretch);
        if next == 0 && !(around.hands_off)() {
            *account = Account::new(Budget::UNLIMITED);
            next = NEVER;
        }
        self.arm(next);
        (next == 0).then_some(Leave::HandOff)
    }

    /// A caller that waits leaves when its time is over. When its message is done, it goes on
    /// within the budget, unless it is to leave at once; on top of a turn, which needs this thread,
    /// it does.
    fn look_for(&mut self, until: &Until<'_>, around: Surroundings<'_>) -> Option<Leave> {
        let leave = if around.nested { Leave::Defer } else { Leave::HandOff };
        if (until.done)() {
            let budget = around.budget;
            let budget = if budget.is_unlimited() { Budget::INLINE } else { budget };
            *self = Meter::new(budget.first_look());
            if self.is_timed() {
                self.begin(budget, around.clock);
            } else {
                self.account = Some(Account::new(budget));
            }
            return (around.nested || until.at_once).then_some(leave);
        }
        self.arm(1);
        until.is_over().then_some(leave)
    }

    fn arm(&mut self, stretch: u32) {
        let left = self.account.as_ref().map_or(u64::MAX, |account| account.turns);
        self.armed = u64::from(stretch).min(left) as u32;
        self.until_look = self.armed;
    }
}

impl Account {
    fn new(budget: Budget) -> Self {
        let turns = if budget.turns == NEVER { u64::MAX } else { u64::from(budget.turns) };
        Account { budget, turns, begun: None, seen: Duration::ZERO }
    }

    fn spend(&mut self, turns: u32) {
        if self.turns != u64::MAX {
            self.turns -= u64::from(turns);
        }
    }

    /// Begins to count the time, if it is limited.
    fn read(&mut self, clock: &dyn Clock) {
        if self.budget.time.is_some() {
            match now(clock) {
                Some(now) => (self.begun, self.seen) = (Some(now), now),
                None => self.budget.time = None,
            }
        }
    }

    /// Turns to the next look; 0: it is over.
    fn look(&mut self, clock: &dyn Clock, stretch: u32) -> u32 {
        if self.turns == 0 {
            return 0;
        }
        let Some(limit) = self.budget.time else { return NEVER };
        let Some(begun) = self.begun else {
            self.read(clock);
            return 1;
        };
        let Some(now) = now(clock) else {
            self.budget.time = None;
            return NEVER;
        };
        let left = limit.saturating_sub(now.saturating_sub(begun));
        let took = now.saturating_sub(std::mem::replace(&mut self.seen, now));
        if left.is_zero() {
            0
        } else if took <= left / 16 {
            stretch.saturating_mul(8).min(FARTHEST)
        } else if took <= left / 2 {
            stretch
        } else {
            1
        }
    }
}

/// The time of a user's clock, unless it panics.
fn now(clock: &dyn Clock) -> Option<Duration> {
    panic::catch(|| clock.now()).map_err(panic::discard).ok()
}
