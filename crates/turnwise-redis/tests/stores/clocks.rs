//! Contenders whose clocks differ, with a clock that the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use crate::support::abandon_job;
use turnwise::VirtualClock;
use turnwise_redis::ticks::NotMine;
use turnwise_redis::{Limits, MemoryStore, Remote};

const HOUR: Duration = Duration::from_secs(3600);
const EARLY: Duration = Duration::from_millis(80);

fn runs(remote: &Remote) -> bool {
    let job = remote.ticks().job("backup", HOUR).unwrap();
    match job.take().wait() {
        Ok(_) => true,
        Err(NotMine::Taken { .. }) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn once_runs_once_although_cron_is_early_on_one_machine() {
    let clock = VirtualClock::new();
    let remote = Remote::builder().over(MemoryStore::by(clock.clone())).unwrap();
    clock.advance(HOUR * 100 - EARLY);
    for hour in 0..6 {
        // In some hours the early machine is down, or the other one, or none.
        let [early, late] = [hour % 3 != 1, hour % 3 != 2];
        let mut ran = 0;
        ran += usize::from(early && runs(&remote));
        clock.advance(EARLY * 2);
        ran += usize::from(late && runs(&remote));
        assert_eq!(ran, 1, "hour {hour}");
        clock.advance(HOUR - EARLY * 2);
    }
}

#[test]
fn next_is_when_a_tick_begins() {
    let clock = VirtualClock::new();
    let remote = Remote::builder().over(MemoryStore::by(clock.clone())).unwrap();
    clock.advance(HOUR * 100 - EARLY);
    let job = remote.ticks().job("backup", HOUR).unwrap();
    let taken = job.take().wait().unwrap().tick();
    for (passed, left) in [(Duration::ZERO, HOUR + EARLY), (EARLY * 2, HOUR - EARLY)] {
        clock.advance(passed);
        match job.take().wait() {
            Err(NotMine::Taken { tick, next }) => assert_eq!((tick, next), (taken, left)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_store_in_memory_forgets_what_nobody_uses() {
    let clock = VirtualClock::new();
    let store = MemoryStore::by(clock.clone());
    let remote = Remote::builder().over(store.clone()).unwrap();
    let locks = remote.locks();
    let limits = Limits::wait(EARLY).lease(HOUR * 24);
    let held = locks.lock_within("held", limits).wait().unwrap();
    let mut last = held.fence();
    for number in 0..500 {
        let guard = locks.lock(format!("order {number}")).wait().unwrap();
        last = guard.fence();
        guard.release().wait().unwrap();
    }
    clock.advance(HOUR);
    for _ in 0..600 {
        assert!(locks.try_lock("held").wait().is_err());
    }
    assert_eq!(format!("{store:?}"), "MemoryStore { records: 1, .. }");
    assert!(!held.is_lost());
    // Fences go on above what is forgotten.
    assert!(locks.lock("order 499").wait().unwrap().fence() > last);
}

/// A place is dirty until the next job there, also if that comes long after the record of a place
/// that is clean would be forgotten.
#[test]
fn places_stay_dirty_until_the_next_job() {
    let clock = VirtualClock::new();
    let remote = Remote::builder().over(MemoryStore::by(clock.clone())).unwrap();
    let cleaned = Arc::new(AtomicU32::new(0));
    let counts = cleaned.clone();
    let pool = remote.slot_pool("boxes", 2).clean_up(move |_, _| {
        counts.fetch_add(1, SeqCst);
        Ok(())
    });
    let pool = pool.build().unwrap();
    abandon_job(&pool);
    clock.advance(HOUR * 24);
    assert_eq!(cleaned.load(SeqCst), 0);
    assert!(pool.run(Limits::NONE, |_| assert_eq!(cleaned.load(SeqCst), 1)).is_ok());
    assert_eq!(cleaned.load(SeqCst), 2);
}
