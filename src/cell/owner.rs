//! The right to run a mailbox.
//!
//! An [`Owner`] is made by the steps of the word that win the mailbox, here and nowhere else, and
//! ends in the steps that let it go. It carries what only an owner has: the private list, and the
//! turns that COUNT does not know of yet. It never leaves its thread: a mailbox that another thread
//! is to go on with is left pending, and won again there. One that lies in a suspended turn
//! ([`Resting`]) is on no thread, and becomes an owner again on the one that wakes the turn.
//!
//! - O1: one owner at a time (R1). While there is one, the cell is there: the handles' own
//!   reference is given up by the owner that ends the actor, and by nobody else (B3).
//! - O2: an owner is not dropped: it is released, left pending, or ends the actor for good.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use super::executor::Executor;
use super::header::{AWAITS, ENDED, Header, Move, Recovered, SAVED, STOP, restart};
use super::reclaim::{Dead, reclaim};
use super::refs::{Queued, Ref, Scheduled, Strong, Weak};
use super::resident::Env;
use super::typed::Cell;
use crate::error::{StopCause, TurnPanic};
use crate::mailbox::list::{Batch, Links};
use crate::mailbox::node::{NodePtr, Taken};
use crate::mailbox::word::{CLOSED, Duty, Entry, ORPHAN, Refusal, Snapshot, Unscheduled};
use crate::panic::{self, Payload};

/// The right to run a mailbox, with its private list.
#[must_use = "a mailbox whose owner is forgotten is stuck"]
pub(crate) struct Owner {
    cell: NonNull<Header>,
    batch: Batch,
    /// Turns that COUNT does not know of yet.
    done: u64,
}

/// An owner of a mailbox for the turns that its step counted, the one of a claim or a few: in one
/// register, while they run.
#[must_use = "a mailbox whose owner is forgotten is stuck"]
pub(crate) struct Claimed {
    cell: NonNull<Header>,
}

/// The right to be inside of a mailbox: what a thread's frame may stand for
/// ([`crate::thread::context`]).
///
/// # Safety
/// For as long as the value lives on its thread, `cell` points to a cell that is alive, and whose
/// mailbox is that thread's own.
pub(crate) unsafe trait Held {
    /// The cell.
    fn cell(&self) -> *const Header;
}

// SAFETY: O1: while there is an owner, the cell is there, and no other thread owns the mailbox.
unsafe impl Held for Owner {
    #[inline(always)]
    fn cell(&self) -> *const Header {
        self.cell.as_ptr()
    }
}

