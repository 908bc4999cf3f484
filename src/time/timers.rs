//! Armed timers, in the order in which they are due.
//!
//! One lock holds the armed timers in a map, by due time and then by the number of the arming. A
//! timer in the map is armed, any other will not fire: firing, cancelling and resetting are each
//! the removal of one key, so they exclude each other, and nothing that is cancelled stays behind.
//!
//! - TIMERS-1: a timer leaves the map before its function runs. What the function arms, cancels or
//!   resets is another key.
//! - TIMERS-2: no user code under the lock: clocks are read before it is taken, functions run and
//!   are dropped after it was let go. A timer's own place is changed under the queue's lock alone.
//! - TIMERS-3: the thread writes down that it lies down in the same step in which it has seen what
//!   is due next; a thread that arms something sooner finds it there, and wakes it.
//! - TIMERS-4: the last clone of a service ends it: what is armed then never fires, and is dropped.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::panic::RefUnwindSafe;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::every::{Every, Periodic, Tick, TimerError};
use super::sleep::Sleep;
use super::{Clock, MonotonicClock};
use crate::panic::{self, QuietDrop};
use crate::sync::thread::{self, Builder, Thread};
use crate::sync::{LocalQueue, Mutex, global, thread_plain};

/// Runs functions when they are due, by one clock. Clones are the same service.
///
/// What is due runs in the order of the due times; what is due at the same time, in the order in
/// which it was armed. Nothing runs early, however coarse the clock. A service has one thread (or
/// [none](Self::by_hand)), so a function that takes long delays those behind it: let it
/// [send](crate::wait::Posted) to an actor. A function that panics hurts no other.
///
/// When the last clone is dropped, by a function of its own too, the thread ends; what is armed
/// then never fires, and is dropped. A function that owns a clone of its own service keeps it.
///
/// Every call takes a short lock. None of them waits for a function that runs.
///
/// # Examples
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use turnwise::time::Timers;
///
/// let (tell, told) = mpsc::channel();
/// Timers::global().after(Duration::from_millis(1), move || tell.send("late").unwrap()).forget();
/// assert_eq!(told.recv()?, "late");
/// # Ok::<(), mpsc::RecvError>(())
/// ```
#[derive(Clone)]
pub struct Timers {
    owner: Arc<TimerOwner>,
}

/// Shared by the clones: dropping it ends the service.
struct TimerOwner {
    shared: Arc<TimerService>,
}

/// State that the thread and the timers share; it does not keep the service going.
struct TimerService {
    /// The service may be its last owner, wherever that ends.
    clock: QuietDrop<Arc<dyn Clock>>,
    queue: Mutex<TimerQueue>,
}

type Armed = BTreeMap<Key, Arc<TimerEntry<dyn TimerJob>>>;

struct TimerQueue {
    armed: Armed,
    /// The number of the last arming.
    last: u64,
    /// A thread is to be started when something is armed.
    lacks_thread: bool,
    /// The thread, if it lies down and has not been woken, and when it gets up. That may be sooner
    /// than anything is due: most timers are cancelled, and the next one armed then wakes no
    /// thread.
    lying: Option<(Thread, Moment)>,
    /// Delayed messages that were not accepted.
    undelivered: u64,
    ended: bool,
}

/// The moment at which a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moment {
    At(Duration),
    /// Beyond what the clock can show.
    Never,
}

impl Moment {
    pub(super) fn after(now: Duration, delay: Duration) -> Self {
        now.checked_add(delay).map_or(Moment::Never, Moment::At)
    }

