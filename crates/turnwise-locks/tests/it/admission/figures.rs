//! Numbers of admitted applicants, and their order.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use turnwise::executor::DrainQueue;
use turnwise_locks::Limits;
use turnwise_locks::admission::{Admission, InMemory, Refused};

use super::book::{Call, book};
use crate::common::{must_end, until};

/// All apply at once: the number of each answer.
fn race(entrants: u64, seats: u64, id: impl Fn(u64) -> u64) -> [u64; 3] {
    let (ledger, controls) = book();
    let raffle = Admission::open(ledger, seats).unwrap();
    let start = Arc::new(Barrier::new(entrants as usize));
    let threads: Vec<_> = (0..entrants)
        .map(|n| {
            let (raffle, start, id) = (raffle.clone(), start.clone(), id(n));
            let entrant = thread::Builder::new().stack_size(128 << 10);
            entrant
                .spawn(move || {
                    start.wait();
                    (id, raffle.apply(id, Limits::NONE).wait())
                })
                .unwrap()
        })
        .collect();
    let mut told = [0; 3];
    let mut places = Vec::new();
    for thread in threads {
        match thread.join().unwrap() {
            (id, Ok(admitted)) => {
                assert_eq!(admitted.row, 10 * admitted.place);
                places.push((id, admitted.place));
                told[0] += 1;
            }
            (_, Err(Refused::Closed { limit })) => {
                assert_eq!(limit, seats);
                told[1] += 1;
            }
            (id, Err(Refused::Duplicate { place })) => {
                assert!(controls.rows().contains(&(id, place)));
                told[2] += 1;
            }
            (_, Err(other)) => panic!("{other}"),
        }
    }
    controls.check();
    // Those with that answer are in the book, in that place, and no others.
    places.sort_by_key(|(_, place)| *place);
    assert_eq!(places, controls.rows());
    assert!(places.iter().map(|(_, place)| *place).eq(1..=told[0]));
    let status = raffle.status();
    assert_eq!((status.count, status.limit, status.closed), (told[0], seats, told[0] == seats));
    told
}

#[test]
fn exactly_to_the_limit() {
    must_end(|| {
        assert_eq!(race(7, 4, |n| n), [4, 3, 0]);
        assert_eq!(race(5, 2, |n| n), [2, 3, 0]);
        assert_eq!(race(100, 15, |n| n), [15, 85, 0]);
        assert_eq!(race(100, 100, |n| n), [100, 0, 0]);
        assert_eq!(race(10, 100, |n| n), [10, 0, 0]);
        assert_eq!(race(20, 0, |n| n), [0, 20, 0]);
    });
}

#[test]
fn twenty_four_hundred_for_a_hundred() {
    must_end(|| assert_eq!(race(2_400, 100, |n| n), [100, 2_300, 0]));
}

#[test]
fn one_entry_per_applicant() {
    must_end(|| {
        assert_eq!(race(100, 5, |_| 7), [1, 0, 99]);
        assert_eq!(race(100, 100, |n| n % 10), [10, 0, 90]);
    });
}

#[test]
fn the_first_fifteen_of_one_gate() {
    let (ledger, controls) = book();
    let queue = DrainQueue::new();
    let raffle = Admission::builder(ledger, 15)
        .group_time(Duration::MAX)
        .executor(queue.handle())
        .open()
        .unwrap();
    let applies: Vec<_> = (0..100).map(|id| raffle.apply(id, Limits::NONE)).collect();
    queue.run_until_idle();
    for (id, apply) in applies.into_iter().enumerate() {
        match apply.wait() {
            Ok(admitted) => assert_eq!(admitted.place, id as u64 + 1),
            Err(why) => assert!(id >= 15 && matches!(why, Refused::Closed { .. }), "{id}: {why}"),
        }
    }
    assert!(controls.rows().into_iter().eq((0..15).map(|id| (id, id + 1))));
    controls.check();
}

#[test]
fn who_comes_later_enters_later() {
    must_end(|| {
        let (ledger, controls) = book();
        let raffle = Admission::open(ledger, 10_000).unwrap();
        thread::scope(|s| {
            for thread in 0..4 {
                let raffle = &raffle;
                s.spawn(move || {
                    let ids = (0..500).map(|n| 1_000 * thread + n);
                    let all: Vec<_> = ids.map(|id| raffle.apply(id, Limits::NONE)).collect();
                    let mut last = 0;
                    for apply in all {
                        let place = apply.wait().unwrap().place;
                        assert!(place > last);
                        last = place;
                    }
                });
            }
        });
        assert_eq!(controls.rows().len(), 2_000);
        controls.check();
    });
}

#[test]
fn one_commit_serves_a_pass() {
    let (ledger, controls) = book();
    let queue = DrainQueue::new();
    let raffle = Admission::builder(ledger, 1_000)
        .group_time(Duration::MAX)
        .executor(queue.handle())
        .open()
        .unwrap();
    let all: Vec<_> = (0..200).map(|id| raffle.apply(id, Limits::NONE)).collect();
    assert!(all.iter().all(|apply| !apply.is_ready()));
    queue.run_until_idle();
    assert!(all.iter().all(|apply| apply.is_ready()));
    assert_eq!(controls.disk().commits, [200]);
    // Who is in already costs nothing.
    let again: Vec<_> = (0..200).map(|id| raffle.apply(id, Limits::NONE)).collect();
    queue.run_until_idle();
    for apply in again {
        assert!(matches!(apply.wait(), Err(Refused::Duplicate { .. })));
    }
    assert_eq!((controls.count(Call::Begin), controls.count(Call::RollBack)), (1, 0));
    controls.check();
}

