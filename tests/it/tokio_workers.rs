//! A tokio task that blocks: another thread takes over the place of its worker, and runs the work
//! for which it waits.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{LocalSet, spawn_local};

use crate::common::must_end;
use turnwise::Reason::WouldBlock;
use turnwise::executor::{DrainQueue, Tokio};
use turnwise::{Actor, Drain, Executor, Limit, Overflow, System, WaitError, blocking};

/// A runtime of this many workers.
fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).build().unwrap()
}

/// Runs a closure as the one task of a runtime, and returns its result.
fn in_task<R: Send + 'static>(workers: usize, task: impl FnOnce() -> R + Send + 'static) -> R {
    must_end(move || {
        let runtime = runtime(workers);
        runtime.block_on(runtime.spawn(async { task() })).unwrap()
    })
}

fn actor(executor: impl Executor + 'static) -> Actor<i32> {
    Actor::builder().executor(executor).spawn(1).unwrap()
}

/// The waits that block. They return true if the actor has handled the message.
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

/// Waits in each way, in a task and in a turn of a task.
fn each_wait(made: fn() -> Actor<i32>, handles: bool) {
    for (wait, workers) in WAITS.iter().flat_map(|wait| [(wait, 1), (wait, 2)]) {
        assert_eq!(in_task(workers, move || wait(&made())), handles);
        let in_turn = move || Actor::new(made()).with(|b| wait(b)).unwrap();
        assert_eq!(in_task(workers, in_turn), handles);
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

/// Drains that an executor leaves in the slot of its worker while the list of a turn is closed.
#[test]
fn for_an_actor_that_is_handed_over_at_the_last_moment() {
    in_task(2, || {
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

/// All work that the worker had queued before it blocked is run, not only the work for which it
/// waits.
#[test]
fn beside_other_tasks_of_its_worker() {
    for workers in [1, 2] {
        let ran = in_task(workers, || {
            let (tell, told) = mpsc::channel();
            (0..100).for_each(|number| {
                let tell = tell.clone();
                tokio::spawn(async move { tell.send(number).unwrap() });
            });
            drop(tell);
            blocking(|| told.iter().sum::<i32>())
        });
        assert_eq!(ran, (0..100).sum());
    }
}

/// The threads of a runtime that are not workers keep their places.
#[test]
fn outside_of_its_workers() {
    let wait = || WAITS.iter().all(|wait| wait(&actor(Tokio::new(Handle::current()))));
    for workers in [1, 2] {
        assert!(must_end(move || runtime(workers).block_on(async move { wait() })));
        assert!(must_end(move || {
            let runtime = runtime(workers);
            runtime.block_on(runtime.spawn_blocking(wait)).unwrap()
        }));
        // There, `block_in_place` panics.
        assert!(must_end(move || {
            let local = LocalSet::new();
            let task = async move { spawn_local(async move { wait() }).await.unwrap() };
            local.block_on(&runtime(workers), task)
        }));
    }
}

/// A thread of one runtime that is inside a guard of another one, of which it is no worker.
#[test]
fn inside_a_guard_of_another_runtime() {
    let wait = |other: &Runtime| {
        let _inside = other.enter();
        WAITS.iter().all(|wait| wait(&actor(Tokio::new(Handle::current()))))
    };
    // There, `block_in_place` panics.
    assert!(must_end(move || {
        let (own, other) = (Builder::new_current_thread().build().unwrap(), runtime(1));
        own.block_on(async { wait(&other) })
    }));
    let (tell, told) = mpsc::channel();
    in_task(1, move || {
        let other = runtime(1);
        tell.send(wait(&other)).unwrap();
        other.shutdown_background();
    });
    assert!(told.recv().unwrap());
}

/// A wait that ends while the runtime does.
#[test]
fn while_its_runtime_ends() {
    let (begin, begun) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    must_end(move || {
        let runtime = runtime(1);
        runtime.spawn(async move {
            begin.send(()).unwrap();
            blocking(|| told.recv()).unwrap();
            // A second time, without the place.
            blocking(|| told.recv()).unwrap();
            end.send(()).unwrap();
        });
        begun.recv().unwrap();
        runtime.shutdown_background();
        tell.send(()).unwrap();
        tell.send(()).unwrap();
        ended.recv().unwrap();
    });
}

/// In a runtime of one thread, the work for which it waits would run on this very thread.
#[test]
fn in_a_runtime_of_one_thread_is_refused() {
    let alone = || Builder::new_current_thread().build().unwrap();
    let busy = || {
        let actor = actor(Tokio::new(Handle::current()));
        actor.send(|_| {}).unwrap();
        actor
    };
    must_end(move || {
        let runtime = alone();
        runtime.block_on(async {
            assert_eq!(busy().call(|n| *n).wait(), Err(WouldBlock.into()));
            assert_eq!(busy().with(|n| *n), Err(WouldBlock.into()));
            assert_eq!(busy().idle().wait(), Err(WouldBlock));
            let within = busy().call(|n| *n).within(Duration::MAX);
            assert!(matches!(within, Err(WaitError::Ask(error)) if error == WouldBlock.into()));
            let closed = busy();
            closed.close();
            assert_eq!(closed.ended().wait(), Err(WouldBlock));
            // In a turn of another actor, too.
            let in_turn = Actor::new(busy()).with(|b| b.with(|n| *n)).unwrap();
            assert_eq!(in_turn, Err(WouldBlock.into()));
            let full = Actor::builder()
                .executor(Tokio::new(Handle::current()))
                .capacity(1, Overflow::Reject);
            let full = full.spawn(1).unwrap();
            full.send(|_| {}).unwrap();
            let (_, reason) = full.waiting().send(|_| {}).wait().unwrap_err().into_parts();
            assert_eq!(reason, WouldBlock);
        });
        // The message runs when the thread does not block.
        let asked = runtime.block_on(async { busy().call(|n| *n).await });
        assert_eq!(asked, Ok(1));
    });
    must_end(move || {
        let system = System::new();
        alone().block_on(async {
            let builder = Actor::builder().executor(Tokio::new(Handle::current()));
            let member = system.spawn(builder, 1).unwrap();
            member.send(|_| {}).unwrap();
            assert_eq!(system.shutdown(Limit::Unlimited).unwrap_err(), WouldBlock);
            assert!(system.shutdown_async().await.unwrap().is_complete());
        });
    });
    // Its other threads, and other threads, wait.
    must_end(move || {
        let runtime = alone();
        let (made, other) = (runtime.block_on(async { busy() }), Handle::clone(runtime.handle()));
        let waits = thread::spawn(move || WAITS.iter().take(3).all(|wait| wait(&made)));
        let waited = other.spawn_blocking(move || WAITS.iter().all(|wait| wait(&busy())));
        assert!(runtime.block_on(waited).unwrap());
        while !waits.is_finished() {
            runtime.block_on(tokio::task::yield_now());
        }
        assert!(waits.join().unwrap());
        let on_blocking = || actor(Tokio::for_blocking(Handle::current()));
        runtime.block_on(async { assert!(WAITS.iter().all(|wait| wait(&on_blocking()))) });
    });
}
