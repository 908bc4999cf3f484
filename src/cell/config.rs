//! What is said about an actor when it is built.

#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::executor::Executor;
use crate::budget::Budget;
use crate::error::EndCause;
use crate::mailbox::word::UNBOUNDED;
use crate::time::{Clock, Timers};

/// What becomes of an actor when one of its turns panics, or a hook of a batch, which counts as a
/// turn here.
///
/// The message that panicked is never run again, and the mailbox is never lost: an asker gets
/// [`AskError::Panicked`], a caller of [`Actor::with`] gets the panic itself, and the panic hook is
/// told in any case. In a program built with `panic = "abort"` the first panic ends the program,
/// whatever is chosen here.
///
/// [`AskError::Panicked`]: crate::AskError::Panicked
/// [`Actor::with`]: crate::Actor::with
#[derive(Default)]
#[non_exhaustive]
pub enum PanicPolicy<S> {
    /// The actor stops with that cause: its state may be half changed. Waiting messages are given
    /// back, later ones refused.
    #[default]
    Stop,
    /// The actor goes on with the state as the panic left it.
    Resume,
    /// The actor goes on with a fresh state from this factory; if that panics too, it stops.
    Restart(Box<dyn FnMut() -> S + Send>),
}

impl<S> PanicPolicy<S> {
    /// [`PanicPolicy::Restart`] with this factory.
    pub fn restart(factory: impl FnMut() -> S + Send + 'static) -> Self {
        PanicPolicy::Restart(Box::new(factory))
    }
}

impl<S> fmt::Debug for PanicPolicy<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PanicPolicy::Stop => "Stop",
            PanicPolicy::Resume => "Resume",
            PanicPolicy::Restart(_) => "Restart",
        })
    }
}

/// What becomes of an actor of a [`Template`](crate::Template) when one of its turns panics: a
/// [`PanicPolicy`] that many actors share.
#[derive(Default)]
#[non_exhaustive]
pub enum SharedPolicy<S> {
    /// The actor stops: [`PanicPolicy::Stop`].
    #[default]
    Stop,
    /// The actor goes on with the state as the panic left it.
    Resume,
    /// The actor goes on with a fresh state from this factory; if that panics too, it stops.
    Restart(Box<dyn Fn() -> S + Send + Sync>),
}

impl<S> SharedPolicy<S> {
    /// [`SharedPolicy::Restart`] with this factory.
    pub fn restart(factory: impl Fn() -> S + Send + Sync + 'static) -> Self {
        SharedPolicy::Restart(Box::new(factory))
    }
}

impl<S> fmt::Debug for SharedPolicy<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SharedPolicy::Stop => "Stop",
            SharedPolicy::Resume => "Resume",
            SharedPolicy::Restart(_) => "Restart",
        })
    }
}

/// What the owner calls at certain moments, with the state it owns.
pub(crate) struct Hooks<S> {
    pub(crate) policy: PanicPolicy<S>,
    /// A turn panicked.
    pub(crate) on_panic: Option<PanicHook>,
    /// The actor has ended.
    pub(crate) on_end: Option<EndHook<S>>,
    /// A batch begins.
    pub(crate) on_batch_start: Option<BatchStartHook<S>>,
    /// A batch ends.
    pub(crate) on_batch_end: Option<BatchEndHook<S>>,
}

/// Told the text of every panic; by the owner.
pub(crate) type PanicHook = Box<dyn FnMut(&str) + Send>;
/// Given the state, and why the actor has ended; once, by the owner.
pub(crate) type EndHook<S> = Box<dyn FnOnce(S, EndCause) + Send>;
/// Called with the state before the first turn of a batch; by the owner.
pub(crate) type BatchStartHook<S> = Box<dyn FnMut(&mut S) + Send>;
/// Called with the state and the number of turns after the last turn of a batch; by the owner.
pub(crate) type BatchEndHook<S> = Box<dyn FnMut(&mut S, u64) + Send>;
impl<S> Hooks<S> {
    pub(crate) const NONE: Self = Hooks {
        policy: PanicPolicy::Stop,
        on_panic: None,
        on_end: None,
        on_batch_start: None,
        on_batch_end: None,
    };
}

