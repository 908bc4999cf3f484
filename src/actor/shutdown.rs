//! The end of a system, as a blocking call and as a future.
//!
//! A shutdown seals the system, then closes its actors level by level, the lowest first, and waits
//! for the ends of one level before it closes the next ([`Course`]). It runs no message on the
//! thread that called it, and starts no thread: what waits in a mailbox that nobody runs goes to
//! its executor, or to the fallback. So a caller with a limit is there when the time is over. It
//! then stops what is left.
//!
//! What ends here, and what elsewhere:
//!
//! | the actor                 | a call outside of turns      | a call inside a turn, a poll |
//! |---------------------------|------------------------------|------------------------------|
//! | idle, without an executor | ends here                    | in the fallback              |
//! | without one, to be stopped, nobody at it | given back here | in the fallback             |
//! | with an executor          | in its executor              | the same                     |
//! | with one that is gone     | given back here              | the same                     |
//!
//! What the hooks that run here send is not run here either.
//!
//! - Y1: sealed first, top down; then nothing is added, so the lists only get shorter (L1).
//! - Y2: whoever is below ends before those above are closed: an actor above may be sent to by
//!   those below until they have ended.
//! - Y3: a member in whose turn the calling thread is cannot end before the call returns: it is
//!   closed, reported, and not waited for.
//! - Y4: nor is a member waited for in whose turn another thread is inside a shutdown that waits,
//!   at whatever remove, for an actor in whose turn this thread is. Such calls are registered
//!   ([`CALLS`]): a call knows the mailboxes that its thread is running, and wants each call that
//!   is inside a turn of one of its members. One that comes is registered first and then wakes
//!   those that wait; one that waits stands in the lists of its systems before it looks at the
//!   calls.
//! - Y5: a worker of a pool that waits leaves its place to another thread meanwhile.

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::registry::{Levels, Member, Sealed, Shared};
use crate::drain::blocking::{before_pending, leave_to_others, relieve_anyway};
use crate::drain::context::with_local;
use crate::drain::deferred::{give_back_here, settle};
use crate::error::StopCause;
use crate::sync::{Mutex, global, thread};
use crate::time::{Cutoff, Limit};
use crate::wait_list::{Place, Waiter};

/// What became of the actors of a system that was shut down: each is in one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// So many ended by themselves: all that they had accepted was run, unless a turn's panic or
    /// the loss of their executor had stopped them.
    pub ended: usize,
    /// So many were stopped when the time was over, and have ended.
    pub stopped: usize,
    /// Those that have not ended, by name, or by the type of their state: somebody is inside a turn
    /// of theirs, or their executor has not come to their end yet. They end with that.
    pub running: Vec<String>,
}

impl ShutdownReport {
    /// Have all of them ended?
    pub fn is_complete(&self) -> bool {
        self.running.is_empty()
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.running.len();
        write!(f, "{} ended, {} stopped, {running} running", self.ended, self.stopped)?;
        if !self.is_complete() {
            write!(f, ": {}", self.running.join(", "))?;
        }
        Ok(())
    }
}

/// Ends all actors of a system and of those below, and waits for that until the limit.
pub(super) fn shut_down(shared: &Arc<Shared>, limit: Limit) -> ShutdownReport {
    // The clock is the user's: if it panics here, nothing has happened.
    let deadline = Cutoff::new(shared.clock(), limit);
    let mut course = Course::new(shared);
    course.enter();
    let in_time = course.wait(deadline);
    if !in_time {
        course.stop();
    }
    course.report()
}

/// Stops all actors of a system and of those below. Waits for nobody.
pub(super) fn stop_all(shared: &Arc<Shared>) {
    let levels = shared.seal(true);
    with_local(|local| {
        let here = !local.in_turn();
        local.work(|| {
            levels.iter().rev().flatten().flat_map(Sealed::left).for_each(|m| m.stop(local, here));
        });
        settle(local);
    });
}

