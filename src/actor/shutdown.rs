//! The end of a system, as a blocking call and as a future.
//!
//! A shutdown seals the system, closes its actors, and waits for their ends ([`Course`]). It runs
//! no message on the thread that called it, and starts no thread: what waits in a mailbox that is
//! not being run goes to its executor, or to the fallback. So a caller with a limit is there when
//! the time is over. It then stops what is left.
//!
//! What ends here, and what elsewhere:
//!
//! | the actor                 | outside of turns, in time | later; inside a turn | a poll          |
//! |---------------------------|---------------------------|----------------------|-----------------|
//! | idle, without an executor | ends here                 | in the fallback      | in the fallback |
//! | without one, to be stopped, not being run | given back here | in the fallback | in the fallback |
//! | with an executor          | in its executor           | in its executor      | in its executor |
//! | with one that is gone     | given back here           | given back here      | in the fallback |
//!
//! All are closed, or stopped, before the first one ends here: its hooks may wait for another one
//! to be closed. Those that were idle or suspended, and end here, are pending meanwhile, with no
//! entry and no drain of theirs out: a thread that waits for one of them takes it over, and this
//! one hands them over if a hook blocks it ([`crate::thread::ends`]).
//!
//! A limit of zero is one attempt, in which all that may end here does. With any other limit the
//! clock is looked at after each end that ran here. What hooks that run here send is not run here.
//!
//! - SHUTDOWN-1: sealed first; then nothing is added, so the list of members only gets shorter
//!   (REGISTRY-1).
//! - SHUTDOWN-2: a member in whose turn the calling thread is cannot end before the call returns.
//!   The call is refused before anything has changed.
//! - SHUTDOWN-3: inside the turn of another actor, the call waits for one member after the other,
//!   as it would for the end of each. So a wait that closes a circle is refused, as all such waits
//!   are (`thread::waits_for`).
//! - SHUTDOWN-4: a worker of a pool that waits leaves its place to another thread meanwhile.
//! - SHUTDOWN-5: between two steps a member is a number: the drop of its memory may run hooks,
//!   which would be after the limit.

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use super::registry::{Member, SystemShared};
use super::system::System;
use super::within::{Over, Within};
use crate::error::{Reason, StopCause};
use crate::panic;
use crate::send::wait::WaitFor;
use crate::sync::thread;
use crate::thread::context::{Local, with_local};
use crate::thread::ends::Ends;
use crate::thread::list::take_on_if_pending;
use crate::time::{Cutoff, Limit, Timers};
use crate::turn::blocking::{before_pending, circle_of_task, leave_to_others, relieve_anyway};
use crate::turn::deferred::{give_back_here, run_here};
use crate::turn::run_list::settle;
use crate::wait_list::{Waiter, WaiterEntry, WaiterPlace};

/// Outcome of a system's shutdown: each of its actors is counted in one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The number that ended without a stop by this call: all that they had accepted ran, unless a
    /// turn's panic, the loss of their executor, or another call had stopped them. Of two shutdowns
    /// at once, the one whose limit passes stops the actors; the report of the other counts them
    /// here.
    pub ended: usize,
    /// The number that was stopped when the time was over, and has ended.
    pub stopped: usize,
    /// Those that have not ended, by name, or by the type of their state: a turn of theirs is under
    /// way, or their executor, or the fallback, has not come to their end yet. They end with that.
    pub running: Vec<String>,
}

