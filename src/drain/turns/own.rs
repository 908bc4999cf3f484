//! Owning an actor for a while: a loop of the caller's own in place of [`drive`](super::drive)'s.
//!
//! The caller's closure is a turn that stands before all messages that wait: COUNT is one more for it, until it is over. Within it, waiting
//! messages are run when the closure asks for it. When it returns or unwinds, the ordinary drain settles that turn, runs what is left and
//! looks for more before it lets go, so what was sent after the closure's last look is run all the same.
//!
//! - O1: an [`Owned`] is there only while its thread owns the mailbox, in a frame of that thread's chain (F1). Its maker lends it to a closure and
//!   cannot be made to lose it: what is forgotten or kept is a reference whose lifetime ends with the call.
//! - Nobody waits here: a mailbox that is owned already is refused at once, unchanged.
//! - What messages send to other actors is this thread's promise (R9), which would be kept only after the loop. So after each run they are given
//!   to another thread, as before a turn sleeps ([`relief`](crate::drain::relief)).

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::{Drive, Place, after_panic, run_list, taken_over};
use crate::drain::block::{Block, Core, STOP};
use crate::drain::budget::{Meter, NEVER};
use crate::drain::handle::Handle;
use crate::drain::local::{Local, with_local};
use crate::drain::pass::Pass;
use crate::drain::relief::give_away;
use crate::error::{OwnError, Reason};
use crate::mailbox::chunk::Row;
use crate::mailbox::node::Batch;
use crate::mailbox::word::{CLOSED, Refusal, UNBOUNDED};
use crate::sync::panic::catch;

/// An actor in its owner's hands: the state, and what waits in the mailbox. See [`Actor::try_own`](crate::Actor::try_own).
pub struct Owned<'a, S> {
    drive: Drive<'a>,
    of: PhantomData<&'a mut S>,
}

