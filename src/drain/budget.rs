//! How much one drain does before somebody else has to go on: so many turns, so long.
//!
//! A drain counts its turns down, one subtraction and one branch each, to the next *look*; only there is anything compared or a clock read
//! ([`Meter::look`]). With a limit of turns alone, that is when they are used up. With a limit of time:
//!
//! - The clock is read when the drain begins, and after its first turn. The budget of an actor that was given none is read for the first time
//!   after [`GRACE`] turns, and counts from there: a short drain never reads a clock.
//! - A stretch between two looks that took at most a sixteenth of the time that is left is followed by one of eight times as many turns, at
//!   most [`FARTHEST`]; one that took at most half of it, by one as long; any other by a single turn.
//!
//! So a drain oversteps its time by less than one turn as long as its turns are of a length; turns that become longer from one stretch to the
//! next can add what [`FARTHEST`] of them take, and no more. A turn is never interrupted.
//!
//! - M1: a drain is over only if somebody can go on with it ([`Meter::look`] is told). Then it is handed on before it lets go (R8), or, if
//!   nothing is left, simply ends.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use crate::sync::panic::catch;
use crate::unwind::shrug_off;
use crate::wait::Clock;

/// Turns of a drain before a default budget reads the clock.
const GRACE: u32 = 8;
/// The most turns between two looks at the clock.
const FARTHEST: u32 = 64;
/// No limit of turns, and no look in sight.
pub(crate) const NEVER: u32 = u32::MAX;
/// The same for a drain that must not be let go, whatever its budget, for there may be nobody who could go on with it.
pub(crate) const KEPT: u32 = u32::MAX - 1;

/// The most that one drain does, in turns, in time, or both; whichever is used up first ends it.
///
/// What is left then is handed on: to the actor's executor, or, if it has none, to [`ThreadPool::global`](crate::ThreadPool::global), which
/// starts on the first such need. If nothing is left, nothing is handed on. See [`ActorBuilder::budget`](crate::ActorBuilder::budget).
///
/// A drain is let go between two turns; a turn is never interrupted. Time is looked at after the first turn and then at growing
/// distances, of 64 turns at most. So a drain whose turns are of a length oversteps its time by less than one of them; if they become
/// longer on the way, by what 64 of them take at most.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{Actor, Budget};
///
/// let n = Actor::builder(0).budget(Budget::turns(256).time(Duration::from_millis(1))).spawn()?;
/// n.send(|n| *n += 1)?;
///
/// let forever = Actor::builder(0).budget(Budget::UNLIMITED).spawn()?;
/// forever.send(|n| *n += 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// [`NEVER`]: no limit.
    turns: u32,
    time: Option<Duration>,
    /// Turns before the clock is read; 0: it is read when the drain begins.
    grace: u32,
}

impl Budget {
    /// No end: a drain goes on for as long as messages come.
    pub const UNLIMITED: Budget = Budget { turns: NEVER, time: None, grace: 0 };
    /// In an executor, unless the builder says otherwise.
    pub(crate) const POSTED: Budget = Budget::turns(256);
    /// On the threads that send, unless the builder says otherwise.
    pub(crate) const INLINE: Budget = Budget { turns: NEVER, time: Some(Duration::from_millis(1)), grace: GRACE };

    /// So many turns. `u32::MAX` is no limit.
    pub const fn turns(turns: u32) -> Self {
        Budget { turns, time: None, grace: 0 }
    }

    /// The same, and so long, by the actor's clock. A time that the clock never comes to is no limit.
    pub const fn time(self, limit: Duration) -> Self {
        Budget { turns: self.turns, time: Some(limit), grace: 0 }
    }

    /// Would it end before the first turn?
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
            Some(_) if self.grace < self.turns => self.grace,
            Some(_) => self.turns,
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
        f.debug_struct("Budget").field("turns", &turns).field("time", &self.time).finish_non_exhaustive()
    }
}

/// What a drain has left, as a handler sees it: see [`remaining`](crate::remaining).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Remaining {
    budget: Budget,
    turns: Option<u32>,
    elapsed: Duration,
}

impl Remaining {
    /// The budget in force.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// How many turns may follow this one in this drain; `None` without a limit.
    pub fn turns(&self) -> Option<u32> {
        self.turns
    }

    /// The time that is left; `None` without a limit.
    pub fn time(&self) -> Option<Duration> {
        Some(self.budget.time?.saturating_sub(self.elapsed))
    }

    /// The time since the drain began, or since its budget was renewed. Zero without a limit of time, and as long as the clock has not been
    /// read: in the first turns of a drain whose actor was given no budget.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Is this the last turn of the drain? If messages are left, it is handed on after it.
    pub fn is_over(&self) -> bool {
        self.turns == Some(0) || self.budget.time.is_some_and(|time| time <= self.elapsed)
    }
}

impl fmt::Debug for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remaining").field("turns", &self.turns()).field("time", &self.time()).field("elapsed", &self.elapsed).finish()
    }
}

