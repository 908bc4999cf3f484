//! Threads and tasks that sleep, and how to wake them.
//!
//! A waiter is found by its number, so adding and removing one take few steps however many wait. No
//! waker is called, cloned or dropped under the lock.
//!
//! A waker may do what wakes the next one, and that the next: it closes an actor, keeps a promise,
//! gives a lock back. So the wakers that a thread is inside of are counted. [`NESTED`] of them are
//! called on top of each other; what the innermost one wakes is put off, and called after it
//! ([`call`]). The stack is constant. A waker that is about to sleep has called what it has put off
//! itself ([`call_put_off`]): of the others, each comes after the one before.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem::take;
use std::task::Waker;

use crate::panic;
use crate::sync::thread::Thread;
use crate::sync::{LocalQueue, Mutex, thread_plain};

/// One that sleeps: a thread, or a task.
#[derive(Debug)]
pub(crate) enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    /// Wakes it. The panic of a waker is ignored.
    pub(crate) fn wake(self) {
        match self {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => call(waker),
        }
    }
}

/// The most wakers that are called on top of each other.
const NESTED: u32 = 8;

thread_plain! {
    /// The number of wakers that this thread is inside of.
    static INSIDE: Cell<u32> = Cell::new(0);
}

thread_plain! {
    /// The number of those put off before the innermost waker began.
    static BEFORE: Cell<usize> = Cell::new(0);
}

thread_plain! {
    /// Wakers that are called when the innermost one has returned.
    static PUT_OFF: LocalQueue<Waker> = LocalQueue::new();
}

/// Calls a waker, or puts it off.
fn call(waker: Waker) {
    INSIDE.with(|inside| {
        let before = inside.get();
        if before < NESTED {
            inside.set(before + 1);
            panic::ignore(|| waker.wake());
            if before + 1 == NESTED {
                call_from(0);
            }
            inside.set(before);
        } else {
            PUT_OFF.with(|put_off| put_off.with(|put_off| put_off.push_back(waker)));
        }
    });
}

/// Calls the wakers that the innermost one has put off: it is about to sleep.
#[inline]
pub(crate) fn call_put_off() {
    if INSIDE.with(Cell::get) == NESTED {
        call_from(BEFORE.with(Cell::get));
    }
}

/// Calls the wakers that were put off, all but the `first` ones.
#[cold]
fn call_from(first: usize) {
    let next = |put_off: &LocalQueue<Waker>| {
        put_off.with(|put_off| {
            let next = put_off.remove(first)?;
            BEFORE.with(|before| before.set(put_off.len()));
            Some(next)
        })
    };
    while let Some(waker) = PUT_OFF.with(next) {
        panic::ignore(|| waker.wake());
    }
    BEFORE.with(|before| before.set(first));
}

/// Waiters that look again when they are woken, so all are woken.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<List>);

#[derive(Default)]
struct List {
    waiters: BTreeMap<WaiterPlace, Waiter>,
    last: WaiterPlace,
}

/// A waiter's place in a list. No other one ever has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterPlace(u64);

/// A waiter's entry in a list: dropping it takes the waiter out.
pub(crate) struct WaiterEntry<'a> {
    list: &'a Waiters,
    place: WaiterPlace,
}

impl Waiters {
    /// Adds a waiter, for as long as the entry lives.
    pub(crate) fn add(&self, waiter: Waiter) -> WaiterEntry<'_> {
        WaiterEntry { list: self, place: self.insert(waiter) }
    }

    /// Adds a waiter; its place takes it out again.
    pub(crate) fn insert(&self, waiter: Waiter) -> WaiterPlace {
        let List { waiters, last } = &mut *self.0.lock();
        last.0 += 1;
        waiters.insert(*last, waiter);
        *last
    }

    /// Takes a waiter out that may have been woken already.
    pub(crate) fn remove(&self, place: WaiterPlace) {
        let removed = self.0.lock().waiters.remove(&place);
        // A waker's drop is user code: not under the lock.
        panic::ignore(|| drop(removed));
    }

    /// Wakes the threads among them.
    pub(crate) fn wake_threads(&self) {
        self.0.lock().waiters.retain(|_, waiter| match waiter {
            Waiter::Thread(thread) => {
                thread.unpark();
                false
            }
            Waiter::Task(_) => true,
        });
    }

    /// Wakes all, the first one first.
    pub(crate) fn wake_all(&self) {
        let woken = take(&mut self.0.lock().waiters);
        woken.into_values().for_each(Waiter::wake);
    }
}

impl WaiterEntry<'_> {
    /// True if the waiter was not woken yet.
    pub(crate) fn is_listed(&self) -> bool {
        self.list.0.lock().waiters.contains_key(&self.place)
    }
}

impl Drop for WaiterEntry<'_> {
    fn drop(&mut self) {
        self.list.remove(self.place);
    }
}
