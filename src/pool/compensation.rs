//! The threads of a pool: how many there are, which stand by, and which places are free.
//!
//! A thread that has a place is a worker. A worker that is about to sleep in a job leaves its
//! place to a thread that stands by, and goes on after its wait without one, until the job is
//! over; if no thread has taken the place meanwhile, it takes it back. A thread that stands by may
//! also be asked to help out without a place, while workers are stuck.
//!
//! - COMPENSATION-1: every place is with one thread, or free. A free one is taken by one thread.
//! - COMPENSATION-2: `spares >= reserved + free + help`: a worker that was promised a thread that
//!   stands by will have one. Only a pool for which the system had too few threads has more free
//!   places.
//! - COMPENSATION-3: a thread without a place is counted as a spare, or as away in
//!   [`Idle`](super::idle::Idle). One that has lost its place is a spare before it is not away any
//!   more.
//! - COMPENSATION-4: there are never more threads than workers and [`most`](Threads::new). The one
//!   that watches is not among them.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::current::WouldBlock;
use crate::sync::{Condvar, Instant, Mutex};

/// The time that a thread stands by without work.
const PATIENCE: Duration = Duration::from_secs(10);

/// The next step of a thread of the pool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Assignment<P> {
    /// To work at a place.
    Place(P),
    /// To run what waits, without a place.
    Help,
}

/// The threads of a pool with places of this kind. One lock, taken when a job blocks and when
/// threads start and end; not for work.
pub(crate) struct Threads<P> {
    state: Mutex<Staff<P>>,
    /// A spare has something to do.
    called: Condvar,
    /// No thread is left.
    all_gone: Condvar,
    workers: usize,
    /// The most threads beyond the workers; `None` if waits are refused.
    most: Option<usize>,
    /// The time that a thread stands by without work.
    patience: Duration,
}

struct Staff<P> {
    threads: usize,
    /// Threads that stand by, those included that are about to.
    spares: usize,
    reserved: usize,
    /// Places that no thread has, with the number of the leave.
    free: VecDeque<(u64, P)>,
    leaves: u64,
    /// Threads that were called to help, and have not come to it.
    help: usize,
    /// Its threads, and those that help.
    helpers: usize,
    /// Threads ever started, for their names.
    started: usize,
    /// Jobs dropped un-run.
    dropped: usize,
    /// True if jobs were enrolled at the end.
    cut: bool,
    monitor: bool,
}

impl<P> Staff<P> {
    /// Starts a thread, by its number: a spare.
    fn start(&mut self, start: impl FnOnce(usize) -> io::Result<()>) -> io::Result<()> {
        start(self.started)?;
        // It comes to nothing before this caller lets the lock go.
        self.started += 1;
        self.threads += 1;
        self.spares += 1;
        Ok(())
    }

    fn has_spare(&self) -> bool {
        self.spares > self.reserved + self.free.len() + self.help
    }
}

impl<P> Threads<P> {
    pub(crate) fn new(workers: usize, most: Option<usize>) -> Self {
        let state = Staff {
            threads: 0,
            spares: 0,
            reserved: 0,
            free: VecDeque::new(),
            leaves: 0,
            help: 0,
            helpers: 0,
            started: 0,
            dropped: 0,
            cut: false,
            monitor: false,
        };
        Threads {
            state: Mutex::new(state),
            called: Condvar::new(),
            all_gone: Condvar::new(),
            workers,
            most,
            patience: PATIENCE,
        }
    }

