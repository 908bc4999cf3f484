//! A fair semaphore in front of a mailbox that has a capacity.
//!
//! A message that is put into such a mailbox holds one *permit*, from the moment it is accepted to
//! the beginning of its turn. The running message holds none, and neither does a turn that has
//! begun and goes on. So the number of waiting messages is the number of permits that are held, and
//! the word of the mailbox ([`super::word`]) knows no limit.
//!
//! | 63 .. 1                             | 0                                |
//! |-------------------------------------|----------------------------------|
//! | FREE + 1: the free permits, and one | WAITED: the queue is not empty   |
//!
//! | call            | from                | to                 | then                                  |
//! |-----------------|---------------------|--------------------|---------------------------------------|
//! | `try_acquire` n | `f >= n`, not W     | `f - n`            | the permits are the caller's          |
//! |                 | else                | same               | refused                               |
//! | `overdraw` n    | `f >= n - 1`, not W | `f - n`            | by an owner that takes a message up next |
//! | `acquire`       | `f > 0`             | `f - 1`            | the permit is the caller's            |
//! |                 | `f <= 0`            | `f`, W             | the caller is the last in the queue   |
//! | `release`       | `f < 0`, or not W   | `f + 1`            |                                       |
//! |                 | `f >= 0`, W         | W while more wait  | the permit is the first waiter's      |
//! | `give_up`       | W                   | W while more wait  | the waiter is out of the queue        |
//!
//! - ROOM-1, fair: while a waiter is in the queue, no permit is free. WAITED is raised and lowered
//!   under the lock of the queue, together with the queue: a release finds the waiter, or the
//!   waiter finds the permit. A permit that is released goes to the first waiter and is never free.
//! - ROOM-2, holders: a waiter lies in the queue with its message, in the message's own node. To
//!   take it out of the queue, under the lock, makes a holder of the node: the owner that has a
//!   permit for it and pushes it, the one that closes the mailbox, or the sender that gives up. The
//!   first two answer the sender after that, outside of the lock.
//! - ROOM-3, order: permits are released by the mailbox's owner, one at a time, as it takes
//!   messages up ([`release`](Semaphore::release)). So those that are let in are pushed in the
//!   order of the queue, and the mailbox is not idle meanwhile. The permits of a push that is
//!   refused, because the mailbox is closed, go to no waiter: none is let in any more.
//! - ROOM-4, overdrawn: FREE is -1 only while an owner has not taken its first message up yet.
//! - ROOM-5, closed: no waiter comes into the queue of a closed mailbox once that was emptied.
//!
//! All steps of the word are relaxed: they are read-modify-writes of one location, which decide,
//! and nothing is read through them. A waiter's message passes by the lock, one that is accepted by
//! the word of the mailbox.

use std::any::TypeId;
use std::collections::BTreeMap;

use crate::error::Reason;
use crate::mailbox::node::{Envelope, NodePtr};
use crate::mailbox::oneshot::{Answerer, Promised};
use crate::mailbox::word::{Due, Entry, Word};
use crate::panic;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;

/// The capacity of a mailbox without one.
pub(crate) const UNBOUNDED: u32 = u32::MAX;
/// The largest capacity.
pub(crate) const MAX_CAPACITY: u32 = u32::MAX >> 1;

/// The queue is not empty.
const WAITED: u64 = 1;
const PERMIT: u64 = 2;

/// A message that was pushed nowhere, in its node.
pub(crate) struct Unpushed {
    node: Option<NodePtr>,
    /// The type of the message.
    of: TypeId,
    /// Drops it.
    discard: fn(&mut Unpushed),
}

// SAFETY: it is the only holder of its node (NODE-1), and `new` takes messages that are Send.
unsafe impl Send for Unpushed {}

