//! A message whose turn may wait.
//!
//! Message, future and answer lie in one oneshot: the place of the message becomes that of the
//! future. Its node is gone when the turn begins. A turn that was pending gets another one
//! ([`Resumed`]) by which the mailbox goes on with it.
//!
//! - E4: the place holds the message while the turn is [`Queued`](Stage::Queued), for whoever wins
//!   the question (Q1), and the future while it is [`Begun`](Stage::Begun), for the owner.
//! - E5: a future borrows the state from its first poll to its drop. So the state is in its cell for
//!   that time (H1: a list with such a message is run without moving the state), nothing else of the
//!   actor runs (the mailbox is owned), and the future is dropped before its turn is over, and before
//!   a panic of it is dealt with.

use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use super::{Answers, why_not};
use crate::cell::message::AsyncMessage;
use crate::cell::owner::InTurn;
use crate::cell::resident::Env;
use crate::cell::turn::{Core, Cut, Keeper, TurnPtr, VTable as TurnVTable};
use crate::cell::typed::Cell;
use crate::drain::waking::with_waker;
use crate::error::{ActorName, AskError, Reason, TurnPanic};
use crate::mailbox::node::{Envelope, NodePtr, Ran, VTable};
use crate::mailbox::oneshot::{Answerer, Asker, Question, oneshot};
use crate::panic::{self, Payload};
use crate::sync::cell::UnsafeCell;

/// A turn, in the question's place of its oneshot.
#[repr(C)]
pub(crate) struct Turn<S: 'static, L: AsyncMessage<S>> {
    core: Core,
    /// The drainer's side of the oneshot: it leaves when nobody keeps the turn any more. Set before
    /// the turn is anybody else's.
    answerer: Option<Answerer<Turn<S, L>, L::Answer>>,
    /// The mailbox's.
    stage: UnsafeCell<Stage>,
    body: UnsafeCell<Body<L, L::Future>>,
}

/// What lies in the body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The message, unless its asker has it back.
    Queued,
    /// The future.
    Begun,
    /// Nothing.
    Gone,
}

union Body<L, F> {
    message: ManuallyDrop<L>,
    future: ManuallyDrop<F>,
}

// SAFETY: message, future and state are Send, and touched by one thread at a time (E4).
unsafe impl<S: Send, L: AsyncMessage<S>> Send for Turn<S, L> {}

impl<S: 'static, L: AsyncMessage<S>> Question for Turn<S, L> {
    type Payload = L::Payload;

    fn payload(self) -> L::Payload {
        // SAFETY: E4: whoever has a question by value has won it.
        self.body.with_mut(|body| unsafe { ManuallyDrop::take(&mut (*body).message) }).payload()
    }

    unsafe fn take_payload(this: *mut Self) -> L::Payload {
        // SAFETY: E4, by the caller's word. Nothing else of the turn is touched: it is the mailbox's.
        let message = unsafe {
            let body = &raw const (*this).body;
            (*body).with_mut(|body| ManuallyDrop::take(&mut (*body).message))
        };
        message.payload()
    }
}

/// A turn's memory, kept by the mailbox: by the node that leads to it, or by the turn itself while
/// that is pending.
#[repr(transparent)]
struct Held<S: 'static, L: AsyncMessage<S>>(Keeper, PhantomData<fn(S, L)>);

/// The message, in any node.
#[repr(transparent)]
pub(crate) struct Awaited<S: 'static, L: AsyncMessage<S>> {
    turn: Option<Held<S, L>>,
}

/// The same, of a turn that goes on.
#[repr(transparent)]
struct Resumed<S: 'static, L: AsyncMessage<S>>(Awaited<S, L>);

/// What came of a poll.
enum Polled<R> {
    Pending,
    Over(Result<R, AskError>),
    /// It was cancelled before it began.
    Cancelled,
}

