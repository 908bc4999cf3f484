//! Steps: the operations of a thread on shared memory, one by one, and the ways in which a test
//! interferes with them.
//!
//! Every atomic operation and every lock of this flavour calls [`before`] and [`after`], which do
//! one of three things:
//!
//! - [`chaos`]: at random the thread yields, spins or sleeps a little. Each thread has its own
//!   xorshift, seeded from the test's seed and the order in which threads came by, so a run can be
//!   repeated as far as the operating system permits.
//! - [`Gate`]: one thread stops right before its k-th step and stays there until it is released.
//! - [`trace`]: the steps of one call are listed.
//!
//! [`relax`] weakens every ordering to Relaxed: a bug planted for the sanitizers to find.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// One operation on memory that other threads see, and its place in the source.
#[derive(Clone, Copy)]
pub struct Step {
    /// The operation, by the name of its method.
    pub op: &'static str,
    at: &'static Location<'static>,
}

impl Step {
    /// Returns the name of the source file, without its folders.
    pub fn file(&self) -> &'static str {
        self.at.file().rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}", self.op, self.file(), self.at.line())
    }
}

/// The state of one thread. It has no destructor, because steps are taken in other destructors too.
struct Me {
    random: Cell<u64>,
    gate: Cell<*const Paused>,
    left: Cell<usize>,
    steps: Cell<*mut Vec<Step>>,
}

thread_local! {
    static ME: Me = const {
        Me {
            random: Cell::new(0),
            gate: Cell::new(null()),
            left: Cell::new(0),
            steps: Cell::new(null_mut()),
        }
    };
}

static CHAOS: AtomicBool = AtomicBool::new(false);
static SEED: AtomicU64 = AtomicU64::new(0);
static RELAX: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);

/// Delays every thread at random from now on.
pub fn chaos(seed: u64) {
    SEED.store(seed | 1, Relaxed);
    CHAOS.store(true, Relaxed);
}

/// Ends the delays.
pub fn calm() {
    CHAOS.store(false, Relaxed);
}

/// Plants the bug: from now on every ordering is Relaxed.
pub fn relax() {
    RELAX.store(true, Relaxed);
}

/// Returns the number of pieces of memory (nodes, chunks, blocks, reply cells) in use.
pub fn live() -> i64 {
    LIVE.load(Relaxed)
}

pub(crate) fn born() {
    LIVE.fetch_add(1, Relaxed);
}

pub(crate) fn dead() {
    LIVE.fetch_sub(1, Relaxed);
}

/// Returns the ordering to use for `wanted`.
pub(crate) fn ordering(wanted: Ordering) -> Ordering {
    if RELAX.load(Relaxed) { Relaxed } else { wanted }
}

/// Returns a number of this thread's own sequence.
pub(crate) fn random() -> u64 {
    ME.with(|me| {
        let mut x = me.random.get();
        if x == 0 {
            x = SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed) | 1;
        }
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        me.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    })
}

/// Returns true one time in `n`, while there is chaos.
pub(crate) fn by_chance(n: u64) -> bool {
    CHAOS.load(Relaxed) && random() % n == 0
}

fn delay() {
    if !CHAOS.load(Relaxed) {
        return;
    }
    let r = random();
    match r % 256 {
        0..24 => std::thread::yield_now(),
        24..40 => (0..r >> 8 & 255).for_each(|_| std::hint::spin_loop()),
        40 => std::thread::sleep(Duration::from_micros(1 + (r >> 8 & 31))),
        _ => {}
    }
}

/// Must be called before the thread does `op`.
#[track_caller]
pub(crate) fn before(op: &'static str) {
    let step = Step { op, at: Location::caller() };
    ME.with(|me| {
        // SAFETY: `trace` on this very thread keeps the list while the pointer is set.
        if let Some(steps) = unsafe { me.steps.get().as_mut() } {
            steps.push(step);
        }
        // SAFETY: `Gate::run` on this very thread keeps it while the pointer is set.
        if let Some(gate) = unsafe { me.gate.get().as_ref() } {
            match me.left.get().checked_sub(1) {
                Some(left) => me.left.set(left),
                None => {
                    me.gate.set(null());
                    gate.stop_here(step);
                }
            }
        }
    });
    delay();
}

