//! Actor configuration.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::{Actor, Spawner};
use crate::budget::Budget;
use crate::cell::config::{PanicPolicy, Plan, Undelivered};
use crate::cell::executor::Executor;
use crate::cell::refs::Strong;
use crate::cell::settings::{Overflow, Settings};
use crate::cell::typed::Cell;
use crate::error::{BuildError, EndCause, TurnPanic};
use crate::mailbox::semaphore::{MAX_CAPACITY, UNBOUNDED};
use crate::time::{Clock, Timers};

/// Configures actors: see [`Actor::builder`].
///
/// [`spawn`](Self::spawn) makes one actor, [`build`](Self::build) a [`Spawner`] that makes any
/// number of them. The hooks and the factory of a panic policy are shared by all of these actors,
/// so several threads may call them at the same time.
#[must_use = "nothing is made before `spawn` or `build`"]
pub struct ActorBuilder<S> {
    capacity: Option<usize>,
    budget: Option<Budget>,
    /// All but the limit and the budget, which `build` checks.
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
    /// The limit is exact at every moment.
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
    /// [`ThreadPool::global`](crate::ThreadPool::global) (with the feature `tokio`, if the drainer
    /// is inside a runtime, to a [pool](crate::executor) that enters it). Nothing is handed off if
    /// nothing is left.
    ///
    /// By default a drain has 64 turns if the executor alone runs the actor. Otherwise it stops
    /// after 1 ms, at the next message boundary. The clock is first read after eight messages, and
    /// the time counts from there, so a short drain never reads it. The message of a caller that
    /// found the actor idle does not count, if it was run without the mailbox. A caller that waits
    /// goes on until its own message is done or its time is over, and beyond that only within the
    /// budget. If the system gives not a single thread for the global pool, a caller runs what is
    /// left itself.
    ///
    /// This default holds for everything that a caller's turns have sent to others, taken
    /// together: after 1 ms, the actors that are left are scheduled, apart from those with an
    /// unlimited budget.
    ///
    /// The work of the global pool does not keep a program from ending: wait for what must be done.
    pub fn budget(mut self, budget: impl Into<Budget>) -> Self {
        self.budget = Some(budget.into());
        self
    }

    /// Sets the policy for a turn that panics. Without this, the actor stops.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, PanicPolicy};
    ///
    /// let n = Actor::builder().panic_policy(PanicPolicy::restart(|| 10)).spawn(1)?;
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
    /// let till = turnwise::Actor::builder().name("till").on_panic(hook).spawn(0)?;
    /// till.send(|_| panic!("jammed"))?;
    /// assert_eq!(rx.recv()?, "a turn panicked in `till`: jammed");
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn on_panic(mut self, hook: impl Fn(&TurnPanic) + Send + Sync + 'static) -> Self {
        self.plan.hooks.on_panic = Some(Box::new(hook));
        self
    }

