//! Helpers of the tests of lock objects.

#![allow(dead_code, unreachable_pub, reason = "each file of tests uses some of it")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{process, thread};

/// Scales a load: a small part in debug builds, all of it in release builds. `TURNWISE_PART=4` is a
/// quarter of that, for builds that are not optimized.
pub(crate) fn size(debug: usize, release: usize) -> usize {
    if cfg!(debug_assertions) {
        return debug;
    }
    let part = std::env::var("TURNWISE_PART").map_or(1, |text| text.parse().expect("a number"));
    debug.max(release / part)
}

/// Gives others the processor until it is so; red after a minute.
pub(crate) fn until(so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never");
        thread::yield_now();
    }
}

/// Runs something that must come to an end: red after two minutes.
pub(crate) fn must_end(f: impl FnOnce() + Send + 'static) {
    let running = thread::spawn(f);
    let begun = Instant::now();
    while !running.is_finished() {
        if begun.elapsed() > Duration::from_secs(120) {
            eprintln!("it does not end");
            process::abort();
        }
        thread::sleep(Duration::from_millis(1));
    }
    running.join().unwrap();
}

/// Polls once.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Counts how often it is woken.
#[derive(Clone)]
pub(crate) struct Wakes(Arc<Counted>);

struct Counted {
    wakes: AtomicUsize,
    call: Box<dyn Fn() + Send + Sync>,
}

impl Wakes {
    pub(crate) fn new() -> Self {
        Wakes::calling(|| ())
    }

    /// Does something whenever it is woken.
    pub(crate) fn calling(call: impl Fn() + Send + Sync + 'static) -> Self {
        Wakes(Arc::new(Counted { wakes: AtomicUsize::new(0), call: Box::new(call) }))
    }

    pub(crate) fn waker(&self) -> Waker {
        self.0.clone().into()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.wakes.load(SeqCst)
    }
}

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.fetch_add(1, SeqCst);
        (self.call)();
    }
}
