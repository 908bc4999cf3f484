//! The handle: every way into a mailbox, from the sender's side. Safe to call; all that a user's call does starts here.
//!
//! The way of a send: `claim` (idle: the message is run on the spot, never stored, then `release_one`), or a node and `push`, and then
//! the [`Duty`] that the push left. A thread that is inside a turn never drains for a send: it parks and lists (R9).

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::block::{Block, By as DrainedBy, Core, STOP};
use super::carrier::carry;
use super::chain::{Chain, Links};
use super::counts;
use super::envelope::{Ask, Asked, Borrowed, Outcome, Post};
use super::letter::{Here, Letter};
use super::local::{Local, with_local};
use super::plan::Plan;
use super::push::By;
use super::relief::{StandBy, stand_by};
use super::room::Worth;
use super::storage::{Storage, Weak, drain_here};
use super::turns::{Place, after_panic, drive, run_list, taken_over};
use crate::error::{AskError, OwnError, Reason, panic_text};
use crate::mailbox::node::{Batch, NodeOf, NodePtr, Panic};
use crate::mailbox::word::{CLOSED, Duty, Entry, ORPHAN, Refusal, Snapshot};
use crate::reply::{Asker, cell};
use crate::sync::panic::catch;
use crate::sync::{hint, thread};
use crate::unwind::shrug_off;

/// One of the handles that keep an actor going: the block's address, with [`POSTS`] and [`OBSERVED`] in its lowest bits. They are in the
/// handle so that a send knows them without looking at the block: the word's line comes over by the claim alone.
pub(crate) struct Handle<S>(NonNull<Core>, PhantomData<fn(S) -> S>);

/// The mailbox has an executor: senders post, and do not drain.
const POSTS: usize = 1;
/// Something is done around turns ([`super::pass`]): nobody runs a message but by `drive`.
const OBSERVED: usize = 2;
const TAGS: usize = POSTS | OBSERVED;
const _: () = assert!(align_of::<Core>() > TAGS);

// SAFETY: the state is touched by one thread at a time (B1) and sent from one to the next; everything else in the block is atomic, locked,
// or the owner's.
unsafe impl<S: Send> Send for Handle<S> {}
// SAFETY: as above; a shared handle can do nothing that an owned one cannot.
unsafe impl<S: Send> Sync for Handle<S> {}
/// The answer to a question, or where it will be.
pub(crate) enum Answer<R, P> {
    Ready(Result<R, AskError>),
    Pending(Asker<R, P>, Storage),
}

impl<S> Handle<S> {
    pub(crate) fn new(state: S) -> Self {
        // SAFETY: the new block's one handle.
        unsafe { Self::of(Block::create(state)) }
    }

    /// Without a state, the plan's factory makes it.
    pub(crate) fn planned(state: Option<S>, plan: Plan<S>) -> Self {
        // SAFETY: the new block's one handle.
        unsafe { Self::of(Block::create_planned(state, plan)) }
    }

    /// # Safety
    /// `core` is alive, its state an S, and one of its handles is this one.
    pub(crate) unsafe fn of(core: *const Core) -> Self {
        // SAFETY: the caller's word.
        let about = unsafe { (*core).about() };
        let posts = if about.posts { POSTS } else { 0 };
        let observed = if about.passes.is_some() { OBSERVED } else { 0 };
        let tagged = core.cast_mut().map_addr(|addr| addr | posts | observed);
        Handle(NonNull::new(tagged).expect("a block has an address"), PhantomData)
    }

    /// Do senders post, and not drain?
    #[inline(always)]
    pub(super) fn posts(&self) -> bool {
        self.0.addr().get() & POSTS != 0
    }

    /// May a message be run on the spot, if the mailbox is idle?
    #[inline(always)]
    fn runs_on_the_spot(&self) -> bool {
        self.0.addr().get() & TAGS == 0
    }

    /// Is a message run by `drive` alone?
    #[inline(always)]
    fn is_observed(&self) -> bool {
        self.0.addr().get() & OBSERVED != 0
    }