impl Unpushed {
    pub(crate) fn new<E: Envelope + Send + 'static>(message: E) -> Self {
        let (node, of) = (Some(NodePtr::new(message)), TypeId::of::<E>());
        Unpushed { node, of, discard: Unpushed::discard::<E> }
    }

    fn node(&self) -> &NodePtr {
        self.node.as_ref().expect("it is taken out once, at the end")
    }

    fn into_node(mut self) -> NodePtr {
        self.node.take().expect("it is taken out once, at the end")
    }

    /// The message.
    ///
    /// # Panics
    /// If it was made of another type.
    pub(crate) fn into_message<E: Envelope + 'static>(mut self) -> E {
        self.take().expect("it is taken out once, at the end")
    }

    fn take<E: Envelope + 'static>(&mut self) -> Option<E> {
        assert!(self.of == TypeId::of::<E>(), "a message of another type");
        // SAFETY: NODE-1: this was the holder of the node, which was pushed nowhere, and holds an
        // E.
        self.node.take().map(|node| unsafe { node.take_back::<E>() })
    }

    fn discard<E: Envelope + 'static>(&mut self) {
        let message = self.take::<E>();
        panic::ignore(|| drop(message));
    }
}

impl Drop for Unpushed {
    fn drop(&mut self) {
        (self.discard)(self);
    }
}

/// The answer to a waiter: nothing if its message was accepted, else the message and why
/// it was not.
pub(crate) type PermitAnswer = Option<(Unpushed, Reason)>;

/// One that waits for a permit.
pub(crate) struct PermitWaiter {
    message: Unpushed,
    sender: Answerer<Promised, PermitAnswer>,
}

impl PermitWaiter {
    pub(crate) fn new(message: Unpushed, sender: Answerer<Promised, PermitAnswer>) -> Self {
        PermitWaiter { message, sender }
    }

    /// Its message, which its sender has back without an answer.
    pub(crate) fn into_message(self) -> Unpushed {
        self.message
    }

    /// Pushes the message, with a permit, and wakes its sender. By the owner of the mailbox. If
    /// that is closed, the message goes back, and so does the permit.
    fn enter(self, room: &Semaphore, word: &Word, why: impl FnOnce() -> Reason) {
        let PermitWaiter { message, sender } = self;
        let (node, link) = (message.node().addr(), |head| message.node().set_next(head));
        // Ordering: the push is the writer side of MESSAGE for what the lock of the queue has
        // carried here.
        match word.push(word.load(), (node, 1), Entry::Leave, link) {
            Ok(due) => {
                debug_assert!(matches!(due, Due::Nothing), "the caller owns the mailbox");
                let _pushed = message.into_node();
                answer(sender, None);
            }
            Err(_) => {
                room.give_back(1);
                answer(sender, Some((message, why())));
            }
        }
    }

    /// Gives the message back.
    pub(crate) fn refuse(self, reason: Reason) {
        answer(self.sender, Some((self.message, reason)));
    }
}

/// Wakes the sender: user code.
fn answer(sender: Answerer<Promised, PermitAnswer>, answer: PermitAnswer) {
    // A sender that gives up takes itself out of the queue, and withdraws nothing.
    let accepted = sender.claim().expect("a waiter is answered once");
    accepted.finish(Ok(answer));
}

/// The room of one mailbox.
pub(crate) struct Semaphore {
    word: AtomicU64,
    capacity: u32,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// By their numbers, which say who came first.
    waiters: BTreeMap<u64, PermitWaiter>,
    /// The number of the last one.
    last: u64,
    is_closed: bool,
}

/// Outcome of an attempt to [`acquire`](Semaphore::acquire).
pub(crate) enum Acquired {
    Permit(PermitWaiter),
    /// The waiter is in the queue, by this number.
    Waits(u64),
    Closed(PermitWaiter),
}

impl Semaphore {
    pub(crate) fn new(capacity: u32) -> Self {
        let free = (u64::from(capacity) + 1) * PERMIT;
        Semaphore { word: AtomicU64::new(free), capacity, queue: Mutex::default() }
    }