/// How far a shutdown has come.
struct Course {
    levels: Arc<Levels>,
    /// The level that is ending is the one below this many.
    level: usize,
    /// Its actors were closed.
    closed: bool,
    /// So many systems of it have ended.
    ended: usize,
    /// Those that were closed from idle and end elsewhere: there is nothing to stop.
    idle: HashSet<usize>,
    /// Those that were stopped because the time was over.
    stopped: HashSet<usize>,
    /// The mailboxes that the calling thread is running (Y3).
    inside: Vec<usize>,
    /// The calling thread is inside a turn, or the call is a poll.
    elsewhere: bool,
    call: Option<Registered>,
    held: Held,
}

/// The members that are not waited for (Y3, Y4), as of the last look.
#[derive(Default)]
struct Held {
    /// When that was.
    epoch: u64,
    addrs: HashSet<usize>,
    /// Those of one system, and of which.
    numbers: Vec<u64>,
    of: Option<(usize, usize)>,
}

impl Course {
    fn new(shared: &Arc<Shared>) -> Self {
        let levels = Arc::new(shared.seal(false));
        Course {
            level: levels.len(),
            levels,
            closed: false,
            ended: 0,
            idle: HashSet::new(),
            stopped: HashSet::new(),
            inside: Vec::new(),
            elsewhere: true,
            call: None,
            held: Held::default(),
        }
    }

    /// This thread goes on with it: it may be inside turns.
    fn enter(&mut self) {
        let (inside, in_turn): (Vec<_>, _) =
            with_local(|local| (local.running().collect(), local.in_turn()));
        self.elsewhere = in_turn;
        if inside != self.inside {
            // In this order: a call that is gone holds nobody.
            self.call = None;
            self.held = Held::default();
            self.inside = inside;
            if !self.inside.is_empty() {
                self.call = Some(Registered::new(self.inside.clone(), self.levels.clone()));
            }
        }
    }

    /// Closes the actors of the level that is ending: all of them, or the idle ones.
    fn close(&mut self, all: bool) {
        let here = !self.elsewhere;
        let Course { levels, level, idle, inside, .. } = self;
        let level = &levels[*level - 1];
        leave_to_others(|local| {
            for member in level.iter().flat_map(Sealed::members) {
                if inside.contains(&member.addr()) {
                    member.close();
                } else if member.close_if_idle(here) {
                    if !here || member.has_executor() {
                        idle.insert(member.addr());
                    }
                } else if all {
                    member.run_out(local);
                }
            }
        });
        if self.elsewhere {
            give_back_forsaken(level.iter().flat_map(Sealed::left));
        }
    }

    /// The first system that has not ended, after what is to be done before. None: all have.
    fn step(&mut self, deadline: Option<Cutoff<'_>>) -> Option<(usize, usize)> {
        while self.level > 0 {
            if !self.closed {
                let over = deadline.is_some_and(Cutoff::is_over);
                self.close(!over);
                (self.closed, self.ended) = (true, 0);
            }
            while self.ended < self.levels[self.level - 1].len() {
                if !self.has_ended() {
                    return Some((self.level - 1, self.ended));
                }
                self.ended += 1;
            }
            self.level -= 1;
            self.closed = false;
        }
        None
    }

    /// Has the system that is ending ended, but for those that are not waited for?
    fn has_ended(&mut self) -> bool {
        let at = (self.level - 1, self.ended);
        let sealed = &self.levels[at.0][at.1];
        if sealed.has_ended() {
            return true;
        }
        let Some(call) = &self.call else { return false };
        let held = &mut self.held;
        if let Some((epoch, addrs)) = call.held(held.epoch) {
            *held = Held { epoch, addrs, ..Held::default() };
        }
        if held.of != Some(at) {
            held.numbers = sealed.numbers_of(&held.addrs);
            held.of = Some(at);
        }
        sealed.has_ended_but(&held.numbers)
    }

