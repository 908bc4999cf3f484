//! A request for a lock: its place is taken.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use turnwise::time::Sleep;
use turnwise::{AskError, Limit, Reply, WaitError, in_turn};

use super::error::LockError;
use super::fast::{Asking, FastPermit};
use super::guard::{Held, Thin};
use super::place::{LockPlace, LockSet};
use super::turns::{Ask, Core, End, Granted, Here, LockOutcome, Step};
use crate::limits::{Limits, Terms, Wait};
use crate::registry::KeySlot;

mod sealed {
    use crate::lock::error::{Closed, LockError};

    /// A guard that an [`Acquire`](super::Acquire) comes to.
    pub trait Guarding<K: Send + Sync + 'static>: Sized {
        #[doc(hidden)]
        fn of(held: super::Held<K>) -> Self;
        #[doc(hidden)]
        fn held(&self) -> &super::Held<K>;
        #[doc(hidden)]
        fn into_held(self) -> super::Held<K>;
        /// Of a hold with this weight.
        #[doc(hidden)]
        fn weighing(held: super::Held<K>, _weight: u64) -> Self {
            Self::of(held)
        }
    }

    /// The error of a request that is awaited.
    pub trait Failure: From<Closed> {
        #[doc(hidden)]
        fn of(error: LockError) -> Self;
    }

    impl Failure for LockError {
        fn of(error: LockError) -> Self {
            error
        }
    }

    impl Failure for Closed {
        fn of(error: LockError) -> Self {
            match error {
                LockError::Closed => Closed,
                LockError::Taken => panic!("`Acquire` polled after completion"),
                LockError::Deadlock { .. } => {
                    panic!("a lock was polled inside one of its own wakers")
                }
                error => unreachable!("without limits: {error}"),
            }
        }
    }
}

pub(super) use sealed::{Failure, Guarding};

/// A lock by a key `K` that is asked for and comes as a guard `G`: a `Future` on any runtime, or
/// something to [wait](Self::wait) for.
///
/// `E` is the error of the future: [`Closed`](crate::Closed) of a request without limits, which
/// panics if it is polled after completion, or inside a waker that its own lock calls; else
/// [`LockError`], which says so.
///
/// The place in the queue was taken by the call that made it, and is kept whether anybody polls
/// this or not. Dropping it leaves the queue; if the lock has come meanwhile, it is given back. A
/// future is woken at its limit.
///
/// A waker is called inside a turn of the lock. One that waits for others there, as those of
/// runtimes never do, holds up all who use the lock, and for ever if they wait for it.
#[must_use = "dropping it gives the place up"]
// The key is no projection of the guard: in a task, the compiler could not prove such a future
// `Send` if the key is a `&'static str`.
pub struct Acquire<K: Send + Sync + 'static, G, E = LockError> {
    /// Until it is over.
    place: Option<LockPlace<K>>,
    stage: Stage<K>,
    number: u64,
    /// Its limit, if it has one.
    limit: Option<Wait>,
    sleep: Option<Sleep>,
    /// The name of its key, for an error.
    key: Option<Arc<str>>,
    guard: PhantomData<fn() -> Result<G, E>>,
}

enum Stage<K: Send + Sync + 'static> {
    /// The request waits for its turn in the lock's mailbox: not for the lock. The
    /// cell is set when it is over.
    Asked(Reply<Step<K>>, Arc<OnceLock<()>>),
    /// It is in the queue.
    Waits(Reply<LockOutcome<K>>),
    Over(LockOutcome<K>),
    /// It holds a key that has no mailbox.
    Thin(Thin<K>),
    /// It holds a permit that was there.
    Fast(FastPermit<K>),
    Taken,
}

impl<K: Send + Sync + 'static> Stage<K> {
    fn after(step: Step<K>) -> Self {
        match step {
            Step::Over(outcome) => Stage::Over(outcome),
            Step::Waits(reply) => Stage::Waits(reply),
        }
    }
}

/// The contents of a request.
pub(super) struct Wanted {
    pub(super) owner: Option<u64>,
    pub(super) weight: u64,
    pub(super) limits: Limits,
}

