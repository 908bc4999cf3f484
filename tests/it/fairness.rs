//! Fairness between actors: an actor that is fed without a pause does not starve others.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{asked, must_end, tireless, until};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, Executor, ThreadPool};

const QUIET: usize = 1_000;
const BUDGET: u64 = 256;

/// Feeds itself for ever: each turn sends the next message before it ends.
struct Hot {
    me: Option<Actor<Hot>>,
    turns: Arc<AtomicU64>,
}

fn burn(hot: &mut Hot) {
    hot.turns.fetch_add(1, Relaxed);
    if let Some(me) = &hot.me {
        me.send(burn).expect("it was not closed");
    }
}

fn hot(executor: impl Executor + 'static) -> (Actor<Hot>, Arc<AtomicU64>) {
    let turns = Arc::new(AtomicU64::new(0));
    let hot = Actor::builder()
        .executor(executor)
        .budget(BUDGET as u32)
        .spawn(Hot { me: None, turns: turns.clone() })
        .unwrap();
    let me = hot.clone();
    hot.send(move |hot| {
        hot.me = Some(me);
        burn(hot);
    })
    .unwrap();
    (hot, turns)
}

/// The exact bound: on one worker that takes drains in order, a quiet actor's message waits for one
/// slice of the busy one at most, whenever it comes.
#[test]
fn a_quiet_actor_waits_for_one_slice_of_the_busy_one() {
    let queue = DrainQueue::new();
    let (hot, turns) = hot(queue.handle());
    let quiet: Vec<_> = (0..QUIET)
        .map(|_| Actor::builder().executor(queue.handle()).spawn(Vec::new()).unwrap())
        .collect();
    for (i, one) in quiet.iter().enumerate() {
        let (sent_at, turns) = (turns.load(Relaxed), turns.clone());
        one.send(move |waited: &mut Vec<u64>| waited.push(turns.load(Relaxed) - sent_at)).unwrap();
        // Sometimes many wait at once, sometimes one.
        if i % 7 == 0 {
            queue.run_one();
        }
    }
    while quiet.iter().any(|one| !one.is_idle()) {
        queue.run_one();
    }
    hot.stop();
    let waited: Vec<_> =
        quiet.iter().flat_map(|one| asked(&queue, one, |waited| waited.clone())).collect();
    assert_eq!(waited.len(), QUIET);
    assert!(waited.iter().all(|waited| *waited <= BUDGET), "{}", waited.iter().max().unwrap());
}

/// On two workers, while two threads and the actor itself feed the busy one: the flood ends only
/// when all quiet messages have been handled.
#[test]
fn an_endless_flood_starves_nobody_on_two_workers() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let (hot, turns) = hot(pool.handle());
        let over = AtomicBool::new(false);
        let fed = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Acquire) {
                        // Only some slices ahead, or the mailbox would take all memory.
                        if fed.load(Relaxed) < turns.load(Relaxed) + 8 * BUDGET {
                            fed.fetch_add(1, Relaxed);
                            hot.send(|hot| _ = hot.turns.fetch_add(1, Relaxed)).unwrap();
                        } else {
                            thread::yield_now();
                        }
                    }
                });
            }
            let quiet: Vec<_> = (0..QUIET)
                .map(|_| Actor::builder().executor(pool.handle()).spawn(0).unwrap())
                .collect();
            let (tell, told) = mpsc::channel();
            for one in &quiet {
                let tell = tell.clone();
                one.send(move |n| {
                    *n += 1;
                    tell.send(*n).expect("it is waited for");
                })
                .unwrap();
            }
            drop(tell);
            assert_eq!(told.into_iter().sum::<usize>(), QUIET);
            over.store(true, Release);
        });
        hot.stop();
        drop(hot);
        assert!(pool.shutdown(Duration::from_secs(60)).is_complete());
    });
}

