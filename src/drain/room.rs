//! What happens at a full mailbox: waiting for room, and making room by dropping the oldest.
//!
//! **Waiting.** A sender who waits for room leaves his letter in a reply cell ([`crate::reply`]), and a node that leads to it in the mailbox's
//! queue of seats. The owner admits seats in the order of the queue, several at a time: it pushes their nodes like any sender (so the
//! limit stays exact and the order is that of acceptance), and wakes all whom it has let in. WATCH tells the owner that there is a queue.
//! In the cell, being let in and giving up exclude each other (Q1): who gives up has his letter back and it certainly was not sent.
//!
//! **Dropping the oldest.** Letters stand in a ring beside the mailbox, under a lock; the mailbox itself holds a token for each. When the ring is
//! full, a sender takes the oldest letter out and gives it back on the spot, whatever a handler is busy with: its memory is freed then. The new
//! letter goes to the tail, and the tokens stay as they are: a token runs the oldest letter that is there at its turn. Everything sent to such
//! a mailbox stands in the ring, so that there is one order and one limit; but a message whose asker waits does not make way.
//!
//! - S1: a seat's node has one holder: the queue, until the owner pushes it or its sender, having given up, takes it out.
//! - S2: under the ring's lock, there are as many letters as tokens whose turn has not taken one. So a token finds a letter.

use std::any::TypeId;
use std::collections::VecDeque;
use std::marker::PhantomData;

use super::block::Core;
use super::chain::Links;
use super::env::Env;
use super::envelope::{give_back, run_letter};
use super::letter::Letter;
use super::pass::before_message;
use crate::error::Reason;
use crate::mailbox::chunk::Row;
use crate::mailbox::node::{Message, NodePtr, Panic, Taken, VTable};
use crate::mailbox::word::{CLOSED, Entry, Refusal};
use crate::reply::{Answerer, Question};
use crate::sync::Mutex;
use crate::unwind::shrug_off;

/// Senders who wait for room, first come first served.
#[derive(Default)]
pub(crate) struct Room(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    next: u64,
    seats: VecDeque<Seat>,
}

/// One of them. The number is his alone: a node's address may be another's by the time he looks for it.
struct Seat {
    number: u64,
    node: NodePtr,
    kind: &'static SeatKind,
}

// SAFETY: S1: the node is the queue's, and what is in it is Send.
unsafe impl Send for Seat {}

/// What the owner does with a seat without knowing its letter's type.
pub(crate) struct SeatKind {
    admit: unsafe fn(*mut u8),
    refuse: unsafe fn(*mut u8, Reason),
}

/// A letter in a cell, before there is room for it; its sender gets it back with a reason if there never is.
pub(crate) struct Waiting<L>(pub(crate) L);

impl<L> Question for Waiting<L> {
    type Payload = L;
    fn payload(self) -> L {
        self.0
    }
}

/// The answer to one who waits for room: nothing, or his letter and why.
pub(crate) type Seated<L> = Option<(L, Reason)>;

/// The message of a seat.
pub(crate) struct Held<S, L> {
    answerer: Option<Answerer<Waiting<L>, Seated<L>>>,
    of: PhantomData<fn(S)>,
}