impl ShutdownReport {
    /// Returns true if all of them have ended.
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

/// Ends all actors of a system, and waits for that until the limit.
pub(super) fn shut_down(
    shared: &Arc<SystemShared>,
    limit: Limit,
) -> Result<ShutdownReport, Reason> {
    // The clock is the user's: if it panics here, nothing has happened.
    let deadline = Cutoff::new(shared.clock(), limit);
    let mut course = Course::new(shared.clone());
    course.enter(None)?;
    course.seal();
    if limit.normal() == Limit::Immediate {
        let idle = course.close(false);
        course.stop(true);
        end_all(idle, || false);
    } else {
        end_all(course.close(true), || deadline.is_over());
        course.give_back_forsaken();
        if course.wait(deadline)? {
            return Ok(course.report());
        }
        course.stop(false);
    }
    course.give_back_forsaken();
    Ok(course.report())
}

/// Stops all actors of a system. Waits for none.
pub(super) fn stop_all(shared: &SystemShared) {
    shared.seal();
    let members = shared.members();
    with_local(|local| {
        let here = !local.in_turn();
        local.work(|| stop_members(&members, local, here));
        settle(local);
    });
}

/// Stops these, all before the first end: a hook may wait for what another one waits for, or for
/// one whose turn is suspended. What waits is given back in this call if `here`.
fn stop_members(members: &[Box<dyn Member>], local: &Local, here: bool) {
    members.iter().for_each(|member| member.stop());
    let mut ends = Ends::new();
    members.iter().for_each(|member| member.cut(local, here, &mut ends));
    members.iter().for_each(|member| member.give_back(local, here));
}

/// Ends actors that were idle, one after the other, until the time is over. The others end
/// elsewhere.
fn end_all(mut ends: Ends, is_over: impl Fn() -> bool) {
    while let Some(cell) = ends.next() {
        leave_to_others(|local| {
            run_here(local, &cell);
            // The last reference runs hooks.
            drop(cell);
        });
        // The clock is the user's: not inside of the crate's own work.
        let over = panic::catch(&is_over);
        if matches!(over, Ok(false)) {
            continue;
        }
        leave_to_others(|local| {
            while let Some(cell) = ends.next() {
                take_on_if_pending(local, &cell);
            }
        });
        over.unwrap_or_else(|payload| resume_unwind(payload));
    }
}

/// The progress of a shutdown.
struct Course {
    shared: Arc<SystemShared>,
    sealed: bool,
    /// Members that are still to be closed, the one that came last first.
    to_close: Vec<u64>,
    /// The number of members when the system was sealed.
    all: usize,
    /// Those that were closed from idle: there is nothing to stop.
    idle: HashSet<u64>,
    /// Those that were stopped because the time was over.
    stopped: HashSet<u64>,
    /// The mailboxes that the calling thread is running.
    inside: Vec<usize>,
    /// The members among them.
    own: Vec<u64>,
    /// Nothing ends here: the calling thread is inside a turn, or the call is a poll.
    elsewhere: bool,
}

impl Course {
    fn new(shared: Arc<SystemShared>) -> Self {
        Course {
            shared,
            sealed: false,
            to_close: Vec::new(),
            all: 0,
            idle: HashSet::new(),
            stopped: HashSet::new(),
            inside: Vec::new(),
            own: Vec::new(),
            elsewhere: true,
        }
    }

    /// This thread goes on with it, unless it is inside a turn of a member that it would wait for
    /// (SHUTDOWN-2); for the task of this waker, if there is one.
    fn enter(&mut self, task: Option<&Waker>) -> Result<(), Reason> {
        let (inside, in_turn): (Vec<_>, _) =
            with_local(|local| (local.running().collect(), local.in_turn()));
        // As long as it takes members in, a new one may lie where another has ended.
        if inside != self.inside || !self.sealed {
            self.own = self.shared.numbers(|member| inside.contains(&member.cell().addr()));
        }
        (self.inside, self.elsewhere) = (inside, in_turn);
        // Whether it would wait for one of them depends on the task, too.
        let circle = |member: Box<dyn Member>| match task {
            Some(waker) => circle_of_task(waker, member.cell().addr()),
            None => member.cell().own_circle(),
        };
        let mut own = self.own.iter().filter_map(|number| self.shared.member(*number));
        own.find_map(circle).map_or(Ok(()), |cycle| Err(Reason::Deadlock(cycle)))
    }

    fn seal(&mut self) {
        if !self.sealed {
            self.to_close = self.shared.seal();
            self.all = self.to_close.len();
            self.to_close.reverse();
            self.sealed = true;
        }
    }

