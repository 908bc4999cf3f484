//! Drains that are run by hand: once, until there are none, for a time, until the end.

mod common;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::must_end;
use turnwise::executor::DrainQueue;
use turnwise::{Actor, AskError, Limit, StopCause};

const GONE: AskError = AskError::Stopped(StopCause::ExecutorGone);

fn on<S: Send + 'static>(queue: &DrainQueue, state: S) -> Actor<S> {
    Actor::builder(state).executor(queue.handle()).budget(1).spawn().unwrap()
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
    assert_eq!(second.with(|n| *n), Ok(1));
}

#[test]
fn a_time_of_zero_is_one_shot() {
    let queue = DrainQueue::new();
    let n = on(&queue, 0);
    n.send(|n| *n += 1).unwrap();
    n.send(|n| *n += 1).unwrap();
    assert_eq!(queue.run_for(Duration::ZERO), 2);
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
        assert_eq!(server.join().unwrap(), 100);
    });
}

#[test]
fn what_was_queued_before_the_close_is_run_and_nothing_after_it() {
    let queue = DrainQueue::new();
    let (before, after) = (on(&queue, 0), on(&queue, 0));
    before.send(|n| *n += 1).unwrap();
    queue.close();
    let refused = after.ask(|n| *n);
    assert_eq!(refused.wait(), Err(GONE));
    assert_eq!(queue.run_until_closed(), 1);
    assert_eq!(before.with(|n| *n), Ok(1));
}

#[test]
fn a_dropped_queue_answers_everyone() {
    let queue = DrainQueue::new();
    let handle = queue.handle();
    let asked = (0..10).map(|n| on(&queue, n).ask(|n| *n)).collect::<Vec<_>>();
    drop(queue);
    for reply in asked {
        assert_eq!(reply.wait(), Err(GONE));
    }
    let late = Actor::builder(0).executor(handle).spawn().unwrap();
    assert_eq!(late.ask(|n| *n).wait(), Err(GONE));
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
                        assert_eq!(*last, message, "the order of one actor's messages is not chosen");
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