/// Runs `f`, in which the thread sleeps; a test that waits at its gate is notified.
pub(crate) fn asleep(f: impl FnOnce()) {
    let gate = ME.with(|me| me.gate.get());
    // SAFETY: `Gate::run` on this very thread keeps it while the pointer is set.
    let gate = unsafe { gate.as_ref() };
    gate.inspect(|gate| gate.set(Phase::Asleep));
    f();
    gate.inspect(|gate| gate.set(Phase::Running));
}

/// Must be called after the operation.
pub(crate) fn after() {
    delay();
}

/// Calls `f` and lists its steps, those of the turns that it runs included.
pub fn trace<R>(f: impl FnOnce() -> R) -> (R, Vec<Step>) {
    let mut steps = Vec::new();
    ME.with(|me| me.steps.set(&raw mut steps));
    let result = f();
    ME.with(|me| me.steps.set(null_mut()));
    (result, steps)
}

#[derive(Clone, Copy)]
enum Phase {
    Running,
    /// The thread is parked by its own call, and has steps left before the gate.
    Asleep,
    Paused(Step),
    Released,
    Finished,
}

/// The state of a thread behind a [`Gate`].
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// It is stopped before this step.
    Before(Step),
    /// It sleeps in its call, before the step, until another thread wakes it.
    Asleep,
    /// Its call ended before the step.
    Finished,
}

struct Paused {
    phase: Mutex<Phase>,
    changed: Condvar,
}

impl Paused {
    fn set(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_all();
    }

    fn wait<R>(&self, look: impl Fn(Phase) -> Option<R>) -> R {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(seen) = look(*phase) {
                return seen;
            }
            phase = self.changed.wait(phase).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stop_here(&self, step: Step) {
        self.set(Phase::Paused(step));
        self.wait(|phase| matches!(phase, Phase::Released).then_some(()));
    }
}

/// Stops one thread right before one of its steps.
#[derive(Clone)]
pub struct Gate(Arc<Paused>);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// Makes a gate for one [`run`](Self::run).
    pub fn new() -> Self {
        Gate(Arc::new(Paused { phase: Mutex::new(Phase::Running), changed: Condvar::new() }))
    }

    /// Calls `f` on this thread, which stops before step `k` (the first is 0) until
    /// [`release`](Self::release).
    pub fn run<R>(&self, k: usize, f: impl FnOnce() -> R) -> R {
        ME.with(|me| {
            me.left.set(k);
            me.gate.set(Arc::as_ptr(&self.0));
        });
        let result = f();
        ME.with(|me| me.gate.set(null()));
        self.0.set(Phase::Finished);
        result
    }

    /// Waits until the thread does not go on by itself.
    pub fn reached(&self) -> Stop {
        self.0.wait(|phase| match phase {
            Phase::Paused(step) => Some(Stop::Before(step)),
            Phase::Asleep => Some(Stop::Asleep),
            Phase::Finished => Some(Stop::Finished),
            _ => None,
        })
    }

    /// Waits until the thread is stopped, and returns the step; `None` if its call ended before.
    pub fn stopped(&self) -> Option<Step> {
        self.0.wait(|phase| match phase {
            Phase::Paused(step) => Some(Some(step)),
            Phase::Finished => Some(None),
            _ => None,
        })
    }

    /// Returns true if the call has ended.
    pub fn is_finished(&self) -> bool {
        matches!(*self.0.phase.lock().unwrap_or_else(PoisonError::into_inner), Phase::Finished)
    }

    /// Lets the thread go on.
    pub fn release(&self) {
        self.0.set(Phase::Released);
    }
}
