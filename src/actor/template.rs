//! Many actors of one kind: what is the same for all of them is said once, and kept once.

use std::fmt;
use std::sync::Arc;

use super::Actor;
use super::builder::Limits;
use crate::budget::Budget;
use crate::cell::config::{Overflow, Settings, SharedHooks, SharedPlan, SharedPolicy, Undelivered};
use crate::cell::executor::Executor;
use crate::cell::pattern::PatternRef;
use crate::cell::refs::Strong;
use crate::cell::typed::Cell;
use crate::error::{BuildError, EndCause, TurnPanic};
use crate::time::{Clock, Timers};

/// What many actors are made from: an executor, a capacity, a panic policy, hooks, said once.
///
/// An actor of a template costs what a plain one costs, one allocation of the state and 32 bytes
/// more, whatever the template says: the rest lies in the template, and all its actors refer to it.
/// A [builder](Actor::builder) gives each actor an allocation for that, hooks of its own, and may
/// fail; a template has found its limits good when it is made, so [`spawn`](Self::spawn) cannot.
///
/// Clones are the same template. It keeps no actor going, and none needs it: what they share is
/// dropped with the last of them.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise::{SharedPolicy, Template, ThreadPool};
///
/// let pool = ThreadPool::builder().threads(2).build()?;
/// let accounts = Template::builder()
///     .name("account")
///     .executor(pool.handle())
///     .panic_policy(SharedPolicy::Resume)
///     .build()?;
/// let all: Vec<_> = (0..1000_u64).map(|balance| accounts.spawn(balance)).collect();
/// for account in &all {
///     account.send(|balance| *balance += 1)?; // on the pool
/// }
/// assert_eq!(all[999].call(|balance| *balance).wait()?, 1000);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Template<S> {
    pattern: PatternRef<S>,
}

impl<S: Send + 'static> Template<S> {
    /// A template without a limit and without hooks, to be described further.
    pub fn builder() -> TemplateBuilder<S> {
        TemplateBuilder { capacity: None, budget: None, plan: SharedPlan::PLAIN }
    }

    /// An actor with this state: one small allocation, and one atomic addition. Never waits.
    ///
    /// # Examples
    /// ```
    /// let words = turnwise::Template::builder().name("word").build()?;
    /// let hits = words.spawn(0);
    /// hits.send(|n| *n += 1)?;
    /// assert_eq!((hits.with(|n| *n)?, hits.name()), (1, Some("word")));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[inline]
    pub fn spawn(&self, state: S) -> Actor<S> {
        Actor { handle: Strong::of_pattern(state, &self.pattern) }
    }

    pub(super) fn pattern(&self) -> &PatternRef<S> {
        &self.pattern
    }
}

impl<S> Template<S> {
    /// The name that its actors have.
    pub fn name(&self) -> Option<&str> {
        self.pattern.config().name.as_deref()
    }
}

impl<S> Clone for Template<S> {
    fn clone(&self) -> Self {
        Template { pattern: self.pattern.clone() }
    }
}

impl<S> fmt::Debug for Template<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template")
            .field("name", &self.name())
            .field("capacity", &self.pattern.config().capacity())
            .field("uses", &self.pattern.count())
            .finish_non_exhaustive()
    }
}

/// Describes a [`Template`] before it is made: the setters of
/// [`ActorBuilder`](crate::ActorBuilder), with hooks that several actors may call at the same time.
#[must_use = "nothing is made before `build`"]
pub struct TemplateBuilder<S> {
    capacity: Option<usize>,
    budget: Option<Budget>,
    /// All but the limit, which is the capacity once that is found good.
    plan: SharedPlan<S>,
}

