//! The data that the threads of a pool and its handles share.

#![forbid(unsafe_code)]

use std::fmt;
use std::panic::RefUnwindSafe;
use std::thread::available_parallelism;

use super::alarm::Alarm;
use super::compensation::Threads;
use super::idle::{Idle, MOST_WORKERS};
use super::job::{Job, PoolId};
use super::place::WorkerPlace;
use super::queues::Queues;
use crate::enrolled::Enrolled;
use crate::panic;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::queue::Worker;

/// The settings of a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolConfig {
    /// At least one, and at most [`LARGEST`](Self::LARGEST).
    pub(crate) workers: usize,
    /// The most threads beyond the workers; `None` if waits are refused.
    pub(crate) most: Option<usize>,
    /// The name of its threads, without a NUL.
    pub(crate) name: String,
    pub(crate) stack_size: Option<usize>,
}

impl PoolConfig {
    /// The most workers that a pool can have.
    pub(crate) const LARGEST: usize = MOST_WORKERS;

    /// The most threads beyond the workers, unless another number is asked for.
    pub(crate) const MOST: usize = 256;
}

impl Default for PoolConfig {
    /// A worker for each processor that this program may use.
    fn default() -> Self {
        let workers = available_parallelism().map_or(1, |n| n.get()).min(Self::LARGEST);
        let name = "turnwise".into();
        PoolConfig { workers, most: Some(Self::MOST), name, stack_size: None }
    }
}

pub(super) struct Shared<J: Job> {
    pub(super) idle: Idle,
    pub(super) queues: Queues<J>,
    pub(super) threads: Threads<WorkerPlace<J>>,
    pub(super) alarm: Alarm,
    pub(super) enrolled: Enrolled<J>,
    /// Set while workers are stuck in their jobs, so that threads without a place help. Set by the
    /// monitor.
    short: AtomicU32,
    pub(super) config: PoolConfig,
}

impl<J: Job> Shared<J> {
    /// And the workers' own ends of the queues.
    pub(super) fn new(config: PoolConfig) -> (Self, Vec<Worker<J>>) {
        let (queues, own) = Queues::new(config.workers);
        let shared = Shared {
            idle: Idle::new(config.workers),
            queues,
            threads: Threads::new(config.workers, config.most),
            alarm: Alarm::default(),
            enrolled: Enrolled::default(),
            short: AtomicU32::new(0),
            config,
        };
        (shared, own)
    }

    pub(super) fn id(&self) -> PoolId {
        PoolId(std::ptr::from_ref(self).addr())
    }

    pub(super) fn is_ended(&self) -> bool {
        self.idle.look().is_ended()
    }

    /// True if workers are stuck. Stale on return.
    pub(super) fn is_short(&self) -> bool {
        // Ordering: Relaxed. A hint.
        self.short.load(Relaxed) != 0
    }

    pub(super) fn set_short(&self, short: bool) {
        // Ordering: Relaxed. A hint.
        self.short.store(u32::from(short), Relaxed);
    }

    /// Something has been put where searchers look. May run user code, in a pool that has ended.
    pub(super) fn announce(&self) {
        if self.idle.announce().is_ended() {
            self.sweep();
        }
    }

    /// Takes in a job that comes from no worker's place.
    pub(super) fn inject(&self, job: J) {
        self.queues.injector.push(job);
        self.announce();
    }

    /// Drops a job un-run.
    pub(super) fn drop_unrun(&self, job: J) {
        self.threads.count_dropped();
        panic::ignore(|| drop(job));
    }

    /// The pool has ended: drops what is queued.
    pub(super) fn sweep(&self) {
        J::drop_all(self.left());
    }

    /// Takes out what is queued.
    fn left(&self) -> impl Iterator<Item = J> {
        std::iter::from_fn(|| self.queues.take_any()).inspect(|_| self.threads.count_dropped())
    }

    /// The pool has ended: lets all threads go that wait, and drops what is queued, or enrolled.
    pub(super) fn see_off(&self) {
        // Before other threads see the end: they drop none of these after this call.
        let enrolled = self.enrolled.end();
        self.idle.end();
        self.threads.dismiss();
        self.alarm.end();
        let enrolled = enrolled.inspect(|job| {
            if job.is_unfinished() {
                self.threads.count_cut();
            }
        });
        J::drop_all(self.left().chain(enrolled));
    }
}

// A panic shows no pool in the middle of a step: what is locked or atomic in it runs no user
// code.
impl<J: Job> RefUnwindSafe for Shared<J> {}

impl<J: Job> fmt::Debug for Shared<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.idle.look();
        f.debug_struct("ThreadPool")
            .field("name", &self.config.name)
            .field("workers", &self.queues.workers())
            .field("asleep", &now.sleepers())
            .field("searching", &now.searchers())
            .field("away", &now.away())
            .field("closing", &now.is_closing())
            .field("ended", &now.is_ended())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "../../tests/pool/shared.rs"]
mod tests;