impl<S: 'static, L: Letter<S>> Held<S, L> {
    pub(crate) const KIND: &'static SeatKind = &SeatKind { admit: Self::admit, refuse: Self::refuse };

    pub(crate) fn new(answerer: Answerer<Waiting<L>, Seated<L>>) -> Self {
        Held { answerer: Some(answerer), of: PhantomData }
    }

    /// # Safety
    /// The owner of the mailbox has pushed this seat's node and not taken it yet.
    unsafe fn admit(payload: *mut u8) {
        // SAFETY: the payload is a `Held<S, L>`, which only the owner reaches.
        let this = unsafe { &mut *payload.cast::<Self>() };
        if let Some(answerer) = this.answerer.take() {
            if answerer.accept() {
                answerer.answer(Ok(None));
                this.answerer = Some(answerer);
            } else {
                answerer.leave();
            }
        }
    }

    /// # Safety
    /// The caller is the holder of this seat's node, which is pushed nowhere.
    unsafe fn refuse(payload: *mut u8, reason: Reason) {
        // SAFETY: the payload is a `Held<S, L>`.
        let this = unsafe { &mut *payload.cast::<Self>() };
        if let Some(answerer) = this.answerer.take() {
            match answerer.start() {
                Some(Waiting(letter)) => answerer.finish(Ok(Some((letter, reason)))),
                None => answerer.leave(),
            }
        }
    }

    /// Its sender has given up and has his letter back.
    pub(crate) fn abandon(mut self) {
        if let Some(answerer) = self.answerer.take() {
            answerer.leave();
        }
    }

    /// The letter, if it was let in.
    ///
    /// # Safety
    /// E1.
    unsafe fn letter(payload: *mut u8) -> Option<L> {
        // SAFETY: E1: the payload is a `Held<S, L>`.
        let answerer = unsafe { &mut *payload.cast::<Self>() }.answerer.take()?;
        // SAFETY: `admit` has accepted it, and kept the answerer for that reason.
        let Waiting(letter) = unsafe { answerer.take_accepted() };
        answerer.leave();
        Some(letter)
    }

    /// # Safety
    /// E1.
    unsafe fn run(payload: *mut u8, env: *const ()) {
        // SAFETY: E1.
        unsafe {
            if let Some(letter) = Self::letter(payload) {
                run_letter::<S, L>(env, letter);
            }
        }
    }

    /// # Safety
    /// E1.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: E1.
        unsafe {
            if let Some(letter) = Self::letter(payload) {
                give_back::<S, L>(Env::core(env), letter);
            }
        }
    }

    /// # Safety
    /// E1.
    unsafe fn panicked(_: *mut u8, _: *const (), panic: Panic) {
        drop(panic);
    }
}

impl<S: 'static, L: Letter<S>> Message for Held<S, L> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked).of_kind(L::KIND);
}

impl Room {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().seats.is_empty()
    }

    /// Takes a seat at the end of the queue; the number gives it up again.
    pub(crate) fn sit(&self, node: NodePtr, kind: &'static SeatKind) -> u64 {
        let mut queue = self.0.lock();
        queue.next += 1;
        let number = queue.next;
        queue.seats.push_back(Seat { number, node, kind });
        number
    }

    /// Takes a seat out again, if it is still there: its sender has given up, and here is his node.
    pub(crate) fn rise(&self, number: u64) -> Option<NodePtr> {
        let seats = &mut self.0.lock().seats;
        let at = seats.iter().position(|seat| seat.number == number)?;
        seats.remove(at).map(|seat| seat.node)
    }

    /// Lets in as many as there is room for, and turns all away if the mailbox is closed.
    ///
    /// # Safety
    /// The caller owns the mailbox of `core`, and this is its queue.
    pub(crate) unsafe fn admit(&self, core: &Core) {
        let limit = core.about().limit;
        let mut let_in = Vec::new();
        let mut turned_away = VecDeque::new();
        {
            let seats = &mut self.0.lock().seats;
            while let Some(seat) = seats.front() {
                let chain = (seat.node.addr(), 1);
                match core.word.push(core.word.load(), chain, limit, Entry::Park, |head| seat.node.set_next(head)) {
                    // The caller owns it: nothing is left owing.
                    Ok(_) => let_in.extend(seats.pop_front()),
                    Err(Refusal::Full) => break,
                    Err(Refusal::Closed) => turned_away = std::mem::take(seats),
                }
            }
        }
        for seat in let_in {
            // SAFETY: pushed above, and only the caller takes.
            unsafe { (seat.kind.admit)(seat.node.alone().payload()) }
        }
        for seat in turned_away {
            let reason = core.stop_cause().map_or(Reason::Closed, Reason::Stopped);
            // SAFETY: S1: out of the queue, so this is the holder; it was moved out or given up.
            unsafe {
                let alone = seat.node.alone();
                (seat.kind.refuse)(alone.payload(), reason);
                alone.free(&mut Row::new());
            }
        }
    }
}

/// The letters of a mailbox that drops the oldest.
pub(crate) struct Ring {
    letters: Mutex<VecDeque<(NodePtr, Worth)>>,
    most: usize,
}

