//! Actor configuration: hooks and the panic policy, beside the settings.

#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt;

use super::restarts::Restarts;
use super::settings::Settings;
use crate::error::{EndCause, TurnPanic};
use crate::panic;

/// The fate of an actor when one of its turns panics, or a hook of a batch, which counts as a
/// turn here.
///
/// The message that panicked is never run again, and the mailbox is never lost: an asker gets
/// [`AskError::Panicked`], a caller of [`Actor::with`] gets the panic itself, and the panic hook is
/// called in any case. In a program built with `panic = "abort"` the first panic ends the program,
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
    /// The actor goes on with a fresh state from this factory; if that panics too, it stops. The
    /// factory sees the old state, as the panic left it: see [`restart_from`](Self::restart_from).
    Restart(Box<dyn Fn(&mut S) -> S + Send + Sync>),
    /// The actor is restarted with a fresh state from this factory, a limited number of times and
    /// after a delay: see [`restart_within`](Self::restart_within).
    RestartWithin(Restarts, Box<dyn Fn(&mut S) -> S + Send + Sync>),
}

impl<S> PanicPolicy<S> {
    /// [`PanicPolicy::Restart`] with this factory.
    pub fn restart(factory: impl Fn() -> S + Send + Sync + 'static) -> Self {
        PanicPolicy::Restart(Box::new(move |_| factory()))
    }

    /// [`PanicPolicy::Restart`] with this factory, which sees the old state as the panic left it:
    /// to keep what is known to be whole, such as a connection or a count.
    ///
    /// The factory may take parts out of the old state, which is dropped afterwards. If it panics
    /// too, the actor stops, and its end hook gets the old state as the factory left it. With a
    /// limit, the factory goes into [`PanicPolicy::RestartWithin`].
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, PanicPolicy};
    ///
    /// #[derive(Default)]
    /// struct Desk { draft: Vec<u32>, accepted: Vec<u32> }
    ///
    /// let keep = |old: &mut Desk| Desk {
    ///     accepted: std::mem::take(&mut old.accepted),
    ///     ..Desk::default()
    /// };
    /// let desk = Actor::builder()
    ///     .panic_policy(PanicPolicy::restart_from(keep))
    ///     .spawn(Desk { draft: vec![], accepted: vec![1] })?;
    /// desk.send(|desk| {
    ///     desk.draft.push(2);
    ///     panic!("half done");
    /// })?;
    /// let state = desk.with(|desk| (desk.draft.clone(), desk.accepted.clone()))?;
    /// assert_eq!(state, (vec![], vec![1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restart_from(factory: impl Fn(&mut S) -> S + Send + Sync + 'static) -> Self {
        PanicPolicy::Restart(Box::new(factory))
    }

    /// The actor is restarted with a fresh state from this factory, but not too often, and not too
    /// soon.
    ///
    /// The message that has panicked is never run again: its asker has the error at once. Then the
    /// actor rests, if the [`Restarts`] say so. It is as if a turn took that long: messages are
    /// accepted and wait, as many as the capacity allows, in their order; one that waits for the
    /// actor waits; no thread is kept. When the time has come, by [the actor's
    /// timers](crate::ActorBuilder::timers), the factory is called, in a turn: where the actor is
    /// at home, its executor, or, without one, [`ThreadPool::global`](crate::ThreadPool::global).
    /// Then the messages run. A factory that panics is one more panic: the hook is called, and the
    /// actor rests longer.
    ///
    /// One panic too many gives the actor up: it stops, with
    /// [`StopCause::GaveUp`](crate::StopCause::GaveUp). The end hook, those that ask and those that
    /// send get that reason, and what waits is given back.
    ///
    /// A stop ends the rest at once; so does the end of a system's limit. Closing the actor, or
    /// dropping its last handle, does not: what was accepted is run by the fresh state, and then
    /// the actor ends. Until the restart, the old state is as the panic left it; the end hook of an
    /// actor that is stopped gets that one. A rest leaves its
    /// [batch](crate::ActorBuilder::on_batch_end) open, as a turn that waits does. The panic of a
    /// batch's hook counts as well, and its restart comes at once. So does each restart if there is
    /// no rest, or if the clock panics.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::time::Timers;
    /// use turnwise::{Actor, AskError, PanicPolicy, Reason, Restarts, StopCause, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// let restarts = Restarts::at_most(1, Duration::from_secs(60))
    ///     .backoff(Duration::from_secs(1), Duration::from_secs(10));
    /// let link = Actor::builder()
    ///     .timers(timers.clone())
    ///     .panic_policy(PanicPolicy::restart_within(restarts, || "second"))
    ///     .spawn("first")?;
    ///
    /// link.send(|_| panic!("lost"))?;
    /// let asked = link.call(|link| *link); // accepted, and waits
    /// assert!(!asked.is_ready());
    /// clock.advance(Duration::from_secs(1));
    /// timers.run_due();
    /// assert_eq!(asked.wait()?, "second");
    ///
    /// link.send(|_| panic!("lost again"))?;
    /// let gave_up = StopCause::GaveUp { restarts: 1, panic: "lost again".into() };
    /// let refused = link.call(|link| *link).wait();
    /// assert_eq!(refused, Err(AskError::from(Reason::Stopped(gave_up))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn restart_within(
        restarts: Restarts,
        factory: impl Fn() -> S + Send + Sync + 'static,
    ) -> Self {
        PanicPolicy::RestartWithin(restarts, Box::new(move |_| factory()))
    }
}

impl<S> fmt::Debug for PanicPolicy<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PanicPolicy::Stop => "Stop",
            PanicPolicy::Resume => "Resume",
            PanicPolicy::Restart(_) => "Restart",
            PanicPolicy::RestartWithin(..) => "RestartWithin",
        })
    }
}

/// The hooks and the panic policy of a built configuration. Several owners call them at a time.
pub(crate) struct Hooks<S> {
    pub(crate) policy: PanicPolicy<S>,
    pub(crate) on_panic: Option<PanicHook>,
    pub(crate) on_end: Option<EndHook<S>>,
    pub(crate) on_undelivered: Option<UndeliveredHook<S>>,
}

/// Called with every panic, by the owner.
pub(crate) type PanicHook = Box<dyn Fn(&TurnPanic) + Send + Sync>;
/// Called once an actor has ended, by its owner: with the state and the cause.
pub(crate) type EndHook<S> = Box<dyn Fn(S, EndCause) + Send + Sync>;
/// Called with every message that was accepted and is not handled, by any thread.
pub(crate) type UndeliveredHook<S> = Box<dyn Fn(Undelivered<S>) + Send + Sync>;

impl<S> Hooks<S> {
    /// Drops them. User code, one by one: a panic of one of them affects no other.
    pub(super) fn free(&mut self) {
        let Hooks { policy, on_panic, on_end, on_undelivered } = self;
        panic::ignore(|| drop(std::mem::replace(policy, PanicPolicy::Stop)));
        panic::ignore(|| drop(on_panic.take()));
        panic::ignore(|| drop(on_end.take()));
        panic::ignore(|| drop(on_undelivered.take()));
    }
}

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

/// Settings and hooks, before they are built.
pub(crate) struct Plan<S> {
    pub(crate) settings: Settings,
    pub(crate) hooks: Hooks<S>,
}

impl<S> Plan<S> {
    pub(crate) const PLAIN: Self = Plan {
        settings: Settings::PLAIN,
        hooks: Hooks {
            policy: PanicPolicy::Stop,
            on_panic: None,
            on_end: None,
            on_undelivered: None,
        },
    };
}
