//! The pool as an executor, without the monitor; and the threads of a pool alone.

use std::io;

use super::super::cell::executor::{Drain, Executor};
use super::super::pool::compensation::{Assignment, Threads};
use super::super::pool::{self, PoolConfig};

/// A pool and its handle.
#[derive(Clone)]
pub(crate) struct Pool(pool::Pool<Drain>);

// SAFETY: loom's threads are coroutines of one thread, and what is shared is checked by it.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

impl Pool {
    /// A pool with at most this many threads beyond the workers.
    pub(crate) fn new(workers: usize, most: usize) -> Self {
        let config =
            PoolConfig { workers, most: Some(most), name: String::new(), stack_size: None };
        let (pool, error) = pool::Pool::start_workers(config);
        assert!(error.is_none(), "loom has threads");
        Pool(pool)
    }

    /// Closes the pool, which ends when no work is left.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    /// Waits until no thread is left.
    pub(crate) fn wait(&self) {
        assert!(self.0.wait_all_gone(None));
    }

    /// Returns the number of drains that were dropped unrun.
    pub(crate) fn dropped(&self) -> usize {
        self.0.dropped_and_left().0
    }
}

impl Executor for Pool {
    fn execute(&self, drain: Drain) {
        self.0.submit(drain);
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// The threads of a pool whose places are numbers.
pub(crate) struct Standby(Threads<u32>);

impl Standby {
    /// With one worker, and at most two threads beyond it.
    pub(crate) fn new() -> Self {
        Standby(Threads::new(1, Some(2)))
    }

    /// Does the step of a monitor that needs a thread to help.
    pub(crate) fn call_help(&self, start: impl Fn() -> io::Result<()>) {
        self.0.call_help(|_| start());
    }

    /// Does the step of a worker that is about to sleep.
    pub(crate) fn leave(&self, place: u32, start: impl Fn() -> io::Result<()>) {
        self.0.reserve(|_| start()).expect("there may be a thread more");
        self.0.leave(place);
    }

    /// Runs such a thread: with the number of a place, or helping.
    pub(crate) fn live(&self, ended: impl Fn() -> bool, mut work: impl FnMut(Option<u32>)) {
        while let Some(next) = self.0.next(&ended) {
            match next {
                Assignment::Place(place) => {
                    work(Some(place));
                    self.0.becomes_spare();
                }
                Assignment::Help => {
                    work(None);
                    self.0.has_helped();
                }
            }
        }
        self.0.thread_ends();
    }

    /// Waits until no thread is left after the end of the pool.
    pub(crate) fn wait(&self) {
        self.0.dismiss();
        assert!(self.0.wait_all_gone(None));
    }
}
