//! A task of tokio's that blocks: what it waits for runs on another worker of its runtime.

use std::sync::mpsc;

use tokio::runtime::{Builder, Handle};

use crate::common::must_end;
use turnwise::executor::{DrainQueue, Tokio};
use turnwise::{Actor, Drain, Executor, blocking};

/// Runs it as the one task of a runtime of two workers, and returns its result.
fn in_task<R: Send + 'static>(task: impl FnOnce() -> R + Send + 'static) -> R {
    must_end(|| {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(runtime.spawn(async { task() })).unwrap()
    })
}

fn actor(executor: impl Executor + 'static) -> Actor<i32> {
    Actor::builder().executor(executor).spawn(1).unwrap()
}

/// The waits that block. True if the actor has handled what was sent.
const WAITS: [fn(&Actor<i32>) -> bool; 4] = [
    |b| b.call(|n| *n).wait().is_ok(),
    |b| b.with(|n| *n).is_ok(),
    |b| {
        let sent = b.call(|n| *n);
        let _ = b.idle().wait();
        sent.wait().is_ok()
    },
    |b| {
        let sent = b.call(|n| *n);
        b.close();
        let _ = b.ended().wait();
        sent.wait().is_ok()
    },
];

/// Waits in each way, in a task and in a turn of a task's.
fn each_wait(made: fn() -> Actor<i32>, handles: bool) {
    for wait in WAITS {
        assert_eq!(in_task(move || wait(&made())), handles);
        assert_eq!(in_task(move || Actor::new(made()).with(|b| wait(b)).unwrap()), handles);
    }
}

#[test]
fn for_an_actor_of_its_runtime() {
    each_wait(|| actor(Tokio::new(Handle::current())), true);
}

#[test]
fn for_an_actor_of_the_threads_for_blocking() {
    each_wait(|| actor(Tokio::for_blocking(Handle::current())), true);
}

#[test]
fn for_an_actor_whose_executor_runs_it_at_once() {
    each_wait(|| actor(Drain::run), true);
}

#[test]
fn for_an_actor_whose_executor_drops_it() {
    each_wait(|| actor(|drain: Drain| drop(drain)), false);
}

#[test]
fn for_an_actor_whose_queue_is_gone() {
    each_wait(|| actor(DrainQueue::new().handle()), false);
}

/// What an executor leaves in the slot of its worker while the list of a turn is closed.
#[test]
fn for_an_actor_that_is_handed_over_at_the_last_moment() {
    in_task(|| {
        let (tell, told) = mpsc::channel();
        let runtime = Handle::current();
        let spawns = move |drain: Drain| drop(runtime.spawn(async move { drain.run() }));
        let (first, second) = (actor(Drain::run), actor(spawns));
        Actor::new(())
            .with(move |()| {
                first.send(move |_| second.send(move |_| tell.send(()).unwrap()).unwrap()).unwrap();
                blocking(|| told.recv()).unwrap();
            })
            .unwrap();
    });
}
