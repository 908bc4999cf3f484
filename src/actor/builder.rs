//! Building an actor that is more than plain.

use std::fmt;
use std::sync::Arc;

use super::Actor;
use crate::budget::Budget;
use crate::cell::config::{Overflow, PanicPolicy, Plan, Settings, Undelivered};
use crate::cell::executor::Executor;
use crate::cell::refs::Strong;
use crate::error::{BuildError, EndCause, TurnPanic};
use crate::mailbox::word::{MAX_CAPACITY, UNBOUNDED};
use crate::panic;
use crate::time::{Clock, Timers};

/// Limits of an actor to be, found good.
pub(super) struct Limits {
    pub(super) capacity: u32,
    pub(super) budget: Budget,
}

impl Limits {
    /// Those that were asked for, if there can be such.
    pub(super) fn of(
        capacity: Option<usize>,
        budget: Option<Budget>,
        settings: &Settings,
    ) -> Result<Self, BuildError> {
        let capacity = match capacity {
            None => UNBOUNDED,
            Some(0) => return Err(BuildError::CapacityZero),
            Some(asked) if asked > MAX_CAPACITY as usize => {
                return Err(BuildError::CapacityTooLarge { asked, largest: MAX_CAPACITY as usize });
            }
            Some(messages) => messages as u32,
        };
        let default = if settings.has_executor() { Budget::POSTED } else { Budget::INLINE };
        let budget = budget.unwrap_or(default);
        if budget.is_zero() {
            return Err(BuildError::BudgetZero);
        }
        Ok(Limits { capacity, budget })
    }
}

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
    /// A name, for people: errors, `Debug`, panics and events say it. Without one they say the type
    /// of the state.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.plan.settings.name = Some(Arc::from(name.into()));
        self
    }

    /// At most this many messages wait, the running one not counted; `overflow` says what happens
    /// to one more.
    ///
    /// The limit is exact at every moment, for up to 32,765 messages.
    pub fn capacity(mut self, messages: usize, overflow: Overflow) -> Self {
        self.capacity = Some(messages);
        self.plan.settings.overflow = overflow;
        self
    }

    /// Runs the actor in this executor: senders leave their messages, and the executor is given a
    /// [`Drain`](crate::Drain). Nothing else runs the actor: callers that wait sleep meanwhile, and
    /// a poll of a future schedules at most.
    ///
    /// A thread that is to run the executor must not wait for the actor. If it is to run a
    /// [`DrainQueue`](crate::executor::DrainQueue), say, and calls [`with`](Actor::with) or
    /// [`wait`](crate::Reply::wait) instead, it waits for ever: use [`call`](Actor::call), and run
    /// the queue.
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        self.plan.settings.executor = Some(Arc::new(executor));
        self
    }

    /// The most that one drain does, in turns, in time, or both. What is left then goes to the
    /// executor, behind all other work there, or, without one, to
    /// [`ThreadPool::global`](crate::ThreadPool::global) (with the feature `tokio`, to the runtime
    /// that the drainer is in). Nothing is handed off if nothing is left.
    ///
    /// By default a drain has 64 turns if the executor alone runs the actor. Otherwise it stops
    /// after 1 ms, at the next message boundary. The clock is first read after eight messages, and
    /// the time counts from there, so a short drain never reads it. The message of a caller that
    /// found the actor idle does not count. A caller that waits goes on until its own message is
    /// done or its time is over, and beyond that only within the budget. If the system gives not a
    /// single thread for the global pool, a caller runs what is left itself.
    ///
    /// The same default holds for everything that a caller's turns have sent to others, taken
    /// together: after 1 ms, the actors that are left are scheduled, apart from those with an
    /// unlimited budget.
    ///
    /// The work of the global pool does not keep a program from ending: wait for what must be done.
    pub fn budget(mut self, budget: impl Into<Budget>) -> Self {
        self.budget = Some(budget.into());
        self
    }

    /// What becomes of the actor when a turn panics. Without this, it stops.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, PanicPolicy};
    ///
    /// let n = Actor::builder(1).panic_policy(PanicPolicy::restart(|| 10)).spawn()?;
    /// n.send(|_| panic!("oops"))?;
    /// assert_eq!(n.with(|n| *n)?, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn panic_policy(mut self, policy: PanicPolicy<S>) -> Self {
        self.plan.hooks.policy = policy;
        self
    }

    /// Called with every panic of a turn (or of what [counts as one](PanicPolicy)), before the
    /// policy acts. The thread that runs the actor calls it, between two turns.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let hook = move |panic: &turnwise::TurnPanic| tx.send(panic.to_string()).unwrap();
    /// let till = turnwise::Actor::builder(0).name("till").on_panic(hook).spawn()?;
    /// till.send(|_| panic!("jammed"))?;
    /// assert_eq!(rx.recv()?, "a turn panicked in `till`: jammed");
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn on_panic(mut self, hook: impl FnMut(&TurnPanic) + Send + 'static) -> Self {
        self.plan.hooks.on_panic = Some(Box::new(hook));
        self
    }

    /// Called once for each message that was accepted and is not handled: its actor was stopped, or
    /// its mailbox full ([`Overflow::DropNewest`]). The message is the hook's now. Any thread may
    /// call it, and several at a time.
    ///
    /// Questions are not handed to it (their askers are told), nor are closures of a waiting caller
    /// (they stay with the caller).
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, Undelivered};
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let queue = DrainQueue::new();
    /// let n = Actor::builder(0)
    ///     .executor(queue.handle())
    ///     .on_undelivered(move |message| tx.send(message).unwrap())
    ///     .spawn()?;
    /// n.send(|n| *n += 5)?;
    /// n.stop();
    /// queue.run_until_idle();
    /// let Undelivered::Closure(message) = rx.recv()? else { panic!() };
    /// let mut elsewhere = 1;
    /// message(&mut elsewhere);
    /// assert_eq!(elsewhere, 6);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn on_undelivered(mut self, hook: impl Fn(Undelivered<S>) + Send + Sync + 'static) -> Self {
        self.plan.on_undelivered = Some(Box::new(hook));
        self
    }

    /// Called once, when the actor is closed, stopped or its last handle dropped and everything
    /// accepted is done: with the state, and with what ended it.
    ///
    /// The thread that ran the last turn calls it, or the one that ended an idle actor. A panic in
    /// it is caught and ignored.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use turnwise::{Actor, EndCause, StopCause};
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let hook = move |state, cause| tx.send((state, cause)).unwrap();
    /// let n = Actor::builder(1).on_end(hook).spawn()?;
    /// n.send(|_| panic!("oops"))?;
    /// assert_eq!(rx.recv()?, (1, EndCause::Stopped(StopCause::Panicked("oops".into()))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn on_end(mut self, hook: impl FnOnce(S, EndCause) + Send + 'static) -> Self {
        self.plan.hooks.on_end = Some(Box::new(hook));
        self
    }

    /// Called with the state before the first turn of every batch; with
    /// [`on_batch_end`](Self::on_batch_end), to load and store the state once for many messages, or
    /// to handle together what the messages have put into it.
    ///
    /// A batch is what one thread runs without looking for more: it takes all messages that wait,
    /// and the batch is over when they have been run. It is over earlier if the drainer lets go
    /// because its budget is used up, or because other actors are waiting for this thread. What
    /// arrives meanwhile is for the next batch. Closures of [`with`](Actor::with) are turns, too.
    ///
    /// Each call of this hook is followed by one of `on_batch_end`, by the same thread, before any
    /// other thread gets at the state: also if this hook or a turn panics, or if the actor is
    /// stopped. A batch without a turn, because the actor was stopped before, has neither.
    ///
    /// A hook that panics is treated like a turn that panics: the panic hook is called, and the
    /// policy decides whether the actor goes on (the messages of the batch are run) or stops (they
    /// are given back).
    ///
    /// With hooks, every message goes through the mailbox: the short cut for an idle actor is not
    /// taken, a [`call`](Actor::call) always allocates. Other actors pay nothing for it.
    ///
    /// # Examples
    /// ```
    /// use turnwise::Actor;
    ///
    /// #[derive(Default)]
    /// struct Ledger { loads: u32, stores: u32, sum: u32 }
    ///
    /// let ledger = Actor::builder(Ledger::default())
    ///     .on_batch_start(|ledger| ledger.loads += 1)
    ///     .on_batch_end(|ledger, _turns| ledger.stores += 1)
    ///     .spawn()?;
    /// ledger.send_many((1..=5).map(|n| move |ledger: &mut Ledger| ledger.sum += n))?;
    /// assert_eq!(ledger.with(|ledger| (ledger.loads, ledger.stores, ledger.sum))?, (2, 1, 15));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn on_batch_start(mut self, hook: impl FnMut(&mut S) + Send + 'static) -> Self {
        self.plan.hooks.on_batch_start = Some(Box::new(hook));
        self
    }

    /// Called with the state after the last turn of every batch, and with the number of turns: see
    /// [`on_batch_start`](Self::on_batch_start).
    ///
    /// The turns have been run by then, and those that wait for one of them may have their answers.
    /// After a panic the hook gets the state as the panic left it, or, with
    /// [`PanicPolicy::Restart`], the fresh one, which no `on_batch_start` has seen. Turns that
    /// panicked are counted, messages that were given back are not; one that was cancelled while it
    /// waited may be, for its place is passed.
    ///
    /// # Examples
    /// Messages that are handled together: each puts itself into a `Vec`, and the hook handles all.
    /// ```
    /// use turnwise::Actor;
    ///
    /// #[derive(Default)]
    /// struct Rows { gathered: Vec<u32>, written: Vec<Vec<u32>> }
    ///
    /// let rows = Actor::builder(Rows::default())
    ///     .on_batch_end(|rows, _| {
    ///         let batch = std::mem::take(&mut rows.gathered);
    ///         if !batch.is_empty() {
    ///             rows.written.push(batch); // one write for all
    ///         }
    ///     })
    ///     .spawn()?;
    /// rows.send_many((1..=3).map(|n| move |rows: &mut Rows| rows.gathered.push(n)))?;
    /// assert_eq!(rows.with(|rows| rows.written.clone())?, [[1, 2, 3]]);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn on_batch_end(mut self, hook: impl FnMut(&mut S, u64) + Send + 'static) -> Self {
        self.plan.hooks.on_batch_end = Some(Box::new(hook));
        self
    }

    /// The clock that limits are measured on, for tests above all; without this, the system's
    /// monotonic one.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.plan.settings.clock = Some(Arc::new(clock));
        self.plan.settings.timers = None;
        self
    }

    /// The timers of its delayed messages ([`send_after`](Actor::send_after) and its like); their
    /// clock is the actor's clock, too.
    ///
    /// Without this, the timers are [`Timers::global`]. An actor with a clock of its own, or with
    /// that of its system, then gets timers by that clock, which have a thread as long as a message
    /// of such an actor is delayed.
    pub fn timers(mut self, timers: Timers) -> Self {
        self.plan.settings.clock = Some(timers.clock().clone());
        self.plan.settings.timers = Some(timers);
        self
    }

    /// Shall what becomes of its messages be counted, for [`Actor::stats`]?
    ///
    /// Every message of such an actor goes through the mailbox, as it does with
    /// [hooks](Self::on_batch_start), and each batch and each refusal takes a lock of a few
    /// instructions. Other actors pay nothing. (What an actor [discards](Actor::discarded) is
    /// counted in any case.)
    pub fn counted(mut self, counted: bool) -> Self {
        self.plan.settings.counted = counted;
        self
    }

    /// Shall each turn be a span of `tracing`? With the feature `tracing`.
    ///
    /// The span is called `turn`, its target is `turnwise`, its level INFO. It begins with the turn
    /// and ends with it, has no parent, and follows from the span that the message was sent in, which
    /// stays open until then. What the turn does is inside of it. A message that has no turn, because
    /// it was refused, taken back or not handled, has no span.
    ///
    /// | field | is |
    /// |---|---|
    /// | `actor` | the actor's [name](Self::name), or the type of its state |
    /// | `kind` | the type of the message, or of the closure, which says where it stands; nothing of what is in it |
    /// | `wait_ns` | nanoseconds from the sending to the turn's beginning, the wait for room included; of a delayed message, from the moment that it was due |
    /// | `run_ns` | nanoseconds that the turn ran; of one that waits at an await, without that time |
    /// | `outcome` | `done`; `panicked`; of a turn that was cut at an await, `aborted`, `abandoned` because nobody could wake it, or `stopped` with its actor |
    ///
    /// Times are those of the actor's [clock](Self::clock). A turn that [waits](Actor::run) is one
    /// span, entered at each poll, and costs one allocation more. A [tick](Actor::tell_every) follows
    /// from no span: that in which it was armed is not kept open.
    ///
    /// The subscriber is the sender's, or, if that was in no span, the one of the thread that runs
    /// the turn. It is called in the turn, under no lock; it may send to this very actor, and a panic
    /// of it is ignored.
    ///
    /// Every message of such an actor goes through the mailbox, as it does with
    /// [hooks](Self::on_batch_start). Other actors pay for a look at a bit of the handle, where a
    /// message does not run on the spot; without the feature, nothing.
    ///
    /// # Examples
    /// ```
    /// use tracing::info_span;
    /// use turnwise::Actor;
    ///
    /// let stock = Actor::builder(vec![3, 1, 2]).name("stock").traced(true).spawn()?;
    /// let request = info_span!("request", id = 7);
    /// // A span `turn` with actor="stock" and outcome="done", which follows from `request`.
    /// let largest = request.in_scope(|| stock.call(|stock| stock.iter().copied().max()));
    /// assert_eq!(largest.wait()?, Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tracing")]
    pub fn traced(mut self, traced: bool) -> Self {
        self.plan.settings.traced = traced;
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

    pub(crate) fn new(state: S) -> Self {
        ActorBuilder { state, capacity: None, budget: None, plan: Plan::PLAIN }
    }

    /// Gives the state back, and forgets the rest.
    pub(super) fn into_state(self) -> S {
        self.state
    }

    /// The limits that were asked for, if there can be such.
    pub(super) fn limits(&self) -> Result<Limits, BuildError> {
        Limits::of(self.capacity, self.budget, &self.plan.settings)
    }

    /// Makes the actor, with limits that were found good. Runs no user code.
    pub(super) fn made(self, Limits { capacity, budget }: Limits) -> Actor<S> {
        let settings = Settings { limit: capacity, budget, ..self.plan.settings };
        Actor { handle: Strong::planned(self.state, Plan { settings, ..self.plan }) }
    }

    /// Another clock than the machine's, unless one was chosen.
    pub(super) fn clock_unless_set(mut self, clock: Option<&Arc<dyn Clock>>) -> Self {
        self.plan.settings.clock_unless_set(clock);
        self
    }

    /// Drops `guard` when the actor has ended: after its end hook, and after its state.
    pub(super) fn after_end(mut self, guard: impl Send + 'static) -> Self {
        let hook = self.plan.hooks.on_end.take();
        self.on_end(move |state, cause| {
            panic::ignore(|| match hook {
                Some(hook) => hook(state, cause),
                None => drop(state),
            });
            // Wakers, and hooks of other actors: not while this thread unwinds.
            drop(guard);
        })
    }
}

impl<S> fmt::Debug for ActorBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorBuilder")
            .field("name", &self.plan.settings.name)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
