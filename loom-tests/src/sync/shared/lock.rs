//! The scheduler's mutex and condition variable with the API of `parking_lot`'s.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::Instant;
use crate::sync::backend::sync;
use crate::sync::{count_wait, unpoisoned};

/// A mutex. A call that may block is counted.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

/// Its guard; `None` while its thread waits at a [`Condvar`].
pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        count_wait();
        MutexGuard(Some(unpoisoned(self.0.lock())))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        unpoisoned(self.0.get_mut())
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held")
    }
}

/// The result of a wait with a limit.
#[derive(Debug)]
pub(crate) struct Waited;

impl Waited {
    /// No thread is woken by the time.
    pub(crate) fn timed_out(&self) -> bool {
        false
    }
}

/// A condition variable. There is no time: a limit wakes no thread.
#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar(sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        count_wait();
        let held = guard.0.take().expect("held");
        guard.0 = Some(unpoisoned(self.0.wait(held)));
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> Waited {
        self.wait(guard);
        Waited
    }

    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> Waited {
        self.wait(guard);
        Waited
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