// SAFETY: O1: a claim is the ownership of a mailbox, in fewer words.
unsafe impl Held for Claimed {
    #[inline(always)]
    fn cell(&self) -> *const Header {
        self.cell.as_ptr()
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
    /// Claims an idle mailbox for one message, which the caller runs on the spot.
    #[inline(always)]
    pub(crate) fn claim(&self) -> Result<Claimed, Snapshot> {
        // O1: the claim has won it, and this handle keeps the cell until it is let go.
        self.header().word.claim().map(|()| Claimed { cell: self.ptr() })
    }

    /// The same after a claim that has failed, if only the entry is in its way.
    #[inline]
    pub(crate) fn claim_beside(&self, seen: Snapshot) -> Result<Claimed, Snapshot> {
        // O1: as above.
        self.header().word.claim_beside(seen).map(|()| Claimed { cell: self.ptr() })
    }

    /// Leaves one message in an idle mailbox, by the first guess.
    #[inline(always)]
    pub(crate) fn leave_first(&self, node: NodePtr) -> Result<Scheduled, Snapshot> {
        // An attempt to push it may have linked it to what is there no more.
        node.set_next(0);
        self.header().word.leave_first(node.addr())?;
        // SAFETY: the step has raised SCHEDULED.
        Ok(unsafe { Scheduled::of(self.ptr()) })
    }

    /// Claims a mailbox for one turn if it is idle, whatever its entry does.
    #[inline]
    pub(crate) fn claim_idle(&self) -> Result<Claimed, Snapshot> {
        // O1: as above.
        self.header().word.claim_idle().map(|()| Claimed { cell: self.ptr() })
    }

    /// The same for a caller that would wait anyway, after a claim that has failed.
    pub(crate) fn claim_soon(&self, seen: Snapshot) -> Result<Claimed, Snapshot> {
        // O1: as above.
        self.header().word.claim_soon(seen).map(|()| Claimed { cell: self.ptr() })
    }

    /// Pushes nodes.
    pub(crate) fn push_nodes(
        &self,
        seen: Snapshot,
        Links { first, top, len }: Links,
        entry: Entry,
    ) -> Result<Owed, Refusal> {
        let link = |head| first.set_next(head);
        let duty = self.header().word.push(seen, (top, len), entry, link)?;
        Ok(match duty {
            Duty::Nothing => Owed::Nothing,
            // SAFETY: the step has raised SCHEDULED.
            Duty::Scheduled => Owed::Scheduled(unsafe { Scheduled::of(self.ptr()) }),
            Duty::Schedule => Owed::Schedule,
            // SAFETY: O1: the push has won it; from idle, what it pushed is private.
            Duty::Drain => Owed::Drain(unsafe { Owner::new(self.ptr(), Batch::of(top), 0) }),
            // SAFETY: O1: the push has won it; what it pushed is linked to the head it replaced.
            Duty::TakeOver => Owed::Drain(unsafe { Owner::of_pending(self.ptr(), top) }),
        })
    }

    /// Raises CLOSED or ORPHAN; `None` if that was raised already, or `only_if_idle` and it is not.
    pub(crate) fn raise(&self, flag: u64, entry: Entry, only_if_idle: bool) -> Option<Owed> {
        // SAFETY: B3: a handle keeps the cell, also while its drop raises ORPHAN.
        unsafe { raise(self.ptr(), flag, entry, only_if_idle) }
    }
}

/// Raises CLOSED or ORPHAN; `None` if that was raised already, or `only_if_idle` and it is not.
///
/// # Safety
/// The cell is alive during this call.
unsafe fn raise(
    cell: NonNull<Header>,
    flag: u64,
    entry: Entry,
    only_if_idle: bool,
) -> Option<Owed> {
    // SAFETY: the caller keeps the cell for this call.
    let word = &unsafe { cell.as_ref() }.word;
    let raised =
        if only_if_idle { word.raise_if_idle(flag, entry) } else { word.raise(flag, entry) };
    let (duty, before) = raised?;
    Some(match duty {
        Duty::Nothing => Owed::Nothing,
        // SAFETY: the step has raised SCHEDULED.
        Duty::Scheduled => Owed::Scheduled(unsafe { Scheduled::of(cell) }),
        Duty::Schedule => Owed::Schedule,
        // SAFETY: O1: the step has won it; it counted for one turn, which is none.
        Duty::Drain => Owed::Drain(unsafe { Owner::claimed(cell) }),
        // SAFETY: O1: the step has won it.
        Duty::TakeOver => Owed::Drain(unsafe { Owner::of_pending(cell, before.head()) }),
    })
}

impl Ref {
    /// Raises CLOSED, for an executor that is gone: what is left pending is for its entry.
    pub(crate) fn close_for_entry(&self) -> Option<Owed> {
        // SAFETY: B3: this reference keeps the cell.
        unsafe { raise(self.ptr(), CLOSED, Entry::Leave, false) }
    }

    /// Takes a pending mailbox over; `None` if it is not pending.
    #[inline]
    pub(crate) fn take_over(&self) -> Option<Owner> {
        let before = self.header().word.take_over()?;
        // SAFETY: O1: the step has won it.
        Some(unsafe { Owner::of_pending(self.ptr(), before.head()) })
    }
}

impl Scheduled {
    /// Uses the entry up: the owner of a mailbox that was pending.
    #[inline]
    pub(crate) fn take_over(self) -> Option<Owner> {
        let cell = self.into_cell();
        // SAFETY: B6, up to this step.
        match unsafe { cell.as_ref() }.word.unschedule() {
            // SAFETY: O1: the step has won it.
            Unscheduled::Owns(before) => Some(unsafe { Owner::of_pending(cell, before.head()) }),
            Unscheduled::Stale => None,
            Unscheduled::Dead => {
                // SAFETY: B6: nobody else is left.
                unsafe { reclaim(Dead::Cell(cell)) };
                None
            }
        }
    }

