//! Waiting: for an answer, for idle, for the end; by a thread or by a task.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::{CountWakes, Gate, Held, Tally, block_on, must_end, quiet_panic, size};
use turnwise::{Actor, AskError, Reply, WaitError};

fn poll<R>(reply: &mut Reply<R>, waker: &Waker) -> Poll<Result<R, AskError>> {
    Pin::new(reply).poll(&mut Context::from_waker(waker))
}

fn counting() -> (Arc<CountWakes>, Waker) {
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(wakes.clone());
    (wakes, waker)
}

#[test]
fn an_answer_that_is_there_takes_no_wait() {
    let actor = Actor::new(5);
    let reply = actor.ask(|n| *n);
    assert!(reply.is_ready());
    assert_eq!(reply.wait_timeout(Duration::ZERO).unwrap(), 5);
    assert_eq!(block_on(actor.ask(|n| *n)), Ok(5));
    assert_eq!(poll(&mut actor.ask(|n| *n), Waker::noop()), Poll::Ready(Ok(5)));
}

#[test]
fn a_limit_of_zero_is_one_look_and_the_reply_comes_back() {
    must_end(|| {
        let actor = Actor::new(5);
        let held = Held::hold(&actor);
        let mut reply = actor.ask(|n| *n);
        for limit in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1)] {
            match reply.wait_timeout(limit) {
                Err(WaitError::TimedOut(same)) => reply = same,
                other => panic!("{other:?}"),
            }
        }
        assert!(!reply.is_ready());
        held.let_go();
        assert!(reply.is_ready());
        assert_eq!(reply.wait_timeout(Duration::ZERO).unwrap(), 5);
    });
}

#[test]
fn a_huge_limit_is_no_limit() {
    must_end(|| {
        let actor = Actor::new(5);
        let held = Held::hold_until_waiting(&actor, 1);
        assert_eq!(actor.ask(|n| *n).wait_timeout(Duration::MAX).unwrap(), 5);
        held.let_go();
        actor.close();
        assert_eq!(actor.wait_ended(Duration::MAX), Ok(true));
    });
}

#[test]
fn a_reply_is_a_future_on_any_runtime() {
    must_end(|| {
        let actor = Actor::new(5);
        for _ in 0..size(20, 1_000) {
            let held = Held::hold_until_waiting(&actor, 1);
            assert_eq!(block_on(actor.ask(|n| *n)), Ok(5));
            held.let_go();
        }
        let sum = block_on(async {
            let one = actor.ask(|n| *n).await?;
            let two = actor.ask(move |n| *n + one).await?;
            Ok::<_, AskError>(one + two)
        });
        assert_eq!(sum, Ok(15));
    });
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_is_woken() {
    let actor = Actor::new(5);
    let held = Held::hold(&actor);
    let mut reply = actor.ask(|n| *n);
    let ((first, one), (second, two)) = (counting(), counting());
    assert!(poll(&mut reply, &one).is_pending());
    assert!(poll(&mut reply, &one).is_pending());
    assert!(poll(&mut reply, &two).is_pending());
    drop(one);
    assert_eq!(Arc::strong_count(&first), 1, "nothing keeps the old one");
    held.let_go();
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (0, 1));
    assert!(reply.is_ready());
    assert_eq!(poll(&mut reply, &two), Poll::Ready(Ok(5)));
}

#[test]
fn a_poll_drains_a_mailbox_that_nobody_drains() {
    let actor = Actor::new(5);
    let mut reply = None;
    actor.enqueue(|n| *n += 1).unwrap();
    Actor::new(()).with(|()| reply = Some(actor.ask(|n| *n))).unwrap();
    assert_eq!(poll(&mut reply.unwrap(), Waker::noop()), Poll::Ready(Ok(6)));
}

#[test]
fn a_dropped_reply_leaves_its_question_and_drops_its_waker() {
    let actor = Actor::new(5);
    let held = Held::hold(&actor);
    let mut reply = actor.ask(|n| *n += 1);
    let (wakes, waker) = counting();
    assert!(poll(&mut reply, &waker).is_pending());
    drop((reply, waker));
    held.let_go();
    assert_eq!(Arc::strong_count(&wakes), 1);
    assert_eq!(actor.with(|n| *n), Ok(6));
}

#[test]
fn a_cancelled_question_never_runs_and_is_dropped_at_once() {
    let actor = Actor::new(5);
    let tally = Tally::default();
    let held = Held::hold(&actor);
    let token = tally.token();
    let reply = actor.ask(move |n| {
        *n += 1;
        token.handle();
    });
    let later = actor.ask(|n| *n);
    assert!(reply.cancel().is_ok());
    assert_eq!(tally.dropped(), 1);
    assert_eq!(actor.len(), 3, "it keeps its place");
    held.let_go();
    assert_eq!(later.wait(), Ok(5));
    // Too late: it runs already, or is done.
    let done = actor.ask(|n| *n).cancel().unwrap_err();
    assert_eq!(done.wait(), Ok(5));
    tally.check();
}

