//! The right to run a mailbox.
//!
//! An [`Owner`] is made by the steps of the word that win the mailbox, here and nowhere else, and
//! ends in the steps that let it go. It carries what only an owner has: the private list, and the
//! turns that COUNT does not know of yet. It never leaves its thread: a mailbox that another thread
//! is to go on with is left pending, and won again there. One that lies in a suspended turn
//! ([`Resting`]) is on no thread, and becomes an owner again on the one that wakes the turn.
//!
//! - O1: one owner at a time (R1). While there is one, the cell is there: the handles' own
//!   reference is given up by the owner that ends the actor alone (B3).
//! - O2: an owner is not dropped: it is released, left pending, or ends the actor for good.

use std::time::Duration;

use super::executor::Executor;
use super::header::{
    AWAITS, CellPtr, ENDED, Header, Held, Own, Recovered, Resting, SAVED, STOP, recover, restart,
};
use super::reclaim::{Dead, reclaim};
use super::refs::{Queued, Ref, Scheduled, Strong};
use super::settings::Move;
use super::turn::Woken;
use super::typed::Cell;
use crate::error::{StopCause, TurnPanic};
use crate::mailbox::list::{Batch, Links};
use crate::mailbox::node::{NodePtr, Taken};
use crate::mailbox::word::{
    CLOSED, Duty, Entry, ORPHAN, Refusal, Snapshot, Unscheduled, Won, Word,
};
use crate::panic::{self, Payload};

/// The right to run a mailbox, with its private list.
#[must_use = "a mailbox whose owner is forgotten is stuck"]
pub(crate) struct Owner {
    own: Own,
    batch: Batch,
    /// Turns that COUNT does not know of yet.
    done: u64,
}

/// An owner of a mailbox for the turns that its step counted, the one of a claim or a few: in one
/// register, while they run.
#[must_use = "a mailbox whose owner is forgotten is stuck"]
pub(crate) struct Claimed {
    own: Own,
}

// SAFETY: O1: while there is an owner, the cell is there, and no other thread owns the mailbox.
unsafe impl Held for Owner {
    #[inline(always)]
    fn cell(&self) -> *const Header {
        self.own.cell.as_ptr()
    }
}

// SAFETY: O1: a claim is the ownership of a mailbox, in fewer words.
unsafe impl Held for Claimed {
    #[inline(always)]
    fn cell(&self) -> *const Header {
        self.own.cell.as_ptr()
    }
}

/// What a step leaves its caller owing.
#[must_use = "a duty that is forgotten strands the mailbox"]
pub(crate) enum Owed {
    Nothing,
    /// The mailbox is pending, and this is its entry: it has to be put somewhere.
    Scheduled(Scheduled),
    /// It is pending, and its entry is not the caller's.
    Schedule,
    /// It is the caller's: it has to be drained.
    Drain(Owner),
}

impl<S> Strong<S> {
    /// The right that a claim has won.
    #[inline(always)]
    fn claim_by<E>(&self, claim: impl FnOnce(&Word) -> Result<Won, E>) -> Result<Claimed, E> {
        claim(&self.header().word).map(|_won: Won| {
            // SAFETY: O1: the claim has won it.
            let own = unsafe { Own::of(&self.ptr()) };
            Claimed { own }
        })
    }

    /// Claims an idle mailbox for one message, which the caller runs on the spot.
    #[inline(always)]
    pub(crate) fn claim(&self) -> Result<Claimed, Snapshot> {
        self.claim_by(Word::claim)
    }

    /// [`claim`](Self::claim) after one that has failed, if only the entry is in its way.
    #[inline]
    pub(crate) fn claim_beside(&self, seen: Snapshot) -> Result<Claimed, Snapshot> {
        self.claim_by(|word| word.claim_beside(seen))
    }

    /// Claims a mailbox for one turn if it is idle, whatever its entry does.
    #[inline]
    pub(crate) fn claim_idle(&self) -> Result<Claimed, Snapshot> {
        self.claim_by(Word::claim_idle)
    }

