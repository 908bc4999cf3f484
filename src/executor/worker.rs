//! A worker's loop: find a drain, run it, again; and what is scheduled from inside of one.
//!
//! | a drain comes                            | to                                                            | announced            |
//! |------------------------------------------|---------------------------------------------------------------|----------------------|
//! | from a turn of this pool                 | the worker's slot; what was there, to the tail of its queue   | if the slot was taken |
//! | from itself, out of budget               | the tail of the queue, behind what waits outside              | if others wait there  |
//! | from outside, or a turn without a place  | the injector                                                  | always               |
//!
//! A worker looks into its slot, its queue, the injector; then it searches the other queues, and last their slots; then it sleeps. After
//! [`WARM`] drains from the slot in a row the slot's goes to the tail of the queue, and each [`INJECTOR_EVERY`]th drain comes from the
//! injector if one is there, so neither two actors that send to each other nor a full queue keeps others waiting.
//!
//! What lies in a slot is not announced, for its worker comes to it next: it waits for the end of the turn that sent it, unless somebody is
//! searching anyway, or the turn blocks.

use std::cell::{Cell, RefCell};
use std::ptr::null;
use std::sync::Arc;

use crossbeam_deque::Steal;

use super::pool::Shared;
use super::sleep::Woken;
use super::staff::Place;
use crate::drain::carrier::Drain;
use crate::drain::relief::{Employer, Promises, WouldBlock, employed};
use crate::sync::thread_plain;
use crate::unwind::shrug_off;

/// Drains from the slot in a row.
const WARM: u32 = 3;
/// The injector's share; prime, so that it does not beat with anything.
const INJECTOR_EVERY: u32 = 61;
/// Rounds over the other queues.
const ROUNDS: usize = 3;

/// A thread of the pool.
struct Thread {
    pool: Arc<Shared>,
    /// Its place, if it has one. Never borrowed while a drain runs or is dropped.
    place: RefCell<Option<Place>>,
    /// The drain it is running.
    in_hand: Cell<usize>,
}

thread_plain! {
    /// The thread of a pool that this one is; it lies in the frame of [`run`].
    static THREAD: Cell<*const Thread> = Cell::new(null());
}

/// This thread, if it is one of that pool's.
fn with_thread_of<R>(pool: &Shared, f: impl FnOnce(Option<&Thread>) -> R) -> R {
    // SAFETY: set by `run`, in whose frame it lies, and which is below us on this thread's stack.
    let thread = THREAD.with(|at| unsafe { at.get().as_ref() });
    f(thread.filter(|thread| std::ptr::eq(Arc::as_ptr(&thread.pool), pool)))
}

/// Is this thread one of that pool's?
pub(super) fn works_for(pool: &Shared) -> bool {
    with_thread_of(pool, |thread| thread.is_some())
}

/// Takes a drain in.
pub(super) fn schedule(pool: &Shared, drain: Drain) {
    with_thread_of(pool, |thread| match thread {
        Some(thread) => thread.schedule(drain),
        None if pool.sleep.look().is_closing() => pool.drop_unrun(drain),
        None => pool.inject(drain),
    });
}

/// What a thread of the pool does from its start to its end; with a place, or standing by for one.
pub(super) fn run(pool: Arc<Shared>, place: Option<Place>) {
    let thread = Thread { pool, place: RefCell::new(place), in_hand: Cell::new(0) };
    struct Leaves;
    impl Drop for Leaves {
        fn drop(&mut self) {
            THREAD.with(|at| at.set(null()));
        }
    }
    THREAD.with(|at| at.set(&raw const thread));
    let leaves = Leaves;
    employed(&thread, || thread.live());
    drop(leaves);
    thread.pool.thread_ends();
}

impl Thread {
    fn live(&self) {
        let pool = &self.pool;
        loop {
            if self.place.borrow().is_none() {
                let Some((place, promises)) = pool.next_place() else { return };
                *self.place.borrow_mut() = Some(place);
                shrug_off(|| promises.keep());
            }
            self.work();
            // Its place was taken over while it slept; or the pool has ended.
            let place = self.place.borrow_mut().take();
            match place {
                Some(place) => {
                    pool.sleep.end();
                    pool.sweep_place(&place);
                    pool.sweep();
                    pool.dismiss();
                    return;
                }
                None => {
                    pool.becomes_spare();
                    pool.sleep.come_back();
                }
            }
        }
    }

    /// Runs drains until the place is lost, or the pool has ended.
    fn work(&self) {
        let mut searching = false;
        loop {
            if self.pool.sleep.look().is_ended() {
                return;
            }
            let next = {
                let mut place = self.place.borrow_mut();
                let Some(place) = place.as_mut() else { return };
                place.next(&self.pool, &mut searching)
            };
            if let Some(drain) = next {
                self.in_hand.set(drain.number());
                shrug_off(|| drain.run());
                self.in_hand.set(0);
                continue;
            }
            let number = match self.place.borrow().as_ref() {
                Some(place) => place.number,
                None => return,
            };
            match self.pool.sleep.sleep(number, std::mem::take(&mut searching), || self.pool.has_work()) {
                Woken::Search => searching = true,
                Woken::End => return,
            }
        }
    }

