//! Turns that may wait: `async` closures and handlers.

use std::fmt;
use std::future::Future;

use super::outgoing::{Shown, as_sent};
use super::reply::promise_of;
use super::waiting::Asking;
use super::{Actor, Posted, Promise, Reply, Waiting, WeakActor};
use crate::cell::header::AWAITS;
use crate::cell::refs::{Strong, Weak};
use crate::cell::resident::InTurn;
use crate::cell::turn::Keeper;
use crate::mailbox::oneshot::Asker;
use crate::send::message::Answer;
use crate::send::push::By;
use crate::turn::cut::stop_in_turn;
use crate::turn::envelope::awaited::{AsyncMessage, Awaited, On};
use crate::turn::waking::abort;

/// Argument of [`Actor::run`]: `async |state| ..`, an `async fn(&mut S) -> R`, or a function that
/// returns a boxed future of the state's lifetime. (A plain closure that returns one needs a bound
/// that says so: `for<'a> FnOnce(&'a mut S) -> ..`.) It cannot be implemented elsewhere.
///
/// `|state| async move { .. }` is none of these. It is error E0282, "type annotations needed", and
/// with an annotation the future cannot borrow the state.
///
/// The future is `Send`: what it holds across an await may go to another thread.
// The first bound is there so that `async |state| ..` needs no annotation.
pub trait AsyncTurn<A, R>:
    AsyncFnOnce(A) -> R + FnOnce(A) -> <Self as AsyncTurn<A, R>>::Future
{
    /// The turn, as the future that it is.
    type Future: Future<Output = R>;
}

impl<F, A, R, Fut> AsyncTurn<A, R> for F
where
    F: AsyncFnOnce(A) -> R + FnOnce(A) -> Fut,
    Fut: Future<Output = R>,
{
    type Future = Fut;
}

/// Handles messages of type `M` in an async turn.
///
/// The turn lasts until the future is done: nothing else of the actor runs meanwhile, and no thread
/// is blocked. See [`Actor::run`] for what may happen at an await.
///
/// # Examples
/// ```
/// use turnwise::{Actor, AsyncContext, AsyncHandler, promise, Reply};
///
/// struct Till(u64);
/// struct Pay(Reply<u64>); // an amount that is yet to come
///
/// impl AsyncHandler<Pay> for Till {
///     type Reply = u64;
///     async fn handle(&mut self, Pay(amount): Pay, _: &mut AsyncContext<Self>) -> u64 {
///         self.0 += amount.await.unwrap_or(0);
///         self.0
///     }
/// }
///
/// let till = Actor::new(Till(10));
/// let (amount, reply) = promise();
/// let total = till.ask_async(Pay(reply));
/// assert!(!total.is_ready()); // the turn waits
/// amount.keep(5);
/// assert_eq!(total.wait()?, 15);
/// # Ok::<(), turnwise::AskError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "an actor of `{Self}` does not take this message in a turn that may wait",
    label = "`AsyncHandler<{M}>` is not implemented for `{Self}`",
    note = "implement `AsyncHandler` of the message's type for the state, or send a closure: \
            `actor.run(async |state| ..)`"
)]
pub trait AsyncHandler<M>: Sized {
    /// The answer to the sender of an [`ask_async`](Actor::ask_async).
    type Reply: Send + 'static;

    /// One turn.
    fn handle(
        &mut self,
        message: M,
        cx: &mut AsyncContext<Self>,
    ) -> impl Future<Output = Self::Reply> + Send;
}

/// The actor that an [`AsyncHandler`] runs in, seen from inside.
pub struct AsyncContext<S> {
    weak: Weak<S>,
}

impl<S> AsyncContext<S> {
    /// A handle to this actor; none once all handles are gone and it is only running what was left.
    /// Lock-free.
    pub fn actor(&self) -> Option<Actor<S>> {
        self.weak.upgrade().map(|handle| Actor { handle })
    }

    /// A handle to this actor that does not keep it going. Wait-free.
    pub fn weak(&self) -> WeakActor<S> {
        WeakActor::of(self.weak.clone())
    }

    /// Stops this actor, as [`Actor::stop`] does: this turn, too, is cut if it waits once more.
    /// Lock-free, apart from a short lock.
    pub fn stop(&mut self) {
        stop_in_turn(self.weak.as_ref());
    }

    /// The name that the actor was built with. Wait-free.
    pub fn name(&self) -> Option<&str> {
        self.weak.as_ref().header().config().name.as_deref()
    }

    /// A [`promise`](crate::promise) whose waits are measured on this actor's clock. Lock-free.
    pub fn promise<R: Send + 'static>(&self) -> (Promise<R>, Reply<R>) {
        promise_of(self.weak.as_ref().header().config())
    }
}

impl<S> fmt::Debug for AsyncContext<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncContext").field("actor", &self.name()).finish_non_exhaustive()
    }
}

