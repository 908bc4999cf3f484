//! Putting messages in: what a sender does when the mailbox was not his by the first attempt.
//!
//! A message becomes a node, and the node is pushed, by itself or in a chain; into the ring, if the mailbox has one ([`super::room`]). Then
//! whatever the push left owing ([`Duty`]) is done: drained here, listed on this thread, or carried to the executor.

use super::block::By as DrainedBy;
use super::carrier::carry;
use super::chain::{Chain, Links};
use super::counts;
use super::env::Env;
use super::envelope::{Post, give_back};
use super::handle::Handle;
use super::letter::Letter;
use super::local::Local;
use super::plan::Overflow;
use super::room::{Put, Ring, Token, Worth};
use super::turns::{Place, drive_by, run_list, taken_over};
use crate::error::Reason;
use crate::mailbox::chunk::Row;
use crate::mailbox::node::{Batch, Message, NodePtr};
use crate::mailbox::word::{Duty, Entry, Refusal, Snapshot, UNBOUNDED};
use crate::unwind::shrug_off;

/// Who a push was made by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// It drains if it can.
    Sender,
    /// The same, and it takes no for an answer.
    Trier,
    /// It waits for its message, and so drains even inside a turn.
    Waiter,
    /// It never drains on its thread: somebody else is told.
    Poster,
    /// It never drains, and nobody is told.
    Enqueuer,
}

/// A push that was accepted.
pub(super) struct Entered {
    pub(super) duty: Duty,
    lists: bool,
    carries: bool,
    /// The newest node that was pushed.
    pub(super) top: u64,
}

impl Entered {
    const NOTHING: Self = Entered { duty: Duty::Nothing, lists: false, carries: false, top: 0 };
}