    /// [`claim`](Self::claim) for a caller that would wait anyway, after one that has failed.
    pub(crate) fn claim_soon(&self, seen: Snapshot) -> Result<Claimed, Snapshot> {
        self.claim_by(|word| word.claim_soon(seen))
    }

    /// Leaves one message in an idle mailbox, by the first guess.
    #[inline(always)]
    pub(crate) fn leave_first(&self, node: &NodePtr) -> Result<Scheduled, Snapshot> {
        // An attempt to push it may have linked it to what is there no more.
        node.set_next(0);
        self.header().word.leave_first(node.addr())?;
        // SAFETY: the step has raised SCHEDULED.
        Ok(unsafe { Scheduled::of(&self.ptr()) })
    }

    /// Pushes nodes.
    pub(crate) fn push_nodes(
        &self,
        seen: Snapshot,
        links: Links,
        entry: Entry,
    ) -> Result<Owed, (Links, Refusal)> {
        let nodes = (links.top(), links.len());
        match self.header().word.push(seen, nodes, entry, |head| links.link_to(head)) {
            // SAFETY: the duty is that of this step. What it pushed is private if it was idle, and
            // linked to the head that it replaced if not.
            Ok(duty) => Ok(unsafe { Owed::of(&self.ptr(), duty, links.top(), 0) }),
            Err(refusal) => Err((links, refusal)),
        }
    }

    /// Raises CLOSED or ORPHAN; `None` if that was raised already, or `only_if_idle` and it is not.
    pub(crate) fn raise(&self, flag: u64, entry: Entry, only_if_idle: bool) -> Option<Owed> {
        raise(&self.ptr(), flag, entry, only_if_idle)
    }
}

impl Owed {
    /// What a step that pushes or raises leaves its caller owing.
    ///
    /// # Safety
    /// The caller's step on the word of this cell has just left this duty, and makes one of these
    /// of it. If the caller owns the mailbox now, `newest` is the newest of its messages, and
    /// `done` what COUNT was raised by for no message.
    unsafe fn of(cell: &CellPtr, duty: Duty, newest: u64, done: u64) -> Self {
        // SAFETY: O1: `Drain` and `TakeOver` say that the step has won the mailbox, and the nodes
        // from `newest` on with it; `Scheduled` that it has raised SCHEDULED.
        unsafe {
            match duty {
                Duty::Nothing => Owed::Nothing,
                Duty::Scheduled => Owed::Scheduled(Scheduled::of(cell)),
                Duty::Schedule => Owed::Schedule,
                Duty::Drain => {
                    let mut owner = Owner::new(Own::of(cell), Batch::new(), done);
                    owner.batch.append_newest_first(newest);
                    Owed::Drain(owner)
                }
                Duty::TakeOver => Owed::Drain(Owner::of_pending(Own::of(cell), newest)),
            }
        }
    }
}

/// Raises CLOSED or ORPHAN; `None` if that was raised already, or `only_if_idle` and it is not.
fn raise(cell: &CellPtr, flag: u64, entry: Entry, only_if_idle: bool) -> Option<Owed> {
    let word = &cell.header().word;
    let raised =
        if only_if_idle { word.raise_if_idle(flag, entry) } else { word.raise(flag, entry) };
    let (duty, before) = raised?;
    // SAFETY: the duty is that of this step, which counted for one turn if the mailbox was idle:
    // that is none. What it found waiting is the caller's if it owns the mailbox now.
    Some(unsafe { Owed::of(cell, duty, before.head(), 1) })
}

impl Ref {
    /// Raises CLOSED, for an executor that is gone: what is left pending is for its entry.
    pub(crate) fn close_for_entry(&self) -> Option<Owed> {
        raise(self.ptr(), CLOSED, Entry::Leave, false)
    }