impl<K: Send + Sync + 'static, G, E> Acquire<K, G, E> {
    pub(super) fn refused(error: LockError) -> Self {
        Self::over(Stage::Over(Err(error)))
    }

    pub(super) fn thin(thin: Thin<K>) -> Self {
        Self::over(Stage::Thin(thin))
    }

    pub(super) fn fast(permit: FastPermit<K>) -> Self {
        Self::over(Stage::Fast(permit))
    }

    fn over(stage: Stage<K>) -> Self {
        Acquire {
            place: None,
            stage,
            number: 0,
            limit: None,
            sleep: None,
            key: None,
            guard: PhantomData,
        }
    }

    /// True if it holds the lock already.
    pub(super) fn is_held(&self) -> bool {
        matches!(&self.stage, Stage::Over(Ok(_)) | Stage::Thin(_) | Stage::Fast(_))
    }

    /// An error of it says this name of its key.
    pub(super) fn named(mut self, key: Option<Arc<str>>) -> Self {
        self.key = key;
        self
    }

    /// Takes a place in the queue, or the lock.
    pub(super) fn new(place: LockPlace<K>, wanted: Wanted, terms: Terms) -> Self {
        let Wanted { owner, weight, limits } = wanted;
        let number = place.common().number();
        if terms.early {
            place.want();
        }
        let ask = Ask {
            number,
            owner,
            weight,
            terms,
            immediate: limits.is_immediate(),
            known: place.known(),
            end: None,
        };
        let stage = enter(&place, ask);
        Acquire {
            place: Some(place),
            stage,
            number,
            limit: terms.wait,
            sleep: None,
            key: None,
            guard: PhantomData,
        }
    }

    /// True once it is over: it holds the lock, or never will. Wait-free.
    pub fn is_ready(&self) -> bool {
        match &self.stage {
            // Its answer is there, once that is set.
            Stage::Asked(reply, over) => reply.is_ready() && over.get().is_some(),
            Stage::Waits(reply) => reply.is_ready(),
            Stage::Over(_) | Stage::Thin(_) | Stage::Fast(_) => true,
            Stage::Taken => false,
        }
    }

    fn now(&self) -> Duration {
        self.place.as_ref().map_or(Duration::ZERO, |place| place.common().now())
    }

    /// The time is over: it is not let in any more, unless it was just now.
    fn time_out(&mut self, reply: Reply<LockOutcome<K>>) -> Stage<K> {
        match reply.cancel() {
            Ok(()) => {
                let called = self.limit.map_or(Duration::ZERO, |wait| wait.called);
                let waited = self.now().saturating_sub(called);
                if let Some(place) = self.place.take() {
                    place.end(Core::give_up);
                }
                Stage::Over(Err(LockError::TimedOut { waited, key: None }))
            }
            Err(reply) => match reply.wait() {
                Ok(outcome) => Stage::Over(outcome),
                Err(error) => self.give_in(error),
            },
        }
    }

    /// Its turn, or the answer, cannot be waited for here; but they may be to come.
    fn give_in(&mut self, error: AskError) -> Stage<K> {
        self.withdraw();
        Stage::Over(Err(error.into()))
    }

    /// Takes the request back, and the hold if it has come to one.
    fn withdraw(&mut self) {
        if let Some(place) = self.place.take() {
            let number = self.number;
            place.end(move |core, common| core.withdraw(number, common));
        }
    }
}

