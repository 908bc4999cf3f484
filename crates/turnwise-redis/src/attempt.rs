//! Attempts of requests: by their callers first, then on the client's thread.
//!
//! - ATTEMPT-1: the first attempt runs on its caller: in the caller's runtime, or on the thread
//!   that waits. That thread makes a blocking call of the store, or, if that has none or the wait
//!   has a limit, polls the attempt in a runtime that the client keeps. So an immediate answer
//!   wakes no other thread.
//! - ATTEMPT-2: a request that has to wait longer, or to be repeated, moves to the client's thread,
//!   which receives notices. It moves as a whole, and once.
//! - ATTEMPT-3: a request that its caller does not poll moves, too: if it was never polled, or not
//!   since it was woken, or not before its queue entry has to be refreshed. While there are
//!   attempts, the client's thread looks for such requests a few times a second. A blocking call
//!   ends before a queue entry has to be refreshed. So each request is sent, queue entries are kept
//!   and holds are renewed, whether the futures are polled or not.
//! - ATTEMPT-4: callers' wakers, and stores, may panic, and may block where a caller polls. The
//!   client's thread waits for no caller, and goes on if a waker panics.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{EnterGuard, Handle, Runtime};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, sleep, timeout_at};
use turnwise::{AskError, Limit, Reply, WaitError, blocking, promise};

use crate::business::{Business, Handles};
use crate::error::LockError;
use crate::io::Io;
use crate::report::Reports;

/// The caller of an attempt, as the attempt's future sees it.
#[derive(Clone)]
pub(crate) struct Caller {
    signal: Arc<Signal>,
}

/// State shared by an attempt and its future. Wakes the caller that polled last.
struct Signal {
    waker: Mutex<Waker>,
    /// True if the caller has not polled since it was woken, or never.
    is_due: AtomicBool,
    /// True once the client's thread has it.
    has_moved: AtomicBool,
    /// True while the caller is a thread that waits for as long as the attempt takes.
    may_block: AtomicBool,
}

impl Caller {
    fn new(has_moved: bool) -> Self {
        let waker = Mutex::new(Waker::noop().clone());
        let (is_due, has_moved) = (AtomicBool::new(true), AtomicBool::new(has_moved));
        let may_block = AtomicBool::new(false);
        Caller { signal: Arc::new(Signal { waker, is_due, has_moved, may_block }) }
    }

    /// The caller of an attempt that begins on the client's thread.
    pub(crate) fn there() -> Self {
        Caller::new(true)
    }

    /// True while the caller polls it.
    pub(crate) fn is_here(&self) -> bool {
        !self.signal.has_moved.load(Relaxed)
    }

    /// True while the caller polls it on a thread that may block.
    pub(crate) fn may_block(&self) -> bool {
        self.is_here() && self.signal.may_block.load(Relaxed)
    }

    /// Moves the attempt to the client's thread, unless it is there.
    pub(crate) async fn moves(&self) {
        let mut moves = !self.signal.has_moved.swap(true, Relaxed);
        poll_fn(|_| match std::mem::take(&mut moves) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }
}

impl Signal {
    fn waker(&self) -> MutexGuard<'_, Waker> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Relaxed);
        let waker = self.waker().clone();
        waker.wake();
    }
}

type Asking<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The state of a request.
enum RequestState<T, E> {
    /// The caller polls it.
    Here(PolledRequest<T, E>),
    /// The client's thread runs it.
    There(Reply<Result<T, E>>, AbortHandle),
    Answered(Result<T, E>),
    Over,
}

struct PolledRequest<T, E> {
    asking: Asking<T, E>,
    caller: Caller,
    since: Instant,
    listed: Listed,
}

/// Registers an attempt as polled by its caller, until it is dropped.
struct Listed {
    home: Arc<Home>,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.home.callers().here.remove(&self.number);
    }
}

/// Shared by the attempts of a client: its thread, and runtimes for threads that wait.
pub(crate) struct Home {
    io: Io,
    business: Arc<Business>,
    callers: Mutex<Callers>,
    /// `None` if callers make no attempts themselves.
    threads: Option<Threads>,
    /// `None` if the client's thread makes all reports.
    pub(crate) reports: Option<Arc<Reports>>,
    /// The interval at which attempts of callers are checked: shorter than the lifetimes of queue
    /// entries and holds.
    pause: Duration,
    /// The age at which an attempt moves to the client's thread.
    pub(crate) old: Duration,
}