/// Two actors that two threads feed without an end, and four that send to themselves: a message to
/// a quiet one is run within a second.
fn floods_keep_nobody_waiting(executor: impl Fn() -> Arc<dyn Executor> + Sync) {
    let over = AtomicBool::new(false);
    let own = |executor: Arc<dyn Executor>| move |drain: turnwise::Drain| executor.execute(drain);
    let selfish: Vec<_> = (0..4).map(|_| hot(own(executor())).0).collect();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let turns = Arc::new(AtomicU64::new(0));
                let fed = Actor::builder().executor(own(executor())).spawn(turns.clone()).unwrap();
                let mut sent = 0;
                while !over.load(Acquire) {
                    if sent < turns.load(Relaxed) + 8 * BUDGET {
                        sent += 1;
                        fed.send(|turns| _ = turns.fetch_add(1, Relaxed)).unwrap();
                    } else {
                        thread::yield_now();
                    }
                }
            });
        }
        let mut late = 0;
        for round in 0..20 {
            let quiet = Actor::builder().executor(own(executor())).spawn(()).unwrap();
            let (tell, told) = mpsc::channel();
            let begun = Instant::now();
            quiet.send(move |_| tell.send(()).unwrap()).unwrap();
            let run = told.recv_timeout(Duration::from_secs(20));
            let waited = begun.elapsed();
            // A busy machine may delay one of them, but not most.
            late += u32::from(waited > Duration::from_secs(1));
            if run.is_err() || late > 2 {
                over.store(true, Release);
                selfish.iter().for_each(|hot| _ = hot.stop());
                panic!("round {round}: {waited:?}");
            }
        }
        over.store(true, Release);
    });
    selfish.iter().for_each(|hot| _ = hot.stop());
}

#[test]
fn floods_in_a_pool_keep_nobody_waiting() {
    for workers in 1..=2 {
        must_end(move || {
            let pool = ThreadPool::builder().threads(workers).build().unwrap();
            floods_keep_nobody_waiting(|| Arc::new(pool.handle()));
            assert!(pool.shutdown(Duration::from_secs(60)).is_complete());
        });
    }
}

#[test]
fn floods_in_a_queue_keep_nobody_waiting() {
    for queue in [DrainQueue::new(), DrainQueue::seeded(3)] {
        must_end(move || {
            let queue = Arc::new(queue);
            let runner = thread::spawn({
                let queue = queue.clone();
                move || queue.run_until_closed()
            });
            floods_keep_nobody_waiting(|| Arc::new(queue.handle()));
            queue.close();
            runner.join().unwrap();
        });
    }
}

#[cfg(feature = "rayon")]
#[test]
fn floods_in_rayon_keep_nobody_waiting() {
    use turnwise::executor::Rayon;
    for threads in 1..=2 {
        must_end(move || {
            let rayon =
                Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
            // One for all, and one for each: the order is that of the rayon pool.
            let one = Rayon::new(rayon.clone());
            floods_keep_nobody_waiting(|| Arc::new(one.clone()));
            floods_keep_nobody_waiting(|| Arc::new(Rayon::new(rayon.clone())));
        });
    }
}

#[cfg(feature = "tokio")]
#[test]
fn floods_in_tokio_keep_nobody_waiting() {
    use turnwise::executor::Tokio;
    for blocking in [false, true] {
        must_end(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .max_blocking_threads(2)
                .build()
                .unwrap();
            let handle = runtime.handle().clone();
            let one = if blocking { Tokio::for_blocking(handle) } else { Tokio::new(handle) };
            floods_keep_nobody_waiting(|| Arc::new(one.clone()));
            runtime.shutdown_timeout(Duration::from_secs(10));
        });
    }
}

/// Two actors send to each other until `done`, on this thread for ever; the tenth turn sends to a
/// third one.
fn ring(from: Actor<u32>, to: Actor<u32>, third: Actor<u32>, done: Arc<AtomicBool>) {
    let (from_again, to_again) = (from.clone(), to.clone());
    let sent = from.send(move |turns| {
        *turns += 1;
        if *turns == 5 {
            let done = done.clone();
            third.send(move |_| done.store(true, Release)).expect("it is open");
        }
        if !done.load(Acquire) {
            ring(to_again, from_again, third, done);
        }
    });
    sent.expect("it is open");
}

#[test]
fn a_list_without_an_end_keeps_no_hint_waiting() {
    must_end(|| {
        let (first, second, third) = (tireless(0), tireless(0), tireless(0));
        let (listed, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (third, listed, done) = (third.clone(), listed.clone(), done.clone());
            thread::spawn(move || {
                let busy = Actor::new(());
                let turn = move |_: &mut ()| {
                    // It stands in this thread's list now, behind a turn that goes on.
                    third.send(|n| *n += 1).expect("it is open");
                    listed.store(true, Release);
                    until(|| done.load(Acquire));
                };
                busy.send(turn).expect("it is open");
            })
        };
        until(|| listed.load(Acquire));
        ring(first, second, third, done);
        thread.join().expect("no panic");
    });
}
