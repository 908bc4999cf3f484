//! A thread of the pool: finds a drain, runs it, again. And what is scheduled from inside of one,
//! or blocks there.

use std::cell::Cell;
use std::io;
use std::ptr::null;
use std::sync::Arc;

use super::compensation::Job;
use super::idle::Woken;
use super::place::{Own, OwnPlace, Scheduled};
use super::shared::Shared;
use crate::cell::executor::{Drain, ThisPool};
use crate::drain::blocking::{Compensation, WouldBlock, on_worker};
use crate::drain::deferred::run_drains;
use crate::panic;
use crate::sync::thread::Builder;
use crate::sync::thread_plain;

/// A thread of the pool.
struct Thread {
    pool: Arc<Shared>,
    place: OwnPlace,
    /// The drain it is running.
    in_hand: Cell<usize>,
    /// How often in a row it has waited for a message that did not come.
    in_vain: Cell<u32>,
}

/// After so many times, a thread waits for a message at every so-manieth occasion only.
const IN_VAIN: u32 = 8;

thread_plain! {
    /// The thread of a pool that this one is; it lies in the frame of [`run`].
    static THREAD: Cell<*const Thread> = Cell::new(null());
}

/// This thread, if it is one of that pool's.
fn with_thread_of<R>(pool: &Shared, f: impl FnOnce(Option<&Thread>) -> R) -> R {
    // SAFETY: set by `run`, in whose frame it lies, and which is below us on this thread's stack.
    let thread = THREAD.with(|at| unsafe { at.get().as_ref() });
    f(thread.filter(|thread| std::ptr::eq(Arc::as_ptr(&thread.pool), pool)))
}

/// Is this thread one of that pool's?
pub(super) fn works_for(pool: &Shared) -> bool {
    with_thread_of(pool, |thread| thread.is_some())
}

/// Takes a drain in.
pub(super) fn schedule(pool: &Shared, drain: Drain) {
    with_thread_of(pool, |thread| match thread {
        Some(thread) => thread.schedule(drain),
        None if pool.idle.look().is_closing() => pool.drop_unrun(drain),
        None => pool.inject(drain),
    });
}

/// Will the pool drop what this thread gives it?
pub(super) fn is_closed(pool: &Shared) -> bool {
    let now = pool.idle.look();
    now.is_ended() || now.is_closing() && !works_for(pool)
}

/// Starts a thread of the pool, by its number: one that stands by.
pub(super) fn start(pool: &Arc<Shared>, number: usize) -> io::Result<()> {
    let theirs = pool.clone();
    builder(pool, number).spawn(move || run(theirs)).map(drop)
}

/// A thread's name and stack.
pub(super) fn builder(pool: &Shared, what: impl std::fmt::Display) -> Builder {
    let builder = Builder::new().name(format!("{}-{what}", pool.name));
    match pool.stack_size {
        Some(bytes) => builder.stack_size(bytes),
        None => builder,
    }
}

/// What a thread of the pool does from its start to its end.
fn run(pool: Arc<Shared>) {
    let thread =
        Thread { pool, place: OwnPlace::none(), in_hand: Cell::new(0), in_vain: Cell::new(0) };
    struct Leaves;
    impl Drop for Leaves {
        fn drop(&mut self) {
            THREAD.with(|at| at.set(null()));
        }
    }
    THREAD.with(|at| at.set(&raw const thread));
    let leaves = Leaves;
    on_worker(&thread, || thread.live());
    drop(leaves);
    thread.pool.threads.thread_ends();
}

impl Thread {
    fn live(&self) {
        let pool = &self.pool;
        while let Some(job) = pool.threads.next_job(|| pool.is_ended()) {
            match job {
                Job::Place(place) => {
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
                Job::Help => {
                    pool.idle.leave();
                    self.help();
                    pool.threads.has_helped();
                }
            }
            pool.idle.come_back();
        }
    }

    /// Runs drains until the place is lost, or the pool has ended.
    fn work(&self) {
        let pool = &self.pool;
        let mut searching = false;
        while !pool.is_ended() {
            let mut own = Own::Lost;
            if !searching {
                own = self.place.next(&pool.queues);
                searching = matches!(own, Own::Nothing(_)) && pool.idle.start_search();
            }
            if searching {
                own = self.place.search(&pool.queues);
                if matches!(own, Own::Found(_)) {
                    searching = false;
                    pool.idle.found(|| pool.queues.has_work());
                }
            }
            match own {
                Own::Lost => return,
                Own::Found(drain) => self.run_all(drain),
                Own::FoundMore(drain) => {
                    pool.announce();
                    self.run_all(drain);
                }
                Own::Nothing(number) => {
                    match pool
                        .idle
                        .sleep(number, std::mem::take(&mut searching), || pool.queues.has_work())
                    {
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
            let Some(drain) = pool.queues.take_any() else { return };
            pool.queues.helps();
            self.run(drain);
        }
    }

    fn run(&self, drain: Drain) {
        self.in_hand.set(drain.number());
        panic::ignore(|| drain.run());
        self.in_hand.set(0);
    }

    /// Runs a drain, and those that wait behind it at this worker's place.
    fn run_all(&self, drain: Drain) {
        let pool = &self.pool;
        self.in_hand.set(drain.number());
        let next = || {
            self.in_hand.set(0);
            if pool.is_ended() {
                return None;
            }
            let drain = match self.place.next(&pool.queues) {
                Own::Lost | Own::Nothing(_) => return None,
                Own::Found(drain) => drain,
                Own::FoundMore(drain) => {
                    pool.announce();
                    drain
                }
            };
            self.in_hand.set(drain.number());
            Some(drain)
        };
        panic::ignore(|| run_drains(drain, next));
        self.in_hand.set(0);
    }

    fn schedule(&self, drain: Drain) {
        let pool = &self.pool;
        if pool.is_ended() {
            return pool.drop_unrun(drain);
        }
        let again = drain.number() == self.in_hand.get();
        match self.place.schedule(&pool.queues, drain, again) {
            Scheduled::Kept => {}
            Scheduled::Announce => pool.announce(),
            Scheduled::NoPlace(drain) => pool.inject(drain),
        }
    }
}

impl Compensation for Thread {
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

    fn pool(&self) -> ThisPool {
        self.pool.id()
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
