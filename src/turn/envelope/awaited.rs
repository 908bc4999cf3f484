//! A message whose turn may wait.
//!
//! Message, future and answer lie in one oneshot: the place of the message becomes that of the
//! future ([`Slot`]). Its node is gone when the turn begins. A suspended turn gets another one
//! ([`Resumed`]) by which the mailbox goes on with it.
//!
//! - ENVELOPE-5: a future borrows the state from its first poll to its drop. So the state is in its
//!   cell for that time (RESIDENT-1: a list with such a message is run without moving the state),
//!   nothing else of the actor runs (the mailbox is owned), and the future is dropped before its
//!   turn is over, and before a panic of it is dealt with.
//!
//! The rest of an actor that has panicked is such a turn, too ([`restart_after`]). It waits for a
//! timer, and then makes the fresh state: before all messages that wait, in the place of the one
//! that panicked. So a stop, or the end of the executor, cuts it, and leaves the state as the panic
//! has left it.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::slot::{Slot, SlotMut};
use super::{Answers, why_not};
use crate::cell::header::{AWAITS, Header, restart};
use crate::cell::owner::Owner;
use crate::cell::refs::Ref;
use crate::cell::resident::{Env, InTurn};
use crate::cell::turn::{Core, Cut, Keeper, TurnMut, TurnVTable};
use crate::cell::typed::Cell;
use crate::error::{ActorName, AskError, Reason, TurnPanic};
use crate::mailbox::node::{Envelope, NodePtr, Ran, VTable};
use crate::mailbox::oneshot::{Answerer, Asker, Question, oneshot};
use crate::panic::{self, Payload};
use crate::time::Sleep;
use crate::turn::waking::with_waker;

/// A message whose turn may wait: it becomes a future on the state. `Payload` is what its sender
/// gets back when it is cancelled.
pub(crate) trait AsyncMessage<S: 'static>: Send + Sized + 'static {
    type Answer: Send + 'static;
    type Payload: Send + 'static;
    type Future: Future<Output = Self::Answer> + Send;

    /// Begins its turn. The state is there for as long as the future, and for no longer.
    fn begin(self, state: &'static mut S, turn: InTurn<'_, S>) -> Self::Future;

    /// Converts it into the message that its sender gets back.
    fn payload(self) -> Self::Payload;

    /// Its future is about to be dropped at an await, and why. May unwind.
    fn cut(_: Pin<&mut Self::Future>, _: &AskError) {}
}

/// A message, for an actor of any type, whose turn may wait.
pub(crate) trait Suspends: Send + Sized + 'static {
    /// False for a turn of the actor's own, which is not counted if it is lost.
    const IS_MESSAGE: bool = true;

    type Answer: Send + 'static;
    type Payload: Send + 'static;
    type Future: Future<Output = Self::Answer> + Send;

    /// Begins the turn.
    ///
    /// # Safety
    /// ENVELOPE-1, ENVELOPE-5: the caller owns the mailbox of `cell`, whose state is in its cell,
    /// and drops the future before anything else of the actor runs.
    unsafe fn begin(self, cell: *const Header) -> Self::Future;

    /// Converts it into the message that its sender gets back.
    fn payload(self) -> Self::Payload;

    /// Its future is about to be dropped at an await, and why. May unwind.
    fn cut(_: Pin<&mut Self::Future>, _: &AskError) {}
}

/// A message for a state of that type.
pub(crate) struct On<S, L>(L, PhantomData<fn(S)>);

impl<S: Send + 'static, L: AsyncMessage<S>> Suspends for On<S, L> {
    type Answer = L::Answer;
    type Payload = L::Payload;
    type Future = L::Future;

    unsafe fn begin(self, cell: *const Header) -> L::Future {
        // SAFETY: ENVELOPE-1, ENVELOPE-5: the state is there, and the caller's until the future is
        // gone.
        unsafe {
            let state = Cell::<S>::with_state(cell, std::ptr::from_mut);
            self.0.begin(&mut *state, InTurn::new(cell))
        }
    }

    fn payload(self) -> L::Payload {
        self.0.payload()
    }

    fn cut(future: Pin<&mut L::Future>, why: &AskError) {
        L::cut(future, why);
    }
}

