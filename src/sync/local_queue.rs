//! A queue of a thread, for its destructors too.

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;

/// A queue for a thread-local without a destructor. The call that puts something in is not over
/// before that was taken out, so nothing is left at the end of the thread.
pub(crate) struct LocalQueue<T>(Cell<ManuallyDrop<VecDeque<T>>>);

impl<T> LocalQueue<T> {
    pub(crate) const fn new() -> Self {
        LocalQueue(Cell::new(ManuallyDrop::new(VecDeque::new())))
    }

    /// Calls `f` with the queue, and gives its memory back if that leaves it empty. Inside of `f`,
    /// the queue is not reached by another way.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
        let mut queue = ManuallyDrop::into_inner(self.0.take());
        let result = f(&mut queue);
        if !queue.is_empty() {
            self.0.set(ManuallyDrop::new(queue));
        }
        result
    }
}
