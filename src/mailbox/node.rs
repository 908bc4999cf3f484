//! Nodes: one message each, and the lists that they form.
//!
//! | offset | field                                                       |
//! |--------|-------------------------------------------------------------|
//! | 0      | LINK: the next node's address, and this node's home in bits 0 and 1 |
//! | 8      | VTABLE: how to run, give back and free the message          |
//! | 16     | the message, as it is                                       |
//!
//! A message of at most 16 bytes takes one slot of a chunk, one of at most 48 bytes two
//! ([`Home::One`], [`Home::Two`]); a larger or more strictly aligned one gets an allocation of its
//! real size ([`Home::Own`]); that of a caller who waits lies in his frame ([`Home::Borrowed`]).
//!
//! - NODE-1: a node has one holder: its sender until it is pushed, then the mailbox's owner. Only
//!   the holder touches or frees it. HEAD and a pushed node's LINK are integers; the holder turns
//!   them into pointers when it walks (MAILBOX-3). A stale address in a failing compare-and-swap is
//!   compared, never followed.
//! - NODE-2: LINK and home are read before the message runs: a borrowed node is gone when its
//!   completion is stored.
//! - NODE-3: all memory of nodes is exposed when it is made (chunk, own allocation, frame), so an
//!   address that was pushed can be resolved.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::NonNull;

use super::list::Links;
use crate::mailbox::chunk::{Row, bump, unbump};
use crate::mailbox::word::{FLAGS, Head};
use crate::panic::Payload;
use crate::sync::alloc::{Life, alloc, dealloc};
use crate::sync::cell::UnsafeCell;
use crate::sync::config::SLOT;

/// The owner's operations on a message of unknown type. `payload` points to it, `env` is what
/// the owner hands through.
pub(crate) struct VTable {
    /// Runs the message, moving it out. If it unwinds, `panicked` follows.
    run: unsafe fn(payload: *mut u8, env: *const ()),
    /// `run` of a message whose turn may be suspended.
    suspends: Option<unsafe fn(payload: *mut u8, env: *const ()) -> Ran>,
    /// The message was accepted but will not be run: gives it back, moving it out.
    pub(crate) discard: unsafe fn(payload: *mut u8, env: *const ()),
    /// `run` has unwound with this panic: tells the one that waits for the message.
    pub(crate) panicked: unsafe fn(payload: *mut u8, env: *const (), panic: Payload),
    layout: Layout,
    payload: usize,
    /// It goes on with a turn that has begun.
    resumes: bool,
}

/// Outcome of a message that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a turn that is suspended keeps the mailbox"]
pub(crate) enum Ran {
    /// Its turn is over.
    Done,
    /// Its turn is suspended, and has this address.
    Suspended(NonNull<()>),
}

/// A type that can be put into a node.
pub(crate) trait Envelope: Sized {
    const VTABLE: &'static VTable;
}

impl VTable {
    pub(crate) const fn of<M>(
        run: unsafe fn(*mut u8, *const ()),
        discard: unsafe fn(*mut u8, *const ()),
        panicked: unsafe fn(*mut u8, *const (), Payload),
    ) -> Self {
        VTable {
            run,
            suspends: None,
            discard,
            panicked,
            layout: Layout::new::<NodeOf<M>>(),
            payload: offset_of!(NodeOf<M>, message),
            resumes: false,
        }
    }

    /// Of a message whose turn may be suspended.
    pub(crate) const fn suspending<M>(
        run: unsafe fn(*mut u8, *const ()) -> Ran,
        discard: unsafe fn(*mut u8, *const ()),
        panicked: unsafe fn(*mut u8, *const (), Payload),
    ) -> Self {
        VTable { suspends: Some(run), ..VTable::of::<M>(unsuspended, discard, panicked) }
    }

    /// Of a message that goes on with a turn that has begun.
    pub(crate) const fn resuming(self) -> Self {
        VTable { resumes: true, ..self }
    }
}

/// In place of the run of a message whose turn may be suspended, where none may be.
unsafe fn unsuspended(_: *mut u8, _: *const ()) {
    unreachable!("a turn that may be suspended is run by its owner's drive")
}

/// The origin of a node's memory: the low bits of its LINK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    One = 0,
    Two = 1,
    Own = 2,
    Borrowed = 3,
}

const HOME: u64 = 3;
const _: () = assert!(HOME & !FLAGS == 0);

/// The head of every node.
#[repr(C)]
struct Node {
    life: Life,
    link: UnsafeCell<u64>,
    vtable: &'static VTable,
}

/// A node with its message. The alignment leaves the low bits of its address free.
#[repr(C, align(32))]
pub(crate) struct NodeOf<M> {
    node: Node,
    message: M,
}

impl<M: Envelope> NodeOf<M> {
    const HOME: Home = match (size_of::<Self>(), align_of::<Self>()) {
        (size, 32) if size <= SLOT => Home::One,
        (size, 32) if size <= 2 * SLOT => Home::Two,
        _ => Home::Own,
    };

