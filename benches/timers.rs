//! Measures the cost and the lateness of timers.
//!
//! Arming and cancelling takes turns with a `tokio` sleep that is polled once and dropped: one
//! interleaved run, medians of the rounds, ratio to tokio. Lateness is from the due time to the
//! call, on a service with a thread of its own, beside tokio's.
//!
//! ```text
//! cargo bench --bench timers [-- --rounds N] [-- --quick]
//! ```

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use std::{env, thread};

use cpu_time::ProcessTime;
use tokio::runtime::{Builder, Runtime};
use turnwise::MonotonicClock;
use turnwise::time::Timers;

const FAR: Duration = Duration::from_secs(3_600);

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Nanoseconds per operation.
fn timed(operations: usize, f: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    f();
    begun.elapsed().as_nanos() as f64 / operations as f64
}

/// Arms and cancels one after the other, while others are armed.
fn one_by_one(timers: &Timers, count: usize) {
    for step in 0..count {
        let delay = FAR + Duration::from_micros((step * 7_919 % 100_000) as u64);
        assert!(timers.after(delay, || ()).cancel());
    }
}

fn tokio_one_by_one(count: usize) {
    let mut context = Context::from_waker(Waker::noop());
    for step in 0..count {
        let delay = FAR + Duration::from_micros((step * 7_919 % 100_000) as u64);
        let sleep = pin!(tokio::time::sleep(delay));
        assert!(sleep.poll(&mut context).is_pending());
    }
}

/// Arms all before the first is cancelled.
fn all_at_once(timers: &Timers, count: usize) {
    let armed: Vec<_> = (0..count)
        .map(|step| timers.after(FAR + Duration::from_micros((step * 7_919) as u64), || ()))
        .collect();
    assert_eq!(timers.len(), count);
    assert!(armed.iter().all(|timer| timer.cancel()));
}

fn tokio_all_at_once(count: usize) {
    let mut context = Context::from_waker(Waker::noop());
    let armed: Vec<_> = (0..count)
        .map(|step| {
            let delay = FAR + Duration::from_micros((step * 7_919) as u64);
            let mut sleep = Box::pin(tokio::time::sleep(delay));
            assert!(sleep.as_mut().poll(&mut context).is_pending());
            sleep
        })
        .collect();
    drop(armed);
}

/// Returns the lateness of each of `count` timers that are due within a second, sorted.
fn lateness(count: usize) -> Vec<Duration> {
    let timers = Timers::new(MonotonicClock).expect("a thread");
    let late = Arc::new(Mutex::new(Vec::with_capacity(count)));
    let (done, all) = mpsc::channel();
    for step in 0..count {
        let delay = Duration::from_micros((step * 7_919 % 1_000) as u64 * 1_000 + 20_000);
        let (due, late, done) = (Instant::now() + delay, late.clone(), done.clone());
        let note = move || {
            late.lock().unwrap().push(due.elapsed());
            done.send(()).unwrap();
        };
        timers.after(delay, note).forget();
    }
    (0..count).for_each(|_| all.recv().unwrap());
    let mut late = std::mem::take(&mut *late.lock().unwrap());
    late.sort();
    late
}

fn tokio_lateness(runtime: &Runtime, count: usize) -> Vec<Duration> {
    let mut late: Vec<_> = runtime.block_on(async {
        let tasks: Vec<_> = (0..count)
            .map(|step| {
                let delay = Duration::from_micros((step * 7_919 % 1_000) as u64 * 1_000 + 20_000);
                let due = Instant::now() + delay;
                tokio::spawn(async move {
                    tokio::time::sleep_until(due.into()).await;
                    due.elapsed()
                })
            })
            .collect();
        let mut late = Vec::with_capacity(count);
        for task in tasks {
            late.push(task.await.unwrap());
        }
        late
    });
    late.sort();
    late
}

fn main() {
    let given: Vec<_> = env::args().skip(1).collect();
    let quick = given.iter().any(|word| word == "--quick" || word == "--test");
    let rounds = given.iter().position(|word| word == "--rounds");
    let rounds = rounds.and_then(|at| given.get(at + 1)).and_then(|n| n.parse().ok());
    let rounds = if quick { 1 } else { rounds.unwrap_or(11) };
    let (few, many) = if quick { (1_000, 1_000) } else { (100_000, 1_000_000) };

    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let timers = Timers::new(MonotonicClock).expect("a thread");
    let beside: Vec<_> = (0..few).map(|_| timers.after(FAR * 2, || ())).collect();
    let alone = Timers::new(MonotonicClock).expect("a thread");
    let crowd = Timers::new(MonotonicClock).expect("a thread");

    let mut took: [Vec<f64>; 5] = Default::default();
    for _ in 0..rounds {
        let _inside = runtime.enter();
        took[0].push(timed(few, || one_by_one(&alone, few)));
        took[1].push(timed(few, || one_by_one(&timers, few)));
        took[2].push(timed(few, || tokio_one_by_one(few)));
        took[3].push(timed(many, || all_at_once(&crowd, many)));
        took[4].push(timed(many, || tokio_all_at_once(many)));
    }
    drop(beside);
    let [ours, loaded, theirs, ours_all, theirs_all] = took.map(median);
    println!("| arm and cancel | ours | tokio | ratio |");
    println!("|---|--:|--:|--:|");
    println!("| one by one | {ours:.0} ns | {theirs:.0} ns | {:.2} |", ours / theirs);
    println!(
        "| one by one, {few} others | {loaded:.0} ns | {theirs:.0} ns | {:.2} |",
        loaded / theirs
    );
    println!(
        "| {many} at once | {ours_all:.0} ns | {theirs_all:.0} ns | {:.2} |",
        ours_all / theirs_all
    );

    let count = if quick { 20 } else { 2_000 };
    println!();
    println!("| lateness of {count} in a second | p50 | p99 | max |");
    println!("|---|--:|--:|--:|");
    let rows: [(&str, Vec<Duration>); 2] =
        [("ours", lateness(count)), ("tokio", tokio_lateness(&runtime, count))];
    for (who, late) in rows {
        let at = |share: usize| late[(late.len() - 1) * share / 100];
        println!("| {who} | {:?} | {:?} | {:?} |", at(50), at(99), at(100));
    }

    let idle = if quick { Duration::ZERO } else { Duration::from_secs(2) };
    let armed: Vec<_> = (0..few).map(|_| timers.after(FAR, || ())).collect();
    let before = ProcessTime::now();
    thread::sleep(idle);
    println!("\n{few} armed timers, {idle:?}: {:?} of the processor", before.elapsed());
    drop(armed);
}