/// The attempts that their callers poll, by number: older ones have lower numbers.
#[derive(Default)]
struct Callers {
    next: u64,
    here: BTreeMap<u64, Weak<dyn Adopted>>,
    /// True while a task checks them.
    looks: bool,
}

impl Home {
    pub(crate) fn new(
        io: &Io,
        business: &Arc<Business>,
        (place, lease): (Duration, Duration),
        by_callers: bool,
    ) -> Self {
        Home {
            io: io.clone(),
            business: business.clone(),
            callers: Mutex::default(),
            threads: by_callers.then(Threads::default),
            reports: by_callers.then(|| Reports::new(io)),
            pause: (place.min(lease) / 6).min(Duration::from_millis(250)),
            old: place / 2,
        }
    }

    fn callers(&self) -> MutexGuard<'_, Callers> {
        // No code of users runs under this lock.
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt that the client's thread can take over.
trait Adopted: Send + Sync {
    /// Takes it over if it is due, or older than this. Returns the waker of the task that waits for
    /// it.
    fn moves(&self, old: Duration) -> Option<Waker>;
}

impl<T: Send + 'static, E: Send + 'static> Adopted for Mutex<RequestState<T, E>> {
    fn moves(&self, old: Duration) -> Option<Waker> {
        match self.try_lock() {
            Ok(mut state) => state.moves_if_due(old),
            Err(TryLockError::Poisoned(error)) => error.into_inner().moves_if_due(old),
            // Its caller polls it.
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Moves attempts that their callers do not poll, as long as there are any.
async fn look(home: Weak<Home>, pause: Duration) {
    let mut looked = 0;
    loop {
        sleep(pause).await;
        let Some(home) = home.upgrade() else { return };
        let mut callers = home.callers();
        // Those that have existed for longer than a pause.
        let late = callers.here.range(..looked).filter_map(|(_, late)| late.upgrade());
        let late: Vec<_> = late.collect();
        callers.looks = !callers.here.is_empty() || callers.next != looked;
        looked = callers.next;
        let goes_on = callers.looks;
        drop(callers);
        for waker in late.iter().filter_map(|late| late.moves(home.old)) {
            // A waker may panic, so it runs in a task of its own.
            home.io.spawn(async move { waker.wake() });
        }
        if !goes_on {
            return;
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> RequestState<T, E> {
    fn there(home: &Home, asking: impl Future<Output = Result<T, E>> + Send + 'static) -> Self {
        let (promise, reply) = promise();
        let task = home.business.spawn(&home.io, async move { promise.keep(asking.await) });
        RequestState::There(reply, task.abort_handle())
    }

    /// Polls an attempt of this caller, in the caller's runtime. Returns false if it has moved or
    /// completed.
    fn poll_here(&mut self, cx: &mut Context<'_>) -> bool {
        let RequestState::Here(PolledRequest { asking, caller, .. }) = self else { return false };
        caller.signal.waker().clone_from(cx.waker());
        caller.signal.is_due.store(false, Relaxed);
        let waker = Waker::from(caller.signal.clone());
        match asking.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => *self = RequestState::Answered(answer),
            Poll::Pending if !caller.is_here() => self.moves(),
            Poll::Pending => return true,
        }
        false
    }

    fn may_block(&self, may: bool) {
        if let RequestState::Here(PolledRequest { caller, .. }) = self {
            caller.signal.may_block.store(may, Relaxed);
        }
    }

    fn moves(&mut self) {
        *self = match std::mem::replace(self, RequestState::Over) {
            RequestState::Here(PolledRequest { asking, caller, listed, .. }) => {
                caller.signal.has_moved.store(true, Relaxed);
                RequestState::there(&listed.home, asking)
            }
            state => state,
        };
    }

    /// Moves it to the client's thread if it is due, or older than this. Returns the waker of the
    /// task that waits for it.
    fn moves_if_due(&mut self, old: Duration) -> Option<Waker> {
        let RequestState::Here(PolledRequest { caller, since, .. }) = self else { return None };
        if !caller.signal.is_due.load(Relaxed) && since.elapsed() <= old {
            return None;
        }
        let waker = Waker::from(caller.signal.clone());
        self.moves();
        Some(waker)
    }
}

struct Attempt<T, E> {
    state: Arc<Mutex<RequestState<T, E>>>,
}

impl<T: Send + 'static, E: From<AskError> + Send + 'static> Attempt<T, E> {
    fn new<F>(home: &Arc<Home>, asks: impl FnOnce(Caller) -> F) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let caller = Caller::new(false);
        let (asking, since) = (Box::pin(asks(caller.clone())), Instant::now());
        let mut callers = home.callers();
        let number = callers.next;
        callers.next += 1;
        let listed = Listed { home: home.clone(), number };
        let here = PolledRequest { asking, caller, since, listed };
        let state = Arc::new(Mutex::new(RequestState::Here(here)));
        let adopted: Arc<dyn Adopted> = state.clone();
        callers.here.insert(number, Arc::downgrade(&adopted));
        let looks = std::mem::replace(&mut callers.looks, true);
        drop(callers);
        if !looks {
            home.io.spawn(look(Arc::downgrade(home), home.pause));
        }
        Attempt { state }
    }

    fn there(home: &Home, asking: impl Future<Output = Result<T, E>> + Send + 'static) -> Self {
        Attempt { state: Arc::new(Mutex::new(RequestState::there(home, asking))) }
    }

    fn over(answer: Result<T, E>) -> Self {
        Attempt { state: Arc::new(Mutex::new(RequestState::Answered(answer))) }
    }

    /// Waits for the answer. Returns `None` at the limit. May block.
    fn wait(&mut self, limit: Limit) -> Option<Result<T, E>> {
        let deadline = match limit {
            Limit::Immediate => Some(Instant::now()),
            Limit::Within(limit) => Instant::now().checked_add(limit),
            _ => None,
        };
        self.wait_here(deadline);
        let mut state = self.lock();
        match std::mem::replace(&mut *state, RequestState::Over) {
            RequestState::Answered(answer) => Some(answer),
            RequestState::Over => Some(Err(AskError::Taken.into())),
            here @ RequestState::Here { .. } => {
                *state = here;
                None
            }
            RequestState::There(reply, task) => {
                drop(state);
                let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
                match reply.wait_timeout(left.map_or(limit, Limit::Within)) {
                    Ok(answer) => Some(answer),
                    Err(WaitError::TimedOut(reply)) => {
                        *self.lock() = RequestState::There(reply, task);
                        None
                    }
                    Err(WaitError::Ask(error)) => Some(Err(error.into())),
                    Err(_) => Some(Err(AskError::Taken.into())),
                }
            }
        }
    }

    /// Waits as long as the attempt runs on this thread.
    fn wait_here(&self, deadline: Option<Instant>) {
        let home = match &*self.lock() {
            RequestState::Here(here) => here.listed.home.clone(),
            _ => return,
        };
        // A thread that has a runtime may drive it. A thread that ends can have none.
        let may_have = Handle::try_current().is_err_and(|error| error.is_missing_context());
        let threads = home.threads.as_ref().filter(|_| may_have);
        let Some(taken) = threads.and_then(Threads::take) else { return self.lock().moves() };
        // The thread sends a step itself, if the store lets it. Returns whether the attempt still
        // runs here.
        let blocks = || {
            let _runtime = taken.enter();
            let mut state = self.lock();
            state.may_block(true);
            let goes_on = state.poll_here(&mut Context::from_waker(Waker::noop()));
            state.may_block(false);
            goes_on
        };
        let here = poll_fn(|cx| match self.lock().poll_here(cx) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        });
        let waits = async {
            // Lets the runtime read what has arrived meanwhile: the server may have closed the
            // connection.
            yield_now().await;
            yield_now().await;
            match deadline {
                Some(deadline) => drop(timeout_at(deadline, here).await),
                None => here.await,
            }
        };
        blocking(|| {
            if deadline.is_some() || blocks() {
                taken.block_on(waits);
            }
        });
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        let mut state = self.lock();
        if let RequestState::Here(here) = &*state
            && (here.listed.home.threads.is_none() || Handle::try_current().is_err())
        {
            state.moves();
        }
        if state.poll_here(cx) {
            return Poll::Pending;
        }
        if let RequestState::There(reply, _) = &mut *state {
            let answer = std::task::ready!(Pin::new(reply).poll(cx));
            if !matches!(answer, Err(AskError::Refused(..))) {
                *state = RequestState::Over;
            }
            return Poll::Ready(answer.unwrap_or_else(|error| Err(error.into())));
        }
        Poll::Ready(match std::mem::replace(&mut *state, RequestState::Over) {
            RequestState::Answered(answer) => answer,
            _ => Err(AskError::Taken.into()),
        })
    }

    /// A due attempt moves to the client's thread, because its caller may not poll again.
    fn is_ready(&self) -> bool {
        let mut state = self.lock();
        let waker = state.moves_if_due(Duration::MAX);
        let is_ready = match &*state {
            RequestState::There(reply, _) => reply.is_ready(),
            RequestState::Answered(_) => true,
            _ => false,
        };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        is_ready
    }
}

impl<T, E> Attempt<T, E> {
    fn lock(&self) -> MutexGuard<'_, RequestState<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request to the store: a `Future` for any runtime, which can also be [waited](Self::wait) for.
///
/// The request is sent when this is polled or waited for, or by the client's thread within half a
/// second. From then on it makes progress whether this is polled or not. Dropping this gives the
/// request up; a lock that was granted meanwhile is released.
///
/// In a tokio runtime, which must have IO and time enabled, the first attempt uses a connection of
/// that runtime. A thread that waits has a connection, too. With
/// [`one_connection`](crate::RemoteBuilder::one_connection) all requests use that of the client's
/// own thread.
#[must_use = "dropping it gives the request up"]
pub struct Acquire<T, E = LockError> {
    attempt: Attempt<T, E>,
    /// Called with the answer when it is handed out.
    handed: fn(&mut T, &Handles),
    /// Dropped after the attempt, which may contain a lock. `None` if no request was made.
    handles: Option<Handles>,
}

impl<T, E> Acquire<T, E> {
    fn hand(&self, answer: Result<T, E>) -> Result<T, E> {
        answer.map(|mut answer| {
            if let Some(handles) = &self.handles {
                (self.handed)(&mut answer, handles);
            }
            answer
        })
    }
}

impl<T: Send + 'static, E: From<AskError> + Send + 'static> Acquire<T, E> {
    /// A request that begins on its caller.
    pub(crate) fn new<F>(
        home: &Arc<Home>,
        handles: &Handles,
        handed: fn(&mut T, &Handles),
        asks: impl FnOnce(Caller) -> F,
    ) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let attempt = Attempt::new(home, asks);
        Acquire { attempt, handed, handles: Some(handles.clone()) }
    }

    /// A request that begins on the client's thread.
    pub(crate) fn there(
        home: &Home,
        handles: &Handles,
        handed: fn(&mut T, &Handles),
        asking: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Self {
        Acquire { attempt: Attempt::there(home, asking), handed, handles: Some(handles.clone()) }
    }

    pub(crate) fn over(answer: Result<T, E>) -> Self {
        Acquire { attempt: Attempt::over(answer), handed: |_, _| (), handles: None }
    }

    /// Waits for the answer, until the deadline set by the call that made the request. May block.
    ///
    /// # Errors
    /// See [`LockError`]: nothing is held. Of an admission, [`Refused`](crate::admission::Refused).
    pub fn wait(mut self) -> Result<T, E> {
        let answer = self.attempt.wait(Limit::Unlimited);
        self.hand(answer.unwrap_or_else(|| Err(AskError::Taken.into())))
    }

    /// Waits for the answer for this time at most. Returns `None` if it has not come; the request
    /// remains. May block.
    ///
    /// # Errors
    /// See [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, limit: impl Into<Limit>) -> Option<Result<T, E>> {
        let answer = self.attempt.wait(limit.into())?;
        Some(self.hand(answer))
    }

    /// True if the answer has come. Takes a short lock, and does not wait otherwise.
    pub fn is_ready(&self) -> bool {
        self.attempt.is_ready()
    }
}

impl<T: Send + 'static, E: From<AskError> + Send + 'static> Future for Acquire<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(self.attempt.poll(cx));
        Poll::Ready(self.hand(answer))
    }
}

impl<T, E> Drop for Acquire<T, E> {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *self.attempt.lock(), RequestState::Over);
        if let RequestState::There(_, task) = &state {
            // Aborting a completed task has no effect.
            task.abort();
        }
    }
}

