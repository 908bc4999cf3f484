//! A loop of the program's own that runs an actor: an actor on a `DrainQueue`, which no other
//! thread runs.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, ThreadId};

use crate::common::{Held, asked, must_end, queued};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, AskError, EndCause, PanicPolicy, Reason, StopCause};

fn add(n: u64) -> impl FnOnce(&mut u64) + Send + 'static {
    move |sum| *sum += n
}

fn send_ten(sum: &Actor<u64>) {
    (1..=10).for_each(|n| sum.send(add(n)).unwrap());
}

#[test]
fn a_loop_pulls_batches() {
    // The total at the end of each batch, by the hook that the loop's pulls call.
    let totals = Arc::new(Mutex::new(vec![0]));
    let seen = totals.clone();
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle());
    let sum = builder.on_batch_end(move |sum, _| seen.lock().unwrap().push(*sum)).spawn(0).unwrap();
    for _ in 0..2 {
        send_ten(&sum);
        assert_eq!(sum.len(), 10, "nothing runs outside of the loop");
        assert!(queue.run_one());
        assert!(!queue.run_one() && sum.is_idle(), "and nothing is left");
    }
    assert_eq!(*totals.lock().unwrap(), [0, 55, 110]);
}

#[test]
fn a_message_after_the_last_pull_is_handled() {
    let (queue, sum) = queued(0);
    assert!(!queue.run_one(), "the last pull");
    sum.send(add(5)).unwrap();
    assert_eq!(sum.len(), 1);
    assert!(queue.run_one());
    assert_eq!(asked(&queue, &sum, |sum| *sum), 5);
    // In the middle of a pull, from another thread: it belongs to this pull, or there is one more.
    let sum = Actor::builder().executor(queue.handle()).budget(1).spawn(0).unwrap();
    let inner = sum.clone();
    sum.send(move |_| {
        thread::spawn(move || inner.send(add(7)).unwrap()).join().unwrap();
    })
    .unwrap();
    assert!(queue.run_one());
    assert_eq!(queue.run_until_idle(), 1, "it was left to the loop");
    assert_eq!(asked(&queue, &sum, |sum| *sum), 7);
}

#[test]
fn nobody_but_the_loop_runs_the_actor() {
    must_end(|| {
        let queue = DrainQueue::new();
        let (tell, told) = channel();
        let ran = Actor::builder().executor(queue.handle()).spawn(tell).unwrap();
        let note = |tell: &mut Sender<ThreadId>| tell.send(thread::current().id()).unwrap();
        let weak = ran.downgrade();
        let others = thread::spawn(move || {
            ran.send(note).unwrap();
            let reply = ran.call(note);
            ran.with(note).unwrap();
            reply.wait().unwrap();
            ran.send(note).unwrap();
            ran.idle().wait().unwrap();
        });
        while weak.upgrade().is_some() {
            queue.run_one();
            thread::yield_now();
        }
        others.join().unwrap();
        queue.run_until_idle();
        assert_eq!(told.iter().collect::<Vec<_>>(), [thread::current().id(); 4]);
    });
}

#[test]
fn a_second_loop_finds_nothing_and_touches_nothing() {
    must_end(|| {
        let queue = Arc::new(DrainQueue::new());
        let sum = Actor::builder().executor(queue.handle()).spawn(0).unwrap();
        let first = queue.clone();
        let first = thread::spawn(move || {
            while !first.run_one() {
                thread::yield_now();
            }
        });
        let held = Held::hold(&sum);
        send_ten(&sum);
        let before = sum.len();
        assert!(!queue.run_one());
        assert_eq!((before, sum.len()), (11, 11), "the queue is untouched");
        held.let_go();
        first.join().unwrap();
        queue.run_until_idle();
        assert_eq!(asked(&queue, &sum, |sum| *sum), 55);
    });
}

#[test]
fn an_end_is_the_loops_too() {
    let (tx, ended) = channel();
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle());
    let sum = builder.on_end(move |sum, cause| tx.send((sum, cause)).unwrap()).spawn(0).unwrap();
    send_ten(&sum);
    assert!(sum.close());
    assert!(ended.try_recv().is_err(), "not before the loop comes to it");
    queue.run_until_idle();
    assert_eq!(ended.try_recv(), Ok((55, EndCause::Closed)));
    assert_eq!(sum.send(add(1)).unwrap_err().reason(), &Reason::Closed);
}

#[test]
fn a_panic_in_the_loop_gives_the_actor_up() {
    for resume in [false, true] {
        let queue = DrainQueue::new();
        let policy = if resume { PanicPolicy::Resume } else { PanicPolicy::Stop };
        let builder = Actor::builder().executor(queue.handle()).panic_policy(policy);
        let sum = builder.spawn(0).unwrap();
        sum.send(|_| crate::common::quiet_panic("in the loop")).unwrap();
        sum.send(add(1)).unwrap();
        let total = sum.call(|sum| *sum);
        assert_eq!(queue.run_until_idle(), 1);
        assert!(sum.is_idle());
        let stopped = Reason::Stopped(StopCause::Panicked("in the loop".into()));
        assert_eq!(total.wait(), if resume { Ok(1) } else { Err(AskError::from(stopped)) });
    }
}
