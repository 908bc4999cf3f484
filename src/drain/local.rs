//! What this thread is running, and which mailboxes it has promised to run next.
//!
//! A turn never starts inside another one by a send. A send from inside a turn parks the idle mailbox it meets and lists it here (R9);
//! the outermost loop runs the list when its own turn is over, so a chain of any length runs in constant stack and in the order sent.
//!
//! - F4: the address of a frame's mailbox has its lowest bit set if the frame is the first part of a [`Drained`].
//! - F1: `top` is the innermost mailbox that this thread owns and is running, the frames below hang on `prev`. Frames are pushed and popped
//!   in stack order, also when a turn unwinds.
//! - F2: the list is empty whenever `top` is null, but inside [`run_list`](super::turns::run_list).
//! - F3: an entry holds storage (never a handle) and is a hint: whoever runs it must first win the mailbox by clearing PARKED. A mailbox
//!   stands at most once in one thread's list.
//!
//! The first [`RING`] entries lie in the thread-local itself, which has no destructor; more spill into an allocation that lives until
//! the list is empty.

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr::{null, null_mut};

use super::block::Core;
use super::budget::Meter;
use crate::sync::thread_plain;

const RING: usize = 8;

/// One mailbox that this thread owns and runs.
#[repr(C)]
pub(crate) struct Frame {
    /// With [`METERED`] in its lowest bit (F4).
    core: *const Core,
    prev: *const Frame,
}

/// The frame of a drain, which has a budget.
#[repr(C)]
struct Drained<'a> {
    frame: Frame,
    meter: &'a Meter,
}

const METERED: usize = 1;
const _: () = assert!(align_of::<Core>() > METERED);

impl Frame {
    fn core(&self) -> *const Core {
        self.core.map_addr(|addr| addr & !METERED)
    }
}

#[derive(Default)]
struct Spill {
    queue: VecDeque<*const Core>,
    listed: HashSet<*const Core, BuildHasherDefault<Spread>>,
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

/// This thread's part.
pub(crate) struct Local {
    top: Cell<*const Frame>,
    len: Cell<usize>,
    first: Cell<usize>,
    ring: [Cell<*const Core>; RING],
    in_ring: Cell<usize>,
    spill: Cell<*mut Spill>,
}

thread_plain! {
    static LOCAL: Local = Local {
        top: Cell::new(null()),
        len: Cell::new(0),
        first: Cell::new(0),
        ring: [const { Cell::new(null()) }; RING],
        in_ring: Cell::new(0),
        spill: Cell::new(null_mut()),
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

    /// Is this thread running that mailbox, at any depth?
    pub(crate) fn is_running(&self, core: *const Core) -> bool {
        let mut at = self.top.get();
        // SAFETY: F1: every frame on the chain is on this thread's stack, below us.
        while let Some(frame) = unsafe { at.as_ref() } {
            if frame.core() == core {
                return true;
            }
            at = frame.prev;
        }
        false
    }

    /// Runs `f` with `core` as the innermost mailbox. `f` does not unwind: user code in it is caught.
    #[inline(always)]
    pub(crate) fn enter<R>(&self, core: *const Core, f: impl FnOnce() -> R) -> R {
        let frame = Frame { core, prev: self.top.get() };
        self.top.set(&raw const frame);
        let result = f();
        self.top.set(frame.prev);
        result
    }

    /// [`enter`](Self::enter) for a drain, whose turns find its meter.
    #[inline(always)]
    pub(crate) fn enter_drain<R>(&self, core: *const Core, meter: &Meter, f: impl FnOnce() -> R) -> R {
        let frame = Frame { core: core.map_addr(|addr| addr | METERED), prev: self.top.get() };
        let drained = Drained { frame, meter };
        // Of the whole, so that the meter may be reached by it.
        self.top.set((&raw const drained).cast());
        let result = f();
        self.top.set(drained.frame.prev);
        result
    }

    /// Calls `f` with the drain that this thread's innermost turn belongs to. A turn that its own caller runs before any drain begins
    /// belongs to none.
    pub(crate) fn with_drain<R>(&self, f: impl FnOnce(&Meter, &Core) -> R) -> Option<R> {
        // SAFETY: F1: a frame on this thread's stack, below us.
        let top = unsafe { self.top.get().as_ref() }?;
        if top.core.addr() & METERED == 0 {
            return None;
        }
        // SAFETY: F4 and F1: it is the first part of that, which lies on this thread's stack, below us.
        let meter = unsafe { (*self.top.get().cast::<Drained<'_>>()).meter };
        // SAFETY: the drain owns the mailbox, so its block is there.
        Some(f(meter, unsafe { &*top.core() }))
    }

    /// [`enter`](Self::enter) on a thread that is inside no turn.
    #[inline(always)]
    pub(crate) fn enter_first<R>(&self, core: *const Core, f: impl FnOnce() -> R) -> R {
        debug_assert!(!self.in_turn());
        let frame = Frame { core, prev: null() };
        self.top.set(&raw const frame);
        let result = f();
        self.top.set(null());
        result
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
        // SAFETY: `spill` is null or a box of ours, reached by this thread only; `f` is ours too, and does not come back here.
        unsafe { self.spill.get().as_mut() }.map(f)
    }

    fn is_listed(&self, core: *const Core) -> bool {
        let in_ring = (0..self.in_ring.get()).any(|i| self.ring[(self.first.get() + i) % RING].get() == core);
        in_ring || self.with_spill(|spill| spill.listed.contains(&core)).unwrap_or(false)
    }

    /// Makes room for one entry, so that listing cannot fail later; false if `core` is listed already.
    pub(crate) fn reserve(&self, core: *const Core) -> bool {
        if self.is_listed(core) {
            return false;
        }
        if self.in_ring.get() == RING || !self.spill.get().is_null() {
            if self.spill.get().is_null() {
                self.spill.set(Box::into_raw(Box::default()));
            }
            self.with_spill(|spill| {
                spill.queue.reserve(1);
                spill.listed.reserve(1);
            });
        }
        true
    }

    /// Lists a mailbox, with the storage that the entry holds; after [`reserve`](Self::reserve).
    pub(crate) fn list(&self, core: *const Core) {
        self.len.set(self.len.get() + 1);
        let spilled = self.with_spill(|spill| {
            spill.queue.push_back(core);
            spill.listed.insert(core);
        });
        if spilled.is_none() {
            self.ring[(self.first.get() + self.in_ring.get()) % RING].set(core);
            self.in_ring.set(self.in_ring.get() + 1);
        }
    }

    /// Takes the first entry, with its storage.
    pub(crate) fn unlist(&self) -> Option<*const Core> {
        let len = self.len.get().checked_sub(1)?;
        self.len.set(len);
        let core = if self.in_ring.get() > 0 {
            let first = self.first.get();
            self.first.set((first + 1) % RING);
            self.in_ring.set(self.in_ring.get() - 1);
            Some(self.ring[first].get())
        } else {
            self.with_spill(|spill| {
                let core = spill.queue.pop_front()?;
                spill.listed.remove(&core);
                Some(core)
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
        core
    }
}
