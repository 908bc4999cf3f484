//! The measured code: states, letters to them, and the ways to bring the two together.
//!
//! A [`Letter`] is a message with its effect on the state; a [`Way`] keeps a state and runs its
//! letters one at a time. Every way is given the same letters, so all do the same work, and the
//! letters count, so that each run can check its answer. The ways of turnwise and the mutexes are
//! here, the usual alternatives are in [`rivals`]; the loads of one object are in [`runs`], those
//! of many in [`actors`], those of objects that write to each other in [`talk`].
//!
//! A further way (an actor on some executor, say) is a further `impl Way`, and is measured wherever
//! its name is put beside the others'.

// Each benchmark uses a part of this.
#![allow(dead_code)]

pub(crate) mod actors;
pub(crate) mod rivals;
pub(crate) mod runs;
pub(crate) mod talk;

use std::hint::black_box;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;

use turnwise::{Actor, Executor, Spawner, ThreadPool};

/// The executor of plain actors; the sending threads, unless it is set.
pub(crate) static EXECUTOR: OnceLock<Arc<dyn Executor>> = OnceLock::new();

/// An actor on that executor.
#[inline]
fn actor<S: Send + 'static>(state: S) -> Actor<S> {
    let Some(executor) = EXECUTOR.get() else { return Actor::new(state) };
    Actor::builder()
        .executor(|drain| executor.execute(drain))
        .spawn(state)
        .expect("it has no limit that could be wrong")
}

/// A message, and its effect on the state.
pub(crate) trait Letter: Send + 'static {
    type State: Send + 'static;
    type Answer: Send + 'static;
    fn run(self, state: &mut Self::State) -> Self::Answer;
}

/// A way to keep a state whose letters are run one at a time.
pub(crate) trait Way: 'static {
    const NAME: &'static str;
    /// The name where callers wait for the answer.
    const ASKING: &'static str;
    /// True if threads of its own run its letters.
    const HELPED: bool = false;
    /// A handle of the state, shared by all that write to it.
    type Of<L: Letter>: Clone + Send + Sync + 'static;

    fn make<L: Letter>(state: L::State) -> Self::Of<L>;
    /// Returns a function that creates many.
    fn maker<L: Letter>() -> impl Fn(L::State) -> Self::Of<L> {
        Self::make::<L>
    }
    /// Hands the letter over. Some ways have to wait until it has been run.
    fn put<L: Letter>(to: &Self::Of<L>, letter: L);
    /// Waits for the answer.
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer;
    /// Returns when all letters that this thread has put have been run. Most ways of a single
    /// thread have run them at once.
    fn settle() {}
}

/// `Actor::send`, which leaves the message if the actor is busy; `Actor::call`, and a wait for the
/// reply.
pub(crate) struct Turnwise;
/// `Turnwise` on a `turnwise::ThreadPool`: a worker runs every turn.
pub(crate) struct OnPool;
/// `Actor::with`: waits for the result.
pub(crate) struct With;
/// A `parking_lot::Mutex` around the state.
pub(crate) struct ParkingLot;
/// A `std::sync::Mutex` around the state.
pub(crate) struct Std;

impl Way for Turnwise {
    const NAME: &'static str = "turnwise-send";
    const ASKING: &'static str = "turnwise-call";
    type Of<L: Letter> = Actor<L::State>;

    #[inline]
    fn make<L: Letter>(state: L::State) -> Self::Of<L> {
        actor(state)
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        let sent = to.send(move |state| {
            letter.run(state);
        });
        assert!(sent.is_ok());
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        to.call(move |state| letter.run(state)).wait().expect("the actor is open")
    }
}

/// Threads of each pool, that of turnwise and the hand-written one.
pub(crate) const WORKERS: usize = 2;

static POOL: LazyLock<ThreadPool> = LazyLock::new(|| {
    ThreadPool::builder().threads(WORKERS).build().expect("there are threads to be had")
});

/// The shared configuration of actors on the pool.
fn on_pool<S: Send + 'static>() -> Spawner<S> {
    Actor::builder().executor(POOL.handle()).build().expect("no capacity was asked for")
}

impl Way for OnPool {
    const NAME: &'static str = "turnwise-pool";
    const ASKING: &'static str = "turnwise-pool-call";
    const HELPED: bool = true;
    type Of<L: Letter> = Actor<L::State>;

