//! A job that a timer starts in each tick.
//!
//! The timer posts one message to the attendant, an actor that owns the closure; so no code of the
//! user's runs on the thread of the timers. The message looks at the wall clock, runs what is to be
//! run, and arms the timer for the next tick.
//!
//! - ATTEND-1: at most one timer and one message of an attendance are there at a time: each look
//!   arms the next, as its last step, however it went.
//! - ATTEND-2: `seen` is the last tick that was run, or taken by others. A tick in which an earlier
//!   run was under way is not seen: it is missed.
//! - ATTEND-3: the timer is armed for a minute at most, so a wall clock that is set is noticed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use turnwise::time::{Timer, Timers};
use turnwise::{Actor, PanicPolicy};

use super::{Other, Shared};
use crate::sync::Mutex;
use crate::user_code::{catch, discard, owning};

/// A job that is attended: see [`OncePerTick::attend`](super::OncePerTick::attend). Dropping it
/// ends that; a run that is under way goes on to its end.
#[must_use = "dropping it ends the attendance"]
pub struct Attendance {
    alarm: Arc<Alarm>,
}

/// The state that the timer, the attendant and the attendance share.
struct Alarm {
    shared: Arc<Shared>,
    state: Mutex<State>,
    runs: AtomicU64,
    panics: AtomicU64,
}

struct State {
    ended: bool,
    timer: Option<Timer>,
}

/// The state of the attendant.
struct Attendant<F> {
    /// TICKS-3: the book does not forget it.
    job: Arc<str>,
    f: F,
    /// ATTEND-2.
    seen: u64,
}

/// The farthest look (ATTEND-3).
const FARTHEST: Duration = Duration::from_secs(60);
/// The soonest look, if the next tick is not later than this one.
const SOONEST: Duration = Duration::from_secs(1);

/// [`OncePerTick::attend`](super::OncePerTick::attend).
pub(super) fn attend(
    shared: &Arc<Shared>,
    job: &str,
    f: impl FnMut(u64) + Send + 'static,
) -> Attendance {
    let shared = shared.clone();
    let (f, seen) = owning(f, |_| shared.tick());
    let mut attendant = Actor::builder().name("attendance").panic_policy(PanicPolicy::Resume);
    if let Some(executor) = shared.executor.clone() {
        attendant = attendant.executor(executor);
    }
    let job = shared.book.lock().name(job, seen);
    let attendant = match attendant.spawn(Attendant { job, f, seen }) {
        Ok(attendant) => attendant,
        Err(_) => unreachable!("nothing was said that could be wrong"),
    };
    let state = Mutex::new(State { ended: false, timer: None });
    let (runs, panics) = (AtomicU64::new(0), AtomicU64::new(0));
    let alarm = Arc::new(Alarm { shared, state, runs, panics });
    arm(&alarm, &attendant);
    Attendance { alarm }
}

impl Attendance {
    /// Runs of this attendance that were begun.
    pub fn runs(&self) -> u64 {
        // Ordering: Relaxed. A count, by which nothing is published.
        self.alarm.runs.load(Ordering::Relaxed)
    }

    /// The number of them that have panicked.
    pub fn panics(&self) -> u64 {
        // Ordering: Relaxed. As above.
        self.alarm.panics.load(Ordering::Relaxed)
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let timer = {
            let mut state = self.alarm.state.lock();
            state.ended = true;
            state.timer.take()
        };
        if let Some(timer) = timer {
            timer.cancel();
        }
    }
}

impl fmt::Debug for Attendance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attendance")
            .field("runs", &self.runs())
            .field("panics", &self.panics())
            .finish_non_exhaustive()
    }
}

/// Arms the timer for the next tick (ATTEND-1, ATTEND-3).
fn arm<F>(alarm: &Arc<Alarm>, attendant: &Actor<Attendant<F>>)
where
    F: FnMut(u64) + Send + 'static,
{
    let shared = &alarm.shared;
    // What panics here is asked again in a minute.
    let left = catch(|| {
        let now = (shared.wall)();
        let (_, next) = shared.schedule.look(now);
        if next <= now { SOONEST } else { next - now }
    });
    let left = left.map_err(discard).unwrap_or(FARTHEST).min(FARTHEST);
    let (weak, to) = (Arc::downgrade(alarm), attendant.clone());
    let ring = move || {
        let again = to.clone();
        drop(to.posted().send(move |attendant| look(&weak, &again, attendant)));
    };
    // Not under the lock: the clock is the user's. While it panics, the process's timers ring.
    let now = |timers: &Timers| catch(|| timers.now()).map_err(discard).ok();
    let own = shared.timers.as_ref().and_then(|timers| Some((timers, now(timers)?)));
    let (timers, now) = own.unwrap_or_else(|| (Timers::global(), Timers::global().now()));
    let timer = timers.at(now.saturating_add(left), ring);
    let late = {
        let mut state = alarm.state.lock();
        match state.ended {
            true => Some(timer),
            false => state.timer.replace(timer),
        }
    };
    if let Some(timer) = late {
        timer.cancel();
    }
}

/// One look of the attendant's.
fn look<F>(alarm: &Weak<Alarm>, me: &Actor<Attendant<F>>, attendant: &mut Attendant<F>)
where
    F: FnMut(u64) + Send + 'static,
{
    let Some(alarm) = alarm.upgrade() else { return };
    if alarm.state.lock().ended {
        return;
    }
    let shared = &alarm.shared;
    let now = catch(|| shared.tick());
    if let Ok(now) = now.map_err(discard) {
        attendant.run(now, &alarm);
    }
    arm(&alarm, me);
}

impl<F: FnMut(u64)> Attendant<F> {
    /// Runs the tick, and those missed before it, as far as they can be had.
    fn run(&mut self, now: u64, alarm: &Alarm) {
        let most = u64::from(alarm.shared.catch_up);
        let first = self.seen.saturating_add(1).max(now.saturating_sub(most));
        for number in first..=now {
            if alarm.state.lock().ended {
                return;
            }
            let running = match alarm.shared.take(&self.job, number) {
                Ok(running) => running,
                Err(Other::Runs(_)) => return,
                Err(Other::Taken) => {
                    self.seen = number;
                    continue;
                }
            };
            self.seen = number;
            // Ordering: Relaxed. A count, by which nothing is published.
            alarm.runs.fetch_add(1, Ordering::Relaxed);
            let f = &mut self.f;
            if let Err(payload) = catch(|| f(number)) {
                discard(payload);
                // Ordering: Relaxed. As above.
                alarm.panics.fetch_add(1, Ordering::Relaxed);
            }
            drop(running);
        }
    }
}