    /// Takes a pending mailbox over; `None` if it is not pending.
    #[inline]
    pub(crate) fn take_over(&self) -> Option<Owner> {
        let before = self.header().word.take_over()?;
        // SAFETY: O1: the step has won it, with what was in HEAD.
        Some(unsafe { Owner::of_pending(Own::of(self.ptr()), before.head()) })
    }
}

impl Scheduled {
    /// Uses the entry up: the owner of a mailbox that was pending.
    #[inline]
    pub(crate) fn take_over(self) -> Option<Owner> {
        let cell = self.into_cell();
        // B6: the cell is there up to this step.
        match cell.header().word.unschedule() {
            Unscheduled::Owns(before) => {
                // SAFETY: O1: the step has won it, with what was in HEAD.
                Some(unsafe { Owner::of_pending(Own::of(&cell), before.head()) })
            }
            Unscheduled::Stale => None,
            Unscheduled::Dead => {
                // SAFETY: B6: the step says that this entry is all that is left of the cell.
                unsafe { reclaim(Dead::Cell(cell.get())) };
                None
            }
        }
    }

    /// Uses the entry up if so few messages wait that they go the short way, and no flag says that
    /// something else is to be done.
    #[inline(always)]
    pub(crate) fn take_few(self) -> Result<Few, Self> {
        let few = u64::from(self.header().config().few());
        let Some(before) = self.header().word.unschedule_few(few) else { return Err(self) };
        // SAFETY: O1: the step has won it.
        let own = unsafe { Own::of(&self.into_cell()) };
        Ok(Few { claimed: Claimed { own }, newest: before.head(), len: before.count() })
    }
}

/// The right to run a mailbox with a few messages, which were counted and are no list yet.
pub(crate) struct Few {
    claimed: Claimed,
    newest: u64,
    len: u64,
}

impl Few {
    #[inline(always)]
    pub(crate) fn is_one(&self) -> bool {
        self.len == 1
    }

    /// True if something is to be done that is no turn.
    #[inline(always)]
    pub(crate) fn is_disturbed(&self) -> bool {
        self.claimed.is_disturbed()
    }

    /// The only message, and the right to run it.
    #[inline(always)]
    pub(crate) fn into_one(self) -> (Claimed, Taken) {
        debug_assert!(self.is_one());
        // SAFETY: N1: the step that has won the mailbox has taken what was in HEAD.
        (self.claimed, unsafe { Taken::at(self.newest) })
    }

    /// The messages go to the end of the list.
    pub(crate) fn into_list(self, list: &mut Batch) -> Claimed {
        // SAFETY: N1: the step that has won the mailbox has taken what was in HEAD.
        unsafe { list.append_newest_first(self.newest) };
        self.claimed
    }

    /// The right to run more than these.
    pub(crate) fn into_owner(self) -> Owner {
        // SAFETY: N1: the step that has won the mailbox has taken what was in HEAD.
        unsafe { Owner::of_pending(self.claimed.own, self.newest) }
    }
}

