//! Waiting: for an answer, for idle, for the end; by a thread or by a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::common::{
    CountWakes, Gate, Held, Tally, asked, block_on, in_turn, must_end, poll_once, quiet_panic,
    size, until,
};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, ActorBuilder, AskError, Cycle, Limit, Overflow, PanicPolicy, Reason, Reply, ThreadPool,
    VirtualClock, WaitError, promise,
};

fn deadlock() -> AskError {
    AskError::from(Reason::Deadlock(Cycle::from(["i32"])))
}

fn poll<R>(reply: &mut Reply<R>, waker: &Waker) -> Poll<Result<R, AskError>> {
    Pin::new(reply).poll(&mut Context::from_waker(waker))
}

fn counting() -> (Arc<CountWakes>, Waker) {
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(wakes.clone());
    (wakes, waker)
}

fn here() -> ThreadId {
    thread::current().id()
}

#[test]
fn an_answer_that_is_there_takes_no_wait() {
    let actor = Actor::new(5);
    let reply = actor.call(|n| *n);
    assert!(reply.is_ready());
    assert_eq!(reply.wait_timeout(Duration::ZERO).unwrap(), 5);
    assert_eq!(actor.call(|n| *n).within(Duration::ZERO).unwrap(), 5);
    assert_eq!(block_on(actor.call(|n| *n)), Ok(5));
    assert_eq!(poll(&mut actor.call(|n| *n), Waker::noop()), Poll::Ready(Ok(5)));
}

#[test]
fn a_limit_of_zero_is_one_look() {
    must_end(|| {
        let actor = Actor::new(5);
        let held = Held::hold(&actor);
        let mut reply = actor.call(|n| *n);
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
        assert_eq!(actor.call(|n| *n).wait_timeout(Duration::MAX).unwrap(), 5);
        held.let_go();
        let held = Held::hold_until_waiting(&actor, 1);
        assert_eq!(actor.call(|n| *n).within(Duration::MAX).unwrap(), 5);
        held.let_go();
        actor.close();
        assert_eq!(actor.ended().within(Duration::MAX), Ok(true));
    });
}

#[test]
fn a_question_out_of_time_never_runs_or_comes_back() {
    must_end(|| {
        // Not started in time: cancelled.
        let (actor, tally) = (Actor::new(0), Tally::default());
        let held = Held::hold(&actor);
        for limit in [Duration::ZERO, Duration::from_millis(1)] {
            let token = tally.token();
            let answer = actor.call(|_| token.handle()).within(limit);
            assert!(matches!(answer, Err(WaitError::Cancelled(_))), "{answer:?}");
        }
        assert_eq!(tally.dropped(), 2, "at once");
        held.let_go();
        assert_eq!(tally.handled(), 0);
        tally.check();
        // Started in time: the reply comes back.
        let queue = DrainQueue::new();
        let actor = Actor::builder().executor(queue.handle()).spawn(7).unwrap();
        let go = Arc::new(AtomicBool::new(false));
        let (begun, goes) = (Arc::new(AtomicBool::new(false)), go.clone());
        let begins = begun.clone();
        let reply = actor.call(move |n| {
            begins.store(true, SeqCst);
            until(|| goes.load(SeqCst));
            *n
        });
        thread::scope(|scope| {
            scope.spawn(|| queue.run_one());
            until(|| begun.load(SeqCst));
            let Err(WaitError::TimedOut(reply)) = reply.within(Duration::from_millis(1)) else {
                panic!("it runs")
            };
            go.store(true, SeqCst);
            assert_eq!(reply.wait(), Ok(7));
        });
    });
}

#[test]
fn a_reply_is_a_future_on_any_runtime() {
    must_end(|| {
        let actor = Actor::new(5);
        for _ in 0..size(20, 1_000) {
            let held = Held::hold_until_waiting(&actor, 1);
            assert_eq!(block_on(actor.call(|n| *n)), Ok(5));
            held.let_go();
        }
        let sum = block_on(async {
            let one = actor.call(|n| *n).await?;
            let two = actor.call(move |n| *n + one).await?;
            Ok::<_, AskError>(one + two)
        });
        assert_eq!(sum, Ok(15));
    });
}