    fn moment(self) -> Option<Duration> {
        match self {
            Moment::At(due) => Some(due),
            Moment::Never => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    due: Moment,
    number: u64,
}

pub(super) struct TimerEntry<J: ?Sized> {
    /// Changed under the lock of the queue alone.
    place: Mutex<TimerPlace>,
    pub(super) job: J,
}

#[derive(Clone, Copy)]
enum TimerPlace {
    Armed(Key),
    /// One that comes again: its function runs. It may have been reset meanwhile.
    Running(Option<Moment>),
    /// Cancelled, or fired for the last time.
    Over,
}

pub(super) trait TimerJob: Send + Sync {
    /// Returns true if it fires more than once.
    fn comes_again(&self) -> bool {
        false
    }

    /// The moment to which a timer that is too far behind is put off instead of fired.
    fn put_off(&self, _due: Duration, _now: Duration) -> Option<Moment> {
        None
    }

    /// Runs the user's function, and catches its panic.
    fn fire(&self, due: Duration, now: Duration) -> Fired;

    /// Drops the user's function, if it is there; the drop may panic.
    fn discard(&self);
}

#[derive(Clone, Copy)]
pub(super) struct Fired {
    /// A message was not accepted.
    pub(super) lost: bool,
    /// The next moment at which it is due.
    pub(super) next: Option<Moment>,
}

/// A function that is called once; it says whether its message was accepted.
struct Once<F>(Mutex<Option<F>>);

impl<F: FnOnce() -> bool + Send> TimerJob for Once<F> {
    fn fire(&self, _: Duration, _: Duration) -> Fired {
        let function = self.0.lock().take();
        // A message whose drop panics was refused before that.
        let mut accepted = false;
        panic::ignore(|| accepted = function.is_none_or(|function| function()));
        Fired { lost: !accepted, next: None }
    }

    fn discard(&self) {
        let function = self.0.lock().take();
        drop(function);
    }
}

/// The next step of the service.
enum TimerStep {
    Run(Arc<TimerEntry<dyn TimerJob>>, Duration),
    /// Nothing before this moment.
    Wait(Moment),
    End,
}

impl TimerQueue {
    /// Arms a timer that is nowhere in the map. A thread that comes back is to be woken.
    #[must_use]
    fn insert(&mut self, due: Moment, entry: Arc<TimerEntry<dyn TimerJob>>) -> Option<Thread> {
        self.last += 1;
        let key = Key { due, number: self.last };
        *entry.place.lock() = TimerPlace::Armed(key);
        self.armed.insert(key, entry);
        let sleeps_too_long = self.lying.as_ref().is_some_and(|(_, until)| due < *until);
        if sleeps_too_long { self.lying.take().map(|(thread, _)| thread) } else { None }
    }

    /// Takes out what is due first, if it is due.
    fn take_due(&mut self, now: Duration) -> Option<(Arc<TimerEntry<dyn TimerJob>>, Duration)> {
        loop {
            let first = self.armed.first_entry()?;
            let due = first.key().due.moment().filter(|due| *due <= now)?;
            let entry = first.remove();
            if let Some(later) = entry.job.put_off(due, now) {
                // The caller looks at what is first, so no thread has to be woken.
                let lying = self.lying.take();
                let _ = self.insert(later, entry);
                self.lying = lying;
                continue;
            }
            let comes_again = entry.job.comes_again();
            *entry.place.lock() =
                if comes_again { TimerPlace::Running(None) } else { TimerPlace::Over };
            return Some((entry, due));
        }
    }
}

impl TimerService {
    /// The job due by `now`, or the time to wait for: a thread that lies down then is written down.
    fn next(&self, now: Duration, lies_down: bool) -> TimerStep {
        let mut queue = self.queue.lock();
        if queue.ended {
            return TimerStep::End;
        }
        if let Some((entry, due)) = queue.take_due(now) {
            return TimerStep::Run(entry, due);
        }
        let first = queue.armed.first_key_value().map_or(Moment::Never, |(key, _)| key.due);
        if lies_down {
            queue.lying = Some((thread::current(), first));
        }
        TimerStep::Wait(first)
    }

    /// Runs the function of a timer that was taken out, and arms it again if it comes again.
    fn fire(&self, entry: Arc<TimerEntry<dyn TimerJob>>, due: Duration, now: Duration) {
        let fired = entry.job.fire(due, now);
        let (over, woken) = {
            let mut queue = self.queue.lock();
            queue.undelivered += u64::from(fired.lost);
            let place = *entry.place.lock();
            match (place, fired.next) {
                (TimerPlace::Running(reset), Some(next)) if !queue.ended => {
                    (None, queue.insert(reset.unwrap_or(next), entry))
                }
                _ => {
                    *entry.place.lock() = TimerPlace::Over;
                    (Some(entry), None)
                }
            }
        };
        wake(woken);
        // Cancelled while it ran, or over: what is left of it goes now.
        panic::ignore(|| over.iter().for_each(|entry| entry.job.discard()));
    }

    /// The thread of a service.
    fn serve(&self) {
        SERVES.with(|serves| serves.set(true));
        loop {
            // A clock that panics shows nothing: what is due waits until it shows something.
            let now = panic::catch(|| self.clock.now());
            let now = now.map_err(panic::discard).unwrap_or_default();
            match self.next(now, true) {
                TimerStep::Run(entry, due) => self.fire(entry, due, now),
                TimerStep::Wait(Moment::Never) => thread::park(),
                TimerStep::Wait(Moment::At(due)) => {
                    let parked = panic::catch(|| self.clock.park_until(due));
                    if let Err(payload) = parked {
                        panic::discard(payload);
                        thread::park_timeout(BROKEN_CLOCK);
                    }
                }
                TimerStep::End => return,
            }
        }
    }

    /// Starts the thread of a service.
    fn start(self: &Arc<Self>) -> io::Result<()> {
        let shared = self.clone();
        let thread = Builder::new().name("turnwise-timers".into());
        thread.spawn(move || shared.serve()).map(drop)
    }
}

/// After this time a thread looks again whose clock panics.
const BROKEN_CLOCK: Duration = Duration::from_millis(10);

fn wake(thread: Option<Thread>) {
    if let Some(thread) = thread {
        thread.unpark();
    }
}

impl Timers {
    /// The service of the process, by the machine's clock. Its thread starts when the first timer
    /// is armed, and stays; if the system gives no thread, the next timer tries again.
    pub fn global() -> &'static Timers {
        static GLOBAL: OnceLock<Timers> = OnceLock::new();
        GLOBAL.get_or_init(|| Timers::of_service(Arc::new(MonotonicClock), true))
    }

    /// A service by this clock, with a thread of its own that ends with the last clone.
    ///
    /// On a [`VirtualClock`](crate::VirtualClock), the thread is one of its
    /// [sleepers](crate::VirtualClock::sleepers) while something is armed.
    ///
    /// # Errors
    /// The system gives no thread.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use turnwise::VirtualClock;
    /// use turnwise::time::Timers;
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::new(clock.clone())?;
    /// let (tell, told) = mpsc::channel();
    /// timers.after(Duration::from_secs(3600), move || tell.send(()).unwrap()).forget();
    /// clock.advance(Duration::from_secs(3600));
    /// told.recv()?; // after no time at all
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(clock: impl Clock + 'static) -> Result<Timers, io::Error> {
        let timers = Timers::of_service(Arc::new(clock), false);
        timers.shared().start()?;
        Ok(timers)
    }

    /// A service without a thread: nothing fires but in [`run_due`](Self::run_due).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::VirtualClock;
    /// use turnwise::time::Timers;
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// let timer = timers.after(Duration::from_secs(60), || println!("a minute"));
    /// clock.advance(Duration::from_secs(59));
    /// assert_eq!(timers.run_due(), 0);
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(timers.run_due(), 1);
    /// assert!(!timer.is_armed());
    /// ```
    pub fn by_hand(clock: impl Clock + 'static) -> Timers {
        Timers::of_service(Arc::new(clock), false)
    }

    fn of_service(clock: Arc<dyn Clock>, lacks_thread: bool) -> Timers {
        let armed = BTreeMap::new();
        let queue =
            TimerQueue { armed, last: 0, lacks_thread, lying: None, undelivered: 0, ended: false };
        let shared = TimerService { clock: QuietDrop::new(clock), queue: Mutex::new(queue) };
        Timers { owner: Arc::new(TimerOwner { shared: Arc::new(shared) }) }
    }

    /// The service of a clock that was brought along without one: the same for all that ask with
    /// clones of one handle, while it is there. Its thread starts on first need and ends with the
    /// last handle. Takes a short lock.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use turnwise::time::Timers;
    /// use turnwise::{Clock, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    /// let (timers, same) = (Timers::of(&shared), Timers::of(&shared.clone()));
    /// timers.after(Duration::from_secs(1), || ()).forget();
    /// assert_eq!(same.len(), 1);
    /// ```
    pub fn of(clock: &Arc<dyn Clock>) -> Timers {
        let address = Arc::as_ptr(clock).cast::<()>().addr();
        let mut services = OF_CLOCKS.lock();
        if let Some(owner) = services.by_clock.get(&address).and_then(Weak::upgrade) {
            return Timers { owner };
        }
        let timers = Timers::of_service(clock.clone(), true);
        services.by_clock.insert(address, Arc::downgrade(&timers.owner));
        if services.by_clock.len() >= services.sweep_at {
            services.by_clock.retain(|_, owner| owner.strong_count() > 0);
            services.sweep_at = SWEEP_FROM.max(2 * services.by_clock.len());
        }
        timers
    }

    fn shared(&self) -> &Arc<TimerService> {
        &self.owner.shared
    }

    /// The clock of this service.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared().clock
    }

