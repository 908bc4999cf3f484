//! The reply cell: where a question waits for its turn, and its answer for the asker.
//!
//! The queue holds the cell's address; question and answer lie in the cell, which has two sides: the asker's [`Reply`] and the drainer.
//! One word decides whether the question runs or is cancelled, who is told, and who frees.
//!
//! | bits 0, 1 PHASE                            | bit 2 WAITING          | bit 3 LEFT                     |
//! |--------------------------------------------|------------------------|--------------------------------|
//! | 0 queued, 1 running, 2 done, 3 cancelled   | the asker's waiter is in its slot | one side has left   |
//!
//! | call     | by      | from -> to               | then                                                              |
//! |----------|---------|--------------------------|-------------------------------------------------------------------|
//! | `start`  | drainer | queued -> running        | the question is the drainer's; refused if cancelled               |
//! | `cancel` | asker   | queued -> cancelled      | the question is the asker's; refused otherwise                    |
//! | `finish` | drainer | running -> done          | the answer is the asker's; WAITING was set: takes the waiter, wakes it |
//! | `watch`  | asker   | - -> WAITING             | refused if done; a waiter from before is taken back first         |
//! | `leave`  | each    | - -> LEFT                | LEFT was set: frees                                               |
//!
//! - Q1: `start` and `cancel` exclude each other; the winner alone touches the question.
//! - Q2: the answer is the drainer's until `done`, the asker's afterwards.
//! - Q3: the waiter's slot is the asker's while WAITING is clear and it is not done; the drainer's from `finish` on, if WAITING was set then.
//! - ANSWER: `finish` Release -> `is_done` Acquire. - WAITER: `watch` Release -> `finish` Acquire.
//! - LEAVE: `leave` Release -> `leave` Acquire. The side that frees comes after all that the other did.

use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::error::AskError;
use crate::sync::alloc::{Life, alloc, dealloc};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::cell::UnsafeCell;
use crate::wait::Waiter;

const PHASE: u32 = 3;
const QUEUED: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;
const CANCELLED: u32 = 3;
const WAITING: u32 = 4;
const LEFT: u32 = 8;

/// The part that the asker knows: he does not know the question's type.
#[repr(C)]
struct Cell<R> {
    state: AtomicU32,
    life: Life,
    waiter: UnsafeCell<Option<Waiter>>,
    answer: UnsafeCell<Option<Result<R, AskError>>>,
    drop_question: unsafe fn(NonNull<Cell<R>>),
    free: unsafe fn(NonNull<Cell<R>>),
}

#[repr(C)]
struct Whole<F, R> {
    cell: Cell<R>,
    question: UnsafeCell<ManuallyDrop<F>>,
}

/// The asker's side.
pub(crate) struct Asker<R>(NonNull<Cell<R>>);

/// The drainer's side.
pub(crate) struct Answerer<F, R>(NonNull<Whole<F, R>>);

// SAFETY: the cell's parts are touched by one side at a time (Q1-Q3), whichever thread it is on; question and answer are sent across.
unsafe impl<R: Send> Send for Asker<R> {}
// SAFETY: a shared reference to it reads the state word only.
unsafe impl<R: Send> Sync for Asker<R> {}
// SAFETY: as for the asker.
unsafe impl<F: Send, R: Send> Send for Answerer<F, R> {}

/// A new cell with its two sides: one allocation.
pub(crate) fn cell<F, R>(question: F) -> (Answerer<F, R>, Asker<R>) {
    let memory = NonNull::new(alloc(Layout::new::<Whole<F, R>>())).expect("alloc never returns null").cast::<Whole<F, R>>();
    let cell = Cell {
        state: AtomicU32::new(QUEUED),
        life: Life::new(),
        waiter: UnsafeCell::new(None),
        answer: UnsafeCell::new(None),
        drop_question: drop_question::<F, R>,
        free: free::<F, R>,
    };
    // SAFETY: fresh memory of this layout.
    unsafe { memory.write(Whole { cell, question: UnsafeCell::new(ManuallyDrop::new(question)) }) };
    (Answerer(memory), Asker(memory.cast()))
}

/// # Safety
/// The cell is a `Whole<F, R>`, and the caller has won the question (Q1).
unsafe fn drop_question<F, R>(cell: NonNull<Cell<R>>) {
    // SAFETY: the caller's word.
    unsafe { cell.cast::<Whole<F, R>>().as_ref().question.with_mut(|question| ManuallyDrop::drop(&mut *question)) }
}

/// # Safety
/// The cell is a `Whole<F, R>`, and both sides have left.
unsafe fn free<F, R>(cell: NonNull<Cell<R>>) {
    struct Memory<F, R>(NonNull<Whole<F, R>>);
    impl<F, R> Drop for Memory<F, R> {
        fn drop(&mut self) {
            // SAFETY: freed once, also if dropping an answer unwinds.
            unsafe { dealloc(self.0.cast().as_ptr(), Layout::new::<Whole<F, R>>()) }
        }
    }
    let memory = Memory(cell.cast::<Whole<F, R>>());
    // SAFETY: the caller's word; the question was moved out or dropped (Q1), the rest is dropped here.
    unsafe {
        cell.as_ref().life.end();
        memory.0.drop_in_place();
    }
}

