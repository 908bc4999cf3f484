//! The part that actors of one configuration share: settings, and functions of the state's type.
//!
//! A plain actor's [`Config`] is a static, that of a built one lies in an allocation with its hooks
//! ([`super::built`]). A cell that needs memory of its own puts a [`Fork`] in its place (HEADER-4
//! of [`super::header`]).

use std::ptr::NonNull;
use std::sync::Arc;

use super::counts::Uses;
use super::executor::Executor;
use super::header::{Ext, Header, Recovered};
use super::observe::Observers;
use crate::budget::Budget;
use crate::error::TurnPanic;
use crate::mailbox::semaphore::UNBOUNDED;
use crate::panic;
use crate::sync::Mutex;
use crate::sync::cell::UnsafeCell;
use crate::time::{Clock, Timers};

/// Properties of the cell, in the lowest bits of a handle's address.
pub(crate) const TAGS: usize = HAS_EXECUTOR | OBSERVED | BOUNDED;
/// The actor is run by its executor, and by nothing else.
pub(crate) const HAS_EXECUTOR: usize = 1;
/// Something is done around turns: no message is run but by a drain.
pub(crate) const OBSERVED: usize = 2;
/// Its mailbox has a capacity.
pub(crate) const BOUNDED: usize = 4;

/// The most messages that are run without a drain's frame: the default budget looks at the clock
/// after as many.
const FEW: u32 = 8;

/// The policy of a full mailbox for one more message.
///
/// To drop the oldest instead, see [the cookbook](crate::guide::cookbook#only-the-newest).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Hands it back with [`Reason::Full`](crate::Reason::Full). A sender that would rather wait
    /// has [`Actor::waiting`](crate::Actor::waiting).
    Reject,
    /// Accepts it and gives it to the undelivered hook at once: those that wait are worth more. A
    /// question is refused. No sender waits for room: [`Actor::waiting`](crate::Actor::waiting)
    /// drops and refuses, too.
    DropNewest,
}

/// Settings of an actor of any state. A clone refers to the same things.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The most messages that wait, or [`UNBOUNDED`].
    pub(crate) capacity: u32,
    pub(crate) name: Option<Arc<str>>,
    /// The executor of drains. Without one, they go to the fallback.
    pub(crate) executor: Option<Arc<dyn Executor>>,
    pub(crate) observers: Observers,
    /// The most that one drain does.
    pub(crate) budget: Budget,
    pub(crate) overflow: Overflow,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// The timers of delayed messages; with the same clock.
    pub(crate) timers: Option<Timers>,
}

impl Settings {
    pub(crate) const PLAIN: Self = Settings {
        capacity: UNBOUNDED,
        name: None,
        executor: None,
        observers: Observers::NONE,
        budget: Budget::INLINE,
        overflow: Overflow::Reject,
        clock: None,
        timers: None,
    };

    /// True if the actor is run by an executor, and by nothing else.
    pub(crate) const fn has_executor(&self) -> bool {
        self.executor.is_some()
    }

    /// True if it has an executor that says its end only if it is asked.
    pub(super) fn asks_executor(&self) -> bool {
        self.executor.as_deref().is_some_and(|executor| executor.enrolled().is_none())
    }

    /// The service that its limits of tasks and its delayed messages wait in, by the same clock.
    pub(crate) fn service(&self) -> Timers {
        match (&self.timers, &self.clock) {
            (Some(timers), _) => timers.clone(),
            (None, None) => Timers::global().clone(),
            (None, Some(clock)) => Timers::of(clock),
        }
    }

    /// Another clock than the machine's, unless one was chosen.
    pub(crate) fn clock_unless_set(&mut self, clock: Option<&Arc<dyn Clock>>) {
        if self.clock.is_none() {
            self.clock = clock.cloned();
        }
    }
}

/// An actor's configuration: its type's functions, and its builder's settings.
#[repr(C)]
pub(crate) struct Config {
    pub(super) vtable: &'static StateVTable,
    pub(super) kind: Kind,
    pub(super) traits: Traits,
    /// This many messages are run and that is all: nothing is done around their turns, no place is
    /// counted, no clock read before them or between.
    few: u8,
    /// A message for a busy mailbox is pushed with no look at anything else.
    direct: bool,
    /// Something is done around turns.
    observed: bool,
    settings: Settings,
}

/// The type whose first field a [`Config`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing: it is the static one of its type.
    Plain,
    /// An allocation that is shared ([`built`](super::built)), with its hooks.
    Built,
    Fork,
}

/// Facts about an actor's hooks that need no look at them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits {
    /// Something else than the drop of the state is done at the end.
    pub(super) told_of_end: bool,
    /// It has an executor that says its end only if it is asked.
    pub(super) asks: bool,
}

/// Takes the place of a cell's base when the cell needs an [`Ext`].
#[repr(C)]
pub(super) struct Fork {
    config: Config,
    pub(super) base: NonNull<Config>,
    pub(super) ext: Ext,
    /// Dropped by the owner that lets go of the mailbox, once the actor has ended.
    pub(super) guard: UnsafeCell<Option<Box<dyn Guard>>>,
}

/// A value that is dropped when an actor has ended and its mailbox was let go.
pub(crate) trait Guard: Send {
    /// The total of what its system discards, to which the actor adds.
    fn discarded(&self) -> &Arc<Mutex<u64>>;
}

impl Fork {
    /// A fork of a base, which still is its cell's.
    ///
    /// # Safety
    /// `base` is no fork, and alive as long as the cell.
    pub(super) unsafe fn of(base: NonNull<Config>) -> Self {
        // SAFETY: it is alive.
        let from = unsafe { base.as_ref() };
        debug_assert_ne!(from.kind, Kind::Fork);
        let (settings, ext) = (from.settings.clone(), Ext::new(from.settings.capacity));
        let config = Config { kind: Kind::Fork, settings, ..*from };
        Fork { config, base, ext, guard: UnsafeCell::new(None) }
    }