    /// The time of this service's clock, by which [`at`](Self::at) counts.
    ///
    /// # Panics
    /// If the clock does.
    pub fn now(&self) -> Duration {
        self.clock().now()
    }

    /// Calls `f` once, when `delay` has passed; as soon as possible if that is zero, but never in
    /// this call. With a delay that the clock cannot show, the timer stays armed and never fires.
    /// Takes a short lock.
    ///
    /// # Panics
    /// If the clock does; then nothing is armed.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::time::Timers;
    ///
    /// let timer = Timers::global().after(Duration::from_secs(60), || println!("too late"));
    /// assert!(timer.cancel(), "it never fires");
    /// ```
    pub fn after(&self, delay: Duration, f: impl FnOnce() + Send + 'static) -> Timer {
        self.message_after(delay, || {
            panic::ignore(f);
            true
        })
    }

    /// [`after`](Self::after), for a function that says whether its message was accepted.
    pub(crate) fn message_after(
        &self,
        delay: Duration,
        f: impl FnOnce() -> bool + Send + 'static,
    ) -> Timer {
        let (f, now) = panic::owning(f, |_| self.now());
        self.timer(Moment::after(now, delay), Once(Mutex::new(Some(f))))
    }

    /// Calls `f` once, when the clock of this service shows `due` or more; as soon as possible if
    /// it does already. Takes a short lock.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::VirtualClock;
    /// use turnwise::time::Timers;
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// timers.at(Duration::from_secs(5), || println!("five seconds")).forget();
    /// assert_eq!(timers.next_due(), Some(Duration::from_secs(5)));
    /// clock.set(Duration::from_secs(5));
    /// assert_eq!(timers.run_due(), 1);
    /// ```
    pub fn at(&self, due: Duration, f: impl FnOnce() + Send + 'static) -> Timer {
        let once = || {
            panic::ignore(f);
            true
        };
        self.timer(Moment::At(due), Once(Mutex::new(Some(once))))
    }