#[test]
fn a_pass_is_no_longer_than_the_group() {
    let (ledger, controls) = book();
    let queue = DrainQueue::new();
    let raffle =
        Admission::builder(ledger, 95).group(10).group_time(Duration::MAX).executor(queue.handle());
    let raffle = raffle.open().unwrap();
    let all: Vec<_> = (0..100).map(|id| raffle.apply(id, Limits::NONE)).collect();
    queue.run_until_idle();
    assert_eq!(controls.disk().commits.iter().sum::<usize>(), 95);
    assert!(
        controls.disk().commits.iter().all(|size| *size <= 10),
        "{:?}",
        controls.disk().commits
    );
    assert_eq!(all.into_iter().filter_map(|apply| apply.wait().ok()).count(), 95);
    controls.check();
}

/// A caller that waits for the limit drains all that is before it: the budget does not end that.
#[test]
fn a_group_ends_for_callers_that_wait_too() {
    must_end(|| {
        let (ledger, controls) = book();
        let raffle = Admission::builder(ledger, 10_000).group(10).open().unwrap();
        let (inside, go_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (first, then) = (inside.clone(), go_on.clone());
        let mut times = 0;
        controls.plan(move |call| {
            if call == Call::Enter(0) && times == 0 {
                times = 1;
                first.wait();
                then.wait();
            }
            super::book::Fate::Good
        });
        thread::scope(|s| {
            let one = s.spawn(|| raffle.apply(0, Limits::NONE).wait().unwrap().place);
            inside.wait();
            let rest: Vec<_> = (1..200).map(|id| raffle.apply(id, Limits::NONE)).collect();
            let limit = s.spawn(|| raffle.set_limit(20_000).unwrap());
            go_on.wait();
            assert_eq!(one.join().unwrap(), 1);
            limit.join().unwrap();
            assert!(rest.into_iter().all(|apply| apply.wait().is_ok()));
        });
        assert!(
            controls.disk().commits.iter().all(|size| *size <= 10),
            "{:?}",
            controls.disk().commits
        );
        assert_eq!(controls.rows().len(), 200);
        controls.check();
    });
}

#[test]
fn rows_beyond_the_limit_are_closed() {
    let (ledger, controls) = book();
    controls.disk().rows = (0..8).map(|id| (id, id + 1)).collect();
    let raffle = Admission::open(ledger, 7).unwrap();
    let status = raffle.status();
    assert_eq!((status.count, status.limit, status.closed), (8, 7, true));
    assert!(status.ratio > 1.0);
    let told = [3, 100].map(|id| raffle.apply(id, Limits::NONE).wait());
    assert!(matches!(told[0], Err(Refused::Duplicate { place: 4 })));
    assert!(matches!(told[1], Err(Refused::Closed { limit: 7 })));
    assert_eq!(controls.rows().len(), 8);
}

#[test]
fn it_goes_on_where_the_book_ends() {
    let (ledger, controls) = book();
    controls.disk().rows = vec![(5, 1), (6, 4)];
    let raffle = Admission::open(ledger, 4).unwrap();
    let again = raffle.apply(6, Limits::NONE).wait();
    assert!(matches!(again, Err(Refused::Duplicate { place: 4 })));
    assert_eq!(raffle.apply(7, Limits::NONE).wait().unwrap().place, 5);
    assert_eq!(raffle.status().ratio, 0.75);
    controls.check();
}

#[test]
fn two_admissions_are_independent() {
    let (one, other) =
        (Admission::open(InMemory, 1).unwrap(), Admission::open(InMemory, 1).unwrap());
    assert_eq!(one.apply(633, Limits::NONE).wait().unwrap().place, 1);
    assert_eq!(other.apply(633, Limits::NONE).wait().unwrap().place, 1);
}

#[test]
fn a_limit_moves_until_it_is_reached() {
    let (ledger, controls) = book();
    let raffle = Admission::open(ledger, 2).unwrap();
    raffle.apply(1, Limits::NONE).wait().unwrap();
    raffle.set_limit(3).unwrap();
    raffle.apply(2, Limits::NONE).wait().unwrap();
    assert!(!raffle.status().closed);
    // Lowered to what is in: closed, and no row goes.
    raffle.set_limit(1).unwrap();
    assert!(raffle.status().closed);
    assert!(raffle.set_limit(100).is_err());
    assert!(matches!(raffle.apply(3, Limits::NONE).wait(), Err(Refused::Closed { limit: 1 })));
    assert_eq!(controls.rows().len(), 2);
}

/// Those that applied before another limit are decided by the old one, and close by it.
#[test]
fn a_limit_is_for_those_that_come_after_it() {
    must_end(|| {
        let (ledger, controls) = book();
        let queue = DrainQueue::new();
        let raffle = Admission::builder(ledger, 2).executor(queue.handle()).open().unwrap();
        let all = [1, 2, 3].map(|id| raffle.apply(id, Limits::NONE));
        let set = thread::scope(|s| {
            let set = s.spawn(|| raffle.set_limit(5));
            until(|| raffle.status().waiting == 4);
            queue.run_until_idle();
            set.join().unwrap()
        });
        assert!(matches!(set, Err(Refused::Closed { limit: 2 })));
        let [one, two, three] = all.map(|apply| apply.wait());
        assert!(one.is_ok() && two.is_ok());
        assert!(matches!(three, Err(Refused::Closed { limit: 2 })));
        assert!(raffle.status().closed && controls.rows().len() == 2);
    });
}
