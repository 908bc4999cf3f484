//! A queue of drains that is run by hand.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;
use std::panic::RefUnwindSafe;
use std::sync::Arc;

use crate::cell::executor::{Drain, Executor};
use crate::enrolled::Enrolled;
use crate::panic;
use crate::sync::{Condvar, Instant, Mutex};
use crate::time::Limit;
use crate::turn::blocking::relieve_anyway;
use crate::turn::deferred::drop_drains;

/// A queue of drains: senders leave their messages, and the program runs them, on a thread and at a
/// time of its choice.
///
/// For event loops and threads that must do a thing themselves, and for tests: with one thread and
/// a [`seed`](Self::seeded), a program of actors takes the same steps every time. It may be run by
/// several threads, and inside a turn: drains are then run on top of that turn.
///
/// The thread that is to run the queue must not wait for its actors: `with` or
/// [`wait`](crate::Reply::wait) would wait for ever. Ask by [`call`](crate::Actor::call) or
/// [`ask`](crate::Actor::ask), run the queue, then look at the reply. Where other threads send,
/// too, run it until the reply is ready: one of them may have sent already, and not yet handed over
/// the drain that both messages wait for. The thread also runs actors without an executor that its
/// turns send to or wake: one whose turn waits for an actor of the queue needs an executor of its
/// own.
///
/// One lock, held for a few instructions. Dropping the queue drops what is left in it: its actors
/// stop with [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone). They end one after the
/// other on that thread. An end hook that waits for an actor, or awaits what this crate gives,
/// hands the others over: they end in the fallback then.
///
/// # Examples
/// ```
/// use turnwise::Actor;
/// use turnwise::executor::DrainQueue;
///
/// let queue = DrainQueue::new();
/// let log = Actor::builder().executor(queue.handle()).spawn(Vec::new())?;
/// log.send(|log| log.push("one"))?;
/// log.send(|log| log.push("two"))?;
/// let seen = log.call(|log| log.clone());
/// assert_eq!(log.len(), 3); // nothing was run yet
/// assert_eq!(queue.run_until_idle(), 1); // one drain, three turns
/// assert_eq!(seen.wait()?, ["one", "two"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct DrainQueue {
    shared: Arc<QueueShared>,
}

/// The way into a [`DrainQueue`]: an [`Executor`], cheap to clone. It does not keep the queue: when
/// that is gone, drains are dropped.
#[derive(Clone)]
pub struct QueueHandle {
    shared: Arc<QueueShared>,
}

#[derive(Default)]
struct QueueShared {
    state: Mutex<QueueState>,
    bell: Condvar,
    enrolled: Enrolled<Drain>,
}

#[derive(Default)]
struct QueueState {
    /// Numbered in the order in which they came.
    drains: VecDeque<(u64, Drain)>,
    /// The number of the one that came last.
    last: u64,
    closed: bool,
    /// State of the random choices; `None` takes the oldest.
    choice: Option<u64>,
}

impl QueueState {
    /// Takes one out of those up to this number.
    #[inline(always)]
    fn next(&mut self, last: u64) -> Option<Drain> {
        if self.choice.is_some() {
            return self.draw(last);
        }
        self.drains.front().filter(|(number, _)| *number <= last)?;
        self.drains.pop_front().map(|(_, drain)| drain)
    }

    /// [`next`](Self::next) by the seed, which moves on only if there is a choice.
    #[inline(never)]
    fn draw(&mut self, last: u64) -> Option<Drain> {
        let seed = self.choice.as_mut()?;
        let at = match self.drains.partition_point(|(number, _)| *number <= last) {
            0 => return None,
            1 => 0,
            among => (random(seed) % among as u64) as usize,
        };
        self.drains.remove(at).map(|(_, drain)| drain)
    }
}

/// SplitMix64: any seed is good, zero too.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

impl Executor for QueueHandle {
    fn execute(&self, drain: Drain) {
        let mut state = self.shared.state.lock();
        if state.closed {
            // User code hears of it: not under the lock.
            drop(state);
            drop(drain);
            return;
        }
        state.last += 1;
        let number = state.last;
        state.drains.push_back((number, drain));
        drop(state);
        self.shared.bell.notify_one();
    }

    fn is_closed(&self) -> bool {
        self.shared.state.lock().closed
    }

    fn enrolled(&self) -> Option<&Enrolled<Drain>> {
        Some(&self.shared.enrolled)
    }
}

impl DrainQueue {
    /// A queue that is run in the order in which drains come.
    pub fn new() -> Self {
        Self::default()
    }

    /// A queue in which the seed decides what is run next: the same seed, the same order, if one
    /// thread does everything.
    ///
    /// # Examples
    /// ```
    /// use turnwise::Actor;
    /// use turnwise::executor::DrainQueue;
    ///
    /// let order_of = |seed| {
    ///     let queue = DrainQueue::seeded(seed);
    ///     let seen = Actor::new(Vec::new());
    ///     let actor = |n| Actor::builder().executor(queue.handle()).spawn(n).unwrap();
    ///     let actors: Vec<_> = (0..6).map(actor).collect();
    ///     for actor in &actors {
    ///         let seen = seen.clone();
    ///         let turn = move |n: &mut i32| {
    ///             let n = *n;
    ///             seen.send(move |seen| seen.push(n)).unwrap();
    ///         };
    ///         actor.send(turn).unwrap();
    ///     }
    ///     queue.run_until_idle();
    ///     seen.with(|seen| seen.clone()).unwrap()
    /// };
    /// assert_eq!(order_of(1), order_of(1));
    /// assert!((1..20).any(|seed| order_of(seed) != order_of(0)));
    /// ```
    pub fn seeded(seed: u64) -> Self {
        let queue = Self::default();
        queue.shared.state.lock().choice = Some(seed);
        queue
    }