    /// Waits until all have ended, but for those that are not waited for; false if the time is over
    /// before.
    fn wait(&mut self, deadline: Cutoff<'_>) -> bool {
        while let Some((level, system)) = self.step(Some(deadline)) {
            let levels = self.levels.clone();
            let waiters = &levels[level][system].shared.waiters;
            let mut away = None;
            loop {
                // REMOVED and Y4: in the list before the look.
                let entry = waiters.add(Waiter::Thread(thread::current()));
                if self.has_ended() {
                    break;
                }
                if deadline.is_over() {
                    return false;
                }
                away.get_or_insert_with(|| with_local(relieve_anyway));
                deadline.park();
                drop(entry);
            }
        }
        true
    }

    /// The time is over: ends the idle ones, and stops the others.
    fn stop(&mut self) {
        while self.level > 0 {
            self.close(false);
            self.level -= 1;
        }
        let here = !self.elsewhere;
        let Course { levels, idle, stopped, .. } = self;
        leave_to_others(|local| {
            for member in levels.iter().rev().flatten().flat_map(Sealed::left) {
                if !idle.contains(&member.addr()) {
                    stopped.insert(member.addr());
                    member.stop(local, here);
                }
            }
        });
        if self.elsewhere {
            give_back_forsaken(self.levels.iter().rev().flatten().flat_map(Sealed::left));
        }
    }

    fn report(&self) -> ShutdownReport {
        let systems = || self.levels.iter().flatten();
        let left: Vec<_> = systems().flat_map(Sealed::left).collect();
        let all: usize = systems().map(Sealed::len).sum();
        let of_left = left.iter().filter(|m| self.stopped.contains(&m.addr())).count();
        let stopped = self.stopped.len() - of_left;
        ShutdownReport {
            ended: all - left.len() - stopped,
            stopped,
            running: left.iter().map(|member| member.name()).collect(),
        }
    }
}

/// Gives back what waits in actors whose executor is gone: inside a turn, nobody else does before
/// that is over.
fn give_back_forsaken<'a>(members: impl Iterator<Item = &'a Arc<dyn Member>>) {
    let forsaken = |member: &&'a Arc<dyn Member>| {
        member.cell().header().stop_cause() == Some(StopCause::ExecutorGone)
    };
    leave_to_others(|local| members.filter(forsaken).for_each(|m| give_back_here(local, m.cell())));
}

global! {
    /// The shutdowns that are under way inside turns (Y4).
    static CALLS: Mutex<Calls> = Mutex::new(Calls { epoch: 0, list: Vec::new() });
}

struct Calls {
    /// Changes with each call that comes.
    epoch: u64,
    list: Vec<Call>,
}

impl Calls {
    /// The mailboxes that a call is inside of, and those of all calls that want it, at whatever
    /// remove: they are not let go before it returns.
    fn held_by_those_that_want(&self, call: u64) -> HashSet<usize> {
        let mut held = HashSet::new();
        let (mut found, mut looked_at) = (vec![call], 0);
        while looked_at < found.len() {
            let number = found[looked_at];
            looked_at += 1;
            for call in &self.list {
                if call.number == number {
                    held.extend(call.inside.iter().copied());
                } else if call.wants.contains(&number) && !found.contains(&call.number) {
                    found.push(call.number);
                }
            }
        }
        held
    }
}

struct Call {
    number: u64,
    inside: Vec<usize>,
    levels: Arc<Levels>,
    /// The calls that are inside a turn of one of its members.
    wants: Vec<u64>,
    /// The mailboxes that it does not wait for: its own, and those of calls that wait for it, at
    /// whatever remove, now or at some time since it came. Never fewer: one that was told so does
    /// not wait after all.
    held: HashSet<usize>,
}

impl Call {
    fn wants(&self, inside: &[usize]) -> bool {
        let mut members = self.levels.iter().flatten().flat_map(Sealed::members);
        members.any(|member| inside.contains(&member.addr()))
    }
}

/// A call's entry: dropping it takes it out.
struct Registered(u64);

