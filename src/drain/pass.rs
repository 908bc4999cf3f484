//! What an owner does around its turns: building a lazy state, the hooks before and after a pass, handling gathered messages.
//!
//! A **pass** goes from an owner's first turn to the moment at which its private list is at its end, or at which it lets go with a rest of it
//! left (out of budget, or giving way to this thread's list). What arrives meanwhile belongs to the next pass. So a pass is finite, whatever is
//! sent, and it is over before the mailbox is released, parked, or looked at for more.
//!
//! | step       | when                                                                        | if it panics                          |
//! |------------|-----------------------------------------------------------------------------|---------------------------------------|
//! | `Start`    | before the first turn of all                                                | no state, unless `Restart` makes one  |
//! | `Before`   | before the first turn of a pass                                             | the pass has begun all the same       |
//! | `Flush`    | before a turn that is not gathered with those before it; before `After`     | what was not handled is given back    |
//! | `After`    | at the end of a pass that has begun: whatever has panicked, also when stopped | as a turn                           |
//!
//! A mailbox that has any of this ([`Plan`](super::plan::Plan)) has a tag in its handles: nobody runs a message of it but by [`super::turns`], whose loop
//! for such mailboxes asks here before each turn. For all others nothing of this is compiled into the loop.
//!
//! - P1: every step is done by the owner, between two turns, and does not unwind: a panic goes to the panic hook and the policy.
//! - P2: a `Before` is followed by one `After`, before the mailbox is let go.
//! - P3: nothing is gathered when the mailbox is let go.

use std::any::TypeId;

use super::block::{Block, Core, EMPTY, STOP};
use super::bulk::Gathered;
use super::turns::after_panic;
use crate::sync::panic::catch;
use crate::unwind::shrug_off;

/// The factory of a lazy state.
pub(crate) type Factory<S> = Box<dyn FnOnce() -> S + Send>;
/// Called with the state, before the first turn of a pass.
pub(crate) type BeforeHook<S> = Box<dyn FnMut(&mut S) + Send>;
/// Called with the state and the number of turns, after the last turn of a pass.
pub(crate) type AfterHook<S> = Box<dyn FnMut(&mut S, u64) + Send>;

/// What was said about passes when the actor was built, and what is gathered in the one under way.
pub(crate) struct Passes<S> {
    pub(crate) factory: Option<Factory<S>>,
    pub(crate) before: Option<BeforeHook<S>>,
    pub(crate) after: Option<AfterHook<S>>,
    /// Made by the first message that is gathered, for its kind; nothing is in it between two passes.
    pub(crate) gathered: Option<Box<dyn Gathered<S>>>,
}

impl<S> Passes<S> {
    pub(crate) const NONE: Self = Passes { factory: None, before: None, after: None, gathered: None };
}

/// What is to be done between two turns.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Start,
    Before,
    /// Unless what is gathered is of this kind.
    Flush(Kind),
    /// With the number of turns of the pass.
    After(u64),
}

/// The function that does a step for one state type; for the owner of the mailbox, between two turns. It may unwind.
pub(crate) type StepFn = unsafe fn(*const Core, Step);

/// The kind of a message that is gathered; `None` for one that runs by itself.
pub(crate) type Kind = Option<fn() -> TypeId>;

/// One owner's pass.
pub(super) struct Pass {
    step: Option<StepFn>,
    begun: bool,
    turns: u64,
    /// The kind of the last turn.
    last: Option<TypeId>,
}

impl Pass {
    /// Before the first turn.
    #[inline]
    pub(super) fn new(core: &Core) -> Self {
        Pass { step: core.about().passes, begun: false, turns: 0, last: None }
    }