    /// Calls `f` again and again, by a fixed step: see [`Every`]. Its calls never overlap. One that
    /// panics was the last. Takes a short lock.
    ///
    /// # Errors
    /// [`TimerError::StepZero`]: nothing is armed.
    ///
    /// # Panics
    /// If the clock does; then nothing is armed.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use turnwise::VirtualClock;
    /// use turnwise::time::{Every, Timers};
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// let (tell, told) = mpsc::channel();
    /// let every = Every::step(Duration::from_secs(1));
    /// let ticking = timers.every(every, move |tick| tell.send(tick.number).unwrap())?;
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(timers.run_due(), 3);
    /// assert!(ticking.cancel());
    /// assert_eq!(told.iter().collect::<Vec<_>>(), [1, 2, 3]);
    /// # Ok::<(), turnwise::time::TimerError>(())
    /// ```
    pub fn every(
        &self,
        every: impl Into<Every>,
        mut f: impl FnMut(Tick) + Send + 'static,
    ) -> Result<Timer, TimerError> {
        self.messages_every(every.into(), move |tick| {
            f(tick);
            Delivered::Yes
        })
    }

    /// [`every`](Self::every), for a function that says whether its message was accepted.
    pub(crate) fn messages_every(
        &self,
        every: Every,
        f: impl FnMut(Tick) -> Delivered + Send + 'static,
    ) -> Result<Timer, TimerError> {
        let (periodic, now) = panic::owning(Periodic::new(every, f)?, |_| self.now());
        Ok(self.timer(Moment::after(now, every.first()), periodic))
    }

    /// A future that is ready when `delay` has passed, counted from this call: on any runtime, for
    /// it is woken by this service. Dropping it disarms it. Takes a short lock when it is polled
    /// and when it is dropped.
    ///
    /// With a delay that the clock cannot show, it is never ready.
    ///
    /// # Panics
    /// If the clock does; polling it, too.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::time::Timers;
    ///
    /// async fn twice() {
    ///     for _ in 0..2 {
    ///         Timers::global().sleep(Duration::from_millis(1)).await;
    ///     }
    /// }
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(twice()); // no timer of tokio's is needed
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sleep(&self, delay: Duration) -> Sleep {
        Sleep::new(self.clone(), Moment::after(self.now(), delay))
    }

    /// [`sleep`](Self::sleep) until a moment of this service's clock.
    pub(crate) fn sleep_until(&self, at: Duration) -> Sleep {
        Sleep::new(self.clone(), Moment::At(at))
    }

