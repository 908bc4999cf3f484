//! The queues of a pool, as other threads reach them; and jobs for the tests.

use std::sync::Arc;

use super::*;

/// A job that does nothing. Its memory is counted.
#[derive(Debug)]
pub(in crate::pool) struct Token(Arc<()>);

impl Job for Token {
    fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn into_raw(self) -> Option<NonNull<()>> {
        NonNull::new(Arc::into_raw(self.0).cast_mut())
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: it comes from `into_raw`, once.
        Token(unsafe { Arc::from_raw(raw.as_ptr()) })
    }

    fn is_unfinished(&self) -> bool {
        false
    }

    fn drop_all(jobs: impl Iterator<Item = Self>) {
        jobs.for_each(drop);
    }

    fn run_all(first: Self, mut next: impl FnMut() -> Option<Self>) {
        drop(first);
        while next().is_some() {}
    }
}

pub(in crate::pool) fn job() -> Token {
    Token(Arc::new(()))
}

#[test]
fn what_waits_behind_a_worker_is_moved() {
    let (queues, own) = Queues::new(2);
    assert!(!queues.waits_behind(0) && !queues.has_work() && !queues.expose(0));
    own[0].push(job());
    assert!(queues.waits_behind(0) && !queues.waits_behind(1) && queues.has_work());
    own[0].push(job());
    assert!(queues.expose(0));
    assert!(!queues.waits_behind(0) && own[0].is_empty());
    assert_eq!(queues.injector.len(), 2);
    assert!(queues.of(1).slot.put(job()).is_none());
    assert!(queues.waits_behind(1) && queues.expose(1) && !queues.waits_behind(1));
    assert_eq!(queues.injector.len(), 3);
    assert!(!queues.expose(0) && !queues.expose(1));
    assert!(queues.has_work());
}

#[test]
fn a_thread_without_a_place_takes_from_anywhere() {
    let (queues, own) = Queues::new(3);
    let [outside, queued, kept] = [job(), job(), job()];
    let expected = [outside.id(), queued.id(), kept.id()];
    assert!(queues.of(1).slot.put(kept).is_none());
    assert!(!queues.has_work(), "a slot is searched by no other");
    own[2].push(queued);
    queues.injector.push(outside);
    let taken = std::iter::from_fn(|| queues.take_any());
    assert_eq!(taken.map(|job| job.id()).collect::<Vec<_>>(), expected);
}

#[test]
fn a_drain_left_in_a_slot_is_dropped() {
    let job = job();
    let memory = Arc::downgrade(&job.0);
    let (queues, own) = Queues::new(1);
    assert!(queues.of(0).slot.put(job).is_none());
    drop((queues, own));
    assert_eq!(memory.strong_count(), 0);
}
