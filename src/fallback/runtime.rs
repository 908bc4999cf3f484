//! The tokio runtime that a thread is in.

#![forbid(unsafe_code)]

use std::mem;
use std::panic::resume_unwind;
use std::time::Duration;

use ::tokio::runtime::{self, Handle, RuntimeFlavor};
use ::tokio::task::{self, JoinHandle};

use super::inside::{Task, pool};
use crate::cell::executor::Drain;
use crate::panic;
use crate::pool::{Away, Reserved, reserve};
use crate::sync::{Condvar, Mutex};

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

/// True if this thread is inside a runtime.
pub(super) fn is_here() -> bool {
    Handle::try_current().is_ok()
}

/// Has the drain run inside of the runtime that this thread is in, or gives it back if it is in
/// none.
///
/// Not by the runtime: all of its threads may sleep in waits for what this drain does.
pub(super) fn execute(drain: Drain) -> Result<(), Drain> {
    let Ok(runtime) = Handle::try_current() else { return Err(drain) };
    pool().submit(Task::drain(runtime, drain));
    Ok(())
}

/// The first pause between two wakes, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(50)];

/// Tasks that workers have left in their queues, until others have run them.
static LEFT: Mutex<Vec<Left>> = Mutex::new(Vec::new());
/// There are more of them.
static MORE: Condvar = Condvar::new();

struct Left {
    task: JoinHandle<()>,
    runtime: Handle,
}

/// A worker of a runtime keeps the task that it was given last to itself, where no other worker
/// finds it. Two more tasks, which do nothing, take its place: the second one is kept, and the
/// first one stands in the queue behind all that was there.
///
/// The runtime counts on its workers to come back to their queues: another worker that is about to
/// park in this moment misses the task. So a thread wakes workers until one of them has run the
/// first one; mostly it has nothing to do.
pub(super) fn before_block() {
    let Some(runtime) = of_worker() else { return };
    let task = runtime.spawn(async {});
    runtime.spawn(async {});
    let mut left = LEFT.lock();
    let is_first = left.is_empty();
    left.push(Left { task, runtime });
    drop(left);
    if is_first {
        pool().submit(Task::call(wake_workers));
    } else {
        MORE.notify_one();
    }
}

/// Wakes workers until nothing is left in the queue of another.
fn wake_workers() {
    // It may be long.
    let _place = reserve().map_or_else(|_| Away::sharing(), Reserved::leave);
    let [first, longest] = PAUSES;
    let mut pause = first;
    loop {
        let mut left = LEFT.lock();
        let (done, still): (Vec<_>, Vec<_>) =
            mem::take(&mut *left).into_iter().partition(|left| left.task.is_finished());
        let runtimes: Vec<_> = still.iter().map(|left| left.runtime.clone()).collect();
        *left = still;
        drop(left);
        drop(done);
        if runtimes.is_empty() {
            return;
        }
        let seen = runtimes.len();
        for runtime in runtimes {
            runtime.spawn(async {});
        }
        let mut left = LEFT.lock();
        let is_more = left.len() > seen || !MORE.wait_for(&mut left, pause).timed_out();
        drop(left);
        pause = if is_more { first } else { (pause * 2).min(longest) };
    }
}
