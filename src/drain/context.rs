//! What this thread is running, and which mailboxes it has promised to run next.
//!
//! A turn never starts inside another one by a send. A send from inside a turn leaves the idle
//! mailbox it meets pending and defers it here (R9); the outermost drain's end runs the list
//! ([`super::deferred`]), so a chain of any length runs in constant stack and in the order sent.
//!
//! - F1: `top` is the innermost frame of this thread; the frames below hang on `prev`. Frames are
//!   pushed and popped in stack order, also when `enter` unwinds. A frame without a mailbox stands
//!   for work of the crate's own, which nothing may run on top of: calling an executor, running the
//!   list.
//! - F2: the list is empty whenever `top` is null, but on the way to running it.
//! - F3: an entry holds a reference (never a handle) and is a hint: whoever runs it must first take
//!   the mailbox over. A mailbox stands at most once in one thread's list.
//!
//! The first [`RING`] entries lie in the thread-local itself, which has no destructor; more spill
//! into an allocation that lives until the list is empty.

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr::{NonNull, null, null_mut};

use crate::cell::refs::Ref;
use crate::sync::thread_plain;

const RING: usize = 8;

/// What stands for a mailbox in a frame of the crate's own work.
const WORK: usize = 0;
/// The same, where the list is run: the drains on top of it are this thread's outermost ones.
const LIST: usize = 1;

/// One mailbox that this thread owns and runs, by its address.
struct Frame {
    mailbox: usize,
    prev: *const Frame,
}

#[derive(Default)]
struct Spill {
    queue: VecDeque<Ref>,
    listed: HashSet<usize, BuildHasherDefault<Spread>>,
}

/// Addresses are told apart by a multiplication; nobody chooses them to collide.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, addr: usize) {
        self.0 = (self.0 ^ addr as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What a caller knows of this thread's frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Depth {
    /// Nothing.
    Any,
    /// There are none.
    Outside,
}

/// This thread's part.
pub(crate) struct Local {
    top: Cell<*const Frame>,
    len: Cell<usize>,
    first: Cell<usize>,
    ring: [Cell<*mut ()>; RING],
    in_ring: Cell<usize>,
    spill: Cell<*mut Spill>,
    about_to_block: Cell<bool>,
}

thread_plain! {
    static LOCAL: Local = Local {
        top: Cell::new(null()),
        len: Cell::new(0),
        first: Cell::new(0),
        ring: [const { Cell::new(null_mut()) }; RING],
        in_ring: Cell::new(0),
        spill: Cell::new(null_mut()),
        about_to_block: Cell::new(false),
    };
}

/// Calls `f` with this thread's part.
#[inline(always)]
pub(crate) fn with_local<R>(f: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(f)
}

impl Local {
    /// Is this thread inside a turn (or whatever else must not be interrupted by one)?
    #[inline(always)]
    pub(crate) fn in_turn(&self) -> bool {
        !self.top.get().is_null()
    }

    /// Is it inside work of the crate's own, with no turn on top of that?
    pub(crate) fn is_at_work(&self) -> bool {
        // SAFETY: F1: the frame is on this thread's stack, below us.
        unsafe { self.top.get().as_ref() }.is_some_and(|frame| frame.mailbox <= LIST)
    }

    /// Would a drain that begins here be this thread's outermost one?
    pub(crate) fn is_outermost(&self) -> bool {
        // SAFETY: F1, as above.
        unsafe { self.top.get().as_ref() }.is_none_or(|frame| frame.mailbox == LIST)
    }

    /// Is this thread running that mailbox, at any depth?
    pub(crate) fn is_running(&self, mailbox: usize) -> bool {
        let mut at = self.top.get();
        // SAFETY: F1: every frame on the chain is on this thread's stack, below us.
        while let Some(frame) = unsafe { at.as_ref() } {
            if frame.mailbox == mailbox {
                return true;
            }
            at = frame.prev;
        }
        false
    }

