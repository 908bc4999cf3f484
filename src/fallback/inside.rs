//! The pool for work inside of a tokio runtime.
//!
//! A runtime has a number of threads, and any code may block all of them. This pool is the crate's
//! own: a turn on it that waits leaves its place to another thread.

use std::ptr::NonNull;
use std::sync::OnceLock;

use ::tokio::runtime::Handle;

use crate::cell::executor::Drain;
use crate::panic;
use crate::pool::{Job, Pool, PoolConfig};

/// The most threads beyond the workers: as many as a runtime has for blocking work, unless another
/// number is asked for.
const MOST: usize = 512;

/// The pool, started with as many threads as can be had if it is not running.
pub(super) fn pool() -> &'static Pool<Task> {
    static POOL: OnceLock<Pool<Task>> = OnceLock::new();
    POOL.get_or_init(|| {
        let name = "turnwise-in".into();
        Pool::start(PoolConfig { name, most: Some(MOST), ..PoolConfig::default() }).0
    })
}

/// A job of the pool.
pub(super) struct Task(Box<Work>);

enum Work {
    /// A drain, and the runtime inside of which it is run.
    Drain(Handle, Drain),
    /// Not a drain: no runtime is entered.
    Call(fn()),
}

impl Task {
    pub(super) fn drain(runtime: Handle, drain: Drain) -> Self {
        Task(Box::new(Work::Drain(runtime, drain)))
    }

    pub(super) fn call(f: fn()) -> Self {
        Task(Box::new(Work::Call(f)))
    }

    fn run(self) {
        match *self.0 {
            Work::Drain(runtime, drain) => {
                let _inside = runtime.enter();
                drain.run();
            }
            Work::Call(f) => f(),
        }
    }
}

impl Job for Task {
    fn id(&self) -> usize {
        match &*self.0 {
            Work::Drain(_, drain) => drain.number(),
            Work::Call(f) => *f as usize,
        }
    }

    fn into_raw(self) -> Option<NonNull<()>> {
        Some(NonNull::from(Box::leak(self.0)).cast())
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: `into_raw` has given the box away, which comes back once.
        Task(unsafe { Box::from_raw(raw.cast().as_ptr()) })
    }

    fn is_unfinished(&self) -> bool {
        false
    }

    fn drop_all(tasks: impl Iterator<Item = Self>) {
        tasks.for_each(|task| panic::ignore(|| drop(task)));
    }

    fn run_all(first: Self, mut next: impl FnMut() -> Option<Self>) {
        let mut task = Some(first);
        while let Some(this) = task {
            panic::ignore(|| this.run());
            task = next();
        }
    }
}
