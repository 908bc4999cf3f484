//! The memory in which a message becomes a future: the message, then its future, then nothing.
//!
//! - ENVELOPE-4: the message belongs to the winner of the question (ONESHOT-1): its asker, who
//!   takes it back, or the right to the turn ([`TurnMut`]). Everything else belongs to that right
//!   alone.
//!
//! [`TurnMut`]: crate::cell::turn::TurnMut

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::Poll;

use crate::panic::{self, Payload};
use crate::sync::cell::UnsafeCell;

/// The place of a message and its future.
pub(super) struct Slot<L, F> {
    stage: UnsafeCell<Stage>,
    body: UnsafeCell<Body<L, F>>,
}

/// The content of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The message, unless its asker has it back.
    Queued,
    Begun,
    Gone,
}

union Body<L, F> {
    message: ManuallyDrop<L>,
    future: ManuallyDrop<F>,
}

impl<L, F> Slot<L, F> {
    pub(super) fn new(message: L) -> Self {
        let body = UnsafeCell::new(Body { message: ManuallyDrop::new(message) });
        Slot { stage: UnsafeCell::new(Stage::Queued), body }
    }

    /// The message. Nothing else of the slot is touched.
    ///
    /// # Safety
    /// The caller has won the question, and takes the message once (ENVELOPE-4).
    pub(super) unsafe fn take_message(&self) -> L {
        // SAFETY: ENVELOPE-4: the winner of the question alone touches the message, which is there.
        self.body.with_mut(|body| unsafe { ManuallyDrop::take(&mut (*body).message) })
    }

    /// The slot, for the right to its turn.
    ///
    /// # Safety
    /// The caller has that right for `'a` (ENVELOPE-4), and one of these at a time.
    pub(super) unsafe fn own(&self) -> SlotMut<'_, L, F> {
        SlotMut(self)
    }
}

/// A slot in the hand of the right to its turn.
pub(super) struct SlotMut<'a, L, F>(&'a Slot<L, F>);

impl<L, F: Future> SlotMut<'_, L, F> {
    /// True if the future lies there.
    pub(super) fn has_begun(&self) -> bool {
        // SAFETY: ENVELOPE-4: the stage is this right's.
        self.0.stage.with(|stage| unsafe { *stage == Stage::Begun })
    }

    /// Moves on to this stage; the one before comes back.
    fn set_stage(&mut self, to: Stage) -> Stage {
        // SAFETY: ENVELOPE-4: the stage is this right's.
        self.0.stage.with_mut(|stage| unsafe { std::mem::replace(&mut *stage, to) })
    }

    /// Takes the message out, if it lies there and `accept` wins it against its asker.
    ///
    /// # Safety
    /// `accept` says whether it has won the question (ONESHOT-1).
    pub(super) unsafe fn start(&mut self, accept: impl FnOnce() -> bool) -> Option<L> {
        let is_queued = self.set_stage(Stage::Gone) == Stage::Queued;
        // SAFETY: ENVELOPE-4: won by `accept`, and taken once, for the stage says so.
        (is_queued && accept()).then(|| unsafe { self.0.take_message() })
    }

    /// Puts the future there, in the place of a message that was taken out.
    pub(super) fn begin(&mut self, future: F) {
        assert!(self.set_stage(Stage::Begun) == Stage::Gone, "a message lies there");
        // SAFETY: ENVELOPE-4: nothing lies there, so nothing is overwritten.
        self.0.body.with_mut(|body| unsafe { (*body).future = ManuallyDrop::new(future) });
    }

    /// Calls `f` with the future, if it is there.
    fn with_future<R>(&mut self, f: impl FnOnce(Pin<&mut F>) -> R) -> Option<R> {
        self.has_begun().then(|| {
            // SAFETY: ENVELOPE-4: it is there. It is pinned: it lies in the turn's memory, which is
            // not moved, and is dropped there.
            self.0.body.with_mut(|body| unsafe { f(Pin::new_unchecked(&mut (*body).future)) })
        })
    }

    /// Polls the future by `poll`. Once that is ready, or has unwound, the future is gone.
    pub(super) fn poll(
        &mut self,
        poll: impl FnOnce(Pin<&mut F>) -> Poll<F::Output>,
    ) -> Poll<Result<F::Output, Payload>> {
        let polled = panic::catch(|| self.with_future(poll).expect("a turn that has begun"));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(answer)) => Poll::Ready(match self.drop_when_done() {
                Ok(()) => Ok(answer),
                Err(payload) => {
                    panic::ignore(|| drop(answer));
                    Err(payload)
                }
            }),
            Err(payload) => {
                panic::ignore(|| self.drop_future());
                Poll::Ready(Err(payload))
            }
        }
    }

    /// Drops a future that is ready.
    fn drop_when_done(&mut self) -> Result<(), Payload> {
        panic::catch(|| self.drop_future())
    }

    /// Drops a future at an await, after `told` was called with it. The first panic of both comes
    /// back.
    #[cold]
    pub(super) fn cut(&mut self, told: impl FnOnce(Pin<&mut F>)) -> Result<(), Payload> {
        let told = panic::catch(|| _ = self.with_future(told));
        let dropped = panic::catch(|| self.drop_future());
        match (told, dropped) {
            (Err(first), dropped) => {
                dropped.unwrap_or_else(panic::discard);
                Err(first)
            }
            (Ok(()), dropped) => dropped,
        }
    }

    /// Drops the future, if it is there. May unwind.
    fn drop_future(&mut self) {
        if self.set_stage(Stage::Gone) == Stage::Begun {
            // SAFETY: ENVELOPE-4: it is there, and dropped once, where it was polled.
            self.0.body.with_mut(|body| unsafe { ManuallyDrop::drop(&mut (*body).future) });
        }
    }
}
