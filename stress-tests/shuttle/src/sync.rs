//! Shuttle's flavour of the product's `sync`: the same names, every operation a point at which
//! another thread may go on.
//!
//! Atomics are sequentially consistent, whatever ordering a place asks for: wrong orderings are
//! seen by loom's models and their gate, wrong shapes here. Cells notice two who are inside at
//! once, and know no happens-before.
//!
//! Locals and memory are kept by schedule, as in loom's flavour: [`explore`] renews them, and looks
//! whether all memory was given back. There is no time: a limit that has not passed never does.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Sizes small enough that growth is reached by a few messages.
pub(crate) mod config {
    pub(crate) const SLOT: usize = 512;
    pub(crate) const HOME: usize = 1024;
    pub(crate) const CHUNK_SLOTS: usize = 4;
    pub(crate) const COUNT_MAX: u64 = 63;
    pub(crate) const WAKER_BITS: u32 = 28;
    pub(crate) const CACHED_CHUNKS: usize = 1;
    pub(crate) const DEPOT_CHUNKS: usize = 1;
}

pub(crate) mod atomic {
    pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    pub(crate) fn fence_behind<A>(_: &A, ordering: Ordering) {
        fence(ordering);
    }
}

pub(crate) mod cell {
    use std::cell::Cell;

    /// A cell that notices two who are inside at once, one of them to write.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T> {
        value: std::cell::UnsafeCell<T>,
        /// So many read; -1: one writes.
        inside: Cell<isize>,
    }

    /// Goes, also by a panic.
    struct Inside<'a>(&'a Cell<isize>, isize);

    impl Drop for Inside<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - self.1);
        }
    }

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self { value: std::cell::UnsafeCell::new(value), inside: Cell::new(0) }
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            assert!(self.inside.get() >= 0, "somebody writes what is read");
            self.inside.set(self.inside.get() + 1);
            let _inside = Inside(&self.inside, 1);
            f(self.value.get())
        }

        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            assert!(self.inside.get() == 0, "two are inside, and one writes");
            self.inside.set(-1);
            let _inside = Inside(&self.inside, -1);
            f(self.value.get())
        }
    }
}

pub(crate) mod thread;

pub(crate) mod hint {
    /// No patience: all orders are tried anyway.
    pub(crate) fn done_soon(_: impl FnMut() -> bool) -> bool {
        false
    }

    pub(crate) fn soon(_: impl FnMut() -> bool) -> bool {
        false
    }

    pub(crate) fn stand_back() {}

    pub(crate) fn prefetch(_: *const u8) {}

    pub(crate) fn prefetch_write(_: *const u8) {}
}

/// As in loom's flavour.
#[path = "../../../loom-tests/src/sync/panic.rs"]
pub(crate) mod panic;

#[path = "../../../loom-tests/src/sync/queue.rs"]
pub(crate) mod queue;

pub(crate) mod alloc;

/// Nothing lies in a cache line here.
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

/// Others go on meanwhile, in any case.
#[derive(Debug)]
pub(crate) struct Backoff;

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff
    }

    pub(crate) fn snooze(&self) {
        shuttle::thread::yield_now();
    }
}

/// A value that can be shared because a shared reference to it does nothing.
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

/// Shuttle's mutex with the face of `parking_lot`'s.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// Shuttle's guard; it is out while its thread waits at a [`Condvar`].
pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        MutexGuard(Some(guard))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
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

/// The system's clock: it stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Instant(Duration::from_secs(1))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    pub(crate) fn checked_add(&self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Instant)
    }
}

/// What came of a wait with a limit.
#[derive(Debug)]
pub(crate) struct Waited;

impl Waited {
    /// No thread is woken by the time.
    pub(crate) fn timed_out(&self) -> bool {
        false
    }
}

/// Shuttle's condition variable with the face of `parking_lot`'s.
#[derive(Debug, Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Self {
        Condvar(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("held");
        guard.0 = Some(self.0.wait(held).unwrap_or_else(std::sync::PoisonError::into_inner));
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
        shuttle::lazy_static! { $(#[$meta])* static ref $name: $type = $init; }
    };
}
pub(crate) use {global, thread_owned, thread_plain};

std::thread_local! {
    static PLANTED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Is that planted bug the one to be shown?
pub(crate) fn planted(name: &str) -> bool {
    PLANTED.with_borrow(|shown| shown.as_deref() == Some(name))
}

/// Makes [`planted`] say yes to `name`.
pub(crate) fn plant(name: String) {
    PLANTED.set(Some(name));
}

/// A model's run in one schedule.
pub(crate) fn schedule(model: fn()) {
    settle();
    model();
    thread::drop_owned();
}

/// After a schedule, and its statics: all memory was given back.
pub(crate) fn settle() {
    thread::renew();
    alloc::settle();
}
