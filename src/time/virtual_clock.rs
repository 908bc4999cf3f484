//! A clock that stands still until it is moved.
//!
//! One lock holds the time and the threads that sleep on it, so "has my moment come?" and "I sleep
//! until then" are one step: a thread that lies down after the clock was moved sees that, and one
//! that lay down before is in the list and is woken. A thread that is woken looks again, as with
//! every clock; waking one too often does no harm.
//!
//! - CLOCK-1: time never goes back.
//! - CLOCK-2: in the list stand threads inside `park_until` whose moment has not come. Its length
//!   may be stale, too high, only by threads that were unparked for another reason and have not yet
//!   run.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Clock;
use crate::sync::Mutex;
use crate::sync::thread::{self, Thread};
use crate::wait_list::{Waiter, Waiters};

/// A [`Clock`] for tests: it shows zero, and stands still until it is moved. Timed waits then end
/// when the test says so, and no test sleeps.
///
/// Clones are the same clock. Give one to [`ActorBuilder::clock`](crate::ActorBuilder::clock) or
/// [`System::with_clock`](crate::System::with_clock), keep another, and move it with
/// [`advance`](Self::advance). [`wait_for_sleepers`](Self::wait_for_sleepers) tells when a thread
/// waits: a limit counts from the moment of the call, so a clock that is moved too early is moved
/// for nothing.
///
/// # Examples
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use turnwise::{Actor, VirtualClock};
///
/// let clock = VirtualClock::new();
/// let n = Actor::builder().clock(clock.clone()).spawn(0)?;
///
/// let waiting = thread::spawn(move || n.ended().within(Duration::from_secs(3600)));
/// clock.wait_for_sleepers(1); // it waits now
/// clock.advance(Duration::from_secs(3599));
/// assert_eq!(clock.sleepers(), 1, "still");
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(waiting.join().unwrap(), Ok(false), "an hour has passed");
/// # Ok::<(), turnwise::BuildError>(())
/// ```
#[derive(Clone, Default)]
pub struct VirtualClock {
    shared: Arc<VirtualTime>,
}

#[derive(Default)]
struct VirtualTime {
    face: Mutex<Face>,
    /// Threads that wait for sleepers.
    watchers: Waiters,
}

#[derive(Default)]
struct Face {
    now: Duration,
    next: u64,
    sleepers: Vec<Sleeper>,
}

struct Sleeper {
    number: u64,
    until: Duration,
    thread: Thread,
}

impl VirtualClock {
    /// A clock that shows zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock on, and wakes every thread whose moment has come. Takes a short lock.
    pub fn advance(&self, by: Duration) {
        self.change(|now| now.saturating_add(by));
    }

    /// Moves the clock to this time, and wakes every thread whose moment has come. Takes a short
    /// lock.
    ///
    /// # Panics
    /// If it shows a later time: clocks never go back.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Clock, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// clock.set(Duration::from_secs(5));
    /// assert_eq!(clock.now(), Duration::from_secs(5));
    /// ```
    pub fn set(&self, to: Duration) {
        self.change(|now| {
            assert!(to >= now, "a clock that shows {now:?} cannot be set back to {to:?}");
            to
        });
    }

    fn change(&self, next: impl FnOnce(Duration) -> Duration) {
        let woken: Vec<_> = {
            let mut face = self.shared.face.lock();
            let now = next(face.now);
            face.now = now;
            let (woken, asleep) = std::mem::take(&mut face.sleepers)
                .into_iter()
                .partition(|sleeper| sleeper.until <= now);
            face.sleepers = asleep;
            woken
        };
        woken.into_iter().for_each(|sleeper| sleeper.thread.unpark());
    }

    /// The number of threads that wait on this clock for a moment that has not come. Stale on
    /// return.
    pub fn sleepers(&self) -> usize {
        self.shared.face.lock().sleepers.len()
    }

    /// The next moment that a thread waits for: where the clock has to be set for anything to
    /// happen. Stale on return.
    ///
    /// # Examples
    /// ```
    /// use std::thread;
    /// use std::time::Duration;
    /// use turnwise::{Actor, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// assert_eq!(clock.next_wake(), None);
    /// let n = Actor::builder().clock(clock.clone()).spawn(0)?;
    /// let waiting = thread::spawn(move || n.ended().within(Duration::from_secs(60)));
    /// clock.wait_for_sleepers(1);
    /// assert_eq!(clock.next_wake(), Some(Duration::from_secs(60)));
    /// clock.set(Duration::from_secs(60));
    /// assert_eq!(waiting.join().unwrap(), Ok(false));
    /// # Ok::<(), turnwise::BuildError>(())
    /// ```
    pub fn next_wake(&self) -> Option<Duration> {
        self.shared.face.lock().sleepers.iter().map(|sleeper| sleeper.until).min()
    }

    /// Waits until at least this many threads wait on this clock: their limits have begun, and the
    /// clock may be moved. May block, without a limit. For a thread that is inside no turn: what a
    /// turn has sent to actors that are to be run after it is not handed over meanwhile.
    pub fn wait_for_sleepers(&self, threads: usize) {
        loop {
            // Listed first: one that lies down after the look finds this thread and wakes it.
            let _entry = self.shared.watchers.add(Waiter::Thread(thread::current()));
            if self.sleepers() >= threads {
                return;
            }
            thread::park();
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        self.shared.face.lock().now
    }

    fn park_until(&self, at: Duration) {
        let number = {
            let mut face = self.shared.face.lock();
            if face.now >= at {
                return;
            }
            face.next += 1;
            let number = face.next;
            face.sleepers.push(Sleeper { number, until: at, thread: thread::current() });
            number
        };
        self.shared.watchers.wake_all();
        thread::park();
        self.shared.face.lock().sleepers.retain(|sleeper| sleeper.number != number);
    }

    /// That of all of its clones.
    fn identity(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualClock")
            .field("now", &self.shared.face.try_lock().map(|face| face.now))
            .finish_non_exhaustive()
    }
}
