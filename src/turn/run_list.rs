//! Running a thread's list: entry by entry, hints last.
//!
//! Most entries of programs whose actors send to actors have one message or a few, of an actor that
//! asks for nothing around its turns. Such messages go the short way ([`ListRun::entry`]): one step
//! takes the mailbox over, one lets it go, and what all turns share (the catch, the frame, the row
//! of freed nodes, the meter) is the list's. They are so few that the budget would not look at them
//! before they are done. Everything else is driven.

use super::hand::Hand;
use super::run::{drive, drive_on, drive_panicked, within_budget};
use crate::budget::{Budget, Meter, Surroundings};
use crate::cell::header::{Held, stops};
use crate::cell::owner::{Claimed, Few, Owner};
use crate::cell::refs::{Queued, Scheduled};
use crate::cell::resident::Env;
use crate::mailbox::chunk::Row;
use crate::mailbox::list::Batch;
use crate::mailbox::node::Taken;
use crate::panic::{self, Payload};
use crate::pool::linger;
use crate::thread::context::{Frame, LentClaim, Local};
use crate::thread::schedule::{hands_off, schedule, take_over};
use crate::time::MonotonicClock;

/// Runs `first`, then this thread's list, and then, for as long as there are, what `next` has and
/// the list after each of them.
#[inline]
pub(super) fn run_list(
    local: &Local,
    first: Option<Queued>,
    mut next: impl FnMut() -> Option<Queued>,
) {
    // The list's own work (freeing a cell) is no place for a turn: what it sends is deferred.
    local.run_list(|frame| {
        // Messages that this thread has sent and runs itself lie in a row, for any actor.
        let mut run = ListRun {
            local,
            frame,
            row: Row::new(),
            meter: Meter::new(Budget::INLINE.first_look()),
            hand: Hand::new(),
            rest: Batch::new(),
            done: 0,
        };
        let mut first = first;
        // One catch goes around many turns.
        while let Err(payload) = panic::catch(|| run.entries(&mut first, &mut next)) {
            run.panicked(payload);
        }
    });
    local.tidy();
}

/// One run of this thread's list.
struct ListRun<'a> {
    local: &'a Local,
    frame: &'a Frame,
    row: Row,
    meter: Meter<'a>,
    /// The message that is run the short way.
    hand: Hand<LentClaim>,
    /// The others of its mailbox, which come after it.
    rest: Batch,
    /// The number of those that came before it.
    done: u64,
}

