//! Systems: finding 9, and what 14 says of members that shut their system down.

#[path = "common/child.rs"]
mod child;

use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use child::in_child;
use turnwise::{Actor, Limit, System, ThreadPool, blocking};

const PATIENCE: Duration = Duration::from_secs(30);

/// A pool of one. A member is inside a turn that waits, off the pool's place; a turn of an actor on
/// that pool, which is no member, answers it by a third actor on the pool, and shuts the system
/// down: the member ends only if the third one runs meanwhile.
fn shut_down_inside_a_turn(limit: Limit) -> (bool, Duration) {
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let system = System::new();
    let member = system.spawn(Actor::builder(()).executor(pool.handle())).unwrap();
    let (answers, answer) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel::<()>();
    member
        .send(move |()| {
            begun.send(()).unwrap();
            let _ = blocking(|| answer.recv());
        })
        .unwrap();
    begins.recv().unwrap();
    let third = Actor::builder(()).executor(pool.handle()).spawn().unwrap();
    let first = Actor::builder(()).executor(pool.handle()).spawn().unwrap();
    // This thread only looks on: if it waited for an actor, it might run it.
    let (tell, told) = mpsc::channel();
    first
        .send(move |()| {
            third.send(move |()| _ = answers.send(())).unwrap();
            let begun = Instant::now();
            let report = system.shutdown(limit);
            tell.send((report.is_complete() && report.ended == 1, begun.elapsed())).unwrap();
        })
        .unwrap();
    let result = told.recv().unwrap();
    drop((member, first));
    assert!(pool.shutdown(PATIENCE).is_complete());
    result
}

/// Finding 9: `System::shutdown` inside a turn kept its place in the pool: with a pool of one, it
/// burnt its whole limit.
#[test]
fn shutdown_in_a_turn_leaves_its_place() {
    in_child("shutdown_in_a_turn_leaves_its_place", PATIENCE, || {
        let limit = Duration::from_secs(5);
        let (complete, took) = shut_down_inside_a_turn(limit.into());
        assert!(complete, "not all have ended, after {took:?}");
        assert!(took < limit / 2, "it burnt {took:?} of its limit");
    });
}

/// Finding 9: without a limit it hung.
#[test]
fn unlimited_shutdown_in_a_turn_returns() {
    in_child("unlimited_shutdown_in_a_turn_returns", PATIENCE / 2, || {
        let (complete, took) = shut_down_inside_a_turn(Limit::Unlimited);
        assert!(complete, "not all have ended, after {took:?}");
    });
}

/// Two turns of members shut their system down at the same time.
fn shut_down_by_two(pooled: bool, limit: Limit) {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    let system = Arc::new(System::new());
    let both_inside = Arc::new(Barrier::new(2));
    let begun = Instant::now();
    let asked: Vec<_> = (0..2)
        .map(|_| {
            let builder = Actor::builder(());
            let builder = if pooled { builder.executor(pool.handle()) } else { builder };
            let member = system.spawn(builder).unwrap();
            let (system, both_inside) = (system.clone(), both_inside.clone());
            let turn = move |(): &mut ()| {
                both_inside.wait();
                system.shutdown(limit);
            };
            std::thread::spawn(move || member.call(turn).wait())
        })
        .collect();
    for asked in asked {
        asked.join().unwrap().unwrap();
    }
    let took = begun.elapsed();
    if let Limit::Within(limit) = limit {
        assert!(took < limit / 2, "two members have waited for each other for {took:?}");
    }
}

/// Finding 14: two members that shut their system down waited for each other.
#[test]
fn two_members_may_shut_their_system_down() {
    in_child("two_members_may_shut_their_system_down", PATIENCE, || {
        shut_down_by_two(true, Limit::Within(Duration::from_secs(5)));
    });
}

/// Finding 14: without a limit, for ever.
#[test]
fn two_members_shut_down_without_a_limit() {
    in_child("two_members_shut_down_without_a_limit", PATIENCE / 2, || {
        shut_down_by_two(true, Limit::Unlimited);
    });
}

/// Finding 14, sibling: members without an executor.
#[test]
fn two_plain_members_may_shut_down() {
    in_child("two_plain_members_may_shut_down", PATIENCE, || {
        shut_down_by_two(false, Limit::Within(Duration::from_secs(5)));
    });
}
