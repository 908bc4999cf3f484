//! Threads and their parkers.

use std::time::Duration;

use super::shared::locals::drop_owned;
pub(crate) use super::shared::threads::{Builder, Joiner};

pub(crate) use shuttle::thread::{Thread, current, park, yield_now};

/// There is no time here: a limit never passes while a thread sleeps.
pub(crate) fn park_timeout(_: Duration) {
    park();
}

/// Starts a thread that drops its locals before it can be joined.
pub(crate) fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Joiner<R> {
    Joiner(shuttle::thread::spawn(|| {
        let result = f();
        drop_owned();
        result
    }))
}
