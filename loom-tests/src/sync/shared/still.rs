//! Stand-ins for what a scheduler has no use for, because it tries other orders anyway: patience,
//! cache lines, time that passes by itself.

use std::cell::Cell;
use std::ops::Deref;
use std::time::Duration;

pub(crate) mod hint {
    /// No spinning: the thread checks when it is about to sleep, and every moment of that is tried.
    pub(crate) fn done_soon(_: impl FnMut() -> bool) -> bool {
        false
    }

    /// No spinning here either.
    pub(crate) fn soon(_: impl FnMut() -> bool) -> bool {
        false
    }

    /// No spinning: see [`Backoff`](crate::sync::Backoff).
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

/// The system's clock: it stands still until a model calls [`tick`](Self::tick), and wakes no
/// thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

std::thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

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

    /// Sets the clock back before an execution.
    pub(crate) fn renew() {
        NOW.set(Duration::ZERO);
    }
}