    /// The executor to build actors with.
    pub fn handle(&self) -> QueueHandle {
        QueueHandle { shared: self.shared.clone() }
    }

    /// The number of drains: one per actor with messages that is not being run. Stale on return.
    pub fn len(&self) -> usize {
        self.shared.state.lock().drains.len()
    }

    /// True if no drain waits. Stale on return.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs one drain, within its actor's budget; false if none waits. Never waits.
    ///
    /// # Examples
    /// ```
    /// use turnwise::Actor;
    /// use turnwise::executor::DrainQueue;
    ///
    /// let queue = DrainQueue::new();
    /// let n = Actor::builder().executor(queue.handle()).budget(2).spawn(0)?;
    /// for _ in 0..3 {
    ///     n.send(|n| *n += 1)?;
    /// }
    /// assert!(queue.run_one() && n.len() == 1); // two turns, then the rest is handed on
    /// assert!(queue.run_one());
    /// assert!(!queue.run_one());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_one(&self) -> bool {
        self.run_next(u64::MAX)
    }

    /// Runs one of those up to this number.
    #[inline(always)]
    fn run_next(&self, last: u64) -> bool {
        // The lock is let go before the drain is run.
        let next = self.shared.state.lock().next(last);
        next.map(|drain| panic::ignore(|| drain.run())).is_some()
    }

    /// Runs drains until none waits, those included that come meanwhile. Returns the number of
    /// drains. Never waits; beside a flood of messages it never returns.
    pub fn run_until_idle(&self) -> usize {
        self.run_all(u64::MAX)
    }

    /// Runs those up to this number.
    fn run_all(&self, last: u64) -> usize {
        std::iter::from_fn(|| self.run_next(last).then_some(())).count()
    }

    /// Runs drains for `limit`, and sleeps while none waits; returns earlier if the queue is closed
    /// and empty. Returns the number of drains. May block. A limit of zero runs what waits at the
    /// call, once. A drain that is running when the time is over is run to its end. If several
    /// threads run the queue, one that leaves wakes another if something waits.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::executor::DrainQueue;
    ///
    /// let queue = DrainQueue::new();
    /// assert_eq!(queue.run_for(Duration::from_millis(1)), 0);
    /// ```
    pub fn run_for(&self, limit: impl Into<Limit>) -> usize {
        let deadline = match Limit::normal(limit.into()) {
            // One look: what waits now, and nothing that comes meanwhile.
            Limit::Immediate => {
                let last = self.shared.state.lock().last;
                return self.run_all(last);
            }
            Limit::Unlimited => None,
            // A limit too large for the clock is no limit.
            Limit::Within(limit) => Instant::now().checked_add(limit),
        };
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let mut count = 0;
        while !is_late() {
            let next = {
                let mut state = self.shared.state.lock();
                match state.next(u64::MAX) {
                    None if state.closed => return count,
                    next => next,
                }
            };
            match next {
                Some(drain) => {
                    panic::ignore(|| drain.run());
                    count += 1;
                }
                None => self.wait(deadline),
            }
        }
        // A drain that came just before may have woken this thread, of all that sleep here.
        if !self.is_empty() {
            self.shared.bell.notify_one();
        }
        count
    }

    /// Sleeps until there is something to run, the queue is closed, or the time is over.
    fn wait(&self, deadline: Option<Instant>) {
        // Inside a turn, others go on with what that turn has scheduled. Not under the lock: it may
        // be scheduled here.
        relieve_anyway(|| {
            let mut state = self.shared.state.lock();
            while state.drains.is_empty() && !state.closed {
                match deadline {
                    None => self.shared.bell.wait(&mut state),
                    Some(deadline) if Instant::now() >= deadline => return,
                    Some(deadline) => drop(self.shared.bell.wait_until(&mut state, deadline)),
                }
            }
        });
    }

    /// Runs drains until the queue is [closed](Self::close), by another thread or by a turn, and
    /// empty; sleeps while none waits. Returns the number of drains. Blocks.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use turnwise::Actor;
    /// use turnwise::executor::DrainQueue;
    ///
    /// let queue = Arc::new(DrainQueue::new());
    /// let main = Actor::builder().executor(queue.handle()).spawn(queue.clone())?;
    /// std::thread::spawn(move || main.send(|queue| queue.close()).unwrap());
    /// assert_eq!(queue.run_until_closed(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_until_closed(&self) -> usize {
        self.run_for(Limit::Unlimited)
    }

    /// Takes no more drains: those that come are dropped, and their actors stop. Those that wait
    /// can still be run, each for one [budget](crate::ActorBuilder::budget): an actor that has more
    /// to do by then stops. Actors whose turns are suspended stop in this call, or
    /// after the turn that it is called in.
    pub fn close(&self) {
        drop_drains(self.end());
    }

    /// Closes it. What it keeps of actors whose turns are suspended is for the caller to drop: not
    /// under the lock, for that runs user code.
    fn end(&self) -> impl Iterator<Item = Drain> + use<> {
        self.shared.state.lock().closed = true;
        self.shared.bell.notify_all();
        self.shared.enrolled.end()
    }
}

// A panic shows no queue in the middle of a step: no user code is run under its lock.
impl RefUnwindSafe for QueueShared {}

impl Drop for DrainQueue {
    fn drop(&mut self) {
        let suspended = self.end();
        let left = std::mem::take(&mut self.shared.state.lock().drains);
        drop_drains(suspended.chain(left.into_iter().map(|(_, drain)| drain)));
    }
}

impl fmt::Debug for DrainQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrainQueue").finish_non_exhaustive()
    }
}

impl fmt::Debug for QueueHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueHandle").finish_non_exhaustive()
    }
}