impl ListRun<'_> {
    /// Unwinds if a message does that goes the short way; [`panicked`](Self::panicked) follows.
    #[inline]
    fn entries(&mut self, first: &mut Option<Queued>, next: &mut impl FnMut() -> Option<Queued>) {
        loop {
            let mut is_drain = first.is_some();
            let queued = match first.take().or_else(|| self.local.next_deferred()) {
                Some(queued) => queued,
                None => {
                    let Some(queued) = next() else { return };
                    self.meter = Meter::new(Budget::INLINE.first_look());
                    is_drain = true;
                    queued
                }
            };
            match queued {
                Queued::Entry(entry) => self.entry(entry),
                // Only a hint comes here: entries are taken apart above.
                Queued::Hint(cell) if is_drain => self.drive(take_over(Queued::Hint(cell))),
                Queued::Hint(cell) => self.drive(cell.take_over()),
            }
            self.meter.count();
            if self.meter.is_due() && self.meter.look(around_list()).is_some() {
                hand_off_limited(self.local);
                // What is left stays here, and is not walked again before as much was run.
                let left = u32::try_from(self.local.owed()).unwrap_or(u32::MAX);
                self.meter = Meter::new(Budget::INLINE.first_look().max(left));
            }
        }
    }

    fn drive(&mut self, owner: Option<Owner>) {
        if let Some(owner) = owner {
            let meter = within_budget(owner.header());
            drive(self.local, owner, meter, &mut self.row);
        }
    }

    /// The short way: no meter, no frame for the state, and the list's own frame.
    #[inline(always)]
    fn entry(&mut self, entry: Scheduled) {
        let few = match entry.take_few() {
            Ok(few) => few,
            Err(entry) => return self.drive(entry.take_over()),
        };
        if !few.is_one() {
            return self.few(few);
        }
        // A stop that is over has closed the mailbox, and that is not taken as a few. This is one
        // that is under way.
        if few.is_disturbed() {
            return self.drive(Some(few.into_owner()));
        }
        let (claimed, taken) = few.into_one();
        let lent = self.frame.lend_to(claimed);
        let Some(lent) = self.turn(lent, taken) else { return };
        let claimed = self.frame.take_back(lent);
        self.wait_a_moment(&claimed, 1);
        if let Err(claimed) = claimed.release_one() {
            self.done = 1;
            self.go_on(claimed);
        }
    }

    /// The short way of more than one.
    #[inline(never)]
    fn few(&mut self, few: Few) {
        // In this order (NEWS).
        let news = stops();
        if few.is_disturbed() {
            return self.drive(Some(few.into_owner()));
        }
        let claimed = few.into_list(&mut self.rest);
        let mut lent = self.frame.lend_to(claimed);
        while let Some(taken) = self.rest.pop() {
            let Some(still_lent) = self.turn(lent, taken) else { return };
            lent = still_lent;
            self.done += 1;
            if stops() != news {
                break;
            }
        }
        let mut claimed = self.frame.take_back(lent);
        if self.rest.is_empty() {
            self.wait_a_moment(&claimed, self.done);
            match claimed.release_few(self.done) {
                Ok(()) => return self.done = 0,
                Err(still_claimed) => claimed = still_claimed,
            }
        }
        self.go_on(claimed);
    }

    /// Runs a message of the mailbox that the frame is lent to.
    #[inline(always)]
    fn turn(&mut self, lent: LentClaim, taken: Taken) -> Option<LentClaim> {
        let env = Env::of(lent.claimed().cell());
        // SAFETY: ENVELOPE-1: this mailbox's own message, with its own cell. The state is there: a
        // turn comes only before the end. One that may be suspended does not go the short way.
        let (lent, used) = unsafe { self.hand.run_lent(lent, taken, &env) }?;
        used.free(&mut self.row);
        Some(lent)
    }

    /// Waits a moment before it lets go, if this thread has nothing else to do.
    #[inline(always)]
    fn wait_a_moment(&self, claimed: &Claimed, turns: u64) {
        if claimed.header().has_executor() && !self.local.owes_anything() {
            linger(|| !claimed.is_still(turns));
        }
    }

    /// The mailbox could not be let go after its messages, or an actor was stopped before.
    #[cold]
    #[inline(never)]
    fn go_on(&mut self, claimed: Claimed) {
        let (owner, meter) = self.owner(claimed);
        drive_on(self.local, owner, meter, &mut self.row);
    }

    /// The owner of what is left, and what the turns that went the short way leave of its budget.
    fn owner(&mut self, claimed: Claimed) -> (Owner, Meter<'static>) {
        let rest = std::mem::replace(&mut self.rest, Batch::new());
        let owner = claimed.into_owner_of(rest, std::mem::take(&mut self.done));
        let mut meter = within_budget(owner.header());
        (0..owner.unsettled()).for_each(|_| meter.count());
        (owner, meter)
    }

    #[cold]
    fn panicked(&mut self, payload: Payload) {
        let Some((lent, unwound)) = self.hand.unwound() else {
            // A step of our own failed.
            self.frame.forget_lent();
            return panic::discard(payload);
        };
        let claimed = self.frame.take_back(lent);
        let (owner, meter) = self.owner(claimed);
        drive_panicked(self.local, owner, (unwound, payload), meter, &mut self.row);
    }
}

/// Runs this thread's list, if it has one and is inside no turn.
#[inline(always)]
pub(crate) fn settle(local: &Local) {
    if local.owes_anything() {
        run_deferred(local);
    }
}

#[cold]
#[inline(never)]
fn run_deferred(local: &Local) {
    // Asked here: the good way has one comparison.
    if !local.in_turn() {
        run_list(local, None, || None);
    }
}

/// The surroundings by which a list's budget is measured.
fn around_list() -> Surroundings<'static> {
    // Each entry is asked in its turn: a list that stays here starts no pool.
    let hands_off = &|| true;
    Surroundings { budget: Budget::INLINE, clock: &MonotonicClock, hands_off, nested: false }
}

/// Schedules this thread's deferred actors, because the thread's budget is spent. Actors with an
/// unlimited budget stay: it says that this thread is to run everything. Hints do not wait any
/// longer for the end of a list of such actors.
#[cold]
fn hand_off_limited(local: &Local) {
    local.age_hints();
    for _ in 0..local.owed() {
        let Some(queued) = local.next_deferred() else { return };
        let header = queued.header();
        if header.config().budget.is_unlimited() || !hands_off(header) {
            local.append(queued, |far| _ = local.append_far(far));
        } else if let Some(cell) = queued.into_ref() {
            schedule(local, &cell);
        }
    }
}
