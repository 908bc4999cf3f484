//! Models that must fail: a suite that cannot detect these checks nothing.

#![allow(clippy::arc_with_non_send_sync, reason = "loom's threads are coroutines of one thread")]

use std::collections::VecDeque;

use super::*;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed as Weak, Release};
use crate::sync::cell::UnsafeCell;

/// A cell written by two threads.
pub(super) fn canary_racy_cell() {
    let cell = Arc::new(UnsafeCell::new(0));
    let theirs = cell.clone();
    // SAFETY: none; loom has to report that.
    let thread = spawn(move || theirs.with_mut(|at| unsafe { *at += 1 }));
    // SAFETY: as above.
    cell.with_mut(|at| unsafe { *at += 1 });
    thread.join();
}

/// A message passed by a flag that orders nothing.
pub(super) fn canary_relaxed_flag() {
    let shared = Arc::new((UnsafeCell::new(0), AtomicU64::new(0)));
    let theirs = shared.clone();
    let thread = spawn(move || {
        // SAFETY: none; loom has to report that.
        theirs.0.with_mut(|at| unsafe { *at += 1 });
        theirs.1.swap(1, Weak);
    });
    if shared.1.load(Acquire) == 1 {
        // SAFETY: as above.
        shared.0.with(|at| unsafe { *at });
    }
    thread.join();
}

/// The designs that keep counter and queue apart: the queue is a locked list, which costs them
/// nothing.
#[derive(Default)]
struct Parts {
    queue: Mutex<VecDeque<u32>>,
    count: Count,
    state: State,
}

struct Count(AtomicU64);
impl Default for Count {
    fn default() -> Self {
        Count(AtomicU64::new(0))
    }
}

struct State(UnsafeCell<u32>);
impl Default for State {
    fn default() -> Self {
        State(UnsafeCell::new(0))
    }
}

impl Parts {
    fn push(&self) {
        self.queue.lock().push_back(1);
    }

    fn pop(&self) -> Option<u32> {
        self.queue.lock().pop_front()
    }

    fn run(&self, message: u32) {
        // SAFETY: loom checks that there is one owner.
        self.state.0.with_mut(|state| unsafe { *state += message });
    }
}

/// Two threads send once each; both messages must have been run.
fn two_senders(send: fn(&Parts)) {
    let parts = Arc::new(Parts::default());
    let theirs = parts.clone();
    let thread = spawn(move || send(&theirs));
    send(&parts);
    thread.join();
    // SAFETY: all threads have joined.
    assert_eq!(parts.state.0.with(|state| unsafe { *state }), 2, "stranded");
}

/// Count, then push, drain until the counter says so: an owner spins for a message that was counted
/// and has not arrived yet.
pub(super) fn textbook_order_spins() {
    two_senders(|parts| {
        let counted = parts.count.0.fetch_add(1, AcqRel);
        parts.push();
        if counted == 0 {
            let mut done = 0;
            loop {
                while let Some(message) = parts.pop() {
                    parts.run(message);
                    done += 1;
                }
                if parts.count.0.compare_exchange(done, 0, AcqRel, Weak).is_ok() {
                    return;
                }
            }
        }
    });
}

/// Push, then count, drain until the queue is empty: a message that is run before it is counted
/// makes its sender an owner as well.
pub(super) fn count_after_push_lets_two_owners_in() {
    two_senders(|parts| {
        parts.push();
        if parts.count.0.fetch_add(1, AcqRel) == 0 {
            while let Some(message) = parts.pop() {
                parts.count.0.fetch_sub(1, AcqRel);
                parts.run(message);
            }
        }
    });
}

/// Push, then exchange a flag: a message pushed after the owner's last look and before it clears
/// the flag is stranded.
pub(super) fn exchange_flag_strands() {
    two_senders(|parts| {
        parts.push();
        if parts.count.0.swap(1, AcqRel) == 0 {
            while let Some(message) = parts.pop() {
                parts.run(message);
            }
            parts.count.0.swap(0, Release);
        }
    });
}

/// Push, then count, but the turns before a failed release are not subtracted: the next release can
/// never succeed.
pub(super) fn batch_not_subtracted() {
    two_senders(|parts| {
        parts.push();
        if parts.count.0.fetch_add(1, AcqRel) == 0 {
            loop {
                let mut done = 0;
                while let Some(message) = parts.pop() {
                    parts.run(message);
                    done += 1;
                }
                if parts.count.0.compare_exchange(done, 0, AcqRel, Weak).is_ok() {
                    return;
                }
            }
        }
    });
}