/// What a drain has used of its budget. Of the thread that drains; a handler reaches it too, so it is all cells.
pub(crate) struct Meter {
    /// Turns to the next look. Stays 0 when the drain is over.
    until_look: Cell<u32>,
    /// What that was at the last one.
    armed: Cell<u32>,
    /// Nothing before the first look, or the first question.
    account: Cell<Option<Account>>,
}

#[derive(Clone, Copy)]
struct Account {
    budget: Budget,
    /// Turns at the last look; the one that renewed the budget included.
    turns: u64,
    /// What the clock showed when the time began to count, if it has.
    begun: Option<Duration>,
    /// What it showed at the last look.
    seen: Duration,
    over: bool,
}

impl Meter {
    /// A drain begins that looks after so many turns for the first time.
    #[inline(always)]
    pub(crate) fn new(first_look: u32) -> Self {
        Meter { until_look: Cell::new(first_look), armed: Cell::new(first_look), account: Cell::new(None) }
    }

    /// Is the clock to be read before the first turn?
    #[inline(always)]
    pub(crate) fn is_timed(&self) -> bool {
        self.until_look.get() == 0
    }

    /// One turn is done.
    #[inline(always)]
    pub(crate) fn count(&self) {
        debug_assert!(self.until_look.get() > 0, "a turn after the end of the drain");
        self.until_look.set(self.until_look.get().wrapping_sub(1));
    }

    /// Is it time to look?
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.until_look.get() == 0
    }

    /// Was it found to be over?
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.is_due() && self.account.get().is_some_and(|account| account.over)
    }

    /// What the first look finds: the budget is the actor's, unless the drain has none.
    fn account(&self, budget: Budget) -> Account {
        self.account.get().unwrap_or_else(|| {
            let budget = if self.armed.get() >= KEPT { Budget::UNLIMITED } else { budget };
            let turns = if budget.turns == NEVER { u64::MAX } else { u64::from(budget.turns) };
            Account { budget, turns, begun: None, seen: Duration::ZERO, over: false }
        })
    }

    /// Reads the clock before the first turn.
    #[cold]
    pub(crate) fn begin(&self, budget: Budget, clock: &dyn Clock) {
        let mut account = self.account(budget);
        account.read(clock);
        self.arm(account, 1);
    }

    /// Looks: is the drain over? It never is if nobody can go on with it (M1). The clock is the user's, and may panic: then its time does not
    /// end the drain.
    #[cold]
    #[inline(never)]
    pub(crate) fn look(&self, budget: Budget, clock: &dyn Clock, may_end: bool) -> bool {
        if self.armed.get() == KEPT {
            self.until_look.set(KEPT);
            return false;
        }
        let mut account = self.account(budget);
        if account.over {
            return true;
        }
        let stretch = self.armed.get();
        account.spend(stretch);
        if !may_end {
            account.budget = Budget::UNLIMITED;
            account.turns = u64::MAX;
        }
        let next = account.look(clock, stretch);
        account.over = next == 0;
        self.arm(account, next);
        account.over
    }

    fn arm(&self, account: Account, stretch: u32) {
        let stretch = u64::from(stretch).min(account.turns) as u32;
        self.armed.set(stretch);
        self.until_look.set(stretch);
        self.account.set(Some(account));
    }

    /// What is left, if the budget has an end.
    pub(crate) fn remaining(&self, budget: Budget, clock: &dyn Clock) -> Option<Remaining> {
        let account = self.account(budget);
        if account.budget.is_unlimited() {
            return None;
        }
        let done = self.armed.get() - self.until_look.get();
        let turns = (account.turns != u64::MAX).then(|| account.turns.saturating_sub(u64::from(done) + 1) as u32);
        let elapsed = account.begun.map_or(Duration::ZERO, |begun| clock.now().saturating_sub(begun));
        Some(Remaining { budget: account.budget, turns, elapsed })
    }

    /// Puts another budget in force, from now on: its time counts from this moment, its turns from the next one. False if the drain is kept.
    pub(crate) fn renew(&self, budget: Budget, clock: &dyn Clock) -> bool {
        if self.armed.get() == KEPT {
            return false;
        }
        // The turn that asks for it is counted when it is done.
        self.start(budget, 1, clock);
        true
    }

    /// A drain within this budget begins, between two turns.
    pub(crate) fn restart(&self, budget: Budget, clock: &dyn Clock) {
        self.start(budget, 0, clock);
    }

    fn start(&self, budget: Budget, under_way: u64, clock: &dyn Clock) {
        let turns = if budget.turns == NEVER { u64::MAX } else { u64::from(budget.turns) + under_way };
        let mut account = Account { budget, turns, begun: None, seen: Duration::ZERO, over: false };
        account.read(clock);
        self.arm(account, if budget.time.is_some() { 1 } else { NEVER });
    }
}

impl Account {
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

/// What a user's clock shows, unless it panics.
fn now(clock: &dyn Clock) -> Option<Duration> {
    catch(|| clock.now()).map_err(|panic| shrug_off(|| drop(panic))).ok()
}
