//! The data that the threads of a pool and its handles share.

#![forbid(unsafe_code)]

use std::fmt;

use super::alarm::Alarm;
use super::compensation::Threads;
use super::idle::Idle;
use super::job::{Job, PoolId};
use super::place::WorkerPlace;
use super::queues::Queues;
use crate::enrolled::Enrolled;
use crate::panic;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::Relaxed;

pub(super) struct Shared<J: Job> {
    pub(super) idle: Idle,
    pub(super) queues: Queues<J>,
    pub(super) threads: Threads<WorkerPlace<J>>,
    pub(super) alarm: Alarm,
    pub(super) enrolled: Enrolled<J>,
    /// Set while workers are stuck in their jobs, so that threads without a place help. Set by the
    /// monitor.
    short: AtomicU32,
    pub(super) name: Box<str>,
    pub(super) stack_size: Option<usize>,
}

impl<J: Job> Shared<J> {
    pub(super) fn new(
        queues: Queues<J>,
        most: Option<usize>,
        name: Box<str>,
        stack_size: Option<usize>,
    ) -> Self {
        let workers = queues.workers();
        Shared {
            idle: Idle::new(workers),
            queues,
            threads: Threads::new(workers, most),
            alarm: Alarm::default(),
            enrolled: Enrolled::default(),
            short: AtomicU32::new(0),
            name,
            stack_size,
        }
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

    /// The pool has ended: lets all threads go that wait, and drops what is queued, or suspended.
    pub(super) fn see_off(&self) {
        // Before other threads see the end: they drop none of these after this call.
        let enrolled = self.enrolled.end();
        self.idle.end();
        self.threads.dismiss();
        self.alarm.end();
        let suspended = enrolled.inspect(|job| {
            if job.is_suspended() {
                self.threads.count_cut();
            }
        });
        J::drop_all(self.left().chain(suspended));
    }
}

impl<J: Job> fmt::Debug for Shared<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.idle.look();
        f.debug_struct("ThreadPool")
            .field("name", &self.name)
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
mod tests {
    use super::*;

    #[test]
    fn half_the_workers_search_at_most() {
        for (workers, most) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (8, 4)] {
            let idle = Idle::new(workers);
            let searching = (0..10).filter(|_| idle.start_search()).count();
            assert_eq!((searching, idle.look().searchers()), (most, most as u64));
            for left in (0..most as u64).rev() {
                // None sleeps who could be woken.
                idle.found(|| unreachable!("no worker is to look"));
                assert_eq!(idle.look().searchers(), left);
            }
            assert!(idle.start_search());
        }
    }
}
