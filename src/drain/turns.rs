//! One thread's run of turns over one mailbox, and the list of mailboxes it runs after that.
//!
//! [`drive`] is called by an owner with its private list and ends in release or park. Its loop stands outside of what may unwind: the
//! cursor (list, turns done, message in hand) is a [`Drive`] in the outer frame, one `catch` goes around a whole batch, and no user code
//! runs while a thread unwinds (R11).
//!
//! | what is left, at the end of the private list   | step                                                                     |
//! |------------------------------------------------|--------------------------------------------------------------------------|
//! | nothing, no flag                               | `release` by its first guess; the mailbox is not touched again           |
//! | messages in HEAD                               | `take`, and on with them                                                 |
//! | nothing, CLOSED or ORPHAN, not yet ended       | the end-of-life step, once (ENDED), then look again                      |
//! | nothing, ORPHAN, ended                         | the handles' storage is given up: the block may be gone                  |
//! | nothing, CLOSED or WATCH                       | `release`, which keeps CLOSED; then those who watch are woken            |
//!
//! With the outermost drain of a thread ([`Place::Outermost`]) one thing is added: as soon as this thread's list has an entry (R9), the drain
//! parks its own mailbox at the list's tail, or releases it, and [`run_list`] runs the head. No mailbox is run between the turns of another.

pub(crate) mod own;

use super::block::{By, Core, ENDED, Move, Recovered, STOP, end, recover, stops};
use super::budget::{Budget, Meter};
use super::carrier::{carry, hands_on_lists};
use super::counts::{release_storage, retain_storage};
use super::env::Env;
use super::local::{Local, with_local};
use super::pass::Pass;
use crate::error::{StopCause, panic_text};
use crate::mailbox::chunk::Row;
use crate::mailbox::node::{Batch, Panic, Taken};
use crate::mailbox::word::{CLOSED, Duty, Entry, ORPHAN, Snapshot, UNBOUNDED};
use crate::sync::panic::catch;
use crate::unwind::shrug_off;
use crate::wait::MonotonicClock;

/// Where on this thread's stack a drain stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is the thread's only one: it gives way to the thread's list.
    Outermost,
    /// It runs on top of a turn which waits for it.
    Nested,
}

struct Drive<'a> {
    /// The whole block's address; `core` is its first part.
    ptr: *const Core,
    core: &'a Core,
    local: &'a Local,
    batch: Batch,
    /// Turns since COUNT was settled last.
    done: u64,
    row: &'a mut Row,
    /// The message in hand, and whether it is run (or given back).
    in_hand: Option<(Taken, bool)>,
    place: Place,
    moves: Option<&'static Move>,
    bounded: bool,
    meter: &'a Meter,
    /// Turns of a bounded mailbox settled one by one.
    settled: u64,
    pass: Pass,
}

/// Why a run of turns stopped, or a mailbox was not let go.
enum Halt {
    /// The private list is at its end.
    Empty,
    /// Something is left, and somebody else is to go on.
    GiveWay,
}

/// Runs `batch`, then whatever has arrived meanwhile, within the budget of a caller, and lets go.
///
/// # Safety
/// The caller owns the mailbox of `core`, with `batch` as its private list and `done` turns not settled, and does not touch it afterwards.
/// It keeps the block alive until the release, by a handle, an entry's storage, or (ORPHAN) the handles' storage.
#[inline(always)]
pub(crate) unsafe fn drive(core: *const Core, batch: Batch, done: u64, place: Place) {
    // SAFETY: the caller's word.
    unsafe { drive_by(core, batch, done, place, By::Caller, &mut Row::new()) }
}

/// [`drive`] within the budget of whoever it is.
///
/// # Safety
/// As [`drive`].
#[inline(never)]
pub(crate) unsafe fn drive_by(core: *const Core, batch: Batch, done: u64, place: Place, by: By, row: &mut Row) {
    // SAFETY: the caller's word: the block is there until we let go, and `Drive` is not used after that.
    let this = unsafe { &*core };
    let about = this.about();
    let meter = &Meter::new(about.first_looks[by as usize]);
    with_local(|local| {
        local.enter_drain(core, meter, || {
            if meter.is_timed() {
                meter.begin(about.budget, this.clock());
            }
            let (bounded, pass) = (about.limit != UNBOUNDED, Pass::new(this));
            let moves = if pass.is_observed() { None } else { about.moves() };
            let mut drive =
                Drive { ptr: core, core: this, local, batch, done, row, in_hand: None, place, moves, bounded, meter, settled: 0, pass };
            // SAFETY: the caller's word.
            unsafe { drive.run() }
        });
    });
}

