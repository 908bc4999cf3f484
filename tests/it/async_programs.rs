//! Actors in async programs: awaits run no turns, and turns keep their runtime.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::child::in_child;
use crate::common::{Tally, until};
use crate::verbs::{poll_once, sending};
use tokio::runtime::{Builder, Handle, Runtime};
use turnwise::executor::{DrainQueue, Tokio};
use turnwise::{Actor, Overflow};

const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime with one thread for blocking work, which is occupied until the result is dropped, so
/// that blocking work waits.
fn occupied(mut builder: Builder) -> (Runtime, mpsc::Sender<()>) {
    let runtime = builder.max_blocking_threads(1).build().unwrap();
    let (keep, kept) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    runtime.spawn_blocking(move || {
        begun.send(()).unwrap();
        let _ = kept.recv_timeout(Duration::from_secs(2));
    });
    begins.recv().unwrap();
    (runtime, keep)
}

fn multi_thread() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2);
    builder
}

/// `Reply::poll` took the mailbox over: 200 turns that block ran inside one poll.
#[test]
fn poll_of_a_reply_runs_no_turn() {
    let queue = DrainQueue::new();
    let actor = Actor::builder().executor(queue.handle()).spawn(Vec::new()).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..200 {
        let ran = ran.clone();
        actor
            .send(move |seen: &mut Vec<ThreadId>| {
                thread::sleep(Duration::from_millis(1));
                seen.push(thread::current().id());
                ran.fetch_add(1, SeqCst);
            })
            .unwrap();
    }
    let mut reply = actor.call(|seen| seen.len());
    assert!(poll_once(&mut reply).is_pending(), "a poll has run what it asked for");
    assert_eq!(ran.load(SeqCst), 0, "turns ran inside of one poll");
    queue.run_until_idle();
    assert_eq!(poll_once(&mut reply), std::task::Poll::Ready(Ok(200)));
}

/// A poll of a send that waits for room.
#[test]
fn poll_of_a_send_runs_no_turn() {
    let queue = DrainQueue::new();
    let actor =
        Actor::builder().capacity(4, Overflow::Reject).executor(queue.handle()).spawn(0).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..4 {
        let ran = ran.clone();
        actor.send(move |_| _ = ran.fetch_add(1, SeqCst)).unwrap();
    }
    let mut waiting = Box::pin(sending(&actor, |n| *n += 1));
    assert!(poll_once(&mut waiting).is_pending(), "a poll has made the room that it waits for");
    assert_eq!(ran.load(SeqCst), 0, "turns ran inside of one poll");
    queue.run_until_idle();
    assert_eq!(poll_once(&mut waiting), std::task::Poll::Ready(true));
}

/// With `Tokio::for_blocking`, turns that block ran on the async worker that awaited, and a
/// `timeout` of 50 ms returned after a second.
#[test]
fn await_runs_no_turn_on_an_async_worker() {
    let (runtime, keep) = occupied(multi_thread());
    let executor = Tokio::for_blocking(runtime.handle().clone());
    let actor = Actor::builder().executor(executor).spawn(Vec::new()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..200 {
        let stop = stop.clone();
        actor
            .send(move |seen: &mut Vec<ThreadId>| {
                if !stop.load(SeqCst) {
                    thread::sleep(Duration::from_millis(10));
                }
                seen.push(thread::current().id());
            })
            .unwrap();
    }
    let worker = runtime.spawn({
        let (actor, stop) = (actor.clone(), stop.clone());
        async move {
            let begun = Instant::now();
            // A select with a yield: the reply is polled once, and then given up.
            let mut reply = actor.call(|seen| seen.len());
            let polled = poll_once(&mut reply);
            let took = begun.elapsed();
            stop.store(true, SeqCst);
            (polled.is_pending(), took)
        }
    });
    let (pending, took) = runtime.block_on(worker).unwrap();
    assert!(pending && took < Duration::from_secs(1), "one poll of {took:?}, pending: {pending}");
    drop(keep);
    let async_worker = runtime.block_on(runtime.spawn(async { thread::current().id() })).unwrap();
    let seen = runtime.block_on(actor.call(|seen| seen.clone())).unwrap();
    assert!(!seen.contains(&async_worker) && seen.len() == 200);
}

/// `Handle::block_on` in such a turn panicked, because the turn ran on an async worker, and stopped
/// the actor.
#[test]
fn turn_for_blocking_may_block_on_a_future() {
    let (runtime, keep) = occupied(multi_thread());
    let executor = Tokio::for_blocking(runtime.handle().clone());
    let actor = Actor::builder().executor(executor).spawn(0).unwrap();
    let asker = runtime.spawn({
        let actor = actor.clone();
        async move {
            let reply = actor.call(|n| {
                *n += Handle::current().block_on(async {
                    tokio::task::yield_now().await;
                    1
                });
                *n
            });
            reply.await
        }
    });
    // The asker has polled, and waits; then the thread for blocking work becomes free.
    let lets_go = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        drop(keep);
    });
    assert_eq!(runtime.block_on(asker).unwrap(), Ok(1));
    lets_go.join().unwrap();
    assert_eq!(actor.stop_cause(), None);
}

