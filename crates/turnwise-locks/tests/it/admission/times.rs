//! Limits, and those who go: in time, too late, and in the midst of it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{Clock, VirtualClock};
use turnwise_locks::Limits;
use turnwise_locks::admission::{Admission, Refused};

use super::book::{Call, Controls, Fate, Raffle, book};
use crate::common::{Wakes, must_end, poll, until};

const MS: Duration = Duration::from_millis(1);

struct Setting {
    raffle: Raffle,
    controls: Controls,
    queue: DrainQueue,
    clock: VirtualClock,
    timers: Timers,
}

fn setting(limit: u64) -> Setting {
    let (ledger, controls) = book();
    let (queue, clock) = (DrainQueue::new(), VirtualClock::new());
    let timers = Timers::by_hand(clock.clone());
    let raffle = Admission::builder(ledger, limit)
        .group_time(Duration::MAX)
        .executor(queue.handle())
        .timers(timers.clone())
        .open()
        .unwrap();
    Setting { raffle, controls, queue, clock, timers }
}

/// 100 threads, an entry takes 66.7 ms, each waits so long: how many are in. All are answered.
fn a_hundred(wait: Duration) -> usize {
    let Setting { raffle, controls, queue, clock, .. } = setting(100);
    let service = clock.clone();
    controls.plan(move |call| {
        if let Call::Enter(_) = call {
            service.advance(Duration::from_micros(66_700));
        }
        Fate::Good
    });
    let entrants: Vec<_> = (0..100)
        .map(|id| {
            let raffle = raffle.clone();
            thread::spawn(move || raffle.apply(id, Limits::wait(wait)).wait())
        })
        .collect();
    until(|| raffle.status().waiting == 100);
    queue.run_until_idle();
    let told: Vec<_> = entrants.into_iter().map(|entrant| entrant.join().unwrap()).collect();
    for told in &told {
        match told {
            Ok(_) => {}
            Err(Refused::TimedOut { waited }) => assert!(*waited >= wait),
            Err(other) => panic!("{other}"),
        }
    }
    let entered = told.iter().filter(|told| told.is_ok()).count();
    assert_eq!(entered, controls.rows().len());
    assert_eq!(entered as u64, raffle.status().count);
    controls.check();
    entered
}

#[test]
fn seventy_five_in_five_seconds() {
    must_end(|| {
        let entered = a_hundred(Duration::from_secs(5));
        assert!((74..=76).contains(&entered), "{entered}");
    });
}

#[test]
fn all_hundred_in_ten_seconds() {
    must_end(|| assert_eq!(a_hundred(Duration::from_secs(10)), 100));
}

#[test]
fn whose_turn_comes_too_late_is_not_entered() {
    let Setting { raffle, controls, queue, clock, .. } = setting(10);
    let late = raffle.apply(1, Limits::wait(5 * MS));
    let good = raffle.apply(2, Limits::wait(50 * MS));
    clock.advance(7 * MS);
    queue.run_until_idle();
    assert!(matches!(late.wait(), Err(Refused::TimedOut { waited }) if waited == 7 * MS));
    assert_eq!(good.wait().unwrap().place, 1);
    assert_eq!(controls.rows(), [(2, 1)]);
}

/// Once its turn has begun in time, an applicant gets the true answer, however long that takes.
#[test]
fn what_has_begun_is_waited_for() {
    for at in [Call::Enter(1), Call::Commit] {
        let Setting { raffle, controls, queue, clock, .. } = setting(10);
        let slow = clock.clone();
        controls.plan(move |call| {
            if call == at {
                slow.advance(60 * MS);
            }
            Fate::Good
        });
        let entrant = {
            let raffle = raffle.clone();
            thread::spawn(move || raffle.apply(1, Limits::wait(5 * MS)).wait())
        };
        until(|| raffle.status().waiting == 1);
        clock.wait_for_sleepers(1);
        queue.run_until_idle();
        assert_eq!(entrant.join().unwrap().unwrap().place, 1);
        assert_eq!(controls.rows(), [(1, 1)]);
    }
}

#[test]
fn who_gives_up_in_time_is_not_entered() {
    must_end(|| {
        let Setting { raffle, controls, queue, clock, .. } = setting(10);
        let entrant = {
            let raffle = raffle.clone();
            thread::spawn(move || raffle.apply(1, Limits::wait(5 * MS)).wait())
        };
        until(|| raffle.status().waiting == 1);
        clock.wait_for_sleepers(1);
        clock.advance(5 * MS);
        let told = entrant.join().unwrap();
        assert!(matches!(told, Err(Refused::TimedOut { waited }) if waited == 5 * MS));
        queue.run_until_idle();
        assert!(controls.rows().is_empty() && controls.count(Call::Begin) == 0);
    });
}

