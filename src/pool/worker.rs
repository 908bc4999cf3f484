//! A thread of the pool: finds a job, runs it, again. And what is scheduled from inside of one, or
//! blocks there.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::compensation::Assignment;
use super::current::{Current, Worker, WouldBlock};
use super::idle::Woken;
use super::job::Job;
use super::place::{NextJob, OwnPlace, Placed};
use super::shared::Shared;
use crate::panic;
use crate::sync::thread::Builder;

struct Thread<J: Job> {
    pool: Arc<Shared<J>>,
    place: OwnPlace<J>,
    /// The job it is running.
    in_hand: Cell<usize>,
    /// The number of waits in a row for a message that did not come.
    in_vain: Cell<u32>,
}

/// After this many times, a thread waits for a message at every so-manieth occasion only.
const IN_VAIN: u32 = 8;

/// This thread, if it is one of that pool's.
#[inline(always)]
fn with_thread_of<J: Job, R>(pool: &Shared<J>, f: impl FnOnce(Option<&Thread<J>>) -> R) -> R {
    let worker = Current::of(pool.id());
    // SAFETY: CURRENT-1: it is there while `f` runs, which keeps nothing of it. It is a thread of
    // this very pool: a pool is known by its address, `run` gives that of the pool that the thread
    // keeps, and no other is at that address as long as this one is borrowed. So its jobs are J.
    f(worker.map(|worker| unsafe { worker.cast::<Thread<J>>().as_ref() }))
}

/// True if this thread is one of that pool's.
pub(super) fn works_for<J: Job>(pool: &Shared<J>) -> bool {
    with_thread_of(pool, |thread| thread.is_some())
}

/// Takes a job in.
#[inline]
pub(super) fn schedule<J: Job>(pool: &Shared<J>, job: J) {
    with_thread_of(pool, |thread| match thread {
        Some(thread) => thread.schedule(job),
        None if pool.idle.look().is_closing() => pool.drop_unrun(job),
        None => pool.inject(job),
    });
}

/// True if the pool will drop what this thread gives it.
pub(super) fn is_closed<J: Job>(pool: &Shared<J>) -> bool {
    let now = pool.idle.look();
    now.is_ended() || now.is_closing() && !works_for(pool)
}

/// Starts a thread of the pool, by its number: one that stands by.
pub(super) fn start<J: Job>(pool: &Arc<Shared<J>>, number: usize) -> io::Result<()> {
    let theirs = pool.clone();
    builder(pool, number).spawn(move || run(theirs)).map(drop)
}

/// A thread's name and stack.
pub(super) fn builder<J: Job>(pool: &Shared<J>, what: impl std::fmt::Display) -> Builder {
    let builder = Builder::new().name(format!("{}-{what}", pool.config.name));
    match pool.config.stack_size {
        Some(bytes) => builder.stack_size(bytes),
        None => builder,
    }
}

/// Runs a thread of the pool from its start to its end.
fn run<J: Job>(pool: Arc<Shared<J>>) {
    let thread =
        Thread { pool, place: OwnPlace::none(), in_hand: Cell::new(0), in_vain: Cell::new(0) };
    Current::set(thread.pool.id(), &thread, || thread.live());
    thread.pool.threads.thread_ends();
}

impl<J: Job> Thread<J> {
    fn live(&self) {
        let pool = &self.pool;
        while let Some(next) = pool.threads.next(|| pool.is_ended()) {
            match next {
                Assignment::Place(place) => {
                    self.place.set(place);
                    self.work();
                    // The pool has ended; or its place was taken over while it slept.
                    if let Some(place) = self.place.take() {
                        pool.see_off();
                        // Empty now, and nothing more is put in.
                        drop(place);
                        return;
                    }
                    pool.threads.becomes_spare();
                }
                Assignment::Help => {
                    pool.idle.leave();
                    self.help();
                    pool.threads.has_helped();
                }
            }
            pool.idle.come_back();
        }
    }

