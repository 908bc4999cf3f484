//! A worker's place: its own end of a queue, and the order in which it takes drains.
//!
//! | a drain comes                            | to                                                            | announced            |
//! |------------------------------------------|---------------------------------------------------------------|----------------------|
//! | from a turn of this pool                 | the worker's slot; what was there, to the tail of its queue   | if the slot was taken |
//! | from itself, out of budget               | the injector, behind all; its own queue if none waits         | if others wait       |
//! | from outside, or a turn without a place  | the injector                                                  | always               |
//!
//! A worker looks into its slot, its queue, the injector; then it searches the other queues, and
//! last their slots; then it sleeps. After [`WARM`] drains from the slot in a row the slot's goes
//! to the tail of the queue, and each [`INJECTOR_EVERY`]th drain comes from the injector if one is
//! there, so neither two actors that send to each other nor a full queue keeps others waiting.
//!
//! What lies in a slot is not announced, for its worker comes to it next: it waits for the end of
//! the turn that sent it, unless another worker searches anyway, or the turn blocks, or the
//! [monitor](super::monitor) finds it.
//!
//! - P1: a place is borrowed only inside the methods of [`OwnPlace`], and these reach the queues
//!   alone: nothing that they can call announces, sweeps, drops or runs a drain, wakes a worker, or
//!   takes a lock. What is owed after a step is its answer.

#![forbid(unsafe_code)]

use std::cell::RefCell;

use crossbeam_deque::Worker;

use super::queues::{Queues, Remote, take};
use crate::cell::executor::Drain;

/// Drains from the slot in a row.
const WARM: u32 = 3;
/// The injector's share; prime, so that it does not beat with anything.
const INJECTOR_EVERY: u32 = 61;
/// Rounds over the other queues.
const ROUNDS: usize = 3;

/// A worker's place.
pub(super) struct Place {
    number: usize,
    queue: Worker<Drain>,
    /// Drains begun here, and looks that found none; wraps.
    tick: u32,
    /// Drains run from the slot one after the other.
    warm: u32,
    /// Where the next search begins.
    random: u64,
}

/// The place of a thread that may have one (P1).
pub(super) struct OwnPlace(RefCell<Option<Place>>);

/// What a look into one's own place came to.
pub(super) enum Own {
    /// The thread has no place any more.
    Lost,
    /// A drain to run.
    Found(Drain),
    /// The same, and there are more where others look.
    FoundMore(Drain),
    /// Nothing: the place has this number.
    Nothing(usize),
}

/// What became of a drain that a turn has scheduled.
#[must_use = "what is owed is to be done when the place is not borrowed any more"]
pub(super) enum Scheduled {
    /// This worker comes to it.
    Kept,
    /// Others may take it, and are to be told.
    Announce,
    /// There is no place to put it.
    NoPlace(Drain),
}

impl Place {
    pub(super) fn new(number: usize, queue: Worker<Drain>) -> Self {
        Place {
            number,
            queue,
            tick: 0,
            warm: 0,
            random: 0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1),
        }
    }

    /// A drain of its own, or from outside; and whether more has come into its queue.
    fn next(&mut self, queues: &Queues) -> (Option<Drain>, bool) {
        self.tick = self.tick.wrapping_add(1);
        queues.of(self.number).begins(self.tick);
        if self.tick % INJECTOR_EVERY == 0 {
            if let Some(drain) = take(|| queues.injector.steal()) {
                return (Some(drain), false);
            }
        }
        let mut more = false;
        match queues.of(self.number).slot.take() {
            Some(drain) if self.warm < WARM => {
                self.warm += 1;
                return (Some(drain), false);
            }
            Some(drain) => more = self.put_last(queues, drain),
            None => {}
        }
        self.warm = 0;
        if let Some(drain) = self.queue.pop() {
            return (Some(drain), more);
        }
        let drain = take(|| queues.injector.steal_batch_and_pop(&self.queue));
        (drain, more || !self.queue.is_empty())
    }

    /// Puts a drain behind others that wait here; some from outside come into the queue before it.
    /// True if it is not alone there; alone, it is next here, and another worker would only carry
    /// it to another cache.
    fn put_last(&self, queues: &Queues, drain: Drain) -> bool {
        let _ = take(|| queues.injector.steal_batch(&self.queue));
        let alone = self.queue.is_empty();
        self.queue.push(drain);
        !alone
    }

    /// Looks everywhere.
    fn search(&mut self, queues: &Queues) -> Option<Drain> {
        for _ in 0..ROUNDS {
            if let Some(drain) = take(|| queues.injector.steal_batch_and_pop(&self.queue)) {
                return Some(drain);
            }
            for remote in self.others(queues) {
                if let Some(drain) = take(|| remote.queue.steal_batch_and_pop(&self.queue)) {
                    return Some(drain);
                }
            }
        }
        self.others(queues).find_map(|remote| remote.slot.take())
    }

    /// The other places, from a random one on.
    fn others<'a>(&mut self, queues: &'a Queues) -> impl Iterator<Item = &'a Remote> + use<'a> {
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

impl OwnPlace {
    pub(super) fn none() -> Self {
        OwnPlace(RefCell::new(None))
    }

    pub(super) fn is_some(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(super) fn set(&self, place: Place) {
        let before = self.0.replace(Some(place));
        debug_assert!(before.is_none(), "a thread has one place at most");
    }

    pub(super) fn take(&self) -> Option<Place> {
        self.0.take()
    }

    /// Looks for the next drain in the place, and outside.
    #[inline(always)]
    pub(super) fn next(&self, queues: &Queues) -> Own {
        let mut place = self.0.borrow_mut();
        let Some(place) = place.as_mut() else { return Own::Lost };
        match place.next(queues) {
            (Some(drain), false) => Own::Found(drain),
            (Some(drain), true) => Own::FoundMore(drain),
            (None, _) => Own::Nothing(place.number),
        }
    }

    /// Looks everywhere, as a searcher.
    pub(super) fn search(&self, queues: &Queues) -> Own {
        let mut place = self.0.borrow_mut();
        let Some(place) = place.as_mut() else { return Own::Lost };
        match place.search(queues) {
            Some(drain) => {
                place.tick = place.tick.wrapping_add(1);
                queues.of(place.number).begins(place.tick);
                Own::Found(drain)
            }
            None => Own::Nothing(place.number),
        }
    }

    /// Takes in what the running turn has scheduled. `again`: it is the turn's own actor, which has
    /// used up its budget.
    #[inline(always)]
    pub(super) fn schedule(&self, queues: &Queues, drain: Drain, again: bool) -> Scheduled {
        let place = self.0.borrow();
        let Some(place) = place.as_ref() else { return Scheduled::NoPlace(drain) };
        if again {
            if place.queue.is_empty() && queues.injector.is_empty() {
                place.queue.push(drain);
                return Scheduled::Kept;
            }
            queues.injector.push(drain);
            return Scheduled::Announce;
        }
        let Some(before) = queues.of(place.number).slot.put(drain) else { return Scheduled::Kept };
        place.queue.push(before);
        Scheduled::Announce
    }

    /// Puts what lies in the slot where others can take it. True if they are to be told.
    #[must_use = "others are to be told"]
    pub(super) fn empty_slot(&self, queues: &Queues) -> bool {
        let place = self.0.borrow();
        let Some(place) = place.as_ref() else { return false };
        let Some(drain) = queues.of(place.number).slot.take() else { return false };
        place.queue.push(drain);
        true
    }
}
