//! Room in a mailbox with a capacity: permits for what is put in, and waiting for one, first come,
//! first served ([`crate::mailbox::semaphore`]).
//!
//! A sender that waits leaves its message in the queue of the mailbox's semaphore and sleeps. It
//! has nothing left to do: the owner that has a permit for it pushes the message and wakes it, and
//! the one that closes the mailbox gives the message back.
//!
//! A waiter gives up when it is dropped, so one that unwinds leaves nothing in the queue. One that
//! is forgotten is let in when it is its turn, as any other.

use std::marker::PhantomData;
use std::task::{Context, Poll};

use crate::budget::Until;
use crate::cell::owner::{ClaimedBy, Owed, Owner};
use crate::cell::refs::Strong;
use crate::cell::settings::BOUNDED;
use crate::error::Reason;
use crate::mailbox::list::Links;
use crate::mailbox::node::{Envelope, Unsent};
use crate::mailbox::oneshot::{Asker, Promised, oneshot};
use crate::mailbox::semaphore::{Acquired, PermitAnswer, PermitWaiter, Semaphore, Unpushed};
use crate::mailbox::word::{CLOSED, Entry, Refusal, Snapshot, Word};
use crate::panic;
use crate::send::push::{By, discharge};
use crate::sync::thread;
use crate::thread::context::{Local, with_local};
use crate::thread::waits_for::circle_of_turn;
use crate::time::Cutoff;
use crate::turn::blocking::{before_pending, circle_of_task};
use crate::turn::deferred::drain;
use crate::wait_list::Waiter;

/// One that waits for room, whose message lies in the queue.
pub(crate) struct Waits<S: 'static, E: Envelope + 'static> {
    /// Until the drop.
    handle: Option<Strong<S>>,
    asker: Asker<PermitAnswer, ()>,
    number: u64,
    of: PhantomData<fn(E) -> E>,
}

/// Outcome of a push: what it leaves owing, or the nodes.
type Put = Result<Owed, (Links, Reason)>;

/// Outcome of a message: it was sent, or comes back.
type Sent<E> = Result<(), (E, Reason)>;

impl<S> Strong<S> {
    /// True if a message is run on the spot when the mailbox is idle: there is no executor, nothing
    /// is done around its turns, and no sender waits for room, which would be overtaken.
    #[inline(always)]
    pub(super) fn runs_on_the_spot(&self) -> bool {
        match self.tags() {
            0 => true,
            BOUNDED => !self.is_waited_for(),
            _ => false,
        }
    }

    /// True if there is no executor, nothing around its turns, and no capacity: a message is run on
    /// the spot when the mailbox is idle.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.tags() == 0
    }

    /// Claims an idle mailbox after a claim that has failed, or, if this message `may_run` on the
    /// spot, one with a capacity.
    #[inline(always)]
    pub(super) fn claim_late(
        &self,
        seen: Snapshot,
        may_run: impl FnOnce() -> bool,
    ) -> Result<ClaimedBy<S>, Snapshot> {
        let mut seen = seen;
        if seen == Snapshot::IDLE && self.is_bounded() && may_run() && self.runs_on_the_spot() {
            match self.claim() {
                Ok(claimed) => return Ok(claimed),
                Err(now) => seen = now,
            }
        }
        self.claim_beside(seen)
    }

    /// True if its mailbox has a capacity.
    #[inline(always)]
    fn is_bounded(&self) -> bool {
        self.tags() & BOUNDED != 0
    }

    /// True if a sender waits for room.
    #[inline]
    fn is_waited_for(&self) -> bool {
        self.is_bounded() && self.header().ext().is_some_and(|ext| ext.room.is_waited_for())
    }

    fn room(&self) -> &Semaphore {
        &self.header().ext_made().room
    }

    /// True if a message would be refused for want of room: the mailbox is run on some thread, and
    /// full. Looked at before a node is made for it.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.is_bounded() && !self.has_executor() && self.is_run_full()
    }

    #[inline(never)]
    fn is_run_full(&self) -> bool {
        let now = self.header().word.load();
        let is_run = now.count() > 0 && !now.is_pending() && !now.has(CLOSED);
        is_run && self.header().ext().is_some_and(|ext| !ext.room.has(1))
    }

    /// Claims an idle mailbox for one turn, unless a sender waits for room in it. `on_the_spot`:
    /// what [`runs_on_the_spot`](Self::runs_on_the_spot) has just said.
    #[inline(always)]
    pub(super) fn claim_as_first(&self, on_the_spot: bool) -> Result<ClaimedBy<S>, Snapshot> {
        if !on_the_spot && self.is_waited_for() {
            return Err(self.header().word.load());
        }
        self.claim_by(Word::claim_idle)
    }
}