impl<S: 'static, L: AsyncMessage<S>> Held<S, L> {
    fn turn(&self) -> TurnPtr {
        self.0.turn()
    }

    fn this(&self) -> &Turn<S, L> {
        // SAFETY: W2; the core is the first field of such a turn.
        unsafe { self.turn().0.cast::<Turn<S, L>>().as_ref() }
    }

    fn answerer(&self) -> &Answerer<Turn<S, L>, L::Answer> {
        self.this().answerer.as_ref().expect("a turn lies in its oneshot")
    }

    /// Moves the turn on to this stage; the one before comes back.
    fn set_stage(&self, to: Stage) -> Stage {
        // SAFETY: the mailbox's.
        self.this().stage.with_mut(|stage| unsafe { std::mem::replace(&mut *stage, to) })
    }

    /// Takes the message out, unless its asker has it back.
    fn start(&self) -> Option<L> {
        self.set_stage(Stage::Gone);
        self.answerer().accept().then(|| {
            // SAFETY: E4: won.
            self.this().body.with_mut(|body| unsafe { ManuallyDrop::take(&mut (*body).message) })
        })
    }

    /// Drops the future of a turn that has begun, and is cut at an await. May unwind.
    #[cold]
    fn cut(&self, cut: Cut) -> AskError {
        let why = AskError::from(cut);
        self.cut_future(&why);
        why
    }

    /// The same, for that reason.
    #[cold]
    fn cut_future(&self, why: &AskError) {
        // SAFETY: E4: it is there, and pinned, as for a poll.
        let cut = |body: *mut Body<_, _>| unsafe {
            L::cut(Pin::new_unchecked(&mut (*body).future), why);
        };
        let told = panic::catch(|| self.this().body.with_mut(cut));
        self.drop_future();
        told.unwrap_or_else(|payload| std::panic::resume_unwind(payload));
    }

    /// Drops the future. May unwind.
    fn drop_future(&self) {
        if self.set_stage(Stage::Gone) == Stage::Begun {
            // SAFETY: E4: it is there, and dropped once, where it was polled.
            self.this().body.with_mut(|body| unsafe {
                ManuallyDrop::drop(&mut (*body).future);
            });
        }
    }

    /// Begins the turn, or goes on with it. Unwinds if user code does; then the future is gone.
    ///
    /// # Safety
    /// E1.
    unsafe fn poll(&self, env: *const ()) -> Polled<L::Answer> {
        // SAFETY: E1.
        let cell = unsafe { Env::cell(env) };
        let cut = self.turn().begin_poll().err();
        // SAFETY: the mailbox's.
        if self.this().stage.with(|stage| unsafe { *stage }) != Stage::Begun {
            let Some(message) = self.start() else { return Polled::Cancelled };
            if let Some(cut) = cut {
                drop(message);
                return Polled::Over(Err(cut.into()));
            }
            // SAFETY: E1, E5: the owner's, in its cell; the future is dropped before the turn ends.
            let future = unsafe {
                debug_assert!(Env::is_in_cell(env), "a future borrows a state that moves");
                message.begin(Cell::<S>::state_for_turn(cell), InTurn::new(cell))
            };
            // SAFETY: E4: the message was moved out.
            self.this().body.with_mut(|body| unsafe { (*body).future = ManuallyDrop::new(future) });
            self.set_stage(Stage::Begun);
        } else if let Some(cut) = cut {
            return Polled::Over(Err(self.cut(cut)));
        }
        let polled = panic::catch(|| match self.poll_future() {
            Poll::Pending => Poll::Pending,
            Poll::Ready(answer) => {
                let dropped = panic::catch(|| self.drop_future());
                Poll::Ready(dropped.map(|()| answer))
            }
        });
        match polled {
            Ok(Poll::Pending) => Polled::Pending,
            Ok(Poll::Ready(Ok(answer))) => Polled::Over(Ok(answer)),
            Ok(Poll::Ready(Err(payload))) => std::panic::resume_unwind(payload),
            Err(payload) => {
                // E5: before the panic is dealt with.
                panic::ignore(|| self.drop_future());
                std::panic::resume_unwind(payload)
            }
        }
    }

    fn poll_future(&self) -> Poll<L::Answer> {
        with_waker(self.turn(), |waker| {
            // SAFETY: E4: it is there. It is pinned: it lies in the turn's memory, and is dropped
            // there.
            self.this().body.with_mut(|body| unsafe {
                let future: &mut L::Future = &mut (*body).future;
                Pin::new_unchecked(future).poll(&mut Context::from_waker(waker))
            })
        })
    }

    /// The turn is pending: it keeps itself, and its owner goes on with it.
    fn suspend(self) -> Ran {
        let turn = self.turn();
        std::mem::forget(self);
        Ran::Suspended(turn.0.cast())
    }

    /// The turn is over.
    ///
    /// # Safety
    /// E1.
    unsafe fn finish(self, env: *const (), answer: Result<L::Answer, AskError>) {
        // SAFETY: E1: the owner keeps the cell.
        self.turn().unregister(unsafe { &*Env::cell(env) });
        self.answerer().answer(answer);
    }

    /// Answers a turn that has not begun, unless its asker has it back.
    fn refuse(self, error: AskError) {
        if let Some(message) = self.start() {
            self.answerer().answer(Err(error));
            panic::ignore(|| drop(message));
        }
    }
}

/// The functions of a turn's core.
///
/// # Safety
/// `core` is that of such a turn, which is pending, and keeps itself; from now on, the node does.
unsafe fn node<S: 'static, L: AsyncMessage<S>>(core: NonNull<Core>) -> NodePtr {
    // SAFETY: the caller's word: `suspend` has left it.
    let keeper = unsafe { Keeper::of_pending(TurnPtr(core)) };
    NodePtr::new(Resumed::<S, L>(Awaited { turn: Some(Held(keeper, PhantomData)) }))
}

/// # Safety
/// `core` is that of such a turn, and nobody keeps it.
unsafe fn free<S: 'static, L: AsyncMessage<S>>(core: NonNull<Core>) {
    let turn = core.cast::<Turn<S, L>>();
    // SAFETY: the caller's word. What the body held was moved out or dropped (E4); it is the asker's
    // as well, so its end is that of the oneshot.
    let answerer = unsafe {
        (&raw mut (*turn.as_ptr()).core).drop_in_place();
        (*turn.as_ptr()).answerer.take()
    };
    answerer.into_iter().for_each(Answerer::leave);
}

