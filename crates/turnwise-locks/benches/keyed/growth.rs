//! Costs that must not grow with those that hold or wait: one operation beside ten thousand others,
//! against the same operation beside one.

use std::hint::black_box;
use std::time::{Duration, Instant};

use turnwise_locks::{Limits, Locks, Owner, RwLocks, Semaphore};

use crate::Options;
use crate::race::{Bar, Contestant, Line, race};

const MANY: &str = "beside 10,000";
const ONE: &str = "beside one";
const BARS: &[Bar] = &[(ONE, 1.2, 1.0)];

/// Nanoseconds of each of these operations.
fn each(operations: u64, one: impl FnMut(u64)) -> f64 {
    let begun = Instant::now();
    (0..operations).for_each(one);
    begun.elapsed().as_nanos() as f64 / operations as f64
}

fn lease() -> Limits {
    Limits::NONE.lease(Duration::from_secs(3600))
}

/// A request that is refused at once, beside permits that have leases.
fn refused(options: &Options) -> Vec<Line> {
    let beside = |name, many: u64| {
        let permits = Semaphore::new(many);
        let held: Vec<_> = (0..many)
            .map(|_| permits.acquire_within(1, lease()).wait().expect("it is there"))
            .collect();
        Contestant::new(name, move |operations| {
            let _ = &held;
            each(operations, |_| assert!(black_box(permits.try_acquire(1)).is_err()))
        })
    };
    race(options, "a permit is refused", &[beside(MANY, 10_000), beside(ONE, 1)], BARS)
}

/// A leased permit comes and goes.
fn leased(options: &Options) -> Vec<Line> {
    let beside = |name, many: u64| {
        let permits = Semaphore::new(many + 1);
        let held: Vec<_> = (0..many)
            .map(|_| permits.acquire_within(1, lease()).wait().expect("it is there"))
            .collect();
        Contestant::new(name, move |operations| {
            let _ = &held;
            each(operations, |_| drop(permits.acquire_within(1, lease()).wait()))
        })
    };
    race(options, "a permit with a lease", &[beside(MANY, 10_000), beside(ONE, 1)], BARS)
}

/// A writer is refused at once, beside readers.
fn writer(options: &Options) -> Vec<Line> {
    let beside = |name, many: u64| {
        let locks = RwLocks::new();
        let held: Vec<_> =
            (0..many).map(|_| locks.read(1).wait().expect("there is no writer")).collect();
        Contestant::new(name, move |operations| {
            let _ = &held;
            each(operations, |_| assert!(black_box(locks.try_write(1)).is_err()))
        })
    };
    // A single reader has no mailbox: two have one.
    race(options, "a writer is refused", &[beside(MANY, 10_000), beside(ONE, 2)], BARS)
}

/// Owners that wait are let in one by one.
fn owners(options: &Options) -> Vec<Line> {
    let beside = |name, many: u64| {
        let locks = Locks::new();
        Contestant::new(name, move |operations| {
            let mut rest = operations;
            let mut took = 0.0;
            while rest > 0 {
                let now = rest.min(many);
                let first = locks.lock(1).wait().expect("open");
                let waiting: Vec<_> = (0..now)
                    .map(|_| {
                        let owner = Owner::new();
                        (locks.lock_as(&owner, 1, Limits::NONE), owner)
                    })
                    .collect();
                let begun = Instant::now();
                drop(first);
                for (asked, _) in waiting {
                    drop(asked.wait().expect("open"));
                }
                took += begun.elapsed().as_nanos() as f64;
                rest -= now;
            }
            took / operations as f64
        })
    };
    race(options, "an owner that waits is let in", &[beside(MANY, 10_000), beside(ONE, 1)], BARS)
}

pub(crate) fn rows(options: &Options) -> Vec<Line> {
    let rows = [refused(options), leased(options), writer(options), owners(options)];
    rows.into_iter().flatten().collect()
}