/// Dropped before its turn: never entered. Dropped in it or in the commit: the entry stands.
#[test]
fn a_drop_at_each_stage() {
    must_end(|| {
        for at in [None, Some(Call::Enter(1)), Some(Call::Commit)] {
            let Setting { raffle, controls, queue, .. } = setting(10);
            let (inside, entered) = mpsc::channel();
            let (leave, left) = mpsc::channel::<()>();
            controls.plan(move |call| {
                if at == Some(call) {
                    inside.send(()).unwrap();
                    left.recv().unwrap();
                }
                Fate::Good
            });
            let apply = raffle.apply(1, Limits::NONE);
            if at.is_none() {
                drop(apply);
                queue.run_until_idle();
                assert!(controls.rows().is_empty() && controls.count(Call::Begin) == 0);
                continue;
            }
            thread::scope(|s| {
                let run = s.spawn(|| {
                    queue.run_until_idle();
                });
                entered.recv().unwrap();
                assert!(!apply.is_ready());
                drop(apply);
                leave.send(()).unwrap();
                run.join().unwrap();
            });
            assert_eq!(controls.rows(), [(1, 1)]);
            assert_eq!(raffle.status().count, 1);
            controls.check();
        }
    });
}

#[test]
fn nobody_is_told_before_the_commit() {
    must_end(|| {
        let Setting { raffle, controls, queue, .. } = setting(1);
        let (inside, committing) = mpsc::channel();
        let (go_on, told) = mpsc::channel::<()>();
        controls.plan(move |call| {
            if call == Call::Commit {
                inside.send(()).unwrap();
                told.recv().unwrap();
            }
            Fate::Good
        });
        // In, a second time, and no place: all of them by a row that is not committed.
        let all = [1, 1, 2].map(|id| raffle.apply(id, Limits::NONE));
        thread::scope(|s| {
            let run = s.spawn(|| {
                queue.run_until_idle();
            });
            committing.recv().unwrap();
            assert!(all.iter().all(|apply| !apply.is_ready()));
            assert_eq!((raffle.status().count, raffle.status().closed), (0, false));
            go_on.send(()).unwrap();
            run.join().unwrap();
        });
        let [first, second, third] = all.map(|apply| apply.wait());
        assert!(first.is_ok());
        assert!(matches!(second, Err(Refused::Duplicate { place: 1 })));
        assert!(matches!(third, Err(Refused::Closed { limit: 1 })));
    });
}

#[test]
fn a_task_is_woken_once_with_its_answer() {
    let Setting { raffle, queue, .. } = setting(10);
    let wakes = Wakes::new();
    let mut apply = raffle.apply(1, Limits::NONE);
    assert!(poll(&mut apply, &wakes.waker()).is_none());
    queue.run_until_idle();
    assert_eq!(wakes.count(), 1);
    assert_eq!(poll(&mut apply, &wakes.waker()).unwrap().unwrap().place, 1);
    assert!(matches!(poll(&mut apply, &wakes.waker()), Some(Err(Refused::Taken))));
}

#[test]
fn a_task_is_woken_at_its_limit() {
    let Setting { raffle, controls, queue, clock, timers } = setting(10);
    let wakes = Wakes::new();
    let mut apply = raffle.apply(1, Limits::wait(5 * MS));
    assert!(poll(&mut apply, &wakes.waker()).is_none());
    clock.advance(5 * MS);
    timers.run_due();
    assert_eq!(wakes.count(), 1);
    let told = poll(&mut apply, &wakes.waker()).unwrap();
    assert!(matches!(told, Err(Refused::TimedOut { .. })));
    queue.run_until_idle();
    assert!(controls.rows().is_empty());
    assert!(timers.is_empty());
}

#[test]
fn a_wait_keeps_the_place() {
    let Setting { raffle, queue, .. } = setting(10);
    let mut apply = raffle.apply(1, Limits::wait(Duration::from_secs(60)));
    assert!(apply.wait_timeout(Duration::ZERO).is_none());
    queue.run_until_idle();
    assert_eq!(apply.wait_timeout(Duration::ZERO).unwrap().unwrap().place, 1);
    assert!(matches!(apply.wait(), Err(Refused::Taken)));
}

#[test]
fn no_wait_is_refused_if_its_turn_does_not_come() {
    let Setting { raffle, queue, clock, controls, .. } = setting(10);
    let late = raffle.apply(1, Limits::wait(Duration::ZERO));
    clock.advance(MS);
    assert!(matches!(late.wait(), Err(Refused::Busy)));
    queue.run_until_idle();
    assert!(controls.rows().is_empty());
}

#[test]
fn no_wait_is_refused_behind_others() {
    let Setting { raffle, queue, .. } = setting(10);
    let first = raffle.apply(1, Limits::wait(Duration::ZERO));
    let second = raffle.apply(2, Limits::wait(Duration::ZERO));
    assert!(second.is_ready());
    assert!(matches!(second.wait(), Err(Refused::Busy)));
    queue.run_until_idle();
    assert!(first.wait().is_ok());
}