#[test]
fn a_reply_polled_again_says_taken() {
    must_end(|| {
        let actor = Actor::new(5);
        let taken = Poll::Ready(Err(AskError::Taken));
        // Ready from the start.
        let mut reply = actor.call(|n| *n);
        assert_eq!(poll_once(&mut reply), Poll::Ready(Ok(5)));
        assert_eq!(poll_once(&mut reply), taken);
        assert!(!reply.is_ready());
        assert_eq!(reply.wait(), Err(AskError::Taken));
        // Ready later.
        let held = Held::hold(&actor);
        let mut later = actor.call(|n| *n);
        let mut last = actor.call(|n| *n);
        assert!(poll_once(&mut later).is_pending());
        assert!(poll_once(&mut last).is_pending());
        held.let_go();
        assert_eq!(poll_once(&mut later), Poll::Ready(Ok(5)));
        assert_eq!(poll_once(&mut later), taken);
        assert!(matches!(later.wait_timeout(Duration::ZERO), Err(WaitError::Ask(AskError::Taken))));
        assert_eq!(poll_once(&mut last), Poll::Ready(Ok(5)));
        assert!(matches!(last.within(Duration::MAX), Err(WaitError::Ask(AskError::Taken))));
        // Refused.
        actor.close();
        let mut refused = actor.call(|n| *n);
        let closed = Poll::Ready(Err(AskError::from(Reason::Closed)));
        assert_eq!(poll_once(&mut refused), closed);
        assert_eq!(poll_once(&mut refused), taken);
        assert_eq!(refused.cancel().unwrap_err().wait(), Err(AskError::Taken));
        // Promised.
        let (kept, mut reply) = promise();
        assert!(poll_once(&mut reply).is_pending());
        kept.keep(1);
        assert_eq!(poll_once(&mut reply), Poll::Ready(Ok(1)));
        assert_eq!(poll_once(&mut reply), taken);
    });
}

#[test]
fn the_waker_of_the_last_poll_is_woken() {
    let actor = Actor::new(5);
    let held = Held::hold(&actor);
    let mut reply = actor.call(|n| *n);
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
fn who_comes_while_the_question_runs_is_woken() {
    must_end(|| {
        let (queue, clock) = (DrainQueue::new(), VirtualClock::new());
        let builder = Actor::builder().executor(queue.handle());
        let actor = builder.clock(clock.clone()).spawn(7).unwrap();
        for as_a_task in [true, false] {
            let (begun, begins) = mpsc::channel();
            let (go, wait) = mpsc::channel::<()>();
            let mut reply = actor.call(move |n| {
                begun.send(()).unwrap();
                let _ = wait.recv();
                *n
            });
            thread::scope(|scope| {
                scope.spawn(|| queue.run_one());
                begins.recv().unwrap();
                if as_a_task {
                    let (wakes, waker) = counting();
                    assert!(poll(&mut reply, &waker).is_pending());
                    drop(go);
                    until(|| wakes.0.load(SeqCst) == 1);
                    assert_eq!(poll_once(&mut reply), Poll::Ready(Ok(7)));
                } else {
                    let waits = scope.spawn(|| reply.wait_timeout(Duration::from_secs(3600)));
                    until(|| clock.sleepers() == 1 || waits.is_finished());
                    drop(go);
                    assert_eq!(waits.join().unwrap().unwrap(), 7);
                }
            });
        }
    });
}

#[test]
fn a_poll_in_a_turn_hands_off_what_nobody_runs() {
    must_end(|| {
        let actor = Actor::new(Vec::new());
        in_turn(|| {
            actor.send(|ran_on| ran_on.push(here())).unwrap();
            let mut reply = actor.call(|ran_on| {
                ran_on.push(here());
                ran_on.clone()
            });
            // They are run, although this turn goes on: maybe already while it is polled.
            let ran_on = match poll_once(&mut reply) {
                Poll::Ready(answer) => answer.unwrap(),
                Poll::Pending => {
                    until(|| reply.is_ready());
                    reply.wait().unwrap()
                }
            };
            assert_eq!(ran_on.len(), 2);
            assert!(!ran_on.contains(&here()), "a poll runs no turn: another thread does");
        });
    });
}

#[test]
fn a_promise_polled_in_a_turn_is_kept_meanwhile() {
    must_end(|| {
        let keeper = Actor::new(());
        let answer = in_turn(|| {
            let (promise, reply) = promise();
            keeper.send(move |()| promise.keep(5)).unwrap();
            // This turn waits for its own message, as a task.
            block_on(reply)
        });
        assert_eq!(answer, Ok(5));
    });
}

#[test]
fn a_dropped_reply_leaves_its_question() {
    let actor = Actor::new(5);
    let held = Held::hold(&actor);
    let mut reply = actor.call(|n| *n += 1);
    let (wakes, waker) = counting();
    assert!(poll(&mut reply, &waker).is_pending());
    drop((reply, waker));
    held.let_go();
    assert_eq!(Arc::strong_count(&wakes), 1);
    assert_eq!(actor.with(|n| *n), Ok(6));
}

#[test]
fn a_cancelled_question_is_dropped_and_never_runs() {
    let actor = Actor::new(5);
    let tally = Tally::default();
    let held = Held::hold(&actor);
    let token = tally.token();
    let reply = actor.call(move |n| {
        *n += 1;
        token.handle();
    });
    let later = actor.call(|n| *n);
    assert!(reply.cancel().is_ok());
    assert_eq!(tally.dropped(), 1);
    assert_eq!(actor.len(), 3, "it keeps its place");
    held.let_go();
    assert_eq!(later.wait(), Ok(5));
    // Too late: it runs already, or is done.
    let done = actor.call(|n| *n).cancel().unwrap_err();
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
                    // Takes over the messages that the other one has left in its turn.
                    actor.send(|_| ()).unwrap();
                    gate.pass();
                }
            });
            let mut cancelled = 0;
            for round in 0..rounds {
                let token = tally.token();
                let question = move |n: &mut usize| {
                    *n += 1;
                    token.handle();
                };
                cancelled += in_turn(|| {
                    let reply = actor.call(question);
                    gate.pass();
                    let cancelled = match reply.cancel() {
                        Ok(()) => 1,
                        Err(reply) if round % 2 == 0 => reply.wait().map(|()| 0).unwrap(),
                        Err(_) => 0,
                    };
                    gate.pass();
                    cancelled
                });
            }
            cancelled
        });
        actor.idle().wait().unwrap();
        tally.check();
        assert_eq!(tally.dropped(), cancelled);
        assert_eq!(actor.with(|n| *n), Ok(tally.handled()));
        println!("{rounds} questions: {cancelled} cancelled");
    });
}

