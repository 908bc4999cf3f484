//! The end of an admission, calls from inside it, and where it runs.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use turnwise::executor::DrainQueue;
use turnwise::{Actor, EndCause, Reason, StopCause, ThreadPool};
use turnwise_locks::Limits;
use turnwise_locks::admission::{Admission, Admitted, InMemory, Refused};

use super::book::{Book, Call, Controls, Entry, Fate, Raffle, book};
use crate::common::{must_end, until};

fn raffle(limit: u64) -> (Raffle, Controls, DrainQueue) {
    let (ledger, controls) = book();
    let queue = DrainQueue::new();
    let raffle = Admission::builder(ledger, limit)
        .group_time(Duration::MAX)
        .executor(queue.handle())
        .open()
        .unwrap();
    (raffle, controls, queue)
}

/// Stopped in the midst of a pass: what has begun is committed, what has not is refused.
#[test]
fn a_stop_commits_what_is_under_way() {
    let (raffle, controls, queue) = raffle(10);
    let stops = raffle.clone();
    controls.plan(move |call| {
        if call == Call::Enter(2) {
            stops.stop();
        }
        Fate::Good
    });
    let all = [1, 2, 3].map(|id| raffle.apply(id, Limits::NONE));
    queue.run_until_idle();
    let [one, two, three] = all.map(|apply| apply.wait());
    assert!(one.is_ok() && two.is_ok());
    let stopped = EndCause::Stopped(StopCause::Requested);
    assert!(matches!(three, Err(Refused::Gone(cause)) if cause == stopped));
    assert_eq!(controls.rows(), [(1, 1), (2, 2)]);
    let late = raffle.apply(4, Limits::NONE).wait();
    assert!(matches!(late, Err(Refused::Gone(EndCause::Stopped(_)))));
    assert!(matches!(raffle.set_limit(1), Err(Refused::Gone(_))));
    controls.check();
}

#[test]
fn a_shutdown_decides_those_that_wait() {
    let (raffle, controls, queue) = raffle(1);
    let all = [1, 2].map(|id| raffle.apply(id, Limits::NONE));
    assert_eq!(raffle.shutdown(Duration::ZERO), Ok(false));
    let late = raffle.apply(3, Limits::NONE).wait();
    assert!(matches!(late, Err(Refused::Gone(EndCause::Closed))));
    queue.run_until_idle();
    let [one, two] = all.map(|apply| apply.wait());
    assert!(one.is_ok() && matches!(two, Err(Refused::Closed { .. })));
    assert_eq!(raffle.shutdown(Duration::from_secs(60)), Ok(true));
    assert_eq!((raffle.status().count, controls.rows().len()), (1, 1));
}

#[test]
fn without_handles_those_that_wait_are_decided() {
    let (raffle, controls, queue) = raffle(10);
    let apply = raffle.apply(1, Limits::NONE);
    drop(raffle);
    queue.run_until_idle();
    assert!(apply.wait().is_ok());
    assert_eq!(controls.rows(), [(1, 1)]);
}

#[test]
fn an_executor_that_is_gone_answers_all() {
    let (raffle, _desk, queue) = raffle(10);
    let apply = raffle.apply(1, Limits::NONE);
    drop(queue);
    let gone = EndCause::Stopped(StopCause::ExecutorGone);
    assert!(matches!(apply.wait(), Err(Refused::Gone(cause)) if cause == gone));
}

/// The handle that a ledger has.
type Held = Arc<Mutex<Vec<Entry>>>;

#[test]
fn a_ledger_may_apply_and_must_not_wait() {
    must_end(|| {
        let (ledger, controls) = book();
        let raffle = Admission::open(ledger, 10).unwrap();
        let (inner, held, told) = (raffle.clone(), Held::default(), Arc::new(Mutex::new(None)));
        let (keeps, tells) = (held.clone(), told.clone());
        controls.plan(move |call| {
            if call == Call::Enter(1) {
                keeps.lock().unwrap().push(inner.apply(2, Limits::NONE));
                let waited = inner.apply(3, Limits::NONE).wait();
                let at_once = inner.apply(4, Limits::wait(Duration::ZERO)).wait();
                *tells.lock().unwrap() = Some((waited, at_once, inner.set_limit(1)));
            }
            Fate::Good
        });
        assert_eq!(raffle.apply(1, Limits::NONE).wait().unwrap().place, 1);
        let (waited, at_once, limit) = told.lock().unwrap().take().unwrap();
        assert!(matches!(waited, Err(Refused::Withdrawn(Reason::Deadlock(_)))));
        assert!(matches!(at_once, Err(Refused::Busy)));
        assert!(matches!(limit, Err(Refused::Withdrawn(Reason::Deadlock(_)))), "{limit:?}");
        let second = held.lock().unwrap().pop().unwrap();
        assert_eq!(second.wait().unwrap().place, 2);
        assert_eq!(controls.rows(), [(1, 1), (2, 2)]);
        controls.plan(|_| Fate::Good);
    });
}

/// A wait for its own pass, inside it, would never end: it is an error, and the entry stands.
#[test]
fn a_ledger_must_not_wait_for_its_pass() {
    must_end(|| {
        for at in [Call::Enter(2), Call::Commit] {
            let (raffle, controls, queue) = raffle(10);
            let (held, told) = (Held::default(), Arc::new(Mutex::new(None)));
            let (keeps, tells) = (held.clone(), told.clone());
            controls.plan(move |call| {
                if call == at {
                    let first = keeps.lock().unwrap().pop().unwrap();
                    *tells.lock().unwrap() = Some(first.wait());
                }
                Fate::Good
            });
            held.lock().unwrap().push(raffle.apply(1, Limits::NONE));
            let second = raffle.apply(2, Limits::NONE);
            queue.run_until_idle();
            assert!(second.wait().is_ok());
            let told = told.lock().unwrap().take().unwrap();
            assert!(matches!(told, Err(Refused::NotAwaited(Reason::Deadlock(_)))), "{told:?}");
            assert_eq!(controls.rows(), [(1, 1), (2, 2)]);
        }
    });
}

