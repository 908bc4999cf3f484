//! Steps: what a thread does to memory that others see, one by one, and how a test interferes with
//! it.
//!
//! Every atomic operation and every lock of this flavour calls [`before`] and [`after`]. Three
//! things can happen there:
//!
//! - [`chaos`]: at random the thread yields, spins or sleeps a little. Each thread has its own
//!   xorshift, seeded from the test's seed and the order in which threads came by, so a run can be
//!   repeated as far as the operating system lets it.
//! - [`Gate`]: one thread stops right before its k-th step and stays there until it is released.
//! - [`trace`]: the steps of one call are listed.
//!
//! [`relax`] weakens every ordering to Relaxed: a bug planted for the sanitizers to find.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// One operation on memory that other threads see, and where it stands in the source.
#[derive(Clone, Copy)]
pub struct Step {
    /// The operation, by the name of its method.
    pub op: &'static str,
    at: &'static Location<'static>,
}

impl Step {
    /// The file that it stands in, without its folders.
    pub fn file(&self) -> &'static str {
        self.at.file().rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}", self.op, self.file(), self.at.line())
    }
}

/// What one thread has to think of. No destructor: steps are taken in other destructors too.
struct Me {
    random: Cell<u64>,
    gate: Cell<*const Paused>,
    left: Cell<usize>,
    steps: Cell<*mut Vec<Step>>,
    counted: Cell<*const AtomicU32>,
}

thread_local! {
    static ME: Me = const {
        Me {
            random: Cell::new(0),
            gate: Cell::new(null()),
            left: Cell::new(0),
            steps: Cell::new(null_mut()),
            counted: Cell::new(null()),
        }
    };
}

static CHAOS: AtomicBool = AtomicBool::new(false);
static SEED: AtomicU64 = AtomicU64::new(0);
static RELAX: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);

/// From now on every thread is delayed at random.
pub fn chaos(seed: u64) {
    SEED.store(seed | 1, Relaxed);
    CHAOS.store(true, Relaxed);
}

/// No more delays.
pub fn calm() {
    CHAOS.store(false, Relaxed);
}

/// The planted bug: from now on every ordering is Relaxed.
pub fn relax() {
    RELAX.store(true, Relaxed);
}

/// Pieces of memory (nodes, chunks, blocks, reply cells) that are in use and not given back.
pub fn live() -> i64 {
    LIVE.load(Relaxed)
}

pub(crate) fn born() {
    LIVE.fetch_add(1, Relaxed);
}

pub(crate) fn dead() {
    LIVE.fetch_sub(1, Relaxed);
}

/// The ordering to use for `wanted`.
pub(crate) fn ordering(wanted: Ordering) -> Ordering {
    if RELAX.load(Relaxed) { Relaxed } else { wanted }
}

/// This thread has counted `counter` down.
pub(crate) fn counted(counter: &AtomicU32) {
    ME.with(|me| me.counted.set(counter));
}

/// The counter that this thread has counted down last, once.
pub(crate) fn last_counted() -> *const AtomicU32 {
    ME.with(|me| me.counted.replace(null()))
}

/// A number of this thread's own sequence.
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

/// True one time in `n`, while there is chaos.
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

/// The thread is about to do `op`.
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

/// The thread sleeps while it does `f`, for the one who waits at its gate.
pub(crate) fn asleep(f: impl FnOnce()) {
    let gate = ME.with(|me| me.gate.get());
    // SAFETY: `Gate::run` on this very thread keeps it while the pointer is set.
    let gate = unsafe { gate.as_ref() };
    gate.inspect(|gate| gate.set(Phase::Asleep));
    f();
    gate.inspect(|gate| gate.set(Phase::Running));
}

/// The thread has done it.
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

/// Where a thread behind a [`Gate`] has come to.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// It is stopped before this step.
    Before(Step),
    /// It sleeps in its call, before it has come to the step, until somebody wakes it.
    Asleep,
    /// It came to the end of its call before the step.
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
    /// A gate for one [`run`](Self::run).
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

    /// Waits until the thread is stopped, and says where; `None` if it came to the end before that.
    pub fn stopped(&self) -> Option<Step> {
        self.0.wait(|phase| match phase {
            Phase::Paused(step) => Some(Some(step)),
            Phase::Finished => Some(None),
            _ => None,
        })
    }

    /// Has the call come to its end?
    pub fn is_finished(&self) -> bool {
        matches!(*self.0.phase.lock().unwrap_or_else(PoisonError::into_inner), Phase::Finished)
    }

    /// Lets the thread go on.
    pub fn release(&self) {
        self.0.set(Phase::Released);
    }
}