    /// Runs what is due at the time of the call, in order, on this thread, and whatever the
    /// functions arm that is due by then; returns how many calls that were. A function that arms
    /// itself again without a delay is run for ever.
    ///
    /// It may be called beside the thread of a service and from inside functions. Each timer fires
    /// once all the same, but the order holds for each caller by itself.
    ///
    /// # Panics
    /// If the clock does; then nothing has run.
    pub fn run_due(&self) -> usize {
        let now = self.now();
        let mut run = 0;
        while let TimerStep::Run(entry, due) = self.shared().next(now, false) {
            self.shared().fire(entry, due, now);
            run += 1;
        }
        run
    }

    /// The moment at which a timer is due next; none if nothing is armed that the clock can show.
    /// Stale on return.
    pub fn next_due(&self) -> Option<Duration> {
        let queue = self.shared().queue.lock();
        queue.armed.first_key_value().and_then(|(key, _)| key.due.moment())
    }

    /// The number of armed timers; one whose function runs is not. Stale on return.
    pub fn len(&self) -> usize {
        self.shared().queue.lock().armed.len()
    }

    /// Returns true if nothing is armed. Stale on return.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of delayed messages that were dropped because their actor was gone, closed,
    /// stopped or full when they were due.
    pub fn undelivered(&self) -> u64 {
        self.shared().queue.lock().undelivered
    }

    pub(super) fn arm(&self, due: Moment, entry: Arc<TimerEntry<dyn TimerJob>>) {
        let shared = self.shared();
        let (woken, start) = {
            let mut queue = shared.queue.lock();
            let woken = queue.insert(due, entry);
            (woken, std::mem::take(&mut queue.lacks_thread))
        };
        wake(woken);
        if start && shared.start().is_err() {
            shared.queue.lock().lacks_thread = true;
        }
    }

    fn timer(&self, due: Moment, job: impl TimerJob + 'static) -> Timer {
        let entry: Arc<TimerEntry<dyn TimerJob>> = TimerEntry::new(job);
        self.arm(due, entry.clone());
        Timer { shared: self.shared().clone(), entry }
    }

    /// Takes an entry out for good: true if it was armed, or would have been again.
    pub(super) fn disarm(&self, entry: &TimerEntry<dyn TimerJob>) -> bool {
        self.shared().disarm(entry)
    }
}

/// Outcome of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivered {
    Yes,
    No,
    /// And no message ever will be.
    NeverAgain,
}

impl<J: TimerJob> TimerEntry<J> {
    pub(super) fn new(job: J) -> Arc<Self> {
        Arc::new(TimerEntry { place: Mutex::new(TimerPlace::Over), job })
    }
}

impl TimerService {
    fn disarm(&self, entry: &TimerEntry<dyn TimerJob>) -> bool {
        let (was_armed, removed) = {
            let mut queue = self.queue.lock();
            let was = std::mem::replace(&mut *entry.place.lock(), TimerPlace::Over);
            match was {
                TimerPlace::Armed(key) => (true, queue.armed.remove(&key)),
                TimerPlace::Running(_) => (!queue.ended, None),
                TimerPlace::Over => (false, None),
            }
        };
        drop(removed);
        if was_armed {
            panic::ignore(|| entry.job.discard());
        }
        was_armed
    }
}

impl Drop for TimerOwner {
    fn drop(&mut self) {
        let (armed, lying) = {
            let mut queue = self.shared.queue.lock();
            queue.ended = true;
            for entry in queue.armed.values() {
                *entry.place.lock() = TimerPlace::Over;
            }
            (std::mem::take(&mut queue.armed), queue.lying.take())
        };
        wake(lying.map(|(thread, _)| thread));
        discard_all(armed);
    }
}

thread_plain! {
    /// True on the thread of a service.
    static SERVES: Cell<bool> = Cell::new(false);
}

/// True on the thread of a service, which runs what is due, and nothing that may take long.
pub(crate) fn serves_timers() -> bool {
    SERVES.with(Cell::get)
}

thread_plain! {
    /// True while this thread discards what was armed in a service.
    static DISCARDS: Cell<bool> = Cell::new(false);
}

thread_plain! {
    /// Timers armed in services that this thread has ended, and has not discarded yet.
    static LEFT: LocalQueue<Armed> = LocalQueue::new();
}

