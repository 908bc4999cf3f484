//! Readers and writers.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use crate::common::{Wakes, must_end, poll};
use turnwise::VirtualClock;
use turnwise::time::Timers;
use turnwise_locks::{Limits, LockError, Owner, RwLocks};

const SECOND: Duration = Duration::from_secs(1);

fn by_hand() -> (VirtualClock, Timers, RwLocks<u32>) {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let locks = RwLocks::builder().timers(timers.clone()).build();
    (clock, timers, locks)
}

#[test]
fn readers_overlap_and_a_writer_is_alone() {
    must_end(|| {
        let (locks, all_in) = (RwLocks::new(), Barrier::new(32));
        let (inside, written) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for number in 0..32 {
                let (locks, all_in, inside, written) = (&locks, &all_in, &inside, &written);
                scope.spawn(move || {
                    let guard = locks.read(1).wait().unwrap();
                    inside.fetch_add(1, SeqCst);
                    // All of them are inside at once.
                    all_in.wait();
                    inside.fetch_sub(1, SeqCst);
                    drop(guard);
                    for round in 0..50 {
                        if (round + number) % 4 == 0 {
                            let _guard = locks.write(1).wait().unwrap();
                            assert_eq!(inside.fetch_add(100, SeqCst), 0);
                            written.fetch_add(1, SeqCst);
                            inside.fetch_sub(100, SeqCst);
                        } else {
                            let _guard = locks.read(1).wait().unwrap();
                            assert!(inside.fetch_add(1, SeqCst) < 32);
                            inside.fetch_sub(1, SeqCst);
                        }
                    }
                });
            }
        });
        assert!(written.into_inner() > 0);
        assert!(locks.is_empty());
    });
}

#[test]
fn runs_of_readers_come_in_together() {
    let locks = RwLocks::new();
    let holder = locks.write(1).wait().unwrap();
    let mut before: Vec<_> = (0..3).map(|_| locks.read(1)).collect();
    let mut writer = locks.write(1);
    let after: Vec<_> = (0..3).map(|_| locks.read(1)).collect();
    assert!(!holder.is_lost());
    drop(holder);
    assert!(before.iter().all(|read| read.is_ready()));
    assert!(!writer.is_ready() && after.iter().all(|read| !read.is_ready()));
    // One that waits overtakes neither, and one that tries does not, either.
    assert!(matches!(locks.try_read(1), Err(LockError::Busy { .. })));
    drop(before.pop());
    assert!(!writer.is_ready());
    drop(before);
    let writer = poll(&mut writer, Waker::noop()).unwrap().unwrap();
    assert!(after.iter().all(|read| !read.is_ready()));
    assert!(locks.info(&1).wait().unwrap().unwrap().exclusive);
    drop(writer);
    assert!(after.iter().all(|read| read.is_ready()));
    assert_eq!(locks.info(&1).wait().unwrap().unwrap().holders, 3);
}

#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    let (clock, _timers, locks) = by_hand();
    let reader = locks.read(1).wait().unwrap();
    let mut writer = locks.write_within(1, Limits::wait(SECOND));
    let behind: Vec<_> = (0..3).map(|_| locks.read(1)).collect();
    assert!(poll(&mut writer, Waker::noop()).is_none());
    clock.advance(SECOND);
    assert!(poll(&mut writer, Waker::noop()).unwrap().is_err());
    assert!(behind.iter().all(|read| read.is_ready()));
    drop(reader);
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    let locks = RwLocks::new();
    let writer = locks.write(1).wait().unwrap();
    let reading = locks.read(1);
    let writing = locks.write(1);
    let behind = locks.read(1);
    let fence = writer.fence();
    let reader = writer.downgrade();
    assert_eq!(reader.fence(), fence);
    assert!(reading.is_ready() && !writing.is_ready() && !behind.is_ready());
    drop(reader);
    assert!(!writing.is_ready());
    drop(reading);
    assert!(writing.is_ready() && !behind.is_ready());
    drop(writing);
    assert!(behind.wait().is_ok());
    assert!(locks.is_empty());
}

#[test]
fn an_owner_that_reads_does_not_write() {
    let (locks, me) = (RwLocks::new(), Owner::new());
    let reader = locks.read_as(&me, 1, Limits::NONE).wait().unwrap();
    for limits in [Limits::NONE, Limits::wait(Duration::ZERO), Limits::wait(SECOND)] {
        let refused = locks.write_as(&me, 1, limits).wait();
        assert!(matches!(refused, Err(LockError::Deadlock { .. })));
    }
    // One that is not its own waits for it.
    let writing = locks.write(1);
    assert!(locks.read_as(&me, 1, Limits::NONE).wait().is_ok());
    assert!(!writing.is_ready());
    drop(reader);
    assert!(writing.wait().is_ok());
}

#[test]
fn what_an_owner_asked_for_before_is_its_own() {
    let (locks, me) = (RwLocks::new(), Owner::new());
    let holder = locks.write(1).wait().unwrap();
    let reading = locks.read_as(&me, 1, Limits::NONE);
    let upgrade = locks.write_as(&me, 1, Limits::NONE);
    let again = locks.read_as(&me, 1, Limits::NONE);
    drop(holder);
    assert!(matches!(upgrade.wait(), Err(LockError::Deadlock { .. })));
    let (one, two) = (reading.wait().unwrap(), again.wait().unwrap());
    assert_eq!(one.fence(), two.fence());
    drop((one, two));
    assert!(locks.is_empty());
}

