//! The monitor of a pool: RING.

use std::time::Duration;

use super::*;
use crate::alarm::Alarm;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::reached;

/// A pool: its alarm, and the word that says that it is busy, by relaxed operations as the pool's.
#[derive(Default)]
struct Pool {
    alarm: Alarm,
    busy: AtomicU64,
}

impl Pool {
    fn work(&self) {
        self.busy.fetch_add(1, Relaxed);
        self.alarm.ring();
    }

    /// Sleeps as long as the pool has had so little to do.
    fn watch(&self, known: u64) {
        let mut stayed = false;
        self.alarm.sleep_unless(|| {
            stayed = self.busy.load(Relaxed) > known;
            stayed
        });
        reached(if stayed { "stayed awake" } else { "slept" });
    }
}

/// RING: the pool becomes busy while the monitor lies down: one of them sees the other.
pub(super) fn alarm_rings() {
    let pool = Rc::new(Pool::default());
    run([with(&pool, |pool| pool.watch(0)), with(&pool, Pool::work)]);
}

/// RING: two workers, and a monitor that sleeps until it has seen both.
pub(super) fn alarm_rings_twice() {
    let pool = Rc::new(Pool::default());
    run([
        with(&pool, |pool| {
            while pool.busy.load(Relaxed) < 2 {
                pool.watch(1);
            }
        }),
        with(&pool, Pool::work),
        with(&pool, Pool::work),
    ]);
}

/// RING: the pool ends while the monitor lies down, or pauses.
pub(super) fn alarm_ends() {
    let pool = Rc::new(Pool::default());
    run([
        with(&pool, |pool| {
            pool.alarm.sleep_for(Duration::ZERO, || pool.busy.load(Relaxed) > 0);
            pool.watch(0);
        }),
        with(&pool, |pool| {
            pool.busy.fetch_add(1, Relaxed);
            pool.alarm.end();
        }),
    ]);
}