impl Drive<'_> {
    /// # Safety
    /// As [`drive`].
    unsafe fn run(&mut self) {
        loop {
            // SAFETY: the caller's word, for all the steps below.
            let halt = match unsafe { self.round() } {
                Some(halt) => halt,
                None => {
                    if !self.gives_way() || self.batch.is_empty() {
                        continue;
                    }
                    Halt::GiveWay
                }
            };
            // What comes at the end of a pass may renew the budget, but not undo what was decided by the old one.
            let over = self.meter.is_over();
            // SAFETY: as above; no turn is under way.
            unsafe { self.pass.end(self.ptr) };
            let handed_off = match halt {
                Halt::GiveWay => over,
                // SAFETY: as above; the private list is at its end.
                Halt::Empty => match unsafe { self.let_go() } {
                    LetGo::Gone => return,
                    LetGo::Taken(head) => {
                        self.batch.append_newest_first(head);
                        continue;
                    }
                    LetGo::GiveWay => self.meter.is_over(),
                },
            };
            // SAFETY: as above; something is left.
            unsafe { self.park(handed_off) };
            return;
        }
    }

    /// Runs turns until the private list is at its end, somebody else is to go on, or one has panicked and been dealt with (`None`).
    ///
    /// # Safety
    /// As [`drive`].
    unsafe fn round(&mut self) -> Option<Halt> {
        let moves = self.moves.filter(|_| self.batch.is_long());
        // SAFETY: the caller's word; a panic is followed by `panicked`.
        let halt = catch(|| unsafe {
            Env::within(self.ptr, moves, |env| match self.pass.is_observed() {
                true => self.turns::<true>(env.as_ptr()),
                false => self.turns::<false>(env.as_ptr()),
            })
        });
        match halt {
            Ok(halt) => Some(halt),
            Err(panic) => {
                // SAFETY: as above; `turns` has unwound.
                unsafe { self.panicked(panic) };
                None
            }
        }
    }

    /// Must this drain let others go first?
    #[inline(always)]
    fn gives_way(&self) -> bool {
        self.meter.is_due() && self.look() || self.place == Place::Outermost && self.local.owes()
    }

    #[cold]
    fn look(&self) -> bool {
        self.meter.look(self.core.about().budget, self.core.clock(), self.core.hands_on())
    }

    /// # Safety
    /// As [`drive`]; OBSERVED says whether the pass is. What it unwinds with is followed by [`panicked`](Self::panicked).
    unsafe fn turns<const OBSERVED: bool>(&mut self, env: *const ()) -> Halt {
        // In this order (NEWS).
        let mut news = stops();
        let mut stopped = self.core.side_has(STOP);
        while let Some(taken) = self.batch.pop() {
            if self.bounded && self.done > 0 {
                self.settle_one();
            }
            let run = if OBSERVED {
                // SAFETY: the caller's word; the message in hand is not begun.
                unsafe { self.pass.before_turn(self.ptr, taken.kind()) }
            } else {
                !stopped
            };
            self.in_hand = Some((taken, run));
            // SAFETY: this mailbox's own message, run or discarded once, with its own block.
            unsafe {
                if run {
                    taken.run(env)
                } else {
                    taken.discard(env)
                }
                self.finish(taken);
            }
            if self.batch.is_empty() {
                break;
            }
            if self.gives_way() {
                return Halt::GiveWay;
            }
            let latest = stops();
            if latest != news {
                (news, stopped) = (latest, self.core.side_has(STOP));
            }
        }
        Halt::Empty
    }

    /// # Safety
    /// The message has been run or discarded.
    #[inline(always)]
    unsafe fn finish(&mut self, taken: Taken) {
        self.in_hand = None;
        self.done += 1;
        self.meter.count();
        // SAFETY: the caller's word: moved out, and forgotten here.
        unsafe { taken.free(self.row) };
    }

    /// R6: the waiting number of a bounded mailbox is exact at every turn.
    fn settle_one(&mut self) {
        self.done -= 1;
        self.settled += 1;
        let before = self.core.word.settle_one();
        // Those who wait for room are let in several at a time: when half of it is free, or at the end of the private list.
        if before.is_watched() && before.waiting() <= u64::from(self.core.about().limit / 2) {
            self.core.word.unwatch();
            self.attend();
        }
    }

    /// # Safety
    /// As [`drive`]; `turns` has unwound.
    #[cold]
    unsafe fn panicked(&mut self, panic: Panic) {
        let Some((taken, run)) = self.in_hand.take() else {
            // Nothing was in hand: a step of our own failed. The list and the word are as they were.
            shrug_off(|| drop(panic));
            return;
        };
        // A message that panics while it is given back hurts nobody else: the actor is stopping anyway.
        if run {
            // SAFETY: the caller's word: this is the owner, between two turns.
            unsafe { after_panic(self.ptr, panic.as_ref()) };
            // SAFETY: `run` of this message has just unwound.
            shrug_off(|| unsafe { taken.panicked(Env::of(self.ptr).as_ptr(), panic) });
        } else {
            shrug_off(|| drop(panic));
        }
        // SAFETY: the message was moved out before it unwound.
        unsafe { self.finish(taken) };
    }

    /// # Safety
    /// As [`drive`]; the private list is at its end. After `Gone` the mailbox is not touched again.
    unsafe fn let_go(&mut self) -> LetGo {
        let Err(mut seen) = self.core.word.release_guess(self.done) else { return LetGo::Gone };
        loop {
            if seen.head() != 0 {
                if self.gives_way() {
                    return LetGo::GiveWay;
                }
                let before = self.core.word.take(seen, std::mem::take(&mut self.done));
                if before.is_watched() {
                    self.attend();
                }
                return LetGo::Taken(before.head());
            }
            if seen.has(CLOSED | ORPHAN) {
                seen = self.core.word.look();
                if seen.head() == 0 && self.core.raise_side(ENDED) {
                    // SAFETY: this is the owner. No handle can send any more (ORPHAN), or none is let in (CLOSED), and all has been run.
                    unsafe { end(self.ptr) };
                    continue;
                }
            }
            if seen.is_watched() && self.lets_in() {
                seen = self.core.word.load();
                continue;
            }
            match seen.release() {
                None if seen.has(ORPHAN) && seen.head() == 0 => {
                    // SAFETY: B3: the last handle has gone and left its storage to the owner, who has ended the actor.
                    unsafe { release_storage(self.ptr) };
                    return LetGo::Gone;
                }
                None => {}
                Some(next) => {
                    // SAFETY: the mailbox is still ours: the block is there.
                    match unsafe { self.release_flagged(seen, next) } {
                        Ok(()) => return LetGo::Gone,
                        Err(now) => seen = now,
                    }
                }
            }
        }
    }

    /// WATCH was seen and cleared: wakes those who watch, and lets in those who wait for room.
    #[cold]
    fn attend(&self) {
        self.core.wake_watchers();
        self.lets_in();
        if self.core.extra().is_some_and(|extra| !extra.room.is_empty()) {
            // Some are left: the mailbox is ours, so WATCH can be set, and is seen by our next step.
            let _ = self.core.word.watch(|_| true);
        }
    }

    /// Lets in those who wait for room; false if nobody does.
    fn lets_in(&self) -> bool {
        let Some(extra) = self.core.extra().filter(|extra| !extra.room.is_empty()) else { return false };
        // SAFETY: this is the owner.
        unsafe { extra.room.admit(self.core) };
        true
    }

    /// Releases a word with flags. Those who wait are woken after it, so the block is held until then.
    ///
    /// # Safety
    /// As [`drive`].
    unsafe fn release_flagged(&self, seen: Snapshot, next: Snapshot) -> Result<(), Snapshot> {
        if !seen.has(CLOSED) && !seen.is_watched() {
            return self.core.word.release_from(seen, next);
        }
        let core = self.ptr;
        // SAFETY: the mailbox is ours, so the block is there; the storage is given back below.
        unsafe { retain_storage(core) };
        let released = self.core.word.release_met(seen, next);
        if released.is_ok() {
            if seen.is_watched() {
                self.core.wake_watchers();
            }
            if seen.has(CLOSED) {
                self.core.wake_mourners();
            }
        }
        // SAFETY: retained above.
        unsafe { release_storage(core) };
        released
    }

    /// Parks the mailbox, with a carrier if it is handed off, for the budget is used up; else at the tail of this thread's list.
    ///
    /// # Safety
    /// As [`drive`]; something is left to run.
    unsafe fn park(&mut self, handed_off: bool) {
        let core = self.ptr;
        let lists = !handed_off && self.local.reserve(core);
        self.core.save(std::mem::replace(&mut self.batch, Batch::new()).into_saved());
        // SAFETY: the mailbox is ours, so the block is there; the entry keeps it from here on, and the wake below comes before it ends.
        unsafe { retain_storage(core) };
        self.core.word.park(self.done);
        if lists {
            self.local.list(core);
            return;
        }
        // SAFETY: retained above. An entry that is there already, or the carrier, holds its own.
        unsafe {
            if handed_off {
                carry(core);
            }
            release_storage(core);
        }
    }
}

