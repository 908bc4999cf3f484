//! The threads of a pool: who has a place, who stands by, and which place is free.
//!
//! A place is a worker's queue; a thread that has one is a worker. A worker that is about to sleep in a turn leaves its place to a thread that
//! stands by, and goes on after its wait without one, until the turn is over; if nobody has taken the place meanwhile, it takes it back.
//!
//! - W1: every place is with one thread, or free. A free one is taken by one thread.
//! - W2: `spares >= reserved + free places`: whoever has been promised a thread that stands by will have one.
//! - W3: a thread without a place is counted as a spare, or (in a turn) as away in [`Sleep`](super::sleep::Sleep).

use std::time::Duration;

use crossbeam_deque::Worker;

use super::pool::Shared;
use crate::drain::carrier::Drain;
use crate::drain::relief::{Promises, WouldBlock};

/// How long a thread stands by for nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// A worker's place.
pub(super) struct Place {
    pub(super) number: usize,
    pub(super) queue: Worker<Drain>,
    /// Drains run here; wraps.
    pub(super) tick: u32,
    /// Drains run from the slot one after the other.
    pub(super) warm: u32,
    /// Where the next search begins.
    pub(super) random: u64,
}

/// A place that was left in the middle of a turn.
struct Free {
    left: u64,
    place: Place,
    promises: Promises,
}

/// Who is there. All under one lock: it is taken when a turn blocks, not for work.
#[derive(Default)]
pub(super) struct Staff {
    pub(super) threads: usize,
    /// Threads that stand by, those included that are about to.
    spares: usize,
    reserved: usize,
    free: Vec<Free>,
    leaves: u64,
    /// Threads ever started, for their names.
    pub(super) started: usize,
    /// Drains dropped un-run.
    pub(super) dropped: usize,
}

impl Shared {
    /// Sees to it that a thread stands by: W2.
    pub(super) fn reserve(self: &std::sync::Arc<Self>) -> Result<(), WouldBlock> {
        let mut staff = self.staff.lock();
        if staff.spares <= staff.reserved + staff.free.len() {
            let most = self.most.ok_or(WouldBlock)?;
            if staff.threads >= self.workers().saturating_add(most) {
                return Err(WouldBlock);
            }
            self.start_thread(&mut staff, None).map_err(|_| WouldBlock)?;
            staff.spares += 1;
        }
        staff.reserved += 1;
        Ok(())
    }

    /// What was reserved is not needed.
    pub(super) fn unreserve(&self) {
        self.staff.lock().reserved -= 1;
        if self.sleep.look().is_ended() {
            self.dismiss();
        }
    }

    /// Leaves a place, by what was reserved; the number is for [`take_back`](Self::take_back).
    pub(super) fn free_place(&self, place: Place, promises: Promises) -> u64 {
        let left = {
            let mut staff = self.staff.lock();
            staff.reserved -= 1;
            staff.leaves += 1;
            let left = staff.leaves;
            staff.free.push(Free { left, place, promises });
            left
        };
        self.place_free.notify_one();
        left
    }

    /// Takes a place back that nobody has taken over yet.
    pub(super) fn take_back(&self, left: u64) -> Option<(Place, Promises)> {
        let mut staff = self.staff.lock();
        let at = staff.free.iter().position(|free| free.left == left)?;
        let Free { place, promises, .. } = staff.free.swap_remove(at);
        Some((place, promises))
    }

    /// This thread has lost its place, and its turn is over: it stands by.
    pub(super) fn becomes_spare(&self) {
        self.staff.lock().spares += 1;
    }

    /// Stands by until a place is free; `None` if that takes too long, or the pool has ended.
    pub(super) fn next_place(&self) -> Option<(Place, Promises)> {
        let mut staff = self.staff.lock();
        let mut patient = true;
        loop {
            // Longest left first: a place with work in it that nobody runs.
            if !staff.free.is_empty() {
                let Free { place, promises, .. } = staff.free.remove(0);
                staff.spares -= 1;
                return Some((place, promises));
            }
            if (self.sleep.look().is_ended() || !patient) && staff.spares > staff.reserved {
                staff.spares -= 1;
                return None;
            }
            patient = !self.place_free.wait_for(&mut staff, PATIENCE).timed_out();
        }
    }

    /// The pool has ended: nobody stands by any longer.
    pub(super) fn dismiss(&self) {
        // Under the lock, so that nobody is between his look and his wait.
        drop(self.staff.lock());
        self.place_free.notify_all();
    }

    /// A thread ends.
    pub(super) fn thread_ends(&self) {
        let none_left = {
            let mut staff = self.staff.lock();
            staff.threads -= 1;
            staff.threads == 0
        };
        if none_left {
            self.all_gone.notify_all();
        }
    }
}
