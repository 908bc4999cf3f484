//! What the benchmarks measure: one state, one kind of message, five ways to bring the two together, and some more in `rivals`.
//!
//! Every way counts the messages that were handled, so that each benchmark can check its answer. A message carries the number of rounds
//! that its handler spends on the state, each a multiplication that needs the one before.

// Each benchmark uses a part of this.
#![allow(dead_code)]

pub(crate) mod rivals;

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use crossbeam_queue::SegQueue;
use turnwise::{Actor, Executor};

/// Where this crate's actors run; on the threads that send, unless it is set.
pub(crate) static EXECUTOR: OnceLock<Arc<dyn Executor>> = OnceLock::new();

/// An actor where they run.
fn actor() -> Actor<State> {
    let Some(executor) = EXECUTOR.get() else { return Actor::new(State::default()) };
    Actor::builder(State::default()).executor(|drain| executor.execute(drain)).spawn().expect("it has no limit that could be wrong")
}

/// The object that everybody wants.
#[derive(Default)]
pub(crate) struct State {
    handled: u64,
    value: u64,
}

impl State {
    /// The handler of a message: counts it and works for `rounds`.
    #[inline(always)]
    fn handle(&mut self, rounds: u32) -> u64 {
        self.handled += 1;
        self.value = spend(self.value, rounds);
        self.handled
    }
}

/// Squarings in a chain: each needs the one before, so neither the compiler nor the processor can shorten it.
#[inline(always)]
pub(crate) fn spend(mut value: u64, rounds: u32) -> u64 {
    for _ in 0..rounds {
        value = value.wrapping_mul(value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    value
}

/// How many rounds of [`spend`] take about `ns`.
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

/// A way to bring messages to a state.
pub(crate) trait Subject: Sync + Send + 'static {
    const NAME: &'static str;
    fn new() -> Self;
    /// Hands a message over.
    fn give(&self, rounds: u32);
    /// How many messages have been handled, once all that were given have been.
    fn handled(&self) -> u64;
}

/// `Actor::send`: leaves the message if the actor is busy.
pub(crate) struct TurnwiseSend(Actor<State>);
/// `Actor::with`: waits for the result.
pub(crate) struct TurnwiseWith(Actor<State>);
/// `Actor::ask`, and waiting for the reply.
pub(crate) struct TurnwiseAsk(Actor<State>);
/// A `parking_lot::Mutex` around the state.
pub(crate) struct ParkingLot(parking_lot::Mutex<State>);
/// A `std::sync::Mutex` around the state.
pub(crate) struct Std(std::sync::Mutex<State>);
/// The mailbox of the textbooks: a queue, and a count of what is in it; whoever counts the first message drains.
pub(crate) struct Textbook {
    count: AtomicUsize,
    queue: SegQueue<Letter>,
    state: UnsafeCell<State>,
}

// SAFETY: the state is reached by whoever has moved the count from 0, and by `handled` when nobody is at work.
unsafe impl Sync for Textbook {}

/// The textbook's mailbox, with a reply to wait for.
pub(crate) struct TextbookAsk(Textbook);

impl Subject for TurnwiseSend {
    const NAME: &'static str = "turnwise-send";
    fn new() -> Self {
        TurnwiseSend(actor())
    }
    #[inline]
    fn give(&self, rounds: u32) {
        let sent = self.0.send(move |state| {
            state.handle(rounds);
        });
        assert!(sent.is_ok());
    }
    fn handled(&self) -> u64 {
        self.0.with(|state| state.handled).expect("nobody has closed it")
    }
}

impl Subject for TurnwiseWith {
    const NAME: &'static str = "turnwise-with";
    fn new() -> Self {
        TurnwiseWith(actor())
    }
    #[inline]
    fn give(&self, rounds: u32) {
        black_box(self.0.with(|state| state.handle(rounds)).expect("nobody has closed it"));
    }
    fn handled(&self) -> u64 {
        self.0.with(|state| state.handled).expect("nobody has closed it")
    }
}

impl Subject for TurnwiseAsk {
    const NAME: &'static str = "turnwise-ask";
    fn new() -> Self {
        TurnwiseAsk(actor())
    }
    #[inline]
    fn give(&self, rounds: u32) {
        black_box(self.0.ask(move |state| state.handle(rounds)).wait().expect("nobody has closed it"));
    }
    fn handled(&self) -> u64 {
        self.0.with(|state| state.handled).expect("nobody has closed it")
    }
}

impl Subject for ParkingLot {
    const NAME: &'static str = "parking_lot";
    fn new() -> Self {
        ParkingLot(parking_lot::Mutex::new(State::default()))
    }
    #[inline]
    fn give(&self, rounds: u32) {
        black_box(self.0.lock().handle(rounds));
    }
    fn handled(&self) -> u64 {
        self.0.lock().handled
    }
}

impl Subject for Std {
    const NAME: &'static str = "std";
    fn new() -> Self {
        Std(std::sync::Mutex::new(State::default()))
    }
    #[inline]
    fn give(&self, rounds: u32) {
        black_box(self.0.lock().expect("nobody has panicked").handle(rounds));
    }
    fn handled(&self) -> u64 {
        self.0.lock().expect("nobody has panicked").handled
    }
}

/// What lies in the queues of the others.
struct Letter {
    rounds: u32,
    reply: Option<Arc<Slot>>,
}

/// Where a reply goes.
struct Slot {
    asker: Thread,
    value: AtomicU64,
    ready: AtomicBool,
}

impl Letter {
    /// A letter that wants a reply, and where that will be.
    #[inline]
    fn asking(rounds: u32) -> (Letter, Arc<Slot>) {
        let slot = Arc::new(Slot { asker: thread::current(), value: AtomicU64::new(0), ready: AtomicBool::new(false) });
        (Letter { rounds, reply: Some(slot.clone()) }, slot)
    }

    #[inline]
    fn run(self, state: &mut State) {
        let value = state.handle(self.rounds);
        if let Some(slot) = self.reply {
            slot.value.store(value, Ordering::Relaxed);
            slot.ready.store(true, Ordering::Release);
            slot.asker.unpark();
        }
    }
}

impl Slot {
    /// Looks for a while, then sleeps.
    #[inline]
    fn wait(&self) -> u64 {
        let mut looks = 0;
        while !self.ready.load(Ordering::Acquire) {
            looks += 1;
            if looks < 100 { std::hint::spin_loop() } else { thread::park() }
        }
        self.value.load(Ordering::Relaxed)
    }
}

impl Textbook {
    #[inline]
    fn put(&self, letter: Letter) {
        self.queue.push(letter);
        if self.count.fetch_add(1, Ordering::AcqRel) == 0 {
            self.drain();
        }
    }

    #[inline]
    fn drain(&self) {
        let mut counted = 1;
        while counted > 0 {
            for _ in 0..counted {
                let letter = self.queue.pop().expect("what was counted was pushed before");
                // SAFETY: whoever has moved the count from 0 is alone until it is 0 again.
                letter.run(unsafe { &mut *self.state.get() });
            }
            counted = self.count.fetch_sub(counted, Ordering::AcqRel) - counted;
        }
    }
}

impl Subject for Textbook {
    const NAME: &'static str = "textbook";
    fn new() -> Self {
        Textbook { count: AtomicUsize::new(0), queue: SegQueue::new(), state: UnsafeCell::default() }
    }
    #[inline]
    fn give(&self, rounds: u32) {
        self.put(Letter { rounds, reply: None });
    }
    fn handled(&self) -> u64 {
        assert_eq!(self.count.load(Ordering::Acquire), 0, "somebody is still at work");
        // SAFETY: nobody is at work, and the benchmarks ask when all their threads have ended.
        unsafe { (*self.state.get()).handled }
    }
}

impl Subject for TextbookAsk {
    const NAME: &'static str = "textbook-ask";
    fn new() -> Self {
        TextbookAsk(Textbook::new())
    }
    #[inline]
    fn give(&self, rounds: u32) {
        let (letter, slot) = Letter::asking(rounds);
        self.0.put(letter);
        black_box(slot.wait());
    }
    fn handled(&self) -> u64 {
        self.0.handled()
    }
}

/// What one run of some threads over one subject took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Took {
    /// From the first start until everything has been handled.
    pub(crate) wall: Duration,
    /// Processor time of the whole process in between.
    pub(crate) cpu: Duration,
    /// Somebody else had one of the processors for a while: the threads were not all at work at once.
    pub(crate) disturbed: bool,
}