    #[inline(always)]
    pub(crate) fn ptr(&self) -> *const Core {
        self.0.as_ptr().map_addr(|addr| addr & !TAGS)
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Core {
        // SAFETY: a handle keeps the block (B3).
        unsafe { &*self.ptr() }
    }

    pub(crate) fn storage(&self) -> Storage {
        // SAFETY: this handle keeps the block.
        unsafe { Storage::of(self.ptr()) }
    }

    pub(crate) fn downgrade(&self) -> Weak<S> {
        // SAFETY: this handle keeps the block.
        unsafe { Weak::of(self.ptr()) }
    }

    /// How many handles there are; stale on return.
    pub(crate) fn handles(&self) -> u32 {
        // SAFETY: this handle keeps the block.
        unsafe { counts::handles(self.ptr()) }
    }
}

impl<S: 'static> Handle<S> {
    /// Why nothing is accepted.
    #[cold]
    pub(crate) fn reason(&self, refusal: Refusal) -> Reason {
        match refusal {
            // A long chain is found too long before anything is read.
            Refusal::Full if !self.core().word.load().has(CLOSED) => Reason::Full,
            _ => {
                // The push that was refused read the word Relaxed: FAREWELL shows a STOP that was raised before CLOSED.
                self.core().word.look();
                self.core().stop_cause().map_or(Reason::Closed, Reason::Stopped)
            }
        }
    }

    /// Runs one message of this mailbox, which this thread, inside no turn, has just claimed, and lets go. Everything but the good way is out
    /// of line: the result of a turn that panicked does not stay in registers past the release.
    #[inline(always)]
    fn run_claimed<R>(&self, local: &Local, f: impl FnOnce(&mut S) -> R) -> Result<R, Panic> {
        let core = self.ptr();
        // SAFETY: B1: claimed, so it is ours; the state is there, for a mailbox without one is closed.
        match local.enter_first(core, || catch(|| unsafe { Block::with_state(core, f) })) {
            Ok(value) => {
                if !self.core().word.release_one() {
                    // SAFETY: ours, with nothing private and one turn not settled; this handle keeps the block.
                    unsafe { drive_claimed(core) };
                }
                if local.owes() {
                    run_list_here();
                }
                Ok(value)
            }
            // SAFETY: ours, and the turn has unwound; this handle keeps the block.
            Err(panic) => Err(unsafe { claimed_panicked(core, Place::Outermost, panic) }),
        }
    }

    /// Sends a letter: runs it here if the mailbox is idle and this thread is not inside a turn.
    #[inline]
    pub(crate) fn send<L: Letter<S>>(&self, letter: L) -> Result<(), (L, Reason)> {
        self.send_by(letter, By::Sender)
    }

    /// The same; a full mailbox hands it back, whatever was said at its building.
    #[inline]
    pub(crate) fn try_send<L: Letter<S>>(&self, letter: L) -> Result<(), (L, Reason)> {
        self.send_by(letter, By::Trier)
    }

    #[inline(always)]
    fn send_by<L: Letter<S>>(&self, letter: L, by: By) -> Result<(), (L, Reason)> {
        with_local(|local| {
            let mut seen = Snapshot::IDLE;
            if !local.in_turn() && self.runs_on_the_spot() {
                match self.core().word.claim() {
                    Ok(()) => {
                        // SAFETY: claimed: the turn is this thread's.
                        let here = unsafe { Here::new(self.ptr()) };
                        if let Err(panic) = self.run_claimed(local, |state| letter.run(state, here)) {
                            shrug_off(|| drop(panic));
                        }
                        return Ok(());
                    }
                    Err(now) => seen = now,
                }
            }
            self.post(local, seen, letter, by)
        })
    }

    /// Leaves a letter in the mailbox and never drains here.
    pub(crate) fn enqueue<L: Letter<S>>(&self, letter: L) -> Result<(), (L, Reason)> {
        with_local(|local| self.post(local, Snapshot::IDLE, letter, By::Enqueuer))
    }

    /// Leaves a letter in the mailbox, for another thread to run.
    pub(crate) fn leave<L: Letter<S>>(&self, letter: L) -> Result<(), (L, Reason)> {
        with_local(|local| self.post(local, Snapshot::IDLE, letter, By::Poster))
    }