#[test]
fn a_writing_owner_reads_and_stops_writing() {
    let (locks, me) = (RwLocks::new(), Owner::new());
    let writer = locks.write_as(&me, 1, Limits::NONE).wait().unwrap();
    let reader = locks.read_as(&me, 1, Limits::NONE).wait().unwrap();
    let beside = locks.read(1);
    assert!(!beside.is_ready());
    drop(writer);
    assert!(beside.is_ready() && !locks.info(&1).wait().unwrap().unwrap().exclusive);
    drop(reader);
    assert!(matches!(locks.try_write(1), Err(LockError::Busy { .. })));
    drop(beside);
    assert!(locks.try_write(1).is_ok());
}

#[test]
fn force_takes_it_from_all_readers() {
    let locks = RwLocks::new();
    let readers: Vec<_> = (0..5).map(|_| locks.read(1).wait().unwrap()).collect();
    let writing = locks.write(1);
    assert!(locks.force_release(&1).wait().unwrap());
    let writer = writing.wait().unwrap();
    for reader in readers {
        assert!(reader.fence() < writer.fence());
        assert!(reader.release().wait().is_err());
    }
    let reader = writer.downgrade();
    assert!(locks.force_release(&1).wait().unwrap() && reader.is_lost());
    assert!(!locks.force_release(&1).wait().unwrap());
}

/// The waker of the first reader to lose it drops the guard of another one, inside that turn.
#[test]
fn a_reader_that_is_dropped_before_its_turn_is_not_lost() {
    let locks = RwLocks::new();
    let [first, second, third] = [1, 1, 1].map(|key| locks.read(key).wait().unwrap());
    let mut lost = [first.lost(), second.lost(), third.lost()];
    let guard = Mutex::new(Some(second));
    let wakes =
        [Wakes::calling(move || drop(guard.lock().unwrap().take())), Wakes::new(), Wakes::new()];
    for (lost, wakes) in lost.iter_mut().zip(&wakes) {
        assert!(poll(lost, &wakes.waker()).is_none());
    }
    assert!(locks.force_release(&1).wait().unwrap());
    assert_eq!(wakes.each_ref().map(Wakes::count), [1, 0, 1]);
    assert!(poll(&mut lost[1], &Wakes::new().waker()).is_none());
    assert!(first.is_lost() && third.is_lost());
    assert!(locks.try_write(1).is_ok());
}

#[test]
fn leases_of_readers_end_each_for_itself() {
    let (clock, timers, locks) = by_hand();
    let short = locks.read_within(1, Limits::NONE.lease(SECOND)).wait().unwrap();
    let long = locks.read_within(1, Limits::NONE.lease(2 * SECOND)).wait().unwrap();
    let writing = locks.write(1);
    clock.advance(SECOND);
    timers.run_due();
    assert!(short.is_lost() && !long.is_lost() && !writing.is_ready());
    clock.advance(SECOND);
    timers.run_due();
    let writer = writing.wait().unwrap();
    assert!(long.is_lost());
    // A downgrade of what was lost changes nothing for those that hold.
    assert!(locks.force_release(&1).wait().unwrap());
    let new = locks.write(1).wait().unwrap();
    drop(writer.downgrade());
    assert!(matches!(locks.try_read(1), Err(LockError::Busy { .. })));
    assert!(new.release().wait().is_ok());
}

#[test]
fn closed_it_tells_readers_and_writers() {
    let locks = RwLocks::new();
    let writer = locks.write(1).wait().unwrap();
    let (reading, writing) = (locks.read(1), locks.write(1));
    locks.close();
    assert_eq!(reading.wait().unwrap_err(), LockError::Closed);
    assert_eq!(writing.wait().unwrap_err(), LockError::Closed);
    assert_eq!(locks.try_read(2).unwrap_err(), LockError::Closed);
    assert!(writer.release().wait().is_ok());
}

#[test]
fn readers_and_writers_as_tasks() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (locks, inside) = (RwLocks::new(), Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        let task = |number: usize| {
            let (locks, inside) = (locks.clone(), inside.clone());
            tokio::spawn(async move {
                for round in 0..20 {
                    if (number + round) % 3 == 0 {
                        let _guard = locks.write(1).await.unwrap();
                        assert_eq!(inside.fetch_add(100, SeqCst), 0);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(100, SeqCst);
                    } else {
                        let _guard = locks.read(1).await.unwrap();
                        assert!(inside.fetch_add(1, SeqCst) < 100);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, SeqCst);
                    }
                }
            })
        };
        for task in (0..32).map(task).collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
    assert!(locks.is_empty());
}

#[test]
fn one_release_wakes_a_run_of_readers() {
    let locks = RwLocks::new();
    let writer = locks.write(1).wait().unwrap();
    let mut reading: Vec<_> = (0..10).map(|_| (locks.read(1), Wakes::new())).collect();
    let mut writing = locks.write(1);
    let wakes = Wakes::new();
    for (read, wakes) in &mut reading {
        assert!(poll(read, &wakes.waker()).is_none());
    }
    assert!(poll(&mut writing, &wakes.waker()).is_none());
    drop(writer);
    assert!(reading.iter().all(|(_, wakes)| wakes.count() == 1));
    assert_eq!(wakes.count(), 0);
    drop(reading);
    assert_eq!(wakes.count(), 1);
}