#[test]
fn a_panicking_question_is_answered_with_its_text() {
    must_end(|| {
        let actor = Actor::builder().panic_policy(PanicPolicy::Resume).spawn(0).unwrap();
        let held = Held::hold_until_waiting(&actor, 2);
        let one = actor.call(|_| -> u32 { quiet_panic("one") });
        let two =
            actor.call(|_| -> u32 { std::panic::resume_unwind(Box::new(String::from("two"))) });
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
            let mut polled = me.call(|n| *n);
            (
                me.with(|n| *n),
                me.call(|n| *n).wait(),
                me.call(|n| *n).wait_timeout(Duration::MAX).map_err(|error| error.to_string()),
                poll(&mut polled, Waker::noop()),
                me.idle().wait(),
                me.ended().within(Duration::MAX),
                poll_once(&mut me.idle()),
                poll_once(&mut me.ended()),
            )
        });
        let own = Reason::Deadlock(Cycle::from(["i32"]));
        let expected = (
            Err(deadlock()),
            Err(deadlock()),
            Err(format!("no answer from `i32`: {own}")),
            Poll::Ready(Err(deadlock())),
            Err(own.clone()),
            Err(own.clone()),
            Poll::Ready(Err(own.clone())),
            Poll::Ready(Err(own)),
        );
        assert_eq!(answers.unwrap(), expected);
        // The requests stayed in the mailbox, and were run.
        assert!(actor.is_idle());
    });
}

#[test]
fn a_question_given_up_in_its_own_actor_never_runs() {
    let actor = Actor::new(0);
    let me = actor.clone();
    let given_up = actor.with(move |_| me.call(|n| *n += 1).within(Duration::from_millis(1)));
    let Ok(Err(WaitError::Ask(error))) = given_up else { panic!("{given_up:?}") };
    assert_eq!(error, deadlock());
    assert_eq!(actor.with(|n| *n), Ok(0));
}