impl<S: 'static> Strong<S> {
    /// Puts nodes in, each with a permit, if they need permits.
    #[inline(always)]
    pub(super) fn put(&self, local: &Local, seen: Snapshot, links: Links, entry: Entry) -> Put {
        if self.is_bounded() {
            return self.put_with_permits(local, seen, links, entry);
        }
        let pushed = self.push_nodes(seen, links, entry);
        pushed.map_err(|(links, refusal)| (links, self.reason(refusal)))
    }

    #[inline(never)]
    fn put_with_permits(&self, local: &Local, seen: Snapshot, links: Links, entry: Entry) -> Put {
        // A sender that must not leave its message to others takes the mailbox first.
        if entry != Entry::DrainOnly && self.room().try_acquire(links.len()) {
            return self.put_permitted(seen, links, entry);
        }
        let now = self.header().word.load();
        if now.has(CLOSED) {
            return Err((links, self.reason(Refusal::Closed)));
        }
        let is_run = now.count() > 0 && !now.is_pending();
        match entry {
            Entry::DrainOnly if is_run => Err((links, self.reason(Refusal::Busy))),
            Entry::Drain | Entry::DrainOnly if !is_run => self.put_as_owner(local, links, entry),
            _ => Err((links, Reason::Full)),
        }
    }

    /// Puts nodes in that have their permits.
    fn put_permitted(&self, seen: Snapshot, links: Links, entry: Entry) -> Put {
        self.push_nodes(seen, links, entry).map_err(|(links, refusal)| {
            self.room().give_back(links.len());
            // The one that closed it may not have seen that there is a semaphore.
            self.header().refuse_waiters();
            (links, self.reason(refusal))
        })
    }

    /// Puts nodes into a mailbox that has no room and is not run: its new owner takes a message up
    /// at once, which makes room for one.
    #[cold]
    fn put_as_owner(&self, local: &Local, links: Links, entry: Entry) -> Put {
        let (room, len) = (self.room(), links.len());
        for _ in 0..2 {
            if room.is_waited_for() || !room.has(len - 1) {
                return Err((links, Reason::Full));
            }
            let owner = match self.claim_by(Word::claim_idle) {
                Ok(claimed) => claimed.into_owner(),
                Err(_) => match self.to_ref().take_over() {
                    Some(owner) => owner,
                    None => break,
                },
            };
            if !owner.has_begun_turn() && room.overdraw(len) || room.try_acquire(len) {
                return self.put_by(local, owner, links);
            }
            // A turn that has begun goes on first, and makes no room: within the actor's budget.
            drain(local, owner);
            if entry == Entry::Drain && room.try_acquire(len) {
                return self.put_permitted(Snapshot::IDLE, links, entry);
            }
        }
        let reason = match entry {
            _ if self.header().word.load().has(CLOSED) => self.reason(Refusal::Closed),
            Entry::DrainOnly => self.reason(Refusal::Busy),
            _ => Reason::Full,
        };
        Err((links, reason))
    }

    /// Puts nodes that have their permits in, by the mailbox's owner, who runs what was there
    /// first.
    fn put_by(&self, local: &Local, mut owner: Owner, links: Links) -> Put {
        match self.put_permitted(Snapshot::IDLE, links, Entry::Leave) {
            Ok(_) => {
                owner.settle();
                Ok(Owed::Drain(owner))
            }
            Err(refused) => {
                drain(local, owner);
                Err(refused)
            }
        }
    }

    /// Sends a message; if the mailbox is full, it waits in the queue, and what stands for it there
    /// comes back instead.
    pub(crate) fn send_or_wait<E: Envelope + Send + 'static>(
        &self,
        message: E,
    ) -> Result<Sent<E>, Waits<S, E>> {
        let message = match self.put_in(message, By::Sender) {
            Err((message, Reason::Full)) if !self.drops_newest() => message,
            sent => return Ok(sent),
        };
        // Whether a turn of another actor, with one of this actor below it, can wait is known when
        // it does: a task lies down, and a thread blocks.
        let circle = with_local(|local| circle_of_turn(local, self.addr()));
        if let Some(cycle) = circle {
            return Ok(Err((message, Reason::Deadlock(cycle))));
        }
        let (sender, asker) = oneshot(Promised);
        let waiter = PermitWaiter::new(Unpushed::new(message), sender);
        let (waiter, is_closed) = match self.room().acquire(waiter) {
            Acquired::Waits(number) => {
                let handle = Some(self.clone());
                return Err(Waits { handle, asker, number, of: PhantomData });
            }
            Acquired::Permit(waiter) => (waiter, false),
            Acquired::Closed(waiter) => (waiter, true),
        };
        let message = waiter.into_message().into_message::<E>();
        if is_closed {
            return Ok(Err((message, self.reason(Refusal::Closed))));
        }
        Ok(with_local(|local| self.send_permitted(local, message)))
    }

    fn send_permitted<E: Envelope>(&self, local: &Local, message: E) -> Sent<E> {
        let entry = self.entry(local, By::Sender);
        let put = |links| self.put_permitted(Snapshot::IDLE, links, entry);
        let owed = Unsent::new(message).push(put)?;
        discharge(local, &self.lent(), owed, By::Sender);
        Ok(())
    }
}

