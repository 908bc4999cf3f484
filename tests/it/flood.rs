//! Limits hold beside a flood of messages.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{block_on, must_end};
use crate::verbs::{ask_within, poll_once, wait_for};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, Executor, Limit, Overflow, ThreadPool};

/// The length of a flood, unless it is stopped.
const FLOOD: Duration = Duration::from_secs(4);
/// A call that returns later has waited for the end of the flood.
const BOUND: Duration = Duration::from_millis(1500);
/// The time for which calls are made.
const TRIES: Duration = Duration::from_millis(600);

/// Sends a message that sends itself again.
fn flood(actor: Actor<u64>, stop: Arc<AtomicBool>, end: Instant) {
    let next = actor.clone();
    let _ = actor.send(move |turns| {
        *turns += 1;
        if !stop.load(SeqCst) && Instant::now() < end {
            flood(next, stop, end);
        }
    });
}

/// The executor of actors, and its end.
struct Place {
    name: &'static str,
    executor: Option<Box<dyn Fn() -> Box<dyn Executor>>>,
    ends: Box<dyn FnOnce()>,
}

/// A queue whose runner starts `late`.
fn queue(name: &'static str, late: Duration) -> Place {
    let queue = Arc::new(DrainQueue::new());
    let runner = thread::spawn({
        let queue = queue.clone();
        move || {
            thread::sleep(late);
            queue.run_until_closed()
        }
    });
    let handle = queue.handle();
    Place {
        name,
        executor: Some(Box::new(move || boxed(handle.clone()))),
        ends: Box::new(move || {
            queue.close();
            runner.join().unwrap();
        }),
    }
}

fn boxed(executor: impl Executor + 'static) -> Box<dyn Executor> {
    Box::new(executor)
}

fn pool() -> Place {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    let handle = pool.handle();
    Place {
        name: "pool",
        executor: Some(Box::new(move || boxed(handle.clone()))),
        ends: Box::new(move || assert!(pool.shutdown(FLOOD * 10).is_complete())),
    }
}

fn places() -> Vec<Place> {
    #[allow(unused_mut)]
    let mut places = vec![
        Place { name: "no executor", executor: None, ends: Box::new(|| ()) },
        pool(),
        queue("queue", Duration::ZERO),
    ];
    #[cfg(feature = "tokio")]
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        let runtime = runtime.unwrap();
        let handle = runtime.handle().clone();
        let tokio = move || boxed(turnwise::executor::Tokio::new(handle.clone()));
        places.push(Place {
            name: "tokio",
            executor: Some(Box::new(tokio)),
            ends: Box::new(move || runtime.shutdown_background()),
        });
    }
    places
}

/// With `floods` actors that are never idle in each place, checks that `call` of one of them
/// returns in time.
#[track_caller]
fn comes_back(places: Vec<Place>, floods: usize, call: fn(&Actor<u64>)) {
    let mut late = Vec::new();
    for Place { name, executor, ends } in places {
        let stop = Arc::new(AtomicBool::new(false));
        let actors: Vec<Actor<u64>> = (0..floods)
            .map(|_| match &executor {
                None => Actor::new(0),
                Some(executor) => {
                    let executor = executor();
                    let executor = move |drain| executor.execute(drain);
                    // Short drains: a call often meets the actor between two of them.
                    Actor::builder().executor(executor).budget(2).spawn(0).unwrap()
                }
            })
            .collect();
        let end = Instant::now() + FLOOD;
        actors.iter().for_each(|actor| flood(actor.clone(), stop.clone(), end));
        let took = must_end({
            let actor = actors[0].clone();
            move || {
                // Repeated, because it is chance whether a call meets the wrong moment.
                let (begun, mut longest) = (Instant::now(), Duration::ZERO);
                while begun.elapsed() < TRIES {
                    let called = Instant::now();
                    call(&actor);
                    longest = longest.max(called.elapsed());
                }
                longest
            }
        });
        stop.store(true, SeqCst);
        if took >= BOUND {
            late.push(format!("{name}: {took:?}"));
        }
        drop(actors);
        ends();
    }
    assert!(late.is_empty(), "kept for as long as the flood lasts: {late:?}");
}

/// A caller that finds the actor pending may drain it to the end of the flood.
fn late_queue() -> Vec<Place> {
    vec![queue("a queue whose runner is late", Duration::from_millis(200))]
}

fn look(actor: &Actor<u64>) {
    let _ = wait_for(actor.call(|turns| *turns), Limit::Immediate);
}

fn ask_in_time(actor: &Actor<u64>) {
    let _ = ask_within(actor, Duration::from_millis(100), |turns| *turns);
}

fn poll(actor: &Actor<u64>) {
    let _ = poll_once(&mut actor.call(|turns| *turns));
}

fn with(actor: &Actor<u64>) {
    actor.with(|turns| *turns).unwrap();
}

fn wait(actor: &Actor<u64>) {
    actor.call(|turns| *turns).wait().unwrap();
}

fn awaits(actor: &Actor<u64>) {
    block_on(actor.call(|turns| *turns)).unwrap();
}

fn ended_within(actor: &Actor<u64>) {
    assert_eq!(actor.ended().within(Duration::from_millis(100)), Ok(false));
}

fn waits_for_so_long(actor: &Actor<u64>) {
    let _ = wait_for(actor.call(|turns| *turns), Duration::from_millis(100));
}

/// `wait_timeout(zero)` took 3.6 s beside a flood of 3 s.
#[test]
fn limit_of_zero_holds_on_an_executor() {
    comes_back(late_queue(), 1, look);
}

