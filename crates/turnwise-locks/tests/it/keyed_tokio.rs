//! Keyed runs in tokio programs.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use turnwise::executor::Tokio;
use turnwise_locks::{Keyed, Limits, NotStarted, RunError};

use crate::common::must_end;

const MS: Duration = Duration::from_millis(1);

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_time().build().unwrap()
}

/// A registry whose runs are tasks of the runtime that this thread is in.
fn tasks() -> Keyed<&'static str> {
    Keyed::builder().executor(Tokio::new(Handle::current())).build()
}

/// A task that waits for a key gives its worker's place away.
#[test]
fn a_task_waits_for_a_key_of_its_runtime() {
    for workers in [1, 2, 4] {
        must_end(move || {
            let runtime = runtime(workers);
            for _ in 0..20 {
                let ran = runtime.spawn(async { tasks().run("a", |()| 7) });
                assert_eq!(runtime.block_on(ran).unwrap(), Ok(7));
            }
        });
    }
}

#[test]
fn a_task_waits_for_several_keys_of_its_runtime() {
    for workers in [1, 2, 4] {
        must_end(move || {
            let runtime = runtime(workers);
            for keys in [2, 20] {
                let keys: Vec<_> = (0..keys).map(|n| ["a", "b", "c", "d"][n % 4]).collect();
                let all = move || tasks().run_all(keys, Limits::NONE, |_| 7);
                let outside = all.clone();
                let ran = runtime.spawn(async { all() });
                assert_eq!(runtime.block_on(ran).unwrap(), Ok(7));
                assert_eq!(runtime.block_on(async { outside() }), Ok(7));
            }
        });
    }
}

/// In a runtime of one thread, the key would run on the very thread that waits for it.
#[test]
fn a_runtime_of_one_thread_refuses_to_wait_for_its_keys() {
    must_end(|| {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            assert_eq!(tasks().run("a", |()| 7), Err(NotStarted::WouldBlock));
            let would_block = RunError::NotStarted(NotStarted::WouldBlock);
            assert_eq!(tasks().run_all(["a", "b"], Limits::NONE, |_| 7), Err(would_block));
            assert_eq!(tasks().start("a", Limits::NONE, |()| 7).await, Ok(7));
        });
    });
}

/// The first program of a tokio user: no executor is named, and two runs meet at one key.
#[test]
fn in_tokio_a_registry_without_an_executor_goes_on_in_the_runtime() {
    let pause = || tokio::time::sleep(MS);
    for workers in [1, 2] {
        must_end(move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(workers).enable_time().build().unwrap();
            runtime.block_on(async {
                let orders = Keyed::builder().default_state::<u32>().build();
                let tasks: Vec<_> = (0..4)
                    .map(|_| {
                        let orders = orders.clone();
                        tokio::spawn(async move {
                            let run = orders.run_async("order 7", Limits::NONE, async move |n| {
                                pause().await;
                                *n += 1;
                                pause().await;
                                *n
                            });
                            run.await.unwrap()
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
                assert!(orders.is_empty());
            });
        });
    }
}
