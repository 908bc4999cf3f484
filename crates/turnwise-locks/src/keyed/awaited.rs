//! Runs that may wait: async closures, cut at their lease.
//!
//! The turn of such a run is a future that polls the closure's. The thread that runs the turn
//! decides there whether the closure is done or cut: no other touches its future.
//!
//! | the turn              | the closure's future             | its outcome           | the state |
//! |-----------------------|----------------------------------|-----------------------|-----------|
//! | is polled, in time    | is polled: it is ready           | the value, `Overran`  | stays     |
//! |                       | is polled: it is pending         | -                     |           |
//! |                       | panics, and is dropped           | `Panicked`            | goes      |
//! | is polled, lease over | is dropped                       | `Cut(Lease)`          | goes      |
//! | is dropped at an await | is dropped                      | `Cut` by the mailbox  | goes      |
//!
//! - AWAITED-1: the closure's future is gone before the turn looks after the state and ends the
//!   use, and the turn does both before it is over. So the next run of the key starts after the
//!   destructors, and a key outlives what its runs captured.
//! - AWAITED-2: the lease is looked at before each poll but the first, and its timer keeps the
//!   turn's waker while the turn waits. So what waits is cut as soon as the turn is run again, and
//!   a closure that never waits arms no timer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use turnwise::AsyncTurn;
use turnwise::time::Sleep;

use super::error::{Cut, RunError};
use super::turn::{Begun, Ended, Job, begin, end, measured};
use crate::limits::{Terms, TimeSource};
use crate::registry::{Fate, Guard, KeySlot};
use crate::user_code::{Payload, catch, ignore};

/// The end of a turn, however it comes: as its last step, or as the drop of what waits (AWAITED-1).
struct Tail<'a, K, S, G>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    G: Guard<K, S>,
{
    slot: &'a mut KeySlot<K, S>,
    /// Until the end.
    guard: Option<G>,
    /// Until the closure is over.
    begun: Option<Begun<K>>,
    terms: Terms,
}

impl<K, S, G> Tail<'_, K, S, G>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    G: Guard<K, S>,
{
    /// The closure is over: how long did it take?
    fn over<R>(&mut self, came: Came<R>) -> Ended<R> {
        let (Some(guard), Some(begun)) = (&self.guard, self.begun.take()) else {
            unreachable!("a closure that is over has begun")
        };
        let (registry, hash) = (guard.registry(), Some(guard.hash()));
        match came {
            Came::Ready(called) => end(registry, hash, self.terms, begun, called),
            Came::Cut => {
                measured(registry, hash, self.terms, begun, true);
                Ended::Not(RunError::Cut(Cut::Lease))
            }
        }
    }

    /// The last thing of the turn.
    fn finish<R>(mut self, ended: Ended<R>) -> Ended<R> {
        if let Some(mut guard) = self.guard.take() {
            ended.forget(guard.registry(), self.slot);
            guard.came_to(ended.fate());
            guard.finish(self.slot);
        }
        ended
    }
}

impl<K, S, G> Drop for Tail<'_, K, S, G>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    G: Guard<K, S>,
{
    fn drop(&mut self) {
        // The turn was dropped while it waited.
        let Some(mut guard) = self.guard.take() else { return };
        if let Some(begun) = self.begun.take() {
            measured(guard.registry(), Some(guard.hash()), self.terms, begun, false);
        }
        guard.registry().end_cut(self.slot);
        guard.came_to(Fate::Cut);
        guard.finish(self.slot);
    }
}

/// The outcome of a closure.
enum Came<R> {
    Ready(Result<R, Payload>),
    Cut,
}

/// The lease of a closure.
struct RunLease {
    time: TimeSource,
    due: Duration,
    /// From the first poll on that is pending.
    sleep: Option<Sleep>,
}