// SAFETY: the nodes are the ring's, and what is in them is Send.
unsafe impl Send for Ring {}
// SAFETY: as above; the lock lets one thread in.
unsafe impl Sync for Ring {}

/// The message that stands for a letter in the ring.
pub(crate) struct Token(Option<Taken>);

impl Ring {
    pub(crate) fn new(most: u32) -> Self {
        Ring { letters: Mutex::new(VecDeque::new()), most: most as usize }
    }

    /// Puts letters in. With room for all, `push` pushes a token for each first. Without, a single letter that may be dropped itself takes the
    /// place of the oldest such one, if it `drops`.
    pub(crate) fn put<D>(
        &self,
        core: &Core,
        links: Links,
        worth: Worth,
        drops: bool,
        push: impl FnOnce() -> Result<D, Refusal>,
    ) -> Result<Put<D>, Refusal> {
        let mut letters = self.letters.lock();
        if letters.len() as u64 + links.len <= self.most as u64 {
            // S2: the token's turn comes to this lock.
            let entered = push()?;
            letters.extend(links.nodes().map(|node| (node, worth)));
            return Ok(Put::Entered(entered));
        }
        if core.word.load().has(CLOSED) {
            return Err(Refusal::Closed);
        }
        let oldest = letters.iter().position(|(_, worth)| *worth == Worth::Droppable);
        let replaceable = oldest.filter(|_| drops && worth == Worth::Droppable && links.len == 1);
        let (node, _) = replaceable.and_then(|at| letters.remove(at)).ok_or(Refusal::Full)?;
        letters.push_back((links.first, worth));
        Ok(Put::Replaced(node.alone()))
    }

    fn take(&self) -> Option<Taken> {
        self.letters.lock().pop_front().map(|(node, _)| node.alone())
    }
}

/// May a letter make way for a newer one?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// Nobody waits for it.
    Droppable,
    /// Its asker waits.
    Kept,
}

/// How a letter came into the ring.
pub(crate) enum Put<D> {
    /// With a token of its own.
    Entered(D),
    /// In the place of this one.
    Replaced(Taken),
}

impl Token {
    pub(crate) fn new() -> Self {
        Token(None)
    }

    /// # Safety
    /// E1, by `f` too; the payload is a `Token` of a mailbox with a ring.
    unsafe fn with_letter(payload: *mut u8, env: *const (), f: impl FnOnce(Taken)) {
        // SAFETY: the caller's word.
        let (this, core) = unsafe { (&mut *payload.cast::<Self>(), &*Env::core(env)) };
        let Some(letter) = core.ring().and_then(Ring::take) else { return };
        this.0 = Some(letter);
        f(letter);
        Self::free(this);
    }

    fn free(&mut self) {
        if let Some(letter) = self.0.take() {
            // SAFETY: S2: it was taken out of the ring by this token, and its message was moved out.
            unsafe { letter.free(&mut Row::new()) }
        }
    }

    /// # Safety
    /// E1.
    unsafe fn run(payload: *mut u8, env: *const ()) {
        // SAFETY: E1; the letter is run or discarded once. Which one it is shows only now.
        unsafe {
            Self::with_letter(payload, env, |letter| {
                if before_message(Env::core(env), letter.kind()) {
                    letter.run(env);
                } else {
                    shrug_off(|| letter.discard(env));
                }
            });
        }
    }

    /// # Safety
    /// E1.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: E1; the letter is discarded once.
        unsafe {
            Self::with_letter(payload, env, |letter| {
                shrug_off(|| letter.discard(env));
            });
        }
    }

    /// # Safety
    /// E1, after `run` has unwound.
    unsafe fn panicked(payload: *mut u8, env: *const (), panic: Panic) {
        // SAFETY: E1; the letter's own `run` has unwound.
        unsafe {
            let this = &mut *payload.cast::<Self>();
            if let Some(letter) = this.0 {
                shrug_off(|| letter.panicked(env, panic));
            }
            this.free();
        }
    }
}

impl Message for Token {
    /// A kind of its own: nothing is done between two of them, for its letter's turn does it.
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked).of_kind(Some(TypeId::of::<Self>));
}
