//! The reply cell: where a question waits for its turn, and its answer for the asker.
//!
//! The queue holds the cell's address; question and answer lie in the cell, which has two sides:
//! the asker's [`Reply`] and the drainer. One word decides whether the question runs or is
//! cancelled, who has the answer, and who frees.
//!
//! | bits 0, 1 PHASE                            | bit 2 WAITING                     | the rest, SIDES      |
//! |--------------------------------------------|-----------------------------------|----------------------|
//! | 0 queued, 1 running, 2 done, 3 cancelled   | the asker's waiter is in its slot | how many keep it     |
//!
//! | call     | by      | from -> to               | then                                                              |
//! |----------|---------|--------------------------|-------------------------------------------------------------------|
//! | `start`  | drainer | queued -> running        | the question is the drainer's; refused if cancelled               |
//! | `cancel` | asker   | queued -> cancelled      | the question is the asker's; refused otherwise                    |
//! | `finish` | drainer | running -> done          | the answer is the asker's; WAITING was set: takes the waiter, wakes it |
//! | `settle` | drainer | queued -> done           | `start` and `finish` of a promise in one; refused if cancelled    |
//! | `watch`  | asker   | - -> WAITING             | refused if done; a waiter from before, or a late one, is taken back |
//! | drop     | asker   | WAITING -> -             | unless it is done, the waiter is taken back; then `leave`         |
//! | `leave`  | each    | SIDES - 1                | the last one frees; an asker drops the answer first, if it is done |
//! | `progress` | asker | SIDES + 1                | a third side, which looks at PHASE alone                          |
//!
//! - ONESHOT-1: `start` and `cancel` exclude each other; the winner alone touches the question.
//! - ONESHOT-2: the answer is the drainer's until `done`, the asker's afterwards; the drainer's
//!   still if the asker had left before. Whose it is, drops it: the cell may stay for long.
//! - ONESHOT-3: the waiter's slot is the asker's while WAITING is clear and it is not done; the
//!   drainer's from `finish` on, if WAITING was set then, and the asker's if not. A waiter that
//!   comes too late goes at once.
//! - ANSWER: `finish` Release -> `is_done` Acquire. - WAITER: `watch` Release -> `finish` Acquire.
//! - LEAVE: `leave` Release -> `leave` Acquire. The side that frees comes after all that the other
//!   did. One that sees itself alone frees at once: the asker alone adds sides.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::error::AskError;
use crate::panic;
use crate::sync::alloc::{Life, alloc, dealloc};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::cell::UnsafeCell;
use crate::wait_list::Waiter;

const PHASE: u32 = 3;
const QUEUED: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;
const CANCELLED: u32 = 3;
const WAITING: u32 = 4;
const SIDE: u32 = 8;

/// The part that the asker knows: he does not know the question's type.
#[repr(C)]
struct AnswerCell<R, P> {
    state: AtomicU32,
    life: Life,
    waiter: UnsafeCell<Option<Waiter>>,
    answer: UnsafeCell<Option<Result<R, AskError>>>,
    give_back: unsafe fn(NonNull<AnswerCell<R, P>>) -> P,
    free: unsafe fn(NonNull<AnswerCell<R, P>>),
}

#[repr(C)]
struct Whole<F: Question, R> {
    cell: AnswerCell<R, F::Payload>,
    question: UnsafeCell<ManuallyDrop<F>>,
}

/// A question that a cell can hold; `Payload` is what its asker gets back if it is cancelled.
pub(crate) trait Question: Sized {
    type Payload;
    fn payload(self) -> Self::Payload;

    /// [`payload`](Self::payload) of a question where it lies.
    ///
    /// # Safety
    /// The caller has won the question (ONESHOT-1), which is moved out.
    unsafe fn take_payload(this: *mut Self) -> Self::Payload {
        // SAFETY: the caller has won the question, which is moved out here, once.
        unsafe { this.read() }.payload()
    }
}

/// A question that was not put: its answer was promised.
pub(crate) struct Promised;

