//! Wakes the monitor when the pool has something to do.
//!
//! The monitor sleeps while the pool does. A worker that was woken [rings](Alarm::ring), which
//! costs a fence and a load while the monitor is awake.
//!
//! - RING: the monitor says that it sleeps, fence, looks whether the pool is busy -> a worker
//!   changes the pool's word, fence, reads whether the monitor sleeps. Of two fences one comes
//!   first: either the monitor sees a busy pool, or the worker a sleeping monitor.

#![forbid(unsafe_code)]

use std::time::Duration;

use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicU32, fence};
use crate::sync::{Condvar, Mutex};

#[derive(Default)]
pub(crate) struct Alarm {
    asleep: AtomicU32,
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Alarm {
    /// A worker has got up, or the pool has ended.
    pub(crate) fn ring(&self) {
        // Ordering: SeqCst, the worker's side of RING.
        fence(SeqCst);
        // Ordering: Relaxed. What it says beyond that goes by the lock.
        if self.asleep.load(Relaxed) != 0 {
            *self.rung.lock() = true;
            self.bell.notify_one();
        }
    }

    /// Sleeps until it rings, unless `stay_awake` says that there is no need to.
    pub(crate) fn sleep_unless(&self, stay_awake: impl FnOnce() -> bool) {
        *self.rung.lock() = false;
        // Ordering: Relaxed, with the fence.
        self.asleep.store(1, Relaxed);
        // Ordering: SeqCst, the monitor's side of RING.
        fence(SeqCst);
        if !stay_awake() {
            let mut rung = self.rung.lock();
            while !*rung {
                self.bell.wait(&mut rung);
            }
        }
        // Ordering: Relaxed. A worker that still reads the old value rings for nothing.
        self.asleep.store(0, Relaxed);
    }

    /// Sleeps for that long, or until the pool has ended: `over` is looked at under the lock that
    /// [`end`](Self::end) takes.
    pub(crate) fn sleep_for(&self, time: Duration, over: impl FnOnce() -> bool) {
        let mut rung = self.rung.lock();
        if !over() {
            self.bell.wait_for(&mut rung, time);
        }
    }

    /// The pool has ended: nothing is waited for any longer.
    pub(crate) fn end(&self) {
        *self.rung.lock() = true;
        self.bell.notify_all();
    }
}
