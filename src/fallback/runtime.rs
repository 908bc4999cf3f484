//! The tokio runtime that a thread is in.

#![forbid(unsafe_code)]

use ::tokio::runtime::{Handle, RuntimeFlavor};

use crate::cell::executor::Drain;

/// A worker of a runtime keeps the task that it was given last to itself, where no other worker
/// finds it. One more task, which does nothing, takes its place.
///
/// The runtime counts on its workers to come back to their queues. One that parks in this moment
/// may miss the task, which then waits until that worker is woken for another one.
pub(super) fn before_block() {
    if let Ok(runtime) = Handle::try_current() {
        if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
            runtime.spawn(async {});
        }
    }
}

/// True if this thread is inside a runtime.
pub(super) fn is_here() -> bool {
    Handle::try_current().is_ok()
}

/// A drain on its way through a runtime: what the runtime drops is handed on.
struct Saved<F: FnOnce(Drain)>(Option<(Drain, F)>);

impl<F: FnOnce(Drain)> Saved<F> {
    fn run(mut self) {
        if let Some((drain, _)) = self.0.take() {
            drain.run();
        }
    }
}

impl<F: FnOnce(Drain)> Drop for Saved<F> {
    fn drop(&mut self) {
        if let Some((drain, otherwise)) = self.0.take() {
            otherwise(drain);
        }
    }
}

/// Runs the drain as a task of the runtime that this thread is in, or gives it back if it is in
/// none. If the runtime drops the task un-run, the drain goes to `otherwise`.
///
/// A thread that is about to block may keep its worker's next task waiting, and in a runtime of one
/// thread all of them. Then the drain goes to the runtime's threads for blocking work, where it
/// finds the same runtime.
pub(super) fn spawn(
    drain: Drain,
    blocks: bool,
    otherwise: impl FnOnce(Drain) + Send + 'static,
) -> Result<(), Drain> {
    let Ok(runtime) = Handle::try_current() else { return Err(drain) };
    let saved = Saved(Some((drain, otherwise)));
    if blocks || runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
        runtime.spawn_blocking(move || saved.run());
    } else {
        runtime.spawn(async move { saved.run() });
    }
    Ok(())
}