impl Claimed {
    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        self.own.header()
    }

    /// Is a stop under way, is a turn among those that come that may wait, or is a list saved of
    /// which HEAD knows nothing?
    #[inline(always)]
    pub(crate) fn is_disturbed(&self) -> bool {
        self.header().has(STOP | AWAITS | SAVED)
    }

    /// Has nothing come since `turns` were counted, and is no flag raised? Stale on return.
    #[inline]
    pub(crate) fn is_still(&self, turns: u64) -> bool {
        self.header().word.is_still(turns)
    }

    /// The right to run what is left of its turns, and more.
    pub(crate) fn into_owner_of(self, rest: Batch, done: u64) -> Owner {
        Owner::new(self.own, rest, done)
    }

    /// Lets go after this many turns, all that its step counted, by the first guess.
    #[inline(always)]
    pub(crate) fn release_few(self, turns: u64) -> Result<(), Self> {
        let released = self.header().word.release_guess(turns).is_ok();
        self.gone_if(released)
    }

    /// Runs `f` on the state.
    ///
    /// # Safety
    /// The state is an S, and the actor has not ended.
    #[inline(always)]
    pub(crate) unsafe fn with_state<S, R>(&mut self, f: impl FnOnce(&mut S) -> R) -> R {
        // SAFETY: B1: this is the owner, an idle mailbox has its state in the cell, and nothing
        // borrows it; of its type, by the caller's word.
        unsafe { Cell::with_state(self.own.cell.as_ptr(), f) }
    }

    /// Lets go after the turn if nothing has come and the entry is out.
    pub(crate) fn release_beside(self) -> Result<(), Self> {
        let released = self.header().word.release_beside();
        self.gone_if(released)
    }

    /// Lets go after the turn, by the first guess; if that is wrong, the mailbox is to be drained.
    #[inline(always)]
    pub(crate) fn release_one(self) -> Result<(), Self> {
        let released = self.header().word.release_one();
        self.gone_if(released)
    }

    /// The mailbox is let go, or not.
    #[inline(always)]
    fn gone_if(self, released: bool) -> Result<(), Self> {
        if released {
            self.own.let_go();
            return Ok(());
        }
        Err(self)
    }

    /// This right, for any number of turns.
    pub(crate) fn into_owner(self) -> Owner {
        // It counts for the turn of its claim.
        Owner::new(self.own, Batch::new(), 1)
    }
}

impl Owner {
    /// `batch` and `done` are its private list and the turns not settled.
    #[inline(always)]
    fn new(own: Own, batch: Batch, done: u64) -> Self {
        Owner { own, batch, done }
    }

    /// By a step that found the mailbox pending, with `head`.
    ///
    /// # Safety
    /// The nodes from `head` on are this owner's.
    #[inline]
    unsafe fn of_pending(own: Own, head: u64) -> Self {
        let mut batch = own.saved_list();
        // SAFETY: they are given to the list.
        unsafe { batch.append_newest_first(head) };
        Owner::new(own, batch, 0)
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        self.own.header()
    }

    /// One more reference to the cell.
    pub(crate) fn to_ref(&self) -> Ref {
        Ref::retain(&self.own.cell)
    }