impl RunLease {
    /// True if it is over. If not, the task is woken when it is.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let RunLease { time, due, sleep } = self;
        let sleep = sleep.get_or_insert_with(|| {
            let timers = time.timers();
            timers.sleep(due.saturating_sub(timers.now()))
        });
        Pin::new(sleep).poll(cx).is_ready()
    }
}

/// A closure's future, gone at the end of this at the latest. Its panic is ignored then, as its
/// outcome is another's: that of who has dropped the turn.
struct HeldFuture<'a, Fut>(Pin<&'a mut Option<Fut>>);

impl<Fut> Drop for HeldFuture<'_, Fut> {
    fn drop(&mut self) {
        ignore(|| self.0.set(None));
    }
}

/// Polls a closure's future until it is ready or its lease is over. Its panics, and those of the
/// clock, come out as its own.
async fn drive<Fut: Future>(future: Fut, mut lease: Option<RunLease>) -> Came<Fut::Output> {
    let mut waits = false;
    let came = caught(future, |future, cx| {
        // AWAITED-2.
        if waits && lease.as_mut().is_some_and(|lease| lease.is_over(cx)) {
            return Poll::Ready(Came::Cut);
        }
        if let Poll::Ready(value) = future.poll(cx) {
            return Poll::Ready(Came::Ready(Ok(value)));
        }
        if !std::mem::replace(&mut waits, true)
            && lease.as_mut().is_some_and(|lease| lease.is_over(cx))
        {
            return Poll::Ready(Came::Cut);
        }
        Poll::Pending
    });
    came.await.unwrap_or_else(|payload| Came::Ready(Err(payload)))
}

/// Polls a future as long as `poll` is pending. A panic comes out as a value, when the future is
/// gone (AWAITED-1): what the caller has goes after it, and not while the thread unwinds.
pub(crate) async fn caught<Fut, T>(
    future: Fut,
    mut poll: impl FnMut(Pin<&mut Fut>, &mut Context<'_>) -> Poll<T>,
) -> Result<T, Payload> {
    let future = pin!(Some(future));
    let mut held = HeldFuture(future);
    let came = poll_fn(|cx| {
        let polled = catch(|| match held.0.as_mut().as_pin_mut() {
            Some(future) => poll(future, cx),
            None => unreachable!("it is there until it is over"),
        });
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(payload) => Poll::Ready(Err(payload)),
        }
    })
    .await;
    match catch(|| held.0.set(None)) {
        Ok(()) => came,
        Err(payload) => {
            ignore(|| drop(came));
            Err(payload)
        }
    }
}

impl<F, G> Job<F, G> {
    /// The turn of an async closure. User code may panic in it: nothing comes out but the outcome.
    pub(super) async fn perform_async<K, S, R>(
        self,
        slot: &mut KeySlot<K, S>,
        terms: Terms,
    ) -> Ended<R>
    where
        K: Send + Sync + 'static,
        S: Send + 'static,
        F: for<'a> AsyncTurn<&'a mut S, R, Future: Send>,
        G: Guard<K, S>,
    {
        let Job { f, guard } = self;
        let time = terms.lease.map(|_| guard.registry().time.clone());
        let mut tail = Tail { slot, guard: Some(guard), begun: None, terms };
        let ready = match &tail.guard {
            Some(guard) => begin(guard.registry(), tail.slot, terms),
            None => unreachable!("it is there until the end"),
        };
        let came = match ready {
            Err(ended) => {
                ignore(|| drop(f));
                return tail.finish(ended);
            }
            Ok((begun, state)) => {
                // A lease beyond what the clock can show is never over.
                let due = terms.lease.zip(begun.at).and_then(|(lease, at)| at.checked_add(lease));
                let lease = time.zip(due).map(|(time, due)| RunLease { time, due, sleep: None });
                tail.begun = Some(begun);
                match catch(|| f(state)) {
                    Ok(future) => drive(future, lease).await,
                    Err(payload) => Came::Ready(Err(payload)),
                }
            }
        };
        let ended = tail.over(came);
        tail.finish(ended)
    }
}
