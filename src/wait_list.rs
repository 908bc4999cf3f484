//! Threads and tasks that sleep, and how to wake them.
//!
//! A list is a slab: a waiter is found by its slot, so adding, moving and removing one take the
//! same few steps however many wait. No waker is called, cloned or dropped under the lock.
//!
//! A waker may do what wakes the next one, and that the next: it closes an actor, keeps a promise,
//! gives a lock back. So the wakers that a thread is inside of are counted. [`NESTED`] of them are
//! called on top of each other; what the innermost one wakes is put off, and called after it
//! ([`call`]). The stack is constant. A waker that is about to sleep has called what it has put off
//! itself ([`call_put_off`]): of the others, each comes after the one before.

#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

use crate::panic;
use crate::sync::thread::Thread;
use crate::sync::{Mutex, thread_owned, thread_plain};

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
    /// How many wakers this thread is inside of.
    static INSIDE: Cell<u32> = Cell::new(0);
}

thread_plain! {
    /// How many were put off before the innermost waker began.
    static BEFORE: Cell<usize> = Cell::new(0);
}

thread_owned! {
    /// Wakers that are called when the innermost one has returned.
    static PUT_OFF: RefCell<VecDeque<Waker>> = RefCell::new(VecDeque::new());
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
        } else if let Some(waker) = put_off(waker) {
            panic::ignore(|| waker.wake());
        }
    });
}

/// The waker comes back on a thread whose locals are gone.
fn put_off(waker: Waker) -> Option<Waker> {
    let mut waker = Some(waker);
    let _ = PUT_OFF.try_with(|put_off| put_off.borrow_mut().extend(waker.take()));
    waker
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
    let next = |put_off: &RefCell<VecDeque<Waker>>| {
        let mut put_off = put_off.borrow_mut();
        let next = put_off.remove(first)?;
        BEFORE.with(|before| before.set(put_off.len()));
        if put_off.is_empty() {
            *put_off = VecDeque::new();
        }
        Some(next)
    };
    while let Some(waker) = PUT_OFF.try_with(next).ok().flatten() {
        panic::ignore(|| waker.wake());
    }
    BEFORE.with(|before| before.set(first));
}

/// Waiters that look again when they are woken, so all are woken.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<List>);

#[derive(Default)]
struct List {
    slots: Vec<ListSlot>,
    /// The first vacant slot; the length of the slab if there is none.
    vacant: usize,
    /// The number of the last waiter: a slot has many waiters, one after the other.
    last: u64,
}

enum ListSlot {
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
        let taken = ListSlot::Taken(place.number, waiter);
        match self.slots.get_mut(place.slot) {
            Some(slot) => {
                if let ListSlot::Vacant(next) = std::mem::replace(slot, taken) {
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

    fn has(&self, place: Place) -> bool {
        let slot = self.slots.get(place.slot);
        matches!(slot, Some(ListSlot::Taken(number, _)) if *number == place.number)
    }

    fn remove(&mut self, place: Place) -> Option<Waiter> {
        self.has(place).then(|| self.vacate(place.slot)).flatten()
    }

    /// Takes the waiter out of a slot that is taken.
    fn vacate(&mut self, at: usize) -> Option<Waiter> {
        let vacated = std::mem::replace(self.slots.get_mut(at)?, ListSlot::Vacant(self.vacant));
        self.vacant = at;
        vacated.waiter()
    }
}

impl ListSlot {
    fn waiter(self) -> Option<Waiter> {
        match self {
            ListSlot::Taken(_, waiter) => Some(waiter),
            ListSlot::Vacant(_) => None,
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

    /// Wakes the threads among them.
    pub(crate) fn wake_threads(&self) {
        let mut list = self.0.lock();
        for at in 0..list.slots.len() {
            if matches!(list.slots[at], ListSlot::Taken(_, Waiter::Thread(_))) {
                list.vacate(at).into_iter().for_each(Waiter::wake);
            }
        }
    }

    /// Wakes all.
    pub(crate) fn wake_all(&self) {
        let woken = {
            let mut list = self.0.lock();
            list.vacant = 0;
            std::mem::take(&mut list.slots)
        };
        woken.into_iter().filter_map(ListSlot::waiter).for_each(Waiter::wake);
    }
}

impl Entry<'_> {
    /// True if the waiter was not woken yet.
    pub(crate) fn is_listed(&self) -> bool {
        self.list.0.lock().has(self.place)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.list.remove(self.place);
    }
}