    /// Uses the entry up if so few messages wait that they go the short way, and no flag says that
    /// something else is to be done: the right to run them, and the value before.
    #[inline(always)]
    pub(crate) fn take_few(self) -> Result<(Claimed, Snapshot), Self> {
        let few = u64::from(self.header().config().few());
        let Some(before) = self.header().word.unschedule_few(few) else { return Err(self) };
        // O1: the step has won it.
        Ok((Claimed { cell: self.into_cell() }, before))
    }
}

impl Claimed {
    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: O1.
        unsafe { self.cell.as_ref() }
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

    /// The right to run a mailbox that was pending.
    pub(crate) fn into_owner_before_turn(self, before: Snapshot) -> Owner {
        let cell = self.cell;
        std::mem::forget(self);
        // SAFETY: O1: there was one owner, and there is one.
        unsafe { Owner::of_pending(cell, before.head()) }
    }

    /// The right to run what is left of its turns, and more.
    pub(crate) fn into_owner_of(self, rest: Batch, done: u64) -> Owner {
        let cell = self.cell;
        std::mem::forget(self);
        // SAFETY: O1: there was one owner, and there is one.
        unsafe { Owner::new(cell, rest, done) }
    }

    /// Lets go after so many turns, all that its step counted, by the first guess.
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
        unsafe { Cell::with_state(self.cell.as_ptr(), f) }
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
            std::mem::forget(self);
            return Ok(());
        }
        Err(self)
    }

    /// The same right, for any number of turns.
    pub(crate) fn into_owner(self) -> Owner {
        let cell = self.cell;
        std::mem::forget(self);
        // SAFETY: O1: there was one owner, and there is one; it counts for the turn of its claim.
        unsafe { Owner::claimed(cell) }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        // O2, as for the owner.
        debug_assert!(std::thread::panicking(), "an owner was dropped without letting go");
    }
}

impl Owner {
    /// # Safety
    /// O1: the caller's step has just won this mailbox, and makes one owner of it; `batch` and
    /// `done` are its private list and the turns not settled.
    #[inline(always)]
    unsafe fn new(cell: NonNull<Header>, batch: Batch, done: u64) -> Self {
        Owner { cell, batch, done }
    }

    /// # Safety
    /// As for [`new`](Self::new), by a step that counted for one turn.
    #[inline(always)]
    unsafe fn claimed(cell: NonNull<Header>) -> Self {
        // SAFETY: the caller's word.
        unsafe { Owner::new(cell, Batch::new(), 1) }
    }

    /// # Safety
    /// As for [`new`](Self::new), by a step that found the mailbox pending, with `head`.
    #[inline]
    unsafe fn of_pending(cell: NonNull<Header>, head: u64) -> Self {
        // SAFETY: the mailbox is this caller's, and the saved list with it.
        let mut batch = Batch::from_saved(unsafe { cell.as_ref() }.saved());
        batch.append_newest_first(head);
        // SAFETY: the caller's word.
        unsafe { Owner::new(cell, batch, 0) }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: O1.
        unsafe { self.cell.as_ref() }
    }

    /// One more reference to the cell.
    pub(crate) fn to_ref(&self) -> Ref {
        // SAFETY: O1.
        unsafe { Ref::retain(self.cell) }
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
        self.batch.append_newest_first(before.head());
    }

    /// Settles what is done: the mailbox is not run for a time.
    pub(crate) fn settle(&mut self) {
        if self.done > 0 {
            self.take(self.header().word.load());
        }
    }

    // Stop, panic, end. No turn is under way.

