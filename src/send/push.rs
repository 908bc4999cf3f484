//! Putting messages in: what a sender does when the mailbox was not its own by the first attempt.
//!
//! A message becomes a node, and the node is pushed, by itself or in a chain. Then whatever the
//! push left owing ([`Owed`]) is done: drained here, deferred on this thread, or scheduled.

use crate::cell::header::POSTS;
use crate::cell::owner::Owed;
use crate::cell::refs::{Ref, Strong};
use crate::error::{Reason, StopCause};
use crate::mailbox::list::Links;
use crate::mailbox::node::{Envelope, NodePtr, Unsent};
use crate::mailbox::word::{CLOSED, Entry, Refusal, Snapshot};
use crate::thread::context::{Local, with_local};
use crate::thread::list::{defer_entry, hint_by, schedule_for_others};
use crate::thread::schedule::{enter, is_executor_gone, schedule};
use crate::turn::cut::cut_here;
use crate::turn::deferred::drain;
use crate::turn::run_list::settle;

/// The way in which a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Its sender drains if it can.
    Sender,
    /// It never runs on this thread.
    Poster,
}

impl<S: 'static> Strong<S> {
    /// The reason that nothing is accepted.
    #[cold]
    pub(crate) fn reason(&self, refusal: Refusal) -> Reason {
        match refusal {
            Refusal::Busy => Reason::WouldBlock,
            Refusal::Closed => {
                // The push that was refused read the word Relaxed: FAREWELL shows a STOP that was
                // raised before CLOSED.
                self.header().word.look();
                self.header().why_closed()
            }
        }
    }

    /// Puts a message in, and does what that leaves owing. A message that is refused comes back.
    #[inline]
    pub(crate) fn push<E: Envelope>(
        &self,
        local: &Local,
        seen: Snapshot,
        message: E,
        by: By,
    ) -> Result<(), (E, Reason)> {
        let mut seen = seen;
        let node;
        // What a busy `send` comes to; everything else is below.
        if seen != Snapshot::IDLE && self.is_direct() {
            node = Unsent::new(message);
            match self.push_busy(seen, node.node(), Entry::Drain) {
                Ok(()) => return Ok(()),
                Err(now) => seen = now,
            }
        } else if self.is_full() {
            return Err((message, Reason::Full));
        } else {
            node = Unsent::new(message);
        }
        self.push_node(local, seen, node, by)
    }

    /// [`push`](Self::push) by a caller that has not looked at the mailbox.
    pub(crate) fn put_in<E: Envelope>(&self, message: E, by: By) -> Result<(), (E, Reason)> {
        with_local(|local| self.push(local, Snapshot::IDLE, message, by))
    }

    /// [`push`](Self::push) of a message in its node.
    #[inline(never)]
    pub(super) fn push_node<E: Envelope>(
        &self,
        local: &Local,
        seen: Snapshot,
        node: Unsent<E>,
        by: By,
    ) -> Result<(), (E, Reason)> {
        let owed = node.push(|links| self.push_links(local, seen, links, by))?;
        discharge(local, &self.lent(), owed, by);
        Ok(())
    }

    /// Pushes a node for as long as that needs nothing but the push.
    #[inline(always)]
    fn push_busy(&self, seen: Snapshot, node: &NodePtr, entry: Entry) -> Result<(), Snapshot> {
        self.header().word.push_busy(seen, node.addr(), entry, |head| node.set_next(head))
    }

    /// Leaves a message for this thread's list.
    #[inline(always)]
    pub(super) fn defer_one(&self, local: &Local, node: &NodePtr) -> Result<(), Snapshot> {
        match self.leave_first(node) {
            Ok(entry) => {
                defer_entry(local, entry);
                Ok(())
            }
            Err(seen) => {
                // This thread comes to what stands in its list.
                let entry = if local.knows(self.addr()) { Entry::Leave } else { Entry::Drain };
                self.push_busy(seen, node, entry)
            }
        }
    }

    /// Leaves a message for the executor, which comes to the entry that is out.
    #[inline(always)]
    pub(super) fn enter_one(&self, local: &Local, node: &NodePtr) -> Result<(), Snapshot> {
        let seen = self.header().word.load();
        let Err(seen) = self.push_busy(seen, node, Entry::Leave) else { return Ok(()) };
        if seen != Snapshot::IDLE || is_executor_gone(self.header()) {
            return Err(seen);
        }
        enter(local, &self.lent(), self.leave_first(node)?);
        settle(local);
        Ok(())
    }

    /// Puts nodes in; what that leaves owing is for [`discharge`].
    pub(super) fn push_links(
        &self,
        local: &Local,
        seen: Snapshot,
        links: Links,
        by: By,
    ) -> Result<Owed, (Links, Reason)> {
        let mut seen = seen;
        if by == By::Poster && !self.has_executor() {
            self.header().announce(POSTS);
        }
        if self.has_executor() || by == By::Poster {
            match self.look_at_executor() {
                Ok(now) => seen = now,
                Err(reason) => return Err((links, reason)),
            }
        }
        self.put(local, seen, links, self.entry(local, by))
    }

    /// The use of the mailbox's ownership if the message wins it.
    #[inline(always)]
    pub(super) fn entry(&self, local: &Local, by: By) -> Entry {
        match by {
            _ if self.has_executor() => Entry::Leave,
            By::Poster => Entry::Post,
            By::Sender if local.in_turn() => Entry::Leave,
            By::Sender => Entry::Drain,
        }
    }

    /// Before a message would need a new drain, or would wait for a suspended turn: an executor
    /// that is gone stops its actor, and the message goes back to its sender.
    pub(super) fn look_at_executor(&self) -> Result<Snapshot, Reason> {
        let (now, header) = (self.header().word.load(), self.header());
        let depends =
            now.count() == 0 || header.config().asks_executor() && header.is_turn_waiting(true);
        if depends && !now.has(CLOSED) && is_executor_gone(header) {
            header.stop_because(StopCause::ExecutorGone);
            self.close();
            cut_here(&self.lent());
            return Err(self.reason(Refusal::Closed));
        }
        Ok(now)
    }
}

/// Does what a step has left owing, which was taken by a sender, or by one that ends the actor.
pub(super) fn discharge(local: &Local, kept: &Ref, owed: Owed, by: By) {
    match owed {
        Owed::Nothing => {}
        Owed::Drain(owner) => drain(local, owner),
        Owed::Scheduled(entry) if kept.header().has_executor() => {
            match by {
                By::Sender => enter(local, kept, entry),
                By::Poster => schedule_for_others(local, || enter(local, kept, entry)),
            }
            settle(local);
        }
        // Only a thread inside a turn has left the message pending for itself.
        Owed::Scheduled(entry) => defer_entry(local, entry),
        // The executor comes to the entry.
        Owed::Schedule if kept.header().has_executor() => {}
        Owed::Schedule if by == By::Sender => {
            // The thread that has the entry may be busy for long.
            hint_by(local, kept.addr(), || kept.clone());
        }
        Owed::Schedule => {
            schedule(local, kept);
            settle(local);
        }
    }
}