impl<R> Cell<R> {
    fn leave(cell: NonNull<Self>) {
        // SAFETY: this side has not left yet, so the cell is there.
        let this = unsafe { cell.as_ref() };
        this.life.check();
        let free = this.free;
        // Ordering: AcqRel, both sides of LEAVE.
        if this.state.fetch_or(LEFT, AcqRel) & LEFT != 0 {
            // SAFETY: both sides have left.
            unsafe { free(cell) }
        }
    }

    fn phase_from_queued(&self, to: u32) -> bool {
        let mut now = QUEUED;
        loop {
            // Ordering: Relaxed. It only decides; the question was published by the push (MESSAGE), or written by the asker himself.
            match self.state.compare_exchange(now, now & !PHASE | to, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(seen) if seen & PHASE != QUEUED => return false,
                Err(seen) => now = seen,
            }
        }
    }
}

impl<F, R> Answerer<F, R> {
    fn cell(&self) -> &Cell<R> {
        // SAFETY: this side has not left yet, so the cell is there.
        let cell = unsafe { &self.0.as_ref().cell };
        cell.life.check();
        cell
    }

    /// Takes the question, unless it was cancelled; then this side has left.
    pub(crate) fn start(&mut self) -> Option<F> {
        if !self.cell().phase_from_queued(RUNNING) {
            Cell::leave(self.0.cast::<Cell<R>>());
            return None;
        }
        // SAFETY: Q1: won, and moved out once.
        Some(unsafe { self.0.as_ref().question.with_mut(|question| ManuallyDrop::take(&mut *question)) })
    }

    /// Gives the answer and leaves; once, after [`start`](Self::start).
    pub(crate) fn finish(&mut self, answer: Result<R, AskError>) {
        let cell = self.cell();
        // SAFETY: Q2: not done yet.
        cell.answer.with_mut(|slot| unsafe { *slot = Some(answer) });
        // Ordering: AcqRel. Release: writer side of ANSWER. Acquire: reader side of WAITER.
        let before = cell.state.fetch_xor(RUNNING ^ DONE, AcqRel);
        debug_assert_eq!(before & PHASE, RUNNING);
        let waiter = if before & WAITING != 0 {
            // SAFETY: Q3: done, and WAITING was set.
            cell.waiter.with_mut(|slot| unsafe { (*slot).take() })
        } else {
            None
        };
        // Leaves first: a waker may panic, and the cell would be lost.
        Cell::leave(self.0.cast::<Cell<R>>());
        waiter.into_iter().for_each(Waiter::wake);
    }

    /// Takes a question back that was not accepted; frees the cell.
    pub(crate) fn take_back(mut self, asker: Asker<R>) -> F {
        let question = self.start().expect("a question in the asker's hand is not cancelled");
        Cell::leave(self.0.cast::<Cell<R>>());
        drop(asker);
        question
    }
}

impl<R> Asker<R> {
    fn cell(&self) -> &Cell<R> {
        // SAFETY: this side has not left yet, so the cell is there.
        let cell = unsafe { self.0.as_ref() };
        cell.life.check();
        cell
    }

    pub(crate) fn is_done(&self) -> bool {
        // Ordering: Acquire, reader side of ANSWER.
        self.cell().state.load(Acquire) & PHASE == DONE
    }

    /// Takes the answer, if it is there.
    pub(crate) fn take(&mut self) -> Option<Result<R, AskError>> {
        if !self.is_done() {
            return None;
        }
        // SAFETY: Q2: done.
        self.cell().answer.with_mut(|slot| unsafe { (*slot).take() })
    }

    /// Registers a waiter; false if it is done already.
    pub(crate) fn watch(&mut self, waiter: Waiter) -> bool {
        let cell = self.cell();
        // Ordering: Relaxed. The slot's old waiter is the asker's own; an answer is read by `take`, which looks again.
        let before = cell.state.fetch_and(!WAITING, Relaxed);
        if before & PHASE == DONE {
            return false;
        }
        // SAFETY: Q3: WAITING is clear, and it was not done when it was cleared: `finish` will not look at the slot.
        cell.waiter.with_mut(|slot| unsafe { *slot = Some(waiter) });
        // Ordering: Release, writer side of WAITER.
        cell.state.fetch_or(WAITING, Release) & PHASE != DONE
    }

    /// Cancels the question, unless it has started: then it certainly never runs.
    pub(crate) fn cancel(&mut self) -> bool {
        let won = self.cell().phase_from_queued(CANCELLED);
        if won {
            let drop_question = self.cell().drop_question;
            // SAFETY: Q1: won.
            unsafe { drop_question(self.0) };
        }
        won
    }
}

impl<R> Drop for Asker<R> {
    fn drop(&mut self) {
        Cell::leave(self.0);
    }
}