    /// Closes the actors that are idle, and the others if `all`. Nothing of them runs here: a hook
    /// may wait for one that waits for another of them to end. Those that were idle and end here
    /// are left pending for that.
    fn close(&mut self, all: bool) -> Ends {
        let mut ends = Ends::new();
        if self.to_close.is_empty() {
            return ends;
        }
        let here = !self.elsewhere;
        leave_to_others(|local| {
            while let Some(number) = self.to_close.pop() {
                let Some(member) = self.shared.member(number) else { continue };
                let ends_here = here && !member.has_executor();
                if member.close_if_idle(ends_here) {
                    self.idle.insert(number);
                    ends_here.then(|| ends.push(member.cell().clone()));
                } else if all {
                    // What waits is run, but not here.
                    member.close();
                    take_on_if_pending(local, member.cell());
                }
            }
        });
        ends
    }

    /// Waits until all have ended; false if the time is over before. An error: it would wait for
    /// ever (SHUTDOWN-3).
    fn wait(&self, deadline: Cutoff<'_>) -> Result<bool, Reason> {
        if self.shared.has_ended() {
            return Ok(true);
        }
        if deadline.is_over() {
            return Ok(false);
        }
        if self.shared.members().iter().any(|member| member.cell().header().needs_this_thread()) {
            return Err(Reason::WouldBlock);
        }
        relieve_anyway(|| {
            loop {
                // REMOVED: in the list before the look.
                let entry = self.shared.waiters.add(Waiter::Thread(thread::current()));
                if self.shared.has_ended() {
                    return Ok(true);
                }
                if deadline.is_over() {
                    return Ok(false);
                }
                self.sleep(&entry, deadline)?;
            }
        })
    }

    fn sleep(&self, entry: &WaiterEntry<'_>, deadline: Cutoff<'_>) -> Result<(), Reason> {
        if self.inside.is_empty() {
            deadline.park(|| !entry.is_listed());
            return Ok(());
        }
        let Some(first) = self.shared.first() else { return Ok(()) };
        // Hooks may go with the member: not while the panic of a clock unwinds.
        let slept = panic::catch(|| first.cell().sleep_until(WaitFor::End, entry, deadline));
        drop(first);
        slept.unwrap_or_else(|payload| resume_unwind(payload)).map_err(Reason::Deadlock)
    }

    /// The time is over: stops what was not idle. What waits is given back in this call if `here`.
    fn stop(&mut self, here: bool) {
        let here = here && !self.elsewhere;
        let left = self.shared.numbers(|_| true);
        let left = left.into_iter().filter(|number| !self.idle.contains(number));
        leave_to_others(|local| {
            let left = left.filter_map(|number| Some((number, self.shared.member(number)?)));
            let (numbers, members): (Vec<_>, Vec<_>) = left.unzip();
            self.stopped.extend(numbers);
            stop_members(&members, local, here);
        });
    }

    /// Gives back what waits in actors whose executor is gone. Outside of turns that has been done;
    /// inside of one, it is done here, or not before that is over.
    fn give_back_forsaken(&self) {
        if !self.elsewhere {
            return;
        }
        let gone = Some(StopCause::ExecutorGone);
        let forsaken = self.shared.numbers(|member| member.cell().header().stop_cause() == gone);
        leave_to_others(|local| {
            let members = forsaken.into_iter().filter_map(|number| self.shared.member(number));
            members.for_each(|member| give_back_here(local, member.cell()));
        });
    }

    fn report(&self) -> ShutdownReport {
        let mut running = Vec::new();
        let left = self.shared.numbers(|member| {
            running.push(member.cell().header().name().to_owned());
            true
        });
        let of_left = left.iter().filter(|number| self.stopped.contains(number)).count();
        let stopped = self.stopped.len() - of_left;
        ShutdownReport { ended: self.all - left.len() - stopped, stopped, running }
    }
}

/// A future that ends a system: see [`System::shutdown_async`].
///
/// It keeps a handle to the system. Polling it runs no turn. Dropped before it is ready, it leaves
/// a system that takes nothing in and whose actors are closed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Closing {
    system: System,
    course: Course,
    /// Its place among those who wait for the system.
    place: Option<WaiterPlace>,
    report: Option<ShutdownReport>,
}

