//! A tokio runtime whose threads all sleep in waits for plain actors: these run all the same,
//! inside of that runtime.

use std::sync::mpsc;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::common::{must_end, poll_once, until};
use turnwise::{Actor, promise};

/// Runtimes of one worker or none, with one thread for blocking work.
const RUNTIMES: [fn() -> Builder; 2] = [Builder::new_current_thread, || {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1);
    builder
}];

fn with_one_thread_for_blocking(mut builder: Builder) -> Runtime {
    builder.max_blocking_threads(1).build().unwrap()
}

/// Runs a closure on the one thread for blocking work of each runtime.
fn on_each(wait: impl FnOnce() + Copy + Send + 'static) {
    for builder in RUNTIMES {
        must_end(move || {
            let runtime = with_one_thread_for_blocking(builder());
            runtime.block_on(runtime.spawn_blocking(wait)).unwrap();
        });
    }
}

/// The number of the runtime that this thread is inside of.
fn here() -> Option<tokio::runtime::Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

#[test]
fn a_posted_message_is_run() {
    on_each(|| {
        let (promise, kept) = promise();
        let actor = Actor::new(());
        actor.posted().send(|()| promise.keep(here())).unwrap();
        assert_eq!(kept.wait(), Ok(here()), "it ran in another runtime, or in none");
    });
}

#[test]
fn what_a_turn_has_sent_before_it_sleeps_is_run() {
    on_each(|| {
        let (promise, kept) = promise();
        let (first, second) = (Actor::new(()), Actor::new(()));
        let inside = first.with(move |()| {
            second.send(|()| promise.keep(here())).unwrap();
            kept.wait()
        });
        assert_eq!(inside, Ok(Ok(here())));
    });
}

#[test]
fn what_is_left_over_a_budget_is_run() {
    let waits: [fn(&Actor<i32>) -> bool; 4] = [
        |actor| actor.call(|n| *n).wait().is_ok(),
        |actor| actor.with(|n| *n).is_ok(),
        |actor| actor.send(|_| {}).is_ok() && actor.idle().wait().is_ok(),
        |actor| {
            let sent = actor.call(|n| *n);
            actor.close();
            actor.ended().wait().is_ok() && sent.wait().is_ok()
        },
    ];
    for (builder, wait) in RUNTIMES.iter().flat_map(|builder| waits.map(|wait| (builder, wait))) {
        must_end(move || {
            let runtime = with_one_thread_for_blocking(builder());
            let actor = Actor::builder().budget(1).spawn(0).unwrap();
            let sleeper = Actor::new(actor.clone());
            let (begin, begun) = mpsc::channel();
            let sleeps = runtime.spawn_blocking({
                let sleeper = sleeper.clone();
                move || {
                    begun.recv().unwrap();
                    sleeper.with(|actor| wait(actor))
                }
            });
            let inside = runtime.enter();
            let (again, waited_for) = (actor.clone(), Some(actor.snapshot().id));
            actor
                .send(move |_| {
                    (0..5).for_each(|_| again.send(|_| {}).unwrap());
                    drop(again);
                    begin.send(()).unwrap();
                    until(|| sleeper.snapshot().waits_for == waited_for);
                })
                .unwrap();
            drop(inside);
            assert_eq!(runtime.block_on(sleeps).unwrap(), Ok(true));
        });
    }
}

/// A worker that sleeps gives its place to a thread for blocking work, and there is none.
#[test]
fn beside_a_worker_whose_place_is_not_taken() {
    must_end(|| {
        let runtime = with_one_thread_for_blocking(RUNTIMES[1]());
        let (both, actor) = ([promise(), promise()], Actor::new(()));
        let [(first, first_kept), (second, second_kept)] = both;
        let (begin, begun) = mpsc::channel();
        let on_blocking = runtime.spawn_blocking(move || {
            begin.send(()).unwrap();
            first_kept.wait()
        });
        begun.recv().unwrap();
        let on_worker = runtime.spawn(async move {
            let keep = |()| {
                first.keep(here());
                second.keep(here());
            };
            actor.posted().send(move |()| keep(())).unwrap();
            second_kept.wait()
        });
        let inside = Ok(Some(runtime.handle().id()));
        assert_eq!(runtime.block_on(on_worker).unwrap(), inside);
        assert_eq!(runtime.block_on(on_blocking).unwrap(), inside);
    });
}

/// The turn of a worker that polls, and then blocks, keeps no thread of the runtime beside its own.
#[test]
fn a_poll_in_a_turn_keeps_no_thread_for_blocking_work() {
    must_end(|| {
        let runtime = with_one_thread_for_blocking(RUNTIMES[1]());
        let told = runtime.spawn(async {
            Actor::new(()).with(|()| {
                let (_promise, mut kept) = promise::<()>();
                assert!(poll_once(&mut kept).is_pending());
                let (tell, told) = mpsc::channel();
                Handle::current().spawn_blocking(move || tell.send(()));
                told.recv()
            })
        });
        assert_eq!(runtime.block_on(told).unwrap(), Ok(Ok(())));
    });
}
