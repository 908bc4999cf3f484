//! The kinds of messages, as the mailbox sees them: how each is run, given back, and told of a panic. Two more, for full mailboxes, are in
//! [`super::room`].
//!
//! | kind         | lies in           | result goes to            | not run: goes to                | panicked                       |
//! |--------------|-------------------|---------------------------|---------------------------------|--------------------------------|
//! | [`Post`]     | the node          | nobody                    | the undelivered hook, or drop   | the panic hook alone           |
//! | [`Ask`]      | a reply cell      | the asker, by the cell    | dropped; the asker is told why  | the asker is told the text     |
//! | [`Borrowed`] | the caller's frame| the caller, in the frame  | stays with the caller           | resumed on the caller          |
//!
//! - E1: a message's functions are called by the owner of the mailbox it was pushed to, whose block is of the state type in its type, with
//!   an [`Env`] of it.
//! - E2: a frame of a [`Borrowed`] stays until its `state` is DONE, and until then is reached only through the pointer that was pushed.
//!   The store of DONE is the drainer's last access to it: before it, the parked thread's handle has been taken out.
//! - DELIVERY: `complete` Release -> `is_done`, or `sleep` that comes too late, Acquire. The caller sees result and everything the turn did.
//! - SLEEPER: `sleep` Release -> `complete` Acquire. The drainer sees the thread's handle.

use std::any::Any;
use std::marker::PhantomData;

use super::block::{Block, Core};
use super::env::Env;
use super::letter::{Here, Letter};
use crate::error::{AskError, Reason, panic_text};
use crate::mailbox::node::{Message, Panic, VTable};
use crate::reply::{Answerer, Question};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::sync::cell::UnsafeCell;
use crate::sync::thread::Thread;

/// A letter that nobody waits for.
#[repr(transparent)]
pub(crate) struct Post<S, L> {
    pub(crate) letter: L,
    of: PhantomData<fn(S)>,
}

impl<S: 'static, L: Letter<S>> Post<S, L> {
    #[inline(always)]
    pub(crate) fn new(letter: L) -> Self {
        Post { letter, of: PhantomData }
    }

    /// # Safety
    /// E1; moves the message out.
    unsafe fn run(payload: *mut u8, env: *const ()) {
        // SAFETY: E1: the payload is a `Post<S, L>`, moved out once; the owner's state and block.
        unsafe {
            let post = payload.cast::<Self>().read();
            run_letter::<S, L>(env, post.letter);
        }
    }

    /// # Safety
    /// E1; moves the message out.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: E1: as above.
        unsafe {
            let post = payload.cast::<Self>().read();
            give_back(Env::core(env), post.letter);
        }
    }

    /// # Safety
    /// E1.
    unsafe fn panicked(_: *mut u8, _: *const (), panic: Panic) {
        drop(panic);
    }
}

impl<S: 'static, L: Letter<S>> Message for Post<S, L> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked).of_kind(L::KIND);
}

/// Runs a letter that nobody waits for.
///
/// # Safety
/// E1.
#[inline(always)]
pub(crate) unsafe fn run_letter<S: 'static, L: Letter<S>>(env: *const (), letter: L) {
    // SAFETY: E1: the owner's state and block.
    drop(unsafe { Env::with_state(env, |state| letter.run(state, Here::new(Env::core(env)))) });
}

/// Hands an undelivered letter to the hook, or drops it.
///
/// # Safety
/// The block is alive, and of this state type.
pub(crate) unsafe fn give_back<S: 'static, L: Letter<S>>(core: *const Core, letter: L) {
    // SAFETY: the caller's word.
    match unsafe { Block::<S>::undelivered(core) } {
        Some(hook) => hook(letter.undelivered()),
        None => drop(letter),
    }
}

/// Why a message that was accepted is not run.
///
/// # Safety
/// The block is alive.
unsafe fn why_not(env: *const ()) -> Reason {
    // SAFETY: the caller's word.
    unsafe { (*Env::core(env)).stop_cause() }.map_or(Reason::Closed, Reason::Stopped)
}

/// A letter in a reply cell.
pub(crate) struct Asked<S, L> {
    pub(crate) letter: L,
    of: PhantomData<fn(S)>,
}

impl<S, L> Asked<S, L> {
    pub(crate) fn new(letter: L) -> Self {
        Asked { letter, of: PhantomData }
    }
}

impl<S, L: Letter<S>> Question for Asked<S, L> {
    type Payload = L::Payload;
    fn payload(self) -> L::Payload {
        self.letter.payload()
    }
}

/// A question in a reply cell. Taken out when it is answered, so that a panic in giving the answer is not answered again.
pub(crate) struct Ask<S, L: Letter<S>> {
    pub(crate) answerer: Option<Answerer<Asked<S, L>, L::Answer>>,
}

