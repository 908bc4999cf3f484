//! The pool's protocol: which workers sleep, which search, and which one to wake. It knows nothing
//! of what the work is.
//!
//! One word counts both, and says whether the pool is about to end. Sleepers stand in a list under
//! a lock, which only a thread takes that wakes another or is about to sleep: work that is
//! announced while all are awake costs a fence and a load.
//!
//! | bits 0-15 SEARCHERS | 16-31 SLEEPERS    | 32 CLOSING                | 33 ENDED               | 34-63 AWAY                |
//! |---------------------|-------------------|---------------------------|------------------------|---------------------------|
//! | look for work       | stand in the list | ends when nothing is left | none looks any more    | in a job without a place |
//!
//! | call           | word                                 | then                                                          |
//! |----------------|--------------------------------------|---------------------------------------------------------------|
//! | `announce`     | read, after a fence                  | sleepers, but no searcher: wakes one, as a searcher           |
//! | `start_search` | searcher + 1, up to half the workers | looks for work                                                |
//! | `found`        | searcher - 1                         | the last searcher, and more is there: wakes one, as a searcher |
//! | `sleep`        | sleeper + 1 (searcher - 1)           | no searcher is left: a fence, and one more look; gets up if work is there |
//! | `leave`        | away + 1                             |                                                               |
//! | `come_back`    | away - 1                             | ends the pool, if it is closing and nothing is left           |
//!
//! - IDLE-1: a worker in the list is counted as a sleeper, and is taken out of it under the lock,
//!   by the thread that wakes it or by itself. It is counted as a searcher in the same step.
//! - IDLE-2: a worker is woken only while none searches, and searches from that moment on. So one
//!   need wakes one worker, however many come at a time; if that one finds more than it can do, it
//!   wakes the next.
//! - NEED: work is put where searchers look, fence, the word is read -> the word is changed, fence,
//!   a look. No wake-up is lost:
//!   1. Let the announcer read the word's value p, in the order of its changes. Any change that
//!      comes after p and is followed by a fence and a look finds the work: were its fence before
//!      the announcer's, the announcer would have read it, or a later one.
//!   2. p shows a sleeper and no searcher: the announcer wakes one, or finds under the lock that
//!      one searches by now (3) or that none sleeps any more (4).
//!   3. p shows a searcher: the worker that takes the number of searchers to 0 after p, in `found`
//!      or in `sleep`, looks (1).
//!   4. p shows neither: each worker has something to do. When it has not, it searches (3), or its
//!      `sleep` comes after p, and looks if none searches (1), or else leaves it to the searcher
//!      (3).
//! - END: a pool that is closing has ended when all its workers sleep, each is sure that it found
//!   nothing (`settled`), and no thread is away: in a job, with no place among the workers. A
//!   thread that is away announces before it comes back, so nothing is left when it has. A thread
//!   that puts work in from outside reads the word afterwards, as in NEED: either it sees ENDED, or
//!   the thread that ended the pool sees the work.

use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicU64, fence};
use crate::sync::thread::Thread;
use crate::sync::{Mutex, thread};

const FIELD: u64 = 0xffff;
const SEARCHER: u64 = 1;
const SLEEPER: u64 = 1 << 16;
const CLOSING: u64 = 1 << 32;
const ENDED: u64 = 1 << 33;
const AWAY: u64 = 1 << 34;
/// From the list to the search, in one step.
const GET_UP: u64 = SEARCHER.wrapping_sub(SLEEPER);

/// The most workers that the word can count.
pub(crate) const MOST_WORKERS: usize = FIELD as usize;

/// The word, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleSnapshot(u64);

impl IdleSnapshot {
    pub(crate) fn searchers(self) -> u64 {
        self.0 & FIELD
    }
    pub(crate) fn sleepers(self) -> u64 {
        (self.0 / SLEEPER) & FIELD
    }
    /// Threads in a job that have no place among the workers.
    pub(crate) fn away(self) -> u64 {
        self.0 / AWAY
    }
    /// True if nothing new is wanted from outside.
    pub(crate) fn is_closing(self) -> bool {
        self.0 & CLOSING != 0
    }
    /// True if no worker looks for work any more.
    pub(crate) fn is_ended(self) -> bool {
        self.0 & ENDED != 0
    }
}

/// The next step of a worker that has slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// It searches, and is counted as a searcher.
    Search,
    /// The pool has ended.
    End,
}

pub(crate) struct Idle {
    word: AtomicU64,
    workers: usize,
    beds: Mutex<Vec<Bed>>,
}

struct Bed {
    worker: usize,
    thread: Thread,
    /// It has looked, or need not.
    settled: bool,
}

fn bed_of(beds: &[Bed], worker: usize) -> Option<usize> {
    beds.iter().position(|bed| bed.worker == worker)
}

impl Idle {
    pub(crate) fn new(workers: usize) -> Self {
        Idle { word: AtomicU64::new(0), workers, beds: Mutex::new(Vec::with_capacity(workers)) }
    }

    /// Stale on return.
    pub(crate) fn look(&self) -> IdleSnapshot {
        // Ordering: Relaxed. Nothing is read through it: a worker that sees ENDED looks after its
        // own, others come by `announce`.
        IdleSnapshot(self.word.load(Relaxed))
    }

    /// Work has been put where searchers look: sees to it that a worker comes.
    #[must_use = "if the pool has ended, what was put in is to be swept"]
    pub(crate) fn announce(&self) -> IdleSnapshot {
        // Ordering: SeqCst, the announcer's side of NEED.
        fence(SeqCst);
        let now = self.look();
        if now.sleepers() > 0 && now.searchers() == 0 {
            self.wake_one();
        }
        now
    }