    /// Is there anything to do around turns?
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.step.is_some()
    }

    /// Does what comes before a turn of this kind; false if the actor has stopped, so that there is none.
    ///
    /// # Safety
    /// The caller owns the mailbox of `core`, which this was made for, between two turns.
    pub(super) unsafe fn before_turn(&mut self, core: *const Core, kind: Kind) -> bool {
        // SAFETY: the owner keeps the block.
        let this = unsafe { &*core };
        let stopped = || this.side_has(STOP);
        let kind_now = kind.map(|of| of());
        // SAFETY: the caller's word, for all the steps below.
        unsafe {
            if !self.begun {
                if !stopped() && this.side_has(EMPTY) {
                    self.step(core, Step::Start);
                }
                if stopped() {
                    return false;
                }
                self.begun = true;
                self.step(core, Step::Before);
            } else if self.last.is_some() && self.last != kind_now {
                self.step(core, Step::Flush(None));
            }
        }
        let runs = !stopped();
        self.turns += u64::from(runs);
        self.last = kind_now.filter(|_| runs);
        runs
    }

    /// Handles what was gathered, without waiting for the end of the pass.
    ///
    /// # Safety
    /// As for [`before_turn`](Self::before_turn).
    pub(super) unsafe fn flush(&mut self, core: *const Core) {
        if self.begun {
            self.last = None;
            // SAFETY: the caller's word.
            unsafe { self.step(core, Step::Flush(None)) };
        }
    }

    /// Ends a pass that has begun: the next turn begins another one.
    ///
    /// # Safety
    /// As for [`before_turn`](Self::before_turn).
    #[inline]
    pub(super) unsafe fn end(&mut self, core: *const Core) {
        if self.begun {
            // SAFETY: the caller's word.
            unsafe {
                self.flush(core);
                self.step(core, Step::After(self.turns));
            }
            *self = Pass { step: self.step, begun: false, turns: 0, last: None };
        }
    }

    /// # Safety
    /// As for [`before_turn`](Self::before_turn).
    unsafe fn step(&self, core: *const Core, step: Step) {
        if let Some(f) = self.step {
            // SAFETY: the caller's word; the function is this block's own.
            unsafe { do_step(f, core, step) };
        }
    }
}

/// Does what comes before a message that turned out, in its turn, to be of this kind; false if the actor has stopped.
///
/// # Safety
/// The caller owns the mailbox of `core`, in a turn that has not touched the state yet.
pub(super) unsafe fn before_message(core: *const Core, kind: Kind) -> bool {
    // SAFETY: the owner keeps the block.
    let this = unsafe { &*core };
    let Some(f) = this.about().passes else { return true };
    // SAFETY: the caller's word; the function is this block's own.
    unsafe { do_step(f, core, Step::Flush(kind)) };
    !this.side_has(STOP)
}

/// Does a step; a panic in it is the policy's.
///
/// # Safety
/// The caller owns the mailbox of `core`, whose own `f` is, and nothing borrows its state.
#[cold]
unsafe fn do_step(f: StepFn, core: *const Core, step: Step) {
    // SAFETY: the caller's word.
    if let Err(panic) = catch(|| unsafe { f(core, step) }) {
        // SAFETY: as above; the step has unwound.
        unsafe { after_panic(core, panic.as_ref()) };
        shrug_off(|| drop(panic));
    }
}

impl<S: 'static> Block<S> {
    /// Does a step.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, and nothing borrows its state, which is there in every step but `Start`.
    pub(super) unsafe fn step(core: *const Core, step: Step) {
        // SAFETY: the caller's word. What is called in here reaches the hooks only by a turn of this mailbox, which does not come now.
        unsafe {
            Self::with_hooks(core, |hooks| {
                let Some(passes) = &mut hooks.passes else { return };
                match step {
                    Step::Start => {
                        if let Some(factory) = passes.factory.take() {
                            Self::put_state(core, factory());
                        }
                    }
                    Step::Before => {
                        if let Some(before) = &mut passes.before {
                            Self::with_state(core, before);
                        }
                    }
                    Step::Flush(kind) => {
                        if let Some(gathered) = &mut passes.gathered {
                            gathered.handle_unless(core, kind.map(|of| of()));
                        }
                    }
                    Step::After(turns) => {
                        if let Some(after) = &mut passes.after {
                            Self::with_state(core, |state| after(state, turns));
                        }
                    }
                }
            });
        }
    }
}
