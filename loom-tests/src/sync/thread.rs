//! Threads and their parkers. Loom's own `park` may wake a thread that waits in `join`, so a parker
//! is a mutex and a condition variable.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use super::shared::locals::drop_owned;
pub(crate) use super::shared::threads::{Builder, Joiner};

/// A handle to unpark a thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread(Arc<Parker>);

#[derive(Debug)]
struct Parker {
    token: Mutex<bool>,
    bell: Condvar,
}

crate::sync::thread_plain! {
    static PARKER: Thread = Thread(Arc::new(Parker { token: Mutex::new(false), bell: Condvar::new() }));
}

impl Thread {
    pub(crate) fn unpark(&self) {
        *self.0.token.lock().expect("never poisoned") = true;
        self.0.bell.notify_one();
    }
}

pub(crate) fn current() -> Thread {
    PARKER.with(Clone::clone)
}

/// Returns the number of this thread's handles: those of threads that are about to wake it, and
/// those that waits have left behind.
pub(crate) fn handles() -> usize {
    PARKER.with(|Thread(parker)| Arc::strong_count(parker) - 1)
}

pub(crate) fn park() {
    super::count_wait();
    let Thread(parker) = current();
    let mut token = parker.token.lock().expect("never poisoned");
    while !*token {
        token = parker.bell.wait(token).expect("never poisoned");
    }
    *token = false;
}

/// Does nothing: loom tries every order anyway.
pub(crate) fn yield_now() {}

/// There is no time here: a limit never passes while a thread sleeps. A limit that has passed
/// before is [`Duration::ZERO`].
pub(crate) fn park_timeout(_: Duration) {
    park();
}

/// Starts a thread that drops its locals before it can be joined.
pub(crate) fn spawn<R: 'static>(f: impl FnOnce() -> R + 'static) -> Joiner<R> {
    Joiner(loom::thread::spawn(|| {
        let result = f();
        drop_owned();
        result
    }))
}
