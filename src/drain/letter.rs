//! What a message is to the state it is for: a [`Letter`] is run on it, or handed back.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use super::block::Core;
use super::handle::Handle;
use super::pass::Kind;
use super::storage::Weak;
use crate::error::StopCause;

/// A message for a state of type `S`. `Payload` is what its sender gets back when it is cancelled.
pub(crate) trait Letter<S>: Send + Sized + 'static {
    type Answer: Send + 'static;
    type Payload: Send + 'static;
    /// What it is gathered with; most are not.
    const KIND: Kind = None;

    /// Runs it; `here` is the actor it runs in.
    fn run(self, state: &mut S, here: Here<'_, S>) -> Self::Answer;

    /// What its sender gets back.
    fn payload(self) -> Self::Payload;

    /// What the undelivered hook gets.
    fn undelivered(self) -> Undelivered<S>;
}

/// A closure.
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

impl<S: 'static, R: Send + 'static, F: FnOnce(&mut S) -> R + Send + 'static> Letter<S> for Closure<F, R> {
    type Answer = R;
    /// A closure has no name to be handed back by.
    type Payload = ();

    #[inline(always)]
    fn run(self, state: &mut S, _: Here<'_, S>) -> R {
        (self.f)(state)
    }

    fn payload(self) {}

    fn undelivered(self) -> Undelivered<S> {
        Undelivered::Closure(Box::new(move |state| {
            (self.f)(state);
        }))
    }
}

/// A message that was accepted and is not handled: its actor was stopped, or it had to make room.
#[non_exhaustive]
pub enum Undelivered<S> {
    /// A closure: it can be run on some other state.
    Closure(Box<dyn FnOnce(&mut S) + Send>),
    /// A typed message: `downcast` it.
    Message(Box<dyn Any + Send>),
}

impl<S> fmt::Debug for Undelivered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Undelivered::Closure(_) => "Closure",
            Undelivered::Message(_) => "Message",
        })
    }
}

/// The actor that a turn runs in, seen from inside.
pub(crate) struct Here<'a, S> {
    core: *const Core,
    turn: PhantomData<&'a ()>,
    of: PhantomData<fn(S) -> S>,
}

impl<'a, S> Here<'a, S> {
    /// # Safety
    /// The caller runs a turn of the mailbox of `core`, of this state type, for as long as `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(core: *const Core) -> Self {
        Here { core, turn: PhantomData, of: PhantomData }
    }

    pub(super) fn as_ptr(&self) -> *const Core {
        self.core
    }

    pub(crate) fn core(&self) -> &'a Core {
        // SAFETY: the owner keeps the block during its turn.
        unsafe { &*self.core }
    }

    pub(crate) fn weak(&self) -> Weak<S> {
        // SAFETY: the owner keeps the block during its turn, and the state is an S.
        unsafe { Weak::of(self.core) }
    }

    /// A handle, unless all have gone.
    pub(crate) fn handle(&self) -> Option<Handle<S>> {
        self.weak().upgrade()
    }

    /// Stops the actor after this turn.
    pub(crate) fn stop(&self) {
        // SAFETY: this thread owns the mailbox.
        super::turns::stop(self.core(), StopCause::Requested);
    }
}
