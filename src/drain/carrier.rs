//! Carrying a parked mailbox to another thread: the [`Executor`], and the [`Drain`] it is given (R8).
//!
//! A mailbox has one carrier out at most: the TOKEN bit beside its word says so. Whoever parks it, or leaves a message in a parked one,
//! raises TOKEN, and submits a carrier only if it was not raised. A carrier that is run or dropped lowers TOKEN first and then tries to
//! take the mailbox over; if it is not parked (anybody may have come by), the carrier is stale and does nothing.
//!
//! A carrier goes to the actor's executor; to the pool of the whole process, if there is none or it has refused [`ATTEMPTS`] times; and if
//! this build has no such pool either (the models), it is run on the spot, or after the turn that this thread is in. A pool without a single
//! thread does the same. So a carrier always gets somewhere, and who submits it never waits.
//!
//! - T1: from the step that parked it until somebody takes it over, a mailbox that was handed on or posted to has TOKEN raised, or somebody about to raise it.
//! - CARRY: raising TOKEN Release -> lowering it Acquire. A sender that finds TOKEN raised may go: the carrier lowers it later, and then sees
//!   the mailbox parked, with the sender's message.

use std::fmt;
use std::ptr::NonNull;

use super::block::{About, Core};
use super::counts;
use super::local::with_local;
use super::turns::{drive_dropped, run_list, take_over_within};
use crate::executor::PROCESS_WIDE;
use crate::sync::thread;
use crate::unwind::shrug_off;

/// How often an executor is asked before somebody else is.
const ATTEMPTS: u32 = 3;

/// Where drains run that are not run by their sender: a thread pool, a runtime, an event loop.
///
/// The module [`executor`](crate::executor) has several, and a closure that takes a [`Drain`] is one. It is called by senders and by drainers
/// that have used up their budget. It should hand
/// the drain to a thread that calls [`Drain::run`] soon, and return; it may also run it at once.
///
/// # Examples
/// ```
/// use std::sync::mpsc;
/// use turnwise::{Actor, Drain};
///
/// let (tx, rx) = mpsc::channel::<Drain>();
/// let worker = std::thread::spawn(move || rx.into_iter().for_each(Drain::run));
/// let n = Actor::builder(0).executor(move |drain| tx.send(drain).unwrap()).spawn()?;
/// n.send(|n| *n += 1)?; // runs on the worker
/// assert_eq!(n.ask(|n| *n).wait()?, 1);
/// drop(n);
/// worker.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Executor: Send + Sync {
    /// Has the drain run soon, by some thread.
    fn execute(&self, drain: Drain);

    /// The same, or hands the drain back: there is no room for it now, or there will never be. Should not wait.
    ///
    /// It is this that is called by the crate; without an implementation of its own, it never refuses. A drain that comes back is offered again,
    /// three times in all, with the processor given away in between; each refusal is told to the hook of
    /// [`ActorBuilder::refused`](crate::ActorBuilder::refused). After the third, the drain goes to
    /// [`ThreadPool::global`](crate::ThreadPool::global) instead: messages that were accepted are run in any case.
    ///
    /// # Errors
    /// The drain, as it was.
    fn try_execute(&self, drain: Drain) -> Result<(), Drain> {
        self.execute(drain);
        Ok(())
    }
}

impl<F: Fn(Drain) + Send + Sync> Executor for F {
    fn execute(&self, drain: Drain) {
        self(drain);
    }
}

/// A mailbox to be drained: one pointer wide, made without an allocation.
///
/// Run it once, on any thread. Dropping it un-run means that its executor is gone: the actor is stopped with
/// [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone), waiting messages are given back, every asker is answered. Leaking it leaves the
/// messages waiting for the next caller that comes by.
#[must_use = "dropping a drain stops its actor"]
pub struct Drain(NonNull<Core>);

// SAFETY: it holds storage (B3), and whoever runs it becomes the owner by an atomic step. The state's type is Send.
unsafe impl Send for Drain {}
// SAFETY: a shared reference can do nothing.
unsafe impl Sync for Drain {}

impl Drain {
    fn into_core(self) -> *const Core {
        let core = self.0.as_ptr();
        std::mem::forget(self);
        core
    }

    /// The drain as an address, for a queue that holds such.
    pub(crate) fn into_raw(self) -> *mut () {
        self.into_core().cast_mut().cast()
    }

    /// # Safety
    /// `raw` came from [`into_raw`](Self::into_raw), and comes back once.
    pub(crate) unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Drain(raw.cast())
    }

    /// Which mailbox it is. One that has gone may have had the same number.
    pub(crate) fn number(&self) -> usize {
        self.0.addr().get()
    }

    /// Runs the mailbox's messages on this thread, within the actor's budget; what is left then goes back to the executor.
    ///
    /// Inside a turn of another actor it is run as soon as that turn is over, like what that turn has sent: without the budget.
    pub fn run(self) {
        let core = self.into_core();
        with_local(|local| {
            // SAFETY: the storage is ours, and is given to the list or back at the end.
            unsafe {
                (*core).lower_token();
                if local.in_turn() {
                    if local.reserve(core) {
                        local.list(core);
                        return;
                    }
                } else {
                    take_over_within(core);
                    if local.owes() {
                        run_list(local);
                    }
                }
                counts::release_storage(core);
            }
        });
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let core: *const Core = self.0.as_ptr();
        // SAFETY: the storage is ours, and is given back at the end.
        unsafe {
            (*core).lower_token();
            drive_dropped(core);
            counts::release_storage(core);
        }
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the storage is ours.
        let name = unsafe { self.0.as_ref() }.about().name.as_deref();
        f.debug_struct("Drain").field("actor", &name).finish_non_exhaustive()
    }
}

/// Is there somebody to hand drains of such an actor to?
pub(crate) fn hands_on(about: &About) -> bool {
    about.executor.is_some() || PROCESS_WIDE.is_some()
}

/// Is there somebody to hand a thread's list to?
pub(crate) fn hands_on_lists() -> bool {
    PROCESS_WIDE.is_some()
}

/// Sees to it that a carrier is out for a mailbox that has just been parked, or left parked.
///
/// # Safety
/// The caller keeps the block.
pub(crate) unsafe fn carry(core: *const Core) {
    // SAFETY: the caller's word.
    let this = unsafe { &*core };
    if this.raise_token() {
        // SAFETY: the caller keeps the block; the carrier holds this storage.
        unsafe { counts::retain_storage(core) };
        let drain = Drain(NonNull::new(core.cast_mut()).expect("a block has an address"));
        // An executor that panics has dropped the drain.
        shrug_off(|| submit(this.about(), drain));
    }
}

/// Gives a drain to the first who takes it.
fn submit(about: &About, mut drain: Drain) {
    if let Some(executor) = &about.executor {
        for attempt in 1..=ATTEMPTS {
            drain = match executor.try_execute(drain) {
                Ok(()) => return,
                Err(drain) => drain,
            };
            if let Some(refused) = &about.refused {
                shrug_off(|| refused(attempt));
            }
            if attempt < ATTEMPTS {
                thread::yield_now();
            }
        }
    }
    match PROCESS_WIDE {
        Some(pool) => pool().execute(drain),
        None => drain.run(),
    }
}