    #[cold]
    fn wake_one(&self) {
        let woken = {
            let mut beds = self.beds.lock();
            // A worker may have been woken meanwhile, by another need: it searches for both
            // (IDLE-2).
            if self.look().searchers() > 0 {
                return;
            }
            let Some(bed) = beds.pop() else { return };
            // Ordering: Relaxed. A count; the woken worker comes by the lock.
            self.word.fetch_add(GET_UP, Relaxed);
            bed.thread
        };
        woken.unpark();
    }

    /// True if this worker may search. At most half of them do at a time: more would only be in
    /// each other's way.
    pub(crate) fn start_search(&self) -> bool {
        let more = |now: u64| {
            (2 * IdleSnapshot(now).searchers() < self.workers as u64).then_some(now + SEARCHER)
        };
        // Ordering: Relaxed. A worker that begins to search promises to look later; it is not seen
        // to have looked before.
        self.word.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// A searcher has found work. `more`: there is more where searchers look.
    pub(crate) fn found(&self, more: impl FnOnce() -> bool) {
        // Ordering: Relaxed, with the fence below.
        let before = IdleSnapshot(self.word.fetch_sub(SEARCHER, Relaxed));
        // A worker that falls asleep later looks by itself.
        if before.searchers() == 1 && before.sleepers() > 0 {
            // Ordering: SeqCst, the looker's side of NEED.
            fence(SeqCst);
            if more() {
                self.wake_one();
            }
        }
    }

    /// Sleeps until there is need. `look` is true if there is work where searchers look.
    pub(crate) fn sleep(
        &self,
        worker: usize,
        searching: bool,
        look: impl FnOnce() -> bool,
    ) -> Woken {
        let now = {
            let mut beds = self.beds.lock();
            if self.look().is_ended() {
                return Woken::End;
            }
            beds.push(Bed { worker, thread: thread::current(), settled: false });
            let step = if searching { SLEEPER - SEARCHER } else { SLEEPER };
            // Ordering: Relaxed, with the fence below.
            IdleSnapshot(self.word.fetch_add(step, Relaxed) + step)
        };
        if now.searchers() == 0 {
            // Ordering: SeqCst, the looker's side of NEED.
            fence(SeqCst);
            if look() {
                return self.get_up(worker);
            }
        }
        let ended = {
            let mut beds = self.beds.lock();
            if let Some(at) = bed_of(&beds, worker) {
                beds[at].settled = true;
            }
            self.end_if_done(&mut beds)
        };
        wake_all(ended);
        loop {
            {
                let beds = self.beds.lock();
                if bed_of(&beds, worker).is_none() {
                    return self.after_sleep();
                }
            }
            thread::park();
        }
    }

    /// Under the lock, by a worker that is not in the list any more.
    fn after_sleep(&self) -> Woken {
        if self.look().is_ended() { Woken::End } else { Woken::Search }
    }

    /// Takes the worker out of the list, unless another thread has woken it already.
    fn get_up(&self, worker: usize) -> Woken {
        let mut beds = self.beds.lock();
        if let Some(at) = bed_of(&beds, worker) {
            beds.remove(at);
            // Ordering: Relaxed. A count.
            self.word.fetch_add(GET_UP, Relaxed);
        }
        self.after_sleep()
    }

    /// A thread begins, or goes on with, jobs that it has no place for.
    pub(crate) fn leave(&self) {
        let _beds = self.beds.lock();
        // Ordering: Relaxed. Read under the lock by the thread that ends the pool, else a hint.
        self.word.fetch_add(AWAY, Relaxed);
    }

    /// It has a place again, or its jobs are over and all it had to announce is announced.
    pub(crate) fn come_back(&self) {
        let ended = {
            let mut beds = self.beds.lock();
            // Ordering: Relaxed, as in `leave`.
            self.word.fetch_sub(AWAY, Relaxed);
            self.end_if_done(&mut beds)
        };
        wake_all(ended);
    }

    /// The pool ends when nothing is left to do.
    pub(crate) fn close(&self) {
        let ended = {
            let mut beds = self.beds.lock();
            // Ordering: Relaxed. Read under the lock by those who act on it, else a hint.
            self.word.fetch_or(CLOSING, Relaxed);
            self.end_if_done(&mut beds)
        };
        wake_all(ended);
    }

    /// The pool ends now, whatever is left. The caller then looks for what was left.
    pub(crate) fn end(&self) {
        let all = self.ended(&mut self.beds.lock());
        wake_all(all);
        // Ordering: SeqCst, END: what was put in by a thread that did not see ENDED is found by the
        // caller.
        fence(SeqCst);
    }

    /// END, under the lock: those to wake, if it has come to that.
    fn end_if_done(&self, beds: &mut Vec<Bed>) -> Vec<Bed> {
        let done = self.look().away() == 0
            && beds.len() == self.workers
            && beds.iter().all(|bed| bed.settled);
        if done && self.look().is_closing() { self.ended(beds) } else { Vec::new() }
    }

    fn ended(&self, beds: &mut Vec<Bed>) -> Vec<Bed> {
        // Ordering: Relaxed, with the fence of `end`, which every worker calls that has seen the
        // end.
        self.word.fetch_or(CLOSING | ENDED, Relaxed);
        let all = std::mem::take(beds);
        // Ordering: Relaxed. A count: no worker searches or sleeps for long in a pool that has
        // ended.
        self.word.fetch_sub(all.len() as u64 * SLEEPER, Relaxed);
        all
    }
}

fn wake_all(beds: Vec<Bed>) {
    beds.into_iter().for_each(|bed| bed.thread.unpark());
}
