//! A worker's place: its own end of a queue, and the order in which it takes jobs.
//!
//! | a job comes                           | to                                                          | announced             |
//! |---------------------------------------|-------------------------------------------------------------|-----------------------|
//! | from a job of this pool               | the worker's slot; what was there, to the tail of its queue | if the slot was taken |
//! | from itself: it has had its time      | the injector, behind all; its own empty queue, if few wait  | if others wait        |
//! | from outside, or a job without a place | the injector                                               | always                |
//!
//! If none waits, a job that has had its time need not come here at all: it goes on as the next one
//! ([`OwnPlace::goes_on`]).
//!
//! A worker looks into its slot, its queue, the injector; then it searches the other queues, and
//! last their slots; then it sleeps. After [`WARM`] jobs from the slot in a row the slot's goes to
//! the tail of the queue, and each [`INJECTOR_EVERY`]th job comes from the injector if one is
//! there, so neither two jobs that schedule each other nor a full queue keeps others waiting.
//!
//! A searcher takes what is alone in a queue after it has given its processor away once: that
//! queue's worker may be about to come to it, and may be the very one whose processor the system
//! has given to the searcher. It would not go on for milliseconds, and what it has in hand may be
//! short. For the same reason what has had its time stays in its worker's queue, behind what has
//! come from outside, where few wait: in the injector, a worker that is woken for those finds it.
//!
//! What lies in a slot is not announced, for its worker comes to it next: it waits for the end of
//! the job that sent it, unless another worker searches anyway, or the job blocks, or the
//! [monitor](super::monitor) finds it.
//!
//! - PLACE-1: a place is borrowed only inside the methods of [`OwnPlace`], and these reach the
//!   queues alone: nothing that they can call announces, sweeps, drops or runs a job, wakes a
//!   worker, or takes a lock. What is owed after a step is its answer.

#![forbid(unsafe_code)]

use std::cell::RefCell;

use super::job::Job;
use super::queues::{Queues, Remote, take};
use crate::sync::queue::Worker;
use crate::sync::thread;

/// Jobs from the slot in a row.
const WARM: u32 = 3;
/// The injector's share; prime, so that it does not beat with anything.
const INJECTOR_EVERY: u32 = 61;
/// Rounds over the other queues.
const ROUNDS: usize = 3;

/// A worker's place.
pub(super) struct WorkerPlace<J: Job> {
    number: usize,
    queue: Worker<J>,
    /// Jobs begun here, and looks that found none; wraps.
    tick: u32,
    /// Jobs run from the slot one after the other.
    warm: u32,
    /// Picks the victim with which the next search begins.
    random: u64,
}

/// The place of a thread that may have one (PLACE-1).
pub(super) struct OwnPlace<J: Job>(RefCell<Option<WorkerPlace<J>>>);

/// Outcome of a look into one's own place.
pub(super) enum NextJob<J> {
    /// The thread has no place any more.
    Lost,
    /// A job to run, and whether there are more where others look.
    Found(J, bool),
    /// Nothing: the place has this number.
    Nothing(usize),
}

/// The place of a job that another has scheduled.
#[must_use = "what is owed is to be done when the place is not borrowed any more"]
pub(super) enum Placed<J> {
    /// This worker comes to it.
    Kept,
    /// Others may take it, and are to be notified.
    Announce,
    /// There is no place to put it.
    NoPlace(J),
}