    /// Called once for each message that was accepted and is not handled: its actor was stopped, or
    /// its mailbox full ([`Overflow::DropNewest`]). The message is the hook's now. Any thread may
    /// call it, and several at a time.
    ///
    /// Questions are not handed to it (askers get an error), nor are closures of a waiting caller
    /// (they stay with the caller). A question whose reply was dropped has no asker: it is dropped,
    /// and counted as [`discarded`](crate::snapshot::ActorSnapshot::discarded).
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::{Actor, Undelivered};
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let queue = DrainQueue::new();
    /// let n = Actor::builder()
    ///     .executor(queue.handle())
    ///     .on_undelivered(move |message| tx.send(message).unwrap())
    ///     .spawn(0)?;
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
        self.plan.hooks.on_undelivered = Some(Box::new(hook));
        self
    }

    /// Called once for each actor, when it is closed, stopped or its last handle dropped and
    /// everything accepted is done: with the state, and with the cause.
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
    /// let n = Actor::builder().on_end(hook).spawn(1)?;
    /// n.send(|_| panic!("oops"))?;
    /// assert_eq!(rx.recv()?, (1, EndCause::Stopped(StopCause::Panicked("oops".into()))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn on_end(mut self, hook: impl Fn(S, EndCause) + Send + Sync + 'static) -> Self {
        self.plan.hooks.on_end = Some(Box::new(hook));
        self
    }

    /// Called with the state after the last turn of every batch, and with the number of turns: to
    /// store the state once for many messages, or to handle together what the messages have put
    /// into it.
    ///
    /// A batch is what one thread runs without looking for more: it takes all messages that wait,
    /// and the batch is over when they have been run. It is over earlier if the drainer lets go
    /// because its budget is used up, or because other actors are waiting for this thread. What
    /// arrives meanwhile is for the next batch. Closures of [`with`](Actor::with) are turns, too.
    ///
    /// A batch with a turn ends once, on the thread of its last turn, before any other thread gets
    /// at the state: also if a turn panics or the actor is stopped. Callers that wait for one of
    /// the turns may have their answers by then. After a panic the hook gets the state as the panic
    /// left it, or, if the policy restarts the actor, the fresh one: a rest before that leaves the
    /// batch open. Turns that panicked are counted, messages that were given back are not. A
    /// message that was cancelled while it waited may be counted.
    ///
    /// A hook that panics is treated like a turn that panics: the panic hook is called, and the
    /// policy decides whether the actor goes on or stops.
    ///
    /// With this hook, every message goes through the mailbox: the short cut for an idle actor is
    /// not taken, a [`call`](Actor::call) always allocates. Other actors pay nothing for it.
    ///
    /// # Examples
    /// Each message puts a row into a `Vec`, and the hook writes all of them at once.
    /// ```
    /// use turnwise::Actor;
    ///
    /// #[derive(Default)]
    /// struct Rows { gathered: Vec<u32>, written: Vec<Vec<u32>> }
    ///
    /// let rows = Actor::<Rows>::builder()
    ///     .on_batch_end(|rows, _| {
    ///         let batch = std::mem::take(&mut rows.gathered);
    ///         if !batch.is_empty() {
    ///             rows.written.push(batch); // one write for all
    ///         }
    ///     })
    ///     .spawn(Rows::default())?;
    /// rows.send_many((1..=3).map(|n| move |rows: &mut Rows| rows.gathered.push(n)))?;
    /// assert_eq!(rows.with(|rows| rows.written.clone())?, [[1, 2, 3]]);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn on_batch_end(mut self, hook: impl Fn(&mut S, u64) + Send + Sync + 'static) -> Self {
        self.plan.on_batch_end(hook);
        self
    }

    /// The clock that limits are measured on, for tests above all; without this, the system's
    /// monotonic one. It takes the place of [`timers`](Self::timers) that were chosen before.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.plan.settings.clock = Some(Arc::new(clock));
        self.plan.settings.timers = None;
        self
    }

    /// The timers of its delayed messages ([`send_after`](super::Posted::send_after) and its like);
    /// their clock is the actor's clock, too.
    ///
    /// Without this, the timers are [`Timers::global`]. An actor with a clock of its own, or with
    /// that of its system, then gets timers by that clock, which have a thread as long as a message
    /// of such an actor is delayed.
    pub fn timers(mut self, timers: Timers) -> Self {
        self.plan.settings.clock = Some(timers.clock().clone());
        self.plan.settings.timers = Some(timers);
        self
    }

    /// Whether what becomes of its messages is counted, for [`Actor::snapshot`].
    ///
    /// Every message of such an actor goes through the mailbox, as it does with an
    /// [`on_batch_end`](Self::on_batch_end) hook, and each batch and each refusal takes a lock of a
    /// few instructions. Other actors pay nothing. (What an actor
    /// [discards](crate::snapshot::ActorSnapshot::discarded) is counted in any case.)
    pub fn counted(mut self, counted: bool) -> Self {
        self.plan.settings.observers.counts = counted;
        self
    }

    /// Makes each turn a span of `tracing`, with the feature `tracing`.
    ///
    /// The span is called `turn`, its target is `turnwise`, its level INFO. It begins with the turn
    /// and ends with it, has no parent, and follows from the span that the message was sent in,
    /// which stays open until then; with [`child_spans`](Self::child_spans) it is a child of that.
    /// What the turn does is inside of it. A message that has no turn, because it was refused,
    /// taken back or not handled, has no span.
    ///
    /// | field | is |
    /// |---|---|
    /// | `actor` | the actor's [name](Self::name), or the type of its state |
    /// | `kind` | the type of the message, or of the closure, which says where it stands; nothing of what is in it |
    /// | `wait_ns` | nanoseconds from the sending to the turn's beginning, the wait for room included; of a delayed message, from the moment that it was due |
    /// | `run_ns` | nanoseconds that the turn ran; of one that waits at an await, without that time |
    /// | `outcome` | `done`; `panicked`; of a turn that was cut at an await, `aborted`, `abandoned` because no waker was left, or `stopped` with its actor |
    ///
    /// Times are those of the actor's [clock](Self::clock). A turn that [waits](Actor::run) is one
    /// span, entered at each poll, and costs one allocation more. A
    /// [tick](super::Posted::tell_every) follows from no span: that in which it was armed is not
    /// kept open.
    ///
    /// The subscriber is the sender's, or, if that was in no span, the one of the thread that runs
    /// the turn. It is called in the turn, under no lock; it may send to this very actor, and a
    /// panic of it is ignored.
    ///
    /// Every message of such an actor goes through the mailbox, as it does with an
    /// [`on_batch_end`](Self::on_batch_end) hook. Other actors pay for a look at a bit of the
    /// handle; without the feature, nothing.
    ///
    /// # Examples
    /// ```
    /// use tracing::info_span;
    /// use turnwise::Actor;
    ///
    /// let stock = Actor::builder().name("stock").traced(true).spawn(vec![3, 1, 2])?;
    /// let request = info_span!("request", id = 7);
    /// // A span `turn` with actor="stock" and outcome="done", which follows from `request`.
    /// let largest = request.in_scope(|| stock.call(|stock| stock.iter().copied().max()));
    /// assert_eq!(largest.wait()?, Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tracing")]
    pub fn traced(mut self, traced: bool) -> Self {
        self.plan.settings.observers.traces = traced;
        self
    }

    /// Makes the span of each turn, if the actor is [`traced`](Self::traced), a child of the span
    /// that its message was sent in. Without this it follows from that span, and has no parent.
    ///
    /// Subscribers that print the spans around a line, such as `tracing_subscriber::fmt`, then show
    /// the sender's span, with its fields, before all that the turn logs. The sender's span stays
    /// open until the turn's is closed.
    ///
    /// # Examples
    /// ```
    /// use tracing::{info, info_span};
    /// use turnwise::Actor;
    ///
    /// let stock = Actor::builder().name("stock").traced(true).child_spans(true).spawn(3)?;
    /// info_span!("request", id = 7).in_scope(|| {
    ///     stock.send(|stock| {
    ///         *stock -= 1;
    ///         info!(left = *stock); // INFO request{id=7}:turn{actor="stock" ..}: left=2
    ///     })
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tracing")]
    pub fn child_spans(mut self, child_spans: bool) -> Self {
        self.plan.settings.observers.child_spans = child_spans;
        self
    }

    /// Makes one actor with this state.
    ///
    /// # Errors
    /// A capacity of 0, or one too large to be exact. A budget of no turns or no time. A limit of
    /// restarts within no time.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, BuildError, Overflow};
    ///
    /// let error = Actor::builder().capacity(0, Overflow::Reject).spawn(()).unwrap_err();
    /// assert_eq!(error, BuildError::CapacityZero);
    /// ```
    pub fn spawn(self, state: S) -> Result<Actor<S>, BuildError> {
        let Spawner { built } = self.build()?;
        Ok(Actor { handle: Strong::of_built(state, built) })
    }

    /// Checks the configuration and makes a [`Spawner`] of it, from which actors are spawned.
    ///
    /// # Errors
    /// A capacity of 0, or one too large to be exact. A budget of no turns or no time. A limit of
    /// restarts within no time.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, PanicPolicy};
    ///
    /// let numbers = Actor::builder().panic_policy(PanicPolicy::restart(|| 10)).build()?;
    /// let (one, two) = (numbers.spawn(1), numbers.spawn(2));
    /// one.send(|_| panic!("oops"))?;
    /// assert_eq!((one.with(|n| *n)?, two.with(|n| *n)?), (10, 2));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn build(self) -> Result<Spawner<S>, BuildError> {
        let ActorBuilder { capacity, budget, plan } = self;
        let capacity = match capacity {
            None => UNBOUNDED,
            Some(0) => return Err(BuildError::CapacityZero),
            Some(asked) if asked > MAX_CAPACITY as usize => {
                return Err(BuildError::CapacityTooLarge { asked, largest: MAX_CAPACITY as usize });
            }
            Some(messages) => messages as u32,
        };
        let default = if plan.settings.has_executor() { Budget::POSTED } else { Budget::INLINE };
        let budget = budget.unwrap_or(default);
        if budget.is_zero() {
            return Err(BuildError::BudgetZero);
        }
        if matches!(&plan.hooks.policy, PanicPolicy::RestartWithin(r, _) if r.is_unlimited()) {
            return Err(BuildError::RestartTimeZero);
        }
        let settings = Settings { capacity, budget, ..plan.settings };
        Ok(Spawner { built: Cell::build(Plan { settings, ..plan }) })
    }

    pub(crate) fn new() -> Self {
        ActorBuilder { capacity: None, budget: None, plan: Plan::PLAIN }
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