// The answer is not pinned: it is handed out by value.
impl<T, E> Unpin for Acquire<T, E> {}

impl<T, E> fmt::Debug for Acquire<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

/// A call of a lock, or of another object of the store: a `Future` for any runtime, which can also
/// be [waited](Self::wait) for.
///
/// The call reaches the store whether this is polled or dropped, and its outcome is the store's
/// answer. In process, the calls of these names have their outcome at once; a program that awaits
/// them is one text for both.
///
/// # Examples
/// ```
/// use turnwise_redis::Remote;
///
/// let locks = Remote::in_memory().locks();
/// let guard = locks.lock("a").wait()?;
/// assert_eq!(locks.info("a").wait()?.unwrap().fence, Some(guard.fence()));
/// guard.release().wait()?; // or `.await`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it says what came of the call"]
pub struct Call<T: Send + 'static, E: Send + 'static = LockError> {
    attempt: Attempt<T, E>,
}

impl<T: Send + 'static, E: From<AskError> + Send + 'static> Call<T, E> {
    /// A call that begins on its caller.
    pub(crate) fn new<F>(home: &Arc<Home>, asks: impl FnOnce(Caller) -> F) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        Call { attempt: Attempt::new(home, asks) }
    }

    /// A call that begins on the client's thread.
    pub(crate) fn there(
        home: &Home,
        asking: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Self {
        Call { attempt: Attempt::there(home, asking) }
    }

    pub(crate) fn over(answer: Result<T, E>) -> Self {
        Call { attempt: Attempt::over(answer) }
    }

    /// Waits until the store has answered, for the client's
    /// [patience](crate::RemoteBuilder::give_up_after) at most. May block.
    ///
    /// # Errors
    /// As the call says.
    pub fn wait(mut self) -> Result<T, E> {
        self.attempt.wait(Limit::Unlimited).unwrap_or_else(|| Err(AskError::Taken.into()))
    }

    /// Waits for this time at most. Returns `None` if the store has not answered. May block.
    ///
    /// # Errors
    /// As the call says.
    pub fn wait_timeout(&mut self, limit: impl Into<Limit>) -> Option<Result<T, E>> {
        self.attempt.wait(limit.into())
    }

    /// True if the store has answered. Takes a short lock, and does not wait otherwise.
    pub fn is_ready(&self) -> bool {
        self.attempt.is_ready()
    }
}

