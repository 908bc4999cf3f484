//! The queues of a pool: the injector, and each worker's queue and slot, as other
//! threads reach them.
//!
//! Nothing here runs a job, drops one, or tells a worker of one. A method that puts a job where
//! others look says so by its answer.

use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

use super::job::Job;
use super::lifo_slot::LifoSlot;
use crate::sync::CachePadded;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::queue::{Injector, Steal, Stealer, Worker};

pub(super) struct Queues<J: Job> {
    pub(super) injector: Injector<J>,
    remotes: Box<[CachePadded<Remote<J>>]>,
    /// Jobs run by threads without a place; wraps.
    helped: AtomicU32,
}

/// The part of a worker's place that others reach.
pub(super) struct Remote<J: Job> {
    pub(super) queue: Stealer<J>,
    pub(super) slot: JobSlot<J>,
    /// Jobs that the worker has begun; wraps.
    tick: AtomicU32,
}

impl<J: Job> Remote<J> {
    /// True if a thief finds a job in its queue. Two loads: an attempt that finds nothing costs a
    /// fence too, which counts where there are many queues.
    pub(super) fn has_some(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Its worker begins another job.
    pub(super) fn begins(&self, tick: u32) {
        // Ordering: Relaxed. A sign of life: nothing is read through it.
        self.tick.store(tick, Relaxed);
    }
}

impl<J: Job> Queues<J> {
    /// The queues of that many workers, and each worker's own end.
    pub(super) fn new(workers: usize) -> (Self, Vec<Worker<J>>) {
        let own = (0..workers).map(|_| Worker::new_fifo()).collect::<Vec<_>>();
        let remote = |queue: &Worker<J>| Remote {
            queue: queue.stealer(),
            slot: JobSlot(LifoSlot::new(), PhantomData),
            tick: AtomicU32::new(0),
        };
        let remotes = own.iter().map(|queue| CachePadded::new(remote(queue))).collect();
        (Queues { injector: Injector::new(), remotes, helped: AtomicU32::new(0) }, own)
    }

    pub(super) fn workers(&self) -> usize {
        self.remotes.len()
    }

    pub(super) fn of(&self, number: usize) -> &Remote<J> {
        &self.remotes[number]
    }

    /// True if there is something where searchers look.
    pub(super) fn has_work(&self) -> bool {
        !self.injector.is_empty() || self.remotes.iter().any(|remote| remote.has_some())
    }

    /// Takes a job from anywhere, as a thread without a place does. What came from outside is
    /// first.
    pub(super) fn take_any(&self) -> Option<J> {
        let some = || self.remotes.iter().filter(|remote| remote.has_some());
        let queues = || some().find_map(|remote| take(|| remote.queue.steal()));
        let slots = || self.remotes.iter().find_map(|remote| remote.slot.take());
        take(|| self.injector.steal()).or_else(queues).or_else(slots)
    }

    /// A thread without a place begins a job.
    pub(super) fn helps(&self) {
        // Ordering: Relaxed. A sign of life, as in `begins`.
        self.helped.fetch_add(1, Relaxed);
    }

    /// The number of jobs that threads without a place have begun; wraps.
    pub(super) fn helped(&self) -> u32 {
        // Ordering: Relaxed, as above.
        self.helped.load(Relaxed)
    }

    /// The number of jobs that the worker has begun; wraps.
    pub(super) fn tick(&self, number: usize) -> u32 {
        // Ordering: Relaxed, as above.
        self.remotes[number].tick.load(Relaxed)
    }

    /// True if a job waits that only this worker is sure to come to.
    pub(super) fn waits_behind(&self, number: usize) -> bool {
        let remote = &self.remotes[number];
        !remote.slot.0.is_empty() || !remote.queue.is_empty()
    }

    /// Moves what waits behind a worker to the injector, where each worker looks now and then
    /// however busy it is. True if something was moved, which is to be announced.
    #[must_use = "what was moved is to be announced"]
    pub(super) fn expose(&self, number: usize) -> bool {
        let remote = &self.remotes[number];
        let mut moved = false;
        // No more than what is there now: the worker may be running again, and put more in.
        for _ in 0..remote.queue.len() {
            let Some(job) = take(|| remote.queue.steal()) else { break };
            self.injector.push(job);
            moved = true;
        }
        if let Some(job) = remote.slot.take() {
            self.injector.push(job);
            moved = true;
        }
        moved
    }
}

/// A [`LifoSlot`] for a job.
pub(super) struct JobSlot<J: Job>(LifoSlot<()>, PhantomData<fn(J) -> J>);

impl<J: Job> JobSlot<J> {
    pub(super) fn put(&self, job: J) -> Option<J> {
        Self::job(self.0.put(job.into_raw().map_or(null_mut(), NonNull::as_ptr)))
    }

    pub(super) fn take(&self) -> Option<J> {
        Self::job(self.0.take())
    }

    fn job(raw: *mut ()) -> Option<J> {
        // SAFETY: SLOT: the slot holds nothing but what `put` made of jobs, and gives each out
        // once.
        NonNull::new(raw).map(|raw| unsafe { J::from_raw(raw) })
    }
}

impl<J: Job> Drop for JobSlot<J> {
    fn drop(&mut self) {
        drop(Self::job(self.0.put(null_mut())));
    }
}

/// Tries again while others are in the way: each of them has taken something.
pub(crate) fn take<T>(steal: impl Fn() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(taken) => return Some(taken),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/pool/queues.rs"]
pub(super) mod tests;