    /// The mailboxes that this thread is running, the innermost first.
    pub(crate) fn running(&self) -> impl Iterator<Item = usize> + '_ {
        let mut at = self.top.get();
        let next = std::iter::from_fn(move || {
            // SAFETY: F1: every frame on the chain is on this thread's stack, below whoever asks;
            // the thread-local that is borrowed here does not leave the thread.
            let frame = unsafe { at.as_ref() }?;
            at = frame.prev;
            Some(frame.mailbox)
        });
        next.filter(|mailbox| *mailbox > LIST)
    }

    /// Runs `f` with a mailbox as the innermost one.
    #[inline(always)]
    pub(crate) fn enter<R>(&self, mailbox: usize, f: impl FnOnce() -> R) -> R {
        self.enter_from(Depth::Any, mailbox, f)
    }

    /// The same by a caller that knows how deep this thread is.
    #[inline(always)]
    pub(crate) fn enter_from<R>(&self, depth: Depth, mailbox: usize, f: impl FnOnce() -> R) -> R {
        let prev = match depth {
            Depth::Any => self.top.get(),
            Depth::Outside => null(),
        };
        debug_assert!(prev == self.top.get(), "the frames below would be lost");
        /// Pops the frame, also when `f` unwinds (F1).
        struct Pop<'a>(&'a Cell<*const Frame>, *const Frame);
        impl Drop for Pop<'_> {
            #[inline(always)]
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let frame = Frame { mailbox, prev };
        let _pop = Pop(&self.top, frame.prev);
        self.top.set(&raw const frame);
        f()
    }

    /// Runs work of the crate's own that no turn may run on top of.
    pub(crate) fn work<R>(&self, f: impl FnOnce() -> R) -> R {
        self.enter(WORK, f)
    }

    /// Runs the list.
    pub(crate) fn run_list<R>(&self, f: impl FnOnce() -> R) -> R {
        self.enter(LIST, f)
    }

    /// Schedules by `f`: what this thread has deferred, because it is about to sleep, or not.
    pub(crate) fn about_to_block(&self, blocks: bool, f: impl FnOnce()) {
        let before = self.about_to_block.replace(blocks);
        f();
        self.about_to_block.set(before);
    }

    /// Does it schedule right now what it has deferred, because it is about to sleep? Then what it
    /// schedules must not wait for it.
    pub(crate) fn is_about_to_block(&self) -> bool {
        self.about_to_block.get()
    }

    /// Does the list have an entry?
    #[inline(always)]
    pub(crate) fn owes(&self) -> bool {
        self.len.get() > 0
    }

    /// How many entries there are.
    pub(crate) fn owed(&self) -> usize {
        self.len.get()
    }

    /// Calls `f` with the spilled part, if there is one.
    fn with_spill<R>(&self, f: impl FnOnce(&mut Spill) -> R) -> Option<R> {
        // SAFETY: `spill` is null or a box of ours, reached by this thread only; `f` is ours too,
        // and does not come back here.
        unsafe { self.spill.get().as_mut() }.map(f)
    }

    fn is_listed(&self, mailbox: usize) -> bool {
        let at = |i: usize| self.ring[(self.first.get() + i) % RING].get().addr();
        (0..self.in_ring.get()).any(|i| at(i) == mailbox)
            || self.with_spill(|spill| spill.listed.contains(&mailbox)) == Some(true)
    }

    /// Puts a pending mailbox at the end of the list, unless it stands there already.
    pub(crate) fn defer(&self, cell: Ref) {
        self.defer_by(cell.addr(), || cell);
    }

    /// The same, with a reference that is made if it is needed.
    #[inline]
    pub(crate) fn defer_by(&self, mailbox: usize, cell: impl FnOnce() -> Ref) {
        if !self.is_listed(mailbox) {
            self.append(cell());
        }
    }

    fn append(&self, cell: Ref) {
        self.len.set(self.len.get() + 1);
        if self.in_ring.get() < RING && self.spill.get().is_null() {
            self.ring[(self.first.get() + self.in_ring.get()) % RING].set(cell.into_raw());
            self.in_ring.set(self.in_ring.get() + 1);
            return;
        }
        if self.spill.get().is_null() {
            self.spill.set(Box::into_raw(Box::default()));
        }
        self.with_spill(|spill| {
            spill.listed.insert(cell.addr());
            spill.queue.push_back(cell);
        });
    }

    /// Takes the first entry.
    pub(crate) fn next_deferred(&self) -> Option<Ref> {
        let len = self.len.get().checked_sub(1)?;
        self.len.set(len);
        let cell = if self.in_ring.get() > 0 {
            let first = self.first.get();
            self.first.set((first + 1) % RING);
            self.in_ring.set(self.in_ring.get() - 1);
            // SAFETY: an entry of the ring came from `into_raw`, and is taken out once.
            NonNull::new(self.ring[first].get()).map(|raw| unsafe { Ref::from_raw(raw) })
        } else {
            self.with_spill(|spill| {
                let cell = spill.queue.pop_front()?;
                spill.listed.remove(&cell.addr());
                Some(cell)
            })
            .flatten()
        };
        if len == 0 {
            let spill = self.spill.replace(null_mut());
            if !spill.is_null() {
                // SAFETY: it is a box of ours, taken out once; the list is empty.
                drop(unsafe { Box::from_raw(spill) });
            }
        }
        cell
    }
}