    /// A node in the caller's frame: one that pushes [`NodePtr::of_frame`] of it must not leave
    /// before the message is done.
    pub(crate) fn in_frame(message: M) -> Self {
        let link = UnsafeCell::new(Home::Borrowed as u64);
        NodeOf { node: Node { life: Life::new(), link, vtable: M::VTABLE }, message }
    }

    /// The message in a node.
    ///
    /// # Safety
    /// `node` points to one.
    pub(crate) unsafe fn message(node: *mut Self) -> *const M {
        // SAFETY: it points to one; no reference is made.
        unsafe { &raw const (*node).message }
    }
}

/// A node, in the hand of its holder (NODE-1). It is no copy, and frees nothing by itself: a push,
/// or a list, takes it.
#[derive(Debug)]
#[must_use = "a node that is forgotten is leaked, with its message"]
pub(crate) struct NodePtr(*mut Node);

impl NodePtr {
    /// Puts a message into a node of this thread's chunk, or of its own.
    #[inline]
    pub(crate) fn new<M: Envelope>(message: M) -> Self {
        let (memory, home) = match NodeOf::<M>::HOME {
            Home::One => (bump(1), Home::One),
            Home::Two => (bump(2), Home::Two),
            other => (None, other),
        };
        let (memory, home) = match memory {
            Some(memory) => (memory.cast::<NodeOf<M>>(), home),
            None => Self::own(Layout::new::<NodeOf<M>>()),
        };
        let node =
            Node { life: Life::new(), link: UnsafeCell::new(home as u64), vtable: M::VTABLE };
        // SAFETY: NODE-1: fresh memory of this size (HOME) and alignment (slots are 32-byte
        // aligned, an own allocation has its layout).
        unsafe { memory.write(NodeOf { node, message }) };
        NodePtr(memory.cast())
    }

    #[cold]
    fn own<M>(layout: Layout) -> (*mut NodeOf<M>, Home) {
        let memory = alloc(layout);
        let _ = memory.expose_provenance(); // NODE-3
        (memory.cast(), Home::Own)
    }

    /// The node that lies in a frame, by the pointer through which alone the frame looks at it from
    /// now on.
    pub(crate) fn of_frame<M>(node: *mut NodeOf<M>) -> Self {
        let _ = node.expose_provenance(); // NODE-3
        NodePtr(node.cast())
    }

    /// Takes the message back out of a node that was made by [`new`](Self::new) on this thread and
    /// pushed nowhere.
    ///
    /// # Safety
    /// The node holds an `M`, the caller is its holder and forgets it.
    pub(crate) unsafe fn take_back<M: Envelope>(self) -> M {
        let (_, home) = self.link();
        let NodePtr(node) = self;
        // SAFETY: NODE-1: the caller is the holder of a node with an M, which is moved out once. An
        // allocation of its own has this layout.
        unsafe {
            let message = (&raw const (*node.cast::<NodeOf<M>>()).message).read();
            end(node);
            match home {
                Home::One => unbump(node.cast(), 1),
                Home::Two => unbump(node.cast(), 2),
                Home::Own => dealloc(node.cast(), Layout::new::<NodeOf<M>>()),
                Home::Borrowed => {}
            }
            message
        }
    }

    /// # Safety
    /// There is a node at this address, and the caller becomes its holder (NODE-1).
    #[inline]
    pub(super) unsafe fn at(addr: u64) -> Self {
        NodePtr(std::ptr::with_exposed_provenance_mut(addr as usize))
    }

    /// The address as the word holds it.
    #[inline]
    pub(crate) fn addr(&self) -> u64 {
        let addr = self.0.addr() as u64;
        // A wider address would lose its top in the word: better to stop here than to run another
        // else's memory.
        assert!(addr >> 48 == 0 && addr & FLAGS == 0, "turnwise needs user addresses below 2^48");
        addr
    }

    /// The next node's address, and where this node's memory is from.
    #[inline]
    pub(super) fn link(&self) -> (u64, Home) {
        // SAFETY: NODE-1: this is the holder, so the node is there and nothing writes it.
        let link = unsafe {
            (*self.0).life.check();
            (*self.0).link.with(|link| *link)
        };
        let home = match link & HOME {
            0 => Home::One,
            1 => Home::Two,
            2 => Home::Own,
            _ => Home::Borrowed,
        };
        (link & !HOME, home)
    }

    /// Sets the next node's address; the home stays.
    #[inline]
    pub(crate) fn set_next(&self, next: u64) {
        // SAFETY: NODE-1: this is the holder, so the node is there and nothing else reads or writes
        // it.
        unsafe { (*self.0).link.with_mut(|link| *link = *link & HOME | next) }
    }