impl<S: 'static, E: Envelope + 'static> Waits<S, E> {
    pub(crate) fn handle(&self) -> &Strong<S> {
        self.handle.as_ref().expect("it is taken out by the drop")
    }

    fn answer(&mut self) -> Option<Sent<E>> {
        // It is answered with a message or nothing.
        let refused = self.asker.take()?.ok().flatten();
        Some(refused.map_or(Ok(()), |(message, reason)| Err((message.into_message::<E>(), reason))))
    }

    /// Takes the message out of the queue, if it is still there.
    fn take_out(&mut self) -> Option<E> {
        let waiter = self.handle().room().give_up(self.number)?;
        Some(waiter.into_message().into_message::<E>())
    }

    /// Gives up: the message, for this reason, unless it was accepted or refused meanwhile.
    fn give_up(&mut self, reason: Reason) -> Sent<E> {
        if let Some(message) = self.take_out() {
            return Err((message, reason));
        }
        // The one that has taken it out of the queue is about to answer.
        loop {
            if let Some(answer) = self.answer() {
                return answer;
            }
            if self.asker.watch(Waiter::Thread(thread::current())) {
                // The drop of the waker before may have used a wake-up up.
                while !self.asker.is_done() {
                    thread::park();
                }
            }
        }
    }

    /// Waits until the message is accepted, refused, or the time is over ([`Reason::Full`]).
    pub(crate) fn wait(self, deadline: Cutoff<'_>) -> Sent<E> {
        let (mut this, given_up) = panic::owning(self, |this| this.wait_here(deadline));
        match this.answer() {
            Some(answer) => answer,
            None => this.give_up(given_up.unwrap_or(Reason::Full)),
        }
    }

    /// The reason that the wait is given up, if its time is not over.
    fn wait_here(&mut self, deadline: Cutoff<'_>) -> Option<Reason> {
        if self.asker.is_done() || deadline.is_over() {
            return None;
        }
        // A thread that waits runs what is pending, if the actor allows that.
        let cell = self.handle().to_ref();
        if let Some(cycle) = cell.own_circle() {
            return Some(Reason::Deadlock(cycle));
        }
        let done = || self.asker.is_done();
        cell.help(&Until { done: &done, at_once: false, deadline });
        if !self.asker.watch(Waiter::Thread(thread::current())) {
            return None;
        }
        let slept = cell.relieve(|| cell.sleep_for(&self.asker, deadline).err());
        slept.unwrap_or(Some(Reason::WouldBlock))
    }

    /// [`wait`](Self::wait) for a task. Runs no turn.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Sent<E>> {
        if let Some(answer) = self.answer() {
            return Poll::Ready(answer);
        }
        if let Some(cycle) = circle_of_task(cx.waker(), self.handle().addr()) {
            return Poll::Ready(self.give_up(Reason::Deadlock(cycle)));
        }
        // User code first: if it panics, the waiter is as it was.
        let waiter = Waiter::Task(cx.waker().clone());
        if self.asker.watch(waiter) {
            before_pending(cx.waker());
            return Poll::Pending;
        }
        self.answer().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<S: 'static, E: Envelope + 'static> Drop for Waits<S, E> {
    fn drop(&mut self) {
        // One that was accepted or refused meanwhile needs nothing more.
        let message = self.take_out();
        drop(panic::owning(self.handle.take(), |_| drop(message)));
    }
}
