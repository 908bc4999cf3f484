//! A pool without work does nothing at all. A program of its own, because it inspects the whole
//! process.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use turnwise::executor::DrainQueue;
use turnwise::{Actor, Limit, ThreadPool};

/// Returns the number of threads with this name, of their sleeps, and of the ticks of 10 ms that
/// they have run.
fn sleeps(name: &str) -> (usize, u64, u64) {
    let mut threads = (0, 0, 0);
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        let value =
            |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        if value("Name:").is_some_and(|at| at.starts_with(name)) {
            threads.0 += 1;
            threads.1 += value("voluntary_ctxt_switches:").unwrap().parse::<u64>().unwrap();
            let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
            // After the name, which may contain anything: in user mode, and in the system.
            let values = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
            threads.2 += values.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>();
        }
    }
    threads
}

#[test]
fn idle_threads_are_never_woken() {
    let pool = ThreadPool::builder().threads(4).thread_name("quiet").build().unwrap();
    let actors = (0..100)
        .map(|_| Actor::builder().executor(pool.handle()).spawn(0).unwrap())
        .collect::<Vec<_>>();
    for actor in &actors {
        actor.send(|n| *n += 1).unwrap();
        assert_eq!(actor.call(|n| *n).wait(), Ok(1));
    }
    // A thread that runs a queue by hand, for a time, is as quiet.
    let queue = std::sync::Arc::new(DrainQueue::new());
    let theirs = queue.clone();
    let runner = thread::Builder::new()
        .name("quiet-by-hand".into())
        .spawn(move || theirs.run_for(Duration::from_secs(60)))
        .unwrap();

    // Until all sleep, which is only visible in that they do nothing.
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

/// While a turn is long and nothing waits, the monitor looks each 32 ms.
#[test]
fn a_monitor_hardly_looks_at_a_long_turn() {
    let pool = ThreadPool::builder().threads(1).thread_name("long").build().unwrap();
    let one = Actor::builder().executor(pool.handle()).spawn(0).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    one.send(move |_| {
        // A thread gets its name when it runs.
        while sleeps("long-monitor").0 == 0 {
            thread::yield_now();
        }
        let (begun, before) = (Instant::now(), sleeps("long-monitor"));
        thread::sleep(Duration::from_millis(1_500));
        tell.send((before, sleeps("long-monitor"), begun.elapsed())).unwrap();
    })
    .unwrap();
    let (before, after, time) = told.recv().unwrap();
    assert_eq!((before.0, after.0), (1, 1));
    // Twice as many as expected, and some more at first.
    let looks = u128::from(after.1 - before.1);
    assert!(looks <= 16 + time.as_millis() / 16, "{looks} looks in {time:?}");
    // Each takes some microseconds.
    let ticks = u128::from(after.2 - before.2);
    assert!(ticks <= 2 + time.as_millis() / 500, "{ticks} ticks in {time:?}");
    assert!(pool.shutdown(Limit::Unlimited).is_complete());
}
