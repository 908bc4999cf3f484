//! Storage of an actor that may have ended: weak handles, and what a waiting reply needs.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::block::{By, Core};
use super::counts;
use super::handle::Handle;
use super::local::with_local;
use super::relief::{WouldBlock, give_away, park, relieve};
use super::turns::{Place, run_list, take_over};
use crate::error::AskError;
use crate::reply::Asker;
use crate::sync::{hint, thread};
use crate::wait::{Deadline, Limit, Waiter};

/// Storage of an actor: it may have ended.
pub(crate) struct Storage(NonNull<Core>);

// SAFETY: storage alone touches atomics; the last one to go drops hooks, which are Send.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// # Safety
    /// The caller keeps the block of `core` during this call.
    pub(crate) unsafe fn of(core: *const Core) -> Self {
        // SAFETY: the caller's word.
        unsafe { counts::retain_storage(core) };
        Storage(NonNull::new(core.cast_mut()).expect("a block has an address"))
    }

    fn ptr(&self) -> *const Core {
        self.0.as_ptr()
    }

    fn core(&self) -> &Core {
        // SAFETY: storage keeps the block (B3).
        unsafe { self.0.as_ref() }
    }

    /// The name that the actor was built with.
    pub(crate) fn name(&self) -> Option<&str> {
        self.core().about().name.as_deref()
    }

    /// When a wait that begins now ends, by the actor's clock.
    pub(crate) fn deadline(&self, limit: Limit) -> Deadline<'_> {
        Deadline::new(self.core().clock(), limit)
    }

    /// Waits for an answer of this actor; `None` when the time is over, with the answer still to come.
    pub(crate) fn wait_for<R, P>(&self, asker: &mut Asker<R, P>, deadline: Deadline<'_>) -> Option<Result<R, AskError>> {
        with_local(|local| {
            if asker.is_done() {
                return asker.take();
            }
            if local.is_running(self.ptr()) {
                return Some(Err(AskError::Deadlock));
            }
            if local.in_turn() {
                // Most likely this thread has promised to run it.
                self.come_by();
            }
            if hint::done_soon(|| asker.is_done()) {
                return asker.take();
            }
            self.come_by();
            if deadline.is_over() {
                return asker.take();
            }
            let Ok(_away) = relieve(local) else { return Some(Err(AskError::WouldBlock)) };
            if asker.watch(Waiter::Thread(thread::current())) {
                while !asker.is_done() && deadline.park() {}
            }
            asker.take()
        })
    }

    /// Drains the mailbox if it is parked. True if it was.
    pub(crate) fn come_by(&self) -> bool {
        // SAFETY: this storage keeps the block.
        unsafe { drain_here(self.ptr(), By::Waiter) }
    }

    /// Whoever drains the mailbox gives back what waits, from its next message on; false if that was so already. For one whose handles have
    /// all gone: nobody else would close it.
    pub(crate) fn give_back(&self) -> bool {
        self.core().raise_stop()
    }

    /// Is this thread inside a turn of this actor?
    pub(crate) fn is_running_here(&self) -> bool {
        with_local(|local| local.is_running(self.ptr()))
    }
}

impl Clone for Storage {
    fn clone(&self) -> Self {
        // SAFETY: this storage keeps the block.
        unsafe { Self::of(self.ptr()) }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: this is one, and it is not used again.
        unsafe { counts::release_storage(self.ptr()) }
    }
}

/// Storage of an actor whose type is known.
pub(crate) struct Weak<S>(Storage, PhantomData<fn(S) -> S>);

impl<S> Weak<S> {
    /// # Safety
    /// The caller keeps the block of `core` during this call, and its state is an S.
    pub(crate) unsafe fn of(core: *const Core) -> Self {
        // SAFETY: the caller's word.
        Weak(unsafe { Storage::of(core) }, PhantomData)
    }

    /// A handle, unless they have all gone.
    pub(crate) fn upgrade(&self) -> Option<Handle<S>> {
        // SAFETY: this storage keeps the block, whose state is an S because it came from such a one; the handle was counted.
        unsafe { counts::try_retain_handle(self.0.ptr()).then(|| Handle::of(self.0.ptr())) }
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.0
    }
}

impl<S> Clone for Weak<S> {
    fn clone(&self) -> Self {
        Weak(self.0.clone(), PhantomData)
    }
}

/// Takes a parked mailbox over and drains it here; false if it is not parked.
///
/// # Safety
/// The caller keeps the block of `core`.
pub(crate) unsafe fn drain_here(core: *const Core, by: By) -> bool {
    with_local(|local| {
        let place = if local.in_turn() { Place::Nested } else { Place::Outermost };
        // SAFETY: the caller's word.
        let drained = unsafe { take_over(core, place, by) };
        if place == Place::Outermost && local.owes() {
            run_list(local);
        }
        drained
    })
}

/// Gives away what a turn on this thread has promised: the thread may be about to sleep.
pub(crate) fn before_pending() {
    with_local(give_away);
}

/// Waits for an answer that no actor gives; `None` when the time is over.
pub(crate) fn wait_for_promise<R, P>(asker: &mut Asker<R, P>, deadline: Deadline<'_>) -> Option<Result<R, AskError>> {
    if !asker.is_done() && asker.watch(Waiter::Thread(thread::current())) {
        while !asker.is_done() {
            match park(deadline) {
                Ok(true) => {}
                Ok(false) => break,
                Err(WouldBlock) => return Some(Err(AskError::WouldBlock)),
            }
        }
    }
    asker.take()
}
