//! The flavour of `crate::sync` whose operations ask the explorer: each becomes an event of an
//! execution graph.
//!
//! A lock is an update that waits for a free lock, with Acquire, and a release store. A thread that
//! parks waits for its token, with Acquire, and an unpark sets it, with Release. A condition
//! variable counts its waiters and their notifications, relaxed: what its users see goes by the
//! lock. No wait ends without a cause, and no limit passes.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use crate::explorer::{make, perform};
use crate::graph::{Action, Update, WAITER};

pub(crate) mod atomic;
#[path = "../../../loom-tests/src/sync/site.rs"]
pub(crate) mod site;

pub(crate) use crate::explorer::reached;

pub(crate) mod config {
    pub(crate) const COUNT_MAX: u64 = 32_767;
}

/// Does nothing: all orders are tried anyway.
pub(crate) struct Backoff;

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff
    }
    pub(crate) fn snooze(&self) {}
}

pub(crate) mod hint {
    /// Looks once.
    pub(crate) fn done_soon(mut done: impl FnMut() -> bool) -> bool {
        done()
    }
    pub(crate) fn stand_back() {}
}

pub(crate) mod alloc {
    use std::cell::Cell;

    use crate::explorer::{access, make_cell};

    /// Memory that is alive.
    #[derive(Debug)]
    pub(crate) struct Life {
        cell: usize,
        is_over: Cell<bool>,
    }

    impl Life {
        pub(crate) fn new() -> Self {
            Life { cell: make_cell(), is_over: Cell::new(false) }
        }
        pub(crate) fn check(&self) {
            assert!(!self.is_over.get(), "memory is used after its end");
            access(self.cell, false);
        }
        pub(crate) fn end(&self) {
            assert!(!self.is_over.replace(true), "memory ends twice");
            access(self.cell, true);
        }
    }
}

pub(crate) mod cell {
    use std::cell::RefCell;

    use crate::explorer::{access, make_cell};

    /// Plain memory: accesses that conflict have to be ordered by what the threads do.
    #[derive(Debug)]
    pub(crate) struct Plain<T> {
        cell: usize,
        value: RefCell<T>,
    }

    impl<T> Plain<T> {
        pub(crate) fn new(value: T) -> Self {
            Plain { cell: make_cell(), value: RefCell::new(value) }
        }
        pub(crate) fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
            access(self.cell, false);
            f(&self.value.borrow())
        }
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            access(self.cell, true);
            f(&mut self.value.borrow_mut())
        }
    }
}

pub(crate) mod thread {
    use super::*;
    use crate::explorer::token;

    /// Lets the threads of the execution be parked; before they begin.
    #[track_caller]
    pub(crate) fn prepare() {
        token(Location::caller());
    }

    /// A handle to unpark a thread.
    #[derive(Clone, Debug)]
    pub(crate) struct Thread {
        token: usize,
    }

    impl Thread {
        #[track_caller]
        pub(crate) fn unpark(&self) {
            let site = Location::caller();
            perform(Action::Update(self.token, Update::Swap(1), Release, Relaxed), site);
        }
    }

    #[track_caller]
    pub(crate) fn current() -> Thread {
        Thread { token: token(Location::caller()) }
    }

    #[track_caller]
    pub(crate) fn park() {
        let site = Location::caller();
        let token = token(site);
        perform(Action::Await(token, Update::Exchange(1, 0), Acquire), site);
    }
}

/// A lock.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    at: usize,
    value: RefCell<T>,
}

pub(crate) struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    value: Option<RefMut<'a, T>>,
    site: &'static Location<'static>,
}

impl<T> Mutex<T> {
    #[track_caller]
    pub(crate) fn new(value: T) -> Self {
        Mutex { at: make(0, u64::MAX, Location::caller()), value: RefCell::new(value) }
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let mut guard = MutexGuard { lock: self, value: None, site: Location::caller() };
        guard.lock();
        guard
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> MutexGuard<'_, T> {
    fn lock(&mut self) {
        perform(Action::Await(self.lock.at, Update::Exchange(0, 1), Acquire), self.site);
        self.value = Some(self.lock.value.borrow_mut());
    }

    fn unlock(&mut self) {
        if self.value.take().is_some() {
            perform(Action::Store(self.lock.at, 0, Release), self.site);
        }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.unlock();
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is locked")
    }
}

/// A condition variable.
#[derive(Debug)]
pub(crate) struct Condvar {
    at: usize,
}

impl Default for Condvar {
    #[track_caller]
    fn default() -> Self {
        Condvar { at: make(0, u64::MAX, Location::caller()) }
    }
}

impl Condvar {
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let add = Update::Add(WAITER);
        perform(Action::Update(self.at, add, Relaxed, Relaxed), guard.site);
        guard.unlock();
        perform(Action::Await(self.at, Update::Notified, Relaxed), guard.site);
        guard.lock();
    }

    /// The time is over at once.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
        guard.unlock();
        guard.lock();
    }

    #[track_caller]
    pub(crate) fn notify_one(&self) {
        self.notify(false, Location::caller());
    }

    #[track_caller]
    pub(crate) fn notify_all(&self) {
        self.notify(true, Location::caller());
    }

    fn notify(&self, all: bool, site: &'static Location<'static>) {
        perform(Action::Update(self.at, Update::Notify(all), Relaxed, Relaxed), site);
    }
}