#[test]
fn waiting_for_idle_runs_what_nobody_runs() {
    must_end(|| {
        let actor = Actor::new(Vec::new());
        actor.idle().wait().unwrap();
        // This thread has deferred it, and is inside a turn.
        in_turn(|| {
            (0..5).for_each(|_| actor.send(|ran_on| ran_on.push(here())).unwrap());
            let waiter = thread::scope(|scope| {
                let waits = scope.spawn(|| {
                    actor.idle().wait().unwrap();
                    here()
                });
                waits.join().unwrap()
            });
            assert!(actor.is_idle());
            assert_eq!(actor.with(|ran_on| ran_on.clone()).unwrap(), [waiter; 5]);
        });
    });
}

#[test]
fn many_wait_for_idle_and_for_the_end() {
    must_end(|| {
        for round in 0..size(1_500, 10_000) {
            let actor = Actor::new(0);
            let held = Held::hold(&actor);
            let gate = Gate::new(6);
            thread::scope(|scope| {
                for me in 0..5 {
                    let (actor, gate) = (&actor, &gate);
                    scope.spawn(move || {
                        gate.pass();
                        match me {
                            0 => actor.idle().wait().unwrap(),
                            1 => assert_eq!(actor.ended().within(Duration::MAX), Ok(true)),
                            2 => block_on(actor.idle()).unwrap(),
                            3 => block_on(actor.ended()).unwrap(),
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
fn idle_and_ended_are_futures() {
    must_end(|| {
        let actor = Actor::new(0);
        assert_eq!(poll_once(&mut actor.idle()), Poll::Ready(Ok(())));
        let (mut idle, mut ended) = (actor.idle(), actor.ended());
        let held = Held::hold(&actor);
        let ((idle_wakes, idle_waker), (end_wakes, end_waker)) = (counting(), counting());
        for _ in 0..2 {
            let cx = &mut Context::from_waker(&idle_waker);
            assert!(Pin::new(&mut idle).poll(cx).is_pending());
            let cx = &mut Context::from_waker(&end_waker);
            assert!(Pin::new(&mut ended).poll(cx).is_pending());
        }
        held.let_go();
        assert_eq!((idle_wakes.0.load(SeqCst), end_wakes.0.load(SeqCst)), (1, 0));
        assert_eq!(poll_once(&mut idle), Poll::Ready(Ok(())));
        assert!(Pin::new(&mut ended).poll(&mut Context::from_waker(&end_waker)).is_pending());
        actor.close();
        assert_eq!(end_wakes.0.load(SeqCst), 1);
        assert_eq!(poll_once(&mut ended), Poll::Ready(Ok(())));
        assert_eq!(poll_once(&mut ended), Poll::Ready(Ok(())), "and it stays so");
        // Dropping one leaves nothing behind.
        let actor = Actor::new(0);
        let (wakes, waker) = counting();
        let held = Held::hold(&actor);
        for mut future in [actor.idle(), actor.ended()] {
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        drop(waker);
        assert_eq!(Arc::strong_count(&wakes), 1);
        actor.close();
        held.let_go();
        assert_eq!(wakes.0.load(SeqCst), 0);
    });
}

#[test]
fn waiting_for_the_end_takes_its_time_and_no_more() {
    must_end(|| {
        let actor = Actor::new(0);
        assert_eq!(actor.ended().within(Duration::ZERO), Ok(false));
        let start = Instant::now();
        assert_eq!(actor.ended().within(Duration::from_millis(20)), Ok(false));
        assert!(start.elapsed() >= Duration::from_millis(20));
        // Closed, but not ended: a turn still runs.
        let held = Held::hold(&actor);
        actor.close();
        assert_eq!(actor.ended().within(Duration::from_millis(1)), Ok(false));
        held.let_go();
        assert_eq!(actor.ended().within(Duration::ZERO), Ok(true));
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
                            0 if i % 8 == 0 => block_on(actor.idle()).unwrap(),
                            0 => actor.idle().wait().unwrap(),
                            1 => block_on(actor.call(|n| *n += 1)).unwrap(),
                            2 => {
                                let limit = Duration::from_nanos(i % 5_000);
                                _ = actor.call(|n| *n += 1).wait_timeout(limit);
                            }
                            _ => actor.posted().send(|n| *n += 1).unwrap(),
                        }
                    }
                });
            }
        });
        assert_eq!(actor.with(|n| *n), Ok(3 * each));
    });
}

// The rule: an actor with an executor is run by its executor, and by no other thread.

#[test]
fn no_caller_runs_an_actor_that_has_an_executor() {
    must_end(|| {
        let limit = Duration::from_millis(1);
        let queue = DrainQueue::new();
        let ended = Arc::new(AtomicUsize::new(0));
        let (told, ran) = (ended.clone(), Arc::new(AtomicUsize::new(0)));
        let actor = Actor::builder()
            .executor(queue.handle())
            .on_end(move |_, _| _ = told.fetch_add(1, SeqCst))
            .spawn(ran.clone())
            .unwrap();
        let count = |ran: &mut Arc<AtomicUsize>| _ = ran.fetch_add(1, SeqCst);
        actor.send(count).unwrap();
        actor.send_many([count, count]).unwrap();
        actor.posted().send(count).unwrap();
        actor.waiting().send(count).wait().unwrap();
        let mut polled = actor.call(count);
        assert!(poll_once(&mut polled).is_pending());
        assert!(poll_once(&mut polled).is_pending());
        let waited = actor.call(count).wait_timeout(limit);
        let Err(WaitError::TimedOut(waited)) = waited else { panic!("{waited:?}") };
        assert!(matches!(actor.call(count).within(limit), Err(WaitError::Cancelled(_))));
        let asking = actor.waiting().call(count).within(Duration::ZERO);
        assert!(matches!(asking, Err(WaitError::Cancelled(_))));
        let (mut idle, mut end) = (actor.idle(), actor.ended());
        assert!(poll_once(&mut idle).is_pending() && poll_once(&mut end).is_pending());
        assert_eq!(actor.ended().within(limit), Ok(false));
        in_turn(|| {
            actor.send(count).unwrap();
            assert!(poll_once(&mut actor.call(count)).is_pending());
        });
        assert!(actor.close());
        drop(actor.clone());
        assert_eq!((ran.load(SeqCst), ended.load(SeqCst), queue.len()), (0, 0, 1));
        queue.run_until_idle();
        assert_eq!((ran.load(SeqCst), ended.load(SeqCst)), (9, 1));
        assert_eq!(waited.wait(), Ok(()));
        assert_eq!(poll_once(&mut polled), Poll::Ready(Ok(())));
        assert_eq!(poll_once(&mut idle), Poll::Ready(Ok(())));
        assert_eq!(poll_once(&mut end), Poll::Ready(Ok(())));
    });
}

#[test]
fn waiting_callers_sleep_until_the_executor_is_done() {
    must_end(|| {
        let queue = DrainQueue::new();
        let builder = Actor::builder();
        let actor = builder.executor(queue.handle()).spawn(Vec::<ThreadId>::new()).unwrap();
        let callers: [fn(&Actor<Vec<ThreadId>>); 5] = [
            |actor| actor.with(|ran_on| ran_on.push(here())).unwrap(),
            |actor| actor.call(|ran_on| ran_on.push(here())).wait().unwrap(),
            |actor| block_on(actor.call(|ran_on| ran_on.push(here()))).unwrap(),
            |actor| {
                actor.send(|ran_on| ran_on.push(here())).unwrap();
                actor.idle().wait().unwrap();
            },
            |actor| {
                let sending = actor.waiting().send(|ran_on| ran_on.push(here()));
                block_on(sending).unwrap();
                block_on(actor.idle()).unwrap();
            },
        ];
        thread::scope(|scope| {
            let actor = &actor;
            let callers = callers.into_iter().map(|call| scope.spawn(move || call(actor)));
            let callers: Vec<_> = callers.collect();
            until(|| {
                queue.run_until_idle();
                callers.iter().all(|caller| caller.is_finished())
            });
        });
        assert_eq!(asked(&queue, &actor, |ran_on| ran_on.clone()), [here(); 5]);
    });
}

// An actor that is fed without an end keeps no caller, whatever thread runs it.
#[test]
fn callers_leave_a_flood_when_their_time_is_over() {
    must_end(|| {
        struct Feed {
            own: Option<Actor<Feed>>,
            over: Arc<AtomicBool>,
        }
        fn again(feed: &mut Feed) {
            let Some(own) = feed.own.take() else { return };
            if !feed.over.load(SeqCst) {
                own.send(again).unwrap();
                feed.own = Some(own);
            }
        }
        type Build = fn(ActorBuilder<Feed>, &ThreadPool) -> ActorBuilder<Feed>;
        let builds: [Build; 2] =
            [|builder, _| builder, |builder, pool| builder.executor(pool.handle())];
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let longest = Mutex::new(Duration::ZERO);
        for build in builds {
            let over = Arc::new(AtomicBool::new(false));
            let actors: Vec<_> = (0..4)
                .map(|_| {
                    let builder = Actor::builder();
                    let actor = build(builder, &pool)
                        .spawn(Feed { own: None, over: over.clone() })
                        .unwrap();
                    let own = actor.clone();
                    actor.with(move |feed| feed.own = Some(own)).unwrap();
                    actor
                })
                .collect();
            actors.iter().for_each(|actor| actor.send(again).unwrap());
            let limit = Duration::from_millis(20);
            let timed = |call: &dyn Fn()| {
                let start = Instant::now();
                call();
                let mut longest = longest.lock().unwrap();
                *longest = start.elapsed().max(*longest);
            };
            for actor in &actors {
                timed(&|| _ = actor.call(|_| ()).wait_timeout(Duration::ZERO));
                timed(&|| _ = actor.call(|_| ()).wait_timeout(limit));
                timed(&|| _ = actor.call(|_| ()).within(limit));
                timed(&|| _ = poll_once(&mut actor.call(|_| ())));
                timed(&|| assert_eq!(actor.ended().within(limit), Ok(false)));
                timed(&|| actor.call(|_| ()).wait().unwrap());
                timed(&|| actor.with(|_| ()).unwrap());
                timed(&|| block_on(actor.call(|_| ())).unwrap());
            }
            over.store(true, SeqCst);
            actors.iter().for_each(|actor| actor.idle().wait().unwrap());
        }
        let longest = longest.into_inner().unwrap();
        assert!(longest < Duration::from_secs(3), "{longest:?}");
        println!("longest call under a flood: {longest:?}");
    });
}

/// Says on which thread it is dropped.
struct Ends(mpsc::Sender<ThreadId>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.send(here()).unwrap();
    }
}

/// An actor with room for one message, and where it ends.
fn narrow() -> (Actor<Ends>, mpsc::Receiver<ThreadId>) {
    let (tell, told) = mpsc::channel();
    let builder = Actor::builder().capacity(1, Overflow::Reject);
    (builder.spawn(Ends(tell)).unwrap(), told)
}

/// The poll that makes this future ready drops the last handle.
fn ends_elsewhere<F: Future + Unpin>(wait: impl FnOnce(&Actor<Ends>) -> F) {
    let (actor, told) = narrow();
    let held = Held::hold(&actor);
    actor.send(|_| ()).unwrap();
    let mut waits = wait(&actor);
    drop(actor);
    assert!(poll_once(&mut waits).is_pending());
    held.let_go();
    assert!(poll_once(&mut waits).is_ready());
    assert_ne!(told.recv(), Ok(here()));
}

#[test]
fn an_actor_does_not_end_in_the_poll_of_its_last_sender() {
    must_end(|| {
        ends_elsewhere(|actor| actor.waiting().send(|_| ()));
        ends_elsewhere(|actor| actor.waiting().call(|_| ()));
        ends_elsewhere(|actor| actor.waiting().send(|_| ()).within_async(Limit::Unlimited));
        ends_elsewhere(|actor| actor.waiting().call(|_| ()).within_async(Limit::Unlimited));
    });
}

/// The future gives up in its poll, and with it the last handle of an actor that is pending.
fn runs_elsewhere<F: Future + Unpin + Send + 'static>(
    wait: impl FnOnce(&Actor<Ends>) -> F + Send + 'static,
) {
    let (actor, told) = narrow();
    let (ran, sees) = mpsc::channel();
    let (tell, waits) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let turn = move |_: &mut ()| {
            actor.send(move |_| ran.send(here()).unwrap()).unwrap();
            tell.send(wait(&actor)).unwrap();
            drop(actor);
            let _ = resumed.recv();
        };
        Actor::new(()).send(turn).unwrap();
    });
    assert!(poll_once(&mut waits.recv().unwrap()).is_ready());
    drop(resume);
    other.join().unwrap();
    assert_ne!(sees.recv(), Ok(here()));
    assert_ne!(told.recv(), Ok(here()));
}

#[test]
fn what_gives_up_in_a_poll_runs_nothing() {
    must_end(|| {
        runs_elsewhere(|actor| actor.waiting().send(|_| ()).within_async(Limit::Immediate));
        runs_elsewhere(|actor| actor.waiting().call(|_| ()).within_async(Limit::Immediate));
    });
}
