//! Jobs that may wait: async closures in a slot, cut at their lease.
//!
//! Job and slot are one future, which is polled by the task that awaits the job. It lies where the
//! end of the lease finds it, so a job is cut even if it is not polled. The one that takes it out
//! has it alone.
//!
//! | the job   | `poll`                                  | `cut`, at the end of the lease            |
//! |-----------|-----------------------------------------|-------------------------------------------|
//! | `Waits`   | takes it, polls it; puts it back, or is done | takes it, drops it, wakes              |
//! | `Taken`   | - (there is one who polls)              | leaves a mark: it is dropped at its await |
//! | `Dropped` | waits                                   | - (a hold ends once, SLOTS-3)                  |
//! | `Gone`    | `Cut`                                   | nothing                                   |
//!
//! - JOB-1: the clean-up of a hold that has expired comes after the job's future is gone: who has
//!   it then finds the clean-up in `owed`, and does it. So the next user of the slot comes after
//!   the destructors. What reclaims is not kept waiting: it may be what ends the poll.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use turnwise::AsyncTurn;

use super::acquire::AcquireSlot;
use super::error::{RunSlotError, SlotError};
use super::slot::Slot;
use crate::keyed::caught;
use crate::lock::LockError;
use crate::sync::Mutex;
use crate::user_code::{catch, ignore, owning};

/// The work that is left when a job's future is gone.
pub(super) type Owed = Box<dyn FnOnce() + Send>;

/// A job, for the end of its lease.
pub(super) trait Cuttable: Send + Sync {
    /// Drops its future, here if it waits, else at its next await.
    fn cut(&self);
    /// Does this when its future is gone: here, or where its future is (JOB-1).
    fn after(&self, work: Owed);
}

type Work<O> = Pin<Box<dyn Future<Output = O> + Send>>;

struct SlotJob<O>(Mutex<JobState<O>>);

struct JobState<O> {
    at: At<O>,
    /// It is to be dropped at its next await.
    cut: bool,
    waker: Option<Waker>,
    owed: Option<Owed>,
}

enum At<O> {
    Waits(Work<O>),
    /// It is being polled, or was dropped by its user and is on its way.
    Taken,
    /// Its lease was over: it is being dropped.
    Dropped,
    Gone,
}

impl<O> SlotJob<O> {
    fn new() -> Arc<Self> {
        let held = JobState { at: At::Taken, cut: false, waker: None, owed: None };
        Arc::new(SlotJob(Mutex::new(held)))
    }

    /// Polls a future that is taken. None: it was cut.
    fn poll_taken(&self, mut work: Work<O>, cx: &mut Context<'_>) -> Poll<Option<O>> {
        let polled = catch(|| match work.as_mut().poll(cx) {
            Poll::Ready(value) => Ok(value),
            Poll::Pending => Err(cx.waker().clone()),
        });
        let outcome = match polled {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(waker)) => {
                let mut held = self.0.lock();
                if !held.cut {
                    held.at = At::Waits(work);
                    let before = held.waker.replace(waker);
                    drop(held);
                    ignore(|| drop(before));
                    return Poll::Pending;
                }
                Ok(None)
            }
            Err(payload) => Err(payload),
        };
        self.leave(work);
        match outcome {
            Ok(outcome) => Poll::Ready(outcome),
            Err(payload) => resume_unwind(payload),
        }
    }

    /// The end of a future that is taken.
    fn leave(&self, work: Work<O>) {
        ignore(|| drop(work));
        let owed = {
            let mut held = self.0.lock();
            held.at = At::Gone;
            held.owed.take()
        };
        // JOB-1.
        owed.into_iter().for_each(|owed| owed());
    }

    /// Polls it, if it waits.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<O>> {
        let waker = cx.waker().clone();
        let mut held = self.0.lock();
        let at = std::mem::replace(&mut held.at, At::Taken);
        if let At::Waits(work) = at {
            drop(held);
            return self.poll_taken(work, cx);
        }
        held.at = at;
        if let At::Gone = held.at {
            return Poll::Ready(None);
        }
        let before = held.waker.replace(waker);
        drop(held);
        ignore(|| drop(before));
        Poll::Pending
    }

    /// Its user has gone.
    fn abandon(&self) {
        let taken = {
            let mut held = self.0.lock();
            match std::mem::replace(&mut held.at, At::Taken) {
                At::Waits(work) => Some(work),
                at => {
                    held.at = at;
                    None
                }
            }
        };
        taken.into_iter().for_each(|work| self.leave(work));
    }
}