/// Aborts a turn that was sent with [`Actor::run_abortable`].
///
/// Its drop aborts nothing. Clones are for the same turn.
#[derive(Clone)]
pub struct AbortHandle(Keeper);

impl AbortHandle {
    /// Has the turn dropped at the await that it is at, or comes to next; one that has not begun
    /// is dropped when its turn comes. Its asker is answered
    /// [`AskError::Aborted`](crate::AskError::Aborted) then, unless the turn is done before. The
    /// next message runs after the turn's destructors. Does nothing to a turn that is over.
    ///
    /// Never drops the turn in this call, and never waits. Lock-free, apart from an executor that
    /// is called.
    pub fn abort(&self) {
        abort(&self.0);
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").finish_non_exhaustive()
    }
}

struct AsyncClosure<F>(F);

impl<S, F, R, Fut> AsyncMessage<S> for AsyncClosure<F>
where
    S: 'static,
    F: FnOnce(&'static mut S) -> Fut + Send + 'static,
    Fut: Future<Output = R> + Send,
    R: Send + 'static,
{
    type Answer = R;
    /// A closure has no name to be handed back by.
    type Payload = ();
    type Future = Fut;

    fn begin(self, state: &'static mut S, _: InTurn<'_, S>) -> Fut {
        (self.0)(state)
    }

    fn payload(self) {}
}

impl<F> Shown for AsyncClosure<F> {
    type As = F;
}

/// A typed message, and what makes its turn.
struct AsyncTyped<M, F>(M, F);

impl<S, M, F, Fut, R> AsyncMessage<S> for AsyncTyped<M, F>
where
    S: 'static,
    M: Send + 'static,
    F: FnOnce(&'static mut S, M, AsyncContext<S>) -> Fut + Send + 'static,
    Fut: Future<Output = R> + Send,
    R: Send + 'static,
{
    type Answer = R;
    type Payload = M;
    type Future = Fut;

    fn begin(self, state: &'static mut S, turn: InTurn<'_, S>) -> Fut {
        let AsyncTyped(message, f) = self;
        f(state, message, AsyncContext { weak: turn.weak() })
    }

    fn payload(self) -> M {
        self.0
    }
}

impl<M, F> Shown for AsyncTyped<M, F> {
    type As = M;
}

/// The turn of a typed message.
fn typed<S, M>(message: M) -> impl AsyncMessage<S, Answer = S::Reply, Payload = M> + Shown
where
    S: AsyncHandler<M> + Send + 'static,
    M: Send + 'static,
{
    AsyncTyped(message, |state: &'static mut S, message, mut cx: AsyncContext<S>| async move {
        state.handle(message, &mut cx).await
    })
}

/// Sends a turn that may wait.
#[inline]
fn ask<S: Send + 'static, L: AsyncMessage<S> + Shown>(
    handle: &Strong<S>,
    message: L,
    by: By,
) -> Reply<L::Answer, L::Payload> {
    as_sent!(handle, message => {
        let (turn, asker) = Awaited::new(message);
        sent(handle, turn, asker, by)
    })
}

/// Sends a turn that may wait, whose asker this is.
#[inline]
pub(super) fn sent<S: Send + 'static, L: AsyncMessage<S>>(
    handle: &Strong<S>,
    turn: Awaited<On<S, L>>,
    asker: Asker<L::Answer, L::Payload>,
    by: By,
) -> Reply<L::Answer, L::Payload> {
    handle.header().announce(AWAITS);
    let answer = match handle.put_in(turn, by) {
        Ok(()) => Ok(Answer::Pending(asker, handle.to_ref())),
        Err((turn, reason)) => Err((turn.take_back(asker), reason)),
    };
    Reply::of(handle, answer, AsyncMessage::<S>::payload)
}

/// [`ask`], with a handle that aborts the turn.
fn ask_abortable<S: Send + 'static, L: AsyncMessage<S> + Shown>(
    handle: &Strong<S>,
    message: L,
) -> (Reply<L::Answer, L::Payload>, AbortHandle) {
    as_sent!(handle, message => {
        let (turn, asker) = Awaited::new(message);
        let abort = AbortHandle(turn.keeper());
        (sent(handle, turn, asker, By::Sender), abort)
    })
}