/// A turn, in the question's place of its oneshot.
#[repr(C)]
pub(crate) struct Turn<M: Suspends> {
    core: Core,
    /// The drainer's side of the oneshot: it leaves when nothing keeps the turn any more. Set
    /// before the turn is anything else's.
    answerer: Option<Answerer<Turn<M>, M::Answer>>,
    slot: Slot<M, M::Future>,
}

// SAFETY: message and future are Send, and touched by one thread at a time (ENVELOPE-4). The core
// is what wakers and handles on any thread share.
unsafe impl<M: Suspends> Send for Turn<M> {}

impl<M: Suspends> Question for Turn<M> {
    type Payload = M::Payload;

    fn payload(self) -> M::Payload {
        // SAFETY: ENVELOPE-4: a question is there by value for its winner alone.
        unsafe { self.slot.take_message() }.payload()
    }

    unsafe fn take_payload(this: *mut Self) -> M::Payload {
        // SAFETY: ENVELOPE-4: the caller has won the question. No reference to the whole turn is
        // made: the rest of it is the mailbox's.
        unsafe { (*this).slot.take_message() }.payload()
    }
}

/// The right to a turn of this type.
#[repr(transparent)]
struct Held<M: Suspends>(TurnMut, PhantomData<fn(M)>);

/// The message, in any node.
#[repr(transparent)]
pub(crate) struct Awaited<M: Suspends> {
    turn: Option<Held<M>>,
}

/// The node of a turn that goes on; no batch begins with it.
#[repr(transparent)]
struct Resumed<M: Suspends>(Awaited<M>);

enum Polled<R> {
    Pending,
    Over(Result<R, AskError>),
    /// It was cancelled before it began.
    Cancelled,
}

impl<M: Suspends> Held<M> {
    fn this(&self) -> &Turn<M> {
        // SAFETY: TURN-2: the right keeps the turn, of which the core is the first field, and which
        // is of this type.
        unsafe { self.0.core().cast::<Turn<M>>().as_ref() }
    }

    fn answerer(&self) -> &Answerer<Turn<M>, M::Answer> {
        self.this().answerer.as_ref().expect("a turn lies in its oneshot")
    }

    fn slot(&mut self) -> SlotMut<'_, M, M::Future> {
        self.parts().1
    }

    /// The turn, and its slot.
    fn parts(&mut self) -> (&Self, SlotMut<'_, M, M::Future>) {
        // SAFETY: ENVELOPE-4, TURN-4: this is the right to the turn, and it is borrowed for as
        // long.
        (self, unsafe { self.this().slot.own() })
    }

    /// Takes the message out, unless its asker has it back.
    fn start(&mut self) -> Option<M> {
        let (turn, mut slot) = self.parts();
        // SAFETY: `accept` says whether it has won the question.
        unsafe { slot.start(|| turn.answerer().accept()) }
    }

    /// Begins the turn, or goes on with it. Unwinds if user code does; then the future is gone.
    ///
    /// # Safety
    /// ENVELOPE-1: the caller owns the mailbox of `cell`, whose state is in its cell (RESIDENT-1).
    unsafe fn poll(&mut self, cell: *const Header) -> Polled<M::Answer> {
        let cut = self.0.begin_poll().err();
        if !self.slot().has_begun() {
            let Some(message) = self.start() else { return Polled::Cancelled };
            if let Some(cut) = cut {
                drop(message);
                return Polled::Over(Err(cut.into()));
            }
            // SAFETY: ENVELOPE-1, ENVELOPE-5: the state is in its cell, and the slot drops the
            // future before the turn ends.
            let future = unsafe { message.begin(cell) };
            self.slot().begin(future);
        } else if let Some(cut) = cut {
            let why = AskError::from(cut);
            let gone = self.slot().cut(|future| M::cut(future, &why));
            gone.unwrap_or_else(|payload| std::panic::resume_unwind(payload));
            return Polled::Over(Err(why));
        }
        let (turn, mut slot) = self.parts();
        let poll = |future: Pin<&mut M::Future>| {
            with_waker(&turn.0, |waker| future.poll(&mut Context::from_waker(waker)))
        };
        match slot.poll(poll) {
            Poll::Pending => Polled::Pending,
            Poll::Ready(Ok(answer)) => Polled::Over(Ok(answer)),
            Poll::Ready(Err(payload)) => std::panic::resume_unwind(payload),
        }
    }

    /// The turn is over.
    fn finish(mut self, header: &Header, answer: Result<M::Answer, AskError>) {
        self.0.unregister(header);
        // SAFETY: ONESHOT-1: the turn has begun, so its question was won; it is over once.
        unsafe { self.answerer().answer(answer) };
    }

    /// Answers a turn that has not begun, unless its asker has it back. False if the asker has
    /// left.
    fn refuse(mut self, error: AskError) -> bool {
        let Some(message) = self.start() else { return true };
        // SAFETY: ONESHOT-1: `start` has won the question, and the right to the turn goes with
        // this.
        let is_heard = unsafe { self.answerer().answer(Err(error)) };
        panic::ignore(|| drop(message));
        is_heard
    }
}