    /// Adds a place, and a thread for it. Without a thread, the place stays free.
    pub(crate) fn add_worker(
        &self,
        place: P,
        start: impl FnOnce(usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        state.free.push_back((0, place));
        state.start(start)
    }

    /// Starts a thread if there is none; true if there is one now.
    pub(crate) fn have_any(&self, start: impl FnOnce(usize) -> io::Result<()>) -> bool {
        let mut state = self.state.lock();
        state.threads > 0 || state.start(start).is_ok()
    }

    /// Sees to it that a spare is there for this caller alone (COMPENSATION-2).
    pub(crate) fn reserve(
        &self,
        start: impl Fn(usize) -> io::Result<()>,
    ) -> Result<(), WouldBlock> {
        let mut state = self.state.lock();
        self.have_spare(&mut state, start)?;
        state.reserved += 1;
        Ok(())
    }

    /// Has a spare help out without a place, if one is to be had.
    pub(crate) fn call_help(&self, start: impl Fn(usize) -> io::Result<()>) {
        {
            let mut state = self.state.lock();
            if self.have_spare(&mut state, start).is_err() {
                return;
            }
            state.help += 1;
            state.helpers += 1;
        }
        self.called.notify_one();
    }

    /// True if threads may help without a place.
    pub(crate) fn may_help(&self) -> bool {
        self.most.is_some_and(|most| most > 0)
    }

    /// Threads that help, or were called to.
    pub(crate) fn helpers(&self) -> usize {
        self.state.lock().helpers
    }

    fn have_spare(
        &self,
        state: &mut Staff<P>,
        start: impl Fn(usize) -> io::Result<()>,
    ) -> Result<(), WouldBlock> {
        let most = self.most.ok_or(WouldBlock)?;
        while !state.has_spare() {
            if state.threads >= self.workers.saturating_add(most) {
                return Err(WouldBlock);
            }
            state.start(&start).map_err(|_| WouldBlock)?;
        }
        Ok(())
    }

    /// Gives back a reserve that is not needed.
    pub(crate) fn cancel(&self) {
        self.state.lock().reserved -= 1;
    }

    /// Leaves a place, by what was reserved; the number is for [`take_back`](Self::take_back).
    pub(crate) fn leave(&self, place: P) -> u64 {
        let left = {
            let mut state = self.state.lock();
            state.reserved -= 1;
            state.leaves += 1;
            let left = state.leaves;
            state.free.push_back((left, place));
            left
        };
        self.called.notify_one();
        left
    }

    /// Takes a place back that no thread has taken over yet.
    pub(crate) fn take_back(&self, left: u64) -> Option<P> {
        let mut state = self.state.lock();
        let at = state.free.iter().position(|(number, _)| *number == left)?;
        state.free.remove(at).map(|(_, place)| place)
    }

    /// This thread has lost its place, and its job is over: it stands by.
    pub(crate) fn becomes_spare(&self) {
        self.state.lock().spares += 1;
    }

    /// This thread has helped, and stands by again.
    pub(crate) fn has_helped(&self) {
        let mut state = self.state.lock();
        state.helpers -= 1;
        state.spares += 1;
    }

    /// Stands by until there is something to do; `None` if that takes too long, or the pool has
    /// ended.
    pub(crate) fn next(&self, ended: impl Fn() -> bool) -> Option<Assignment<P>> {
        let mut state = self.state.lock();
        let mut patient = true;
        loop {
            // Longest left first: a place with work in it that no thread runs.
            if let Some((_, place)) = state.free.pop_front() {
                state.spares -= 1;
                return Some(Assignment::Place(place));
            }
            if state.help > 0 {
                state.help -= 1;
                state.spares -= 1;
                return Some(Assignment::Help);
            }
            if (ended() || !patient) && state.has_spare() {
                state.spares -= 1;
                return None;
            }
            patient = !self.called.wait_for(&mut state, self.patience).timed_out();
        }
    }

    /// The pool has ended: no thread stands by any longer.
    pub(crate) fn dismiss(&self) {
        // Under the lock, so that none is between its look and its wait.
        drop(self.state.lock());
        self.called.notify_all();
    }

    pub(crate) fn thread_ends(&self) {
        self.ends(|state| state.threads -= 1);
    }

    /// The monitor starts, by `start`, or ends.
    pub(crate) fn start_monitor(&self, start: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state.lock();
        start()?;
        state.monitor = true;
        Ok(())
    }

    pub(crate) fn monitor_ends(&self) {
        self.ends(|state| state.monitor = false);
    }

    fn ends(&self, ends: impl FnOnce(&mut Staff<P>)) {
        let none_left = {
            let mut state = self.state.lock();
            ends(&mut state);
            state.threads == 0 && !state.monitor
        };
        if none_left {
            self.all_gone.notify_all();
        }
    }

    /// Waits until no thread is left, or the time is over (false).
    pub(crate) fn wait_all_gone(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while state.threads > 0 || state.monitor {
            match deadline {
                None => self.all_gone.wait(&mut state),
                Some(deadline) if Instant::now() >= deadline => return false,
                Some(deadline) => drop(self.all_gone.wait_until(&mut state, deadline)),
            }
        }
        true
    }

    /// A job is dropped un-run.
    pub(crate) fn count_dropped(&self) {
        self.state.lock().dropped += 1;
    }

    /// A job was enrolled when the pool ended.
    pub(crate) fn count_cut(&self) {
        self.state.lock().cut = true;
    }

    /// True if there was one.
    pub(crate) fn has_cut(&self) -> bool {
        self.state.lock().cut
    }

    /// Jobs that were dropped un-run until now, and threads that are left.
    pub(crate) fn dropped_and_left(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.dropped, state.threads)
    }
}

#[cfg(test)]
#[path = "../../tests/pool/compensation.rs"]
mod tests;
