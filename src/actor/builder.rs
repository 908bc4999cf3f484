//! Building an actor that is more than plain.

use std::fmt;
use std::sync::Arc;

use super::Actor;
use crate::drain::carrier::Executor;
use crate::drain::handle::Handle;
use crate::drain::letter::Undelivered;
use crate::drain::plan::{Overflow, Panic, Plan};
use crate::error::{BuildError, StopCause};
use crate::mailbox::word::{MAX_CAPACITY, UNBOUNDED};
use crate::wait::Clock;

/// Describes an actor before it is made: see [`Actor::builder`].
#[must_use = "nothing is made before `spawn`"]
pub struct ActorBuilder<S> {
    state: S,
    capacity: Option<usize>,
    /// All but the limit, which is the capacity once that is found good.
    plan: Plan<S>,
}

impl<S: Send + 'static> ActorBuilder<S> {
    pub(crate) fn new(state: S) -> Self {
        ActorBuilder { state, capacity: None, plan: Plan::PLAIN }
    }

    /// A name, for `Debug` and for people.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.plan.name = Some(name.into().into_boxed_str());
        self
    }

    /// At most so many messages wait, the running one not counted; `overflow` says what happens to one more.
    ///
    /// The limit is exact at every moment, for up to 65,533 messages.
    pub fn capacity(mut self, messages: usize, overflow: Overflow) -> Self {
        self.capacity = Some(messages);
        self.plan.overflow = overflow;
        self
    }

    /// The clock that limits are measured on, for tests above all; without this, the system's monotonic one.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.plan.clock = Some(Box::new(clock));
        self
    }

    /// Where messages are run: senders leave them, and a [`Drain`](crate::Drain) is given to this executor. A caller of
    /// [`with`](Actor::with) still runs his own message on the spot if the actor is idle.
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        self.plan.executor = Some(Box::new(executor));
        self
    }

    /// Most turns of one drain in the executor, 256 without this: what is left then is given to the executor again, so that others get
    /// their turn. Zero counts as one.
    pub fn budget(mut self, turns: u32) -> Self {
        self.plan.budget = turns.clamp(1, u32::MAX - 1);
        self
    }

    /// What becomes of the actor when a turn panics. Without this, it stops.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, Panic};
    ///
    /// let n = Actor::builder(1).on_panic(Panic::restart(|| 10)).spawn()?;
    /// n.send(|_| panic!("oops"))?;
    /// assert_eq!(n.with(|n| *n)?, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_panic(mut self, policy: Panic<S>) -> Self {
        self.plan.hooks.policy = policy;
        self
    }

    /// Called with the text of every panic of a turn, before the policy acts. It is called by the owner, between two turns.
    pub fn panic_hook(mut self, hook: impl FnMut(&str) + Send + 'static) -> Self {
        self.plan.hooks.on_panic = Some(Box::new(hook));
        self
    }

    /// Called once for each message that was accepted and is not handled: its actor was stopped, or it had to make room
    /// ([`Overflow`]). It is the hook's now. By any thread, and by several at a time.
    ///
    /// Questions are not handed to it (their askers are told), nor are closures of a waiting caller (they stay with him).
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use turnwise::{Actor, Undelivered};
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let n = Actor::builder(0).undelivered(move |message| tx.send(message).unwrap()).spawn()?;
    /// n.enqueue(|n| *n += 5)?;
    /// n.stop();
    /// let Undelivered::Closure(message) = rx.recv()? else { panic!() };
    /// let mut elsewhere = 1;
    /// message(&mut elsewhere);
    /// assert_eq!(elsewhere, 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn undelivered(mut self, hook: impl Fn(Undelivered<S>) + Send + Sync + 'static) -> Self {
        self.plan.undelivered = Some(Box::new(hook));
        self
    }

    /// Called once, when the actor is closed, stopped or its last handle dropped and everything accepted is done: with the state, and why it
    /// was stopped, if it was.
    pub fn on_end(mut self, hook: impl FnOnce(Option<S>, Option<StopCause>) + Send + 'static) -> Self {
        self.plan.hooks.on_end = Some(Box::new(hook));
        self
    }

    /// Makes the actor.
    ///
    /// # Errors
    /// A capacity of 0, or one too large to be exact.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, BuildError, Overflow};
    ///
    /// let error = Actor::builder(()).capacity(0, Overflow::Reject).spawn().unwrap_err();
    /// assert_eq!(error, BuildError::CapacityZero);
    /// ```
    pub fn spawn(self) -> Result<Actor<S>, BuildError> {
        let limit = self.limit()?;
        Ok(self.made(limit))
    }

    /// Gives the state back, and forgets the rest.
    pub(super) fn into_state(self) -> S {
        self.state
    }

    /// The limit that was asked for, if there can be such a one.
    pub(super) fn limit(&self) -> Result<u32, BuildError> {
        match self.capacity {
            None => Ok(UNBOUNDED),
            Some(0) => Err(BuildError::CapacityZero),
            Some(asked) if asked > MAX_CAPACITY as usize => Err(BuildError::CapacityTooLarge { asked, largest: MAX_CAPACITY as usize }),
            Some(messages) => Ok(messages as u32),
        }
    }

    /// Makes the actor, with a limit that was found good. Runs no user code.
    pub(super) fn made(self, limit: u32) -> Actor<S> {
        Actor { handle: Handle::planned(self.state, Plan { limit, ..self.plan }) }
    }

    /// Another clock than the machine's, unless one was chosen.
    pub(super) fn clock_unless_set(mut self, clock: Option<&Arc<dyn Clock>>) -> Self {
        if self.plan.clock.is_none() {
            self.plan.clock = clock.map(|clock| Box::new(clock.clone()) as Box<dyn Clock>);
        }
        self
    }

    /// Drops `guard` when the actor has ended: after its end hook, and after its state.
    pub(super) fn after_end(mut self, guard: impl Send + 'static) -> Self {
        let hook = self.plan.hooks.on_end.take();
        self.on_end(move |state, cause| {
            // Dropped last, also if the hook panics.
            let _guard = guard;
            match hook {
                Some(hook) => hook(state, cause),
                None => drop(state),
            }
        })
    }
}

impl<S> fmt::Debug for ActorBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorBuilder").field("name", &self.plan.name).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}
