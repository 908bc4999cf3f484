//! The state of a thread: its current turn, and the mailboxes it has promised to run next.
//!
//! A turn never starts inside another one by a send. A send from inside a turn leaves the idle
//! mailbox it meets pending and defers it here (MAILBOX-9); the outermost drain's end runs the list
//! ([`crate::turn::deferred`]), so a chain of any length runs in constant stack and in the order
//! sent.
//!
//! - CONTEXT-1: `top` is the innermost frame of this thread; the frames below hang on `prev`.
//!   Frames are pushed and popped in stack order, also when `enter` unwinds.
//! - CONTEXT-2: a frame stands for a mailbox for as long as the right to run it ([`Held`]) is
//!   borrowed, or kept in a [`LentClaim`], and no longer. So nothing can let the mailbox go, or
//!   free its cell, while a frame says that it is this thread's.
//! - CONTEXT-3: a frame without a mailbox is work of the crate's own: it calls an executor or runs
//!   the list, and no drain runs on top of it; or it is the ground of a drain ([`Local::drive`]),
//!   which has let its mailbox go or is about to; or it says that the turn below waits for the
//!   drain on top ([`Local::wait`]). An executor that is called may run a turn, and in that the
//!   drain. So a [`Drain`](crate::Drain) is run in no turn on top of such a call either: the
//!   executor would be called again on top of it, and the stack would grow with the messages.
//! - CONTEXT-4: the list is empty whenever `top` is null, but on the way to running it.
//! - CONTEXT-5: the list holds entries of mailboxes, and beside it stand hints: references (never
//!   handles) to mailboxes whose entry is elsewhere, and perhaps with a thread that is busy for
//!   long. To run either takes the mailbox over first. Hints are run when the list is empty. So
//!   one too many is stale by then, and changes no order: nothing that is pending then stands in
//!   the list. But a list that is never empty (actors that send to each other for ever) must not
//!   keep them waiting: when its budget is spent, they go to its end.

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, null, null_mut, without_provenance};

use crate::cell::header::{Header, Held};
use crate::cell::owner::Claimed;
use crate::cell::refs::{Queued, Ref};
use crate::sync::thread_plain;

const RING: usize = 32;
const HINTS: usize = 8;
/// Mailboxes that are known to stand in the list.
const KNOWN: usize = 64;

/// In place of a mailbox: work of the crate's own.
const WORK: *const Header = null();
/// Work of the crate's own that runs the list: drains on top of it are this thread's outermost
/// ones.
const LIST: *const Header = without_provenance(1);
/// Work of the crate's own that calls an executor.
const EXECUTE: *const Header = without_provenance(2);
/// The ground of a drain, which stands for its mailbox only while that is lent to it.
const GROUND: *const Header = without_provenance(3);
/// A turn waits for the drain on top of it, without a limit.
const WAIT: *const Header = without_provenance(4);

/// One level of what this thread is inside of: a mailbox that it owns, or work of the crate's own.
pub(crate) struct Frame {
    mailbox: Cell<*const Header>,
    prev: *const Frame,
}

/// The right to run a mailbox, for the time that a [`Frame`] stands for it.
pub(crate) struct LentClaim(Claimed);

impl LentClaim {
    #[inline(always)]
    pub(crate) fn claimed(&self) -> &Claimed {
        &self.0
    }
}

impl Frame {
    /// Runs `f` with the frame standing for this mailbox. `of` is borrowed meanwhile, so `f` cannot
    /// let the mailbox go (CONTEXT-2).
    #[inline(always)]
    pub(crate) fn lend<O: Held, R>(&self, of: &mut O, f: impl FnOnce(&mut O) -> R) -> R {
        let _back = Reset(&self.mailbox, self.mailbox.replace(of.cell()));
        f(of)
    }

    /// The frame of the list stands for this mailbox until the right comes back.
    #[inline(always)]
    pub(crate) fn lend_to(&self, claimed: Claimed) -> LentClaim {
        self.mailbox.set(claimed.cell());
        LentClaim(claimed)
    }

    /// The frame stands for the list again.
    #[inline(always)]
    pub(crate) fn take_back(&self, LentClaim(claimed): LentClaim) -> Claimed {
        self.mailbox.set(LIST);
        claimed
    }

    /// A right that was lent is lost: the list's own step has failed.
    #[cold]
    pub(crate) fn forget_lent(&self) {
        self.mailbox.set(LIST);
    }

    /// True if it is work of the crate's own, which no drain runs on top of.
    fn is_work(&self) -> bool {
        self.mailbox.get().addr() <= EXECUTE.addr()
    }

    /// The mailbox that it stands for.
    fn mailbox(&self) -> Option<NonNull<Header>> {
        let mailbox = self.mailbox.get();
        NonNull::new(mailbox.cast_mut()).filter(|at| at.addr().get() > WAIT.addr())
    }
}

