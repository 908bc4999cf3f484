//! What is said about an actor when it is built.

#![forbid(unsafe_code)]

use super::block::Block;
use super::budget::Budget;
use super::carrier::Executor;
use super::letter::Undelivered;
use super::pass::{Passes, StepFn};
use crate::error::EndCause;
use crate::mailbox::word::UNBOUNDED;
use crate::wait::Clock;

/// What becomes of an actor when one of its turns panics; or a hook of a pass, an own loop, or the factory of a lazy state, which count
/// as turns here.
///
/// The message that panicked is never run again, and the mailbox is never lost: an asker gets [`AskError::Panicked`], a caller of
/// [`Actor::with`] gets the panic itself, and the panic hook is told in any case. In a program built with `panic = "abort"` the first
/// panic ends the program, whatever is chosen here.
///
/// [`AskError::Panicked`]: crate::AskError::Panicked
/// [`Actor::with`]: crate::Actor::with
#[derive(Default)]
#[non_exhaustive]
pub enum Panic<S> {
    /// The actor stops with that cause: its state may be half changed. Waiting messages are given back, later ones refused.
    #[default]
    Stop,
    /// The actor goes on with the state as the panic left it.
    Resume,
    /// The actor goes on with a fresh state from this factory; if that panics too, it stops.
    Restart(Box<dyn FnMut() -> S + Send>),
}

impl<S> Panic<S> {
    /// [`Panic::Restart`] with this factory.
    pub fn restart(factory: impl FnMut() -> S + Send + 'static) -> Self {
        Panic::Restart(Box::new(factory))
    }
}

impl<S> std::fmt::Debug for Panic<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Panic::Stop => "Stop",
            Panic::Resume => "Resume",
            Panic::Restart(_) => "Restart",
        })
    }
}

/// What the owner calls at certain moments, with the state it owns.
pub(crate) struct Hooks<S> {
    pub(crate) policy: Panic<S>,
    /// A turn panicked.
    pub(crate) on_panic: Option<PanicHook>,
    /// The actor has ended: its state, if it was made, and why.
    pub(crate) on_end: Option<EndHook<S>>,
    /// What is done around turns, for an actor built for it.
    pub(crate) passes: Option<Box<Passes<S>>>,
}

/// Told the text of every panic; by the owner.
pub(crate) type PanicHook = Box<dyn FnMut(&str) + Send>;
/// Given the state, if it was made, and why the actor has ended; once, by the owner.
pub(crate) type EndHook<S> = Box<dyn FnOnce(Option<S>, EndCause) + Send>;
/// Told of every message that was accepted and is not handled; by any thread.
pub(crate) type UndeliveredHook<S> = Box<dyn Fn(Undelivered<S>) + Send + Sync>;
/// Told that the executor has refused a drain, and for the how manieth time in a row; by any thread.
pub(crate) type RefusedHook = Box<dyn Fn(u32) + Send + Sync>;

impl<S> Hooks<S> {
    pub(crate) const NONE: Self = Hooks { policy: Panic::Stop, on_panic: None, on_end: None, passes: None };
}

/// What a full mailbox does with one more message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Hands it back with [`Reason::Full`](crate::Reason::Full). A sender that would rather wait has
    /// [`send_within`](crate::Actor::send_within) and [`send_async`](crate::Actor::send_async).
    Reject,
    /// Accepts it and gives it to the undelivered hook at once: those that wait are worth more.
    DropNewest,
    /// Accepts it and gives the one that has waited longest to the undelivered hook at once, whatever a handler is busy with: its memory is
    /// freed then. With a capacity of 1, only the newest message waits.
    ///
    /// Messages stand in a ring beside the mailbox, under a lock of a few instructions, and the mailbox holds a token for each; so in this
    /// mode a busy `send` may wait that long for another one. Questions and `with` never make way, nor do several messages of one
    /// `send_many`: they are refused when there is no room.
    DropOldest,
}

/// What is said when an actor is built.
pub(crate) struct Plan<S> {
    pub(crate) limit: u32,
    pub(crate) name: Option<Box<str>>,
    pub(crate) executor: Option<Box<dyn Executor>>,
    pub(crate) posts: bool,
    pub(crate) budget: Budget,
    pub(crate) refused: Option<RefusedHook>,
    pub(crate) overflow: Overflow,
    pub(crate) clock: Option<Box<dyn Clock>>,
    pub(crate) hooks: Hooks<S>,
    /// How it is done, if there is something to do around turns.
    pub(crate) step: Option<StepFn>,
    pub(crate) undelivered: Option<UndeliveredHook<S>>,
}

impl<S> Plan<S> {
    pub(crate) const PLAIN: Self = Plan {
        limit: UNBOUNDED,
        name: None,
        executor: None,
        posts: false,
        budget: Budget::INLINE,
        refused: None,
        overflow: Overflow::Reject,
        clock: None,
        hooks: Hooks::NONE,
        step: None,
        undelivered: None,
    };
}

impl<S: 'static> Plan<S> {
    /// What is done around turns; from the first such word on, the actor is one that does something.
    pub(crate) fn passes(&mut self) -> &mut Passes<S> {
        self.step = Some(Block::<S>::step);
        self.hooks.passes.get_or_insert_with(|| Box::new(Passes::NONE))
    }
}