impl<S: 'static> Handle<S> {
    /// Has `f` own the mailbox, if nobody does.
    ///
    /// # Panics
    /// With the panic of `f`, when everything else is done.
    pub(crate) fn try_own<R>(&self, f: impl FnOnce(&mut Owned<'_, S>) -> R) -> Result<R, OwnError> {
        let core = self.ptr();
        let this = self.core();
        if this.side_has(STOP) {
            return Err(self.not_owned());
        }
        let batch = match this.word.own() {
            Ok(before) => taken_over(this, before.head()),
            Err(seen) if seen.has(CLOSED) && seen.count() == 0 => return Err(self.not_owned()),
            Err(_) => return Err(OwnError::Busy),
        };
        with_local(|local| {
            let place = if local.in_turn() { Place::Nested } else { Place::Outermost };
            let outcome = local.enter(core, || {
                // SAFETY: `own` has made it ours, with this private list; this handle keeps the block, and nothing is touched after `finish`.
                unsafe {
                    let (mut row, meter) = (Row::new(), Meter::new(NEVER));
                    let mut owned = Owned::<S> { drive: Drive::of_own_turn(core, local, batch, &mut row, &meter), of: PhantomData };
                    let outcome = owned.drive.begin_own_turn().then(|| catch(|| f(&mut owned)));
                    if let Some(Err(panic)) = &outcome {
                        after_panic(core, panic.as_ref());
                    }
                    owned.drive.finish_own_turn(place);
                    outcome
                }
            });
            if place == Place::Outermost && local.owes() {
                run_list(local);
            }
            match outcome {
                None => Err(self.not_owned()),
                Some(Ok(result)) => Ok(result),
                Some(Err(panic)) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn not_owned(&self) -> OwnError {
        match self.reason(Refusal::Closed) {
            Reason::Stopped(cause) => OwnError::Stopped(cause),
            _ => OwnError::Closed,
        }
    }
}

impl<'a> Drive<'a> {
    /// # Safety
    /// The caller owns the mailbox of `core`, with `batch` as its private list and one turn of its own counted, and lets go by
    /// [`finish_own_turn`](Self::finish_own_turn), until when the block is there.
    unsafe fn of_own_turn(ptr: *const Core, local: &'a Local, batch: Batch, row: &'a mut Row, meter: &'a Meter) -> Self {
        // SAFETY: the caller's word.
        let core = unsafe { &*ptr };
        let bounded = core.about().limit != UNBOUNDED;
        let pass = Pass::new(core);
        let moves = if pass.is_observed() { None } else { core.about().moves() };
        Drive { ptr, core, local, batch, done: 0, row, in_hand: None, place: Place::Nested, moves, bounded, meter, settled: 0, pass }
    }

    /// Does what comes before a turn; false if the actor has stopped.
    ///
    /// # Safety
    /// As [`drive`](super::drive).
    unsafe fn begin_own_turn(&mut self) -> bool {
        // SAFETY: the caller's word.
        let stopped = self.pass.is_observed() && !unsafe { self.pass.before_turn(self.ptr, None) };
        !stopped && !self.core.side_has(STOP)
    }

    /// Runs what waits now, and says how much that was.
    ///
    /// # Safety
    /// As [`drive`](super::drive), within the own turn, which does not borrow the state.
    unsafe fn run_waiting(&mut self) -> u64 {
        self.take_waiting();
        self.settled = 0;
        // SAFETY: the caller's word.
        unsafe {
            // A panicking turn ends a round, not the run.
            while !self.batch.is_empty() {
                self.round();
            }
            self.pass.flush(self.ptr);
        }
        let ran = self.settled + self.done;
        // Room is where they were, and those who wait for it are let in.
        self.take_waiting();
        self.row.flush();
        give_away(self.local);
        ran
    }

    /// Settles what was run, and takes what has arrived. The own turn is counted, so COUNT stays above 0.
    fn take_waiting(&mut self) {
        let seen = self.core.word.load();
        if seen.head() != 0 || self.done > 0 || seen.is_watched() {
            let before = self.core.word.take(seen, std::mem::take(&mut self.done));
            self.batch.append_newest_first(before.head());
            if before.is_watched() {
                self.attend();
            }
        }
    }

    /// Settles the own turn, runs what is left (an executor is given what is beyond the budget), and lets go.
    ///
    /// # Safety
    /// As [`drive`](super::drive).
    unsafe fn finish_own_turn(&mut self, place: Place) {
        self.place = place;
        // From here on it is a drain like any other.
        self.meter.restart(self.core.about().budget, self.core.clock());
        self.done += 1;
        // SAFETY: the caller's word.
        unsafe { self.run() };
    }
}

impl<S: 'static> Owned<'_, S> {
    /// Runs the messages that wait now, in their order, and says how many those were. What arrives meanwhile is left for the next call.
    ///
    /// A panic of one of them is treated by the policy, as ever. Once the actor is stopped, they are given back instead, and counted all the
    /// same. Messages that are gathered ([`BulkHandler`](crate::BulkHandler)) are handled before this returns.
    pub fn run_waiting(&mut self) -> usize {
        // SAFETY: O1; `self` is borrowed, so the state is not.
        unsafe { self.drive.run_waiting() as usize }
    }

    /// How many messages wait; from 65,534 on "at least". Stale on return.
    pub fn waiting(&self) -> usize {
        (self.drive.core.word.load().count() - 1).saturating_sub(self.drive.done) as usize
    }
}

impl<S> Deref for Owned<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        // SAFETY: O1: the state is there, and no turn of this mailbox is run while `self` is borrowed.
        unsafe { &*Block::<S>::state_at(self.drive.ptr) }
    }
}

impl<S> DerefMut for Owned<'_, S> {
    fn deref_mut(&mut self) -> &mut S {
        // SAFETY: O1, as above; `self` is borrowed by this caller alone.
        unsafe { &mut *Block::<S>::state_at(self.drive.ptr) }
    }
}

impl<S> fmt::Debug for Owned<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("actor", &self.drive.core.about().name.as_deref()).finish_non_exhaustive()
    }
}