enum LetGo {
    Gone,
    Taken(u64),
    GiveWay,
}

/// What a panic in a turn does to the actor: the hook is told, the policy acts.
///
/// # Safety
/// The caller owns the mailbox, between two turns.
pub(crate) unsafe fn after_panic(core: *const Core, panic: &(dyn std::any::Any + Send)) {
    let text = panic_text(panic);
    // SAFETY: the caller's word.
    match unsafe { recover(core, &text) } {
        Recovered::Resumed => {}
        // SAFETY: the owner keeps the block.
        Recovered::Stopped => stop(unsafe { &*core }, StopCause::Panicked(text)),
    }
}

/// Marks the mailbox as stopped; the caller owns it.
pub(crate) fn stop(core: &Core, cause: StopCause) {
    core.stop_because(cause);
    if let Some((duty, _)) = core.word.raise(CLOSED, Entry::Park) {
        debug_assert_eq!(duty, Duty::Nothing, "an owner's mailbox is neither idle nor parked");
    }
}

/// Runs what this thread has promised, until the list is empty.
#[cold]
pub(crate) fn run_list(local: &Local) {
    // The list's own work (freeing a block) is a turn too: what it sends is listed.
    local.enter(std::ptr::null(), || {
        // Messages that this thread has sent and runs itself lie in a row, whomever they are for.
        let mut row = Row::new();
        let mut meter = Meter::new(Budget::INLINE.first_look());
        while let Some(core) = local.unlist() {
            // SAFETY: F3: the entry holds storage, which is given up at the end.
            unsafe {
                if let Some(before) = (*core).word.unpark() {
                    drive_by(core, taken_over(&*core, before.head()), 0, Place::Outermost, By::Caller, &mut row);
                }
                shrug_off(|| release_storage(core));
            }
            meter.count();
            if meter.is_due() && meter.look(Budget::INLINE, &MonotonicClock, hands_on_lists()) {
                hand_on(local);
                meter = Meter::new(Budget::INLINE.first_look());
            }
        }
    });
}

