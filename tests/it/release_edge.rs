//! A message that arrives while the owner releases is picked up, without another send: rounds of
//! two threads with one message each.
//!
//! `cargo test --release --test it release_edge::` runs a million rounds,
//! `TURNWISE_ROUNDS=10000000` in front of it ten million.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use crate::common::{Gate, in_turn, size, size_from_env};
use turnwise::Actor;

/// Two threads start each round together; after it, `handled` must hold.
fn rounds<S: Send + 'static>(
    actor: &Actor<S>,
    rounds: usize,
    send: impl Fn(&Actor<S>, usize) + Sync,
    handled: impl Fn() -> u64 + Sync,
) {
    let gate = Gate::new(2);
    thread::scope(|scope| {
        for me in 0..2 {
            let (gate, send, handled) = (&gate, &send, &handled);
            scope.spawn(move || {
                for round in 1..=rounds as u64 {
                    gate.pass();
                    send(actor, me);
                    gate.pass();
                    // Both have returned, so the owner has released it.
                    assert_eq!(handled(), 2 * round, "a message was left behind in round {round}");
                    assert!(actor.is_idle());
                }
            });
        }
    });
}

#[test]
fn two_sends_at_the_edge_are_both_handled() {
    let many = size_from_env("TURNWISE_ROUNDS", size(50_000, 300_000));
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    let send = |actor: &Actor<()>, _| {
        actor.send(|()| _ = HANDLED.fetch_add(1, Relaxed)).unwrap();
    };
    rounds(&Actor::new(()), many, send, || HANDLED.load(Relaxed));
    println!("{many} rounds, nothing left behind");
}

#[test]
fn a_send_and_a_with_at_the_edge_are_both_handled() {
    let many = size(10_000, 100_000);
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    let send = |actor: &Actor<()>, me| {
        if me == 0 {
            actor.with(|()| _ = HANDLED.fetch_add(1, Relaxed)).unwrap();
        } else {
            actor.send(|()| _ = HANDLED.fetch_add(1, Relaxed)).unwrap();
        }
    };
    rounds(&Actor::new(()), many, send, || HANDLED.load(Relaxed));
}

#[test]
fn a_post_at_the_edge_is_handled_by_who_waits() {
    let many = size(10_000, 100_000);
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    let send = |actor: &Actor<()>, me| {
        if me == 0 {
            actor.posted().send(|()| _ = HANDLED.fetch_add(1, Relaxed)).unwrap();
            // The global pool may run both: then this waits for it.
            actor.idle().wait().unwrap();
        } else {
            actor.send(|()| _ = HANDLED.fetch_add(1, Relaxed)).unwrap();
        }
    };
    rounds(&Actor::new(()), many, send, || HANDLED.load(Relaxed));
}

#[test]
fn a_nested_send_at_the_edge_comes_after_the_turn() {
    let many = size(10_000, 100_000);
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    let send = |actor: &Actor<()>, me| {
        let send = || actor.send(|()| _ = HANDLED.fetch_add(1, Relaxed)).unwrap();
        if me == 0 { in_turn(send) } else { send() }
    };
    rounds(&Actor::new(()), many, send, || HANDLED.load(Relaxed));
}

#[test]
fn an_ask_and_a_wait_for_idle_at_the_edge_both_end() {
    let many = size(10_000, 100_000);
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    let send = |actor: &Actor<()>, me| {
        if me == 0 {
            actor.call(|()| _ = HANDLED.fetch_add(2, Relaxed)).wait().unwrap();
        }
        actor.idle().wait().unwrap();
    };
    rounds(&Actor::new(()), many, send, || HANDLED.load(Relaxed));
}