impl<S: 'static, L: Letter<S>> Ask<S, L> {
    pub(crate) fn new(answerer: Answerer<Asked<S, L>, L::Answer>) -> Self {
        Ask { answerer: Some(answerer) }
    }

    /// # Safety
    /// E1.
    unsafe fn run(payload: *mut u8, env: *const ()) {
        // SAFETY: E1: the payload is an `Ask<S, L>`, and the owner alone reaches it.
        let this = unsafe { &mut *payload.cast::<Self>() };
        let Some(answerer) = this.answerer.take() else { return };
        let Some(question) = answerer.start() else { return answerer.leave() };
        this.answerer = Some(answerer);
        // SAFETY: E1: the owner's state and block.
        let answer = unsafe {
            let here = Here::new(Env::core(env));
            Env::with_state(env, |state| question.letter.run(state, here))
        };
        if let Some(answerer) = this.answerer.take() {
            answerer.finish(Ok(answer));
        }
    }

    /// # Safety
    /// E1.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: E1, as above.
        let this = unsafe { &mut *payload.cast::<Self>() };
        let Some(answerer) = this.answerer.take() else { return };
        let Some(question) = answerer.start() else { return answerer.leave() };
        // SAFETY: the owner keeps the block.
        answerer.finish(Err(unsafe { why_not(env) }.into()));
        drop(question);
    }

    /// # Safety
    /// E1, after `run` has unwound.
    unsafe fn panicked(payload: *mut u8, _: *const (), panic: Panic) {
        // SAFETY: E1, as above.
        let this = unsafe { &mut *payload.cast::<Self>() };
        if let Some(answerer) = this.answerer.take() {
            answerer.finish(Err(AskError::Panicked(panic_text(panic.as_ref()))));
        }
        drop(panic);
    }
}

impl<S: 'static, L: Letter<S>> Message for Ask<S, L> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked);
}

const OPEN: u32 = 0;
const ASLEEP: u32 = 1;
const DONE: u32 = 2;

/// A closure in the frame of a caller who waits.
pub(crate) struct Borrowed<S, F, R> {
    state: AtomicU32,
    sleeper: UnsafeCell<Option<Thread>>,
    job: UnsafeCell<Option<F>>,
    outcome: UnsafeCell<Option<Outcome<R>>>,
    of: PhantomData<fn(S)>,
}

/// What became of a borrowed message.
pub(crate) enum Outcome<R> {
    Returned(R),
    Panicked(Box<dyn Any + Send>),
    NotRun(Reason),
}

impl<S, R, F: FnOnce(&mut S) -> R> Borrowed<S, F, R> {
    pub(crate) fn new(job: F) -> Self {
        Borrowed {
            state: AtomicU32::new(OPEN),
            sleeper: UnsafeCell::new(None),
            job: UnsafeCell::new(Some(job)),
            outcome: UnsafeCell::new(None),
            of: PhantomData,
        }
    }

    /// Is it done? Then the frame is the caller's own again.
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
    pub(crate) fn take(&self) -> Outcome<R> {
        // SAFETY: E2: done, so the frame is the caller's.
        self.outcome.with_mut(|slot| unsafe { (*slot).take() }).expect("a message that is done has an outcome")
    }

    /// # Safety
    /// E1, E2: not done yet. The frame is not touched afterwards.
    unsafe fn complete(this: *const Self, outcome: Outcome<R>) {
        // SAFETY: E2: the caller waits, so the frame is there; the outcome is ours until DONE.
        unsafe { (*this).outcome.with_mut(|slot| *slot = Some(outcome)) };
        // SAFETY: as above; after a success the frame is not touched.
        // Ordering: Release, writer side of DELIVERY. Acquire on failure: reader side of SLEEPER.
        if unsafe { (*this).state.compare_exchange(OPEN, DONE, Release, Acquire) }.is_ok() {
            return;
        }
        // SAFETY: SLEEPER: it sleeps and has left its handle, which is ours now.
        let sleeper = unsafe { (*this).sleeper.with_mut(|slot| (*slot).take()) };
        // SAFETY: E2: the last access to the frame. A swap, so that the store is a read-modify-write like every other on this word.
        // Ordering: Release, writer side of DELIVERY.
        unsafe { (*this).state.swap(DONE, Release) };
        if let Some(sleeper) = sleeper {
            sleeper.unpark();
        }
    }

    /// # Safety
    /// E1, E2.
    unsafe fn run(payload: *mut u8, env: *const ()) {
        let this = payload.cast::<Self>().cast_const();
        // SAFETY: E1, E2: the caller waits and does not look at the job.
        let job = unsafe { (*this).job.with_mut(|job| (*job).take()) };
        if let Some(job) = job {
            // SAFETY: E1: the owner's state.
            let value = unsafe { Env::with_state(env, job) };
            // SAFETY: E2: the frame is not touched afterwards.
            unsafe { Self::complete(this, Outcome::Returned(value)) };
        }
    }

    /// # Safety
    /// E1, E2.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: E2: the job stays in the frame, for the caller to drop; the frame is not touched afterwards.
        unsafe { Self::complete(payload.cast(), Outcome::NotRun(why_not(env))) }
    }

    /// # Safety
    /// E1, E2, after `run` has unwound: it was not completed.
    unsafe fn panicked(payload: *mut u8, _: *const (), panic: Panic) {
        // SAFETY: E2: the frame is not touched afterwards.
        unsafe { Self::complete(payload.cast(), Outcome::Panicked(panic)) }
    }
}

impl<S, R: Send, F: FnOnce(&mut S) -> R + Send> Message for Borrowed<S, F, R> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked);
}
