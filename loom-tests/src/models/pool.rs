//! The pool's protocol: sleeping workers, wake-ups, the end. Work is a number, put and taken by
//! relaxed operations, so that nothing but the protocol's own fences keeps a look from missing it.

use std::ptr::null_mut;

use super::super::pool::idle::{Idle, Woken};
use super::super::pool::lifo_slot::LifoSlot;
use super::*;
use crate::sync::reached;
use crate::sync::thread::{current, park};

/// A pool of workers without queues.
struct Pool {
    idle: Idle,
    work: crate::sync::atomic::AtomicU32,
    taken: AtomicU32,
    /// The workers that another thread has taken out of the list.
    woken: AtomicU32,
}

// SAFETY: loom's threads are coroutines of one thread, and what is shared is checked by it.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

impl Pool {
    fn new(workers: usize) -> Arc<Pool> {
        let work = crate::sync::atomic::AtomicU32::new(0);
        Arc::new(Pool {
            idle: Idle::new(workers),
            work,
            taken: AtomicU32::new(0),
            woken: AtomicU32::new(0),
        })
    }

    fn put(&self) {
        self.work.fetch_add(1, Relaxed);
    }

    fn take(&self) -> bool {
        let taken = self.work.fetch_update(Relaxed, Relaxed, |work| work.checked_sub(1)).is_ok();
        if taken {
            add(&self.taken);
        }
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
        let looked = std::cell::Cell::new(false);
        let woken = self.idle.sleep(worker, searching, || {
            looked.set(self.has_work());
            looked.get()
        });
        if looked.get() {
            reached("looked");
        } else if woken == Woken::Search {
            add(&self.woken);
            reached("slept");
        }
        woken
    }
}

/// NEED: one worker, one piece of work, announced once. It is done, whenever the worker goes to
/// sleep.
pub(super) fn pool_one_wake_up() {
    let pool = Pool::new(1);
    let theirs = pool.clone();
    let worker = spawn(move || theirs.run(0, true));
    pool.put();
    let _ = pool.idle.announce();
    // It would sleep for ever.
    worker.join();
    assert!(pool.woken.load(Relaxed) <= 1);
}

/// END: work announced before the pool was closed is done before it ends, by whichever worker.
pub(super) fn pool_closed_with_work() {
    let pool = Pool::new(1);
    let theirs = pool.clone();
    let worker = spawn(move || theirs.run(0, false));
    pool.put();
    let _ = pool.idle.announce();
    pool.idle.close();
    worker.join();
    assert_eq!(pool.taken.load(Relaxed), 1);
}

/// IDLE-2: two needs at a time wake one of two workers, while that one has not found its work.
pub(super) fn pool_two_announcers() {
    let pool = Pool::new(2);
    let listed = Arc::new(AtomicU32::new(0));
    let main = current();
    let workers = [0, 1].map(|worker| {
        let (pool, listed, main) = (pool.clone(), listed.clone(), main.clone());
        spawn(move || {
            // A look comes after the list. Once awake it stays a searcher: no other is to be woken
            // beside it.
            pool.idle.sleep(worker, false, || {
                if listed.fetch_add(1, Relaxed) == 1 {
                    main.unpark();
                }
                false
            });
        })
    });
    park();
    let theirs = pool.clone();
    let second = spawn(move || {
        let _ = theirs.idle.announce();
    });
    let _ = pool.idle.announce();
    second.join();
    let woken = pool.idle.look().searchers();
    assert!(woken <= 1, "woken twice for one need");
    if woken == 1 {
        reached("woken");
    }
    pool.idle.end();
    workers.into_iter().for_each(Joiner::join);
}

/// NEED at `found`: two workers, two pieces of work, and each can do one: the second worker must be
/// woken too.
pub(super) fn pool_next_is_woken() {
    let pool = Pool::new(2);
    let workers = [0, 1].map(|worker| {
        let pool = pool.clone();
        spawn(move || pool.run(worker, true))
    });
    pool.put();
    let _ = pool.idle.announce();
    pool.put();
    let _ = pool.idle.announce();
    // One of them would sleep for ever.
    workers.into_iter().for_each(Joiner::join);
    if pool.woken.load(Relaxed) == 2 {
        reached("both woken");
    }
}

/// IDLE-2: one piece of work wakes one worker, also when it is found.
pub(super) fn pool_woken_for_nothing() {
    let pool = Pool::new(2);
    let workers = [0, 1].map(|worker| {
        let pool = pool.clone();
        spawn(move || {
            pool.run(worker, true);
            pool.idle.end();
        })
    });
    pool.put();
    let _ = pool.idle.announce();
    workers.into_iter().for_each(Joiner::join);
    assert!(pool.woken.load(Relaxed) <= 1, "woken for nothing");
}

/// END: a pool does not end while a thread is away that may still add work.
pub(super) fn pool_away() {
    let pool = Pool::new(1);
    pool.idle.leave();
    let theirs = pool.clone();
    let worker = spawn(move || theirs.run(0, false));
    pool.idle.close();
    pool.put();
    assert!(!pool.idle.announce().is_ended());
    pool.idle.come_back();
    worker.join();
    assert_eq!(pool.taken.load(Relaxed), 1);
}

/// END: work that arrives while the pool is being ended is found by its sender, or by the thread
/// that ended it.
pub(super) fn pool_ended_against_work() {
    let pool = Pool::new(1);
    let theirs = pool.clone();
    let sender = spawn(move || {
        theirs.put();
        if theirs.idle.announce().is_ended() && theirs.take() {
            reached("swept by its sender");
        }
    });
    pool.idle.end();
    // A plain load, as a queue's `is_empty`.
    if pool.has_work() && pool.take() {
        reached("swept by the ender");
    }
    sender.join();
    assert_eq!(pool.taken.load(Relaxed), 1, "work is left that no worker looks for");
}

/// Returns an object for a slot.
fn thing(n: u32) -> *mut Written {
    let thing = Box::new(Written(UnsafeCell::new(0)));
    (0..n).for_each(|_| thing.write());
    Box::into_raw(thing)
}

/// Opens an object from a slot, once, and returns its number.
fn open(thing: *mut Written) -> u32 {
    if thing.is_null() {
        return 0;
    }
    // SAFETY: the slot gives each object out once: otherwise loom sees a race, or the count is
    // wrong.
    unsafe { Box::from_raw(thing) }.read()
}

/// SLOT: its worker puts, replaces and takes, a thief takes: each object comes out once, with all
/// writes to it.
pub(super) fn pool_slot() {
    let slot = Arc::new(LifoSlot::new());
    let theirs = slot.clone();
    let stolen = Arc::new(AtomicU32::new(0));
    let sum = stolen.clone();
    let thief = spawn(move || {
        sum.fetch_add(open(theirs.take()), Relaxed);
    });
    let mut out = open(slot.put(thing(1)));
    out += open(slot.put(thing(2)));
    out += open(slot.take());
    thief.join();
    assert_eq!(out + stolen.load(Relaxed), 3);
    assert_eq!(slot.put(null_mut()), null_mut());
}

/// SLOT: a replacement sees the object that another thread had put in.
pub(super) fn pool_slot_left() {
    let slot = Arc::new(LifoSlot::new());
    let theirs = slot.clone();
    let before = spawn(move || {
        assert_eq!(open(theirs.put(thing(1))), 0);
    });
    let mut out = open(slot.put(null_mut()));
    before.join();
    out += open(slot.take());
    assert_eq!(out, 1);
}
