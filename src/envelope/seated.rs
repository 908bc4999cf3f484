//! A message that waits for room: it lies in a oneshot, and a node that leads there in the
//! mailbox's queue of seats ([`crate::mailbox::seats`]).
//!
//! In the oneshot, being let in and giving up exclude each other (Q1): whoever gives up has its
//! message back, and it certainly was not sent. The owner that lets a message in answers its sender
//! at once, and keeps its side of the oneshot, in which the message stays until its turn.

use crate::error::Reason;
use crate::mailbox::node::{Envelope, Ran, VTable};
use crate::mailbox::oneshot::{Answerer, Question};
use crate::mailbox::seats::SeatKind;
use crate::panic::{self, Payload};

/// What waits, in its oneshot.
#[repr(transparent)]
pub(crate) struct Waiting<E>(pub(crate) E);

impl<E> Question for Waiting<E> {
    type Payload = E;
    fn payload(self) -> E {
        self.0
    }
}

/// The answer to one that waits for room: nothing, or its message and why.
pub(crate) type Seating<E> = Option<(E, Reason)>;

/// The node of a seat.
pub(crate) struct Seated<E> {
    answerer: Option<Answerer<Waiting<E>, Seating<E>>>,
}

impl<E: Envelope> Seated<E> {
    pub(crate) const KIND: &'static SeatKind =
        &SeatKind { admit: Self::admit, refuse: Self::refuse };

    pub(crate) fn new(answerer: Answerer<Waiting<E>, Seating<E>>) -> Self {
        Seated { answerer: Some(answerer) }
    }

    /// # Safety
    /// The owner of the mailbox has pushed this node and not taken it yet.
    unsafe fn admit(payload: *mut u8) {
        // SAFETY: the payload is a `Seated<E>`, which only the owner reaches.
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
    /// The caller is the holder of this node, which is pushed nowhere (S1).
    unsafe fn refuse(payload: *mut u8, reason: Reason) {
        // SAFETY: the payload is a `Seated<E>`.
        let this = unsafe { &mut *payload.cast::<Self>() };
        if let Some(answerer) = this.answerer.take() {
            match answerer.start() {
                Some(Waiting(message)) => answerer.finish(Ok(Some((message, reason)))),
                None => answerer.leave(),
            }
        }
    }

    /// Its sender has given up and has its message back.
    pub(crate) fn abandon(mut self) {
        if let Some(answerer) = self.answerer.take() {
            answerer.leave();
        }
    }

    /// # Safety
    /// E1. If it unwinds, `panicked` follows.
    unsafe fn run(payload: *mut u8, env: *const ()) -> Ran {
        // SAFETY: E1: the payload is a `Seated<E>`.
        let this = unsafe { &mut *payload.cast::<Self>() };
        let Some(answerer) = &this.answerer else { return Ran::Done };
        // SAFETY: E1; `admit` has accepted the message, and kept the answerer for that reason.
        let ran = unsafe { (E::VTABLE.run)(answerer.question().cast(), env) };
        this.answerer.take().into_iter().for_each(Answerer::leave);
        ran
    }

    /// # Safety
    /// E1.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: E1: the payload is a `Seated<E>`.
        let this = unsafe { &mut *payload.cast::<Self>() };
        let Some(answerer) = this.answerer.take() else { return };
        // SAFETY: E1, as above.
        panic::ignore(|| unsafe { (E::VTABLE.discard)(answerer.question().cast(), env) });
        answerer.leave();
    }

    /// # Safety
    /// E1, after `run` has unwound.
    unsafe fn panicked(payload: *mut u8, env: *const (), panic: Payload) {
        // SAFETY: E1: the payload is a `Seated<E>`.
        let this = unsafe { &mut *payload.cast::<Self>() };
        let Some(answerer) = this.answerer.take() else { return panic::discard(panic) };
        // SAFETY: E1; the message's own `run` has unwound.
        let told = || unsafe { (E::VTABLE.panicked)(answerer.question().cast(), env, panic) };
        panic::ignore(told);
        answerer.leave();
    }
}

impl<E: Envelope> Envelope for Seated<E> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked);
}