/// Sets a pointer back when it is dropped, also when what it guards unwinds.
struct Reset<'a, T>(&'a Cell<*const T>, *const T);

impl<T> Drop for Reset<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// A caller's knowledge of this thread's frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Depth {
    /// Nothing.
    Any,
    /// There are none.
    Outside,
}

/// The destination of what an executor runs, or drops, in the call that gives it a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// This thread runs it when it is inside no turn.
    Here,
    /// The fallback: this call must run no user code of an actor.
    Elsewhere,
    /// The fallback: this thread is about to sleep, perhaps for just that.
    Blocks,
}

/// An entry, or a hint, that is about to stand in the list's allocation.
#[must_use = "it is lost with its mailbox"]
pub(crate) struct Far(NonNull<()>);

/// Entries that do not fit into the thread-local.
type Allocation = Box<VecDeque<NonNull<()>>>;

/// A queue whose first places lie in the thread-local itself; the others are an allocation that
/// lives until the list has been run or given away.
struct Fifo<const N: usize> {
    first: Cell<usize>,
    near: Cell<usize>,
    /// The number of places in the thread-local: none while the queue is closed.
    places: Cell<usize>,
    ring: [Cell<*mut ()>; N],
    /// True if something is in the allocation.
    is_far: Cell<bool>,
    /// Dropped by no thread's end: it is empty then.
    far: Cell<Option<ManuallyDrop<Allocation>>>,
}

impl<const N: usize> Fifo<N> {
    const fn new() -> Self {
        let ring = [const { Cell::new(null_mut()) }; N];
        let (first, near, places) = (Cell::new(0), Cell::new(0), Cell::new(N));
        let (is_far, far) = (Cell::new(false), Cell::new(None));
        Fifo { first, near, places, ring, is_far, far }
    }

    /// False if the queue is closed: it is to be emptied now.
    #[inline]
    fn push(&self, raw: NonNull<()>) -> bool {
        self.push_near(raw) || self.push_far(raw)
    }

    /// False, with nothing done, if it has to go to the allocation.
    #[inline]
    fn push_near(&self, raw: NonNull<()>) -> bool {
        let near = self.near.get();
        let fits = near < self.places.get() && !self.is_far.get();
        if fits {
            self.ring[(self.first.get() + near) % N].set(raw.as_ptr());
            self.near.set(near + 1);
        }
        fits
    }

    /// False if the queue is closed.
    #[cold]
    #[inline(never)]
    fn push_far(&self, raw: NonNull<()>) -> bool {
        let mut far = self.far.take().unwrap_or_default();
        far.push_back(raw);
        self.far.set(Some(far));
        self.is_far.set(true);
        self.places.get() > 0
    }

    fn close(&self, closed: bool) {
        self.places.set(if closed { 0 } else { N });
    }

    #[inline]
    fn pop(&self) -> Option<NonNull<()>> {
        let Some(left) = self.near.get().checked_sub(1) else { return self.pop_far() };
        let first = self.first.get();
        self.first.set((first + 1) % N);
        self.near.set(left);
        NonNull::new(self.ring[first].get())
    }

    fn pop_far(&self) -> Option<NonNull<()>> {
        let mut far = self.far.take()?;
        let raw = far.pop_front();
        self.is_far.set(!far.is_empty());
        self.far.set(Some(far));
        raw
    }

    /// Gives the allocation back, if it is empty.
    fn tidy(&self) {
        if !self.is_far.get() {
            self.far.take().into_iter().for_each(|far| drop(ManuallyDrop::into_inner(far)));
        }
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.near.get() == 0 && !self.is_far.get()
    }
}

/// This thread's part.
pub(crate) struct Local {
    top: Cell<*const Frame>,
    /// Entries and hints.
    owed: Cell<usize>,
    list: Fifo<RING>,
    hints: Fifo<HINTS>,
    known: [Cell<usize>; KNOWN],
    leaves: Cell<Leaves>,
}

thread_plain! {
    static LOCAL: Local = Local {
        top: Cell::new(null()),
        owed: Cell::new(0),
        list: Fifo::new(),
        hints: Fifo::new(),
        known: [const { Cell::new(0) }; KNOWN],
        leaves: Cell::new(Leaves::Here),
    };
}

/// Calls `f` with this thread's part.
#[inline(always)]
pub(crate) fn with_local<R>(f: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(f)
}

impl Local {
    /// True if this thread is inside a turn, or whatever else must not be interrupted by one.
    #[inline(always)]
    pub(crate) fn in_turn(&self) -> bool {
        !self.top.get().is_null()
    }

    /// True if it is inside work of the crate's own, with no turn on top of that.
    pub(crate) fn is_at_work(&self) -> bool {
        self.frames().next().is_some_and(Frame::is_work)
    }