    /// The node by itself, as it is taken off a list, and the address that it was linked to.
    #[inline]
    pub(super) fn alone(&self) -> (Taken, u64) {
        let (next, home) = self.link();
        // SAFETY: NODE-1: this is the holder, so the node is there; the field never changes.
        let vtable = unsafe { (*self.0).vtable };
        (Taken { node: self.0, home, vtable }, next)
    }
}

/// Ends the header's life: its memory is given back next.
///
/// # Safety
/// The caller is the holder of the node, and forgets it.
unsafe fn end(node: *mut Node) {
    // SAFETY: NODE-1: the holder's node is there.
    unsafe {
        (*node).life.end();
        node.drop_in_place();
    }
}

/// A node with an M that was pushed nowhere yet.
#[must_use = "a message that is forgotten is leaked"]
pub(crate) struct Unsent<M: Envelope>(NodePtr, PhantomData<M>);

impl<M: Envelope> Unsent<M> {
    #[inline]
    pub(crate) fn new(message: M) -> Self {
        Unsent(NodePtr::new(message), PhantomData)
    }

    /// The node, for a push that takes it if it succeeds.
    #[inline]
    pub(crate) fn node(&self) -> &NodePtr {
        &self.0
    }

    /// Has `push` push it. A node that comes back is this one, and the message with it.
    #[inline]
    pub(crate) fn push<T, E>(
        self,
        push: impl FnOnce(Links) -> Result<T, (Links, E)>,
    ) -> Result<T, (M, E)> {
        let addr = self.0.0;
        push(Links::one(self.0)).map_err(|(links, error)| {
            let node = links.into_one();
            assert!(node.0 == addr, "another node");
            // SAFETY: NODE-1: this node has come back to its holder, and was made of an M.
            (unsafe { node.take_back::<M>() }, error)
        })
    }
}

/// A message taken off a list: to be run or discarded once, then freed.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    node: *mut Node,
    home: Home,
    vtable: &'static VTable,
}

impl Taken {
    /// The only message that was in HEAD, as if taken off a list.
    #[inline(always)]
    pub(crate) fn only(Head(addr): Head) -> Self {
        assert!(addr != 0, "no message");
        // SAFETY: NODE-1: what was in HEAD is its holder's.
        let (taken, next) = unsafe { NodePtr::at(addr) }.alone();
        debug_assert_eq!(next, 0, "one message");
        taken
    }

    /// True if it goes on with a turn that has begun.
    #[inline]
    pub(crate) fn resumes(self) -> bool {
        self.vtable.resumes
    }

    #[inline]
    pub(crate) fn payload(self) -> *mut u8 {
        self.node.cast::<u8>().wrapping_add(self.vtable.payload)
    }

    /// Runs a message whose turn may be suspended, or another one.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    #[inline]
    pub(crate) unsafe fn run_any(self, env: *const ()) -> Ran {
        // SAFETY: NODE-1: the payload is there; `env` is what it expects, and it is run once.
        unsafe {
            match self.vtable.suspends {
                Some(run) => run(self.payload(), env),
                None => {
                    self.run(env);
                    Ran::Done
                }
            }
        }
    }

    /// Runs a message, whose turn cannot be suspended.
    ///
    /// # Safety
    /// `env` is what this mailbox's messages expect; the message was not run or discarded before.
    /// On unwinding `panicked` must follow.
    #[inline]
    pub(crate) unsafe fn run(self, env: *const ()) {
        // SAFETY: NODE-1: the payload is there, `env` is what it expects, and it is run once.
        unsafe { (self.vtable.run)(self.payload(), env) }
    }

    /// Gives the message back unrun.
    ///
    /// # Safety
    /// As [`run`](Self::run), but nothing follows an unwinding.
    pub(crate) unsafe fn discard(self, env: *const ()) {
        // SAFETY: NODE-1: the payload is there, `env` is what it expects, and it is given back
        // once.
        unsafe { (self.vtable.discard)(self.payload(), env) }
    }

    /// Tells the one that waits for the message that it panicked.
    ///
    /// # Safety
    /// `run` has just unwound, with the same `env`.
    pub(crate) unsafe fn panicked(self, env: *const (), panic: Payload) {
        // SAFETY: NODE-1: the node is not freed yet, and `run` of it has just unwound.
        unsafe { (self.vtable.panicked)(self.payload(), env, panic) }
    }

    /// Frees the node, or counts it into `row`. A borrowed one is gone already (NODE-2).
    ///
    /// # Safety
    /// The message has been moved out; nothing of the node is used again.
    #[inline]
    pub(crate) unsafe fn free(self, row: &mut Row) {
        if self.home == Home::Borrowed {
            return;
        }
        // SAFETY: NODE-1: the owner of the mailbox was its holder, and forgets it here. An
        // allocation of its own has this layout.
        unsafe {
            end(self.node);
            match self.home {
                Home::One => row.free(self.node.cast(), 1),
                Home::Two => row.free(self.node.cast(), 2),
                _ => dealloc(self.node.cast(), self.vtable.layout),
            }
        }
    }
}
