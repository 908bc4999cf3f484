//! Carrying a mailbox that has no executor: a thread made for it.
//!
//! A `post` never drains on its own thread, so somebody else has to. The protocol is that of [`super::carrier`], TOKEN included: one errand is
//! out at a time, however many post. It drains until the mailbox is empty, for it is nobody's thread.

use std::ptr::NonNull;

use super::block::Core;
use super::counts;
use super::storage::drain_here;
use crate::sync::thread;

/// A mailbox to be drained by another thread.
struct Errand(NonNull<Core>);

// SAFETY: it holds storage (B3), and whoever runs it becomes the owner by an atomic step. The state's type is Send.
unsafe impl Send for Errand {}

impl Drop for Errand {
    /// Not run, because there was no thread to be had: the messages wait for the next caller that comes by.
    fn drop(&mut self) {
        let core: *const Core = self.0.as_ptr();
        // SAFETY: the storage is ours, and is given up here.
        unsafe {
            (*core).lower_token();
            counts::release_storage(core);
        }
    }
}

impl Errand {
    fn run(self) {
        let core: *const Core = self.0.as_ptr();
        std::mem::forget(self);
        // SAFETY: the storage is ours, and is given up at the end. CARRY: the look comes after the token is lowered.
        unsafe {
            (*core).lower_token();
            drain_here(core);
            counts::release_storage(core);
        }
    }
}

/// Has a mailbox drained by a thread of its own.
///
/// # Safety
/// The caller has raised TOKEN, and gives away storage of `core`.
pub(super) unsafe fn run_elsewhere(core: NonNull<Core>) {
    let errand = Errand(core);
    let _ = thread::spawn_detached(move || errand.run());
}
