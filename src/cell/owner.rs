//! The right to run a mailbox.
//!
//! An [`Owner`] is made by the steps of the word that win the mailbox, here and nowhere else, and
//! ends in the steps that let it go. It carries what only an owner has: the private list, and the
//! turns that COUNT does not know of yet. It never leaves its thread: a mailbox that another thread
//! is to go on with is left pending, and won again there. One that lies in a suspended turn
//! ([`Resting`]) is on no thread, and becomes an owner again on the one that wakes the turn.
//!
//! - OWNER-1: one owner at a time (MAILBOX-1). While there is one, the cell is there: the handles'
//!   own reference is given up by the owner that ends the actor alone (HEADER-3).
//! - OWNER-2: an owner is not dropped: it is released, left pending, or ends the actor for good.

use std::marker::PhantomData;
use std::time::Duration;

use super::executor::Executor;
use super::header::{
    AWAITS, CellPtr, DISTURBED, ENDED, Header, Held, Own, Recovered, Resting, STOP, restart,
};
use super::reclaim::{Dead, reclaim};
use super::refs::{Queued, Ref, Scheduled, Strong};
use super::resident::InTurn;
use super::settings::{Guard, Move};
use super::turn::WokenTurn;
use super::typed::Cell;
use crate::error::{StopCause, TurnPanic};
use crate::mailbox::list::{Batch, Links};
use crate::mailbox::node::{NodePtr, Taken};
use crate::mailbox::word::{
    CLOSED, Due, Entry, Head, ORPHAN, Raised, Refusal, Snapshot, Unscheduled, Won, Word,
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

// SAFETY: OWNER-1: while there is an owner, the cell is there, and no other thread owns the
// mailbox.
unsafe impl Held for Owner {
    #[inline(always)]
    fn cell(&self) -> *const Header {
        self.own.cell.as_ptr()
    }
}

// SAFETY: OWNER-1: a claim is the ownership of a mailbox, in fewer words.
unsafe impl Held for Claimed {
    #[inline(always)]
    fn cell(&self) -> *const Header {
        self.own.cell.as_ptr()
    }
}

/// A claim by a handle: the state is an S. It is there, for a mailbox that has ended is closed, and
/// is not claimed.
#[must_use = "a mailbox whose owner is forgotten is stuck"]
pub(crate) struct ClaimedBy<S>(Claimed, PhantomData<fn(S) -> S>);

// SAFETY: OWNER-1: it is a claim, and of a mailbox whose state has that type.
unsafe impl<S> Held for ClaimedBy<S> {
    #[inline(always)]
    fn cell(&self) -> *const Header {
        self.0.cell()
    }
}

impl<S> ClaimedBy<S> {
    #[inline(always)]
    pub(crate) fn turn<R>(&mut self, f: impl FnOnce(&mut S, InTurn<'_, S>) -> R) -> R {
        let cell = self.cell();
        // SAFETY: HEADER-1: this is the owner of a mailbox with an S, which is in its cell between
        // two turns, and nothing borrows it. The turn is this thread's.
        unsafe { Cell::with_state(cell, |state| f(state, InTurn::new(cell))) }
    }

    #[inline(always)]
    pub(crate) fn into_claimed(self) -> Claimed {
        self.0
    }

    /// This right, for any number of turns.
    pub(crate) fn into_owner(self) -> Owner {
        self.0.into_owner()
    }
}

/// The duty that a step leaves to its caller.
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
    pub(crate) fn claim_by<E>(
        &self,
        claim: impl FnOnce(&Word) -> Result<Won, E>,
    ) -> Result<ClaimedBy<S>, E> {
        claim(&self.header().word)
            .map(|won| ClaimedBy(Claimed { own: Own::of(&self.ptr(), won) }, PhantomData))
    }

    /// Claims an idle mailbox for one message, which the caller runs on the spot.
    #[inline(always)]
    pub(crate) fn claim(&self) -> Result<ClaimedBy<S>, Snapshot> {
        self.claim_by(Word::claim)
    }

    /// [`claim`](Self::claim) after one that has failed, if only the entry is in its way.
    #[inline]
    pub(crate) fn claim_beside(&self, seen: Snapshot) -> Result<ClaimedBy<S>, Snapshot> {
        self.claim_by(|word| word.claim_beside(seen))
    }

    /// Leaves one message in an idle mailbox, by the first guess.
    #[inline(always)]
    pub(crate) fn leave_first(&self, node: &NodePtr) -> Result<Scheduled, Snapshot> {
        // An attempt to push it may have linked it to what is there no more.
        node.set_next(0);
        let raised = self.header().word.leave_first(node.addr())?;
        Ok(Scheduled::of(&self.ptr(), raised))
    }

    pub(crate) fn push_nodes(
        &self,
        seen: Snapshot,
        links: Links,
        entry: Entry,
    ) -> Result<Owed, (Links, Refusal)> {
        let nodes = (links.top(), links.len());
        match self.header().word.push(seen, nodes, entry, |head| links.link_to(head)) {
            Ok(due) => Ok(Owed::of(&self.ptr(), due, 0)),
            Err(refusal) => Err((links, refusal)),
        }
    }

    /// Runs `f` on the state, by the owner of this mailbox, between two turns.
    ///
    /// # Panics
    /// If it is another mailbox's owner, or the actor has ended.
    pub(crate) fn with_state<R>(&self, owner: &mut Owner, f: impl FnOnce(&mut S) -> R) -> R {
        assert!(owner.own.cell.addr() == self.addr(), "the owner of another mailbox");
        assert!(!owner.has_ended(), "the state is gone");
        // SAFETY: HEADER-1: this is the owner, and no turn is under way, so the state is in the
        // cell, and nothing borrows it. It is an S, as this handle says.
        unsafe { Cell::with_state(owner.own.cell.as_ptr(), f) }
    }

    /// Raises CLOSED or ORPHAN; `None` if that was raised already, or `only_if_idle` and it is not.
    pub(crate) fn raise(&self, flag: u64, entry: Entry, only_if_idle: bool) -> Option<Owed> {
        raise(&self.ptr(), flag, entry, only_if_idle)
    }
}

impl Owed {
    /// Converts the duty of a step that pushes or raises. `done` is what COUNT was raised by
    /// for no message, if the mailbox was idle.
    #[inline(always)]
    fn of(cell: &CellPtr, due: Due, done: u64) -> Self {
        match due {
            Due::Nothing => Owed::Nothing,
            Due::Scheduled(raised) => Owed::Scheduled(Scheduled::of(cell, raised)),
            Due::Schedule => Owed::Schedule,
            Due::Drain(won, head) => {
                let mut owner = Owner::new(Own::of(cell, won), Batch::new(), done);
                owner.batch.append_newest_first(head);
                Owed::Drain(owner)
            }
            Due::TakeOver(won, head) => Owed::Drain(Owner::of_pending(Own::of(cell, won), head)),
        }
    }
}

/// Raises CLOSED or ORPHAN; `None` if that was raised already, or `only_if_idle` and it is not.
fn raise(cell: &CellPtr, flag: u64, entry: Entry, only_if_idle: bool) -> Option<Owed> {
    let word = &cell.header().word;
    let raised =
        if only_if_idle { word.raise_if_idle(flag, entry) } else { word.raise(flag, entry) };
    // It has counted for one turn if the mailbox was idle: that is none.
    Some(Owed::of(cell, raised?, 1))
}

impl Ref {
    /// Raises CLOSED, for an executor that is gone: what is left pending is for its entry.
    pub(crate) fn close_for_entry(&self) -> Option<Owed> {
        raise(self.ptr(), CLOSED, Entry::Leave, false)
    }

    /// Takes a pending mailbox over; `None` if it is not pending.
    #[inline]
    pub(crate) fn take_over(&self) -> Option<Owner> {
        let (won, head) = self.header().word.take_over()?;
        Some(Owner::of_pending(Own::of(self.ptr(), won), head))
    }
}

impl Scheduled {
    /// Uses the entry up: the owner of a mailbox that was pending.
    #[inline]
    pub(crate) fn take_over(self) -> Option<Owner> {
        let cell = self.into_cell();
        // HEADER-6: the cell is there up to this step.
        match cell.header().word.unschedule() {
            Unscheduled::Owns(won, head) => Some(Owner::of_pending(Own::of(&cell, won), head)),
            Unscheduled::Stale => None,
            Unscheduled::Dead => {
                // SAFETY: HEADER-6: the step says that this entry is all that is left of the cell.
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
        match self.header().word.unschedule_few(few) {
            None => Err(self),
            Some((won, head, len)) => {
                let claimed = Claimed { own: Own::of(&self.into_cell(), won) };
                Ok(Few { claimed, head, len })
            }
        }
    }
}

/// The right to run a mailbox with a few messages, which were counted and are no list yet.
pub(crate) struct Few {
    claimed: Claimed,
    head: Head,
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
        (self.claimed, Taken::only(self.head))
    }

    /// The messages go to the end of the list.
    pub(crate) fn into_list(self, list: &mut Batch) -> Claimed {
        list.append_newest_first(self.head);
        self.claimed
    }

    /// The right to run more than these.
    pub(crate) fn into_owner(self) -> Owner {
        Owner::of_pending(self.claimed.own, self.head)
    }
}

impl Claimed {
    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        self.own.header()
    }

    /// True if something is to be done that is no turn, or more than turns.
    #[inline(always)]
    pub(crate) fn is_disturbed(&self) -> bool {
        self.header().has(DISTURBED)
    }

    /// True if nothing has come since `turns` were counted, and no flag is raised. Stale on return.
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

    /// By a step that found the mailbox pending, with what was in HEAD.
    #[inline]
    fn of_pending(own: Own, head: Head) -> Self {
        let mut batch = own.saved_list();
        batch.append_newest_first(head);
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

    /// The functions that move the state, if it is worth it.
    #[inline(always)]
    pub(crate) fn moves(&self) -> Option<&'static Move> {
        self.header().config().moves()
    }

    // The private list, and COUNT.

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Taken> {
        self.batch.pop()
    }

    /// True if a turn that has begun goes on first.
    pub(crate) fn has_begun_turn(&self) -> bool {
        self.batch.first().is_some_and(Taken::resumes)
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

    #[inline(always)]
    pub(crate) fn count_turn(&mut self) {
        self.done += 1;
    }

    /// Takes what waits, and settles what is done.
    pub(crate) fn take(&mut self, seen: Snapshot) {
        let done = std::mem::take(&mut self.done);
        let head = self.header().word.take(seen, done);
        self.batch.append_newest_first(head);
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

    /// Applies a panic in a turn to the actor: the hook is called, the policy acts. If the actor
    /// is to be restarted later, and that `may_wait`: after how long.
    #[cold]
    pub(crate) fn recover(&mut self, payload: &Payload, may_wait: bool) -> Option<Duration> {
        if self.header().has(ENDED) {
            return None;
        }
        let mut panic = TurnPanic::of(self.header().name(), payload);
        loop {
            match self.apply_policy(&panic, may_wait) {
                Recovered::Resumed | Recovered::Restarted => {}
                Recovered::Stopped => self.stop(StopCause::Panicked(panic)),
                Recovered::GaveUp(restarts) => {
                    self.stop(StopCause::GaveUp { restarts, panic });
                }
                Recovered::Restarts(after) if !after.is_zero() => return Some(after),
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

    /// Tells the panic hook, does what the policy says, and reports that.
    fn apply_policy(&mut self, panic: &TurnPanic, may_wait: bool) -> Recovered {
        let header = self.header();
        let recover = header.config().vtable.recover;
        // SAFETY: this is the owner, between two turns of an actor that has not ended, and the
        // function is that of its state's type.
        let recovered = unsafe { recover(self.own.cell.as_ptr(), panic, may_wait) };
        header.panicked(panic, recovered);
        recovered
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

    /// True if nothing has come and no flag is raised. Stale on return.
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
        let guard = self.swap_guard(None);
        if let Err(now) = self.header().word.release_met(seen, next) {
            self.swap_guard(guard);
            return Err((self, now));
        }
        self.gone::<()>().ok();
        // One that it wakes finds the actor idle.
        panic::ignore(|| drop(guard));
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
        let guard = self.swap_guard(None);
        self.own.let_go();
        panic::ignore(|| drop(guard));
        drop(handles);
    }

    /// Returns the value to drop once the mailbox is let go, if the actor has ended, and puts
    /// `guard` in its place.
    fn swap_guard(&self, guard: Option<Box<dyn Guard>>) -> Option<Box<dyn Guard>> {
        let fork = self.header().fork().filter(|_| self.has_ended())?;
        // SAFETY: HEADER-4: the fork is there, and an owner alone touches its guard.
        unsafe { fork.as_ref().guard.with_mut(|place| std::mem::replace(&mut *place, guard)) }
    }

    /// Leaves the mailbox pending, with what is left: it has to be scheduled or deferred.
    #[must_use = "a pending mailbox has to be scheduled or deferred"]
    pub(crate) fn leave_pending(self) -> Ref {
        let cell = self.to_ref();
        self.leave(false).0.let_go();
        cell
    }

    /// [`leave_pending`](Self::leave_pending) with its entry, unless that is out already.
    #[must_use = "a pending mailbox has to be scheduled or deferred"]
    pub(crate) fn leave_scheduled(self) -> Queued {
        // While it is owned, SCHEDULED is not raised.
        if self.header().word.load().is_scheduled() {
            return Queued::Hint(self.leave_pending());
        }
        let (own, raised) = self.leave(true);
        let entry = raised.map(|raised| Scheduled::of(&own.cell, raised));
        own.let_go();
        Queued::Entry(entry.expect("it was left with its entry"))
    }

    /// For the next owner of the mailbox.
    fn save_list(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Batch::new());
        self.header().save(batch.into_saved());
    }

    /// Leaves the mailbox pending. What comes back is to be let go, and touches it no more.
    fn leave(mut self, scheduled: bool) -> (Own, Option<Raised>) {
        self.save_list();
        let raised = self.header().word.set_pending(self.done, scheduled);
        (self.own, raised)
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

impl WokenTurn {
    /// The owner, with the turn before all that waits.
    pub(crate) fn get_up(self) -> Owner {
        let (turn, resting) = self.into_parts();
        let mut owner = resting.get_up();
        owner.put_back(turn.into_node());
        owner
    }
}