/// Inside a turn of another actor, the ledger runs after it, or elsewhere: waiting is allowed.
#[test]
fn a_turn_of_another_actor_may_wait() {
    must_end(|| {
        let (ledger, controls) = book();
        let raffle = Admission::open(ledger, 10).unwrap();
        let other = Actor::new(raffle);
        let told = other.call(|raffle| raffle.apply(1, Limits::NONE).wait().unwrap().place);
        assert_eq!(told.wait(), Ok(1));
        assert_eq!(controls.rows(), [(1, 1)]);
    });
}

/// Inside a turn of another actor, nothing is decided in the call.
#[test]
fn a_turn_of_another_actor_decides_nothing() {
    must_end(|| {
        let (ledger, controls) = book();
        let raffle = Admission::open(ledger, 10).unwrap();
        let (other, seen) = (Actor::new(raffle), controls.clone());
        let apply = other.call(move |raffle| {
            let apply = raffle.apply(1, Limits::NONE);
            assert!(!apply.is_ready() && seen.count(Call::Begin) == 0);
            apply
        });
        assert_eq!(apply.wait().unwrap().wait().unwrap().place, 1);
        assert_eq!(controls.rows(), [(1, 1)]);
    });
}

#[test]
fn a_pool_runs_it_for_many() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let (ledger, controls) = book();
        let raffle = Admission::builder(ledger, 400).executor(pool.handle()).open().unwrap();
        let told = thread::scope(|s| {
            let all: Vec<_> = (0..8_u64)
                .map(|thread| {
                    let raffle = &raffle;
                    let ids = move |n| 100 * thread + n;
                    let apply = move |n| raffle.apply(ids(n), Limits::NONE);
                    s.spawn(move || {
                        let all: Vec<_> = (0..100).map(apply).collect();
                        all.into_iter().filter_map(|apply| apply.wait().ok()).count()
                    })
                })
                .collect();
            all.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!((told, controls.rows().len()), (400, 400));
        assert!(raffle.status().closed);
        controls.check();
    });
}

/// Threads that apply, wait a little, or go, while others look: sent = in + refused + gone.
#[test]
fn who_goes_and_who_is_in_exclude_each_other() {
    must_end(|| {
        let (ledger, controls) = book();
        let raffle = Admission::open(ledger, 100_000).unwrap();
        let (told, late) = thread::scope(|s| {
            let all: Vec<_> = (0..4_u64)
                .map(|thread| {
                    let raffle = &raffle;
                    s.spawn(move || {
                        let (mut told, mut late) = (Vec::new(), Vec::new());
                        for n in 0..3_000 {
                            let id = 10_000 * thread + n;
                            let wait = Duration::from_nanos(1 + n % 40 * 500);
                            match raffle.apply(id, Limits::wait(wait)).wait() {
                                Ok(Admitted { place, .. }) => told.push((id, place)),
                                Err(Refused::TimedOut { .. }) => late.push(id),
                                Err(other) => panic!("{other}"),
                            }
                        }
                        (told, late)
                    })
                })
                .collect();
            let all = all.into_iter().map(|thread| thread.join().unwrap());
            all.reduce(|(mut told, mut late), (more, later)| {
                told.extend(more);
                late.extend(later);
                (told, late)
            })
            .unwrap()
        });
        assert_eq!(told.len() + late.len(), 12_000);
        let mut told = told;
        told.sort_by_key(|(_, place)| *place);
        assert_eq!(told, controls.rows());
        until(|| raffle.status().waiting == 0);
        controls.check();
    });
}

#[test]
fn it_can_be_shared_whatever_it_keeps() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Admission<u64, Book>>();
    sent::<Entry>();
    shared::<Refused<super::book::Trouble>>();
}

/// One that has lost its answer, and asks again, hears that it is in: also after the close, by each
/// way to the answer.
#[test]
fn who_is_in_hears_of_its_place_after_the_close() {
    let raffle = Admission::open(InMemory, 2).unwrap();
    for id in 1..=2 {
        assert_eq!(raffle.apply(id, Limits::NONE).wait().unwrap().place, id);
    }
    assert!(raffle.status().closed);
    let told = |id| match raffle.apply(id, Limits::NONE).wait() {
        Err(Refused::Duplicate { place }) => Some(place),
        Err(Refused::Closed { limit: 2 }) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!([1, 2, 3, 1].map(told), [Some(1), Some(2), None, Some(1)]);
    // In a turn, it takes a place in the queue.
    let asked = Actor::new(raffle.clone()).with(|raffle| raffle.apply(2, Limits::NONE)).unwrap();
    assert!(matches!(asked.wait(), Err(Refused::Duplicate { place: 2 })));
}

/// Those of one pass that fills it: the second application of one of them is a duplicate.
#[test]
fn who_is_in_hears_of_its_place_in_the_pass_that_closes() {
    let queue = DrainQueue::new();
    let raffle = Admission::builder(InMemory, 1).executor(queue.handle()).open().unwrap();
    let asked = [7, 7, 8].map(|id| raffle.apply(id, Limits::NONE));
    queue.run_until_idle();
    let [first, again, other] = asked.map(|asked| asked.wait());
    assert_eq!(first.unwrap().place, 1);
    assert!(matches!(again, Err(Refused::Duplicate { place: 1 })));
    assert!(matches!(other, Err(Refused::Closed { limit: 1 })));
}