/// The functions of a turn's core.
///
/// # Safety
/// The turn is of this type.
unsafe fn node<M: Suspends>(turn: TurnMut) -> NodePtr {
    NodePtr::new(Resumed::<M>(Awaited { turn: Some(Held(turn, PhantomData)) }))
}

/// # Safety
/// `core` is that of a turn of this type, which nothing keeps.
unsafe fn free<M: Suspends>(core: NonNull<Core>) {
    let turn = core.cast::<Turn<M>>();
    // SAFETY: nothing keeps the turn, so nothing else looks at it. What the slot held was moved out
    // or dropped (ENVELOPE-4); it is the asker's as well, so its end is that of the oneshot.
    let answerer = unsafe {
        (&raw mut (*turn.as_ptr()).core).drop_in_place();
        (*turn.as_ptr()).answerer.take()
    };
    drop(answerer);
}

impl<S: Send + 'static, L: AsyncMessage<S>> Awaited<On<S, L>> {
    /// A turn to be pushed, and its asker: one allocation.
    #[inline]
    pub(crate) fn new(message: L) -> (Self, Asker<L::Answer, L::Payload>) {
        Awaited::of(On(message, PhantomData))
    }

    /// The message, of a turn that was accepted nowhere.
    pub(crate) fn take_back(mut self, asker: Asker<L::Answer, L::Payload>) -> L {
        let message = self.turn.take().and_then(|mut turn| turn.start());
        drop(asker);
        message.expect("a turn that was accepted nowhere is its sender's").0
    }
}

impl<M: Suspends> Awaited<M> {
    /// A turn of any actor, and its asker: one allocation.
    #[inline]
    fn of(message: M) -> (Self, Asker<M::Answer, M::Payload>) {
        let core = Core::new(const { &TurnVTable { node: node::<M>, free: free::<M> } });
        let (answerer, asker) = oneshot(Turn { core, answerer: None, slot: Slot::new(message) });
        let turn = NonNull::new(answerer.question()).expect("a question has an address");
        // SAFETY: it was made just now, and nothing else knows it.
        let right = unsafe {
            (*turn.as_ptr()).answerer = Some(answerer);
            TurnMut::first(turn.cast())
        };
        (Awaited { turn: Some(Held(right, PhantomData)) }, asker)
    }

    /// One that can abort the turn.
    pub(crate) fn keeper(&self) -> Keeper {
        self.turn.as_ref().expect("a message that was sent nowhere").0.keeper().clone()
    }

    /// # Safety
    /// ENVELOPE-1.
    unsafe fn run(payload: *mut u8, env: *const ()) -> Ran {
        // SAFETY: ENVELOPE-1: the payload is an `Awaited<M>`, which the owner alone reaches.
        let (this, env) = unsafe { (&mut *payload.cast::<Self>(), Env::at(env)) };
        debug_assert!(env.is_in_cell(), "a future borrows a state that moves");
        let Some(turn) = &mut this.turn else { return Ran::Done };
        // SAFETY: ENVELOPE-1, RESIDENT-1: this is the owner, and a list with such a message is run
        // without moving the state.
        let polled = unsafe { turn.poll(env.cell()) };
        let Some(turn) = this.turn.take() else { return Ran::Done };
        match polled {
            Polled::Pending => return Ran::Suspended(turn.0.into_raw()),
            Polled::Over(answer) => turn.finish(env.header(), answer),
            Polled::Cancelled => {}
        }
        Ran::Done
    }

