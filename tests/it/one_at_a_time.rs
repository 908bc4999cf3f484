//! One message at a time, none lost, none twice. All tests: `cargo test --release --test it
//! one_at_a_time::`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use crate::common::{Held, Tally, size};
use turnwise::Actor;

const THREADS: usize = 128;

struct Counter {
    n: u64,
    entered: Arc<AtomicBool>,
}

impl Counter {
    fn step(&mut self) {
        assert!(!self.entered.swap(true, SeqCst), "two turns at a time");
        self.n += 1;
        self.entered.store(false, SeqCst);
    }
}

fn counter() -> Actor<Counter> {
    Actor::new(Counter { n: 0, entered: Arc::default() })
}

#[test]
fn a_hundred_and_twenty_eight_threads_count_exactly() {
    let each = size(8_192, 65_536);
    let counter = counter();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..each {
                    counter.send(Counter::step).unwrap();
                }
            });
        }
    });
    assert_eq!(counter.with(|counter| counter.n).unwrap(), (THREADS * each) as u64);
    println!("{} messages, counted exactly", THREADS * each);
}

#[test]
fn all_ways_of_sending_together_count_exactly() {
    let each = size(2_000, 20_000);
    let counter = counter();
    let tally = Tally::default();
    thread::scope(|scope| {
        for way in 0..8 {
            let (counter, tally) = (&counter, &tally);
            scope.spawn(move || {
                for i in 0..each {
                    let token = tally.token();
                    let message = move |counter: &mut Counter| {
                        counter.step();
                        token.handle();
                    };
                    match (way + i) % 8 {
                        0 => counter.posted().send(message).map_err(|_| ()).unwrap(),
                        1 => counter.call(message).wait().unwrap(),
                        2 => drop(counter.call(message)),
                        3 => counter.with(message).unwrap(),
                        4 => counter.send_many([message]).map_err(|_| ()).unwrap(),
                        5 => {
                            counter.idle().wait().unwrap();
                            counter.waiting().send(message).wait().map_err(|_| ()).unwrap();
                        }
                        6 => counter.clone().send(message).map_err(|_| ()).unwrap(),
                        _ => counter.send(message).map_err(|_| ()).unwrap(),
                    }
                }
            });
        }
    });
    assert_eq!(counter.with(|counter| counter.n).unwrap(), (8 * each) as u64);
    assert!(counter.is_idle());
    tally.check_all_handled();
    println!("{} messages in eight ways, counted exactly", 8 * each);
}

#[test]
fn with_sees_everything_that_came_before() {
    let each = size(10_000, 200_000);
    let counter = counter();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = 0;
                for _ in 0..each {
                    let mut seen = 0;
                    counter
                        .with(|counter| {
                            counter.step();
                            seen = counter.n;
                        })
                        .unwrap();
                    assert!(seen > last);
                    last = seen;
                }
            });
        }
    });
    assert_eq!(counter.with(|counter| counter.n).unwrap(), 4 * each as u64);
}

#[test]
fn a_count_beyond_saturation_loses_nothing() {
    let many = 200_000_u64;
    let counter = counter();
    let held = Held::hold(&counter);
    for _ in 0..many {
        counter.send(Counter::step).unwrap();
    }
    assert_eq!(counter.len(), 32_767, "from here on, at least");
    held.let_go_soon();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..many).for_each(|_| counter.send(Counter::step).unwrap()));
        }
    });
    assert_eq!(counter.with(|counter| counter.n).unwrap(), 3 * many);
    // Another thread may be the one that releases it.
    counter.idle().wait().unwrap();
    assert_eq!(counter.len(), 0);
}
