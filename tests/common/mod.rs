//! What the tests share. Each test file is a program of its own and uses a part of it.

#![allow(dead_code)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// How much of a load is run: a small part in debug builds, all of it in release builds.
pub fn size(debug: usize, release: usize) -> usize {
    if cfg!(miri) {
        (debug / 100).clamp(2, 50)
    } else if cfg!(debug_assertions) {
        debug
    } else {
        release
    }
}

/// A number from the environment, for loads that take too long even in release builds.
pub fn size_from_env(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

/// A panic that is not reported on stderr.
pub fn quiet_panic(text: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(text))
}

/// Runs `f` on a thread of its own, and fails if it takes a minute: a test that hangs should say so.
pub fn must_end<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
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
pub fn on_small_stack<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let thread = thread::Builder::new().stack_size(256 * 1024).spawn(f).unwrap();
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Lets threads go together, again and again; spins, so that they leave within nanoseconds of each other.
pub struct Gate {
    threads: usize,
    arrived: AtomicUsize,
}

impl Gate {
    pub fn new(threads: usize) -> Self {
        Gate { threads, arrived: AtomicUsize::new(0) }
    }

    pub fn pass(&self) {
        let ticket = self.arrived.fetch_add(1, SeqCst);
        let all = (ticket / self.threads + 1) * self.threads;
        let mut looks = 0_u32;
        while self.arrived.load(SeqCst) < all {
            looks += 1;
            if looks.is_multiple_of(256) { thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Waits until `f` is true, without sleeping.
pub fn until(f: impl Fn() -> bool) {
    while !f() {
        thread::yield_now();
    }
}

/// Counts what becomes of messages: created = handled + returned + dropped.
#[derive(Clone, Default)]
pub struct Tally(Arc<Fates>);

#[derive(Default)]
struct Fates {
    created: AtomicUsize,
    handled: AtomicUsize,
    returned: AtomicUsize,
    dropped: AtomicUsize,
}

/// Part of one message: it has exactly one fate.
pub struct Token {
    fates: Arc<Fates>,
    fate: fn(&Fates) -> &AtomicUsize,
}

impl Tally {
    pub fn token(&self) -> Token {
        self.0.created.fetch_add(1, SeqCst);
        Token { fates: self.0.clone(), fate: |fates| &fates.dropped }
    }
    pub fn created(&self) -> usize {
        self.0.created.load(SeqCst)
    }
    pub fn handled(&self) -> usize {
        self.0.handled.load(SeqCst)
    }
    pub fn returned(&self) -> usize {
        self.0.returned.load(SeqCst)
    }
    pub fn dropped(&self) -> usize {
        self.0.dropped.load(SeqCst)
    }
    /// Every message has met its fate, once.
    #[track_caller]
    pub fn check(&self) {
        assert_eq!(self.created(), self.handled() + self.returned() + self.dropped(), "a message was lost or doubled");
    }
    /// Every message was handled.
    #[track_caller]
    pub fn check_all_handled(&self) {
        self.check();
        assert_eq!(self.created(), self.handled());
    }
}

impl Token {
    pub fn handle(mut self) {
        self.fate = |fates| &fates.handled;
    }
    pub fn come_back(mut self) {
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
pub fn block_on<F: Future>(future: F) -> F::Output {
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
pub struct CountWakes(pub AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// An actor's turn that is held open by another thread, so that the actor is certainly busy.
pub struct Held {
    release: mpsc::Sender<()>,
    holder: Option<thread::JoinHandle<()>>,
}

impl Held {
    /// Returns when the turn runs.
    pub fn hold<S: Send + 'static>(actor: &turnwise::Actor<S>) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let actor = actor.clone();
        let holder = thread::spawn(move || {
            actor
                .send(move |_| {
                    tell.send(()).unwrap();
                    let _ = released.recv();
                })
                .unwrap_or_else(|refused| panic!("{refused}"));
        });
        told.recv().unwrap();
        Held { release, holder: Some(holder) }
    }

    /// Ends the turn, and returns when the holder has drained.
    pub fn let_go(mut self) {
        let _ = self.release.send(());
        self.holder.take().unwrap().join().unwrap();
    }

    /// Ends the turn, soon; the actor goes on on the holder's thread.
    pub fn let_go_soon(&self) {
        let _ = self.release.send(());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.release.send(());
        if let Some(holder) = self.holder.take() {
            let _ = holder.join();
        }
    }
}