    /// A fork for a cell to be: with what is dropped at its end, and another clock unless one
    /// was chosen.
    ///
    /// # Safety
    /// As for [`of`](Self::of).
    pub(super) unsafe fn guarded(
        base: NonNull<Config>,
        guard: Box<dyn Guard>,
        clock: Option<&Arc<dyn Clock>>,
    ) -> *mut Config {
        // SAFETY: it is no fork, and alive as long as the cell to be.
        let mut fork = unsafe { Fork::of(base) };
        fork.ext.discarded_beside = Some(guard.discarded().clone());
        fork.guard = UnsafeCell::new(Some(guard));
        fork.config.traits.told_of_end = true;
        fork.config.settings.clock_unless_set(clock);
        Box::into_raw(Box::new(fork)).cast()
    }

    /// Drops what a fork holds, which is user code. What is left drops none.
    ///
    /// # Safety
    /// This thread alone reaches the fork.
    pub(super) unsafe fn empty(fork: NonNull<Fork>) {
        // SAFETY: this thread alone reaches it.
        let fork = unsafe { &mut *fork.as_ptr() };
        let ext = std::mem::replace(&mut fork.ext, Ext::new(UNBOUNDED));
        panic::ignore(|| drop(ext));
        fork.config.free();
    }
}

impl Config {
    /// Drops what the settings refer to. It is user code, whose panic is ignored.
    pub(super) fn free(&mut self) {
        let settings = std::mem::replace(&mut self.settings, Settings::PLAIN);
        let Settings { executor, observers, clock, timers, .. } = settings;
        panic::ignore(|| drop(executor));
        panic::ignore(|| drop(observers));
        panic::ignore(|| drop(clock));
        panic::ignore(|| drop(timers));
    }

    pub(super) const fn new(
        vtable: &'static StateVTable,
        kind: Kind,
        traits: Traits,
        settings: Settings,
    ) -> Self {
        let first_look = settings.budget.first_look();
        let observed = !settings.observers.is_empty();
        let few = if observed || settings.capacity != UNBOUNDED {
            0
        } else if first_look < FEW {
            first_look
        } else {
            FEW
        };
        let direct = settings.capacity == UNBOUNDED && !traits.asks;
        Config { vtable, kind, traits, few: few as u8, direct, observed, settings }
    }

    /// True if a message for a busy mailbox is pushed with no look at its capacity or its executor.
    #[inline(always)]
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// True if its executor says its end only if it is asked.
    pub(crate) fn asks_executor(&self) -> bool {
        self.traits.asks
    }

    /// The functions that move a state of this type, if it is worth it.
    #[inline(always)]
    pub(crate) fn moves(&self) -> Option<&'static Move> {
        self.vtable.moves.as_ref()
    }

    /// The number of messages that may be run, and the mailbox be let go, without a drain's frame.
    #[inline(always)]
    pub(crate) fn few(&self) -> u8 {
        self.few
    }

    /// True if nothing is done for a message but its turn.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_observed() && !self.is_bounded()
    }

    /// The largest number of waiting messages, if there is one.
    pub(crate) fn capacity(&self) -> Option<usize> {
        self.is_bounded().then_some(self.settings.capacity as usize)
    }

    /// True if there is such a number.
    pub(crate) fn is_bounded(&self) -> bool {
        self.settings.capacity != UNBOUNDED
    }

    /// The tags for handles of such an actor.
    pub(super) fn tags(&self) -> usize {
        let tags = [
            (self.has_executor(), HAS_EXECUTOR),
            (self.is_observed(), OBSERVED),
            (self.is_bounded(), BOUNDED),
        ];
        tags.into_iter().filter_map(|(has, tag)| has.then_some(tag)).sum()
    }

    /// True if something is done around turns.
    #[inline(always)]
    pub(crate) fn is_observed(&self) -> bool {
        self.observed
    }

    /// True if the end of the actor is nothing but the drop of its state.
    #[inline(always)]
    pub(super) fn ends_in_silence(&self) -> bool {
        !self.traits.told_of_end
    }
}

impl std::ops::Deref for Config {
    type Target = Settings;

    #[inline(always)]
    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// The functions that move a small state out of its cell and back.
pub(crate) struct Move {
    pub(crate) out: unsafe fn(*const Header, *mut u8),
    pub(crate) back: unsafe fn(*const Header, *const u8),
}

/// The functions of one state type. All but those that free are for the owner of the mailbox.
pub(super) struct StateVTable {
    pub(super) counts: usize,
    /// The offset of a built configuration's count.
    pub(super) uses: usize,
    /// The name of the state's type.
    pub(super) name: fn() -> &'static str,
    pub(super) moves: Option<Move>,
    pub(super) end: unsafe fn(*const Header),
    /// The last argument: a restart may come later.
    pub(super) recover: unsafe fn(*const Header, &TurnPanic, bool) -> Recovered,
    /// Makes the state anew, in its cell. May unwind.
    pub(super) restart: unsafe fn(*const Header),
    pub(super) free: unsafe fn(*const Header),
    /// Frees a built configuration of this state type.
    pub(super) free_built: unsafe fn(NonNull<Config>),
}

/// The count of a built configuration.
///
/// # Safety
/// `base` is that of a built configuration, and is alive for as long as the result is used.
pub(super) unsafe fn uses<'a>(base: NonNull<Config>) -> &'a Uses {
    // SAFETY: it is alive, and the offset is that of its type.
    unsafe { base.byte_add(base.as_ref().vtable.uses).cast::<Uses>().as_ref() }
}
