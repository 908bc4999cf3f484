//! What a store may know of a request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Whether a request's token was sent to the store, and whether copies may be on their way.
#[derive(Default)]
pub(crate) struct Sent {
    /// The store knows the token, perhaps.
    sent: AtomicBool,
    /// Copies may be on their way although answers have come.
    late: AtomicBool,
    /// How many steps have no answer yet. One whose asker is gone has none for ever.
    asked: AtomicUsize,
}

impl Sent {
    /// Has a step done that the store knows the token by. The step says whether copies of it may be
    /// on their way.
    pub(crate) async fn by<T>(&self, step: impl Future<Output = (T, bool)>) -> T {
        self.sent.store(true, Relaxed);
        // Until its answer has come.
        self.asked.fetch_add(1, Relaxed);
        let (answer, late) = step.await;
        self.late.fetch_or(late, Relaxed);
        self.asked.fetch_sub(1, Relaxed);
        answer
    }

    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Relaxed) || self.asked.load(Relaxed) > 0
    }

    /// The request is over. True, once: the store is to be told.
    pub(crate) fn ends(&self) -> bool {
        self.sent.swap(false, Relaxed)
    }
}