    /// Sends many letters in one step, in their order: all or none.
    pub(crate) fn send_many<L: Letter<S>>(&self, letters: impl Iterator<Item = L>) -> Result<(), (Vec<L>, Reason)> {
        let mut chain = Chain::<Post<S, L>>::new();
        letters.for_each(|letter| chain.append(Post::new(letter)));
        let Some(links) = chain.links() else { return Ok(()) };
        with_local(|local| match self.push_chain(local, Snapshot::IDLE, links, By::Sender, Worth::Droppable) {
            Ok(()) => {
                chain.forget();
                Ok(())
            }
            Err(reason) => Err((chain.take_back().map(|post| post.letter).collect(), reason)),
        })
    }

    /// Asks: runs the question here if the mailbox is idle and this thread is not inside a turn.
    #[inline]
    pub(crate) fn ask<L: Letter<S>>(&self, letter: L) -> Result<Answer<L::Answer, L::Payload>, (L, Reason)> {
        with_local(|local| {
            let mut seen = Snapshot::IDLE;
            if !local.in_turn() && self.runs_on_the_spot() {
                match self.core().word.claim() {
                    Ok(()) => {
                        // SAFETY: claimed: the turn is this thread's.
                        let here = unsafe { Here::new(self.ptr()) };
                        let answer = self.run_claimed(local, |state| letter.run(state, here));
                        return Ok(Answer::Ready(answer.map_err(|panic| {
                            let text = panic_text(panic.as_ref());
                            shrug_off(|| drop(panic));
                            AskError::Panicked(text)
                        })));
                    }
                    Err(now) => seen = now,
                }
            }
            self.ask_slow(local, seen, letter)
        })
    }

    #[inline(never)]
    fn ask_slow<L: Letter<S>>(&self, local: &Local, seen: Snapshot, letter: L) -> Result<Answer<L::Answer, L::Payload>, (L, Reason)> {
        let (answerer, asker) = cell(Asked::new(letter));
        match self.push(local, seen, Ask::<S, L>::new(answerer), By::Sender, Worth::Kept) {
            Ok(()) => Ok(Answer::Pending(asker, self.storage())),
            Err((mut ask, reason)) => {
                let answerer = ask.answerer.take().expect("a question that was not accepted was not answered");
                Err((answerer.take_back(asker).letter, reason))
            }
        }
    }

    /// Runs a closure and waits for it; it may borrow from the caller.
    ///
    /// # Panics
    /// With the closure's own panic.
    #[inline]
    pub(crate) fn with<F, R>(&self, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        with_local(|local| {
            if local.in_turn() {
                return self.with_nested(local, f);
            }
            if !self.runs_on_the_spot() {
                return self.with_tagged(local, f);
            }
            self.with_claim(local, f)
        })
    }

    #[inline(always)]
    fn with_claim<F, R>(&self, local: &Local, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        match self.core().word.claim() {
            Ok(()) => match self.run_claimed(local, f) {
                Ok(result) => Ok(result),
                Err(panic) => std::panic::resume_unwind(panic),
            },
            Err(seen) => self.with_busy(local, seen, f),
        }
    }

    /// [`with`](Self::with) after a claim that has failed.
    #[inline(never)]
    fn with_busy<F, R>(&self, local: &Local, seen: Snapshot, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        match self.core().word.claim_soon(seen) {
            Ok(()) => self.run_claimed(local, f).map_err(|panic| std::panic::resume_unwind(panic)),
            Err(seen) => self.with_slow(local, Place::Outermost, seen, f),
        }
    }

    /// [`with`](Self::with) of a handle with tags: a waiting caller does not leave his message to an executor, but the hooks of a pass see it.
    #[inline(never)]
    fn with_tagged<F, R>(&self, local: &Local, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        if self.is_observed() { self.with_slow(local, Place::Outermost, Snapshot::IDLE, f) } else { self.with_claim(local, f) }
    }

    /// [`with`](Self::with) on top of a turn.
    #[inline(never)]
    fn with_nested<F, R>(&self, local: &Local, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        if self.is_observed() {
            return self.with_slow(local, Place::Nested, Snapshot::IDLE, f);
        }
        match self.core().word.claim() {
            Ok(()) => self.with_claimed_nested(local, f),
            Err(seen) => self.with_slow(local, Place::Nested, seen, f),
        }
    }

