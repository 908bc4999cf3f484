//! Freeing cells and built configurations, one after the other.
//!
//! What is dropped with one of them may be the last reference to the next, without an end: a hook
//! holds an actor, whose hook holds an actor. So the first one that a thread frees is freed in a
//! loop, and those that die meanwhile are linked and freed by that loop. The stack is constant.
//!
//! - RECLAIM-1: a dead object is reached by the thread that frees it alone, so its memory may hold
//!   the link to the next one.

use std::cell::Cell as Slot;
use std::ptr::NonNull;

use super::counts::Linked;
use super::header::Header;
use super::settings::{Config, uses};
use crate::sync::thread_plain;

/// An object that is to be freed.
#[derive(Clone, Copy)]
pub(super) enum Dead {
    Cell(NonNull<Header>),
    Built(NonNull<Config>),
}

/// In the lowest bit of a link: it leads to a built configuration.
const BUILT: usize = 1;
/// A link that leads nowhere. No object has this address.
const LAST: usize = 2;
const _: () = assert!(align_of::<Header>() > LAST && align_of::<Config>() > LAST);

thread_plain! {
    /// The link to those that this thread is about to free; zero if it frees none.
    static FREED: Slot<usize> = Slot::new(0);
}

impl Dead {
    /// Its address, and what it is.
    fn into_link(self) -> usize {
        match self {
            Dead::Cell(cell) => cell.as_ptr().expose_provenance(),
            Dead::Built(built) => built.as_ptr().expose_provenance() | BUILT,
        }
    }

    /// The object that a link leads to.
    fn of_link(link: usize) -> Option<Self> {
        if link == LAST {
            return None;
        }
        if link & BUILT == 0 {
            return NonNull::new(std::ptr::with_exposed_provenance_mut(link)).map(Dead::Cell);
        }
        NonNull::new(std::ptr::with_exposed_provenance_mut(link & !BUILT)).map(Dead::Built)
    }

    /// The place of its link to the next one.
    ///
    /// # Safety
    /// RECLAIM-1: it is dead, and this thread frees it, later than it uses the result.
    unsafe fn link<'a>(self) -> &'a dyn Linked {
        // SAFETY: it is not freed yet.
        unsafe {
            match self {
                Dead::Cell(cell) => cell.as_ref(),
                Dead::Built(built) => uses(built),
            }
        }
    }

    /// Frees it. Does not unwind: the user code in it is caught.
    ///
    /// # Safety
    /// As for [`reclaim`].
    unsafe fn free(self) {
        // SAFETY: it is there until it is freed here; the functions are those of its type, and
        // nothing else reaches it.
        unsafe {
            match self {
                Dead::Cell(cell) => (cell.as_ref().config().vtable.free)(cell.as_ptr()),
                Dead::Built(built) => (built.as_ref().vtable.free_built)(built),
            }
        }
    }
}

/// Frees an object, or leaves it to the call of this function that this thread is inside of.
///
/// # Safety
/// The last reference to it is gone (HEADER-3, BUILT-1), a cell's state was taken out, and this is
/// called once.
#[cold]
#[inline(never)]
pub(super) unsafe fn reclaim(dead: Dead) {
    FREED.with(|freed| {
        let next = freed.get();
        if next != 0 {
            // SAFETY: RECLAIM-1: its last reference is gone.
            unsafe { dead.link() }.link_freed(next as u64);
            freed.set(dead.into_link());
            return;
        }
        freed.set(LAST);
        let mut dead = dead;
        loop {
            // SAFETY: the contract of this function, or of the call that has linked it.
            unsafe { dead.free() };
            let Some(next) = Dead::of_link(freed.get()) else {
                freed.set(0);
                return;
            };
            // SAFETY: RECLAIM-1: what is on this thread's list was linked, and is freed next.
            freed.set(unsafe { next.link() }.next_freed() as usize);
            dead = next;
        }
    });
}
