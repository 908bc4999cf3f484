//! Drains that are run by hand: once, until there are none, for a time, until the end.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{asked, must_end};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, ActorName, AskError, Limit, Reason, StopCause, ThreadPool};

const GONE: AskError = AskError::Refused(Reason::Stopped(StopCause::ExecutorGone), ActorName::ANY);

fn on<S: Send + 'static>(queue: &DrainQueue, state: S) -> Actor<S> {
    Actor::builder().executor(queue.handle()).budget(1).spawn(state).unwrap()
}

#[test]
fn a_one_shot_ends_at_the_first_emptiness() {
    let queue = DrainQueue::new();
    let (first, second) = (on(&queue, 0), on(&queue, 0));
    assert_eq!(queue.run_until_idle(), 0);
    assert!(!queue.run_one());
    let theirs = second.clone();
    first.send(move |_| theirs.send(|n| *n += 1).unwrap()).unwrap();
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.run_until_idle(), 2, "what a drain hands on is run too");
    assert!(queue.is_empty());
    assert_eq!(asked(&queue, &second, |n| *n), 1);
}

#[test]
fn a_time_of_zero_is_one_look() {
    let queue = DrainQueue::new();
    let n = on(&queue, 0);
    n.send(|n| *n += 1).unwrap();
    n.send(|n| *n += 1).unwrap();
    // The budget is one turn: the rest of the first drain comes behind the look.
    assert_eq!((queue.run_for(Duration::ZERO), n.len()), (1, 1));
    assert_eq!((queue.run_for(Limit::Within(Duration::ZERO)), n.len()), (1, 0));
    assert_eq!(queue.run_for(Limit::Immediate), 0);
}