    /// [`with`](Self::with) by a thread that must not wait: only if nobody else runs the mailbox.
    #[cold]
    fn with_unless_busy<F, R>(&self, local: &Local, place: Place, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        if self.is_observed() {
            // What waits comes first, and may stop the actor.
            let ran = self.try_own(|owned| {
                owned.run_waiting();
                (!self.core().side_has(STOP)).then(|| f(owned))
            });
            return match ran {
                Ok(Some(result)) => Ok(result),
                Err(OwnError::Busy) => Err(AskError::WouldBlock),
                _ => Err(self.reason(Refusal::Closed).into()),
            };
        }
        while self.core().word.claim().is_err() {
            if self.core().word.load().has(CLOSED) {
                return Err(self.reason(Refusal::Closed).into());
            }
            if !self.drain() {
                return Err(AskError::WouldBlock);
            }
        }
        match place {
            Place::Nested => self.with_claimed_nested(local, f),
            Place::Outermost => self.run_claimed(local, f).map_err(|panic| std::panic::resume_unwind(panic)),
        }
    }

    /// Runs `f` on the state of this mailbox, which this thread has just claimed, on top of a turn.
    fn with_claimed_nested<F, R>(&self, local: &Local, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        let core = self.ptr();
        // SAFETY: B1: claimed, so it is ours, with its state.
        match local.enter(core, || catch(|| unsafe { Block::with_state(core, f) })) {
            Ok(result) => {
                if !self.core().word.release_one() {
                    // SAFETY: ours, with nothing private and one turn not settled; this handle keeps the block.
                    unsafe { drive(core, Batch::new(), 1, Place::Nested) };
                }
                Ok(result)
            }
            // SAFETY: ours, and the turn has unwound; this handle keeps the block.
            Err(panic) => std::panic::resume_unwind(unsafe { claimed_panicked(core, Place::Nested, panic) }),
        }
    }

    #[inline(never)]
    fn with_slow<F, R>(&self, local: &Local, place: Place, seen: Snapshot, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        if local.is_running(self.ptr()) {
            return Err(AskError::Deadlock);
        }
        // Once the message is in the mailbox, the wait cannot be refused any more.
        let Ok(standing_by) = stand_by() else { return self.with_unless_busy(local, place, f) };
        let mut frame = NodeOf::in_frame(Borrowed::<S, F, R>::new(f));
        let frame = &raw mut frame;
        let node = NodePtr::of_frame(frame);
        // SAFETY: E2: the frame is ours until the push, and from then on both sides use this one pointer.
        let message = unsafe { &*NodeOf::message(frame) };
        let mut seen = seen;
        let entered = loop {
            match self.put_in(local, seen, Links::one(node), By::Waiter, Worth::Kept) {
                Ok(entered) => break entered,
                // Full, but nobody is at it: this caller would wait anyway, so he makes the room.
                Err(Refusal::Full) if self.drain() => seen = Snapshot::IDLE,
                Err(refusal) => return Err(self.reason(refusal).into()),
            }
        };
        // Leaving this frame before the message is done would leave a dangling node in the mailbox.
        let stay = AbortOnUnwind;
        // SAFETY: the duty is that of this push.
        unsafe { self.perform(local, (place, DrainedBy::Waiter), entered.duty, entered.top) };
        if !message.is_done() {
            Self::wait_for(local, message, standing_by);
        }
        std::mem::forget(stay);
        match message.take() {
            Outcome::Returned(result) => Ok(result),
            Outcome::Panicked(panic) => std::panic::resume_unwind(panic),
            Outcome::NotRun(reason) => Err(reason.into()),
        }
    }

    fn wait_for<F, R>(local: &Local, message: &Borrowed<S, F, R>, standing_by: StandBy)
    where
        F: FnOnce(&mut S) -> R,
    {
        if hint::done_soon(|| message.is_done()) {
            return;
        }
        let _away = standing_by.relieve(local);
        if message.sleep(thread::current()) {
            while !message.is_done() {
                thread::park();
            }
        }
    }

    /// Takes no new messages; those that were accepted are run. False if it was closed already.
    pub(crate) fn close(&self) -> bool {
        // SAFETY: this handle keeps the block throughout.
        unsafe { raise(self.ptr(), CLOSED, false) }
    }