impl<K: Send + Sync + 'static, G: Guarding<K>, E> Acquire<K, G, E> {
    /// Waits for the lock, until the deadline that was made by the call. May block.
    ///
    /// # Errors
    /// See [`LockError`]: the lock is not held, and the place is given up.
    ///
    /// # Examples
    /// ```
    /// let locks = turnwise_locks::Locks::new();
    /// let guard = locks.lock("a").wait()?;
    /// assert_eq!(locks.len(), 1);
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn wait(mut self) -> Result<G, LockError> {
        let until = self.limit.map(|limit| limit.at);
        self.wait_until(until, true).unwrap_or(Err(LockError::Taken))
    }

    /// Waits for the lock for so long at most; the place in the queue stays. None: it has not come
    /// yet. May block.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let locks = turnwise_locks::Locks::new();
    /// let first = locks.lock("a").wait()?;
    /// let mut second = locks.lock("a");
    /// assert!(second.wait_timeout(Duration::from_millis(1)).is_none());
    /// drop(first);
    /// let second = second.wait()?;
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn wait_timeout(&mut self, limit: impl Into<Limit>) -> Option<Result<G, LockError>> {
        let own = self.limit.map(|limit| limit.at);
        let other = match limit.into() {
            Limit::Unlimited => None,
            Limit::Immediate => Some(Duration::ZERO),
            Limit::Within(limit) => self.now().checked_add(limit),
        };
        let until = [own, other].into_iter().flatten().min();
        self.wait_until(until, own.is_some() && until == own)
    }

    /// Waits until then, and gives up if that is the end.
    fn wait_until(
        &mut self,
        until: Option<Duration>,
        give_up: bool,
    ) -> Option<Result<G, LockError>> {
        loop {
            self.stage = match std::mem::replace(&mut self.stage, Stage::Taken) {
                Stage::Taken => return Some(Err(LockError::Taken)),
                Stage::Over(outcome) => return Some(self.finish(outcome)),
                Stage::Thin(thin) => return Some(Ok(G::of(Held::thin(thin)))),
                Stage::Fast(permit) => return Some(Ok(G::of(Held::fast(permit)))),
                Stage::Asked(reply, _) => match reply.wait() {
                    Ok(step) => Stage::after(step),
                    Err(error) => self.give_in(error),
                },
                Stage::Waits(reply) => {
                    let left = match until {
                        None => Limit::Unlimited,
                        Some(until) => until.saturating_sub(self.now()).into(),
                    };
                    match reply.wait_timeout(left) {
                        Ok(outcome) => Stage::Over(outcome),
                        Err(WaitError::TimedOut(reply)) if give_up => self.time_out(reply),
                        Err(WaitError::TimedOut(reply)) => {
                            self.stage = Stage::Waits(reply);
                            return None;
                        }
                        Err(WaitError::Ask(error)) => self.give_in(error),
                        Err(_) => unreachable!("a place that is kept is not taken back"),
                    }
                }
            };
        }
    }

    fn finish(&mut self, outcome: LockOutcome<K>) -> Result<G, LockError> {
        let place = self.place.take();
        let granted = outcome.map_err(|error| error.about(self.key.take()))?;
        match (granted, place) {
            (Granted::Lent(permit), _) => Ok(G::of(Held::fast(permit))),
            (Granted::Hold(grant), Some(place)) => Ok(G::of(Held::fat(place, grant))),
            (Granted::Hold(_), None) => unreachable!("what is granted has a place"),
        }
    }
}

/// The request's turn: here and now if that can be, inside a turn of somebody else's, too.
fn enter<K: Send + Sync + 'static>(place: &LockPlace<K>, ask: Ask) -> Stage<K> {
    let mut ask = Some(ask);
    let taken = &mut ask;
    let (set, common, lender) = (place.lock_set(), place.common(), place.lender());
    let here = Here { common, lender, actor: &|| place.actor().downgrade() };
    let locks = set.map(|set| &**set);
    let entered = place.actor().try_with(move |slot| step(locks, here, slot, taken, None));
    if let Ok(step) = entered {
        return Stage::after(step);
    }
    let (set, common, lender) = (set.cloned(), common.clone(), lender.cloned());
    let weak = place.actor().downgrade();
    let over = Arc::new(OnceLock::new());
    if let Some(ask) = &mut ask {
        ask.end = Some(End(over.clone()));
    }
    // FAST-2: from before the end of the call that takes the place.
    let asking = Asking::new(&common);
    let turn = move |slot: &mut _| {
        let here = Here { common: &common, lender: lender.as_ref(), actor: &|| weak.clone() };
        step(set.as_deref(), here, slot, &mut ask, asking)
    };
    // As in `tell`: not put off to the end of this thread's turn.
    let actor = place.actor();
    Stage::Asked(if in_turn() { actor.posted().call(turn) } else { actor.call(turn) }, over)
}

fn step<K: Send + Sync + 'static>(
    set: Option<&LockSet<K>>,
    here: Here<'_, K>,
    slot: &mut KeySlot<K, Core<K>>,
    ask: &mut Option<Ask>,
    asking: Option<Asking>,
) -> Step<K> {
    let core = match set {
        Some(set) => Some(set.registry.state(slot)),
        None => slot.state.as_mut(),
    };
    match (core, ask.take()) {
        (Some(core), Some(ask)) => core.enter(ask, asking, here),
        _ => Step::Over(Err(LockError::Closed)),
    }
}

