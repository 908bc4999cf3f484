//! The loop: one owner's turns, until it lets go.
//!
//! The loop stands outside of what may unwind: the owner with its private list, and the message in
//! hand, lie in the outer frame; one `catch` goes around a whole list, and no user code runs while
//! a thread unwinds (MAILBOX-11).
//!
//! | what is left, at the end of the private list  | step                                              |
//! |-----------------------------------------------|---------------------------------------------------|
//! | nothing, no flag                              | `release` by its first guess                      |
//! | messages in HEAD                              | `take`, and on with them                          |
//! | nothing, CLOSED or ORPHAN, not yet ended      | the end-of-life step, once, then look again       |
//! | nothing, ORPHAN, ended                        | `bury`: the handles' reference is given up        |
//! | nothing, CLOSED or WATCH                      | `release`, which keeps CLOSED; then wake          |
//!
//! User code that runs while there is an owner runs inside of the mailbox's frame. Whatever
//! consumes the owner comes after that ([`Step`]): who is woken then, or what is dropped, is no
//! part of the mailbox.
//!
//! A turn that is pending keeps the mailbox: its owner lies down in it ([`Drive::wait`]), and the
//! drain is over. The one that wakes the turn takes the owner out, with the turn's own node before
//! all that waits ([`super::waking`]).
//!
//! A thread's outermost drain gives way at the end of a batch, and at an await that was woken
//! already, if this thread's list has an entry (MAILBOX-9): it leaves its own mailbox at the list's
//! end, or to its executor. One that a caller waits for, or that is on top of a turn, goes on, and
//! hands the list off after some batches. What is in the batch was sent before what its turns have
//! sent, so the order of sending is kept. No mailbox is run between the turns of another.

use super::hand::{Hand, Unwound};
use crate::budget::{Leave, Meter, Surroundings};
use crate::cell::batch::Observed;
use crate::cell::header::{Header, Held, stops};
use crate::cell::owner::Owner;
use crate::cell::resident::Env;
use crate::cell::settings::Move;
use crate::cell::turn::TurnMut;
use crate::fallback;
use crate::mailbox::chunk::Row;
use crate::mailbox::node::{Ran, Taken};
use crate::mailbox::word::{CLOSED, Next, ORPHAN};
use crate::panic::{self, Payload};
use crate::pool::linger;
use crate::sync::config::KEPT_BATCHES;
use crate::thread::context::{Frame, Local};
use crate::thread::list::{defer, hand_off};
use crate::thread::schedule::{enrolls, goes_on, hand_over, hands_off};
use crate::turn::envelope::awaited::restart_after;

struct Drive<'a> {
    local: &'a Local,
    /// It stands for the mailbox only while the owner is lent to it ([`Frame::lend`]). What lets
    /// the mailbox go comes after that.
    frame: &'a Frame,
    row: &'a mut Row,
    meter: Meter<'a>,
    hand: Hand<()>,
    /// This thread is inside no other turn.
    outermost: bool,
    /// The batches after which this thread's list was kept, since it was handed off.
    kept: u32,
    /// Nothing is done for a message but its turn.
    plain: bool,
    /// The batch, if the actor is observed.
    observed: Option<Observed>,
}

/// The next step of a drive, after one that had the owner.
enum Step {
    /// Runs the private list, if there is one.
    Turns(Owner),
    /// There is more to run, and this thread must not go on with it.
    Leave(Owner, Leave),
    /// The mailbox was let go.
    Done,
}

/// The end of a run of turns.
enum Halt {
    /// The private list is at its end.
    Empty,
    /// Something is left, and this thread must not go on with it.
    Left(Leave),
    /// A turn is pending.
    Suspended(TurnMut),
}

/// The end of a run of turns in the middle of one.
enum Broken {
    /// It has panicked, and been dealt with.
    Panicked,
    /// It is pending.
    Suspended(TurnMut),
}

/// A drain within the budget of its actor.
pub(super) fn within_budget(header: &Header) -> Meter<'static> {
    Meter::new(header.config().budget.first_look())
}

/// Runs an owner's messages, then whatever has arrived meanwhile, as far as `meter` allows, and
/// lets go.
#[inline(never)]
pub(super) fn drive(local: &Local, owner: Owner, meter: Meter<'_>, row: &mut Row) {
    drive_with(local, owner, meter, row, |drive, owner| drive.begin(owner));
}

/// [`drive`] of an owner that has run turns already, which its meter has counted.
pub(super) fn drive_on(local: &Local, owner: Owner, meter: Meter<'_>, row: &mut Row) {
    drive_after(local, owner, meter, row, &mut |_, _| ());
}

