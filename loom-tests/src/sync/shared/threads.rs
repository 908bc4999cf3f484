//! The start of threads.

use crate::sync::backend::thread::JoinHandle;
use crate::sync::thread::spawn;

/// A model's thread.
pub(crate) struct Joiner<R = ()>(pub(crate) JoinHandle<R>);

impl<R> Joiner<R> {
    /// Waits for the thread's end; a panic goes on here.
    pub(crate) fn join(self) -> R {
        self.0.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }
}

/// Starts threads as the product does. They have no names here, and stacks of the scheduler's size.
pub(crate) struct Builder;

impl Builder {
    pub(crate) fn new() -> Self {
        Builder
    }

    pub(crate) fn name(self, _: String) -> Self {
        self
    }

    pub(crate) fn stack_size(self, _: usize) -> Self {
        self
    }

    pub(crate) fn spawn(self, f: impl FnOnce() + Send + 'static) -> std::io::Result<Joiner<()>> {
        Ok(spawn(f))
    }
}