impl<K: Send + Sync + 'static, G: Guarding<K>, E: Failure> Future for Acquire<K, G, E> {
    type Output = Result<G, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            // What waits stays in its place: a waker, or a clock, that panics leaves it as it is.
            this.stage = match &mut this.stage {
                Stage::Asked(reply, _) => match ready!(Pin::new(reply).poll(cx)) {
                    Ok(step) => Stage::after(step),
                    Err(error) => this.give_in(error),
                },
                Stage::Waits(reply) => match Pin::new(reply).poll(cx) {
                    Poll::Ready(Ok(outcome)) => {
                        this.stage = Stage::Taken;
                        return Poll::Ready(this.finish(outcome).map_err(E::of));
                    }
                    Poll::Ready(Err(error)) => this.give_in(error),
                    Poll::Pending if !this.is_late(cx) => return Poll::Pending,
                    Poll::Pending => match std::mem::replace(&mut this.stage, Stage::Taken) {
                        Stage::Waits(reply) => this.time_out(reply),
                        _ => unreachable!("it waits"),
                    },
                },
                _ => match std::mem::replace(&mut this.stage, Stage::Taken) {
                    Stage::Fast(permit) => return Poll::Ready(Ok(G::of(Held::fast(permit)))),
                    Stage::Thin(thin) => return Poll::Ready(Ok(G::of(Held::thin(thin)))),
                    Stage::Over(outcome) => {
                        return Poll::Ready(this.finish(outcome).map_err(E::of));
                    }
                    _ => return Poll::Ready(Err(E::of(LockError::Taken))),
                },
            };
        }
    }
}

impl<K: Send + Sync + 'static, G, E> Acquire<K, G, E> {
    /// True if its time is over. If not, the task is woken when it is.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let (Some(wait), Some(place)) = (self.limit, &self.place) else { return false };
        let common = place.common();
        let left = wait.at.saturating_sub(common.now());
        let sleep = self.sleep.get_or_insert_with(|| common.time.timers().sleep(left));
        left.is_zero() || Pin::new(sleep).poll(cx).is_ready()
    }

    /// Gives the place up, or the lock.
    fn abandon(&mut self) {
        let outcome = match std::mem::replace(&mut self.stage, Stage::Taken) {
            // It is over; or the clock, or a waker, has panicked in the midst of it.
            Stage::Taken => return self.withdraw(),
            Stage::Over(outcome) => outcome,
            Stage::Thin(thin) => return drop(thin),
            Stage::Fast(permit) => return drop(permit),
            Stage::Asked(reply, _) => match reply.cancel() {
                // It never enters.
                Ok(_) => return,
                Err(reply) if !reply.is_ready() => return self.withdraw(),
                Err(reply) => match reply.wait() {
                    Ok(Step::Over(outcome)) => outcome,
                    Ok(Step::Waits(reply)) => {
                        self.stage = Stage::Waits(reply);
                        return self.abandon();
                    }
                    Err(_) => return,
                },
            },
            Stage::Waits(reply) => match reply.cancel() {
                Ok(()) => {
                    if let Some(place) = self.place.take() {
                        place.end(Core::give_up);
                    }
                    return;
                }
                Err(reply) if !reply.is_ready() => return self.withdraw(),
                Err(reply) => match reply.wait() {
                    Ok(outcome) => outcome,
                    Err(_) => return,
                },
            },
        };
        if let (Ok(grant), Some(place)) = (outcome, self.place.take()) {
            grant.end(place);
        }
    }
}

impl<K: Send + Sync + 'static, G, E> Drop for Acquire<K, G, E> {
    fn drop(&mut self) {
        // What came to its guard has nothing left.
        if self.place.is_some() || !matches!(self.stage, Stage::Taken) {
            self.abandon();
        }
    }
}

// What is granted is not pinned: it is handed out by value.
impl<K: Send + Sync + 'static, G, E> Unpin for Acquire<K, G, E> {}

impl<K: Send + Sync + 'static, G, E> fmt::Debug for Acquire<K, G, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}