/// Discards what was armed. A function may own the last clone of another service, and so on: the
/// outermost call on a thread discards for those inside of it, so a chain takes constant stack.
fn discard_all(armed: Armed) {
    LEFT.with(|left| left.with(|left| left.push_back(armed)));
    if DISCARDS.with(|discards| discards.replace(true)) {
        return;
    }
    while let Some(armed) = LEFT.with(|left| left.with(VecDeque::pop_front)) {
        armed.into_values().for_each(|entry| panic::ignore(|| entry.job.discard()));
    }
    DISCARDS.with(|discards| discards.set(false));
}

// No user code runs under the lock, so a panic leaves nothing half done.
impl RefUnwindSafe for TimerService {}
impl<J: ?Sized> RefUnwindSafe for TimerEntry<J> {}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers")
            .field("armed", &self.shared().queue.try_lock().map(|queue| queue.armed.len()))
            .finish_non_exhaustive()
    }
}

/// An armed timer. Dropping it leaves the timer armed.
///
/// It does not keep its service going.
#[must_use = "dropping it leaves it armed; call `forget` to say so"]
pub struct Timer {
    shared: Arc<TimerService>,
    entry: Arc<TimerEntry<dyn TimerJob>>,
}

impl Timer {
    /// Disarms it, and drops its function. True: it certainly never fires again, and this call has
    /// seen to it. False: it has fired, or begun to, or was disarmed before. Takes a short lock;
    /// never waits for a function that runs.
    ///
    /// A periodic timer can be cancelled while its function runs, by the function too: that call is
    /// its last.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::VirtualClock;
    /// use turnwise::time::Timers;
    ///
    /// let timers = Timers::by_hand(VirtualClock::new());
    /// let timer = timers.after(Duration::ZERO, || unreachable!());
    /// assert!(timer.cancel());
    /// assert_eq!(timers.run_due(), 0);
    /// assert!(!timer.cancel(), "it was not armed any more");
    /// ```
    pub fn cancel(&self) -> bool {
        self.shared.disarm(&self.entry)
    }

    /// Moves the timer: it is due when `delay` has passed from now on, and behind all that is armed
    /// for that moment. A periodic timer goes on from there by its step. False, and without effect,
    /// if it has fired, or begun to, or was disarmed. Takes a short lock.
    ///
    /// # Panics
    /// If the clock does; then nothing is changed.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::VirtualClock;
    /// use turnwise::time::Timers;
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// let patience = timers.after(Duration::from_secs(60), || println!("too late"));
    /// clock.advance(Duration::from_secs(59));
    /// assert!(patience.reset(Duration::from_secs(60))); // a customer came
    /// assert_eq!(timers.next_due(), Some(Duration::from_secs(119)));
    /// ```
    pub fn reset(&self, delay: Duration) -> bool {
        let due = Moment::after(self.shared.clock.now(), delay);
        let woken = {
            let mut queue = self.shared.queue.lock();
            let place = *self.entry.place.lock();
            match place {
                TimerPlace::Armed(key) => {
                    queue.armed.remove(&key).and_then(|entry| queue.insert(due, entry))
                }
                TimerPlace::Running(_) if !queue.ended => {
                    *self.entry.place.lock() = TimerPlace::Running(Some(due));
                    None
                }
                TimerPlace::Running(_) | TimerPlace::Over => return false,
            }
        };
        wake(woken);
        true
    }

    /// Returns true if it will fire (again), as things are. Stale on return. Takes a short lock.
    pub fn is_armed(&self) -> bool {
        let queue = self.shared.queue.lock();
        match *self.entry.place.lock() {
            TimerPlace::Armed(_) => true,
            TimerPlace::Running(_) => !queue.ended,
            TimerPlace::Over => false,
        }
    }

    /// Leaves the timer armed, without a handle to cancel it.
    pub fn forget(self) {}
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("armed", &self.is_armed()).finish_non_exhaustive()
    }
}

/// The services of clocks that were brought along without one.
struct OfClocks {
    /// By the address of the clock, which stays taken as long as its service is there.
    by_clock: BTreeMap<usize, Weak<TimerOwner>>,
    /// With this many entries, those of services that have ended are removed.
    sweep_at: usize,
}

/// Fewer entries than these are not worth a look.
const SWEEP_FROM: usize = 64;

global! {
    static OF_CLOCKS: Mutex<OfClocks> =
        Mutex::new(OfClocks { by_clock: BTreeMap::new(), sweep_at: SWEEP_FROM });
}
