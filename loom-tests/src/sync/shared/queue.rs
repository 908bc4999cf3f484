//! The queues of a pool: lists under the scheduler's lock, with the API of crossbeam's.
//!
//! Whether a list is empty is read without the lock: the read is no step, sees the newest
//! value, and orders nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::Mutex;

/// The result of a steal, which never has to be retried here.
pub(crate) enum Steal<T> {
    Empty,
    Success(T),
    #[allow(dead_code, reason = "crossbeam's says it")]
    Retry,
}

/// The queue that belongs to no worker.
pub(crate) struct Injector<T> {
    /// The scheduler does not see it: a read is no step, and orders nothing.
    len: AtomicUsize,
    list: Mutex<VecDeque<T>>,
}

impl<T> Injector<T> {
    pub(crate) fn new() -> Self {
        Injector { len: AtomicUsize::new(0), list: Mutex::new(VecDeque::new()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    pub(crate) fn push(&self, value: T) {
        let mut list = self.list.lock();
        list.push_back(value);
        self.len.store(list.len(), Relaxed);
    }

    fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut list = self.list.lock();
        let value = list.pop_front();
        self.len.store(list.len(), Relaxed);
        value
    }

    pub(crate) fn steal(&self) -> Steal<T> {
        self.pop().map_or(Steal::Empty, Steal::Success)
    }

    /// Moves half of the queue to the worker.
    pub(crate) fn steal_batch(&self, to: &Worker<T>) -> Steal<()> {
        let most = self.len().div_ceil(2);
        let moved = (0..most).map_while(|_| self.pop()).map(|value| to.push(value)).count();
        if moved > 0 { Steal::Success(()) } else { Steal::Empty }
    }

    pub(crate) fn steal_batch_and_pop(&self, to: &Worker<T>) -> Steal<T> {
        let most = self.len().div_ceil(2);
        let first = self.pop();
        (1..most).map_while(|_| self.pop()).for_each(|value| to.push(value));
        first.map_or(Steal::Empty, Steal::Success)
    }
}

/// A worker's own end of its queue.
pub(crate) struct Worker<T>(Arc<Injector<T>>);

impl<T> Worker<T> {
    pub(crate) fn new_fifo() -> Self {
        Worker(Arc::new(Injector::new()))
    }

    pub(crate) fn stealer(&self) -> Stealer<T> {
        Stealer(self.0.clone())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&self, value: T) {
        self.0.push(value);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.pop()
    }
}

/// A worker's queue, as other threads reach it.
pub(crate) struct Stealer<T>(Arc<Injector<T>>);

impl<T> Stealer<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn steal(&self) -> Steal<T> {
        self.0.steal()
    }

    pub(crate) fn steal_batch_and_pop(&self, to: &Worker<T>) -> Steal<T> {
        self.0.steal_batch_and_pop(to)
    }
}
