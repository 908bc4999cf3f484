//! Contenders whose clocks differ, by a clock that the test moves.

use std::time::Duration;

use turnwise::VirtualClock;
use turnwise_redis::{Attendance, MemoryStore, Remote};

const HOUR: Duration = Duration::from_secs(3600);
const EARLY: Duration = Duration::from_millis(80);

fn runs(remote: &Remote) -> bool {
    let job = remote.ticks().job("backup", HOUR).unwrap();
    match job.attend().wait().unwrap() {
        Attendance::Mine(_) => true,
        Attendance::Taken { .. } => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn once_runs_once_although_cron_is_early_on_one_machine() {
    let clock = VirtualClock::new();
    let remote = Remote::builder().over(MemoryStore::by(clock.clone())).unwrap();
    clock.advance(HOUR * 100 - EARLY);
    for hour in 0..6 {
        // The machine that is early is down in some hours, or the other one, or none.
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
    assert!(runs(&remote));
    let job = remote.ticks().job("backup", HOUR).unwrap();
    for (passed, left) in [(Duration::ZERO, HOUR + EARLY), (EARLY * 2, HOUR - EARLY)] {
        clock.advance(passed);
        match job.attend().wait().unwrap() {
            Attendance::Taken { next } => assert_eq!(next, left),
            other => panic!("{other:?}"),
        }
    }
}