/// How often this thread has lost its processor to another one against its will, as far as the system tells.
fn preemptions() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok()).unwrap_or(0)
}

/// Lets each of `threads` run `work` on a subject of its own making, all at once, and checks that `expected` messages have been handled.
pub(crate) fn contend<S: Subject>(threads: usize, expected: u64, work: impl Fn(&S) + Sync) -> Took {
    // In an `Arc`, as a user would have it.
    let subject = Arc::new(S::new());
    let (gate, at_work) = (Barrier::new(threads), AtomicUsize::new(threads));
    let run = || {
        let preempted = preemptions();
        gate.wait();
        let (cpu, start) = (ProcessTime::now().as_duration(), Instant::now());
        work(&subject);
        if at_work.fetch_sub(1, Ordering::AcqRel) == 1 {
            assert_eq!(subject.handled(), expected, "{}: messages were lost", S::NAME);
        }
        let end = (Instant::now(), ProcessTime::now().as_duration());
        ((start, cpu), end, preemptions() > preempted)
    };
    let runs: Vec<_> = if threads == 1 {
        vec![run()]
    } else {
        thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            all.into_iter().map(|thread| thread.join().expect("a worker panicked")).collect()
        })
    };
    let first = runs.iter().map(|run| run.0).min().expect("there is a thread");
    let last = runs.iter().map(|run| run.1).max().expect("there is a thread");
    let wall = last.0 - first.0;
    let late = runs.iter().any(|run| run.0.0 - first.0 > wall / 20);
    Took { wall, cpu: last.1 - first.1, disturbed: late || runs.iter().any(|run| run.2) }
}

/// [`contend`] with `messages` from each thread, `own` rounds of its own work before each.
pub(crate) fn exchange<S: Subject>(threads: usize, messages: u64, handler: u32, own: u32) -> Took {
    contend::<S>(threads, messages * threads as u64, |subject| {
        let mut mine = 1;
        for _ in 0..messages {
            mine = spend(mine, own);
            subject.give(handler);
        }
        black_box(mine);
    })
}

/// As [`exchange`]: how long one call in `every` has taken, in nanoseconds, the clock's own time included.
pub(crate) fn timed<S: Subject>(threads: usize, messages: u64, handler: u32, own: u32, every: u64) -> Vec<u32> {
    let all = parking_lot::Mutex::new(Vec::new());
    contend::<S>(threads, messages * threads as u64, |subject| {
        let mut calls = Vec::with_capacity((messages / every + 1) as usize);
        let (mut mine, mut until) = (1, 1);
        for _ in 0..messages {
            mine = spend(mine, own);
            until -= 1;
            if until > 0 {
                subject.give(handler);
                continue;
            }
            until = every;
            let start = Instant::now();
            subject.give(handler);
            calls.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        black_box(mine);
        all.lock().append(&mut calls);
    });
    all.into_inner()
}