#[test]
fn a_time_is_kept() {
    let queue = DrainQueue::new();
    let start = Instant::now();
    assert_eq!(queue.run_for(Duration::from_millis(20)), 0);
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn work_wakes_who_serves_and_closing_ends_it() {
    must_end(|| {
        let queue = Arc::new(DrainQueue::new());
        let theirs = queue.clone();
        let server = thread::spawn(move || theirs.run_for(Duration::from_secs(3_600)));
        let n = on(&queue, 0);
        for i in 1..=100 {
            let (tell, told) = mpsc::channel();
            n.send(move |n| {
                *n += 1;
                tell.send((*n, thread::current().id())).unwrap();
            })
            .unwrap();
            assert_eq!(told.recv(), Ok((i, server.thread().id())));
        }
        queue.close();
        // A message that arrives while the one before is being released is run by the same drain.
        assert!((1..=100).contains(&server.join().unwrap()));
    });
}

#[test]
fn what_was_queued_before_the_close_is_run() {
    let queue = DrainQueue::new();
    let (before, after) = (on(&queue, 0), on(&queue, 0));
    let (tell, told) = mpsc::channel();
    before.send(move |n| tell.send(*n + 1).unwrap()).unwrap();
    queue.close();
    let refused = after.call(|n| *n);
    assert_eq!(refused.wait(), Err(GONE));
    assert_eq!(queue.run_until_closed(), 1);
    assert_eq!(told.try_recv(), Ok(1));
}

#[test]
fn a_dropped_queue_answers_everyone() {
    let queue = DrainQueue::new();
    let handle = queue.handle();
    let asked = (0..10).map(|n| on(&queue, n).call(|n| *n)).collect::<Vec<_>>();
    drop(queue);
    for reply in asked {
        assert_eq!(reply.wait(), Err(GONE));
    }
    let late = Actor::builder().executor(handle).spawn(0).unwrap();
    assert_eq!(late.call(|n| *n).wait(), Err(GONE));
}

#[test]
fn a_seed_decides_the_order_and_nothing_else_does() {
    let order_of = |seed| {
        let queue = DrainQueue::seeded(seed);
        let (tell, told) = mpsc::channel();
        let actors = (0..8).map(|_| on(&queue, 0)).collect::<Vec<_>>();
        for message in 0..5 {
            for (number, actor) in actors.iter().enumerate() {
                let tell = tell.clone();
                actor
                    .send(move |last: &mut i32| {
                        assert_eq!(
                            *last, message,
                            "the order of one actor's messages is not chosen"
                        );
                        *last += 1;
                        tell.send(number).unwrap();
                    })
                    .unwrap();
            }
        }
        assert_eq!(queue.run_until_idle(), 40);
        told.try_iter().collect::<Vec<_>>()
    };
    let orders = (0..10).map(order_of).collect::<Vec<_>>();
    assert_eq!(orders, (0..10).map(order_of).collect::<Vec<_>>());
    assert!(orders.iter().all(|order| order.len() == 40));
    assert!(orders[1..].iter().all(|order| *order != orders[0]));
}

/// Seeds stay valid: these steps are SplitMix64's.
#[test]
fn a_time_of_zero_runs_what_waits_whatever_the_seed() {
    for seed in 0..50 {
        let queue = DrainQueue::seeded(seed);
        let (one, two, later) = (on(&queue, 0), on(&queue, 0), on(&queue, 0));
        let third = later.clone();
        one.send(move |n| {
            *n += 1;
            third.send(|n| *n += 1).unwrap();
        })
        .unwrap();
        two.send(|n| *n += 1).unwrap();
        assert_eq!(queue.run_for(Duration::ZERO), 2);
        assert!(one.is_idle() && two.is_idle(), "seed {seed}");
        assert_eq!(later.len(), 1, "seed {seed}");
    }
}

#[test]
fn a_time_of_zero_runs_no_newcomer_for_what_a_turn_has_run() {
    let seeded = (0..20).map(DrainQueue::seeded);
    for queue in std::iter::once(DrainQueue::new()).chain(seeded).map(Arc::new) {
        let (outer, inner, later) = (on(&queue, ()), on(&queue, 0), on(&queue, 0));
        let (theirs, newcomer) = (queue.clone(), later.clone());
        let reenters = move |_: &mut ()| {
            theirs.run_until_idle();
            newcomer.send(|n| *n += 1).unwrap();
        };
        outer.send(reenters).unwrap();
        inner.send(|n| *n += 1).unwrap();
        // The seed decides whether the outer one or this look runs the inner one.
        assert!((1..=2).contains(&queue.run_for(Duration::ZERO)));
        assert_eq!((inner.len(), later.len()), (0, 1));
    }
}

#[test]
fn a_seed_has_always_meant_the_same_order() {
    for (seed, expected) in [
        (0, [7, 11, 10, 8, 3, 2, 9, 0, 6, 5, 4, 1]),
        (7, [3, 0, 8, 9, 4, 11, 7, 5, 2, 10, 6, 1]),
        (u64::MAX, [8, 6, 1, 0, 10, 9, 3, 4, 2, 7, 11, 5]),
    ] {
        let queue = DrainQueue::seeded(seed);
        let (tell, told) = mpsc::channel();
        let actors = (0..12).map(|_| on(&queue, ())).collect::<Vec<_>>();
        // A single waiting drain is no choice.
        actors[0].send(|_| ()).unwrap();
        assert_eq!(queue.run_until_idle(), 1);
        for (number, actor) in actors.iter().enumerate() {
            let tell = tell.clone();
            actor.send(move |_| tell.send(number).unwrap()).unwrap();
        }
        assert_eq!(queue.run_until_idle(), 12);
        assert_eq!(told.try_iter().collect::<Vec<_>>(), expected, "seed {seed}");
    }
}

#[test]
fn queues_show_what_they_are() {
    let queue = DrainQueue::new();
    assert_eq!(format!("{queue:?}"), "DrainQueue { .. }");
    assert_eq!(format!("{:?}", queue.handle()), "QueueHandle { .. }");
}

/// A drain wakes one of the sleeping runners. If that one is just leaving, another must come.
#[test]
fn a_runner_whose_time_ends_passes_the_wake_up_on() {
    must_end(|| {
        for round in 0..crate::common::size(150, 600) {
            let queue = Arc::new(DrainQueue::new());
            let n = on(&queue, 0);
            let (began, begun) = mpsc::channel();
            let limit = Duration::from_micros(1_500);
            let leaves = thread::spawn({
                let queue = queue.clone();
                move || {
                    began.send(Instant::now() + limit).unwrap();
                    queue.run_for(limit)
                }
            });
            let over = begun.recv().unwrap();
            // Comes second, so that the first is woken first.
            let stays = thread::spawn({
                let queue = queue.clone();
                move || queue.run_until_closed()
            });
            let (tell, told) = mpsc::channel();
            let send_at =
                over - Duration::from_micros(60) + Duration::from_micros(round as u64 % 150);
            while Instant::now() < send_at {
                std::hint::spin_loop();
            }
            n.send(move |_| tell.send(()).unwrap()).unwrap();
            assert_eq!(
                told.recv_timeout(Duration::from_secs(10)),
                Ok(()),
                "round {round}: no thread came"
            );
            queue.close();
            assert_eq!(leaves.join().unwrap() + stays.join().unwrap(), 1);
        }
    });
}

#[test]
fn closing_wakes_all_who_serve() {
    must_end(|| {
        let queue = Arc::new(DrainQueue::new());
        let runners = (0..3).map(|_| {
            let queue = queue.clone();
            thread::spawn(move || queue.run_until_closed())
        });
        let runners = runners.collect::<Vec<_>>();
        // They probably sleep after that; the test is right in either case.
        thread::sleep(Duration::from_millis(20));
        queue.close();
        assert!(runners.into_iter().all(|runner| runner.join().unwrap() == 0));
    });
}

#[test]
fn a_queue_run_inside_a_turn_runs_what_it_counts() {
    must_end(|| {
        let queue = Arc::new(DrainQueue::new());
        let (outer, inner) = (on(&queue, ()), on(&queue, 0));
        let (theirs, turns) = (queue.clone(), inner.clone());
        let (tell, told) = mpsc::channel();
        outer
            .send(move |_| {
                let (seen, sees) = mpsc::channel();
                turns.send(move |n| seen.send(*n + 1).unwrap()).unwrap();
                let count = theirs.run_for(Duration::ZERO);
                tell.send((count, sees.try_recv())).unwrap();
                assert_eq!(theirs.run_for(Duration::from_millis(2)), 0);
            })
            .unwrap();
        assert!(queue.run_one());
        assert_eq!(told.recv(), Ok((1, Ok(1))));
    });
}

#[test]
fn a_queue_run_inside_a_turn_may_be_closed_there() {
    must_end(|| {
        let queue = Arc::new(DrainQueue::new());
        let (outer, inner) = (on(&queue, ()), on(&queue, ()));
        let theirs = queue.clone();
        let (tell, told) = mpsc::channel();
        outer
            .send(move |_| {
                let closes = theirs.clone();
                inner.send(move |_| closes.close()).unwrap();
                tell.send(theirs.run_until_closed()).unwrap();
            })
            .unwrap();
        assert!(queue.run_one());
        assert_eq!(told.recv(), Ok(1));
    });
}

#[test]
fn a_worker_that_serves_a_queue_gives_its_place_away() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let queue = Arc::new(DrainQueue::new());
        let on_pool = || Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        let (serves, closes) = (on_pool(), on_pool());
        let (tell, told) = mpsc::channel();
        let theirs = queue.clone();
        serves
            .send(move |_| {
                closes
                    .send({
                        let queue = theirs.clone();
                        move |_| queue.close()
                    })
                    .unwrap();
                tell.send(theirs.run_until_closed()).unwrap();
            })
            .unwrap();
        assert_eq!(told.recv(), Ok(0));
        assert!(pool.shutdown(Limit::Unlimited).is_complete());
    });
}

/// Hooks of dropped actors call the queue.
#[test]
fn what_a_dropped_queue_leaves_is_dropped_unlocked() {
    must_end(|| {
        let queue = DrainQueue::new();
        let second = on(&queue, 0);
        let theirs = second.clone();
        let (tell, told) = mpsc::channel();
        let hook = move |_| {
            let refused = theirs.send(|n| *n += 1).is_err();
            tell.send(refused || theirs.stop_cause().is_some()).unwrap();
        };
        let first =
            Actor::builder().executor(queue.handle()).on_undelivered(hook).spawn(0).unwrap();
        first.send(|n| *n += 1).unwrap();
        drop(queue);
        assert_eq!(told.recv(), Ok(true), "the queue is closed already");
        assert_eq!(first.stop_cause(), Some(StopCause::ExecutorGone));
    });
}