    #[inline]
    fn make<L: Letter>(state: L::State) -> Self::Of<L> {
        on_pool().spawn(state)
    }
    #[inline]
    fn maker<L: Letter>() -> impl Fn(L::State) -> Self::Of<L> {
        let spawner = on_pool();
        move |state| spawner.spawn(state)
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        Turnwise::put(to, letter);
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        Turnwise::ask(to, letter)
    }
}

impl Way for With {
    const NAME: &'static str = "turnwise-with";
    const ASKING: &'static str = Self::NAME;
    type Of<L: Letter> = Actor<L::State>;

    #[inline]
    fn make<L: Letter>(state: L::State) -> Self::Of<L> {
        actor(state)
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        black_box(Self::ask(to, letter));
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        to.with(|state| letter.run(state)).expect("the actor is open")
    }
}

impl Way for ParkingLot {
    const NAME: &'static str = "parking_lot";
    const ASKING: &'static str = Self::NAME;
    type Of<L: Letter> = Arc<parking_lot::Mutex<L::State>>;

    #[inline]
    fn make<L: Letter>(state: L::State) -> Self::Of<L> {
        Arc::new(parking_lot::Mutex::new(state))
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        black_box(Self::ask(to, letter));
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        letter.run(&mut to.lock())
    }
}

impl Way for Std {
    const NAME: &'static str = "std";
    const ASKING: &'static str = Self::NAME;
    type Of<L: Letter> = Arc<std::sync::Mutex<L::State>>;

    #[inline]
    fn make<L: Letter>(state: L::State) -> Self::Of<L> {
        Arc::new(std::sync::Mutex::new(state))
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        black_box(Self::ask(to, letter));
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        letter.run(&mut to.lock().expect("the lock is not poisoned"))
    }
}

/// The object that all threads use.
#[derive(Default)]
pub(crate) struct State {
    handled: u64,
    value: u64,
}

/// Work on a [`State`]: this many rounds of [`spend`]. The answer is how many of these have been
/// handled, this one included.
pub(crate) struct Work(pub(crate) u32);

impl Letter for Work {
    type State = State;
    type Answer = u64;

    #[inline(always)]
    fn run(self, state: &mut State) -> u64 {
        state.handled += 1;
        state.value = spend(state.value, self.0);
        state.handled
    }
}

/// Squarings in a chain: each needs the one before, so neither the compiler nor the processor can
/// shorten it.
#[inline(always)]
pub(crate) fn spend(mut value: u64, rounds: u32) -> u64 {
    for _ in 0..rounds {
        value = value.wrapping_mul(value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    value
}

/// Returns the number of rounds of [`spend`] that take about `ns`.
pub(crate) fn rounds_of(ns: f64) -> u32 {
    const ROUNDS: u32 = 20_000;
    let best = (0..50).map(|i| {
        let start = Instant::now();
        black_box(spend(black_box(i), ROUNDS));
        start.elapsed()
    });
    let one = best.min().unwrap_or_default().as_secs_f64() * 1e9 / f64::from(ROUNDS);
    (ns / one).round() as u32
}

/// A [`State`], and a way to bring it [`Work`].
pub(crate) trait Subject: Sync + Send + 'static {
    const NAME: &'static str;
    /// True if threads of its own do the work.
    const HELPED: bool;
    fn new() -> Self;
    /// Hands a message over.
    fn give(&self, rounds: u32);
    /// Returns how many messages have been handled, once all given ones have been. This call counts
    /// as one from then on.
    fn handled(&self) -> u64;
}

/// Callers that need no answer.
pub(crate) struct Sends<W: Way>(W::Of<Work>);
/// Callers that wait for it.
pub(crate) struct Asks<W: Way>(W::Of<Work>);

impl<W: Way> Subject for Sends<W> {
    const NAME: &'static str = W::NAME;
    const HELPED: bool = W::HELPED;
    fn new() -> Self {
        Sends(W::make(State::default()))
    }
    #[inline]
    fn give(&self, rounds: u32) {
        W::put(&self.0, Work(rounds));
    }
    fn handled(&self) -> u64 {
        W::ask(&self.0, Work(0)) - 1
    }
}

impl<W: Way> Subject for Asks<W> {
    const NAME: &'static str = W::ASKING;
    const HELPED: bool = W::HELPED;
    fn new() -> Self {
        Asks(W::make(State::default()))
    }
    #[inline]
    fn give(&self, rounds: u32) {
        black_box(W::ask(&self.0, Work(rounds)));
    }
    fn handled(&self) -> u64 {
        W::ask(&self.0, Work(0)) - 1
    }
}
