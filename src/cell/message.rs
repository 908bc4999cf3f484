//! A message and the state it is for: it is run on the state, or handed back.

use std::marker::PhantomData;

use super::config::Undelivered;
use super::resident::InTurn;

/// A message for a state of type `S`. `Payload` is what its sender gets back when it is cancelled.
pub(crate) trait Message<S>: Send + Sized + 'static {
    type Answer: Send + 'static;
    type Payload: Send + 'static;

    /// Runs it, in a turn of that actor.
    fn run(self, state: &mut S, turn: InTurn<'_, S>) -> Self::Answer;

    /// The turn of one whose answer is not wanted: it is dropped in the turn, so its panic is the
    /// turn's.
    #[inline(always)]
    fn run_unasked(self, state: &mut S, turn: InTurn<'_, S>) {
        drop(self.run(state, turn));
    }

    /// Converts it into the message that its sender gets back.
    fn payload(self) -> Self::Payload;

    /// Converts it for the undelivered hook.
    fn undelivered(self) -> Undelivered<S>;
}

pub(crate) struct Closure<F, R> {
    pub(crate) f: F,
    returns: PhantomData<fn() -> R>,
}

impl<F, R> Closure<F, R> {
    #[inline(always)]
    pub(crate) fn new(f: F) -> Self {
        Closure { f, returns: PhantomData }
    }
}

impl<S: 'static, R: Send + 'static, F> Message<S> for Closure<F, R>
where
    F: FnOnce(&mut S) -> R + Send + 'static,
{
    type Answer = R;
    /// A closure has no name to be handed back by.
    type Payload = ();

    #[inline(always)]
    fn run(self, state: &mut S, _: InTurn<'_, S>) -> R {
        (self.f)(state)
    }

    fn payload(self) {}

    fn undelivered(self) -> Undelivered<S> {
        Undelivered::Closure(Box::new(move |state| {
            (self.f)(state);
        }))
    }
}
