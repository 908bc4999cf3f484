//! The hosts of actors, and of their senders. Created when first needed; idle hosts sleep.

use std::future::Future;
use std::sync::{LazyLock, mpsc};
use std::thread;

use actix::{Arbiter, ArbiterHandle, System};
use tokio::runtime::{Builder, Runtime};
use turnwise::ThreadPool;

/// Threads of each host.
pub(crate) const WORKERS: usize = 2;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .build()
        .expect("the system has two threads to spare")
});

/// On the runtime that all tasks share.
pub(crate) fn task(task: impl Future<Output = ()> + Send + 'static) {
    RUNTIME.spawn(task);
}

/// On a thread of its own.
pub(crate) fn thread(task: impl Future<Output = ()> + Send + 'static) {
    thread::spawn(|| RUNTIME.handle().block_on(task));
}

/// The pool for actors of turnwise that have one.
pub(crate) fn pool() -> &'static ThreadPool {
    static POOL: LazyLock<ThreadPool> = LazyLock::new(|| {
        ThreadPool::builder().threads(WORKERS).build().expect("the system has two threads to spare")
    });
    &POOL
}

/// One of actix's threads.
pub(crate) fn arbiter(place: usize) -> &'static ArbiterHandle {
    static ARBITERS: LazyLock<Vec<ArbiterHandle>> = LazyLock::new(|| {
        let (give, take) = mpsc::channel();
        // Arbiters belong to a system, and that to a thread which runs until the program ends.
        thread::spawn(move || {
            let system = System::new();
            for _ in 0..WORKERS {
                give.send(Arbiter::new().handle()).expect("the receiver is alive");
            }
            drop(give);
            system.run()
        });
        take.iter().collect()
    });
    &ARBITERS[place % WORKERS]
}
