//! Fairness between actors: one that is fed without a pause keeps nobody from his turn.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::must_end;
use turnwise::executor::DrainQueue;
use turnwise::{Actor, Executor, ThreadPool};

const QUIET: usize = 1_000;
const BUDGET: u64 = 256;

/// Feeds itself for ever: each turn leaves the next message before it ends.
struct Hot {
    me: Option<Actor<Hot>>,
    turns: Arc<AtomicU64>,
}

fn burn(hot: &mut Hot) {
    hot.turns.fetch_add(1, Relaxed);
    if let Some(me) = &hot.me {
        me.send(burn).expect("nobody has closed it");
    }
}

fn hot(executor: impl Executor + 'static) -> (Actor<Hot>, Arc<AtomicU64>) {
    let turns = Arc::new(AtomicU64::new(0));
    let hot = Actor::builder(Hot { me: None, turns: turns.clone() }).executor(executor).budget(BUDGET as u32).spawn().unwrap();
    let me = hot.clone();
    hot.send(move |hot| {
        hot.me = Some(me);
        burn(hot);
    })
    .unwrap();
    (hot, turns)
}

/// The bound, exactly: on one worker that takes drains in their order, a quiet actor's message waits for one slice of the busy one at most,
/// whenever it comes.
#[test]
fn a_quiet_actor_waits_for_one_slice_of_the_busy_one() {
    let queue = DrainQueue::new();
    let (hot, turns) = hot(queue.handle());
    let quiet: Vec<_> = (0..QUIET).map(|_| Actor::builder(Vec::new()).executor(queue.handle()).spawn().unwrap()).collect();
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
    let waited: Vec<_> = quiet.iter().flat_map(|one| one.with(|waited| waited.clone()).unwrap()).collect();
    assert_eq!(waited.len(), QUIET);
    assert!(waited.iter().all(|waited| *waited <= BUDGET), "{}", waited.iter().max().unwrap());
    hot.stop();
    queue.run_until_idle();
}

/// On two workers, while two threads and the actor itself feed the busy one: the flood ends only when all quiet messages have been handled.
#[test]
fn a_flood_that_never_ends_starves_nobody_on_two_workers() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let (hot, turns) = hot(pool.handle());
        let over = AtomicBool::new(false);
        let fed = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Acquire) {
                        // No more than some slices ahead, or the mailbox would take all memory.
                        if fed.load(Relaxed) < turns.load(Relaxed) + 8 * BUDGET {
                            fed.fetch_add(1, Relaxed);
                            hot.send(|hot| _ = hot.turns.fetch_add(1, Relaxed)).unwrap();
                        } else {
                            thread::yield_now();
                        }
                    }
                });
            }
            let quiet: Vec<_> = (0..QUIET).map(|_| Actor::builder(0).executor(pool.handle()).spawn().unwrap()).collect();
            // Not by an answer: who waits for one runs the actor himself if nobody is at it.
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