/// [`drive`] of an owner in whose turn a message, taken out of its list, has just unwound.
pub(super) fn drive_panicked(
    local: &Local,
    owner: Owner,
    (unwound, payload): (Unwound, Payload),
    meter: Meter<'_>,
    row: &mut Row,
) {
    let mut unwound = Some((unwound, payload));
    drive_after(local, owner, meter, row, &mut |drive, owner| {
        if let Some((unwound, payload)) = unwound.take() {
            drive.settle(owner, unwound, payload);
        }
    });
}

/// [`drive`] of an owner whose first turn was run on the spot, and has panicked.
pub(crate) fn drive_after_panic(local: &Local, owner: Owner, payload: &Payload) {
    let meter = within_budget(owner.header());
    drive_after(local, owner, meter, &mut Row::new(), &mut |drive, owner| {
        drive.begin(owner);
        recover(owner, payload);
    });
}

/// [`drive`] of an owner whose first turn is this one. Nothing comes of it if the actor was stopped
/// before.
pub(crate) fn drive_turn<R>(
    local: &Local,
    owner: Owner,
    mut turn: impl FnMut(&mut Owner) -> R,
) -> Option<Result<R, Payload>> {
    let (meter, mut result) = (within_budget(owner.header()), None);
    drive_after(local, owner, meter, &mut Row::new(), &mut |drive, owner| {
        drive.begin(owner);
        if owner.is_stopped() {
            return;
        }
        if let Some(observed) = &mut drive.observed {
            observed.takes_up(owner.header(), true);
        }
        let ran = panic::catch(|| turn(owner));
        if let Err(payload) = &ran {
            recover(owner, payload);
        }
        result = Some(ran);
    });
    result
}