impl Question for Promised {
    type Payload = ();
    fn payload(self) {}
}

/// A side of a cell, which it keeps. It leaves as it is dropped.
struct Side<R, P>(NonNull<AnswerCell<R, P>>);

pub(crate) struct Asker<R, P>(ManuallyDrop<Side<R, P>>);

/// The drainer's side. Its question must be moved out before it leaves.
pub(crate) struct Answerer<F: Question, R>(Side<R, F::Payload>, PhantomData<F>);

// SAFETY: the cell's parts are touched by one side at a time (ONESHOT-1-3), whichever thread it is
// on; question and answer are sent across.
unsafe impl<R: Send, P: Send> Send for Asker<R, P> {}
// SAFETY: a shared reference to it reads the state word only.
unsafe impl<R: Send, P: Send> Sync for Asker<R, P> {}
// SAFETY: as for the asker.
unsafe impl<F: Question + Send, R: Send> Send for Answerer<F, R> {}
// SAFETY: a shared reference to it reads the state word only, unless its holder knows that it is
// the only one (`start`, `answer`: the floors above call them on an answerer that they own).
unsafe impl<F: Question + Send, R: Send> Sync for Answerer<F, R> {}

/// A new cell with its two sides: one allocation.
pub(crate) fn oneshot<F: Question, R>(question: F) -> (Answerer<F, R>, Asker<R, F::Payload>) {
    let memory = NonNull::new(alloc(Layout::new::<Whole<F, R>>()))
        .expect("alloc never returns null")
        .cast::<Whole<F, R>>();
    let cell = AnswerCell {
        state: AtomicU32::new(QUEUED | (2 * SIDE)),
        life: Life::new(),
        waiter: UnsafeCell::new(None),
        answer: UnsafeCell::new(None),
        give_back: give_back::<F, R>,
        free: free::<F, R>,
    };
    // SAFETY: fresh memory of this layout.
    unsafe { memory.write(Whole { cell, question: UnsafeCell::new(ManuallyDrop::new(question)) }) };
    let side = || Side(memory.cast());
    (Answerer(side(), PhantomData), Asker(ManuallyDrop::new(side())))
}

/// # Safety
/// The cell is a `Whole<F, R>`, and the caller has won the question (ONESHOT-1), which is moved
/// out.
unsafe fn give_back<F: Question, R>(cell: NonNull<AnswerCell<R, F::Payload>>) -> F::Payload {
    // SAFETY: it is such a cell, and the winner's question is there. It is moved out of its place
    // before user code sees it.
    unsafe {
        let question = cell.cast::<Whole<F, R>>().as_ref().question.with_mut(<*mut _>::cast);
        F::take_payload(question)
    }
}

/// # Safety
/// The cell is a `Whole<F, R>`, and both sides have left.
unsafe fn free<F: Question, R>(cell: NonNull<AnswerCell<R, F::Payload>>) {
    let whole = cell.cast::<Whole<F, R>>();
    // SAFETY: nothing else reaches the cell. The question was moved out or dropped (ONESHOT-1), the
    // rest is dropped here. A waker and an answer that was not taken are user code, whose panic is
    // ignored.
    unsafe {
        cell.as_ref().life.end();
        panic::ignore(|| whole.drop_in_place());
        dealloc(whole.cast().as_ptr(), Layout::new::<Whole<F, R>>());
    }
}

impl<R, P> Deref for Side<R, P> {
    type Target = AnswerCell<R, P>;

    fn deref(&self) -> &AnswerCell<R, P> {
        // SAFETY: this side has not left yet, so the cell is there.
        let cell = unsafe { self.0.as_ref() };
        cell.life.check();
        cell
    }
}

impl<R, P> Drop for Side<R, P> {
    fn drop(&mut self) {
        let free = self.free;
        // Ordering: Acquire, reader side of LEAVE.
        let alone = self.state.load(Acquire) < 2 * SIDE;
        // Ordering: AcqRel, both sides of LEAVE.
        if alone || self.state.fetch_sub(SIDE, AcqRel) < 2 * SIDE {
            // SAFETY: all sides have left.
            unsafe { free(self.0) }
        }
    }
}

