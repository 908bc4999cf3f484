//! The knowledge that a store may have of a request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Tracks whether a request's token was sent to the store, and whether copies may be on their way.
#[derive(Default)]
pub(crate) struct Sent {
    /// The store may know the token.
    sent: AtomicBool,
    /// Copies may be on their way although answers have come.
    late: AtomicBool,
    /// The number of steps without an answer. A step whose future was dropped stays counted.
    asked: AtomicUsize,
}

impl Sent {
    /// Runs a step that makes the token known to the store. The step returns whether copies of it
    /// may be on their way.
    pub(crate) async fn by<T>(&self, step: impl Future<Output = (T, bool)>) -> T {
        self.sent.store(true, Relaxed);
        // Counted until the answer has come.
        self.asked.fetch_add(1, Relaxed);
        let (answer, late) = step.await;
        self.late.fetch_or(late, Relaxed);
        self.asked.fetch_sub(1, Relaxed);
        answer
    }

    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Relaxed) || self.asked.load(Relaxed) > 0
    }

    /// Ends the request. Returns true once, if the store has to learn of the end.
    pub(crate) fn ends(&self) -> bool {
        self.sent.swap(false, Relaxed)
    }
}
