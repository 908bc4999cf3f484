//! Building an actor that is more than plain.

use std::fmt;
use std::sync::Arc;

use super::Actor;
use crate::drain::budget::Budget;
use crate::drain::carrier::Executor;
use crate::drain::handle::Handle;
use crate::drain::letter::Undelivered;
use crate::drain::plan::{Overflow, Panic, Plan};
use crate::error::{BuildError, EndCause};
use crate::mailbox::word::{MAX_CAPACITY, UNBOUNDED};
use crate::wait::Clock;

/// Limits of an actor to be, found good.
pub(super) struct Limits {
    capacity: u32,
    budget: Budget,
}

impl Limits {
    /// Those of a builder that was told nothing.
    pub(super) const NONE: Self = Limits { capacity: UNBOUNDED, budget: Budget::INLINE };
}

/// Describes an actor before it is made: see [`Actor::builder`].
#[must_use = "nothing is made before `spawn`"]
pub struct ActorBuilder<S> {
    /// None yet for a lazy one.
    state: Option<S>,
    capacity: Option<usize>,
    budget: Option<Budget>,
    /// All but the limit, which is the capacity once that is found good.
    plan: Plan<S>,
}

impl<S: Send + 'static> ActorBuilder<S> {
    pub(crate) fn new(state: S) -> Self {
        ActorBuilder { state: Some(state), capacity: None, budget: None, plan: Plan::PLAIN }
    }

    /// An actor whose state is made by this factory before its first turn, by whoever runs that turn: once, however many threads send their
    /// first message at the same time, and never if no message is run.
    ///
    /// A factory that panics is treated like a turn that panics: the panic hook is told, then the policy acts. With
    /// [`Panic::Restart`] that factory makes the state instead. With `Stop`, and with `Resume` too, for there is nothing to go on with, the actor
    /// stops with that cause, and waiting messages are given back. The end hook gets no state if none was made.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{ActorBuilder, StopCause};
    ///
    /// let log = ActorBuilder::lazy(|| vec!["opened"]).name("log").spawn()?; // nothing is opened yet
    /// log.send(|log| log.push("first"))?;
    /// assert_eq!(log.with(|log| log.clone())?, ["opened", "first"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lazy(factory: impl FnOnce() -> S + Send + 'static) -> Self {
        let mut plan = Plan::PLAIN;
        plan.passes().factory = Some(Box::new(factory));
        ActorBuilder { state: None, capacity: None, budget: None, plan }
    }

    /// Called with the state before the first turn of every pass; with [`after_pass`](Self::after_pass), to load and store the state once for
    /// many messages.
    ///
    /// A pass is what one thread runs without looking for more: it takes all messages that wait, and the pass is over when they have been
    /// run, or when the drainer lets go earlier because its budget is used up or because other actors are waiting for this thread. What
    /// arrives meanwhile is for the next pass. Closures of [`with`](Actor::with) and [`Actor::try_own`] are turns, too.
    ///
    /// Each call of this hook is followed by one of `after_pass`, by the same thread, before anybody else gets at the state: also if this hook
    /// or a turn panics, or if the actor is stopped. A pass without a turn, because the actor was stopped before, has neither.
    ///
    /// A hook that panics is treated like a turn that panics: the panic hook is told, and the policy decides whether the actor goes on
    /// (the messages of the pass are run) or stops (they are given back).
    ///
    /// With hooks, every message goes through the mailbox: the short cut for an idle actor is not taken, an [`ask`](Actor::ask) always
    /// allocates. The same holds for `bulk` and `lazy`. Other actors pay nothing for it.
    ///
    /// # Examples
    /// ```
    /// use turnwise::Actor;
    ///
    /// #[derive(Default)]
    /// struct Ledger { loads: u32, stores: u32, sum: u32 }
    ///
    /// let ledger = Actor::builder(Ledger::default())
    ///     .before_pass(|ledger| ledger.loads += 1)
    ///     .after_pass(|ledger, _turns| ledger.stores += 1)
    ///     .spawn()?;
    /// ledger.send_many((1..=100).map(|n| move |ledger: &mut Ledger| ledger.sum += n))?;
    /// assert_eq!(ledger.with(|ledger| (ledger.loads, ledger.stores, ledger.sum))?, (2, 1, 5050));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn before_pass(mut self, hook: impl FnMut(&mut S) + Send + 'static) -> Self {
        self.plan.passes().before = Some(Box::new(hook));
        self
    }

    /// Called with the state after the last turn of every pass, and with the number of turns: see [`before_pass`](Self::before_pass).
    ///
    /// The turns have been run by then, and those who wait for one of them may have their answers. After a panic the hook gets the state as
    /// the panic left it, or, with [`Panic::Restart`], the fresh one, which no `before_pass` has seen. Turns that panicked are counted,
    /// messages that were given back are not; one that was cancelled while it waited
    /// may be, for its place is passed.
    pub fn after_pass(mut self, hook: impl FnMut(&mut S, u64) + Send + 'static) -> Self {
        self.plan.passes().after = Some(Box::new(hook));
        self
    }

    /// Gathers the messages of [`Actor::tell_bulk`]: those that stand side by side in one pass are handled in one call. See
    /// [`BulkHandler`](crate::BulkHandler).
    pub fn bulk(mut self) -> Self {
        self.plan.passes();
        self
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

    /// Called with the text of every panic of a turn (or of what [counts as one](Panic)), before the policy acts. It is called by the owner, between two turns.
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

    /// Called once, when the actor is closed, stopped or its last handle dropped and everything accepted is done: with the state, and with
    /// what ended it. There is no state if the actor is [lazy](Self::lazy) and never started.
    ///
    /// By the owner, that is, by whoever ran the last turn or ended an idle actor. A panic in it is nobody's business.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use turnwise::{Actor, EndCause, StopCause};
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let n = Actor::builder(1).on_end(move |state, cause| tx.send((state, cause)).unwrap()).spawn()?;
    /// n.send(|_| panic!("oops"))?;
    /// assert_eq!(rx.recv()?, (Some(1), EndCause::Stopped(StopCause::Panicked("oops".into()))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_end(mut self, hook: impl FnOnce(Option<S>, EndCause) + Send + 'static) -> Self {
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
        let limits = self.limits()?;
        Ok(self.made(limits))
    }

    /// Gives the state back, if there is one yet, and forgets the rest.
    pub(super) fn into_state(self) -> Option<S> {
        self.state
    }

    /// The limits that were asked for, if there can be such.
    pub(super) fn limits(&self) -> Result<Limits, BuildError> {
        let capacity = match self.capacity {
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
        Ok(Limits { capacity, budget })
    }

    /// Makes the actor, with limits that were found good. Runs no user code.
    pub(super) fn made(self, Limits { capacity, budget }: Limits) -> Actor<S> {
        Actor { handle: Handle::planned(self.state, Plan { limit: capacity, budget, ..self.plan }) }
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