/// The waiter's slot, in the hand of the side whose it is (ONESHOT-3).
struct WaiterSlot<'a>(&'a UnsafeCell<Option<Waiter>>);

impl WaiterSlot<'_> {
    fn replace(&mut self, waiter: Option<Waiter>) -> Option<Waiter> {
        // SAFETY: ONESHOT-3: the slot is its holder's.
        self.0.with_mut(|slot| unsafe { std::mem::replace(&mut *slot, waiter) })
    }
}

impl<R, P> AnswerCell<R, P> {
    fn phase_from_queued(&self, to: u32) -> bool {
        let mut now = QUEUED | (2 * SIDE);
        loop {
            // Ordering: Relaxed. It only decides; the question was published by the push (MESSAGE),
            // or written by the asker himself.
            match self.state.compare_exchange(now, now & !PHASE | to, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(seen) if seen & PHASE != QUEUED => return false,
                Err(seen) => now = seen,
            }
        }
    }
}

impl<F: Question, R> Answerer<F, R> {
    /// Takes the question, and the duty to answer it. `None` if it was cancelled.
    pub(crate) fn start(self) -> Option<(F, Accepted<F, R>)> {
        if !self.accept() {
            return None;
        }
        // SAFETY: ONESHOT-1: won, and moved out once.
        let question = unsafe { self.question().read() };
        Some((question, Accepted(self)))
    }

    /// Gives the answer; false if its asker had left, and it is dropped.
    ///
    /// # Safety
    /// The caller has won the question ([`accept`](Self::accept)), and answers it once.
    pub(crate) unsafe fn answer(&self, answer: Result<R, AskError>) -> bool {
        let cell = &*self.0;
        // SAFETY: ONESHOT-2: not done yet.
        cell.answer.with_mut(|slot| unsafe { *slot = Some(answer) });
        // Ordering: AcqRel. Release: writer side of ANSWER. Acquire: reader side of WAITER.
        let before = cell.state.fetch_xor(RUNNING ^ DONE, AcqRel);
        debug_assert_eq!(before & PHASE, RUNNING);
        // SAFETY: it is done, and this was the state before.
        let waiter = unsafe { self.done(before) };
        waiter.into_iter().for_each(Waiter::wake);
        before >= 2 * SIDE
    }

    /// The waiter, if there is one. An answer that is not heard is dropped.
    ///
    /// # Safety
    /// The caller has made it done just now; the state was `before`.
    unsafe fn done(&self, before: u32) -> Option<Waiter> {
        let cell = &*self.0;
        let is_heard = before >= 2 * SIDE;
        if !is_heard {
            // SAFETY: ONESHOT-2: the asker had left before it was done.
            let unclaimed = cell.answer.with_mut(|slot| unsafe { (*slot).take() });
            panic::ignore(|| drop(unclaimed));
        }
        // ONESHOT-3: done; the slot is this side's if WAITING was set.
        if before & WAITING != 0 { WaiterSlot(&cell.waiter).replace(None) } else { None }
    }

    /// True if the asker has cancelled. Stale on return.
    pub(crate) fn is_cancelled(&self) -> bool {
        // Ordering: Relaxed. A hint: nothing is read through it.
        self.0.state.load(Relaxed) & PHASE == CANCELLED
    }

    /// Wins the question without moving it out; false if it was cancelled.
    pub(crate) fn accept(&self) -> bool {
        self.0.phase_from_queued(RUNNING)
    }

    /// The address of the question.
    pub(crate) fn question(&self) -> *mut F {
        let whole = self.0.0.cast::<Whole<F, R>>();
        // SAFETY: this side has not left yet, so the cell is there, and it is such a cell. No
        // reference to the question is made.
        unsafe { whole.as_ref().question.with_mut(<*mut ManuallyDrop<F>>::cast) }
    }

