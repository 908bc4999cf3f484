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
mod tests {
    use super::super::queues::tests::{Token, job};
    use super::*;

    /// The first worker's place, and the queues of the others. Jobs are known by their numbers.
    struct First {
        queues: Queues<Token>,
        place: OwnPlace<Token>,
        others: Vec<Worker<Token>>,
    }

    /// A job, put somewhere; its number.
    fn put<R>(to: impl FnOnce(Token) -> R) -> (usize, R) {
        let job = job();
        (job.id(), to(job))
    }

    impl First {
        fn of(workers: usize) -> Self {
            let (queues, mut others) = Queues::new(workers);
            let place = OwnPlace::none();
            place.set(WorkerPlace::new(0, others.remove(0)));
            First { queues, place, others }
        }

        /// Schedules a job: its number, and whether it is announced.
        fn schedule(&self, again: bool) -> (usize, bool) {
            put(|job| match self.place.schedule(&self.queues, job, again) {
                Placed::Kept => false,
                Placed::Announce => true,
                Placed::NoPlace(_) => panic!("it has a place"),
            })
        }

        /// A job that comes from outside.
        fn inject(&self) -> usize {
            put(|job| self.queues.injector.push(job)).0
        }

        /// A job of another worker.
        fn push(&self, worker: usize) -> usize {
            put(|job| self.others[worker - 1].push(job)).0
        }

        /// A job in the slot of a worker.
        fn keep(&self, worker: usize) -> usize {
            put(|job| assert!(self.queues.of(worker).slot.put(job).is_none())).0
        }

        fn found(next: NextJob<Token>) -> Option<(usize, bool)> {
            match next {
                NextJob::Found(job, more) => Some((job.id(), more)),
                NextJob::Nothing(0) => None,
                NextJob::Nothing(_) | NextJob::Lost => panic!("it has the first place"),
            }
        }

        fn next(&self) -> Option<(usize, bool)> {
            Self::found(self.place.next(&self.queues))
        }

        fn search(&self) -> Option<usize> {
            Self::found(self.place.search(&self.queues)).map(|(number, _)| number)
        }
    }

    #[test]
    fn the_slot_is_first_three_times_in_a_row() {
        let first = First::of(2);
        let (waits, last) = (first.schedule(false), first.schedule(false));
        assert!(!waits.1 && last.1, "the second has put the first into the queue");
        assert_eq!(first.next(), Some((last.0, false)));
        for _ in 1..WARM {
            let (kept, told) = first.schedule(false);
            assert!(!told);
            assert_eq!(first.next(), Some((kept, false)));
        }
        let (kept, _) = first.schedule(false);
        assert_eq!(first.next(), Some((waits.0, true)), "the fourth goes behind");
        assert_eq!(first.next(), Some((kept, false)));
        let (kept, _) = first.schedule(false);
        assert_eq!(first.next(), Some((kept, false)), "and counting begins anew");
        assert_eq!(first.next(), None);
        // One that is alone is next in any case.
        for _ in 0..=WARM {
            let (kept, _) = first.schedule(false);
            assert_eq!(first.next(), Some((kept, false)));
        }
        assert_eq!(first.queues.tick(0), 2 * WARM + 5, "each look is a sign of life");
    }

    #[test]
    fn a_drain_goes_on_if_nothing_waits() {
        let first = First::of(2);
        let goes_on = || first.place.goes_on(&first.queues);
        assert!(goes_on());
        assert!(!first.schedule(false).1 && !goes_on(), "one is in the slot");
        assert!(first.next().is_some());
        assert!(!first.schedule(true).1 && !goes_on(), "one is in the queue");
        assert!(first.next().is_some());
        first.inject();
        assert!(!goes_on(), "one is outside");
        assert!(first.next().is_some() && goes_on());
        assert_eq!(first.queues.tick(0), 5, "each job is a sign of life");
        drop(first.place.take());
        assert!(!goes_on(), "it has no place");
    }

    #[test]
    fn each_61st_comes_from_outside() {
        let first = First::of(1);
        (0..150).for_each(|_| _ = first.schedule(false));
        let outside = [first.inject(), first.inject()];
        let jobs = (0..150).map(|_| first.place.next(&first.queues)).collect::<Vec<_>>();
        let at = |number| {
            jobs.iter().position(|next| match next {
                NextJob::Found(job, _) => job.id() == number,
                _ => false,
            })
        };
        assert_eq!(outside.map(at), [Some(60), Some(121)]);
    }

    #[test]
    fn a_batch_from_outside_is_told() {
        let first = First::of(1);
        first.inject();
        assert!(matches!(first.next(), Some((_, false))));
        (0..6).for_each(|_| _ = first.inject());
        assert!(matches!(first.next(), Some((_, true))));
    }

    #[test]
    fn the_few_from_outside_are_taken_in_first() {
        let first = First::of(2);
        let waits = first.inject();
        let behind = first.schedule(true);
        assert!(behind.1, "it is not alone");
        // A thief of the one would leave the other to its worker.
        assert!(first.queues.injector.is_empty() && first.queues.of(0).queue.len() == 2);
        assert_eq!(first.next(), Some((waits, false)));
        assert_eq!(first.next(), Some((behind.0, false)));
        let many = [(); 4].map(|()| first.inject());
        let behind = first.schedule(true);
        assert!(behind.1 && !first.queues.injector.is_empty());
        let all = std::iter::from_fn(|| first.next()).map(|(number, _)| number);
        assert!(all.eq(many.into_iter().chain([behind.0])));
    }

    #[test]
    fn what_is_alone_in_a_queue_is_not_stolen_first() {
        let first = First::of(3);
        // Where a search begins is random.
        for _ in 0..32 {
            let numbers = [first.push(1), first.push(2), first.push(2)];
            let found = [(); 3].map(|()| first.search());
            assert_eq!(found[0], Some(numbers[1]));
            assert!(numbers.iter().all(|number| found.contains(&Some(*number))));
        }
    }

    #[test]
    fn a_slot_is_emptied_into_the_queue() {
        let First { queues, place, .. } = &First::of(1);
        assert!(!place.empty_slot(queues));
        assert!(matches!(place.schedule(queues, job(), false), Placed::Kept));
        assert!(!queues.has_work());
        assert!(place.empty_slot(queues));
        assert!(queues.has_work() && !place.empty_slot(queues));
    }

    #[test]
    fn a_search_looks_at_everybody_else() {
        let first = First::of(4);
        // Where it begins is random.
        for round in 0..32 {
            for victim in 1..4 {
                let expected = [first.push(victim), first.keep(victim)];
                assert_eq!([first.search(), first.search()], expected.map(Some), "slots are last");
                assert_eq!(first.queues.tick(0), round * 9 + victim as u32 * 3 - 1);
                let outside = first.inject();
                assert_eq!(first.search(), Some(outside));
            }
        }
        first.keep(0);
        assert_eq!(first.search(), None, "its own slot it has seen");
    }

    #[test]
    fn a_search_begins_anywhere() {
        let first = First::of(4);
        let begins = |_| {
            let pushed = [1, 2, 3].map(|worker| first.push(worker));
            let found = [(); 3].map(|()| first.search());
            pushed.iter().position(|number| Some(*number) == found[0]).unwrap()
        };
        let begun = (0..64).map(begins).collect::<Vec<_>>();
        assert!((0..3).all(|victim| begun.contains(&victim)), "{begun:?}");
    }
}
