//! A pool of the product's workers: what its builder makes, without the monitor.

use std::io;
use std::sync::Arc;

use super::super::cell::executor::{Drain, Executor};
use super::compensation::{Job, Threads};
use super::place::Place;
use super::queues::Queues;
use super::shared::Shared;
use super::worker::{is_closed, schedule, start};

/// A pool, and the way into it.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Shared>);

// SAFETY: loom's threads are coroutines of one thread, and what is shared is checked by it.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

impl Pool {
    /// With so many threads beyond the workers at most.
    pub(crate) fn new(workers: usize, most: usize) -> Self {
        let (queues, own) = Queues::new(workers);
        let shared = Arc::new(Shared::new(queues, Some(most), "".into(), None));
        for (number, queue) in own.into_iter().enumerate() {
            let place = Place::new(number, queue);
            let started = shared.threads.add_worker(place, |number| start(&shared, number));
            started.expect("loom has threads");
        }
        Pool(shared)
    }

    /// It ends when nothing is left to do.
    pub(crate) fn close(&self) {
        self.0.idle.close();
    }

    /// Waits until no thread is left.
    pub(crate) fn wait(&self) {
        assert!(self.0.threads.wait_all_gone(None));
    }

    /// Drains that were dropped un-run.
    pub(crate) fn dropped(&self) -> usize {
        self.0.threads.dropped_and_left().0
    }
}

impl Executor for Pool {
    fn execute(&self, drain: Drain) {
        schedule(&self.0, drain);
    }

    fn is_closed(&self) -> bool {
        is_closed(&self.0)
    }
}

/// The threads of a pool whose places are numbers.
pub(crate) struct Standby(Threads<u32>);

impl Standby {
    /// With one worker, and two threads beyond it at most.
    pub(crate) fn new() -> Self {
        Standby(Threads::new(1, Some(2)))
    }

    /// What a monitor does, which wants a thread to help.
    pub(crate) fn call_help(&self, start: impl Fn() -> io::Result<()>) {
        self.0.call_help(|_| start());
    }

    /// What a worker does that is about to sleep.
    pub(crate) fn leave(&self, place: u32, start: impl Fn() -> io::Result<()>) {
        self.0.reserve(|_| start()).expect("there may be a thread more");
        self.0.leave(place);
    }

    /// What such a thread does: with the number of a place, or helping.
    pub(crate) fn live(&self, ended: impl Fn() -> bool, mut work: impl FnMut(Option<u32>)) {
        while let Some(job) = self.0.next_job(&ended) {
            match job {
                Job::Place(place) => {
                    work(Some(place));
                    self.0.becomes_spare();
                }
                Job::Help => {
                    work(None);
                    self.0.has_helped();
                }
            }
        }
        self.0.thread_ends();
    }

    /// Waits until no thread is left, now that the pool has ended.
    pub(crate) fn wait(&self) {
        self.0.dismiss();
        assert!(self.0.wait_all_gone(None));
    }
}
