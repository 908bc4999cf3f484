//! A pool with nothing to do does nothing at all. A program of its own, for it looks at the whole
//! process.
#![cfg(target_os = "linux")]

use std::fs;
use std::thread;
use std::time::Duration;

use turnwise::executor::DrainQueue;
use turnwise::{Actor, Limit, ThreadPool};

/// How often threads of that name have gone to sleep.
fn sleeps(name: &str) -> (usize, u64) {
    let mut threads = (0, 0);
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
        let value =
            |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        if value("Name:").is_some_and(|at| at.starts_with(name)) {
            threads.0 += 1;
            threads.1 += value("voluntary_ctxt_switches:").unwrap().parse::<u64>().unwrap();
        }
    }
    threads
}

#[test]
fn idle_threads_are_never_woken() {
    let pool = ThreadPool::builder().threads(4).thread_name("quiet").build().unwrap();
    let actors = (0..100)
        .map(|_| Actor::builder(0).executor(pool.handle()).spawn().unwrap())
        .collect::<Vec<_>>();
    for actor in &actors {
        actor.send(|n| *n += 1).unwrap();
        assert_eq!(actor.call(|n| *n).wait(), Ok(1));
    }
    // One that runs a queue by hand, for a time, is as quiet.
    let queue = std::sync::Arc::new(DrainQueue::new());
    let theirs = queue.clone();
    let runner = thread::Builder::new()
        .name("quiet-by-hand".into())
        .spawn(move || theirs.run_for(Duration::from_secs(60)))
        .unwrap();

    // Until all have gone to sleep: nothing can be seen of that but that they do nothing.
    let mut before = sleeps("quiet");
    let quiet = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(200));
        let now = sleeps("quiet");
        std::mem::replace(&mut before, now) == now
    });
    assert!(quiet, "woken for nothing, again and again");
    assert_eq!(before.0, 6, "four workers, their monitor, and one by hand");
    // And it stays so.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(sleeps("quiet"), before);

    queue.close();
    assert_eq!(runner.join().unwrap(), 0);
    assert!(pool.shutdown(Limit::Unlimited).is_complete());
}