impl<O> Cuttable for SlotJob<O> {
    fn cut(&self) {
        let taken = {
            let mut held = self.0.lock();
            held.cut = true;
            match std::mem::replace(&mut held.at, At::Dropped) {
                At::Waits(work) => Some(work),
                at => {
                    held.at = at;
                    None
                }
            }
        };
        let Some(work) = taken else { return };
        ignore(|| drop(work));
        let waker = {
            let mut held = self.0.lock();
            held.at = At::Gone;
            held.waker.take()
        };
        ignore(|| waker.into_iter().for_each(Waker::wake));
    }

    fn after(&self, work: Owed) {
        {
            let mut held = self.0.lock();
            if matches!(held.at, At::Taken) {
                held.owed = Some(work);
                return;
            }
        }
        work();
    }
}

type RunOutcome<R, E> = Result<R, RunSlotError<R, E>>;

/// Makes the future of a job and its slot.
type Begin<R, T, E> = Box<dyn FnOnce(Slot<T, E>) -> Work<RunOutcome<R, E>> + Send>;

/// A job that waits for a slot, or runs in one
/// ([`SlotPool::run_async`](crate::SlotPool::run_async)): a `Future` on any runtime.
///
/// Its place in the queue was taken by the call that made it. The job runs in the polls of this.
/// Dropping it leaves the queue; or drops the job at the await that it is at, and then its slot,
/// which is cleaned up.
#[must_use = "the job runs in its polls"]
pub struct SlotRun<R, T: 'static = (), E: 'static = std::convert::Infallible> {
    stage: Stage<R, T, E>,
}

enum Stage<R, T: 'static, E: 'static> {
    Asked(AcquireSlot<T, E>, Begin<R, T, E>),
    Begun(Arc<SlotJob<RunOutcome<R, E>>>),
    Over,
}

impl<R, T, E> SlotRun<R, T, E>
where
    R: Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    pub(super) fn new<F>(asked: AcquireSlot<T, E>, job: F) -> Self
    where
        F: for<'a> AsyncTurn<&'a mut Slot<T, E>, R, Future: Send> + Send + 'static,
    {
        let begin = move |mut slot: Slot<T, E>| -> Work<RunOutcome<R, E>> {
            Box::pin(async move {
                let came = match catch(|| job(&mut slot)) {
                    Ok(future) => caught(future, Future::poll).await,
                    Err(payload) => Err(payload),
                };
                let value = match came {
                    Ok(value) => value,
                    // The clean-up is user code: not while the thread unwinds.
                    Err(payload) => {
                        drop(slot);
                        resume_unwind(payload)
                    }
                };
                RunSlotError::finished(slot.id(), slot.finish(), value)
            })
        };
        SlotRun { stage: Stage::Asked(asked, Box::new(begin)) }
    }
}

impl<R: Send + 'static, T: 'static, E: Send + 'static> Future for SlotRun<R, T, E> {
    type Output = RunOutcome<R, E>;

    /// # Panics
    /// With the panic of the set-up or of the job; the slot is cleaned up, and given back.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (job, polled) = match std::mem::replace(&mut this.stage, Stage::Over) {
            Stage::Asked(asked, begin) => {
                let poll = |_: &mut _| owning(asked, |asked| asked.poll_slot(cx));
                let (begin, (asked, polled)) = owning(begin, poll);
                match polled {
                    Poll::Pending => {
                        this.stage = Stage::Asked(asked, begin);
                        return Poll::Pending;
                    }
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(Err(RunSlotError::NotStarted(error)));
                    }
                    Poll::Ready(Ok(slot)) => {
                        let job = SlotJob::new();
                        let own: Arc<dyn Cuttable> = job.clone();
                        slot.begin_job(asked.lease(), Arc::downgrade(&own));
                        let polled = job.poll_taken(begin(slot), cx);
                        (job, polled)
                    }
                }
            }
            Stage::Begun(job) => {
                let polled = job.poll(cx);
                (job, polled)
            }
            Stage::Over => {
                let taken = SlotError::NotAcquired(LockError::Taken);
                return Poll::Ready(Err(RunSlotError::NotStarted(taken)));
            }
        };
        match polled {
            Poll::Pending => {
                this.stage = Stage::Begun(job);
                Poll::Pending
            }
            Poll::Ready(outcome) => Poll::Ready(outcome.unwrap_or(Err(RunSlotError::Cut))),
        }
    }
}

impl<R, T: 'static, E: 'static> Drop for SlotRun<R, T, E> {
    fn drop(&mut self) {
        if let Stage::Begun(job) = &self.stage {
            job.abandon();
        }
    }
}

// Neither the job nor its outcome is pinned here.
impl<R, T: 'static, E: 'static> Unpin for SlotRun<R, T, E> {}

impl<R, T: 'static, E: 'static> fmt::Debug for SlotRun<R, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Asked(..) => "asked",
            Stage::Begun(_) => "begun",
            Stage::Over => "over",
        };
        f.debug_struct("SlotRun").field("stage", &stage).finish_non_exhaustive()
    }
}