    /// Is the actor stopped?
    #[inline(always)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.header().has(STOP)
    }

    /// Has the actor ended?
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.header().has(ENDED)
    }

    /// Stops the actor: what waits is given back.
    pub(crate) fn stop(&self, cause: StopCause) {
        stop(self.header(), cause);
    }

    /// Runs `f` on the state.
    ///
    /// # Safety
    /// The state is an S, and the actor has not ended.
    pub(crate) unsafe fn with_state<S, R>(&mut self, f: impl FnOnce(&mut S) -> R) -> R {
        // SAFETY: B1: this is the owner, no turn is under way, so the state is in the cell, and
        // nothing borrows it; of its type, by the caller's word.
        unsafe { Cell::with_state(self.cell.as_ptr(), f) }
    }

    /// What a panic in a turn does to the actor: the hook is told, the policy acts. If the actor is
    /// to be restarted later, and that `may_wait`: after how long.
    #[cold]
    pub(crate) fn recover(&mut self, payload: &Payload, may_wait: bool) -> Option<Duration> {
        if self.header().has(ENDED) {
            return None;
        }
        let mut panic = TurnPanic::of(self.header().name(), payload);
        loop {
            let recover = self.header().config().vtable.recover;
            // SAFETY: this is the owner of a mailbox of that type, and the state is there.
            let recovered = unsafe { recover(self.cell.as_ptr(), &panic) };
            self.header().report_panic(&panic, recovered);
            match recovered {
                Recovered::Resumed => {}
                Recovered::Stopped => self.stop(StopCause::Panicked(panic)),
                Recovered::GaveUp(restarts) => {
                    self.stop(StopCause::GaveUp { restarts, panic });
                }
                Recovered::Restarts(after) if may_wait && !after.is_zero() => return Some(after),
                Recovered::Restarts(_) => {
                    let (cell, env) = (self.cell.as_ptr(), Env::of(self.cell.as_ptr()));
                    // SAFETY: as above, between two turns.
                    if let Err(payload) = panic::catch(|| unsafe { restart(cell, env.as_ptr()) }) {
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

    /// This node comes before all that waits, in the place of a turn that is done; the caller is its
    /// holder.
    pub(crate) fn put_first(&mut self, node: NodePtr) {
        debug_assert!(self.done > 0, "a place that nobody has given up");
        self.done = self.done.saturating_sub(1);
        self.batch.prepend(node);
    }

    /// A turn that is under way goes on before all that waits: its node has the place that its
    /// message had. The caller is its holder.
    pub(crate) fn put_back(&mut self, node: NodePtr) {
        self.batch.prepend(node);
    }

    /// Are there turns that may wait among those that come?
    #[inline(always)]
    pub(crate) fn awaits(&self) -> bool {
        self.header().has(AWAITS)
    }

    /// The owner of a mailbox that nobody runs for a time: on no thread, with what is left.
    pub(crate) fn lie_down(mut self) -> Resting {
        self.save_list();
        let resting = Resting { cell: self.to_ref(), done: self.done };
        std::mem::forget(self);
        resting
    }

    /// Calls the hook of a batch that ends after this many turns. Its panic is treated like that of
    /// a turn.
    pub(crate) fn end_batch(&mut self, turns: u64) {
        let end_batch = self.header().config().vtable.end_batch;
        let cell = self.cell.as_ptr();
        // SAFETY: this is the owner of a mailbox of that type; its state is there, for the actor
        // ends only after its last batch, and nothing borrows it.
        if let Err(payload) = panic::catch(|| unsafe { end_batch(cell, turns) }) {
            self.recover(&payload, false);
            panic::discard(payload);
        }
    }

    /// Ends the actor: its state goes to the end hook. False if that was done before.
    pub(crate) fn end(&mut self) -> bool {
        if !self.header().raise_ended() {
            return false;
        }
        let end = self.header().config().vtable.end;
        // SAFETY: this is the owner of a mailbox of that type, ENDED was just raised, and whoever
        // calls this has run or given back everything.
        unsafe { end(self.cell.as_ptr()) };
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
        let drain = enrolled.and_then(|enrolled| enrolled.withdraw(self.cell.addr().get()));
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
        drop(unsafe { Ref::of_handles(self.cell) });
        std::mem::forget(self);
    }

    /// Leaves the mailbox pending, with what is left: it has to be scheduled or deferred.
    #[must_use = "a pending mailbox has to be scheduled or deferred"]
    pub(crate) fn leave_pending(self) -> Ref {
        let cell = self.to_ref();
        self.leave(false);
        cell
    }

    /// The same, with its entry, unless that is out already.
    #[must_use = "a pending mailbox has to be scheduled or deferred"]
    pub(crate) fn leave_scheduled(self) -> Queued {
        // While it is owned, nobody raises SCHEDULED.
        if self.header().word.load().is_scheduled() {
            return Queued::Hint(self.leave_pending());
        }
        let cell = self.cell;
        self.leave(true);
        // SAFETY: the step has raised SCHEDULED.
        Queued::Entry(unsafe { Scheduled::of(cell) })
    }

    /// For whoever owns the mailbox next.
    fn save_list(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Batch::new());
        self.header().save(batch.into_saved());
    }

    fn leave(mut self, scheduled: bool) {
        self.save_list();
        self.header().word.set_pending(self.done, scheduled);
        std::mem::forget(self);
    }

    /// The mailbox is let go: nothing of it is touched any more.
    #[inline(always)]
    fn gone<E>(self) -> Result<(), E> {
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // O2. In a release build the mailbox is stuck, which harms nobody's memory.
        debug_assert!(std::thread::panicking(), "an owner was dropped without letting go");
    }
}

/// An owner on no thread: its mailbox is not idle, not pending, and run by nothing. It is passed on by
/// the word of a suspended turn, which carries what HANDOVER does.
///
/// It is no `Drop`: see [`crate::turn::waking`] for what gets it up.
#[must_use = "a mailbox whose owner is forgotten is stuck"]
pub(crate) struct Resting {
    cell: Ref,
    done: u64,
}

impl Resting {
    /// The owner, on this thread.
    pub(crate) fn get_up(self) -> Owner {
        let Resting { cell, done } = self;
        let batch = Batch::from_saved(cell.header().saved());
        // SAFETY: O1: the owner that lay down has become this one, and its list was saved there. As
        // long as there is an owner, the cell is.
        unsafe { Owner::new(cell.ptr(), batch, done) }
    }
}

/// Stops an actor, by its owner or by one that keeps it pending: it takes nothing new.
pub(crate) fn stop(header: &Header, cause: StopCause) {
    header.stop_because(cause);
    if let Some((duty, _)) = header.word.raise(CLOSED, Entry::Leave) {
        debug_assert_eq!(duty, Duty::Nothing, "an owner's mailbox is neither idle nor pending");
        header.tell_closed();
    }
}

/// The actor whose turn is under way, seen from inside.
pub(crate) struct InTurn<'a, S> {
    cell: NonNull<Header>,
    turn: PhantomData<&'a ()>,
    of: PhantomData<fn(S) -> S>,
}

impl<'a, S> InTurn<'a, S> {
    /// # Safety
    /// This thread runs a turn of the mailbox of `cell`, of this state type, for as long as `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(cell: *const Header) -> Self {
        // SAFETY: the cell of a turn under way has an address.
        let cell = unsafe { NonNull::new_unchecked(cell.cast_mut()) };
        InTurn { cell, turn: PhantomData, of: PhantomData }
    }

    pub(crate) fn header(&self) -> &'a Header {
        // SAFETY: O1: the turn's owner keeps the cell.
        unsafe { self.cell.as_ref() }
    }

    pub(crate) fn weak(&self) -> Weak<S> {
        // SAFETY: O1, and the state is an S.
        unsafe { Weak::of(Ref::retain(self.cell)) }
    }

    /// A handle, unless all are gone.
    pub(crate) fn handle(&self) -> Option<Strong<S>> {
        self.weak().upgrade()
    }

    /// Stops the actor after this turn.
    pub(crate) fn stop(&self) {
        stop(self.header(), StopCause::Requested);
    }
}
