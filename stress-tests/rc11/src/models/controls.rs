//! Programs in which the explorer has to find an error.

use std::cell::Cell;

use super::*;
use crate::sync::alloc::Life;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::cell::Plain;
use crate::sync::thread::{park, prepare};

/// Two threads write the same plain memory.
pub(super) fn race_on_plain_memory() {
    let plain = Rc::new(Plain::new(0));
    let write = |plain: &Plain<u64>| plain.with_mut(|value| *value += 1);
    run([with(&plain, write), with(&plain, write)]);
}

/// A relaxed store publishes plain memory.
pub(super) fn message_without_release() {
    let shared = Rc::new((Plain::new(0), AtomicU64::new(0)));
    run([
        with(&shared, |(plain, flag)| {
            plain.with_mut(|value| *value = 1);
            flag.store(1, Relaxed);
        }),
        with(&shared, |(plain, flag)| {
            if flag.load(Acquire) == 1 {
                assert_eq!(plain.with(|value| *value), 1);
            }
        }),
    ]);
}

/// Two threads announce themselves and look for the other: by release and acquire, both may miss
/// the other.
pub(super) fn two_store_before_they_look() {
    let shared = Rc::new(([AtomicU64::new(0), AtomicU64::new(0)], Cell::new(0)));
    let enter = |me: usize| {
        with(&shared, move |(flags, inside)| {
            flags[me].swap(1, Release);
            if flags[1 - me].load(Acquire) == 0 {
                inside.set(inside.get() + 1);
            }
        })
    };
    run([enter(0), enter(1)]);
    assert!(shared.1.get() < 2, "both are inside");
}

/// A thread parks, and no thread wakes it in one of the executions.
pub(super) fn thread_waits_for_ever() {
    prepare();
    let flag = Rc::new(AtomicU64::new(0));
    run([
        with(&flag, |flag| {
            if flag.load(Relaxed) == 0 {
                park();
            }
        }),
        with(&flag, |flag| flag.store(1, Relaxed)),
    ]);
}

/// A reference is used after the one that counted it was given up.
pub(super) fn memory_is_used_after_its_end() {
    let shared = Rc::new((Life::new(), AtomicU64::new(2)));
    let release = |(life, count): &(Life, AtomicU64)| {
        if count.fetch_sub(1, Relaxed) == 1 {
            life.end();
        }
        life.check();
    };
    run([with(&shared, release), with(&shared, release)]);
}