/// [`drive`] of an owner that something is done with before.
#[cold]
#[inline(never)]
fn drive_after(
    local: &Local,
    owner: Owner,
    meter: Meter<'_>,
    row: &mut Row,
    before: &mut dyn FnMut(&mut Drive<'_>, &mut Owner),
) {
    drive_with(local, owner, meter, row, before);
}

/// Applies the panic of a turn, which is counted, to the actor. True if a restart that comes later
/// takes its place.
#[cold]
fn recover(owner: &mut Owner, payload: &Payload) -> bool {
    let backoff = owner.recover(payload, true);
    backoff.into_iter().for_each(|backoff| restart_after(owner, backoff));
    backoff.is_some()
}

#[inline(always)]
fn drive_with(
    local: &Local,
    mut owner: Owner,
    meter: Meter<'_>,
    row: &mut Row,
    before: impl FnOnce(&mut Drive<'_>, &mut Owner),
) {
    let outermost = local.is_outermost();
    local.drive(|frame| {
        let config = owner.header().config();
        let (plain, hand) = (config.is_plain(), Hand::new());
        let observed = config.is_observed().then(Observed::default);
        let kept = 0;
        let mut drive = Drive { local, frame, row, meter, hand, outermost, kept, plain, observed };
        frame.lend(&mut owner, |owner| before(&mut drive, owner));
        drive.run(owner);
    });
}

impl Drive<'_> {
    /// A batch in the mailbox's frame, then a step from the owner to what comes next, outside of
    /// it.
    fn run(&mut self, mut owner: Owner) {
        let frame = self.frame;
        loop {
            let step = match frame.lend(&mut owner, |owner| self.batch_of(owner)) {
                Halt::Empty => self.let_go(owner),
                Halt::Suspended(turn) => self.suspend(owner, turn),
                Halt::Left(leave) => Step::Leave(owner, leave),
            };
            owner = match step {
                Step::Turns(owner) => owner,
                Step::Leave(owner, leave) => return self.leave(owner, leave),
                Step::Done => return,
            }
        }
    }

    /// Runs the private list, and ends the batch with it.
    fn batch_of(&mut self, owner: &mut Owner) -> Halt {
        let mut halt = Halt::Empty;
        // A mailbox that only has to be let go has no list.
        while owner.has_more() {
            // A turn that may wait borrows the state where it is (RESIDENT-1).
            let at_once = self.observed.is_none() && !owner.awaits();
            let moves = if at_once && owner.has_many() { owner.moves() } else { None };
            match self.round(owner, moves, at_once && self.plain) {
                Ok(end) => {
                    halt = end;
                    break;
                }
                Err(Broken::Suspended(turn)) => return Halt::Suspended(turn),
                Err(Broken::Panicked) => {
                    if let Some(leave) = owner.has_more().then(|| self.is_over(owner)).flatten() {
                        halt = Halt::Left(leave);
                        break;
                    }
                }
            }
        }
        if let Some(observed) = &mut self.observed {
            observed.end(owner);
        }
        halt
    }

    /// Leaves the mailbox pending, where it is at home or where it must go.
    fn leave(&mut self, mut owner: Owner, leave: Leave) {
        let (frame, local) = (self.frame, self.local);
        if matches!(leave, Leave::HandOff) {
            frame.lend(&mut owner, |owner| owner.header().handed_off());
        }
        match leave {
            // What comes on this thread may take long: an executor's actor does not wait for that.
            Leave::Defer if !owner.header().has_executor() => {
                defer(local, owner.leave_scheduled());
            }
            Leave::Defer | Leave::HandOff => hand_over(local, owner),
        }
    }

    /// Runs turns until the private list is at its end, this thread must not go on, or one breaks
    /// off.
    #[inline(always)]
    fn round(
        &mut self,
        owner: &mut Owner,
        moves: Option<&Move>,
        plain: bool,
    ) -> Result<Halt, Broken> {
        // SAFETY: the state is there: a turn comes only before the end. `turns` does nothing to the
        // mailbox but run its messages and settle them.
        let halt = panic::catch(|| unsafe {
            Env::within(owner, moves, |owner, env| match plain {
                true => self.turns::<true>(owner, env),
                false => self.turns::<false>(owner, env),
            })
        });
        match halt {
            Ok(halt) => halt.map_err(Broken::Suspended),
            Err(payload) => {
                self.panicked(owner, payload);
                Err(Broken::Panicked)
            }
        }
    }

    /// The way to leave, if the budget is used up, or what this thread waits for is done.
    #[inline(always)]
    fn is_over(&mut self, owner: &Owner) -> Option<Leave> {
        if self.meter.is_due() { self.look(owner) } else { None }
    }

    /// The way to leave, if this thread must let others go first, now that the batch is at its end,
    /// or its turn waits. A drain that goes on for long hands them off: what it runs may wait for
    /// them.
    fn gives_way(&mut self, owner: &Owner) -> Option<Leave> {
        let leave = self.is_over(owner);
        if leave.is_some() || !self.local.owes_anything() {
            return leave;
        }
        if !self.outermost || self.meter.is_waiting() && !fallback::is_closed() {
            self.kept += 1;
            if self.kept == KEPT_BATCHES {
                self.kept = 0;
                hand_off(self.local);
            }
            return None;
        }
        self.local.owes().then_some(Leave::Defer)
    }

    #[cold]
    fn look(&mut self, owner: &Owner) -> Option<Leave> {
        let header = owner.header();
        let leave = self.meter.look(Surroundings {
            budget: header.config().budget,
            clock: header.clock(),
            hands_off: &|| hands_off(header),
            nested: !self.outermost,
        });
        if matches!(leave, Some(Leave::HandOff)) && self.may_go_on(header) {
            self.meter = within_budget(header);
            self.begin(owner);
            return None;
        }
        leave
    }

    /// The budget is spent: would the executor have this thread go on at once? Then it goes on. A
    /// batch with hooks has ended, and a caller that waits has had its time.
    fn may_go_on(&self, header: &Header) -> bool {
        let is_free = self.outermost && !self.local.owes_anything();
        let is_plain = header.has_executor() && self.observed.is_none() && !self.meter.is_waiting();
        is_free && is_plain && goes_on(header)
    }

    /// The budget begins to count.
    fn begin(&mut self, owner: &Owner) {
        if self.meter.is_timed() {
            self.meter.begin(owner.header().config().budget, owner.header().clock());
        }
    }

    /// Unwinds if a turn does; [`panicked`](Self::panicked) follows. `PLAIN`: nothing is done
    /// around the turns, and none of them may wait.
    fn turns<const PLAIN: bool>(&mut self, owner: &mut Owner, env: &Env) -> Result<Halt, TurnMut> {
        // In this order (NEWS).
        let (mut news, mut stopped) = (stops(), owner.is_stopped());
        while let Some(taken) = owner.pop() {
            let runs = if PLAIN { !stopped } else { self.before_turn(owner, taken) };
            // SAFETY: ENVELOPE-1: this mailbox's own message, with its own cell. None of a list
            // that is run as PLAIN may wait.
            let (used, ran) = unsafe { self.hand.run::<PLAIN>(taken, runs, env) };
            if let Ran::Suspended(turn) = ran {
                self.meter.count();
                used.free(self.row);
                // SAFETY: a message that is suspended leaves the right to its turn, once.
                return Err(unsafe { TurnMut::from_raw(turn) });
            }
            owner.count_turn();
            self.meter.count();
            used.free(self.row);
            if !owner.has_more() {
                break;
            }
            if let Some(leave) = self.is_over(owner) {
                return Ok(Halt::Left(leave));
            }
            let latest = stops();
            if latest != news {
                (news, stopped) = (latest, owner.is_stopped());
            }
        }
        Ok(Halt::Empty)
    }

    /// Does what comes before a turn; false if there is none.
    #[inline]
    fn before_turn(&mut self, owner: &Owner, taken: Taken) -> bool {
        if self.plain {
            return !owner.is_stopped();
        }
        let (header, resumes) = (owner.header(), taken.resumes());
        if !resumes {
            header.takes_up();
        }
        let runs = !owner.is_stopped();
        match &mut self.observed {
            Some(observed) if resumes => observed.goes_on(header),
            Some(observed) => observed.takes_up(header, runs),
            None => {}
        }
        runs
    }

    // Turns that wait.

    /// Lies down in a turn that is pending. If it was woken meanwhile, or the actor stopped, the
    /// turn goes on, before all that waits.
    #[inline(never)]
    fn suspend(&mut self, mut owner: Owner, mut turn: TurnMut) -> Step {
        let frame = self.frame;
        if let Some(observed) = &mut self.observed {
            observed.stays_open(owner.header());
        }
        let lies_down = frame.lend(&mut owner, |owner| {
            !turn.is_woken() && {
                owner.settle();
                // In this order (TURN-3).
                turn.register(owner.header());
                let looks = turn.lies_first() || owner.header().config().asks_executor();
                (!looks || enrolls(owner)) && !owner.is_stopped()
            }
        });
        if lies_down {
            match turn.suspend(owner.lie_down()) {
                Ok(()) => return Step::Done,
                Err(woken) => owner = woken.get_up(),
            }
        } else {
            if self.meter.is_due() || self.local.owes() {
                // Left pending, it is none of the messages that wait there.
                turn.register(owner.header());
            }
            owner.put_back(turn.into_node());
        }
        match frame.lend(&mut owner, |owner| self.gives_way(owner)) {
            Some(leave) => Step::Leave(owner, leave),
            None => Step::Turns(owner),
        }
    }

    /// Deals with a panic.
    #[cold]
    fn panicked(&mut self, owner: &mut Owner, payload: Payload) {
        match self.hand.unwound() {
            Some(((), unwound)) => self.settle(owner, unwound, payload),
            // Nothing was in hand: a step of our own failed. The list and the word are as they
            // were.
            None => panic::discard(payload),
        }
    }

    /// Deals with the panic of a message.
    fn settle(&mut self, owner: &mut Owner, unwound: Unwound, payload: Payload) {
        owner.count_turn();
        // A message that panics while it is given back hurts nothing else: the actor is stopping
        // anyway.
        let restarts = unwound.has_run() && recover(owner, &payload);
        let env = Env::of(owner.cell());
        // SAFETY: ENVELOPE-1: a message of this mailbox, with its own cell.
        unsafe { unwound.settle(&env, payload) }.free(self.row);
        // A restart that comes later has the turn's place, also in the budget.
        if !restarts {
            self.meter.count();
        }
    }

    // Letting go.

    #[inline(always)]
    fn let_go(&mut self, owner: Owner) -> Step {
        let frame = self.frame;
        if self.outermost && !self.local.owes_anything() && owner.header().has_executor() {
            linger(|| !owner.is_still());
        }
        let Err((mut owner, mut seen)) = owner.release_guess() else { return Step::Done };
        loop {
            if seen.head() == 0 && seen.has(CLOSED | ORPHAN) {
                seen = owner.header().word.look();
            }
            let next = match seen.let_go(owner.has_ended()) {
                Next::Release(next) => next,
                Next::Take => {
                    let leave = frame.lend(&mut owner, |owner| self.gives_way(owner));
                    if let Some(leave) = leave {
                        return Step::Leave(owner, leave);
                    }
                    let now = owner.header().word.load();
                    owner.take(now);
                    return Step::Turns(owner);
                }
                Next::End => {
                    frame.lend(&mut owner, Owner::end);
                    continue;
                }
                Next::Bury => {
                    owner.bury();
                    return Step::Done;
                }
            };
            let released = if seen.has(CLOSED) || seen.is_watched() {
                owner.release_met(seen, next)
            } else {
                owner.release_from(seen, next)
            };
            (owner, seen) = match released {
                Ok(()) => return Step::Done,
                Err(busy) => busy,
            };
        }
    }
}
