//! An actor with an executor: senders post, drains keep to their budget, and a dropped drain answers everyone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, mpsc};

use turnwise::{Actor, AskError, Drain, Reason, StopCause};

type Queue = Arc<Mutex<VecDeque<Drain>>>;

/// An executor that runs drains when the test says so.
fn by_hand() -> (Queue, impl Fn(Drain) + Send + Sync) {
    let queue = Queue::default();
    let inner = queue.clone();
    (queue, move |drain| inner.lock().unwrap().push_back(drain))
}

fn run_one(queue: &Queue) -> bool {
    let next = queue.lock().unwrap().pop_front();
    next.map(Drain::run).is_some()
}

#[test]
fn a_budget_hands_the_rest_on_and_only_if_something_is_left() {
    let (queue, executor) = by_hand();
    let log = Actor::builder(Vec::new()).executor(executor).budget(1).spawn().unwrap();
    for n in 1..=3 {
        log.send(move |log: &mut Vec<i32>| log.push(n)).unwrap();
    }
    assert_eq!(queue.lock().unwrap().len(), 1, "one carrier for three messages");
    let mut rounds = 0;
    while run_one(&queue) {
        rounds += 1;
    }
    assert_eq!(rounds, 3, "three slices, two hand-offs, none for nothing");
    assert_eq!(log.with(|log| log.clone()).unwrap(), [1, 2, 3]);
}

#[test]
fn a_dropped_drain_stops_its_actor_and_answers_everyone() {
    let (queue, executor) = by_hand();
    let (tx, rx) = mpsc::channel();
    let n = Actor::builder(0).executor(executor).undelivered(move |message| tx.send(message).unwrap()).spawn().unwrap();
    n.send(|n| *n += 1).unwrap();
    let asked = n.ask(|n| *n);
    drop(queue.lock().unwrap().pop_front());
    assert_eq!(asked.wait(), Err(AskError::Stopped(StopCause::ExecutorGone)));
    assert_eq!(rx.try_iter().count(), 1);
    assert_eq!(n.send(|_| ()).unwrap_err().reason(), &Reason::Stopped(StopCause::ExecutorGone));
}

#[test]
fn a_waiting_caller_takes_over_and_the_carrier_is_stale() {
    let (queue, executor) = by_hand();
    let n = Actor::builder(0).executor(executor).spawn().unwrap();
    n.send(|n| *n += 1).unwrap();
    assert_eq!(n.with(|n| *n).unwrap(), 1);
    assert!(run_one(&queue));
    n.send(|n| *n += 1).unwrap();
    assert!(run_one(&queue), "a new carrier after a stale one");
    assert_eq!(n.with(|n| *n).unwrap(), 2);
    assert!(!run_one(&queue));
}

#[test]
fn the_last_handle_leaves_the_end_to_the_executor() {
    let (queue, executor) = by_hand();
    let (tx, rx) = mpsc::channel();
    let n = Actor::builder(0).executor(executor).on_end(move |state, cause| tx.send((state, cause.stop_cause())).unwrap()).spawn().unwrap();
    n.send(|n| *n += 1).unwrap();
    drop(n);
    assert!(rx.try_recv().is_err());
    while run_one(&queue) {}
    assert_eq!(rx.recv().unwrap(), (Some(1), None));
}