/// Hands the list on that has kept this thread for too long; but for those whom nothing but this thread may be waiting for.
#[cold]
fn hand_on(local: &Local) {
    for _ in 0..local.owed() {
        let Some(core) = local.unlist() else { return };
        // SAFETY: F3: the entry holds storage, which is given up at the end, or listed again.
        unsafe {
            let about = (*core).about();
            if about.executor.is_some() || about.budget.is_unlimited() {
                if local.reserve(core) {
                    local.list(core);
                    continue;
                }
            } else {
                carry(core);
            }
            shrug_off(|| release_storage(core));
        }
    }
}

/// Takes a parked mailbox over and drains it; false if it is not parked.
///
/// # Safety
/// The caller keeps the block of `core` by a handle or storage.
pub(crate) unsafe fn take_over(core: *const Core, place: Place, by: By) -> bool {
    // SAFETY: the caller's word.
    let this = unsafe { &*core };
    let Some(before) = this.word.unpark() else { return false };
    // SAFETY: parked until now, so it is ours, with this private list.
    unsafe { drive_by(core, taken_over(this, before.head()), 0, place, by, &mut Row::new()) };
    true
}

/// Takes a parked mailbox over and drains it within its budget; nothing if it is not parked.
///
/// # Safety
/// The caller keeps the block of `core`, and is not inside a turn.
pub(crate) unsafe fn take_over_within(core: *const Core) {
    // SAFETY: the caller's word.
    let this = unsafe { &*core };
    if let Some(before) = this.word.unpark() {
        // SAFETY: parked until now, so it is ours, with this private list.
        unsafe { drive_by(core, taken_over(this, before.head()), 0, Place::Outermost, By::Carrier, &mut Row::new()) };
    }
}

/// Stops a mailbox whose carrier was dropped, if it is still parked: everything that waits is given back.
///
/// # Safety
/// The caller keeps the block of `core`.
pub(crate) unsafe fn drive_dropped(core: *const Core) {
    // SAFETY: the caller's word.
    let this = unsafe { &*core };
    if let Some(before) = this.word.unpark() {
        stop(this, StopCause::ExecutorGone);
        with_local(|local| {
            let place = if local.in_turn() { Place::Nested } else { Place::Outermost };
            // SAFETY: parked until now, so it is ours, with this private list. Nobody can go on with it.
            unsafe { drive_by(core, taken_over(this, before.head()), 0, place, By::Dropper, &mut Row::new()) };
            if place == Place::Outermost && local.owes() {
                run_list(local);
            }
        });
    }
}

/// The private list of a mailbox that was parked with `head`.
pub(crate) fn taken_over(core: &Core, head: u64) -> Batch {
    let mut batch = Batch::from_saved(core.saved());
    batch.append_newest_first(head);
    batch
}