impl<S: Send + 'static, L: AsyncMessage<S>> Awaited<S, L> {
    /// A turn to be pushed, and its asker: one allocation.
    pub(crate) fn new(message: L) -> (Self, Asker<L::Answer, L::Payload>) {
        let core = Core::new(const { &TurnVTable { node: node::<S, L>, free: free::<S, L> } });
        let body = UnsafeCell::new(Body { message: ManuallyDrop::new(message) });
        let stage = UnsafeCell::new(Stage::Queued);
        let (answerer, asker) = oneshot(Turn { core, answerer: None, stage, body });
        let turn = NonNull::new(answerer.question()).expect("a question has an address");
        // SAFETY: it was made just now, and is nobody else's.
        let keeper = unsafe {
            (*turn.as_ptr()).answerer = Some(answerer);
            Keeper::first(TurnPtr(turn.cast()))
        };
        (Awaited { turn: Some(Held(keeper, PhantomData)) }, asker)
    }

    /// One that can abort the turn.
    pub(crate) fn keeper(&self) -> Keeper {
        self.turn.as_ref().expect("a message that was sent nowhere").0.clone()
    }

    /// The message, of a turn that was accepted nowhere.
    pub(crate) fn take_back(mut self, asker: Asker<L::Answer, L::Payload>) -> L {
        let message = self.turn.take().and_then(|turn| turn.start());
        drop(asker);
        message.expect("a turn that was accepted nowhere is its sender's")
    }
}

impl<S: 'static, L: AsyncMessage<S>> Awaited<S, L> {
    /// # Safety
    /// E1.
    unsafe fn run(payload: *mut u8, env: *const ()) -> Ran {
        // SAFETY: E1: the payload is an `Awaited<S, L>`, and the owner alone reaches it.
        let this = unsafe { &mut *payload.cast::<Self>() };
        let Some(turn) = &this.turn else { return Ran::Done };
        // SAFETY: E1.
        let polled = unsafe { turn.poll(env) };
        let Some(turn) = this.turn.take() else { return Ran::Done };
        match polled {
            Polled::Pending => return turn.suspend(),
            // SAFETY: E1.
            Polled::Over(answer) => unsafe { turn.finish(env, answer) },
            Polled::Cancelled => {}
        }
        Ran::Done
    }

    /// # Safety
    /// E1.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: E1, as above.
        let (this, reason) = unsafe { (&mut *payload.cast::<Self>(), why_not(env)) };
        let Some(turn) = this.turn.take() else { return };
        // SAFETY: the mailbox's.
        if turn.this().stage.with(|stage| unsafe { *stage }) == Stage::Begun {
            panic::ignore(|| turn.cut_future(&reason.into()));
            // SAFETY: E1.
            unsafe { turn.finish(env, Err(AskError::Aborted(ActorName::ANY))) };
        } else {
            turn.refuse(reason.into());
        }
    }

    /// # Safety
    /// E1, after `run` has unwound.
    unsafe fn panicked(payload: *mut u8, env: *const (), panic: Payload) {
        // SAFETY: E1, as above; the owner keeps the cell.
        let (this, header) = unsafe { (&mut *payload.cast::<Self>(), &*Env::cell(env)) };
        if let Some(turn) = this.turn.take() {
            let told = TurnPanic::of(header.name(), &panic);
            // SAFETY: E1.
            unsafe { turn.finish(env, Err(AskError::Panicked(told))) };
        }
        panic::discard(panic);
    }
}

impl<S: 'static, L: AsyncMessage<S>> Envelope for Awaited<S, L> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked);
}

impl<S: 'static, L: AsyncMessage<S>> Envelope for Resumed<S, L> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(
        Awaited::<S, L>::run,
        Awaited::<S, L>::discard,
        Awaited::<S, L>::panicked,
    )
    .resuming();
}

/// The turn that a node goes on with.
///
/// # Safety
/// `payload` is that of a message that [resumes](crate::mailbox::node::Taken::resumes), and was not
/// run yet.
pub(crate) unsafe fn resumed(payload: *const u8) -> TurnPtr {
    // SAFETY: the caller's word: the node holds that turn, and all of these are one address.
    TurnPtr(unsafe { payload.cast::<NonNull<Core>>().read() })
}

impl<S: 'static, L: AsyncMessage<S>> Answers for Awaited<S, L> {
    fn refuse(mut self, reason: Reason) {
        self.turn.take().into_iter().for_each(|turn| turn.refuse(reason.clone().into()));
    }

    fn leave(mut self) {
        // The asker has the message back, or will have it.
        drop(self.turn.take());
    }
}

impl<S: 'static, L: AsyncMessage<S>> Drop for Awaited<S, L> {
    fn drop(&mut self) {
        // One that was withdrawn from its seat. In a node it is never dropped: it is run or
        // discarded.
        self.turn.take().into_iter().for_each(|turn| turn.refuse(Cut::Lost.into()));
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
