//! A work-stealing pool of threads: it runs jobs, and knows nothing of what they are.
//!
//! From below, each knowing only those before it: [`alarm`], `job`, [`idle`], [`lifo_slot`];
//! `current`; [`queues`], [`compensation`]; `place`; `shared`; `worker`; `monitor`; this file.
//!
//! A [`Job`] is one pointer wide. A job that is scheduled from a job on a worker is run by that
//! worker next, with its memory warm; others are run in the order in which they came. A job that
//! is about to sleep says so ([`reserve`]), and another thread takes its worker's place.

use std::fmt;
use std::io;
use std::sync::Arc;

pub(crate) mod alarm;
pub(crate) mod compensation;
pub(crate) mod current;
pub(crate) mod idle;
mod job;
pub(crate) mod lifo_slot;
mod monitor;
mod place;
pub(crate) mod queues;
mod shared;
mod worker;

pub(crate) use current::{Away, Reserved, WouldBlock, goes_on, linger, reserve};
pub(crate) use job::Job;
pub(crate) use job::PoolId;
pub(crate) use shared::PoolConfig;

use crate::enrolled::Enrolled;
use crate::sync::Instant;
use monitor::start_monitor;
use place::WorkerPlace;
use shared::Shared;
use worker::{is_closed, schedule, start, works_for};

/// The way into a pool. It does not keep the pool going.
pub(crate) struct Pool<J: Job> {
    shared: Arc<Shared<J>>,
    /// The system gave fewer threads than it should have.
    lacks_threads: bool,
}

impl<J: Job> Clone for Pool<J> {
    fn clone(&self) -> Self {
        Pool { shared: self.shared.clone(), lacks_threads: self.lacks_threads }
    }
}

impl<J: Job> Pool<J> {
    /// Starts a pool; and why it has fewer threads than it should, if it has.
    pub(crate) fn start(config: PoolConfig) -> (Self, Option<io::Error>) {
        let (pool, error) = Self::start_workers(config);
        let error = start_monitor(&pool.shared).err().or(error);
        (Pool { lacks_threads: error.is_some(), ..pool }, error)
    }

    /// A pool that no monitor looks after.
    pub(crate) fn start_workers(config: PoolConfig) -> (Self, Option<io::Error>) {
        let (shared, own) = Shared::new(config);
        let shared = Arc::new(shared);
        // Every place is added, also when a thread cannot be started: one that comes later may take
        // it.
        let mut error = None;
        for (number, queue) in own.into_iter().enumerate() {
            let place = WorkerPlace::new(number, queue);
            let started = shared.threads.add_worker(place, |number| start(&shared, number));
            error = started.err().or(error);
        }
        (Pool { shared, lacks_threads: error.is_some() }, error)
    }

    /// Takes a job in.
    #[inline]
    pub(crate) fn submit(&self, job: J) {
        schedule(&self.shared, job);
        if self.lacks_threads {
            self.has_threads();
        }
    }

    /// True if it has a thread at all. Tries to start one if not.
    pub(crate) fn has_threads(&self) -> bool {
        !self.lacks_threads || self.shared.threads.have_any(|number| start(&self.shared, number))
    }

    /// True if it will drop what this thread gives it.
    pub(crate) fn is_closed(&self) -> bool {
        is_closed(&self.shared)
    }

    pub(crate) fn id(&self) -> PoolId {
        self.shared.id()
    }

    pub(crate) fn workers(&self) -> usize {
        self.shared.queues.workers()
    }

    /// True if this thread is one of its own.
    pub(crate) fn is_current(&self) -> bool {
        works_for(&self.shared)
    }

    /// Begins a graceful end: it takes nothing more from outside.
    pub(crate) fn close(&self) {
        self.shared.idle.close();
    }

    /// Waits until no thread is left, or the time is over (false).
    pub(crate) fn wait_all_gone(&self, deadline: Option<Instant>) -> bool {
        self.shared.threads.wait_all_gone(deadline)
    }

    /// Registrations that its jobs keep here until it has ended.
    pub(crate) fn enrolled(&self) -> &Enrolled<J> {
        &self.shared.enrolled
    }

    /// True if a job was enrolled when it ended.
    pub(crate) fn has_cut(&self) -> bool {
        self.shared.threads.has_cut()
    }

    /// Ends it, and drops what is queued.
    pub(crate) fn cut_off(&self) {
        self.shared.see_off();
    }

    /// Jobs that were dropped un-run until now, and threads that are left.
    pub(crate) fn dropped_and_left(&self) -> (usize, usize) {
        self.shared.threads.dropped_and_left()
    }
}

impl<J: Job> fmt::Debug for Pool<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

#[cfg(test)]
#[path = "../../tests/pool/threads.rs"]
mod tests;