    /// Closes the mailbox if nothing runs or waits in it.
    pub(crate) fn close_if_idle(&self) -> bool {
        // SAFETY: as in `close`.
        unsafe { raise(self.ptr(), CLOSED, true) }
    }

    /// Takes no new messages; those that were accepted are given back.
    pub(crate) fn stop(&self) -> bool {
        let first = self.core().raise_stop();
        self.close();
        first
    }

    /// Drains what is parked here, now; false if there was nothing to take over.
    pub(crate) fn drain(&self) -> bool {
        // SAFETY: this handle keeps the block.
        unsafe { drain_here(self.ptr(), DrainedBy::Caller) }
    }
}

impl<S> Clone for Handle<S> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: this handle is one.
        unsafe { counts::retain_handle(self.ptr()) };
        Handle(self.0, PhantomData)
    }
}

impl<S> Drop for Handle<S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this handle is one, and is not used again.
        if unsafe { counts::release_handle(self.ptr()) } {
            // SAFETY: the handles' storage is there until the one who ends the actor gives it up: that may be this call, or the owner.
            unsafe { raise(self.ptr(), ORPHAN, false) };
        }
    }
}

/// Raises CLOSED or ORPHAN and does what that leaves owing; false if the word was not changed.
///
/// # Safety
/// The caller keeps the block of `core` until the step: by a handle, or by the handles' storage (ORPHAN), which he then does not use again.
#[inline(never)]
unsafe fn raise(core: *const Core, flag: u64, only_if_idle: bool) -> bool {
    with_local(|local| {
        // SAFETY: the block is there until the step.
        let this = unsafe { &*core };
        let nested = local.in_turn();
        let carries = this.about().posts;
        let parks = nested || carries;
        if parks {
            // SAFETY: the block is there until the step. After it, this storage keeps it.
            unsafe { counts::retain_storage(core) };
        }
        let lists = nested && !carries && local.reserve(core);
        let entry = if parks { Entry::Park } else { Entry::Drain };
        let raised = if only_if_idle { this.word.raise_if_idle(flag, entry) } else { this.word.raise(flag, entry) };
        match raised {
            Some((Duty::Carry, _)) if lists => local.list(core),
            // SAFETY: retained above; the carrier holds its own.
            Some((Duty::Carry, _)) if carries => unsafe {
                carry(core);
                counts::release_storage(core);
            },
            // SAFETY: retained above.
            _ if parks => unsafe { counts::release_storage(core) },
            Some((Duty::Drain, _)) => {
                // SAFETY: from idle: it is ours, and the step counted for one turn, which is none.
                unsafe { drive(core, Batch::new(), 1, Place::Outermost) };
            }
            Some((Duty::TakeOver, before)) => {
                // SAFETY: from parked: it is ours, with this private list.
                unsafe { drive(core, taken_over(this, before.head()), 0, Place::Outermost) };
            }
            _ => {}
        }
        if !nested && local.owes() {
            run_list(local);
        }
        raised.is_some()
    })
}

/// Aborts when it is dropped: the frame it guards must not be left.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Goes on with a claimed mailbox that could not be released after its first turn.
///
/// # Safety
/// The caller owns the mailbox of `core`, with nothing private and one turn not settled, is inside no turn, and keeps the block.
#[cold]
#[inline(never)]
unsafe fn drive_claimed(core: *const Core) {
    // SAFETY: the caller's word.
    unsafe { drive(core, Batch::new(), 1, Place::Outermost) }
}

/// Does what a panic in the first turn of a claimed mailbox leaves owing, and lets go.
///
/// # Safety
/// The caller owns the mailbox of `core`, with nothing private and one turn not settled, and keeps the block.
#[cold]
#[inline(never)]
unsafe fn claimed_panicked(core: *const Core, place: Place, panic: Panic) -> Panic {
    with_local(|local| {
        // SAFETY: the caller's word.
        unsafe {
            local.enter(core, || after_panic(core, panic.as_ref()));
            drive(core, Batch::new(), 1, place);
        }
        if place == Place::Outermost && local.owes() {
            run_list(local);
        }
    });
    panic
}

/// Runs this thread's list.
#[cold]
#[inline(never)]
fn run_list_here() {
    with_local(run_list);
}
