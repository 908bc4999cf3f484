//! Items that the tests share. Each test program uses a part of them.

#![allow(dead_code)]

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use turnwise::executor::DrainQueue;
use turnwise::{Actor, Budget};

/// Scales a load: a small part in debug builds, all of it in release builds. `TURNWISE_PART=4` is a
/// quarter of that, for builds that are not optimized.
pub(crate) fn size(debug: usize, release: usize) -> usize {
    if cfg!(miri) {
        (debug / 100).clamp(2, 50)
    } else if cfg!(debug_assertions) {
        debug
    } else {
        debug.max(release / size_from_env("TURNWISE_PART", 1))
    }
}

/// Returns a number from the environment, for loads that take too long even in release builds.
pub(crate) fn size_from_env(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

/// An actor whose callers run everything, however long it takes: when a call returns, nothing is
/// left.
pub(crate) fn tireless<S: Send + 'static>(state: S) -> Actor<S> {
    Actor::builder().budget(Budget::UNLIMITED).spawn(state).expect("no limit is a good one")
}

/// Runs `f` inside a turn: messages that it sends to idle actors wait until `f` is over, or until
/// another thread runs them.
pub(crate) fn in_turn<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    Actor::new(()).with(|()| f()).unwrap_or_else(|error| panic!("{error}"))
}

/// An actor that only the queue runs, and whose drains run everything that waits.
pub(crate) fn queued<S: Send + 'static>(state: S) -> (DrainQueue, Actor<S>) {
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle()).budget(Budget::UNLIMITED);
    (queue, builder.spawn(state).expect("no limit is a good one"))
}

/// Asks an actor that only this queue runs, runs the queue, and waits for the answer.
pub(crate) fn asked<S, R>(
    queue: &DrainQueue,
    actor: &Actor<S>,
    question: impl FnOnce(&mut S) -> R + Send + 'static,
) -> R
where
    S: Send + 'static,
    R: Send + 'static,
{
    let reply = actor.call(question);
    queue.run_until_idle();
    reply.wait().unwrap_or_else(|error| panic!("{error}"))
}

/// Yields until the condition is true, for a minute at most: a drain may have been handed on, and
/// the test's own calls have returned.
fn settled(so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() && begun.elapsed() < Duration::from_secs(60) {
        thread::yield_now();
    }
}

/// A panic that is not reported on stderr.
pub(crate) fn quiet_panic(text: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(text))
}

/// Returns pending once, and is woken at once.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs `f` on a thread of its own, and fails after a minute, so that a test that hangs is
/// reported.
pub(crate) fn must_end<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = mpsc::channel();
    let runner = thread::spawn(move || {
        let result = f();
        let _ = tell.send(());
        result
    });
    if told.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("it hangs");
    }
    runner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs `f` on a thread with a stack of 256 KiB.
pub(crate) fn on_small_stack<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let thread = thread::Builder::new().stack_size(256 * 1024).spawn(f).unwrap();
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Releases threads together, repeatedly; spins, so that they start within nanoseconds of each
/// other.
pub(crate) struct Gate {
    threads: usize,
    arrived: AtomicUsize,
}

impl Gate {
    pub(crate) fn new(threads: usize) -> Self {
        Gate { threads, arrived: AtomicUsize::new(0) }
    }

