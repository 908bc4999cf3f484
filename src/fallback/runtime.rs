//! The tokio runtime that a thread is in.

#![forbid(unsafe_code)]

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use ::tokio::runtime::{self, Handle, RuntimeFlavor};
use ::tokio::task;

use crate::cell::executor::Drain;
use crate::panic;

/// The runtime of several threads that this thread is a worker of; inside a guard of another such
/// runtime, that one.
fn of_worker() -> Option<Handle> {
    let runtime = Handle::try_current().ok()?;
    let is_worker = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    (is_worker && runtime::worker_index().is_some()).then_some(runtime)
}

/// Runs what blocks this thread. Another thread takes over the place of a worker, with what is
/// queued there.
///
/// Tokio panics instead of calling `f` if it cannot give the place away: on the thread of a runtime
/// of one thread that is inside a guard of this one, or if the system has no thread left. Then the
/// place is kept.
pub(super) fn block<R>(f: impl FnOnce() -> R) -> R {
    if of_worker().is_none() {
        return f();
    }
    let mut f = Some(f);
    let left = panic::catch(|| task::block_in_place(|| f.take().map(|f| f())));
    match (left, f) {
        (Err(refused), Some(f)) => {
            panic::discard(refused);
            f()
        }
        (Err(payload), None) => resume_unwind(payload),
        (Ok(result), _) => result.expect("it is called once"),
    }
}

/// A worker of a runtime keeps the task that it was given last to itself, where no other worker
/// finds it. One more task, which does nothing, takes its place.
///
/// The runtime counts on its workers to come back to their queues: another worker that is about to
/// park in this moment misses the task. So a thread for blocking work wakes workers until one of
/// them has run it; mostly it has nothing to do.
pub(super) fn before_block() {
    let Some(runtime) = of_worker() else { return };
    let task = runtime.spawn(async {});
    let wakes = runtime.clone();
    runtime.spawn_blocking(move || {
        let mut pause = Duration::from_micros(50);
        while !task.is_finished() {
            wakes.spawn(async {});
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    });
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
