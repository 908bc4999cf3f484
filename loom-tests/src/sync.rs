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

pub(crate) mod alloc;
#[allow(dead_code, reason = "the whole face of an atomic, whatever the product uses of it today")]
pub(crate) mod atomic;
pub(crate) mod cell;
pub(crate) mod panic;
pub(crate) mod queue;
pub(crate) mod site;
pub(crate) mod thread;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Sizes small enough that growth is reached by a few messages. A slot contains a node with loom's
/// cells.
pub(crate) mod config {
    pub(crate) const SLOT: usize = 128;
    pub(crate) const HOME: usize = 256;
    pub(crate) const CHUNK_SLOTS: usize = 4;
    pub(crate) const COUNT_MAX: u64 = 32_767;
    pub(crate) const WAKER_BITS: u32 = 28;
    pub(crate) const CACHED_CHUNKS: usize = 1;
    pub(crate) const DEPOT_CHUNKS: usize = 1;
}

/// Those sizes with a COUNT of two bits: saturated by three messages.
pub(crate) mod narrow {
    pub(crate) use super::config::{CACHED_CHUNKS, CHUNK_SLOTS, DEPOT_CHUNKS, HOME, SLOT};
    pub(crate) const COUNT_MAX: u64 = 3;
    pub(crate) const WAKER_BITS: u32 = 28;
}

/// The same, saturated by four messages: a capacity of two is still exact.
pub(crate) mod small {
    pub(crate) use super::config::{CACHED_CHUNKS, CHUNK_SLOTS, DEPOT_CHUNKS, HOME, SLOT};
    pub(crate) const COUNT_MAX: u64 = 4;
    pub(crate) const WAKER_BITS: u32 = 28;
}

/// For types that contain atomics: loom sees the thread that drops them.
pub(crate) use loom::sync::Arc as Counted;

/// Shards of a registry of keys: with one, all of its calls meet at one lock.
pub(crate) fn shards() -> usize {
    1
}

pub(crate) mod hint {
    /// No spinning: the thread checks when it is about to sleep, and loom tries every moment of
    /// that.
    pub(crate) fn done_soon(_: impl FnMut() -> bool) -> bool {
        false
    }

    /// No spinning here either.
    pub(crate) fn soon(_: impl FnMut() -> bool) -> bool {
        false
    }

    /// No spinning: see [`Backoff`](super::Backoff).
    pub(crate) fn stand_back() {}

    pub(crate) fn prefetch(_: *const u8) {}

    pub(crate) fn prefetch_write(_: *const u8) {}
}

/// There are no cache lines here.
#[derive(Debug)]
pub(crate) struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub(crate) fn new(value: T) -> Self {
        CachePadded(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
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

/// A value that can be shared because a shared reference gives no access to it.
pub(crate) struct Exclusive<T>(T);

// SAFETY: a shared reference gives no access to the value.
unsafe impl<T> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub(crate) const fn new(value: T) -> Self {
        Exclusive(value)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

/// Loom's mutex with the API of `parking_lot`'s. A call that may block is counted (R13).
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

/// Loom's guard; `None` while its thread waits at a [`Condvar`].
pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        count_wait();
        MutexGuard(Some(self.0.lock().expect("loom's mutex is never poisoned")))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("loom's mutex is never poisoned")
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held")
    }
}

/// The system's clock: it stands still until a model calls [`tick`](Self::tick), and wakes no
/// thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Instant(NOW.get())
    }

    pub(crate) fn checked_add(self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Instant)
    }

    /// Advances the time.
    pub(crate) fn tick(time: Duration) {
        NOW.set(NOW.get() + time);
    }
}

/// The result of a wait with a limit.
#[derive(Debug)]
pub(crate) struct Waited;

impl Waited {
    /// No thread is woken by the time.
    pub(crate) fn timed_out(&self) -> bool {
        false
    }
}

/// Loom's condition variable with the API of `parking_lot`'s. There is no time: a limit wakes no
/// thread.
#[derive(Debug, Default)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar(loom::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        count_wait();
        let held = guard.0.take().expect("held");
        guard.0 = Some(self.0.wait(held).expect("loom's mutex is never poisoned"));
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> Waited {
        self.wait(guard);
        Waited
    }

    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> Waited {
        self.wait(guard);
        Waited
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

macro_rules! thread_plain {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr;) => {
        $(#[$meta])* static $name: $crate::sync::thread::PlainKey<$type> = $crate::sync::thread::PlainKey::new(|| $init);
    };
}
macro_rules! thread_owned {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr;) => {
        $(#[$meta])* static $name: $crate::sync::thread::OwnedKey<$type> = $crate::sync::thread::OwnedKey::new(|| $init);
    };
}
macro_rules! global {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr;) => {
        loom::lazy_static! { $(#[$meta])* static ref $name: $type = $init; }
    };
}
pub(crate) use {global, thread_owned, thread_plain};

std::thread_local! {
    static WAITS: Cell<u64> = const { Cell::new(0) };
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static EXECUTIONS: Cell<u64> = const { Cell::new(0) };
    static REACHED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
    static PLANTED: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn count_wait() {
    WAITS.set(WAITS.get() + 1);
}

/// Returns the number of calls of this execution's threads that may block: locks or parks.
pub(crate) fn waits() -> u64 {
    WAITS.get()
}

/// Records that a model reached an interesting place, which at least one execution has to.
pub(crate) fn reached(place: &'static str) {
    REACHED.with_borrow_mut(|places| places.insert(place));
}

/// True if this planted bug is switched on. Called by the patched copy of the sources.
pub(crate) fn planted(name: &str) -> bool {
    PLANTED.with_borrow(|active| active.as_deref() == Some(name))
}

/// Switches the planted bug `name` on.
pub(crate) fn plant(name: &str) {
    PLANTED.set(Some(name.to_owned()));
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
        alloc::renew();
        thread::renew();
        WAITS.set(0);
        NOW.set(Duration::ZERO);
        EXECUTIONS.set(EXECUTIONS.get() + 1);
        model();
        thread::drop_owned();
    });
    alloc::renew();
    for place in places {
        assert!(
            REACHED.with_borrow(|reached| reached.contains(place)),
            "no execution came to `{place}`"
        );
    }
}