    /// True if the queue is not empty. One that comes after a waiter sees it.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        // Ordering: Relaxed. Nothing is read through it, and one who comes after a waiter reads
        // what that has written, or something newer.
        self.word.load(Relaxed) & WAITED != 0
    }

    /// True if n permits are free. Stale on return.
    pub(crate) fn has(&self, n: u64) -> bool {
        // Ordering: Relaxed. A hint: the permits are taken by another step.
        self.word.load(Relaxed) / PERMIT > n
    }

    /// The number of permits that are held: messages that wait in the mailbox. Stale on return.
    pub(crate) fn held(&self) -> u64 {
        // Ordering: Relaxed. A figure for users.
        let free = self.word.load(Relaxed) / PERMIT;
        (u64::from(self.capacity) + 1).saturating_sub(free)
    }

    /// The number of waiters.
    pub(crate) fn waiters(&self) -> usize {
        if self.is_waited_for() { self.queue.lock().waiters.len() } else { 0 }
    }

    /// Takes n permits, unless there are waiters.
    #[inline]
    pub(crate) fn try_acquire(&self, n: u64) -> bool {
        self.take(n, n + 1)
    }

    /// [`try_acquire`](Self::try_acquire) by the owner of the mailbox, which takes a message up
    /// next: that gives one permit back before anything else is done.
    pub(crate) fn overdraw(&self, n: u64) -> bool {
        self.take(n, n)
    }

    #[inline]
    fn take(&self, n: u64, least: u64) -> bool {
        let mut now = self.word.load(Relaxed);
        while now & WAITED == 0 && now / PERMIT >= least {
            // Ordering: Relaxed. It only decides.
            match self.word.compare_exchange(now, now - n * PERMIT, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }

    /// Takes a permit, or the last place in the queue.
    pub(crate) fn acquire(&self, waiter: PermitWaiter) -> Acquired {
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return Acquired::Closed(waiter);
        }
        let mut now = self.word.load(Relaxed);
        loop {
            let (next, free) =
                if now / PERMIT > 1 { (now - PERMIT, true) } else { (now | WAITED, false) };
            // Ordering: Relaxed. It only decides; what the queue holds is the lock's.
            match self.word.compare_exchange(now, next, Relaxed, Relaxed) {
                Ok(_) if free => return Acquired::Permit(waiter),
                Ok(_) => break,
                Err(seen) => now = seen,
            }
        }
        queue.last += 1;
        let number = queue.last;
        queue.waiters.insert(number, waiter);
        Acquired::Waits(number)
    }

    /// Gives one permit back, as the owner of the mailbox takes a message up; to the first that
    /// waits, whose message it pushes. Runs user code: that of the waker.
    #[inline]
    pub(crate) fn release(&self, word: &Word, why: impl FnOnce() -> Reason) {
        let mut now = self.word.load(Relaxed);
        while now & WAITED == 0 || now < PERMIT {
            debug_assert!(now / PERMIT <= u64::from(self.capacity), "released and not acquired");
            // Ordering: Relaxed. It only decides.
            match self.word.compare_exchange(now, now + PERMIT, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(seen) => now = seen,
            }
        }
        self.hand_on(word, why);
    }

    /// [`release`](Self::release) to one that waits, if it still does.
    #[cold]
    fn hand_on(&self, word: &Word, why: impl FnOnce() -> Reason) {
        let first = {
            let mut queue = self.queue.lock();
            let first = queue.waiters.pop_first();
            match first {
                Some(_) => self.lower_if_empty(&queue),
                None => self.give_back(1),
            }
            first
        };
        if let Some((_, waiter)) = first {
            waiter.enter(self, word, why);
        }
    }

    /// Gives permits back that are for no waiter: under the lock of an empty queue, or of a closed
    /// mailbox.
    pub(crate) fn give_back(&self, n: u64) {
        // Ordering: Relaxed. It only decides.
        self.word.fetch_add(n * PERMIT, Relaxed);
    }

    /// Takes a waiter out of the queue again, if it is still there: its message is the caller's.
    pub(crate) fn give_up(&self, number: u64) -> Option<PermitWaiter> {
        let mut queue = self.queue.lock();
        let waiter = queue.waiters.remove(&number)?;
        self.lower_if_empty(&queue);
        Some(waiter)
    }

    fn lower_if_empty(&self, queue: &Queue) {
        if queue.waiters.is_empty() {
            // Ordering: Relaxed. It only decides; the queue is the lock's.
            self.word.fetch_and(!WAITED, Relaxed);
        }
    }

    /// Closes the queue, of a mailbox that was closed, and takes its first waiter out, to be
    /// refused. One at a time: a waiter that was not refused yet can give up.
    pub(crate) fn close_next(&self) -> Option<PermitWaiter> {
        let mut queue = self.queue.lock();
        let Queue { waiters, is_closed, .. } = &mut *queue;
        *is_closed = true;
        let (_, first) = waiters.pop_first()?;
        self.lower_if_empty(&queue);
        Some(first)
    }
}
