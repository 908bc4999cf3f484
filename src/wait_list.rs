//! Threads and tasks that sleep, and how to wake them.
//!
//! A list is a slab: a waiter is found by its slot, so adding, moving and removing one take the
//! same few steps however many wait. No waker is called, cloned or dropped under the lock.

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
    /// Wakes it. The panic of a waker is ignored.
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
    slots: Vec<Slot>,
    /// The first vacant slot; the length of the slab if there is none.
    vacant: usize,
    /// The number of the last waiter: a slot has many waiters, one after the other.
    last: u64,
}

enum Slot {
    Taken(u64, Waiter),
    /// With the vacant slot that follows it.
    Vacant(usize),
}

/// A waiter's place in a list. It may be taken by no other one when its waiter is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    slot: usize,
    number: u64,
}

/// A waiter's entry in a list: dropping it takes the waiter out.
pub(crate) struct Entry<'a> {
    list: &'a Waiters,
    place: Place,
}

impl List {
    fn insert(&mut self, waiter: Waiter) -> Place {
        self.last += 1;
        let place = Place { slot: self.vacant, number: self.last };
        let taken = Slot::Taken(place.number, waiter);
        match self.slots.get_mut(place.slot) {
            Some(slot) => {
                if let Slot::Vacant(next) = std::mem::replace(slot, taken) {
                    self.vacant = next;
                }
            }
            None => {
                self.slots.push(taken);
                self.vacant = self.slots.len();
            }
        }
        place
    }

    fn remove(&mut self, place: Place) -> Option<Waiter> {
        let slot = self.slots.get_mut(place.slot)?;
        if !matches!(slot, Slot::Taken(number, _) if *number == place.number) {
            return None;
        }
        let removed = std::mem::replace(slot, Slot::Vacant(self.vacant));
        self.vacant = place.slot;
        removed.waiter()
    }
}

impl Slot {
    fn waiter(self) -> Option<Waiter> {
        match self {
            Slot::Taken(_, waiter) => Some(waiter),
            Slot::Vacant(_) => None,
        }
    }
}

impl Waiters {
    /// Adds a waiter, for as long as the entry lives.
    pub(crate) fn add(&self, waiter: Waiter) -> Entry<'_> {
        Entry { list: self, place: self.insert(waiter) }
    }

    /// Adds a waiter; its place takes it out again.
    pub(crate) fn insert(&self, waiter: Waiter) -> Place {
        self.0.lock().insert(waiter)
    }

    /// Takes a waiter out that may have been woken already.
    pub(crate) fn remove(&self, place: Place) {
        let removed = self.0.lock().remove(place);
        // A waker's drop is user code: not under the lock.
        panic::ignore(|| drop(removed));
    }

    /// Wakes all.
    pub(crate) fn wake_all(&self) {
        let woken = {
            let mut list = self.0.lock();
            list.vacant = 0;
            std::mem::take(&mut list.slots)
        };
        woken.into_iter().filter_map(Slot::waiter).for_each(Waiter::wake);
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.list.remove(self.place);
    }
}
