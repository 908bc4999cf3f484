//! Building an actor that is more than plain.

use std::fmt;

use super::Actor;
use crate::drain::budget::Budget;
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
    budget: Option<Budget>,
    /// All but the limit, which is the capacity once that is found good.
    plan: Plan<S>,
}

impl<S: Send + 'static> ActorBuilder<S> {
    pub(crate) fn new(state: S) -> Self {
        ActorBuilder { state, capacity: None, budget: None, plan: Plan::PLAIN }
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
        self.plan.posts = true;
        self
    }

    /// Where drains go that have used up their budget: messages are run by those who send them, and what is left after that by this executor.
    /// Without this (and without [`executor`](Self::executor)), it is [`ThreadPool::global`](crate::ThreadPool::global).
    ///
    /// # Examples
    /// ```
    /// use turnwise::Actor;
    /// use turnwise::executor::DrainQueue;
    ///
    /// let queue = DrainQueue::new();
    /// let n = Actor::builder(0).hand_off_to(queue.handle()).budget(2).spawn()?;
    /// n.send_many((0..5).map(|_| |n: &mut i32| *n += 1))?;
    /// assert_eq!(queue.len(), 1); // two were run here, and the rest waits
    /// while queue.run_one() {}
    /// assert_eq!(n.with(|n| *n)?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hand_off_to(mut self, executor: impl Executor + 'static) -> Self {
        self.plan.executor = Some(Box::new(executor));
        self.plan.posts = false;
        self
    }

    /// The most that one drain does, in turns, in time, or both. What is left then is handed on: to the executor, behind everybody else's work,
    /// or, without one, to [`ThreadPool::global`](crate::ThreadPool::global). Nothing is handed on if nothing is left.
    ///
    /// Without this, a drain in an executor has 256 turns, and a caller who finds himself draining is let go after a millisecond. That is
    /// counted from the eighth turn on, so a short drain never looks at a clock. A caller's own message, if he runs it at once, does not
    /// count. A caller who waits for an actor with an executor, finds nobody at it and so drains it, has no budget: the executor might be
    /// waiting for him. If the pool of the process has not a single thread, the caller who was to be let go runs what is left himself.
    ///
    /// The same default counts for everything that a caller's turns have sent to others, all together: after a millisecond, what is left of
    /// it goes to that pool, but for actors whose budget is unlimited.
    ///
    /// A program that is ended while the pool has work ends all the same: wait for what must be done.
    pub fn budget(mut self, budget: impl Into<Budget>) -> Self {
        self.budget = Some(budget.into());
        self
    }

    /// Called each time the executor refuses a drain ([`Executor::try_execute`]), with 1 to 3 for how often it has in a row. After the third
    /// time the drain goes to [`ThreadPool::global`](crate::ThreadPool::global). It is called by whoever hands the drain over, and by
    /// several at a time.
    pub fn refused(mut self, hook: impl Fn(u32) + Send + Sync + 'static) -> Self {
        self.plan.refused = Some(Box::new(hook));
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
    /// A capacity of 0, or one too large to be exact. A budget of no turns or no time.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, BuildError, Overflow};
    ///
    /// let error = Actor::builder(()).capacity(0, Overflow::Reject).spawn().unwrap_err();
    /// assert_eq!(error, BuildError::CapacityZero);
    /// ```
    pub fn spawn(self) -> Result<Actor<S>, BuildError> {
        let limit = match self.capacity {
            None => UNBOUNDED,
            Some(0) => return Err(BuildError::CapacityZero),
            Some(asked) if asked > MAX_CAPACITY as usize => {
                return Err(BuildError::CapacityTooLarge { asked, largest: MAX_CAPACITY as usize });
            }
            Some(messages) => messages as u32,
        };
        let budget = self.budget.unwrap_or(if self.plan.posts { Budget::POSTED } else { Budget::INLINE });
        if budget.is_zero() {
            return Err(BuildError::BudgetZero);
        }
        let plan = Plan { limit, budget, ..self.plan };
        Ok(Actor { handle: Handle::planned(self.state, plan) })
    }
}

impl<S> fmt::Debug for ActorBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorBuilder").field("name", &self.plan.name).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}