    fn schedule(&self, drain: Drain) {
        if self.pool.sleep.look().is_ended() {
            return self.pool.drop_unrun(drain);
        }
        let borrowed = self.place.borrow();
        let Some(place) = borrowed.as_ref() else {
            drop(borrowed);
            return self.pool.inject(drain);
        };
        if drain.number() == self.in_hand.get() {
            place.put_last(&self.pool, drain);
            return;
        }
        let Some(before) = self.pool.slot(place.number).put(drain) else { return };
        place.queue.push(before);
        // What is announced to a pool that has just ended is dropped here, and that may run anything: also what looks for the place.
        drop(borrowed);
        self.pool.announce();
    }

    /// Puts what lies in the slot where others can take it.
    fn empty_slot(&self, place: &Place) -> bool {
        let drain = self.pool.slot(place.number).take();
        let some = drain.is_some();
        drain.into_iter().for_each(|drain| place.queue.push(drain));
        some
    }
}

impl Place {
    /// The next drain, if there is one. `searching` says whether this worker is counted as a searcher.
    fn next(&mut self, pool: &Shared, searching: &mut bool) -> Option<Drain> {
        if !*searching {
            if let Some(drain) = self.own(pool) {
                return Some(drain);
            }
            *searching = pool.sleep.start_search();
        }
        if *searching {
            let drain = self.search(pool)?;
            *searching = false;
            pool.sleep.found(|| pool.has_work());
            return Some(drain);
        }
        None
    }

    /// A drain of its own, or from outside.
    fn own(&mut self, pool: &Shared) -> Option<Drain> {
        self.tick = self.tick.wrapping_add(1);
        if self.tick % INJECTOR_EVERY == 0 {
            if let Some(drain) = take(|| pool.injector.steal()) {
                return Some(drain);
            }
        }
        match pool.slot(self.number).take() {
            Some(drain) if self.warm < WARM => {
                self.warm += 1;
                return Some(drain);
            }
            Some(drain) => self.put_last(pool, drain),
            None => {}
        }
        self.warm = 0;
        if let Some(drain) = self.queue.pop() {
            return Some(drain);
        }
        let drain = take(|| pool.injector.steal_batch_and_pop(&self.queue))?;
        if !self.queue.is_empty() {
            pool.announce();
        }
        Some(drain)
    }

    /// Puts a drain behind all others that wait: those outside come into the queue before it.
    fn put_last(&self, pool: &Shared, drain: Drain) {
        let _ = take(|| pool.injector.steal_batch(&self.queue));
        let alone = self.queue.is_empty();
        self.queue.push(drain);
        // Alone, it is next here: somebody else would only carry it to another cache.
        if !alone {
            pool.announce();
        }
    }

    /// Looks everywhere.
    fn search(&mut self, pool: &Shared) -> Option<Drain> {
        for _ in 0..ROUNDS {
            if let Some(drain) = take(|| pool.injector.steal_batch_and_pop(&self.queue)) {
                return Some(drain);
            }
            for remote in self.others(pool) {
                if let Some(drain) = take(|| remote.queue.steal_batch_and_pop(&self.queue)) {
                    return Some(drain);
                }
            }
        }
        self.others(pool).find_map(|remote| remote.slot.take())
    }

    /// The other places, from a random one on.
    fn others<'a>(&mut self, pool: &'a Shared) -> impl Iterator<Item = &'a super::pool::Remote> + use<'a> {
        // Xorshift: which one comes first only has to differ.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let (number, count) = (self.number, pool.remotes.len());
        let first = (self.random % count as u64) as usize;
        (0..count).map(move |i| (first + i) % count).filter(move |at| *at != number).map(|at| &pool.remotes[at])
    }
}

/// Tries again while others are in the way: each of them has taken something.
pub(super) fn take<T>(steal: impl Fn() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(taken) => return Some(taken),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

impl Employer for Thread {
    fn stand_by(&self) -> Result<bool, WouldBlock> {
        let has_place = self.place.borrow().is_some();
        if has_place {
            self.pool.reserve()?;
        }
        Ok(has_place)
    }

    fn never_mind(&self) {
        self.pool.unreserve();
    }

    fn leave(&self, promises: Promises) -> Option<u64> {
        let Some(place) = self.place.borrow_mut().take() else {
            self.pool.unreserve();
            return None;
        };
        self.pool.sleep.leave();
        Some(self.pool.free_place(place, promises))
    }

    fn come_back(&self, left: u64) {
        if let Some((place, promises)) = self.pool.take_back(left) {
            *self.place.borrow_mut() = Some(place);
            self.pool.sleep.come_back();
            // Listed here again: kept when this turn is over.
            drop(promises);
        }
    }

    fn share(&self) {
        let place = self.place.borrow();
        if place.as_ref().is_some_and(|place| self.empty_slot(place)) {
            self.pool.announce();
        }
    }
}