impl Closing {
    pub(super) fn new(system: System) -> Self {
        let course = Course::new(system.shared().clone());
        Closing { system, course, place: None, report: None }
    }

    /// The shutdown with a limit, as [`System::shutdown`] has it: when the time is over, all actors
    /// that have not ended are stopped, and the future is ready with the report. The time counts
    /// from this call on, by the system's clock; the task is woken by [that clock's
    /// timers](crate::time::Timers::of).
    ///
    /// Polling it runs no turn and no end. So an actor that is stopped by it ends in its executor,
    /// or in the fallback, and may be reported as running.
    ///
    /// # Panics
    /// If the system's clock does.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, System};
    ///
    /// let queue = DrainQueue::new();
    /// let system = System::new();
    /// let n = system.spawn(Actor::builder().name("n").executor(queue.handle()), 0)?;
    /// n.send(|n| *n += 1)?; // its queue is not run in time
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let report =
    ///     runtime.block_on(system.shutdown_async().within_async(Duration::from_millis(5)))?;
    /// assert_eq!(report.running, ["n"]);
    /// queue.run_until_idle(); // gives the message back, and ends the actor
    /// assert!(system.shutdown(Duration::ZERO)?.is_complete());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn within_async(self, limit: impl Into<Limit>) -> Within<Self> {
        let limit = limit.into();
        let (this, over) = panic::owning(self, |this| {
            let shared = this.system.shared();
            let at = Cutoff::new(shared.clock(), limit).moment();
            Over::at(at, || match shared.own_clock() {
                Some(clock) => Timers::of(clock),
                None => Timers::global().clone(),
            })
        });
        Within::new(over, this)
    }

    /// The time is over: stops what is left.
    pub(super) fn expire(&mut self) -> ShutdownReport {
        self.leave();
        let course = &mut self.course;
        let stopped = || {
            course.elsewhere = true;
            course.seal();
            course.stop(false);
            course.report()
        };
        self.report.get_or_insert_with(stopped).clone()
    }

    /// Takes its task out of the list.
    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.course.shared.waiters.remove(place);
        }
    }
}

impl Future for Closing {
    /// [`Reason::Deadlock`] inside a turn of one of the system's actors. Polled again after it was
    /// ready with a report, it is ready with the same.
    type Output = Result<ShutdownReport, Reason>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(report) = &this.report {
            return Poll::Ready(Ok(report.clone()));
        }
        let course = &mut this.course;
        course.enter(Some(cx.waker()))?;
        course.elsewhere = true;
        course.seal();
        course.close(true);
        if !course.shared.has_ended() {
            // User code first: if it panics, nothing has changed.
            let waiter = Waiter::Task(cx.waker().clone());
            this.leave();
            this.place = Some(this.course.shared.waiters.insert(waiter));
            // REMOVED: in the list before the look.
            if !this.course.shared.has_ended() {
                before_pending(cx.waker());
                return Poll::Pending;
            }
        }
        this.leave();
        Poll::Ready(Ok(this.report.insert(this.course.report()).clone()))
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing").field("report", &self.report).finish_non_exhaustive()
    }
}

impl Future for Within<Closing> {
    type Output = Result<ShutdownReport, Reason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Within { inner, over } = &mut *self;
        let Some(inner) = inner else { return Poll::Ready(Ok(ShutdownReport::default())) };
        if let Poll::Ready(report) = Pin::new(&mut *inner).poll(cx) {
            return Poll::Ready(report);
        }
        ready!(over.poll(cx));
        Poll::Ready(Ok(inner.expire()))
    }
}