/// The same, for actors that share them: several owners call them at a time.
pub(crate) struct SharedHooks<S> {
    pub(crate) policy: SharedPolicy<S>,
    pub(crate) on_panic: Option<SharedPanicHook>,
    pub(crate) on_end: Option<SharedEndHook<S>>,
    pub(crate) on_batch_start: Option<SharedBatchStartHook<S>>,
    pub(crate) on_batch_end: Option<SharedBatchEndHook<S>>,
    pub(crate) on_undelivered: Option<UndeliveredHook<S>>,
}

pub(crate) type SharedPanicHook = Box<dyn Fn(&str) + Send + Sync>;
pub(crate) type SharedEndHook<S> = Box<dyn Fn(S, EndCause) + Send + Sync>;
pub(crate) type SharedBatchStartHook<S> = Box<dyn Fn(&mut S) + Send + Sync>;
pub(crate) type SharedBatchEndHook<S> = Box<dyn Fn(&mut S, u64) + Send + Sync>;

/// Told of every message that was accepted and is not handled; by any thread.
pub(crate) type UndeliveredHook<S> = Box<dyn Fn(Undelivered<S>) + Send + Sync>;

/// A message that was accepted and is not handled: its actor was stopped, or its mailbox was full.
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

/// What a full mailbox does with one more message.
///
/// To drop the oldest instead, see [`Lossy`](crate::Lossy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Hands it back with [`Reason::Full`](crate::Reason::Full). A sender that would rather wait
    /// has [`Actor::waiting`](crate::Actor::waiting).
    Reject,
    /// Accepts it and gives it to the undelivered hook at once: those that wait are worth more.
    DropNewest,
}

/// What is said about an actor of any state. A clone refers to the same things.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) limit: u32,
    pub(crate) name: Option<Arc<str>>,
    /// Where drains go. Without one, to the fallback.
    pub(crate) executor: Option<Arc<dyn Executor>>,
    /// Senders and waiting threads run it too, though it has an executor.
    pub(crate) inline: bool,
    /// The most that one drain does.
    pub(crate) budget: Budget,
    pub(crate) overflow: Overflow,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Where delayed messages wait; with the same clock.
    pub(crate) timers: Option<Timers>,
}

impl Settings {
    pub(crate) const PLAIN: Self = Settings {
        limit: UNBOUNDED,
        name: None,
        executor: None,
        inline: false,
        budget: Budget::INLINE,
        overflow: Overflow::Reject,
        clock: None,
        timers: None,
    };

    /// Is the actor run by its executor, and by nobody else?
    pub(crate) const fn is_executor_only(&self) -> bool {
        self.executor.is_some() && !self.inline
    }

    /// Another clock than the machine's, unless one was chosen.
    pub(crate) fn clock_unless_set(&mut self, clock: Option<&Arc<dyn Clock>>) {
        if self.clock.is_none() {
            self.clock = clock.cloned();
        }
    }
}

/// What is said about an actor.
pub(crate) struct Plan<S> {
    pub(crate) settings: Settings,
    pub(crate) hooks: Hooks<S>,
    pub(crate) on_undelivered: Option<UndeliveredHook<S>>,
}

impl<S> Plan<S> {
    pub(crate) const PLAIN: Self =
        Plan { settings: Settings::PLAIN, hooks: Hooks::NONE, on_undelivered: None };

    /// Is a hook set, or a policy chosen?
    pub(crate) fn has_hooks(&self) -> bool {
        let Hooks { policy, on_panic, on_end, on_batch_start, on_batch_end } = &self.hooks;
        let around = on_batch_start.is_some() || on_batch_end.is_some();
        let rare = on_panic.is_some() || on_end.is_some() || self.on_undelivered.is_some();
        !matches!(policy, PanicPolicy::Stop) || around || rare
    }
}

/// What is said about many actors.
pub(crate) struct SharedPlan<S> {
    pub(crate) settings: Settings,
    pub(crate) hooks: SharedHooks<S>,
}

impl<S> SharedPlan<S> {
    pub(crate) const PLAIN: Self = SharedPlan {
        settings: Settings::PLAIN,
        hooks: SharedHooks {
            policy: SharedPolicy::Stop,
            on_panic: None,
            on_end: None,
            on_batch_start: None,
            on_batch_end: None,
            on_undelivered: None,
        },
    };
}