impl<J: Job> WorkerPlace<J> {
    pub(super) fn new(number: usize, queue: Worker<J>) -> Self {
        WorkerPlace {
            number,
            queue,
            tick: 0,
            warm: 0,
            random: 0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1),
        }
    }

    /// Another job begins, or is looked for.
    #[inline(always)]
    fn begins(&mut self, queues: &Queues<J>) {
        self.tick = self.tick.wrapping_add(1);
        queues.of(self.number).begins(self.tick);
    }

    /// A job of its own, or from outside; and whether more has come into its queue.
    fn next(&mut self, queues: &Queues<J>) -> (Option<J>, bool) {
        self.begins(queues);
        if self.tick % INJECTOR_EVERY == 0 {
            if let Some(job) = take(|| queues.injector.steal()) {
                return (Some(job), false);
            }
        }
        let mut more = false;
        match queues.of(self.number).slot.take() {
            Some(job) if self.warm < WARM => {
                self.warm += 1;
                return (Some(job), false);
            }
            Some(job) => more = self.put_last(queues, job),
            None => {}
        }
        self.warm = 0;
        if let Some(job) = self.queue.pop() {
            return (Some(job), more);
        }
        let job = take(|| queues.injector.steal_batch_and_pop(&self.queue));
        (job, more || !self.queue.is_empty())
    }

    /// True if nothing waits for this worker.
    fn has_time(&self, queues: &Queues<J>) -> bool {
        !queues.waits_behind(self.number) && queues.injector.is_empty()
    }

    /// Puts a job behind others that wait here; some from outside come into the queue before it.
    /// True if it is not alone there; alone, it is next here, and another worker would only carry
    /// it to another cache.
    fn put_last(&self, queues: &Queues<J>, job: J) -> bool {
        let _ = take(|| queues.injector.steal_batch(&self.queue));
        let alone = self.queue.is_empty();
        self.queue.push(job);
        !alone
    }

    /// Puts a job that has had its time behind those that wait. What is outside is taken in first,
    /// if the queue here is empty; if that was all, the job stays here.
    fn put_behind(&mut self, queues: &Queues<J>, job: J) -> Placed<J> {
        if self.queue.is_empty() {
            let _ = take(|| queues.injector.steal_batch(&self.queue));
            if queues.injector.is_empty() {
                let alone = self.queue.is_empty();
                self.queue.push(job);
                return if alone { Placed::Kept } else { Placed::Announce };
            }
        }
        queues.injector.push(job);
        Placed::Announce
    }

    /// Looks everywhere.
    fn search(&mut self, queues: &Queues<J>) -> Option<J> {
        for round in 0..ROUNDS {
            if let Some(job) = take(|| queues.injector.steal_batch_and_pop(&self.queue)) {
                return Some(job);
            }
            let mut some = false;
            for remote in self.others(queues).filter(|remote| remote.has_some()) {
                // What is alone there, its worker may be about to come to.
                if round == 0 && remote.queue.len() == 1 {
                    some = true;
                } else if let Some(job) = take(|| remote.queue.steal_batch_and_pop(&self.queue)) {
                    return Some(job);
                }
            }
            if some {
                // That worker may be the one whose processor this thread was given.
                thread::yield_now();
            }
        }
        self.others(queues).find_map(|remote| remote.slot.take())
    }

    /// The other places, from a random one on.
    fn others<'a>(
        &mut self,
        queues: &'a Queues<J>,
    ) -> impl Iterator<Item = &'a Remote<J>> + use<'a, J> {
        // Xorshift: which one comes first only has to differ.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let (number, count) = (self.number, queues.workers());
        let first = (self.random % count as u64) as usize;
        (0..count)
            .map(move |i| (first + i) % count)
            .filter(move |at| *at != number)
            .map(|at| queues.of(at))
    }
}

impl<J: Job> OwnPlace<J> {
    pub(super) fn none() -> Self {
        OwnPlace(RefCell::new(None))
    }

    pub(super) fn is_some(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(super) fn set(&self, place: WorkerPlace<J>) {
        let before = self.0.replace(Some(place));
        debug_assert!(before.is_none(), "a thread has one place at most");
    }

    /// True if nothing waits for this worker.
    pub(super) fn has_time(&self, queues: &Queues<J>) -> bool {
        self.0.borrow().as_ref().is_some_and(|place| place.has_time(queues))
    }

    /// [`has_time`](Self::has_time) at the end of a job, which then goes on as the next one.
    pub(super) fn goes_on(&self, queues: &Queues<J>) -> bool {
        let mut place = self.0.borrow_mut();
        let Some(place) = place.as_mut().filter(|place| place.has_time(queues)) else {
            return false;
        };
        place.begins(queues);
        true
    }

    pub(super) fn take(&self) -> Option<WorkerPlace<J>> {
        self.0.take()
    }

    /// Looks for the next job in the place, and outside.
    #[inline(always)]
    pub(super) fn next(&self, queues: &Queues<J>) -> NextJob<J> {
        let mut place = self.0.borrow_mut();
        let Some(place) = place.as_mut() else { return NextJob::Lost };
        match place.next(queues) {
            (Some(job), more) => NextJob::Found(job, more),
            (None, _) => NextJob::Nothing(place.number),
        }
    }

    /// Looks everywhere, as a searcher.
    pub(super) fn search(&self, queues: &Queues<J>) -> NextJob<J> {
        let mut place = self.0.borrow_mut();
        let Some(place) = place.as_mut() else { return NextJob::Lost };
        match place.search(queues) {
            Some(job) => {
                place.begins(queues);
                NextJob::Found(job, false)
            }
            None => NextJob::Nothing(place.number),
        }
    }

    /// Takes in what the running job has scheduled. `again`: it is that job itself, which has had
    /// its time.
    #[inline(always)]
    pub(super) fn schedule(&self, queues: &Queues<J>, job: J, again: bool) -> Placed<J> {
        let mut place = self.0.borrow_mut();
        let Some(place) = place.as_mut() else { return Placed::NoPlace(job) };
        if again {
            return place.put_behind(queues, job);
        }
        let Some(before) = queues.of(place.number).slot.put(job) else { return Placed::Kept };
        place.queue.push(before);
        Placed::Announce
    }

    /// Puts what lies in the slot where others can take it. True if they are to be notified.
    #[must_use = "others are to be woken"]
    pub(super) fn empty_slot(&self, queues: &Queues<J>) -> bool {
        let place = self.0.borrow();
        let Some(place) = place.as_ref() else { return false };
        let Some(job) = queues.of(place.number).slot.take() else { return false };
        place.queue.push(job);
        true
    }
}

#[cfg(test)]
#[path = "../../tests/pool/place.rs"]
mod tests;
