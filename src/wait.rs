//! Waiting: who sleeps, and how to wake him.

use std::task::Waker;
use std::time::{Duration, Instant};

use crate::sync::Mutex;
use crate::sync::thread::{self, Thread};

/// Somebody who sleeps.
#[derive(Debug)]
pub(crate) enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    pub(crate) fn wake(self) {
        match self {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => waker.wake(),
        }
    }
}

/// When a wait ends at the latest: made once, at the call, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) const NEVER: Deadline = Deadline(None);

    /// A limit too large for the clock is no limit.
    pub(crate) fn after(limit: Duration) -> Self {
        Deadline(Instant::now().checked_add(limit))
    }

    /// Parks this thread until it is woken or the time is over (false). May return true without cause.
    pub(crate) fn park(self) -> bool {
        let Some(at) = self.0 else {
            thread::park();
            return true;
        };
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::park_timeout(left);
        true
    }
}

/// Those who watch a mailbox (R14). They look again when woken, so all are woken.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<List>);

#[derive(Default)]
struct List {
    next: u64,
    waiting: Vec<(u64, Waiter)>,
}

impl Waiters {
    /// Adds one; the number takes it out again.
    pub(crate) fn add(&self, waiter: Waiter) -> u64 {
        let mut list = self.0.lock();
        list.next += 1;
        let number = list.next;
        list.waiting.push((number, waiter));
        number
    }

    /// Takes one out that may have been woken already.
    pub(crate) fn remove(&self, number: u64) {
        self.0.lock().waiting.retain(|(at, _)| *at != number);
    }

    pub(crate) fn wake_all(&self) {
        let woken = std::mem::take(&mut self.0.lock().waiting);
        woken.into_iter().for_each(|(_, waiter)| waiter.wake());
    }
}