#[test]
fn a_lease_is_refused() {
    let Setting { raffle, .. } = setting(10);
    let told = raffle.apply(1, Limits::NONE.lease(MS)).wait();
    assert!(matches!(told, Err(Refused::HasLease)));
    assert!(raffle.status().waiting == 0);
}

#[test]
fn a_turn_that_is_not_to_be_expected() {
    let Setting { raffle, controls, queue, clock, .. } = setting(1_000);
    let slow = clock.clone();
    controls.plan(move |call| {
        match call {
            Call::Enter(_) => slow.advance(10 * MS),
            Call::Commit => slow.advance(100 * MS),
            _ => {}
        }
        Fate::Good
    });
    let early = |wait| Limits::wait(wait).refuse_early();
    // Nothing is known: none is refused. From now on it is measured.
    let mut waiting: Vec<_> = (0..10).map(|id| raffle.apply(id, early(9_000 * MS))).collect();
    queue.run_until_idle();
    waiting.clear();
    let known: Vec<_> = (100..104).map(|id| raffle.apply(id, Limits::NONE)).collect();
    queue.run_until_idle();
    drop(known);
    // None is before it.
    let free = raffle.apply(200, early(MS));
    // One entry and one commit are.
    let told = raffle.apply(201, early(109 * MS)).wait_timeout(Duration::ZERO).unwrap();
    assert!(matches!(told, Err(Refused::Expected { wait }) if wait == 110 * MS), "{told:?}");
    let second = raffle.apply(202, early(110 * MS));
    queue.run_until_idle();
    assert!(free.wait().is_ok());
    assert!(second.wait().is_ok());
    assert_eq!(controls.count(Call::Enter(201)), 0);
}

/// A clock that panics has no limits, and does no harm.
#[test]
fn a_clock_that_panics_is_no_limit() {
    #[derive(Debug)]
    struct Broken;
    impl Clock for Broken {
        fn now(&self) -> Duration {
            panic!("no time")
        }
    }
    let (ledger, controls) = book();
    let raffle = Admission::builder(ledger, 2).clock(Broken).open().unwrap();
    assert_eq!(raffle.apply(1, Limits::wait(MS)).wait().unwrap().place, 1);
    assert_eq!(raffle.apply(2, Limits::wait(MS).refuse_early()).wait().unwrap().place, 2);
    controls.check();
}

/// A clock that panics once shows its last time: a task is woken at its limit all the same.
#[test]
fn a_clock_that_panics_once_changes_no_limit() {
    #[derive(Debug)]
    struct Stumbles(VirtualClock, Arc<AtomicBool>);
    impl Clock for Stumbles {
        fn now(&self) -> Duration {
            if self.1.swap(false, SeqCst) {
                std::panic::resume_unwind(Box::new("no time"));
            }
            self.0.now()
        }
    }
    let (clock, stumbles) = (VirtualClock::new(), Arc::new(AtomicBool::new(false)));
    let timers = Timers::by_hand(Stumbles(clock.clone(), stumbles.clone()));
    let (queue, (ledger, _)) = (DrainQueue::new(), book());
    let raffle = Admission::builder(ledger, 1).executor(queue.handle()).timers(timers.clone());
    let raffle = raffle.open().unwrap();
    clock.advance(Duration::from_secs(3600));
    let mut ada = raffle.apply(1, Limits::wait(10 * MS));
    let wakes = Wakes::new();
    stumbles.store(true, SeqCst);
    assert!(poll(&mut ada, &wakes.waker()).is_none());
    assert!(!stumbles.load(SeqCst), "the poll has looked");
    clock.advance(10 * MS);
    timers.run_due();
    assert_eq!(wakes.count(), 1);
    // It has waited for so long by the last time that the clock showed.
    stumbles.store(true, SeqCst);
    let late = poll(&mut ada, &wakes.waker());
    assert!(matches!(late, Some(Err(Refused::TimedOut { waited })) if waited <= 10 * MS));
    queue.run_until_idle();
    assert_eq!(raffle.status().count, 0);
}

/// Entries that are slow are not committed all together: those that are in learn of it.
#[test]
fn a_pass_is_no_longer_than_it_may_be() {
    let (ledger, controls) = book();
    let (queue, clock) = (DrainQueue::new(), VirtualClock::new());
    let raffle = Admission::builder(ledger, 100).group_time(30 * MS).clock(clock.clone());
    let raffle = raffle.executor(queue.handle()).open().unwrap();
    let slow = clock.clone();
    controls.plan(move |call| {
        if let Call::Enter(_) = call {
            slow.advance(10 * MS);
        }
        Fate::Good
    });
    let all: Vec<_> = (0..10).map(|id| raffle.apply(id, Limits::NONE)).collect();
    queue.run_until_idle();
    assert_eq!(controls.disk().commits, [3, 3, 3, 1]);
    assert!(all.iter().all(|apply| apply.is_ready()));
    controls.check();
}