impl Registered {
    fn new(inside: Vec<usize>, levels: Arc<Levels>) -> Self {
        let mut others = Vec::new();
        let number = {
            let mut calls = CALLS.lock();
            calls.epoch += 1;
            let (wants, held) = (Vec::new(), HashSet::new());
            let mut call = Call { number: calls.epoch, inside, levels, wants, held };
            for other in &mut calls.list {
                if other.wants(&call.inside) {
                    other.wants.push(call.number);
                }
                if call.wants(&other.inside) {
                    call.wants.push(other.number);
                }
                others.push(other.levels.clone());
            }
            let number = call.number;
            calls.list.push(call);
            for at in 0..calls.list.len() {
                let held = calls.held_by_those_that_want(calls.list[at].number);
                calls.list[at].held.extend(held);
            }
            number
        };
        // Not under the lock: wakers are user code.
        for sealed in others.iter().flat_map(|levels| levels.iter().flatten()) {
            sealed.shared.waiters.wake_all();
        }
        Registered(number)
    }

    /// The mailboxes that this call does not wait for, if that may have changed since.
    fn held(&self, since: u64) -> Option<(u64, HashSet<usize>)> {
        let calls = CALLS.lock();
        let call = calls.list.iter().find(|call| call.number == self.0);
        let changed = call.filter(|_| calls.epoch != since);
        changed.map(|call| (calls.epoch, call.held.clone()))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut calls = CALLS.lock();
        let at = calls.list.iter().position(|call| call.number == self.0);
        let call = at.map(|at| calls.list.swap_remove(at));
        for other in &mut calls.list {
            other.wants.retain(|number| *number != self.0);
        }
        drop(calls);
        // Not under the lock: the last references to actors may go with it, and their hooks.
        drop(call);
    }
}

/// How far a shutdown that is polled has come.
#[derive(Default)]
pub(super) struct Progress {
    course: Option<Course>,
    /// Its place among those who wait for a system.
    entry: Option<(Arc<Shared>, Place)>,
    report: Option<ShutdownReport>,
}

fn forget(entry: &mut Option<(Arc<Shared>, Place)>) {
    if let Some((shared, place)) = entry.take() {
        shared.waiters.remove(place);
    }
}

impl Progress {
    /// What became of the actors, once all have ended.
    pub(super) fn report(&self) -> Option<&ShutdownReport> {
        self.report.as_ref()
    }

    /// Ends a system, always the same one, as far as it goes without waiting.
    pub(super) fn poll(
        &mut self,
        system: &Arc<Shared>,
        cx: &mut Context<'_>,
    ) -> Poll<ShutdownReport> {
        let Progress { course: place, entry, report } = self;
        if let Some(report) = report {
            return Poll::Ready(report.clone());
        }
        let course = place.get_or_insert_with(|| Course::new(system));
        course.enter();
        course.elsewhere = true;
        while let Some((level, at)) = course.step(None) {
            let shared = course.levels[level][at].shared.clone();
            // User code first: if it panics, nothing has changed.
            let waiter = Waiter::Task(cx.waker().clone());
            forget(entry);
            *entry = Some((shared.clone(), shared.waiters.insert(waiter)));
            // REMOVED and Y4: in the list before the look.
            if !course.has_ended() {
                before_pending(cx.waker());
                return Poll::Pending;
            }
        }
        forget(entry);
        let ended = course.report();
        *report = Some(ended.clone());
        *place = None;
        Poll::Ready(ended)
    }
}

impl Progress {
    /// The time is over: stops what has not ended, and waits for nobody.
    pub(super) fn stop(&mut self, system: &Arc<Shared>) -> ShutdownReport {
        let Progress { course: place, entry, report } = self;
        forget(entry);
        let ended = report.take().unwrap_or_else(|| {
            let course = place.get_or_insert_with(|| Course::new(system));
            course.enter();
            course.elsewhere = true;
            course.stop();
            course.report()
        });
        *place = None;
        report.insert(ended).clone()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        forget(&mut self.entry);
    }
}