    /// Takes a question back that was not accepted; frees the cell.
    pub(crate) fn take_back(self, asker: Asker<R, F::Payload>) -> F {
        let (question, accepted) =
            self.start().expect("a question in the asker's hand is not cancelled");
        drop((accepted, asker));
        question
    }
}

/// The duty to answer a question that was won (ONESHOT-1).
#[must_use = "an asker waits for the answer"]
pub(crate) struct Accepted<F: Question, R>(Answerer<F, R>);

impl<F: Question, R> Accepted<F, R> {
    /// Gives the answer and leaves; false if the asker had left before.
    pub(crate) fn finish(self, answer: Result<R, AskError>) -> bool {
        let Accepted(side) = self;
        // SAFETY: ONESHOT-1: it was won, and this is the one answer.
        let is_heard = unsafe { side.answer(answer) };
        drop(side);
        is_heard
    }
}

impl<R> Answerer<Promised, R> {
    /// Wins the question; `None` if it was cancelled.
    pub(crate) fn claim(self) -> Option<Accepted<Promised, R>> {
        let (Promised, accepted) = self.start()?;
        Some(accepted)
    }

    /// Gives the answer and leaves. The answer comes back if the question was cancelled.
    pub(crate) fn settle(self, answer: Result<R, AskError>) -> Result<(), Result<R, AskError>> {
        let cell = &*self.0;
        // SAFETY: ONESHOT-2: not done yet.
        cell.answer.with_mut(|slot| unsafe { *slot = Some(answer) });
        // Ordering: Relaxed. The guess of the first attempt.
        let mut now = cell.state.load(Relaxed);
        while now & PHASE == QUEUED {
            // Ordering: AcqRel. Release: writer side of ANSWER. Acquire: reader side of WAITER. A
            // failure is the guess of the next attempt.
            match cell.state.compare_exchange(now, now & !PHASE | DONE, AcqRel, Relaxed) {
                Err(seen) => now = seen,
                Ok(before) => {
                    // SAFETY: it is done, and this was the state before.
                    let waiter = unsafe { self.done(before) };
                    // The asker that is woken finds itself alone.
                    drop(self);
                    waiter.into_iter().for_each(Waiter::wake);
                    return Ok(());
                }
            }
        }
        // SAFETY: ONESHOT-2: it was cancelled, and is never done.
        let unwanted = cell.answer.with_mut(|slot| unsafe { (*slot).take() });
        unwanted.map_or(Ok(()), Err)
    }
}

impl<R, P> Asker<R, P> {
    pub(crate) fn is_done(&self) -> bool {
        // Ordering: Acquire, reader side of ANSWER.
        self.0.state.load(Acquire) & PHASE == DONE
    }

    /// A look at how far it is, which keeps the cell.
    pub(crate) fn progress(&self) -> Progress {
        // Ordering: Relaxed. This side keeps the cell.
        self.0.state.fetch_add(SIDE, Relaxed);
        Progress { state: self.0.0.cast(), leave: leave::<R, P> }
    }

    /// Takes the answer, if it is there.
    pub(crate) fn take(&mut self) -> Option<Result<R, AskError>> {
        if !self.is_done() {
            return None;
        }
        // SAFETY: ONESHOT-2: done.
        self.0.answer.with_mut(|slot| unsafe { (*slot).take() })
    }

    /// Registers a waiter; false if it is done already.
    pub(crate) fn watch(&mut self, waiter: Waiter) -> bool {
        let Some(mut slot) = self.take_slot_back() else {
            panic::ignore(|| drop(waiter));
            return false;
        };
        let before = slot.replace(Some(waiter));
        // Ordering: Release, writer side of WAITER.
        let in_time = self.0.state.fetch_or(WAITING, Release) & PHASE != DONE;
        // ONESHOT-3: if it is done, WAITING was clear then, so the slot is the asker's still.
        let late = if in_time { None } else { slot.replace(None) };
        // A waker's drop is user code: it comes last. The drainer's side may keep the cell for
        // long.
        panic::ignore(|| drop(before));
        panic::ignore(|| drop(late));
        in_time
    }