/// `ask_within(10 ms)` took 4.0 s.
#[test]
fn limit_of_an_ask_holds_on_an_executor() {
    comes_back(late_queue(), 1, ask_in_time);
    comes_back(late_queue(), 1, waits_for_so_long);
}

/// One `poll` of a `Reply` took 4.1 s.
#[test]
fn poll_comes_back_on_an_executor() {
    comes_back(late_queue(), 1, poll);
}

/// `with` took 4.1 s, although its own turn was over long before.
#[test]
fn with_comes_back_on_an_executor() {
    comes_back(late_queue(), 1, with);
}

/// `call().wait()`, whose own turn was over long before.
#[test]
fn wait_comes_back_on_an_executor() {
    comes_back(late_queue(), 1, wait);
}

/// The wait for an end that does not come.
#[test]
fn wait_ended_comes_back_on_an_executor() {
    comes_back(late_queue(), 1, ended_within);
}

/// `call().wait()` of one of four actors that send to themselves.
#[test]
fn wait_comes_back_beside_a_flood() {
    comes_back(places(), 4, wait);
}

/// `ask_within(100 ms)`.
#[test]
fn limit_of_an_ask_holds_beside_a_flood() {
    comes_back(places(), 4, ask_in_time);
}

/// A limit of 100 ms for an answer.
#[test]
fn limit_of_a_wait_holds_beside_a_flood() {
    comes_back(places(), 4, waits_for_so_long);
}

/// A zero limit.
#[test]
fn limit_of_zero_holds_beside_a_flood() {
    comes_back(places(), 4, look);
}

/// `.await`.
#[test]
fn await_comes_back_beside_a_flood() {
    comes_back(places(), 4, awaits);
}

/// `with`.
#[test]
fn with_comes_back_beside_a_flood() {
    comes_back(places(), 4, with);
}

/// `ended().within(100 ms)`.
#[test]
fn limit_of_wait_ended_holds_beside_a_flood() {
    comes_back(places(), 4, ended_within);
}

/// Waits for room in a small mailbox that two threads keep full.
#[test]
fn waits_for_room_come_back_beside_a_flood() {
    const LIMIT: Duration = Duration::from_millis(100);
    type Call = fn(&Actor<u64>);
    let calls: [(&str, Call); 6] = [
        ("send within", |actor| _ = actor.waiting().send(|_| ()).within(LIMIT)),
        ("one look", |actor| _ = actor.waiting().call(|_| ()).within(Limit::Immediate)),
        ("call within", |actor| _ = actor.waiting().call(|_| ()).within(LIMIT)),
        ("send", |actor| actor.waiting().send(|_| ()).wait().unwrap()),
        ("call", |actor| actor.waiting().call(|_| ()).wait().unwrap()),
        ("await", |actor| block_on(actor.waiting().call(|_| ())).unwrap()),
    ];
    let mut late = Vec::new();
    for Place { name, executor, ends } in places() {
        let builder = Actor::builder().capacity(4, Overflow::Reject);
        let actor = match executor {
            None => builder.spawn(0).unwrap(),
            Some(executor) => {
                let executor = executor();
                let executor = move |drain| executor.execute(drain);
                builder.executor(executor).budget(2).spawn(0).unwrap()
            }
        };
        let end = Instant::now() + FLOOD;
        let stop = Arc::new(AtomicBool::new(false));
        let feeders = [(); 2].map(|()| {
            let (actor, stop) = (actor.clone(), stop.clone());
            thread::spawn(move || {
                while !stop.load(SeqCst) && Instant::now() < end {
                    let _ = actor.send(|turns| *turns += 1);
                }
            })
        });
        for (call_name, call) in calls {
            let (begun, mut longest) = (Instant::now(), Duration::ZERO);
            while begun.elapsed() < TRIES / 6 {
                let called = Instant::now();
                call(&actor);
                longest = longest.max(called.elapsed());
            }
            if longest >= BOUND {
                late.push(format!("{name}, {call_name}: {longest:?}"));
            }
        }
        stop.store(true, SeqCst);
        feeders.into_iter().for_each(|feeder| feeder.join().unwrap());
        drop(actor);
        ends();
    }
    assert!(late.is_empty(), "kept for as long as the flood lasts: {late:?}");
}

/// A queue that is run with a limit of zero, or with a limit at all.
#[test]
fn limit_of_a_queue_holds_beside_a_flood() {
    for limit in [Duration::ZERO, Duration::from_millis(50)] {
        let queue = DrainQueue::new();
        let actor = Actor::builder().executor(queue.handle()).spawn(0).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        flood(actor, stop.clone(), Instant::now() + FLOOD);
        let begun = Instant::now();
        queue.run_for(limit);
        let took = begun.elapsed();
        stop.store(true, SeqCst);
        queue.run_until_idle();
        assert!(took < BOUND, "a limit of {limit:?} took {took:?}");
    }
}

/// A pool that is shut down.
#[test]
fn limit_of_a_pool_holds_beside_a_flood() {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        let actor = Actor::builder().executor(pool.handle()).spawn(0).unwrap();
        flood(actor, stop.clone(), Instant::now() + FLOOD);
    }
    let begun = Instant::now();
    let shutdown = pool.shutdown(Duration::from_millis(50));
    let took = begun.elapsed();
    stop.store(true, SeqCst);
    assert!(took < BOUND, "{shutdown:?} took {took:?}");
}