    /// # Safety
    /// ENVELOPE-1.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: ENVELOPE-1: the payload is an `Awaited<M>`, which the owner alone reaches.
        let (this, header) = unsafe { (&mut *payload.cast::<Self>(), Env::at(env).header()) };
        let reason = why_not(header);
        let Some(mut turn) = this.turn.take() else { return };
        if turn.slot().has_begun() {
            let why = AskError::from(reason);
            turn.slot().cut(|future| M::cut(future, &why)).unwrap_or_else(panic::discard);
            turn.finish(header, Err(AskError::Aborted(ActorName::ANY)));
        } else if !turn.refuse(reason.into()) && M::IS_MESSAGE {
            header.discards();
        }
    }

    /// # Safety
    /// ENVELOPE-1, after `run` has unwound.
    unsafe fn panicked(payload: *mut u8, env: *const (), panic: Payload) {
        // SAFETY: ENVELOPE-1: the payload is an `Awaited<M>`, which the owner alone reaches.
        let (this, header) = unsafe { (&mut *payload.cast::<Self>(), Env::at(env).header()) };
        if let Some(turn) = this.turn.take() {
            let told = TurnPanic::of(header.name(), &panic);
            turn.finish(header, Err(AskError::Panicked(told)));
        }
        panic::discard(panic);
    }
}

impl<M: Suspends> Envelope for Awaited<M> {
    const VTABLE: &'static VTable =
        &VTable::suspending::<Self>(Self::run, Self::discard, Self::panicked);
}

impl<M: Suspends> Envelope for Resumed<M> {
    const VTABLE: &'static VTable = &VTable::suspending::<Self>(
        Awaited::<M>::run,
        Awaited::<M>::discard,
        Awaited::<M>::panicked,
    )
    .resuming();
}

impl<M: Suspends> Answers for Awaited<M> {
    fn refuse(mut self, reason: Reason) {
        self.turn.take().into_iter().for_each(|turn| _ = turn.refuse(reason.clone().into()));
    }

    fn leave(mut self) {
        // The asker has the message back, or will have it.
        drop(self.turn.take());
    }
}

impl<M: Suspends> Drop for Awaited<M> {
    fn drop(&mut self) {
        // One that was withdrawn as it waited for room. In a node it is never dropped: it is run
        // or discarded.
        self.turn.take().into_iter().for_each(|turn| _ = turn.refuse(Cut::Lost.into()));
    }
}

impl From<Cut> for AskError {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Aborted => AskError::Aborted(ActorName::ANY),
            Cut::Lost => AskError::Abandoned(ActorName::ANY),
        }
    }
}

// The rest of an actor that has panicked.

/// Makes the state anew after so long, in place of the turn that has panicked, and is counted.
#[cold]
pub(crate) fn restart_after(owner: &mut Owner, backoff: Duration) {
    let (turn, _) = Awaited::of(Rest(owner.to_ref(), backoff));
    owner.header().announce(AWAITS);
    owner.put_first(NodePtr::new(Resumed(turn)));
}

struct Rest(Ref, Duration);

/// The actor, and what it waits for; nothing if that cannot be waited for.
struct Pause(Ref, Option<Sleep>);

impl Suspends for Rest {
    const IS_MESSAGE: bool = false;

    type Answer = ();
    type Payload = ();
    type Future = Pause;

    unsafe fn begin(self, _: *const Header) -> Pause {
        let Rest(cell, rest) = self;
        // The clock is the user's: one that panics costs the rest alone.
        let sleep = panic::catch(|| cell.header().config().service().sleep(rest));
        Pause(cell, sleep.map_err(panic::discard).ok())
    }

    fn payload(self) {}
}

impl Pause {
    fn restart(&self) {
        let (header, cell) = (self.0.header(), self.0.cell());
        // A clock that panics leaves it where it was planned.
        match panic::catch(|| header.clock().now()) {
            Ok(now) => header.ext_made().restarts.comes(now),
            Err(payload) => panic::discard(payload),
        }
        // SAFETY: it is polled, or cut, by the owner of this mailbox, in a turn (ENVELOPE-1), with
        // the state in its cell (ENVELOPE-5).
        unsafe { restart(cell) }
    }
}

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = &mut self.1 {
            let slept = panic::catch(|| Pin::new(sleep).poll(cx));
            ready!(slept.unwrap_or_else(|payload| {
                panic::discard(payload);
                Poll::Ready(())
            }));
        }
        self.restart();
        Poll::Ready(())
    }
}