impl<S: Send + 'static> Actor<S> {
    /// Sends a turn that may wait: an `async` closure on the state, whose result comes back in a
    /// [`Reply`].
    ///
    /// The turn lasts until its future is done. Nothing else of the actor runs meanwhile, messages
    /// wait in their order, and no thread is blocked: a turn that is pending lies in its own memory
    /// until it is woken, and goes on where the actor is at home, in its executor, or, without one,
    /// in [`ThreadPool::global`](crate::ThreadPool::global). It runs here and now, up to its first
    /// await that is pending, if the actor is idle and may run here. One allocation carries
    /// closure, future and answer; no poll allocates. Lock-free, as [`send`](Self::send).
    ///
    /// At every await that is pending
    /// - [`abort`](Self::run_abortable) and [`stop`](Self::stop) cut the turn: its future is
    ///   dropped, then its asker is answered [`AskError::Aborted`](crate::AskError::Aborted);
    /// - [`close`](Self::close) and the drop of the last handle wait for it, and so does one that
    ///   waits for the actor's [end](Self::ended);
    /// - a turn that cannot be woken any more, because all of its wakers were dropped, is dropped,
    ///   and answered [`AskError::Abandoned`](crate::AskError::Abandoned).
    ///
    /// Dropping the reply leaves the turn as it is; [`Reply::cancel`] takes one back that has not
    /// begun. A panic is that of a turn: the [policy](crate::PanicPolicy) acts after the future was
    /// dropped. A question to the turn's own actor, awaited in the turn, is refused at once:
    /// [`Reason::Deadlock`](crate::Reason::Deadlock). A circle of several turns that await each
    /// other is not looked for: they wait until one of them is cut.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, promise};
    ///
    /// let names = Actor::new(vec!["ada".to_string()]);
    /// let (name, later) = promise::<String>();
    /// let count = names.run(async move |names| {
    ///     names.push(later.await.unwrap_or_default()); // no thread waits here
    ///     names.len()
    /// });
    /// let first = names.call(|names| names[1].clone()); // waits behind the turn
    /// name.keep("grace".into());
    /// assert_eq!((count.wait()?, first.wait()?.as_str()), (2, "grace"));
    /// # Ok::<(), turnwise::AskError>(())
    /// ```
    pub fn run<F, R>(&self, turn: F) -> Reply<R>
    where
        F: for<'a> AsyncTurn<&'a mut S, R, Future: Send> + Send + 'static,
        R: Send + 'static,
    {
        ask(&self.handle, AsyncClosure(turn), By::Sender)
    }

    /// As [`run`](Self::run), with a handle that aborts the turn.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, ActorName, AskError, promise};
    ///
    /// let n = Actor::new(0);
    /// let (_never, kept) = promise::<()>();
    /// let (turn, handle) = n.run_abortable(async move |n| {
    ///     *n += 1;
    ///     let _ = kept.await;
    ///     *n += 1;
    /// });
    /// handle.abort();
    /// assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
    /// assert_eq!(n.with(|n| *n)?, 1); // what it has done stays
    /// # Ok::<(), AskError>(())
    /// ```
    pub fn run_abortable<F, R>(&self, turn: F) -> (Reply<R>, AbortHandle)
    where
        F: for<'a> AsyncTurn<&'a mut S, R, Future: Send> + Send + 'static,
        R: Send + 'static,
    {
        ask_abortable(&self.handle, AsyncClosure(turn))
    }

    /// Sends a typed message whose turn may wait; as [`run`](Self::run) in every respect.
    /// [`Reply::cancel`] gives the message back, also if it was refused.
    pub fn ask_async<M, R>(&self, message: M) -> Reply<R, M>
    where
        S: AsyncHandler<M, Reply = R>,
        M: Send + 'static,
        R: Send + 'static,
    {
        ask(&self.handle, typed::<S, M>(message), By::Sender)
    }
}

impl<S: Send + 'static> Posted<'_, S> {
    /// As [`Actor::run`]: the turn does not begin in this call.
    pub fn run<F, R>(&self, turn: F) -> Reply<R>
    where
        F: for<'a> AsyncTurn<&'a mut S, R, Future: Send> + Send + 'static,
        R: Send + 'static,
    {
        ask(&self.actor.handle, AsyncClosure(turn), By::Poster)
    }

    /// As [`Actor::ask_async`]: the turn does not begin in this call.
    pub fn ask_async<M, R>(&self, message: M) -> Reply<R, M>
    where
        S: AsyncHandler<M, Reply = R>,
        M: Send + 'static,
        R: Send + 'static,
    {
        ask(&self.actor.handle, typed::<S, M>(message), By::Poster)
    }
}

impl<S: Send + 'static> Waiting<'_, S> {
    /// As [`Actor::run`].
    pub fn run<F, R>(&self, turn: F) -> Asking<R>
    where
        F: for<'a> AsyncTurn<&'a mut S, R, Future: Send> + Send + 'static,
        R: Send + 'static,
    {
        Asking::of_turn(&self.actor.handle, AsyncClosure(turn))
    }

    /// As [`Actor::ask_async`].
    pub fn ask_async<M, R>(&self, message: M) -> Asking<R, M>
    where
        S: AsyncHandler<M, Reply = R>,
        M: Send + 'static,
        R: Send + 'static,
    {
        Asking::of_turn(&self.actor.handle, typed::<S, M>(message))
    }
}
