//! The ends of an actor, as they are asked for: close, stop, and the drop of the last handle.

use std::mem::needs_drop;

use crate::cell::header::{Header, POSTS};
use crate::cell::owner::Owed;
use crate::cell::refs::{Sole, Strong};
use crate::mailbox::word::{CLOSED, Entry, ORPHAN};
use crate::send::push::{By, discharge};
use crate::thread::context::{Depth, Local, with_local};
use crate::thread::list::hand_off;
use crate::turn::cut::cut_here;
use crate::turn::deferred::drain;
use crate::turn::run_list::settle;

impl<S> Strong<S> {
    /// Takes no new messages; those that were accepted are run. False if it was closed already.
    pub(crate) fn close(&self) -> bool {
        self.raise_flag(CLOSED, false)
    }

    /// Closes the mailbox if nothing runs or waits in it.
    pub(crate) fn close_if_idle(&self) -> bool {
        self.raise_flag(CLOSED, true)
    }

    /// Takes no new messages; those that were accepted are given back.
    pub(crate) fn stop(&self) -> bool {
        let first = self.header().raise_stop();
        self.close();
        cut_here(&self.lent());
        first
    }

    /// Closes the mailbox of an actor without an executor if nothing runs or waits in it, and
    /// leaves it pending: the caller sees to it that it is run.
    pub(crate) fn close_pending(&self) -> bool {
        let raised = self.raise(CLOSED, Entry::Post, true);
        let changed = raised.is_some();
        debug_assert!(matches!(raised, None | Some(Owed::Schedule)), "it was idle");
        if changed {
            self.header().refuse_waiters();
            self.header().call_for_help();
        }
        changed
    }

    /// Raises CLOSED or ORPHAN and does what that leaves owing; false if the word was not changed.
    #[inline(never)]
    fn raise_flag(&self, flag: u64, only_if_idle: bool) -> bool {
        with_local(|local| {
            let leaves = local.in_turn() || self.has_executor();
            // What was posted does not run in the drop of a handle either.
            let posts = !leaves && self.header().has(POSTS);
            // After the step, an orphan is kept by its owner, and by this reference.
            let cell = (leaves || posts).then(|| self.to_ref());
            let entry = match leaves {
                true => Entry::Leave,
                false if posts => Entry::DrainOnly,
                false => Entry::Drain,
            };
            let raised = self.raise(flag, entry, only_if_idle);
            let changed = raised.is_some();
            match (raised, cell) {
                (Some(Owed::Drain(mut owner)), _) => {
                    local.enter(&mut owner, |owner| refuse(local, owner.header(), flag));
                    if local.owes_anything() {
                        // The end may wait for it.
                        hand_off(local);
                    }
                    drain(local, owner);
                }
                (Some(owed), Some(cell)) => {
                    let by = if posts { By::Poster } else { By::Sender };
                    // What an executor runs in its call comes after those that wait are woken.
                    local.work(|| discharge(local, &cell, owed, by));
                    refuse(local, cell.header(), flag);
                    cell.header().call_for_help();
                }
                // An orphan may be gone.
                (Some(_), None) if flag == CLOSED => refuse(local, self.header(), flag),
                _ => {}
            }
            settle(local);
            changed
        })
    }
}

/// Wakes those that wait for room in a mailbox that was closed. Before what comes of that: an end
/// hook, or a message that was accepted, may wait for one of them. So a turn that is woken does not
/// come after it on this thread.
fn refuse(local: &Local, header: &Header, flag: u64) {
    if flag == CLOSED {
        local.leaving_elsewhere(|| header.refuse_waiters());
    }
}

impl<S> Strong<S> {
    /// This was the last handle.
    ///
    /// If nothing else can reach the cell, its mailbox is idle, and nothing waits for its end,
    /// there is nothing to agree upon (HEADER-5): the state is dropped and the cell freed. But a
    /// state's drop is user code. Inside of turns it comes after them (MAILBOX-9, MAILBOX-10), and
    /// an executor's actor is dropped there.
    #[inline(never)]
    fn last_gone(&mut self) {
        // SAFETY: `release` has just said so, and only its address is used once the cell is freed.
        if let Some(mut sole) = unsafe { self.sole() } {
            if !needs_drop::<S>() {
                return sole.free();
            }
            let done = with_local(|local| {
                if local.in_turn() || self.has_executor() {
                    return false;
                }
                local.enter_from(Depth::Outside, &mut sole, Sole::drop_state);
                sole.free();
                settle(local);
                true
            });
            if done {
                return;
            }
        }
        // The handles' reference is there until the one that ends the actor gives it up: that may
        // be this call, or the owner.
        self.raise_flag(ORPHAN, false);
    }
}

impl<S> Drop for Strong<S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the drop of the handle.
        if unsafe { self.release() } {
            self.last_gone();
        }
    }
}