    pub(crate) fn pass(&self) {
        let ticket = self.arrived.fetch_add(1, SeqCst);
        let all = (ticket / self.threads + 1) * self.threads;
        let mut looks = 0_u32;
        while self.arrived.load(SeqCst) < all {
            looks += 1;
            if looks % 256 == 0 { thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Waits until `f` is true, without sleeping.
pub(crate) fn until(f: impl Fn() -> bool) {
    while !f() {
        thread::yield_now();
    }
}

/// Counts the fates of messages: created = handled + returned + dropped.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Fates>);

#[derive(Default)]
struct Fates {
    created: AtomicUsize,
    handled: AtomicUsize,
    returned: AtomicUsize,
    dropped: AtomicUsize,
}

/// Part of one message: it has exactly one fate.
pub(crate) struct Token {
    fates: Arc<Fates>,
    fate: fn(&Fates) -> &AtomicUsize,
}

impl Tally {
    pub(crate) fn token(&self) -> Token {
        self.0.created.fetch_add(1, SeqCst);
        Token { fates: self.0.clone(), fate: |fates| &fates.dropped }
    }
    pub(crate) fn created(&self) -> usize {
        self.0.created.load(SeqCst)
    }
    pub(crate) fn handled(&self) -> usize {
        self.0.handled.load(SeqCst)
    }
    pub(crate) fn returned(&self) -> usize {
        self.0.returned.load(SeqCst)
    }
    pub(crate) fn dropped(&self) -> usize {
        self.0.dropped.load(SeqCst)
    }
    /// Checks that every message has met its fate, once.
    #[track_caller]
    pub(crate) fn check(&self) {
        settled(|| self.created() == self.handled() + self.returned() + self.dropped());
        assert_eq!(
            self.created(),
            self.handled() + self.returned() + self.dropped(),
            "a message was lost or doubled"
        );
    }
    /// Checks that every message was handled.
    #[track_caller]
    pub(crate) fn check_all_handled(&self) {
        settled(|| self.created() == self.handled());
        self.check();
        assert_eq!(self.created(), self.handled());
    }
}

impl Token {
    pub(crate) fn handle(mut self) {
        self.fate = |fates| &fates.handled;
    }
    pub(crate) fn come_back(mut self) {
        self.fate = |fates| &fates.returned;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        (self.fate)(&self.fates).fetch_add(1, SeqCst);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A waker that counts its calls.
#[derive(Default)]
pub(crate) struct CountWakes(pub(crate) AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A waker that runs a closure, once.
struct Then<F: FnOnce() + Send>(Mutex<Option<F>>);

impl<F: FnOnce() + Send> Wake for Then<F> {
    fn wake(self: Arc<Self>) {
        let then = self.0.lock().unwrap().take();
        then.into_iter().for_each(|then| then());
    }
}

/// Polls a future that is pending; it is woken by a waker that calls `then`.
#[track_caller]
pub(crate) fn waits<F: Future + Unpin>(future: &mut F, then: impl FnOnce() + Send + 'static) {
    let waker = Waker::from(Arc::new(Then(Mutex::new(Some(then)))));
    assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
}

/// Polls a future once on this thread, with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A turn that is held open until the test ends it, so that the actor is certainly busy.
pub(crate) struct Held {
    released: Arc<AtomicBool>,
    holder: Option<thread::JoinHandle<()>>,
}

impl Held {
    /// Returns when the turn runs.
    pub(crate) fn hold<S: Send + 'static>(actor: &Actor<S>) -> Self {
        Self::hold_while(actor, |_| true)
    }

    /// Ends the turn when this many messages wait behind it.
    pub(crate) fn hold_until_waiting<S: Send + 'static>(actor: &Actor<S>, messages: usize) -> Self {
        Self::hold_while(actor, move |actor| actor.len() <= messages)
    }

    fn hold_while<S: Send + 'static>(
        actor: &Actor<S>,
        hold: impl Fn(&Actor<S>) -> bool + Send + 'static,
    ) -> Self {
        let (released, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let holder = thread::spawn({
            let (actor, released, runs) = (actor.clone(), released.clone(), runs.clone());
            move || {
                let weak = actor.downgrade();
                let turn = move |_: &mut S| {
                    runs.store(true, SeqCst);
                    until(|| {
                        released.load(SeqCst) || weak.upgrade().is_some_and(|actor| !hold(&actor))
                    });
                };
                actor.send(turn).unwrap_or_else(|refused| panic!("{refused}"));
            }
        });
        until(|| runs.load(SeqCst));
        Held { released, holder: Some(holder) }
    }

    /// Ends the turn soon; its thread continues with the messages that wait, within the budget.
    pub(crate) fn let_go_soon(&self) {
        self.released.store(true, SeqCst);
    }

    /// Ends the turn, and returns when its thread has released the actor.
    pub(crate) fn let_go(self) {}
}

impl Drop for Held {
    fn drop(&mut self) {
        self.let_go_soon();
        let ended = self.holder.take().map(thread::JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "the holder panicked");
    }
}

/// An undelivered message of a test that sends closures only.
pub(crate) fn closure<S>(message: turnwise::Undelivered<S>) -> Box<dyn FnOnce(&mut S) + Send> {
    match message {
        turnwise::Undelivered::Closure(closure) => closure,
        other => panic!("not a closure: {other:?}"),
    }
}