    /// Takes the waiter's slot back; `None` if it is done. ONESHOT-3: WAITING is clear, and it was
    /// not done when it was cleared, so `finish` will not look at the slot.
    fn take_slot_back(&self) -> Option<WaiterSlot<'_>> {
        let cell = &**self.0;
        // Ordering: Relaxed. WAITING is set by the asker alone.
        let now = cell.state.load(Relaxed);
        let before = match now & WAITING {
            0 => now,
            // Ordering: Relaxed. The slot's old waiter is the asker's own; an answer is read by
            // `take`, which looks again.
            _ => cell.state.fetch_and(!WAITING, Relaxed),
        };
        let is_done = before & PHASE == DONE;
        (!is_done).then_some(WaiterSlot(&cell.waiter))
    }

    /// Leaves, unless it is done.
    fn leave_early(&self) -> bool {
        let state = &self.0.state;
        let mut now = state.load(Relaxed);
        while now & PHASE != DONE {
            // Ordering: AcqRel, both sides of LEAVE. A failure is the guess of the next attempt.
            match state.compare_exchange(now, now - SIDE, AcqRel, Relaxed) {
                Err(seen) => now = seen,
                Ok(was) => {
                    if was < 2 * SIDE {
                        let free = self.0.free;
                        // SAFETY: all sides have left.
                        unsafe { free(self.0.0) }
                    }
                    return true;
                }
            }
        }
        false
    }

    /// Cancels the question, unless it has started: then it certainly never runs, and here is what
    /// it was made of.
    pub(crate) fn cancel(&mut self) -> Option<P> {
        let won = self.0.phase_from_queued(CANCELLED);
        won.then(|| {
            let give_back = self.0.give_back;
            // SAFETY: ONESHOT-1: won.
            unsafe { give_back(self.0.0) }
        })
    }
}

/// A look at how far a question is. It keeps the cell, and nothing else of the two sides' is
/// reached through it.
pub(crate) struct Progress {
    /// The cell, by its first field.
    state: NonNull<AtomicU32>,
    leave: unsafe fn(NonNull<AtomicU32>),
}

// SAFETY: other threads than that of the asker look at the state, which is atomic.
unsafe impl Send for Progress {}

/// # Safety
/// `state` is the first field of an `AnswerCell<R, P>`, and one of its sides is the caller's.
unsafe fn leave<R, P>(state: NonNull<AtomicU32>) {
    drop(Side::<R, P>(state.cast()));
}

impl Progress {
    fn phase(&self) -> u32 {
        // SAFETY: this side has not left yet, so the cell is there.
        let state = unsafe { self.state.as_ref() };
        // Ordering: Relaxed. Nothing is read through it.
        state.load(Relaxed) & PHASE
    }

    pub(crate) fn is_done(&self) -> bool {
        self.phase() == DONE
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.phase() != QUEUED
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // SAFETY: it is the first field of such a cell, of which this is a side; it leaves once.
        unsafe { (self.leave)(self.state) }
    }
}

impl<R, P> Drop for Asker<R, P> {
    /// The cell may stay for long: a turn that waits lies in it, with all of its wakers. So what
    /// the asker has there goes now.
    fn drop(&mut self) {
        // Ordering: Relaxed. WAITING is set by the asker alone, and what is done stays so.
        let now = self.0.state.load(Relaxed);
        if now & WAITING != 0 && now & PHASE != DONE {
            let waiter = self.take_slot_back().and_then(|mut slot| slot.replace(None));
            panic::ignore(|| drop(waiter));
        }
        if self.leave_early() {
            return;
        }
        // ONESHOT-2: done.
        let answer = self.take();
        panic::ignore(|| drop(answer));
        // SAFETY: it is dropped once, unless it has left before.
        unsafe { ManuallyDrop::drop(&mut self.0) }
    }
}