    /// Runs jobs until the place is lost, or the pool has ended.
    fn work(&self) {
        let pool = &self.pool;
        let mut searching = false;
        while !pool.is_ended() {
            let mut next = NextJob::Lost;
            if !searching {
                next = self.place.next(&pool.queues);
                searching = matches!(next, NextJob::Nothing(_)) && pool.idle.start_search();
            }
            if searching {
                next = self.place.search(&pool.queues);
                if matches!(next, NextJob::Found(..)) {
                    searching = false;
                    pool.idle.found(|| pool.queues.has_work());
                }
            }
            match next {
                NextJob::Lost => return,
                NextJob::Found(job, more) => {
                    if more {
                        pool.announce();
                    }
                    self.run(job, || self.next());
                }
                NextJob::Nothing(number) => {
                    let searched = std::mem::take(&mut searching);
                    match pool.idle.sleep(number, searched, || pool.queues.has_work()) {
                        Woken::Search => searching = true,
                        Woken::End => return,
                    }
                    pool.alarm.ring();
                }
            }
        }
    }

    /// Runs what waits anywhere, until there is nothing, or the workers go on.
    fn help(&self) {
        let pool = &self.pool;
        while pool.is_short() && !pool.is_ended() {
            let Some(job) = pool.queues.take_any() else { return };
            pool.queues.helps();
            self.run(job, || None);
        }
    }

    /// Runs a job, and what comes next.
    fn run(&self, job: J, mut next: impl FnMut() -> Option<J>) {
        self.in_hand.set(job.id());
        let next = || {
            self.in_hand.set(0);
            next().inspect(|job| self.in_hand.set(job.id()))
        };
        panic::ignore(|| J::run_all(job, next));
        self.in_hand.set(0);
    }

    /// The job that waits behind another at this worker's place.
    fn next(&self) -> Option<J> {
        let pool = &self.pool;
        if pool.is_ended() {
            return None;
        }
        let NextJob::Found(job, more) = self.place.next(&pool.queues) else { return None };
        if more {
            pool.announce();
        }
        Some(job)
    }

    fn schedule(&self, job: J) {
        let pool = &self.pool;
        if pool.is_ended() {
            return pool.drop_unrun(job);
        }
        let again = job.id() == self.in_hand.get();
        match self.place.schedule(&pool.queues, job, again) {
            Placed::Kept => {}
            Placed::Announce => pool.announce(),
            Placed::NoPlace(job) => pool.inject(job),
        }
    }
}

impl<J: Job> Worker for Thread<J> {
    fn reserve(&self) -> Result<bool, WouldBlock> {
        let has_place = self.place.is_some();
        if has_place {
            self.pool.threads.reserve(|number| start(&self.pool, number))?;
        }
        Ok(has_place)
    }

    fn cancel(&self) {
        self.pool.threads.cancel();
        // A spare may have stayed for this thread alone.
        if self.pool.is_ended() {
            self.pool.threads.dismiss();
        }
    }

    fn leave(&self) -> Option<u64> {
        let Some(place) = self.place.take() else {
            self.cancel();
            return None;
        };
        self.pool.idle.leave();
        Some(self.pool.threads.leave(place))
    }

    fn come_back(&self, left: u64) {
        if let Some(place) = self.pool.threads.take_back(left) {
            self.place.set(place);
            self.pool.idle.come_back();
        }
    }

    fn lingers(&self) -> bool {
        let in_vain = self.in_vain.get();
        if in_vain >= IN_VAIN && in_vain % IN_VAIN != 0 {
            self.in_vain.set(in_vain.wrapping_add(1));
            return false;
        }
        self.place.has_time(&self.pool.queues) && !self.pool.idle.look().is_closing()
    }

    fn goes_on(&self) -> bool {
        let now = self.pool.idle.look();
        !now.is_closing() && !now.is_ended() && self.place.goes_on(&self.pool.queues)
    }

    fn has_lingered(&self, for_one: bool) {
        self.in_vain.set(if for_one { 0 } else { self.in_vain.get() + 1 });
    }

    fn share(&self) {
        if self.place.empty_slot(&self.pool.queues) {
            self.pool.announce();
        }
    }
}