    /// True if a drain that is run here has to wait until this thread is inside no turn
    /// (CONTEXT-3).
    pub(crate) fn defers_drains(&self) -> bool {
        self.is_at_work() || self.frames().any(|frame| frame.mailbox.get() == EXECUTE)
    }

    /// True if a drain that begins here would be this thread's outermost one.
    pub(crate) fn is_outermost(&self) -> bool {
        self.frames().next().is_none_or(|frame| frame.mailbox.get() == LIST)
    }

    /// True if this thread is running that mailbox, at any depth.
    pub(crate) fn is_running(&self, mailbox: usize) -> bool {
        self.running().any(|running| running == mailbox)
    }

    /// The mailboxes that this thread is running, the innermost first.
    pub(crate) fn running(&self) -> impl Iterator<Item = usize> + '_ {
        self.frames().filter_map(Frame::mailbox).map(|mailbox| mailbox.addr().get())
    }

    /// True if this thread's innermost turn, which is about to lie down, keeps that mailbox from
    /// going on: it is its own, or a turn of it, at any depth, waits for this one. Other turns
    /// below go on when this one lies down.
    pub(crate) fn is_kept_by_innermost(&self, mailbox: usize) -> bool {
        let mut frames = self.frames();
        let is_own = |frame: &Frame| frame.mailbox().is_some_and(|at| at.addr().get() == mailbox);
        frames.next().is_some_and(is_own)
            || frames.next().is_some_and(|frame| frame.mailbox.get() == WAIT) && frames.any(is_own)
    }

    /// References to the mailboxes that this thread is running, the innermost first.
    pub(crate) fn held_up(&self) -> Vec<Ref> {
        let mailboxes = self.frames().filter_map(Frame::mailbox);
        // SAFETY: CONTEXT-2: the right to run it is borrowed by a function below us, so the cell is
        // alive.
        mailboxes.map(|mailbox| unsafe { Ref::retain_at(mailbox) }).collect()
    }

    /// The frames, the innermost first.
    fn frames(&self) -> impl Iterator<Item = &Frame> {
        let mut at = self.top.get();
        std::iter::from_fn(move || {
            // SAFETY: CONTEXT-1: every frame on the chain is on this thread's stack, below the
            // caller; the thread-local that is borrowed here does not leave the thread.
            let frame = unsafe { at.as_ref() }?;
            at = frame.prev;
            Some(frame)
        })
    }

    /// Runs `f` inside of a mailbox. `of` is borrowed meanwhile, so `f` cannot let the mailbox go
    /// (CONTEXT-2).
    #[inline(always)]
    pub(crate) fn enter<O: Held, R>(&self, of: &mut O, f: impl FnOnce(&mut O) -> R) -> R {
        self.enter_from(Depth::Any, of, f)
    }

    /// [`enter`](Self::enter) by a caller that knows how deep this thread is.
    #[inline(always)]
    pub(crate) fn enter_from<O: Held, R>(
        &self,
        depth: Depth,
        of: &mut O,
        f: impl FnOnce(&mut O) -> R,
    ) -> R {
        let frame = self.frame(depth, of.cell());
        let _pop = self.push(&frame);
        f(of)
    }

    /// A frame to be pushed on top of the others.
    #[inline(always)]
    fn frame(&self, depth: Depth, mailbox: *const Header) -> Frame {
        let prev = match depth {
            Depth::Any => self.top.get(),
            Depth::Outside => null(),
        };
        debug_assert!(prev == self.top.get(), "the frames below would be lost");
        Frame { mailbox: Cell::new(mailbox), prev }
    }

    /// The frame is the innermost one, until the result is dropped.
    #[inline(always)]
    fn push<'a>(&'a self, frame: &'a Frame) -> Reset<'a, Frame> {
        self.top.set(frame);
        Reset(&self.top, frame.prev)
    }

    /// Runs `f` with a frame on top of the others that stands for no mailbox yet.
    #[inline(always)]
    fn pushed<R>(&self, mailbox: *const Header, f: impl FnOnce(&Frame) -> R) -> R {
        let frame = self.frame(Depth::Any, mailbox);
        let _pop = self.push(&frame);
        f(&frame)
    }

    /// Runs work of the crate's own that no drain may run on top of.
    pub(crate) fn work<R>(&self, f: impl FnOnce() -> R) -> R {
        self.pushed(WORK, |_| f())
    }

    /// Calls an executor.
    pub(crate) fn execute<R>(&self, f: impl FnOnce() -> R) -> R {
        self.pushed(EXECUTE, |_| f())
    }

    #[inline]
    pub(crate) fn run_list<R>(&self, f: impl FnOnce(&Frame) -> R) -> R {
        self.pushed(LIST, f)
    }

    /// Runs a drain that the turn below waits for, if there is one.
    pub(crate) fn wait<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.in_turn() { self.pushed(WAIT, |_| f()) } else { f() }
    }

    /// Runs a drain, which lends the frame to its mailbox for its turns.
    #[inline(always)]
    pub(crate) fn drive<R>(&self, f: impl FnOnce(&Frame) -> R) -> R {
        self.pushed(GROUND, f)
    }

    /// Schedules by `f`, which leaves what an executor gives back in the call to this.
    pub(crate) fn leaving(&self, to: Leaves, f: impl FnOnce()) {
        let before = self.leave_to(to);
        f();
        self.leave_to(before);
    }

    /// Schedules by `f`; what an executor gives back in the call does not run on this thread.
    pub(crate) fn leaving_elsewhere(&self, f: impl FnOnce()) {
        // The list of a thread that is about to sleep stays closed.
        let to = match self.leaves() {
            Leaves::Blocks => Leaves::Blocks,
            Leaves::Here | Leaves::Elsewhere => Leaves::Elsewhere,
        };
        self.leaving(to, f);
    }

    /// Leaves what an executor gives back in a call to this, from now on. A thread that is about to
    /// sleep keeps nothing: its list is closed.
    pub(crate) fn leave_to(&self, to: Leaves) -> Leaves {
        self.list.close(to == Leaves::Blocks);
        self.hints.close(to == Leaves::Blocks);
        self.leaves.replace(to)
    }

    /// The destination of what an executor runs or drops in the call that schedules it.
    pub(crate) fn leaves(&self) -> Leaves {
        self.leaves.get()
    }

    /// True if the list has an entry. Hints wait until it has none.
    #[inline(always)]
    pub(crate) fn owes(&self) -> bool {
        !self.list.is_empty()
    }

    /// True if there is anything to run, entries or hints.
    #[inline(always)]
    pub(crate) fn owes_anything(&self) -> bool {
        self.owed.get() > 0
    }

    /// The number of things that the thread owes.
    pub(crate) fn owed(&self) -> usize {
        self.owed.get()
    }

    /// The cell with the mailbox that is known to stand in the list, or among the hints.
    #[inline]
    fn known(&self, mailbox: usize) -> &Cell<usize> {
        // Allocations are sixteen bytes apart at least; a small cell takes 48.
        &self.known[(mailbox >> 4 ^ mailbox >> 10) % KNOWN]
    }

    /// True if a mailbox is known to stand in the list or among the hints.
    #[inline]
    pub(crate) fn knows(&self, mailbox: usize) -> bool {
        self.known(mailbox).get() == mailbox
    }

    /// The list has been run, or given away: the memory that it took is given back.
    pub(crate) fn tidy(&self) {
        self.list.tidy();
        self.hints.tidy();
    }

    /// Puts a hint among the hints, unless its mailbox is known to stand somewhere. The reference
    /// is made if it is needed. False if the list is closed.
    #[inline]
    #[must_use = "what stands in a closed list is to be handed off"]
    pub(crate) fn hint_by(&self, mailbox: usize, cell: impl FnOnce() -> Ref) -> bool {
        let known = self.known(mailbox);
        if known.replace(mailbox) == mailbox {
            return true;
        }
        self.owed.set(self.owed.get() + 1);
        self.hints.push(Queued::Hint(cell()).into_raw())
    }

    /// Puts an entry, or a hint, at the end of the list, by `far` if it does not lie in the
    /// thread-local.
    #[inline]
    pub(crate) fn append(&self, queued: Queued, far: impl FnOnce(Far)) {
        self.known(queued.addr()).set(queued.addr());
        self.owed.set(self.owed.get() + 1);
        let raw = queued.into_raw();
        if !self.list.push_near(raw) {
            far(Far(raw));
        }
    }

    /// Puts it there. False if the list is closed.
    #[must_use = "what stands in a closed list is to be handed off"]
    pub(crate) fn append_far(&self, Far(raw): Far) -> bool {
        self.list.push_far(raw)
    }

    /// Puts the hints at the end of the list: they have waited for its end for long.
    pub(crate) fn age_hints(&self) {
        while let Some(raw) = self.hints.pop() {
            let _ = self.list.push(raw);
        }
    }

    /// Takes the first entry; the first hint, if there is no entry.
    #[inline(always)]
    pub(crate) fn next_deferred(&self) -> Option<Queued> {
        let left = self.owed.get().checked_sub(1)?;
        let raw = self.list.pop().or_else(|| self.hints.pop())?;
        self.owed.set(left);
        // SAFETY: it came from `into_raw`, and is taken out once.
        let queued = unsafe { Queued::from_raw(raw) };
        let known = self.known(queued.addr());
        if known.get() == queued.addr() {
            known.set(0);
        }
        Some(queued)
    }
}