impl<S: Send + 'static> TemplateBuilder<S> {
    /// A name for all of them, for people: see [`ActorBuilder::name`](crate::ActorBuilder::name).
    pub fn name(self, name: impl Into<String>) -> Self {
        self.settings(|settings| settings.name = Some(Arc::from(name.into())))
    }

    /// At most this many messages wait in each of them: see
    /// [`ActorBuilder::capacity`](crate::ActorBuilder::capacity).
    pub fn capacity(mut self, messages: usize, overflow: Overflow) -> Self {
        self.capacity = Some(messages);
        self.settings(|settings| settings.overflow = overflow)
    }

    /// Runs them in this executor, and nowhere else: see
    /// [`ActorBuilder::executor`](crate::ActorBuilder::executor).
    pub fn executor(self, executor: impl Executor + 'static) -> Self {
        self.settings(|settings| settings.executor = Some(Arc::new(executor)))
    }

    /// The most that one drain of one of them does: see
    /// [`ActorBuilder::budget`](crate::ActorBuilder::budget).
    pub fn budget(mut self, budget: impl Into<Budget>) -> Self {
        self.budget = Some(budget.into());
        self
    }

    /// What becomes of an actor when its turn panics. Without this, it stops.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{SharedPolicy, Template};
    ///
    /// let numbers = Template::builder().panic_policy(SharedPolicy::restart(|| 10)).build()?;
    /// let (one, two) = (numbers.spawn(1), numbers.spawn(2));
    /// one.send(|_| panic!("oops"))?;
    /// assert_eq!((one.with(|n| *n)?, two.with(|n| *n)?), (10, 2));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn panic_policy(self, policy: SharedPolicy<S>) -> Self {
        self.hooks(|hooks| hooks.policy = policy)
    }

    /// Called with every panic of a turn of any of them: see
    /// [`ActorBuilder::on_panic`](crate::ActorBuilder::on_panic).
    pub fn on_panic(self, hook: impl Fn(&TurnPanic) + Send + Sync + 'static) -> Self {
        self.hooks(|hooks| hooks.on_panic = Some(Box::new(hook)))
    }

    /// Called once for each message that one of them has accepted and does not handle: see
    /// [`ActorBuilder::on_undelivered`](crate::ActorBuilder::on_undelivered).
    pub fn on_undelivered(self, hook: impl Fn(Undelivered<S>) + Send + Sync + 'static) -> Self {
        self.hooks(|hooks| hooks.on_undelivered = Some(Box::new(hook)))
    }

    /// Called once for each of them, when it has ended, with its state and with what ended it: see
    /// [`ActorBuilder::on_end`](crate::ActorBuilder::on_end).
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use turnwise::{EndCause, Template};
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let hook = move |sum, why| tx.send((sum, why)).unwrap();
    /// let sums = Template::builder().on_end(hook).build()?;
    /// let (one, two) = (sums.spawn(1), sums.spawn(2));
    /// drop(one);
    /// two.close();
    /// let ended: Vec<_> = rx.try_iter().collect();
    /// assert_eq!(ended, [(1, EndCause::Dropped), (2, EndCause::Closed)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_end(self, hook: impl Fn(S, EndCause) + Send + Sync + 'static) -> Self {
        self.hooks(|hooks| hooks.on_end = Some(Box::new(hook)))
    }

    /// Called with an actor's state before the first turn of each of its batches: see
    /// [`ActorBuilder::on_batch_start`](crate::ActorBuilder::on_batch_start).
    pub fn on_batch_start(self, hook: impl Fn(&mut S) + Send + Sync + 'static) -> Self {
        self.hooks(|hooks| hooks.on_batch_start = Some(Box::new(hook)))
    }

    /// Called with an actor's state after the last turn of each of its batches, and with the number
    /// of turns: see [`ActorBuilder::on_batch_end`](crate::ActorBuilder::on_batch_end).
    pub fn on_batch_end(self, hook: impl Fn(&mut S, u64) + Send + Sync + 'static) -> Self {
        self.hooks(|hooks| hooks.on_batch_end = Some(Box::new(hook)))
    }

    /// The clock that limits are measured on; without this, the system's monotonic one.
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        self.settings(|settings| {
            settings.clock = Some(Arc::new(clock));
            settings.timers = None;
        })
    }

    /// The timers of their delayed messages; their clock is the actors' clock, too: see
    /// [`ActorBuilder::timers`](crate::ActorBuilder::timers).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::time::Timers;
    /// use turnwise::{Template, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// let sessions = Template::builder().timers(timers.clone()).build()?;
    /// let (one, two) = (sessions.spawn(0), sessions.spawn(0));
    /// one.send_after(Duration::from_secs(60), |n| *n += 1).forget();
    /// two.send_after(Duration::from_secs(90), |n| *n += 1).forget();
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(timers.run_due(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timers(self, timers: Timers) -> Self {
        self.settings(|settings| {
            settings.clock = Some(timers.clock().clone());
            settings.timers = Some(timers);
        })
    }

    /// Shall what becomes of the messages of each be counted, for itself? See
    /// [`ActorBuilder::counted`](crate::ActorBuilder::counted). One that was sent to then costs some
    /// three hundred bytes more.
    pub fn counted(self, counted: bool) -> Self {
        self.settings(|settings| settings.counted = counted)
    }

    /// Shall each turn of each of them be a span of `tracing`? See
    /// [`ActorBuilder::traced`](crate::ActorBuilder::traced).
    #[cfg(feature = "tracing")]
    pub fn traced(self, traced: bool) -> Self {
        self.settings(|settings| settings.traced = traced)
    }

    /// Makes the template.
    ///
    /// # Errors
    /// A capacity of 0, or one too large to be exact. A budget of no turns or no time.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{BuildError, Overflow, Template};
    ///
    /// let error = Template::<()>::builder().capacity(0, Overflow::Reject).build().unwrap_err();
    /// assert_eq!(error, BuildError::CapacityZero);
    /// ```
    pub fn build(self) -> Result<Template<S>, BuildError> {
        let TemplateBuilder { capacity, budget, plan } = self;
        let Limits { capacity, budget } = Limits::of(capacity, budget, &plan.settings)?;
        let settings = Settings { limit: capacity, budget, ..plan.settings };
        Ok(Template { pattern: Cell::pattern(SharedPlan { settings, ..plan }) })
    }

    fn hooks(mut self, set: impl FnOnce(&mut SharedHooks<S>)) -> Self {
        set(&mut self.plan.hooks);
        self
    }

    fn settings(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.plan.settings);
        self
    }
}

impl<S> fmt::Debug for TemplateBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemplateBuilder")
            .field("name", &self.plan.settings.name)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