#[test]
fn cancelling_under_fire_runs_a_question_or_drops_it() {
    must_end(|| {
        let tally = Tally::default();
        let rounds = size(2_000, 100_000);
        let actor = Actor::new(0_usize);
        let gate = Gate::new(2);
        let cancelled = thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..rounds {
                    gate.pass();
                    actor.send(|_| ()).unwrap();
                    actor.drain();
                    gate.pass();
                }
            });
            let mut cancelled = 0;
            for round in 0..rounds {
                let token = tally.token();
                actor.enqueue(|_| ()).unwrap();
                let mut reply = None;
                // From inside a turn, so that it waits.
                let question = move |n: &mut usize| {
                    *n += 1;
                    token.handle();
                };
                let inner = Actor::new(());
                inner.with(|()| reply = Some(actor.ask(question))).unwrap();
                gate.pass();
                match reply.unwrap().cancel() {
                    Ok(()) => cancelled += 1,
                    Err(reply) if round % 2 == 0 => reply.wait().unwrap(),
                    Err(reply) => drop(reply),
                }
                gate.pass();
            }
            cancelled
        });
        actor.wait_idle().unwrap();
        tally.check();
        assert_eq!(tally.dropped(), cancelled);
        assert_eq!(actor.with(|n| *n), Ok(tally.handled()));
    });
}

#[test]
fn a_panicking_question_is_answered_with_its_text() {
    must_end(|| {
        let actor = Actor::builder(0).on_panic(turnwise::Panic::Resume).spawn().unwrap();
        let held = Held::hold_until_waiting(&actor, 2);
        let one = actor.ask(|_| -> u32 { quiet_panic("one") });
        let two = actor.ask(|_| -> u32 { std::panic::resume_unwind(Box::new(String::from("two"))) });
        assert_eq!(block_on(one), Err(AskError::Panicked("one".into())));
        assert_eq!(two.wait(), Err(AskError::Panicked("two".into())));
        held.let_go();
    });
}

#[test]
fn waiting_for_oneself_fails_at_once() {
    must_end(|| {
        let actor = Actor::new(1);
        let me = actor.clone();
        let answers = actor.with(move |_| {
            let mut polled = me.ask(|n| *n);
            (
                me.with(|n| *n),
                me.ask(|n| *n).wait(),
                me.ask(|n| *n).wait_timeout(Duration::MAX).map_err(|error| error.to_string()),
                me.wait_idle(),
                me.wait_ended(Duration::MAX),
                poll(&mut polled, Waker::noop()),
                me.drain(),
            )
        });
        let deadlock = AskError::Deadlock;
        let text = Err(deadlock.to_string());
        let poll = Poll::Ready(Err(deadlock.clone()));
        let expected = (Err(deadlock.clone()), Err(deadlock.clone()), text, Err(deadlock.clone()), Err(deadlock), poll, false);
        assert_eq!(answers.unwrap(), expected);
        // The questions stayed in the mailbox, and were run.
        assert!(actor.is_idle());
    });
}

#[test]
fn waiting_for_idle_drains_what_nobody_drains() {
    let actor = Actor::new(0);
    actor.wait_idle().unwrap();
    (0..5).for_each(|_| actor.enqueue(|n| *n += 1).unwrap());
    actor.wait_idle().unwrap();
    assert!(actor.is_idle());
    assert_eq!(actor.with(|n| *n), Ok(5));
}

#[test]
fn several_threads_wait_for_idle_and_for_the_end() {
    must_end(|| {
        for round in 0..size(1_500, 10_000) {
            let actor = Actor::new(0);
            let held = Held::hold(&actor);
            let gate = Gate::new(4);
            thread::scope(|scope| {
                for me in 0..3 {
                    let (actor, gate) = (&actor, &gate);
                    scope.spawn(move || {
                        gate.pass();
                        match me {
                            0 => actor.wait_idle().unwrap(),
                            1 => assert_eq!(actor.wait_ended(Duration::MAX), Ok(true)),
                            _ => _ = actor.send(|n| *n += 1),
                        }
                    });
                }
                gate.pass();
                if round % 2 == 0 {
                    held.let_go_soon();
                    actor.close();
                } else {
                    actor.stop();
                    held.let_go_soon();
                }
            });
            assert!(actor.is_closed() && actor.is_idle());
            held.let_go();
        }
    });
}

#[test]
fn waiting_for_the_end_takes_its_time_and_no_more() {
    must_end(|| {
        let actor = Actor::new(0);
        assert_eq!(actor.wait_ended(Duration::ZERO), Ok(false));
        let start = Instant::now();
        assert_eq!(actor.wait_ended(Duration::from_millis(20)), Ok(false));
        assert!(start.elapsed() >= Duration::from_millis(20));
        // Closed, but not ended: a turn still runs.
        let held = Held::hold(&actor);
        actor.close();
        assert_eq!(actor.wait_ended(Duration::from_millis(1)), Ok(false));
        held.let_go();
        assert_eq!(actor.wait_ended(Duration::ZERO), Ok(true));
    });
}

#[test]
fn waiting_under_fire_always_ends() {
    must_end(|| {
        let actor = Actor::new(0_u64);
        let each = size(2_000, 100_000) as u64;
        thread::scope(|scope| {
            for me in 0..4 {
                let actor = &actor;
                scope.spawn(move || {
                    for i in 0..each {
                        match (me + i) % 4 {
                            0 => actor.wait_idle().unwrap(),
                            1 => block_on(actor.ask(|n| *n += 1)).unwrap(),
                            2 => _ = actor.ask(|n| *n += 1).wait_timeout(Duration::from_nanos(i % 5_000)),
                            _ => actor.enqueue(|n| *n += 1).unwrap(),
                        }
                    }
                });
            }
        });
        assert_eq!(actor.with(|n| *n), Ok(3 * each));
    });
}
