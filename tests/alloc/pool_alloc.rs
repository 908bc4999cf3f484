//! The cost of scheduling: no allocation but the queues' own memory.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use crate::common::{must_end, until};
use crate::counting::{alone, cost, count_this_thread};
use turnwise::{Actor, Limit, ThreadPool};

struct Player {
    other: Option<Actor<Player>>,
    over: Arc<AtomicBool>,
}

fn hit(player: &mut Player, left: u32) {
    match &player.other {
        Some(other) if left > 0 => {
            other.send(move |other| hit(other, left - 1)).unwrap_or_else(|_| unreachable!())
        }
        _ => player.over.store(true, SeqCst),
    }
}

/// Returns a pool of one thread, whose worker is counted.
fn counted_pool() -> ThreadPool {
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let one = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
    one.send(move |_| {
        count_this_thread();
        tell.send(()).unwrap();
    })
    .unwrap();
    told.recv().unwrap();
    pool
}

#[test]
fn a_hop_inside_the_pool_allocates_nothing() {
    must_end(|| {
        let _alone = alone();
        let pool = counted_pool();
        let over = Arc::new(AtomicBool::new(false));
        let first = Actor::builder()
            .executor(pool.handle())
            .spawn(Player { other: None, over: over.clone() })
            .unwrap();
        let second = Actor::builder()
            .executor(pool.handle())
            .spawn(Player { other: Some(first.clone()), over: over.clone() })
            .unwrap();
        first.send(move |first| first.other = Some(second)).unwrap();
        let play = || {
            over.store(false, SeqCst);
            first.send(|first| hit(first, 10_000)).unwrap();
            until(|| over.load(SeqCst));
        };
        play();
        assert_eq!(cost(play).calls, 0);
        first.idle().wait().unwrap();
        first.with(|first| first.other = None).unwrap();
        assert!(pool.shutdown(Limit::Unlimited).is_complete());
    });
}

#[test]
fn a_drain_from_outside_costs_a_63rd_of_an_allocation() {
    must_end(|| {
        let _alone = alone();
        let pool = counted_pool();
        let sums = (0..100)
            .map(|_| Actor::builder().executor(pool.handle()).spawn(0).unwrap())
            .collect::<Vec<_>>();
        let send = |times| {
            for _ in 0..times {
                sums.iter().for_each(|sum| sum.send(|sum| *sum += 1).unwrap());
                until(|| sums.iter().all(Actor::is_idle));
            }
        };
        // Until the chunks of messages circulate between the two threads.
        send(200);
        let calls = cost(|| send(63)).calls;
        assert!((100..=102).contains(&calls), "{calls} allocations for 6300 drains");
        assert!(pool.shutdown(Limit::Unlimited).is_complete());
    });
}
