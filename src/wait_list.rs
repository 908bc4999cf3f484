//! Who sleeps, and how to wake it.

#![forbid(unsafe_code)]

use std::task::Waker;

use crate::panic;
use crate::sync::Mutex;
use crate::sync::thread::Thread;

/// One that sleeps: a thread, or a task.
#[derive(Debug)]
pub(crate) enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    /// Wakes it. A waker that panics hurts nobody else.
    pub(crate) fn wake(self) {
        panic::ignore(|| match self {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => waker.wake(),
        });
    }
}

/// Waiters that look again when they are woken, so all are woken.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<List>);

#[derive(Default)]
struct List {
    last: u64,
    waiting: Vec<(u64, Waiter)>,
}

/// A waiter's entry in a list: dropping it takes the waiter out.
pub(crate) struct Entry<'a> {
    list: &'a Waiters,
    number: u64,
}

impl Waiters {
    /// Adds a waiter, for as long as the entry lives.
    pub(crate) fn add(&self, waiter: Waiter) -> Entry<'_> {
        Entry { list: self, number: self.insert(waiter) }
    }

    /// Adds a waiter; the number takes it out again.
    pub(crate) fn insert(&self, waiter: Waiter) -> u64 {
        let mut list = self.0.lock();
        list.last += 1;
        let number = list.last;
        list.waiting.push((number, waiter));
        number
    }

    /// Takes a waiter out that may have been woken already.
    pub(crate) fn remove(&self, number: u64) {
        let removed = {
            let waiting = &mut self.0.lock().waiting;
            let at = waiting.iter().position(|(of, _)| *of == number);
            at.map(|at| waiting.swap_remove(at))
        };
        // A waker's drop is user code: not under the lock.
        panic::ignore(|| drop(removed));
    }

    /// Wakes all.
    pub(crate) fn wake_all(&self) {
        let woken = std::mem::take(&mut self.0.lock().waiting);
        woken.into_iter().for_each(|(_, waiter)| waiter.wake());
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.list.remove(self.number);
    }
}
