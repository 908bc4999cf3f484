//! Calls that allocate, and calls that do not.

use std::thread;

use crate::common::{Gate, Held, asked, queued, size, tireless};
use crate::counting::{alone, cost, count_this_thread};
use turnwise::Actor;
use turnwise::executor::DrainQueue;

/// A message that owns `N` bytes.
fn message<const N: usize>() -> impl FnOnce(&mut u64) + Send + 'static {
    let bytes = [1_u8; N];
    move |sum: &mut u64| {
        *sum += std::hint::black_box(&bytes).iter().map(|&byte| u64::from(byte)).sum::<u64>()
    }
}

/// Queues and drains until there are enough chunks.
fn warm_up(queue: &DrainQueue, sum: &Actor<u64>, messages: usize) {
    for _ in 0..3 {
        (0..messages).for_each(|_| sum.send(message::<48>()).unwrap());
        queue.run_until_idle();
    }
}

#[test]
fn an_idle_send_or_with_or_ask_allocates_nothing() {
    let _alone = alone();
    let sum = tireless(0_u64);
    let cost = cost(|| {
        sum.send(message::<8>()).unwrap();
        sum.send(message::<1000>()).unwrap();
        sum.with(message::<1000>()).unwrap();
        sum.call(message::<1000>()).wait().unwrap();
        drop(sum.clone());
    });
    assert_eq!(cost.calls, 0);
    assert_eq!(sum.with(|sum| *sum).unwrap(), 3008);
}

#[test]
fn messages_of_up_to_48_bytes_allocate_nothing() {
    let _alone = alone();
    let (queue, sum) = queued(0_u64);
    warm_up(&queue, &sum, 100);
    let each = |send: &dyn Fn()| {
        let cost = cost(|| {
            for _ in 0..1_000 {
                (0..30).for_each(|_| send());
                queue.run_until_idle();
            }
        });
        cost.calls
    };
    assert_eq!(each(&|| sum.send(message::<0>()).unwrap()), 0);
    assert_eq!(each(&|| sum.send(message::<16>()).unwrap()), 0);
    assert_eq!(each(&|| sum.send(message::<17>()).unwrap()), 0);
    assert_eq!(each(&|| sum.send(message::<48>()).unwrap()), 0);
    assert_eq!(each(&|| sum.send_many([message::<48>(), message::<48>()]).unwrap()), 0);
}

#[test]
fn a_message_of_more_than_48_bytes_allocates_once() {
    let _alone = alone();
    let (queue, sum) = queued(0_u64);
    warm_up(&queue, &sum, 100);
    for _ in 0..100 {
        assert_eq!(cost(|| sum.send(message::<49>()).unwrap()).calls, 1);
        assert_eq!(cost(|| sum.send(message::<10_000>()).unwrap()).calls, 1);
        assert_eq!(cost(|| assert!(queue.run_until_idle() > 0)).calls, 0);
    }
}

#[test]
fn messages_between_threads_allocate_nothing() {
    let _alone = alone();
    let rounds = size(300, 3_000);
    let (queue, sum) = queued(0_u64);
    // One queues, the other drains, in turns: chunks move from one to the other and come back by
    // the depot.
    let gate = Gate::new(2);
    let total = thread::scope(|scope| {
        let drainer = scope.spawn(|| {
            count_this_thread();
            for _ in 0..2 * rounds {
                gate.pass();
                gate.pass();
                queue.run_until_idle();
            }
        });
        let sender = scope.spawn(|| {
            count_this_thread();
            let some_rounds = || {
                for _ in 0..rounds {
                    gate.pass();
                    (0..200).for_each(|_| sum.send(message::<48>()).unwrap());
                    gate.pass();
                }
            };
            some_rounds();
            cost(some_rounds)
        });
        drainer.join().unwrap();
        sender.join().unwrap()
    });
    assert_eq!(asked(&queue, &sum, |sum| *sum), (2 * rounds * 200 * 48) as u64);
    // A depot that the other thread uses is skipped: a few chunks then come from the allocator.
    let messages = rounds * 200;
    assert!(total.calls * 100 <= messages, "{} allocations for {messages} messages", total.calls);
    println!("{messages} warm messages between threads: {} allocations", total.calls);
}

#[test]
fn a_busy_with_allocates_nothing_and_a_busy_ask_once() {
    let _alone = alone();
    let sum = tireless(0_u64);
    let (queue, other) = queued(0_u64);
    warm_up(&queue, &other, 100);
    for _ in 0..size(20, 200) {
        let held = Held::hold_until_waiting(&sum, 2);
        let mut reply = None;
        let asked = cost(|| reply = Some(sum.call(message::<48>())));
        assert_eq!(asked.calls, 1);
        // The turn ends when this one waits too, so it certainly waits.
        let waited = cost(|| sum.with(message::<500>()).unwrap());
        assert_eq!(waited.calls, 0);
        held.let_go();
        assert_eq!(cost(|| reply.unwrap().wait().unwrap()).calls, 0);
    }
}

#[test]
fn a_nested_send_allocates_nothing() {
    let _alone = alone();
    let outer = tireless(0_u64);
    let sums: Vec<_> = (0..8).map(|_| tireless(0_u64)).collect();
    let turn = || {
        outer
            .with(|_| {
                for sum in &sums {
                    sum.send(message::<40>()).unwrap();
                    sum.send(message::<40>()).unwrap();
                }
            })
            .unwrap();
    };
    (0..100).for_each(|_| turn());
    assert_eq!(cost(|| (0..1_000).for_each(|_| turn())).calls, 0);
    assert_eq!(sums[0].with(|sum| *sum).unwrap(), 1_100 * 80);
}