    /// How to move the state, if it is worth it.
    #[inline(always)]
    pub(crate) fn moves(&self) -> Option<&'static Move> {
        self.header().config().moves()
    }

    // The private list, and COUNT.

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Taken> {
        self.batch.pop()
    }

    /// The message that is taken up next; it stays in the list.
    pub(crate) fn first(&self) -> Option<Taken> {
        self.batch.first()
    }

    #[inline(always)]
    pub(crate) fn has_more(&self) -> bool {
        !self.batch.is_empty()
    }

    #[inline(always)]
    pub(crate) fn has_many(&self) -> bool {
        self.batch.is_long()
    }

    /// Turns that COUNT does not know of yet.
    #[inline(always)]
    pub(crate) fn unsettled(&self) -> u64 {
        self.done
    }

    /// A turn is done.
    #[inline(always)]
    pub(crate) fn count_turn(&mut self) {
        self.done += 1;
    }

    /// Takes what waits, and settles what is done.
    pub(crate) fn take(&mut self, seen: Snapshot) {
        let done = std::mem::take(&mut self.done);
        let before = self.header().word.take(seen, done);
        // SAFETY: N1: the step has taken what was in HEAD, for the owner.
        unsafe { self.batch.append_newest_first(before.head()) };
    }

    /// Settles what is done: the mailbox is not run for a time.
    pub(crate) fn settle(&mut self) {
        if self.done > 0 {
            self.take(self.header().word.load());
        }
    }

    // Stop, panic, end. No turn is under way.

    /// True if the actor is stopped.
    #[inline(always)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.header().has(STOP)
    }

    /// True if the actor has ended.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.header().has(ENDED)
    }

    /// Stops the actor: what waits is given back.
    pub(crate) fn stop(&self, cause: StopCause) {
        self.header().stop(cause);
    }

    /// Runs `f` on the state.
    ///
    /// # Safety
    /// The state is an S, and the actor has not ended.
    pub(crate) unsafe fn with_state<S, R>(&mut self, f: impl FnOnce(&mut S) -> R) -> R {
        // SAFETY: B1: this is the owner, no turn is under way, so the state is in the cell, and
        // nothing borrows it; of its type, by the caller's word.
        unsafe { Cell::with_state(self.own.cell.as_ptr(), f) }
    }

    /// What a panic in a turn does to the actor: the hook is called, the policy acts. If the actor
    /// is to be restarted later, and that `may_wait`: after how long.
    #[cold]
    pub(crate) fn recover(&mut self, payload: &Payload, may_wait: bool) -> Option<Duration> {
        if self.header().has(ENDED) {
            return None;
        }
        let mut panic = TurnPanic::of(self.header().name(), payload);
        loop {
            // SAFETY: this is the owner, and the state is there.
            match unsafe { recover(self.own.cell.as_ptr(), &panic) } {
                Recovered::Resumed => {}
                Recovered::Stopped => self.stop(StopCause::Panicked(panic)),
                Recovered::GaveUp(restarts) => {
                    self.stop(StopCause::GaveUp { restarts, panic });
                }
                Recovered::Restarts(after) if may_wait && !after.is_zero() => return Some(after),
                Recovered::Restarts(_) => {
                    let cell = self.own.cell.as_ptr();
                    // SAFETY: this is the owner, and between two turns the state is in its cell.
                    if let Err(payload) = panic::catch(|| unsafe { restart(cell) }) {
                        panic = TurnPanic::of(self.header().name(), &payload);
                        panic::discard(payload);
                        // A factory may panic for as long as the limits allow: a stop ends that.
                        if !self.is_stopped() {
                            continue;
                        }
                    }
                }
            }
            return None;
        }
    }

    /// This node comes before all that waits, in the place of a turn that is done; the caller is
    /// its holder.
    pub(crate) fn put_first(&mut self, node: NodePtr) {
        debug_assert!(self.done > 0, "a place that was not given up");
        self.done = self.done.saturating_sub(1);
        self.batch.prepend(node);
    }

    /// A turn that is under way goes on before all that waits: its node has the place that its
    /// message had. The caller is its holder.
    pub(crate) fn put_back(&mut self, node: NodePtr) {
        self.batch.prepend(node);
    }

    /// True if there are turns that may wait among those that come.
    #[inline(always)]
    pub(crate) fn awaits(&self) -> bool {
        self.header().has(AWAITS)
    }

    /// The owner of a mailbox that is not run for a time: on no thread, with what is left.
    pub(crate) fn lie_down(mut self) -> Resting {
        self.save_list();
        let Owner { own, done, .. } = self;
        Resting { own, done }
    }

    /// Ends the actor: its state goes to the end hook. False if that was done before.
    pub(crate) fn end(&mut self) -> bool {
        if !self.header().raise_ended() {
            return false;
        }
        let end = self.header().config().vtable.end;
        // SAFETY: this is the owner of a mailbox of that type, ENDED was just raised, and all
        // that was accepted was run or given back.
        unsafe { end(self.own.cell.as_ptr()) };
        self.withdraw();
        true
    }

    /// Takes out what the executor keeps of an actor that has ended.
    fn withdraw(&self) {
        let header = self.header();
        if !header.has_enrolled() {
            return;
        }
        let enrolled = header.config().executor.as_deref().and_then(Executor::enrolled);
        let drain = enrolled.and_then(|enrolled| enrolled.withdraw(self.own.cell.addr()));
        drain.into_iter().for_each(|mut drain| drop(Ref::of_enrolled(&mut drain)));
    }

    // Letting go.

    /// Has nothing come, and is no flag raised? Stale on return.
    #[inline]
    pub(crate) fn is_still(&self) -> bool {
        self.header().word.is_still(self.done)
    }

    /// Lets go by the guess that nothing has come and no flag is raised.
    #[inline]
    pub(crate) fn release_guess(self) -> Result<(), (Self, Snapshot)> {
        match self.header().word.release_guess(self.done) {
            Ok(()) => self.gone(),
            Err(seen) => Err((self, seen)),
        }
    }

    /// Lets go from `seen`, which has neither waiters nor CLOSED.
    pub(crate) fn release_from(
        self,
        seen: Snapshot,
        next: Snapshot,
    ) -> Result<(), (Self, Snapshot)> {
        match self.header().word.release_from(seen, next) {
            Ok(()) => self.gone(),
            Err(now) => Err((self, now)),
        }
    }

    /// Lets go from `seen`, which is watched or closed, and wakes those that wait for that.
    pub(crate) fn release_met(
        self,
        seen: Snapshot,
        next: Snapshot,
    ) -> Result<(), (Self, Snapshot)> {
        // For what follows the release.
        let cell = self.to_ref();
        if let Err(now) = self.header().word.release_met(seen, next) {
            return Err((self, now));
        }
        self.gone::<()>().ok();
        let Some(ext) = cell.header().ext() else { return Ok(()) };
        if seen.is_watched() {
            ext.idle_waiters.wake_all();
        }
        if seen.has(CLOSED) {
            ext.end_waiters.wake_all();
        }
        Ok(())
    }

    /// Leaves a mailbox whose last handle is gone and whose actor has ended: it is not run again.
    pub(crate) fn bury(self) {
        debug_assert!(self.header().has(ENDED) && self.header().word.load().has(ORPHAN));
        // SAFETY: no handle is left, the actor has ended, and an orphan is released never again:
        // this is its last owner.
        let handles = unsafe { Ref::of_handles(&self.own.cell) };
        self.own.let_go();
        drop(handles);
    }

    /// Leaves the mailbox pending, with what is left: it has to be scheduled or deferred.
    #[must_use = "a pending mailbox has to be scheduled or deferred"]
    pub(crate) fn leave_pending(self) -> Ref {
        let cell = self.to_ref();
        self.leave(false).let_go();
        cell
    }

    /// [`leave_pending`](Self::leave_pending) with its entry, unless that is out already.
    #[must_use = "a pending mailbox has to be scheduled or deferred"]
    pub(crate) fn leave_scheduled(self) -> Queued {
        // While it is owned, SCHEDULED is not raised.
        if self.header().word.load().is_scheduled() {
            return Queued::Hint(self.leave_pending());
        }
        let own = self.leave(true);
        // SAFETY: the step has raised SCHEDULED.
        let entry = unsafe { Scheduled::of(&own.cell) };
        own.let_go();
        Queued::Entry(entry)
    }

    /// For the next owner of the mailbox.
    fn save_list(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Batch::new());
        self.header().save(batch.into_saved());
    }

    /// Leaves the mailbox pending. What comes back is to be let go, and touches it no more.
    fn leave(mut self, scheduled: bool) -> Own {
        self.save_list();
        self.header().word.set_pending(self.done, scheduled);
        self.own
    }

    /// The mailbox is let go: nothing of it is touched any more.
    #[inline(always)]
    fn gone<E>(self) -> Result<(), E> {
        self.own.let_go();
        Ok(())
    }
}

impl Resting {
    /// The owner, on this thread.
    pub(crate) fn get_up(self) -> Owner {
        let Resting { own, done } = self;
        let batch = own.saved_list();
        Owner::new(own, batch, done)
    }
}

impl Woken {
    /// The owner, with the turn before all that waits.
    pub(crate) fn get_up(self) -> Owner {
        let (turn, resting) = self.into_parts();
        let mut owner = resting.get_up();
        owner.put_back(turn.into_node());
        owner
    }
}
