//! A closure that lies in the frame of a caller that waits for it.
//!
//! - ENVELOPE-2: the frame stays until its `state` is DONE, and until then is reached only through
//!   the pointer that was pushed. The store of DONE is the drainer's last access to it: before it,
//!   the parked thread's handle has been taken out.
//! - DELIVERY: `complete` Release -> `is_done`, or `sleep` that comes too late, Acquire. The caller
//!   sees the result and everything the turn did.
//! - SLEEPER: `sleep` Release -> `complete` Acquire. The drainer sees the thread's handle.

use super::{Call, why_not};
use crate::cell::resident::Place;
use crate::error::Reason;
use crate::mailbox::node::{Envelope, VTable};
use crate::panic::Payload;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::sync::cell::UnsafeCell;
use crate::sync::thread::Thread;

const OPEN: u32 = 0;
const ASLEEP: u32 = 1;
const DONE: u32 = 2;

/// A closure in the frame of a caller that waits.
pub(crate) struct Borrowed<'a, S> {
    state: AtomicU32,
    sleeper: UnsafeCell<Option<Thread>>,
    job: UnsafeCell<Option<Call<'a, S>>>,
    outcome: UnsafeCell<Option<Outcome>>,
}

/// Outcome of a borrowed message.
pub(crate) enum Outcome {
    Returned,
    Panicked(Payload),
    NotRun(Reason),
}

impl<'a, S> Borrowed<'a, S> {
    pub(crate) fn new(job: Call<'a, S>) -> Self {
        Borrowed {
            state: AtomicU32::new(OPEN),
            sleeper: UnsafeCell::new(None),
            job: UnsafeCell::new(Some(job)),
            outcome: UnsafeCell::new(None),
        }
    }

    /// True if it is done: the frame is the caller's own again.
    pub(crate) fn is_done(&self) -> bool {
        // Ordering: Acquire, reader side of DELIVERY.
        self.state.load(Acquire) == DONE
    }

    /// Leaves this thread's handle for the drainer; false if it is done already. At most once.
    pub(crate) fn sleep(&self, thread: Thread) -> bool {
        // SAFETY: the drainer looks at the slot only after ASLEEP, which is set once, below.
        self.sleeper.with_mut(|slot| unsafe { *slot = Some(thread) });
        // Ordering: Release, writer side of SLEEPER. Acquire on failure: reader side of DELIVERY.
        self.state.compare_exchange(OPEN, ASLEEP, Release, Acquire).is_ok()
    }

    /// Takes the outcome, after [`is_done`](Self::is_done).
    pub(crate) fn take(&self) -> Outcome {
        // SAFETY: ENVELOPE-2: done, so the frame is the caller's.
        self.outcome
            .with_mut(|slot| unsafe { (*slot).take() })
            .expect("a message that is done has an outcome")
    }

    /// # Safety
    /// ENVELOPE-1, ENVELOPE-2: not done yet. The frame is not touched afterwards.
    unsafe fn complete(this: *const Self, outcome: Outcome) {
        // SAFETY: ENVELOPE-2: the caller waits, so the frame is there until DONE is stored, and
        // outcome and handle are this side's until then.
        unsafe {
            (*this).outcome.with_mut(|slot| *slot = Some(outcome));
            // After a success the frame is not touched.
            // Ordering: Release, writer side of DELIVERY. Acquire on failure: reader side of
            // SLEEPER.
            if (*this).state.compare_exchange(OPEN, DONE, Release, Acquire).is_ok() {
                return;
            }
            // SLEEPER: the caller sleeps and has left its handle.
            let sleeper = (*this).sleeper.with_mut(|slot| (*slot).take());
            // The last access to the frame. A swap, so that the store is a read-modify-write like
            // every other on this word.
            // Ordering: Release, writer side of DELIVERY.
            (*this).state.swap(DONE, Release);
            sleeper.into_iter().for_each(|sleeper| sleeper.unpark());
        }
    }

    /// # Safety
    /// ENVELOPE-1, ENVELOPE-2.
    unsafe fn run(payload: *mut u8, env: *const ()) {
        let this = payload.cast::<Self>().cast_const();
        // SAFETY: ENVELOPE-1, ENVELOPE-2: the caller waits and does not look at the job, which is
        // run on the owner's state. The frame is not touched after the completion.
        unsafe {
            if let Some(job) = (*this).job.with_mut(|job| (*job).take()) {
                Place::of(env).with_state(job);
                Self::complete(this, Outcome::Returned);
            }
        }
    }

    /// # Safety
    /// ENVELOPE-1, ENVELOPE-2.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: ENVELOPE-1, ENVELOPE-2: the job stays in the frame, for the caller to drop; the
        // frame is not touched afterwards.
        unsafe {
            let reason = why_not(Place::<S>::of(env).header());
            Self::complete(payload.cast(), Outcome::NotRun(reason));
        }
    }

    /// # Safety
    /// ENVELOPE-1, ENVELOPE-2, after `run` has unwound: it was not completed.
    unsafe fn panicked(payload: *mut u8, _: *const (), panic: Payload) {
        // SAFETY: ENVELOPE-2: the frame is not touched afterwards.
        unsafe { Self::complete(payload.cast(), Outcome::Panicked(panic)) }
    }
}

impl<S> Envelope for Borrowed<'_, S> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked);
}