impl<S: 'static> Handle<S> {
    /// Puts a letter into the mailbox, by the rules for a full one.
    #[inline(never)]
    pub(super) fn post<L: Letter<S>>(&self, local: &Local, seen: Snapshot, letter: L, by: By) -> Result<(), (L, Reason)> {
        match self.push(local, seen, Post::new(letter), by, Worth::Droppable) {
            Ok(()) => Ok(()),
            Err((post, Reason::Full)) if self.core().about().overflow == Overflow::DropNewest && by != By::Trier => {
                // SAFETY: this handle keeps the block, whose state is an S.
                shrug_off(|| unsafe { give_back::<S, L>(self.ptr(), post.letter) });
                Ok(())
            }
            Err((post, reason)) => Err((post.letter, reason)),
        }
    }

    #[inline(never)]
    pub(super) fn push<M: Message>(&self, local: &Local, seen: Snapshot, message: M, by: By, worth: Worth) -> Result<(), (M, Reason)> {
        let node = NodePtr::new(message);
        let mut seen = seen;
        // What a busy `send` comes to; everything else is below.
        if seen != Snapshot::IDLE && self.core().about().limit == UNBOUNDED {
            match self.core().word.push_busy(seen, node.addr(), |head| node.set_next(head)) {
                Ok(()) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        self.push_chain(local, seen, Links::one(node), by, worth).map_err(|reason| {
            // SAFETY: it was made here of an M, and pushed nowhere.
            (unsafe { node.take_back::<M>() }, reason)
        })
    }

    /// Puts a chain into the mailbox, and does what that leaves owing.
    pub(super) fn push_chain(&self, local: &Local, seen: Snapshot, links: Links, by: By, worth: Worth) -> Result<(), Reason> {
        let entered = self.put_in(local, seen, links, by, worth);
        self.follow(local, entered.map_err(|refusal| self.reason(refusal))?);
        Ok(())
    }

    /// Puts a chain where this mailbox keeps its messages: into the word's list, or into the ring, with tokens for it in the list.
    #[inline]
    pub(super) fn put_in(&self, local: &Local, seen: Snapshot, links: Links, by: By, worth: Worth) -> Result<Entered, Refusal> {
        match self.core().ring() {
            None => self.link_in(local, seen, links, self.core().about().limit, by),
            Some(ring) => self.put_in_ring(ring, local, links, by, worth),
        }
    }

    #[cold]
    fn put_in_ring(&self, ring: &Ring, local: &Local, links: Links, by: By, worth: Worth) -> Result<Entered, Refusal> {
        let mut tokens = Chain::<Token>::new();
        (0..links.len).for_each(|_| tokens.append(Token::new()));
        let put = ring.put(self.core(), links, worth, by != By::Trier, || match tokens.links() {
            Some(links) => self.link_in(local, Snapshot::IDLE, links, UNBOUNDED, by),
            None => Ok(Entered::NOTHING),
        })?;
        match put {
            Put::Entered(entered) => {
                tokens.forget();
                Ok(entered)
            }
            Put::Replaced(oldest) => {
                // SAFETY: out of the ring, so it is ours; it is discarded once, with its own block, and then freed.
                unsafe {
                    shrug_off(|| oldest.discard(Env::of(self.ptr()).as_ptr()));
                    oldest.free(&mut Row::new());
                }
                Ok(self.left_in_place(local, by))
            }
        }
    }

    /// What a sender owes whose letter has taken the place of another one: the token was pushed by somebody else, who may have parked the
    /// mailbox and told nobody. The ring's lock has shown this thread that push.
    fn left_in_place(&self, local: &Local, by: By) -> Entered {
        if by == By::Enqueuer || !self.core().word.load().is_parked() {
            return Entered::NOTHING;
        }
        let carries = by == By::Poster || self.posts();
        if !carries && !local.in_turn() {
            self.drain();
            return Entered::NOTHING;
        }
        Entered { duty: Duty::Carry, lists: !carries && local.reserve(self.ptr()), carries, top: 0 }
    }

    /// Links a chain in; what that leaves owing is for [`follow`](Self::follow).
    pub(super) fn link_in(&self, local: &Local, seen: Snapshot, links: Links, limit: u32, by: By) -> Result<Entered, Refusal> {
        let Links { first, top, len } = links;
        let nested = local.in_turn();
        let posts = matches!(by, By::Sender | By::Trier);
        let carries = by == By::Poster || posts && self.posts();
        let lists = posts && nested && !carries && local.reserve(self.ptr());
        let parks = match by {
            By::Sender | By::Trier => carries || nested,
            By::Waiter => false,
            By::Poster | By::Enqueuer => true,
        };
        let entry = if parks { Entry::Park } else { Entry::Drain };
        let duty = self.core().word.push(seen, (top, len), limit, entry, |head| first.set_next(head))?;
        Ok(Entered { duty, lists, carries, top })
    }

    /// Does what a push left owing.
    pub(super) fn follow(&self, local: &Local, Entered { duty, lists, carries, top }: Entered) {
        match duty {
            Duty::Carry if lists => self.list(local),
            // SAFETY: this handle keeps the block.
            Duty::Carry if carries => unsafe { carry(self.ptr()) },
            // SAFETY: the duty is that of this push; only a thread that is not inside a turn asked to drain.
            duty => unsafe { self.perform(local, (Place::Outermost, DrainedBy::Caller), duty, top) },
        }
    }

    /// Lists this mailbox on this thread, after a `reserve` that said so.
    fn list(&self, local: &Local) {
        // SAFETY: this handle keeps the block; the entry holds the storage (F3).
        unsafe { counts::retain_storage(self.ptr()) };
        local.list(self.ptr());
    }

    /// Does what a push of `top` left owing.
    ///
    /// # Safety
    /// `duty` was left by this thread's push of `top`, and is performed once.
    pub(super) unsafe fn perform(&self, local: &Local, (place, by): (Place, DrainedBy), duty: Duty, top: u64) {
        let batch = match duty {
            Duty::Nothing | Duty::Carry => return,
            Duty::Drain => {
                let mut batch = Batch::new();
                batch.append_newest_first(top);
                batch
            }
            // The chain is linked to the head that it replaced.
            Duty::TakeOver => taken_over(self.core(), top),
        };
        // SAFETY: the duty says that it is ours; this handle keeps the block.
        unsafe { drive_by(self.ptr(), batch, 0, place, by, &mut Row::new()) };
        if place == Place::Outermost && local.owes() {
            run_list(local);
        }
    }
}