/// On a current-thread runtime a correct program hung: the turn waited for what a task sends, and
/// ran on the thread of that task.
#[test]
fn await_on_a_current_thread_runtime_returns() {
    in_child("await_on_a_current_thread_runtime_returns", Duration::from_secs(20), || {
        let (runtime, keep) = occupied(Builder::new_current_thread());
        let executor = Tokio::for_blocking(runtime.handle().clone());
        let actor = Actor::builder().executor(executor).spawn(()).unwrap();
        let (sends, receives) = mpsc::channel();
        let answer = runtime.block_on(async move {
            let reply = actor.call(move |()| receives.recv().is_ok());
            tokio::spawn(async move {
                drop(keep);
                sends.send(()).unwrap();
            });
            reply.await
        });
        assert_eq!(answer, Ok(true));
        runtime.shutdown_background();
    });
}

/// Actors on the runtime's own workers: each turn runs in a task of its own.
#[test]
fn await_leaves_turns_to_their_executor() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let other = multi_thread().build().unwrap();
    let executor = Tokio::new(other.handle().clone());
    let actors: Vec<_> =
        (0..200).map(|_| Actor::builder().executor(executor.clone()).spawn(()).unwrap()).collect();
    let here = thread::current().id();
    let strangers = runtime.block_on(async {
        let mut strangers = 0;
        for actor in &actors {
            let ran_on = actor.call(|()| thread::current().id()).await.unwrap();
            strangers += usize::from(ran_on != here);
        }
        strangers
    });
    assert_eq!(strangers, actors.len(), "the others ran on the thread that awaited");
    other.shutdown_background();
}

/// A plain actor whose turn calls `tokio::spawn` lost its runtime as soon as the budget of a
/// millisecond moved it to the global pool: there is no reactor, and the actor stopped.
#[test]
fn plain_actor_keeps_its_runtime_over_a_budget() {
    let runtime = multi_thread().build().unwrap();
    let (tally, spawned) = (Tally::default(), Arc::new(AtomicUsize::new(0)));
    let actor = Actor::new(0_usize);
    let sent = runtime.block_on(runtime.spawn({
        let (actor, tally, spawned) = (actor.clone(), tally.clone(), spawned.clone());
        async move {
            let messages = (0..100).map(|_| {
                let (token, spawned) = (tally.token(), spawned.clone());
                move |turns: &mut usize| {
                    thread::sleep(Duration::from_millis(1));
                    tokio::spawn(async move { spawned.fetch_add(1, SeqCst) });
                    *turns += 1;
                    token.handle();
                }
            });
            actor.send_many(messages).is_ok()
        }
    }));
    assert!(sent.unwrap());
    let begun = Instant::now();
    while tally.handled() < 100 && actor.stop_cause().is_none() && begun.elapsed() < PATIENCE {
        thread::yield_now();
    }
    assert_eq!(actor.stop_cause(), None, "after {} of 100 turns", tally.handled());
    until(|| spawned.load(SeqCst) == 100);
    tally.check_all_handled();
}

/// 64 tasks send to one actor.
#[test]
fn plain_actor_keeps_its_runtime_under_load() {
    let runtime = multi_thread().build().unwrap();
    let tally = Tally::default();
    let actor = Actor::new(());
    let refused = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (actor, tally, refused) = (actor.clone(), tally.clone(), refused.clone());
            runtime.spawn(async move {
                for _ in 0..500 {
                    let token = tally.token();
                    let turn = move |(): &mut ()| {
                        tokio::spawn(async move { token.handle() });
                    };
                    if actor.send(turn).is_err() {
                        refused.fetch_add(1, SeqCst);
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    let refused = refused.load(SeqCst);
    assert_eq!((actor.stop_cause(), refused), (None, 0), "of {} sends", tally.created());
    tally.check_all_handled();
}

/// Messages that a blocked turn has deferred go to the runtime, too.
#[test]
fn promises_of_a_turn_keep_their_runtime() {
    let runtime = multi_thread().build().unwrap();
    let seen = Arc::new(Mutex::new(None));
    let (first, second) = (Actor::new(()), Actor::new(()));
    runtime
        .block_on(runtime.spawn({
            let seen = seen.clone();
            async move {
                first
                    .send(move |()| {
                        let (tell, told) = mpsc::channel();
                        second
                            .send(move |()| {
                                *seen.lock().unwrap() = Some(Handle::try_current().is_ok());
                                tell.send(()).unwrap();
                            })
                            .unwrap();
                        turnwise::blocking(|| told.recv_timeout(Duration::from_secs(10))).unwrap();
                    })
                    .unwrap();
            }
        }))
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(true), "it ran outside of the runtime");
}