impl<T: Send + 'static, E: From<AskError> + Send + 'static> Future for Call<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.attempt.poll(cx)
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for Call<T, E> {
    fn drop(&mut self) {
        self.attempt.lock().moves();
    }
}

// The answer is not pinned: it is handed out by value.
impl<T: Send + 'static, E: Send + 'static> Unpin for Call<T, E> {}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for Call<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// Runtimes for threads that wait.
#[derive(Default)]
struct Threads {
    all: Mutex<IdleRuntimes>,
}

#[derive(Default)]
struct IdleRuntimes {
    idle: Vec<Runtime>,
    /// The number of runtimes that exist.
    made: usize,
}

/// The maximum number of runtimes, each of which has a connection. Further threads wait for the
/// client's thread.
const AT_MOST: usize = 4;

/// A runtime that is in use, and is returned by the drop.
struct Taken<'a> {
    from: &'a Threads,
    /// `Some` until the drop.
    runtime: Option<Runtime>,
}

impl Threads {
    fn kept(&self) -> MutexGuard<'_, IdleRuntimes> {
        // No code that can panic runs under this lock.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a runtime. Returns `None` if all are in use, or the system provides no more.
    fn take(&self) -> Option<Taken<'_>> {
        let mut kept = self.kept();
        let runtime = match kept.idle.pop() {
            Some(runtime) => runtime,
            None if kept.made < AT_MOST => {
                let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
                kept.made += usize::from(made.is_ok());
                made.ok()?
            }
            None => return None,
        };
        Some(Taken { from: self, runtime: Some(runtime) })
    }
}

impl Taken<'_> {
    fn enter(&self) -> Option<EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }

    fn block_on(&self, waits: impl Future<Output = ()>) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(waits);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.from.kept().idle.extend(self.runtime.take());
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Does not block, whatever thread this is.
        self.kept().idle.drain(..).for_each(Runtime::shutdown_background);
    }
}
