//! A worker's place: the order in which it takes jobs.

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
