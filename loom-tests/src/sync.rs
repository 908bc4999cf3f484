//! Loom's flavour of the product's `sync`: the same names, every operation a scheduling point,
//! every mistake a failure.
//!
//! | the product's           | here                                                                                           |
//! |-------------------------|------------------------------------------------------------------------------------------------|
//! | atomics ([`atomic`])    | loom's, which know their call sites: each ordering can be listed and weakened ([`site`])       |
//! | cells ([`cell`])        | loom's; dropping one is a write, so a late look at a frame that is gone is a race              |
//! | memory ([`alloc`])      | never reused within an execution; use after free, double free and leaks fail                   |
//! | queues ([`queue`])      | lists under loom's lock                                                                        |
//! | threads ([`thread`])    | a parker of loom's mutex and condition variable; locals that are dropped in order, at the end   |
//! | panics ([`panic`])      | only [`Planned`](panic::Planned) ones are caught: no assertion is mistaken for an actor's panic |
//!
//! All that lives for one execution is kept in `std` thread-locals, which loom's threads share
//! (they are coroutines of one thread), and is renewed by [`explore`].

pub(crate) use loom as backend;

pub(crate) mod alloc;
#[allow(dead_code, reason = "the whole face of an atomic, whatever the product uses of it today")]
pub(crate) mod atomic;
pub(crate) mod cell;
#[path = "../../src/sync/exclusive.rs"]
mod exclusive;
#[path = "../../src/sync/local_queue.rs"]
mod local_queue;
pub(crate) mod shared;
pub(crate) mod site;
pub(crate) mod thread;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::LockResult;

pub(crate) use exclusive::Exclusive;
pub(crate) use local_queue::LocalQueue;
pub(crate) use shared::lock::MutexGuard;
pub(crate) use shared::{
    CachePadded, Condvar, Instant, Mutex, global, hint, panic, plant, planted, queue, thread_owned,
    thread_plain,
};

/// Sizes small enough that growth is reached by a few messages. A slot contains a node with loom's
/// cells.
pub(crate) mod config {
    pub(crate) const SLOT: usize = 128;
    pub(crate) const HOME: usize = 256;
    pub(crate) const CHUNK_SLOTS: usize = 4;
    pub(crate) const COUNT_MAX: u64 = 32_767;
    pub(crate) const WAKER_BITS: u32 = 28;
    pub(crate) const KEPT_BATCHES: u32 = 1;
    pub(crate) const CACHED_CHUNKS: usize = 1;
    pub(crate) const DEPOT_CHUNKS: usize = 1;
}

/// Those sizes with a COUNT of two bits: saturated by three messages.
pub(crate) mod narrow {
    pub(crate) use super::config::{
        CACHED_CHUNKS, CHUNK_SLOTS, DEPOT_CHUNKS, HOME, KEPT_BATCHES, SLOT,
    };
    pub(crate) const COUNT_MAX: u64 = 3;
    pub(crate) const WAKER_BITS: u32 = 28;
}

/// For types that contain atomics: loom sees the thread that drops them.
pub(crate) use loom::sync::Arc as Counted;

/// Shards of a registry of keys: with one, all of its calls meet at one lock.
pub(crate) fn shards() -> usize {
    1
}

/// No back-off: a failed compare-and-swap is the progress of another thread, and loom tries every
/// order anyway.
#[derive(Debug)]
pub(crate) struct Backoff;

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff
    }
    pub(crate) fn snooze(&self) {}
}

std::thread_local! {
    static WAITS: Cell<u64> = const { Cell::new(0) };
    static EXECUTIONS: Cell<u64> = const { Cell::new(0) };
    static REACHED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// Counts a call that may block (MAILBOX-13).
pub(crate) fn count_wait() {
    WAITS.set(WAITS.get() + 1);
}

pub(crate) fn unpoisoned<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(|_| panic!("loom's mutex is never poisoned"))
}

/// Returns the number of calls of this execution's threads that may block: locks or parks.
pub(crate) fn waits() -> u64 {
    WAITS.get()
}

/// Records that a model reached an interesting place, which at least one execution has to.
pub(crate) fn reached(place: &'static str) {
    REACHED.with_borrow_mut(|places| places.insert(place));
}

/// Returns the number of executions so far, over all explorations of this process.
pub(crate) fn executions() -> u64 {
    EXECUTIONS.get()
}

/// Runs `model` in every interleaving that `bound` preemptions allow (all, without a bound), and
/// checks that each of the `places` was reached.
pub(crate) fn explore(bound: Option<usize>, places: &[&'static str], model: fn()) {
    let mut builder = loom::model::Builder::new();
    // All settings are made here, so that the environment cannot weaken a model unseen.
    builder.max_threads = loom::MAX_THREADS - 1;
    builder.max_branches = 2_000;
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.preemption_bound = bound;
    builder.checkpoint_file = None;
    builder.expect_explicit_explore = false;
    builder.location = false;
    builder.log = false;
    builder.check(move || {
        shared::memory::renew();
        shared::locals::renew();
        Instant::renew();
        WAITS.set(0);
        EXECUTIONS.set(EXECUTIONS.get() + 1);
        model();
        shared::locals::drop_owned();
    });
    shared::memory::renew();
    for place in places {
        assert!(
            REACHED.with_borrow(|reached| reached.contains(place)),
            "no execution came to `{place}`"
        );
    }
}
