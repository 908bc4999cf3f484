//! The sleep protocol of a pool: NEED and END. Work is a number, put and taken by relaxed
//! operations: nothing but the protocol's own fences keeps a look from missing it.

use std::cell::Cell;

use super::*;
use crate::alarm::Alarm;
use crate::idle::{Idle, Woken};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::reached;
use crate::sync::thread::prepare;

struct Pool {
    idle: Idle,
    work: AtomicU64,
    /// The rest is not of the program.
    taken: Cell<u32>,
    woken: Cell<u32>,
}

impl Pool {
    fn new(workers: usize) -> Rc<Pool> {
        prepare();
        let work = AtomicU64::new(0);
        Rc::new(Pool { idle: Idle::new(workers), work, taken: Cell::new(0), woken: Cell::new(0) })
    }

    fn put(&self) {
        self.work.fetch_add(1, Relaxed);
    }

    fn announce(&self) {
        self.put();
        let _ = self.idle.announce();
    }

    fn take(&self) -> bool {
        let taken = self.work.fetch_update(Relaxed, Relaxed, |work| work.checked_sub(1)).is_ok();
        self.taken.set(self.taken.get() + u32::from(taken));
        taken
    }

    fn has_work(&self) -> bool {
        self.work.load(Relaxed) > 0
    }

    /// Runs a worker. With `once`, it is not seen again after its first turn, which may block for
    /// ever.
    fn run(&self, worker: usize, once: bool) {
        let mut searching = false;
        loop {
            searching = searching || self.idle.start_search();
            if self.take() {
                if std::mem::take(&mut searching) {
                    self.idle.found(|| self.has_work());
                }
                if once {
                    return;
                }
                continue;
            }
            match self.rest(worker, std::mem::take(&mut searching)) {
                Woken::Search => searching = true,
                Woken::End => {
                    self.idle.end();
                    return;
                }
            }
        }
    }

    fn rest(&self, worker: usize, searching: bool) -> Woken {
        let looked = Cell::new(false);
        let woken = self.idle.sleep(worker, searching, || {
            looked.set(self.has_work());
            looked.get()
        });
        if looked.get() {
            reached("looked");
        } else if woken == Woken::Search {
            self.woken.set(self.woken.get() + 1);
            reached("slept");
        }
        woken
    }
}

/// NEED: one worker, one piece of work, announced once. It is done, whenever the worker goes to
/// sleep.
pub(super) fn idle_one_wake_up() {
    let pool = Pool::new(1);
    run([with(&pool, |pool| pool.run(0, true)), with(&pool, Pool::announce)]);
    assert!(pool.woken.get() <= 1);
}

/// NEED at `found`: the only searcher finds work while more comes, and another worker lies down:
/// that one does it, for the searcher's own may take for ever.
pub(super) fn idle_next_is_woken() {
    let pool = Pool::new(2);
    pool.put();
    assert!(pool.idle.start_search());
    run([
        with(&pool, |pool| {
            let mut searching = true;
            while !pool.take() {
                searching = pool.rest(0, searching) == Woken::Search;
            }
            if searching {
                pool.idle.found(|| pool.has_work());
            }
        }),
        with(&pool, |pool| {
            while !pool.take() {
                let _ = pool.rest(1, false);
            }
        }),
        with(&pool, Pool::announce),
    ]);
    assert_eq!(pool.taken.get(), 2);
}

/// NEED: one worker, two announcers.
pub(super) fn idle_two_announcers() {
    let pool = Pool::new(1);
    run([
        with(&pool, |pool| {
            pool.run(0, true);
            pool.run(0, true);
        }),
        with(&pool, Pool::announce),
        with(&pool, Pool::announce),
    ]);
    assert_eq!(pool.taken.get(), 2);
}

/// NEED: two workers that lie down, one piece of work: one of them does it, and ends the other.
pub(super) fn idle_two_workers() {
    let pool = Pool::new(2);
    let work = |worker: usize| {
        with(&pool, move |pool: &Pool| {
            while !pool.take() {
                if pool.rest(worker, false) == Woken::End {
                    return;
                }
            }
            pool.idle.end();
        })
    };
    run([work(0), work(1), with(&pool, Pool::announce)]);
    assert_eq!(pool.taken.get(), 1);
}

/// END: work announced before the pool was closed is done before it ends.
pub(super) fn idle_closed_with_work() {
    let pool = Pool::new(1);
    run([
        with(&pool, |pool| pool.run(0, false)),
        with(&pool, |pool| {
            pool.announce();
            pool.idle.close();
        }),
    ]);
    assert_eq!(pool.taken.get(), 1);
}

/// END: a pool does not end while a thread is away that may still add work.
pub(super) fn idle_away() {
    let pool = Pool::new(1);
    pool.idle.leave();
    run([
        with(&pool, |pool| pool.run(0, false)),
        with(&pool, |pool| {
            pool.idle.close();
            pool.put();
            assert!(!pool.idle.announce().is_ended());
            pool.idle.come_back();
        }),
    ]);
    assert_eq!(pool.taken.get(), 1);
}

/// END: work that arrives while the pool is being ended is found by its sender, or by the thread
/// that ended it.
pub(super) fn idle_ended_against_work() {
    let pool = Pool::new(1);
    run([
        with(&pool, |pool| {
            pool.put();
            if pool.idle.announce().is_ended() && pool.take() {
                reached("swept by its sender");
            }
        }),
        with(&pool, |pool| {
            pool.idle.end();
            // A plain load, as a queue's `is_empty`.
            if pool.has_work() && pool.take() {
                reached("swept by the ender");
            }
        }),
    ]);
    assert_eq!(pool.taken.get(), 1, "work is left that no thread looks for");
}

/// RING, with the pool's word: a worker that was woken by another thread rings, and the monitor
/// does not sleep while it is up.
pub(super) fn idle_rings_the_alarm() {
    let pool = Pool::new(1);
    let alarm = Rc::new(Alarm::default());
    let theirs = alarm.clone();
    run([
        with(&pool, move |pool| {
            while !pool.take() {
                let _ = pool.rest(0, false);
                theirs.ring();
            }
        }),
        with(&pool, Pool::announce),
        with(&pool, move |pool| {
            let is_asleep = || pool.idle.look().sleepers() == 1;
            // It comes when all have slept.
            if is_asleep() {
                alarm.sleep_unless(|| !is_asleep());
                reached("slept");
            }
        }),
    ]);
}
