//! Closures by key.

mod all;
mod awaited;
mod entry_ref;
mod error;
mod run;
mod turn;

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Actor, AskError, AsyncTurn, Clock, EndCause, Executor, Limit, PanicPolicy, Reason};

pub(crate) use awaited::caught;
pub use error::{Cut, NotStarted, RunError};
pub use run::Run;

use crate::entry_ref::EntryRef;
use crate::limits::{Limits, Terms};
use crate::overrun::Listener;
use crate::registry::{
    AsKey, Entry, Fate, Found, Guard, KeySlot, KeyUse, Kind, Live, Look, Make, More, NamedSpawner,
    Own, Registry, Why, name_of,
};
use crate::table::Hashed as _;
use crate::user_code::{ignore, owning};
use run::{full, full_or_deadlock};
use turn::{Ended, Job};

/// Runs closures by key: those of one key run one at a time, in the order of the calls; keys are
/// independent.
///
/// Executing is holding: a closure that runs has its key to itself until it returns, and there is
/// nothing to unlock. A closure runs on the thread that calls if nothing of its key runs, else on
/// the one that is running that, unless the registry has an [executor](KeyedBuilder::executor).
///
/// A key may have a [state](Self::with_state), which its closures get. It is made when the first of
/// them runs, and dropped when the last use of the key ends; a closure that panics drops it, too.
/// Then the key is gone: there is no sweep and no timer, and a look-up never waits for a removal.
/// A registry may [keep its keys alive](KeyedBuilder::keep_alive) for a while.
///
/// Clones are the same registry. Two registries never share keys.
///
/// The `Eq` of a key, and its `Clone` in a [`snapshot`](Self::snapshot), must not use a registry:
/// such a call panics.
///
/// # Examples
/// ```
/// use std::thread;
/// use turnwise_locks::Keyed;
///
/// let visits = Keyed::with_state(|_: &&str| 0);
/// let key = visits.key("home")?; // keeps the state, as long as it is there
/// thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| visits.run("home", |n| *n += 1).unwrap());
///     }
/// });
/// assert_eq!(key.run(|n| *n)?, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Keyed<K, S = ()> {
    registry: Arc<Registry<K, S>>,
}

impl<K: Hash + Eq + Send + Sync + 'static> Keyed<K> {
    /// A registry of keys without a state.
    ///
    /// # Examples
    /// ```
    /// let keyed = turnwise_locks::Keyed::new();
    /// assert_eq!(keyed.run(7, |()| "alone")?, "alone");
    /// # Ok::<(), turnwise_locks::RunError<&str>>(())
    /// ```
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A registry with an executor, another clock, or keys that stay for a while.
    pub fn builder() -> KeyedBuilder<K> {
        let (make, more) = (Make::Plain(Box::new(|| ())), More::NONE);
        KeyedBuilder { make, executor: None, clock: None, names: None, more }
    }
}

impl<K: Hash + Eq + Send + Sync + 'static> Default for Keyed<K> {
    fn default() -> Self {
        Keyed::new()
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, S: Send + 'static> Keyed<K, S> {
    /// A registry whose keys have a state while they are used. `make` is called inside the turn
    /// that needs it: if it panics, that run has panicked.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Keyed;
    ///
    /// let logs = Keyed::with_state(|name: &String| vec![format!("log of {name}")]);
    /// assert_eq!(logs.run("a".to_string(), |log| log.len())?, 1);
    /// # Ok::<(), turnwise_locks::RunError<usize>>(())
    /// ```
    pub fn with_state(make: impl Fn(&K) -> S + Send + Sync + 'static) -> Self {
        Keyed::builder().state(make).build()
    }

    /// Runs a closure when its turn among those of its key has come, and waits for that; it may
    /// borrow the caller's locals. No limit. May block.
    ///
    /// # Errors
    /// It has not run: [`NotStarted::Deadlock`] at once inside a closure of the very key,
    /// [`NotStarted::WouldBlock`] on a pool's worker that must not wait, [`NotStarted::Full`] if as
    /// many runs wait as may, [`NotStarted::Closed`] after a [`shutdown`](Self::shutdown).
    ///
    /// # Panics
    /// With the closure's own panic, or that of what makes its state. The key stays usable.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Keyed, NotStarted};
    ///
    /// let keyed = Keyed::new();
    /// let mut log = vec![];
    /// keyed.run("a", |()| {
    ///     log.push("in a");
    ///     keyed.run("b", |()| log.push("in b")).unwrap(); // another key
    ///     let own = keyed.run("a", |()| ());
    ///     assert!(matches!(own, Err(NotStarted::Deadlock(_))));
    /// })?;
    /// assert_eq!(log, ["in a", "in b"]);
    /// # Ok::<(), NotStarted>(())
    /// ```
    pub fn run<R: Send>(
        &self,
        key: K,
        f: impl FnOnce(&mut S) -> R + Send,
    ) -> Result<R, NotStarted> {
        self.run_of(Own(key), f)
    }

    /// Runs a closure now or not at all: if nothing of its key runs or waits. It overtakes none.
    /// It may borrow the caller's locals.
    ///
    /// Of many such calls at the same time, exactly one runs. This never waits: a key that was
    /// idle, and is entered by another call between the look and the start, is busy. With an
    /// executor, each key is: another thread would have to come to the closure. A
    /// [`start`](Self::start) with a wait of zero gives it a millisecond to begin.
    ///
    /// # Errors
    /// [`NotStarted::Busy`], inside a closure of the very key, too; else as for
    /// [`run`](Self::run). The closure has certainly not run.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Keyed;
    ///
    /// let keyed = Keyed::new();
    /// assert_eq!(keyed.try_run("a", |()| 1).unwrap(), 1);
    /// ```
    pub fn try_run<R, F>(&self, key: K, f: F) -> Result<R, NotStarted>
    where
        R: Send,
        F: FnOnce(&mut S) -> R + Send,
    {
        let ended = self.try_now(Own(key), Terms::NONE, f)?;
        Ok(value_of(ended))
    }

    /// Takes a place among those of the key, in this call: the closure runs when its turn has come,
    /// whether anybody waits for that or not. What comes of it is a future, and something to wait
    /// for.
    ///
    /// It runs here and now if the key is idle, and this thread is inside no turn, and the registry
    /// has no executor.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::{Keyed, Limits, RunError};
    ///
    /// let keyed = Keyed::new();
    /// let run = keyed.start("a", Limits::wait(Duration::from_secs(1)), |()| 1);
    /// assert_eq!(run.wait()?, 1);
    /// # Ok::<(), RunError<i32>>(())
    /// ```
    pub fn start<R, F>(&self, key: K, limits: impl Into<Limits>, f: F) -> Run<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        self.start_of(Own(key), limits.into(), full, f)
    }

    /// [`start`](Self::start), and [`wait`](Run::wait): runs a closure when its turn has come,
    /// within limits. May block.
    ///
    /// # Errors
    /// What timed out certainly never runs. See [`RunError`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::{Keyed, Limits, NotStarted, RunError};
    ///
    /// let keyed = Keyed::new();
    /// keyed.run("a", |()| {
    ///     let nested = keyed.run_within("a", Limits::wait(Duration::from_secs(9)), |()| ());
    ///     let told = matches!(nested, Err(RunError::NotStarted(NotStarted::Deadlock(_))));
    ///     assert!(told); // at once
    /// })?;
    /// # Ok::<(), RunError<()>>(())
    /// ```
    pub fn run_within<R, F>(
        &self,
        key: K,
        limits: impl Into<Limits>,
        f: F,
    ) -> Result<R, RunError<R>>
    where
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        self.start_of(Own(key), limits.into(), full_or_deadlock, f).wait()
    }

    /// Runs an async closure when its turn among those of its key has come: as
    /// [`start`](Self::start), with a closure that may wait. It has its key to itself until its
    /// future is done, nothing else of the key runs meanwhile, and no thread is blocked: other keys
    /// go on. Lock-free, apart from a short lock.
    ///
    /// It runs here and now, up to its first await that is pending, where `start` would run its
    /// closure. It goes on, whether anybody polls the [`Run`] or not, in the registry's
    /// [executor](KeyedBuilder::executor), or without one in
    /// [`ThreadPool::global`](turnwise::ThreadPool::global); with the feature `tokio`, in the tokio
    /// runtime that it is woken from. Tokio's timers and sockets panic elsewhere ("there is no
    /// reactor running"). A `Tokio` executor has them in each poll. Without it, a closure that uses
    /// them awaits nothing that is woken outside of the runtime, such as the limit of another wait.
    /// One allocation carries closure, future and outcome.
    ///
    /// Its limits are those of `start`. **The lease cuts it**: at the await that it is at, when its
    /// lease is over, or comes to later, its future is dropped, and its outcome is
    /// [`RunError::Cut`]. The next run of the key starts after its destructors. The state is
    /// dropped with it, as after a panic: it may be half changed. One that is done later than its
    /// lease, in a poll that lasted beyond it, has [overrun](RunError::Overran) it. A lease needs
    /// [timers](KeyedBuilder::timers), from the first await that is pending on. Without a lease,
    /// one that cannot be woken any more, as all its wakers were dropped, is cut, too.
    ///
    /// Dropping the `Run` leaves it as it is; [`Run::cancel`] takes it back, if it has not begun,
    /// and [`Run::abort`] cuts it, if it has. With a wait of zero, it takes a place if nothing of
    /// its key runs or waits in this call. A run that waits for its own key is refused with
    /// [`NotStarted::Deadlock`], at the poll.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::promise;
    /// use turnwise_locks::{Cut, Keyed, Limits, RunError};
    ///
    /// let rates = Keyed::with_state(|_: &&str| 0);
    /// let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_millis(20));
    /// let (answer, never) = promise::<u32>(); // of a service that hangs
    /// let slow = rates.run_async("eur", limits, async move |rate| {
    ///     *rate = never.await.unwrap_or(1);
    /// });
    /// assert_eq!(rates.run("usd", |_| "another key")?, "another key");
    /// let next = rates.start("eur", Limits::NONE, |rate| *rate); // waits for its turn
    /// assert_eq!(slow.wait(), Err(RunError::Cut(Cut::Lease)));
    /// assert_eq!(next.wait()?, 0);
    /// # drop(answer);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn run_async<R, F>(&self, key: K, limits: impl Into<Limits>, f: F) -> Run<R>
    where
        R: Send + 'static,
        F: for<'a> AsyncTurn<&'a mut S, R, Future: Send> + Send + 'static,
    {
        self.run_async_of(Own(key), limits.into(), f)
    }

    /// Keeps a key in use: repeated runs need no look-up, and its state stays meanwhile.
    ///
    /// # Errors
    /// [`NotStarted::Closed`].
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Keyed;
    ///
    /// let keyed = Keyed::with_state(|_: &u32| 0);
    /// let seven = keyed.key(7)?;
    /// seven.run(|n| *n += 1)?;
    /// seven.run(|n| *n += 1)?;
    /// assert_eq!(keyed.run(7, |n| *n)?, 2);
    /// drop(seven);
    /// assert_eq!(keyed.run(7, |n| *n)?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(&self, key: K) -> Result<Key<K, S>, NotStarted> {
        self.key_of(Own(key))
    }

    /// A key by a borrowed form of it, `&str` of a `String`: it is cloned if it does not live, and
    /// else not. Nothing runs before a call of the [`EntryRef`].
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Keyed;
    ///
    /// let visits = Keyed::<String, u32>::with_state(|_| 0);
    /// let kept = visits.entry_ref("home").key()?;
    /// visits.entry_ref("home").run(|n| *n += 1)?; // no clone: it lives
    /// assert_eq!(kept.run(|n| *n)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entry_ref<'a, Q>(&'a self, key: &'a Q) -> EntryRef<'a, Self, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        EntryRef { all: self, key }
    }

    /// A look at a key, if it lives. Stale on return.
    ///
    /// # Examples
    /// ```
    /// let keyed = turnwise_locks::Keyed::new();
    /// assert!(keyed.info(&1).is_none());
    /// keyed.run(1, |()| assert_eq!(keyed.info(&1).unwrap().runs, 1))?;
    /// # Ok::<(), turnwise_locks::RunError<()>>(())
    /// ```
    pub fn info<Q>(&self, key: &Q) -> Option<KeyInfo>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let live = self.registry.live(key)?;
        Some(self.info_of(self.registry.hash(key), live))
    }

    /// The keys that live, in no order, each with a look at it: for a page of figures. Stale on
    /// return; keys that come or go meanwhile may be missed. Takes the short lock of one shard
    /// after the other, and clones keys inside.
    ///
    /// # Panics
    /// If the `Clone` of a key uses the registry.
    ///
    /// # Examples
    /// ```
    /// let keyed = turnwise_locks::Keyed::new();
    /// keyed.run("a", |()| {
    ///     let all = keyed.snapshot();
    ///     assert_eq!((all[0].0, all[0].1.runs, all.len()), ("a", 1, 1));
    /// })?;
    /// # Ok::<(), turnwise_locks::RunError<()>>(())
    /// ```
    pub fn snapshot(&self) -> Vec<(K, KeyInfo)>
    where
        K: Clone,
    {
        let look = |key: &K, entry: &Entry<K, S>| (key.clone(), entry.hash(), entry.live());
        let all = self.registry.look_at_all(look);
        all.into_iter().map(|(key, hash, live)| (key, self.info_of(hash, live))).collect()
    }

    /// The outcomes of its runs so far, if it is [counted](KeyedBuilder::counted). Takes the
    /// short lock of one shard after the other.
    pub fn stats(&self) -> Option<KeyedStats> {
        let fates = self.registry.fates()?;
        let of = |fate: Fate| fates[fate as usize];
        Some(KeyedStats {
            ran: of(Fate::Ran) + of(Fate::Overran),
            overran: of(Fate::Overran),
            panicked: of(Fate::Panicked),
            cut: of(Fate::Cut),
            not_started: of(Fate::NotStarted),
        })
    }

    fn info_of(&self, hash: u64, live: Live<K, S>) -> KeyInfo {
        // A mailbox counts what it has run until the end of a batch.
        let exact = self.registry.counts_each_run();
        let runs = if exact { live.runs as usize } else { live.actor.len() };
        let expected_wait = self.registry.expected(hash, runs);
        KeyInfo { runs, keys: live.keys as usize, expected_wait }
    }

    /// Takes no more runs, and waits until those that were accepted are over; after the limit it
    /// gives back those that have not begun: they certainly never run. May block.
    ///
    /// Inside a closure of a key, that key is not waited for.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::{Keyed, NotStarted};
    ///
    /// let keyed = Keyed::new();
    /// let report = keyed.shutdown(Duration::from_secs(1));
    /// assert!(report.is_complete());
    /// assert_eq!(keyed.run(1, |()| ()), Err(NotStarted::Closed));
    /// ```
    pub fn shutdown(&self, limit: impl Into<Limit>) -> KeyedReport {
        let limit = limit.into();
        let until = self.registry.until(limit);
        let mut report = KeyedReport::default();
        for actor in self.registry.close() {
            let ended = actor.ended().within(self.registry.left(until, limit));
            report.add(&actor, ended);
        }
        report
    }

    /// [`shutdown`](Self::shutdown) for a task: closes the registry in the call, and awaits the
    /// rest. The limit counts from the call. Dropped before it is ready, it leaves a registry that
    /// is closed, and runs what it had accepted.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::Keyed;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let keyed = Keyed::<u32>::new();
    /// let report = keyed.shutdown_async(Duration::from_secs(1)).await;
    /// assert!(report.is_complete());
    /// # });
    /// ```
    pub fn shutdown_async<L: Into<Limit>>(
        &self,
        limit: L,
    ) -> impl Future<Output = KeyedReport> + Send + use<K, S, L> {
        let (registry, limit) = (self.registry.clone(), limit.into());
        let until = registry.until(limit);
        let all = registry.close();
        async move {
            let mut report = KeyedReport::default();
            for actor in all {
                let left = registry.left(until, limit);
                let ended = actor.ended().within_async(left).await;
                report.add(&actor, ended);
            }
            report
        }
    }
}

impl<K: Hash + Eq + Ord + Send + Sync + 'static, S: Send + 'static> Keyed<K, S> {
    /// Runs a closure that has several keys to itself: all of them, or it does not run. The keys
    /// may come in any order, equal ones count once; the closure gets their states in the order of
    /// the keys' `Ord`. Two such calls never wait for each other in a circle. One deadline for
    /// all. May block.
    ///
    /// A key that was entered is held while the next ones are waited for. With a wait of zero, each
    /// key has to be idle when it is looked at.
    ///
    /// # Errors
    /// As for [`run_within`](Self::run_within). [`NotStarted::Deadlock`] at once inside a closure
    /// of one of the keys. [`NotStarted::TooManyKeys`] for more than 64 different ones.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Keyed, Limits};
    ///
    /// let accounts = Keyed::with_state(|_: &&str| 10);
    /// let (ada, bob) = (accounts.key("ada")?, accounts.key("bob")?);
    /// accounts.run_all(["bob", "ada", "bob"], Limits::NONE, |both| {
    ///     *both[0] -= 3; // ada
    ///     *both[1] += 3; // bob
    /// })?;
    /// assert_eq!((ada.run(|sum| *sum)?, bob.run(|sum| *sum)?), (7, 13));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_all<R, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        limits: impl Into<Limits>,
        f: F,
    ) -> Result<R, RunError<R>>
    where
        R: Send + 'static,
        F: FnOnce(&mut [&mut S]) -> R + Send + 'static,
    {
        all::run_all(self, keys, limits, f)
    }
}

/// Calls, by a key that is given away or borrowed.
impl<K: Hash + Eq + Send + Sync + 'static, S: Send + 'static> Keyed<K, S> {
    /// [`run`](Self::run).
    fn run_of<A, R>(&self, key: A, f: impl FnOnce(&mut S) -> R + Send) -> Result<R, NotStarted>
    where
        A: AsKey<K>,
        R: Send,
    {
        let (f, found) = owning(f, |_| self.registry.add_use(key, Kind::Run, full_or_deadlock));
        let (place, actor) = found?;
        run_on(&actor, KeyUse::new(&*self.registry, place, Kind::Run), f)
    }

    /// [`try_run`](Self::try_run), with terms.
    fn try_now<A, R, F>(&self, key: A, terms: Terms, f: F) -> Result<Ended<R>, NotStarted>
    where
        A: AsKey<K>,
        R: Send,
        F: FnOnce(&mut S) -> R + Send,
    {
        let registry = &*self.registry;
        if registry.elsewhere {
            ignore(|| drop(key));
            registry.count_refused();
            let why = match registry.is_closed() {
                true => NotStarted::Closed,
                false => NotStarted::Busy { key: None },
            };
            return Err(why);
        }
        let look = |_: &mut F| owning(key, |key| registry.look(key));
        let (f, (key, looked)) = owning(f, look);
        if let Ok(Look::Vacant(hash)) = looked {
            let (f, key) = owning(f, |_| key.own());
            return self.try_vacant(hash, key, terms, f);
        }
        // Before there is a result: a drop that panics would leak that.
        ignore(|| drop(key));
        match looked {
            Ok(Look::Idle(found)) => try_on(registry, found, terms, f),
            Err(reason) => Err(reason),
            Ok(Look::Vacant(_)) => unreachable!("its key is there still"),
        }
    }

    /// [`try_now`](Self::try_now) of an unused key.
    fn try_vacant<R, F>(
        &self,
        hash: u64,
        key: K,
        terms: Terms,
        f: F,
    ) -> Result<Ended<R>, NotStarted>
    where
        R: Send,
        F: FnOnce(&mut S) -> R + Send,
    {
        let registry = &*self.registry;
        let ((key, f), named) = owning((key, f), |(key, _)| registry.named(key));
        // A mailbox that is no key's yet has nothing to wait for. Inside its turn it becomes the
        // key's, so this turn is the key's first, and none gets in between.
        let actor = registry.unpublished(named);
        let same = actor.clone();
        let enter = |taken: &mut Option<F>| {
            actor.with(move |slot| {
                let place = registry.publish(hash, key, slot, same)?;
                let guard = KeyUse::new(registry, place, Kind::Run);
                Ok(perform_taken(taken, guard, slot, terms))
            })
        };
        let (f, tried) = owning(Some(f), enter);
        drop(f);
        tried.unwrap_or_else(|error| Err(not_started(error)))
    }

    /// The terms of a call that is made now, and its key, whose use is counted.
    fn enter<A>(
        &self,
        key: A,
        limits: Limits,
        full: Why<K, S>,
    ) -> (Terms, Result<Found<K, S>, NotStarted>)
    where
        A: AsKey<K>,
    {
        let registry = &self.registry;
        let (key, terms) = owning(key, |_| registry.terms(limits));
        let found = match limits.is_immediate() {
            true => registry.add_use_if_idle(key),
            false => registry.add_use(key, Kind::Run, full),
        };
        (terms, found)
    }

    /// [`start`](Self::start): `full` is why it is refused if as many runs wait as may.
    fn start_of<A, R, F>(&self, key: A, limits: Limits, full: Why<K, S>, f: F) -> Run<R>
    where
        A: AsKey<K>,
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        let registry = &self.registry;
        if limits.is_immediate() && !registry.elsewhere {
            return Run::over(match self.try_now(key, limits.immediate(), f) {
                Ok(ended) => ended.outcome(),
                Err(refused) => Err(refused.into()),
            });
        }
        let (f, (terms, found)) = owning(f, |_| self.enter(key, limits, full));
        match found {
            Ok((place, actor)) => {
                let guard = KeyUse::new(registry.clone(), place, Kind::Run);
                match registry.refused(place, &actor, terms) {
                    Some(why) => Run::over(Err(why.into())),
                    None => start_on(registry, actor, guard, terms, f),
                }
            }
            Err(reason) => Run::over(Err(reason.into())),
        }
    }

    /// [`run_async`](Self::run_async).
    fn run_async_of<A, R, F>(&self, key: A, limits: Limits, f: F) -> Run<R>
    where
        A: AsKey<K>,
        R: Send + 'static,
        F: for<'a> AsyncTurn<&'a mut S, R, Future: Send> + Send + 'static,
    {
        let registry = &self.registry;
        let (f, (terms, found)) = owning(f, |_| self.enter(key, limits, full));
        let (place, actor) = match found {
            Ok(found) => found,
            Err(reason) => return Run::over(Err(reason.into())),
        };
        let guard = KeyUse::new(registry.clone(), place, Kind::Run);
        match registry.refused(place, &actor, terms) {
            Some(why) => Run::over(Err(why.into())),
            None => run_async_on(registry, actor, guard, terms, f),
        }
    }

    /// [`key`](Self::key).
    fn key_of<A>(&self, key: A) -> Result<Key<K, S>, NotStarted>
    where
        A: AsKey<K>,
    {
        let (place, actor) = self.registry.add_use(key, Kind::Key, full)?;
        let key_use = Arc::new(KeyUse::new(self.registry.clone(), place, Kind::Key));
        Ok(Key { key_use, actor })
    }
}

impl<K, S> Keyed<K, S> {
    /// The number of live keys: those that are used. Stale on return.
    ///
    /// # Examples
    /// ```
    /// let keyed = turnwise_locks::Keyed::new();
    /// keyed.run("a", |()| assert_eq!(keyed.len(), 1))?;
    /// assert_eq!(keyed.len(), 0);
    /// # Ok::<(), turnwise_locks::RunError<()>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.registry.len()
    }

    /// True if no key lives. Stale on return.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, S> Clone for Keyed<K, S> {
    fn clone(&self) -> Self {
        Keyed { registry: self.registry.clone() }
    }
}

impl<K, S> fmt::Debug for Keyed<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").finish_non_exhaustive()
    }
}

/// A plain run on a mailbox.
fn run_on<K, S, G, R>(
    actor: &Actor<KeySlot<K, S>>,
    guard: G,
    f: impl FnOnce(&mut S) -> R + Send,
) -> Result<R, NotStarted>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    G: Guard<K, S> + Send,
    R: Send,
{
    let job = Job { f, guard };
    match actor.with(move |slot| job.perform_plain(slot)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(payload)) => resume_unwind(payload),
        Err(AskError::Refused(reason, _)) => Err(reason.into()),
        // It is borrowed, so it has not begun: its end would be waited for.
        Err(_) => Err(NotStarted::Closed),
    }
}

/// A run on the mailbox of a key that was found idle, and whose use is counted.
fn try_on<K, S, R, F>(
    registry: &Registry<K, S>,
    (place, actor): Found<K, S>,
    terms: Terms,
    f: F,
) -> Result<Ended<R>, NotStarted>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    R: Send,
    F: FnOnce(&mut S) -> R + Send,
{
    let guard = KeyUse::new(registry, place, Kind::Run);
    let mut f = Some(f);
    let taken = &mut f;
    let turn = move |slot: &mut KeySlot<K, S>| perform_taken(taken, guard, slot, terms);
    // One that has entered since it was found idle is not waited for: this may be inside a turn
    // that it waits for. Nor is an executor.
    actor.try_with(turn).map_err(|error| not_here(error.into_reason()).about(|| name_of(&actor)))
}

/// A turn whose closure stays with the caller until then.
fn perform_taken<K, S, G, R, F>(
    f: &mut Option<F>,
    guard: G,
    slot: &mut KeySlot<K, S>,
    terms: Terms,
) -> Ended<R>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    G: Guard<K, S>,
    F: FnOnce(&mut S) -> R,
{
    match f.take() {
        Some(f) => Job { f, guard }.perform(slot, terms),
        None => unreachable!("a turn comes once"),
    }
}

/// The reason that a mailbox has not run a closure that was waited for.
fn not_started(error: AskError) -> NotStarted {
    match error {
        AskError::Refused(reason, _) => not_here(reason),
        _ => NotStarted::Closed,
    }
}

/// The reason that a mailbox has not run a closure now.
fn not_here(reason: Reason) -> NotStarted {
    match reason {
        Reason::Busy | Reason::Deadlock(_) | Reason::HasExecutor => NotStarted::Busy { key: None },
        reason => reason.into(),
    }
}

/// The value of a run without terms.
fn value_of<R>(ended: Ended<R>) -> R {
    match ended.felt() {
        Ok(value) => value,
        Err(error) => unreachable!("without limits: {error}"),
    }
}

/// Leaves a closure in a mailbox.
fn start_on<K, S, G, R, F>(
    registry: &Registry<K, S>,
    actor: Actor<KeySlot<K, S>>,
    guard: G,
    terms: Terms,
    f: F,
) -> Run<R>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    G: Guard<K, S> + Send + 'static,
    R: Send + 'static,
    F: FnOnce(&mut S) -> R + Send + 'static,
{
    let job = Job { f, guard };
    let reply = match terms.are_limits() {
        true => actor.call(move |slot| job.perform(slot, terms)),
        // The message is smaller, and what it does is shorter.
        false => actor.call(move |slot| match job.perform_plain(slot) {
            Ok(value) => Ended::Done(value),
            Err(payload) => Ended::Panicked(payload),
        }),
    };
    Run::open(reply, actor, terms, registry)
}

/// Leaves an async closure in a mailbox.
fn run_async_on<K, S, G, R, F>(
    registry: &Registry<K, S>,
    actor: Actor<KeySlot<K, S>>,
    guard: G,
    terms: Terms,
    f: F,
) -> Run<R>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    G: Guard<K, S> + Send + 'static,
    R: Send + 'static,
    F: for<'a> AsyncTurn<&'a mut S, R, Future: Send> + Send + 'static,
{
    let job = Job { f, guard };
    let turn = async move |slot: &mut KeySlot<K, S>| job.perform_async(slot, terms).await;
    let (reply, handle) = actor.run_abortable(turn);
    Run::open(reply, actor, terms, registry).abortable(handle)
}

type SharedUse<K, S> = KeyUse<Arc<Registry<K, S>>>;

/// A key that is kept in use ([`Keyed::key`]): its runs need no look-up, and its state stays.
/// Clones are the same use.
///
/// If it is the last use of its key, dropping it drops the key's state, inside a turn of the key.
pub struct Key<K: Send + Sync + 'static, S: Send + 'static = ()> {
    key_use: Arc<SharedUse<K, S>>,
    actor: Actor<KeySlot<K, S>>,
}

impl<K: Send + Sync + 'static, S: Send + 'static> Key<K, S> {
    /// As [`Keyed::run`].
    ///
    /// # Errors
    /// As [`Keyed::run`].
    ///
    /// # Panics
    /// As [`Keyed::run`].
    pub fn run<R: Send>(&self, f: impl FnOnce(&mut S) -> R + Send) -> Result<R, NotStarted> {
        match self.counted(full_or_deadlock)? {
            Some(key_use) => run_on(&self.actor, key_use, f),
            None => run_on(&self.actor, &*self.key_use, f),
        }
    }

    /// A use for one run, if those of the registry are counted.
    fn counted(&self, full: Why<K, S>) -> Result<Option<SharedUse<K, S>>, NotStarted> {
        let registry = self.key_use.access();
        let counted = registry.count(self.key_use.place(), full)?;
        Ok(counted.map(|place| KeyUse::new(registry.clone(), place, Kind::Run)))
    }

    /// As [`Keyed::try_run`]. After a run in another thread, its result may be there a moment
    /// before that thread lets go of a key that it used: until then the key is busy.
    ///
    /// # Errors
    /// As [`Keyed::try_run`].
    ///
    /// # Panics
    /// As [`Keyed::run`].
    ///
    /// # Examples
    /// ```
    /// let key = turnwise_locks::Keyed::new().key(1)?;
    /// assert_eq!(key.try_run(|()| 2).unwrap(), 2);
    /// key.run(|()| assert!(key.try_run(|()| 2).is_err())).unwrap();
    /// # Ok::<(), turnwise_locks::NotStarted>(())
    /// ```
    pub fn try_run<R, F>(&self, f: F) -> Result<R, NotStarted>
    where
        R: Send,
        F: FnOnce(&mut S) -> R + Send,
    {
        let registry = (*self.key_use).registry();
        match registry.reserve(self.key_use.place()) {
            Ok(found) => Ok(value_of(try_on(registry, found, Terms::NONE, f)?)),
            Err(reason) => Err(reason),
        }
    }

    /// As [`Keyed::start`].
    pub fn start<R, F>(&self, limits: impl Into<Limits>, f: F) -> Run<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        self.start_or(limits.into(), full, f)
    }

    /// [`start`](Self::start): `full` is why it is refused if as many runs wait as may.
    fn start_or<R, F>(&self, limits: Limits, full: Why<K, S>, f: F) -> Run<R>
    where
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        let registry = (*self.key_use).registry();
        let (f, terms) = owning(f, |_| registry.terms(limits));
        if !limits.is_immediate() {
            if let Some(why) = registry.refused(self.key_use.place(), &self.actor, terms) {
                return Run::over(Err(why.into()));
            }
            let actor = self.actor.clone();
            return match self.counted(full) {
                Ok(Some(key_use)) => start_on(registry, actor, key_use, terms, f),
                Ok(None) => start_on(registry, actor, self.key_use.clone(), terms, f),
                Err(why) => Run::over(Err(why.into())),
            };
        }
        let found = match registry.reserve(self.key_use.place()) {
            Ok(found) => found,
            Err(reason) => return Run::over(Err(reason.into())),
        };
        if registry.elsewhere {
            let (place, actor) = found;
            let guard = KeyUse::new(self.key_use.access().clone(), place, Kind::Run);
            return start_on(registry, actor, guard, terms, f);
        }
        Run::over(match try_on(registry, found, terms, f) {
            Ok(ended) => ended.outcome(),
            Err(refused) => Err(refused.into()),
        })
    }

    /// As [`Keyed::run_async`].
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Keyed, Limits};
    ///
    /// let keyed = Keyed::with_state(|_: &u32| 0);
    /// let one = keyed.key(1)?;
    /// let run = one.run_async(Limits::NONE, async |n| {
    ///     *n += 1;
    ///     *n
    /// });
    /// assert_eq!(run.wait()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_async<R, F>(&self, limits: impl Into<Limits>, f: F) -> Run<R>
    where
        R: Send + 'static,
        F: for<'a> AsyncTurn<&'a mut S, R, Future: Send> + Send + 'static,
    {
        let limits = limits.into();
        let registry = (*self.key_use).registry();
        let (f, terms) = owning(f, |_| registry.terms(limits));
        if !limits.is_immediate() {
            if let Some(why) = registry.refused(self.key_use.place(), &self.actor, terms) {
                return Run::over(Err(why.into()));
            }
            let actor = self.actor.clone();
            return match self.counted(full) {
                Ok(Some(key_use)) => run_async_on(registry, actor, key_use, terms, f),
                Ok(None) => run_async_on(registry, actor, self.key_use.clone(), terms, f),
                Err(why) => Run::over(Err(why.into())),
            };
        }
        match registry.reserve(self.key_use.place()) {
            Ok((place, actor)) => {
                let guard = KeyUse::new(self.key_use.access().clone(), place, Kind::Run);
                run_async_on(registry, actor, guard, terms, f)
            }
            Err(reason) => Run::over(Err(reason.into())),
        }
    }

    /// As [`Keyed::run_within`].
    ///
    /// # Errors
    /// As [`Keyed::run_within`].
    pub fn run_within<R, F>(&self, limits: impl Into<Limits>, f: F) -> Result<R, RunError<R>>
    where
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        self.start_or(limits.into(), full_or_deadlock, f).wait()
    }
}

impl<K: Send + Sync + 'static, S: Send + 'static> Clone for Key<K, S> {
    fn clone(&self) -> Self {
        Key { key_use: self.key_use.clone(), actor: self.actor.clone() }
    }
}

impl<K: Send + Sync + 'static, S: Send + 'static> fmt::Debug for Key<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("runs", &self.actor.len()).finish_non_exhaustive()
    }
}

/// A look at a key that lives ([`Keyed::info`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyInfo {
    /// Closures that run or wait: exact in a registry with a bound or counters, else an upper
    /// bound, late by at most a batch.
    pub runs: usize,
    /// The number of [`Key`]s that keep it in use; clones of one are one. The end of its state
    /// counts as one.
    pub keys: usize,
    /// The time that a run started now would wait, by what is known of the key: nothing, before
    /// a call has asked for that ([`Limits::refuse_early`]).
    pub expected_wait: Duration,
}

/// The outcomes of the runs of a registry, counted ([`Keyed::stats`]).
///
/// A run is in one of `ran`, `panicked`, `cut` and `not_started` when it gives its place back, a
/// moment after its outcome is known or, of one that waited in vain, when its turn comes. A run of
/// several keys counts at each of them that it came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyedStats {
    /// The number that came to their end.
    pub ran: u64,
    /// Those of them that took longer than their lease.
    pub overran: u64,
    /// The number that panicked; or the maker of a state did, before them.
    pub panicked: u64,
    /// The number that were [cut](RunError::Cut) at an await.
    pub cut: u64,
    /// The number that never ran: refused, late, cancelled or given back.
    pub not_started: u64,
}

/// The keys that lived when a registry was shut down: each is in one of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyedReport {
    /// The number that have run all that they had accepted.
    pub ended: usize,
    /// The number with runs that did not begin in time, and never will.
    pub stopped: usize,
    /// The number still inside a closure, which ends in its own time; or they may not be waited for
    /// on this thread.
    pub running: usize,
}

impl KeyedReport {
    /// One more key, whose end was waited for.
    fn add<K, S>(&mut self, actor: &Actor<KeySlot<K, S>>, ended: Result<bool, Reason>)
    where
        K: Send + Sync + 'static,
        S: Send + 'static,
    {
        match ended {
            Ok(true) => self.ended += 1,
            Ok(false) => {
                actor.stop();
                match actor.ended().within(Limit::Immediate) {
                    Ok(true) => self.stopped += 1,
                    _ => self.running += 1,
                }
            }
            Err(_) => self.running += 1,
        }
    }

    /// True if nothing is running any more.
    pub fn is_complete(&self) -> bool {
        self.running == 0
    }
}

/// Describes a registry before it is made: see [`Keyed::builder`].
#[must_use = "nothing is made before `build`"]
pub struct KeyedBuilder<K, S = ()> {
    make: Make<K, S>,
    executor: Option<Arc<dyn Executor>>,
    clock: Option<Arc<dyn Clock>>,
    names: Option<NameOf<K>>,
    more: More<K, S>,
}

type NameOf<K> = Box<dyn Fn(&K) -> String + Send + Sync>;

impl<K: Hash + Eq + Send + Sync + 'static, S: Send + 'static> KeyedBuilder<K, S> {
    /// Its keys have a state: see [`Keyed::with_state`].
    ///
    /// # Panics
    /// If it comes after [`on_end`](Self::on_end), whose type is that of the state.
    #[track_caller]
    pub fn state<T>(self, make: impl Fn(&K) -> T + Send + Sync + 'static) -> KeyedBuilder<K, T> {
        self.made(Make::Of(Box::new(make)))
    }

    /// Its keys have a state that begins as the default of its type, whatever the key. As nothing
    /// looks at the key then, a key costs one allocation less than with [`state`](Self::state).
    ///
    /// # Panics
    /// As [`state`](Self::state).
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Keyed;
    ///
    /// let logs = Keyed::builder().default_state::<Vec<u32>>().build();
    /// let key = logs.key("a")?;
    /// key.run(|log| log.push(7))?;
    /// assert_eq!(key.run(|log| log.len())?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn default_state<T: Default + 'static>(self) -> KeyedBuilder<K, T> {
        self.made(Make::Plain(Box::new(T::default)))
    }

    #[track_caller]
    fn made<T>(self, make: Make<K, T>) -> KeyedBuilder<K, T> {
        let KeyedBuilder { executor, clock, names, more, .. } = self;
        let More { timers, keep_alive, listener, on_end, capacity, counts } = more;
        assert!(on_end.is_none(), "the state comes before its end hook");
        let more = More { timers, keep_alive, listener, on_end: None, capacity, counts };
        KeyedBuilder { make, executor, clock, names, more }
    }

    /// Runs the closures in this executor, and nowhere else.
    ///
    /// # Examples
    /// ```
    /// use turnwise::ThreadPool;
    /// use turnwise_locks::{Keyed, Limits};
    ///
    /// let pool = ThreadPool::builder().threads(2).build()?;
    /// let keyed = Keyed::builder().executor(pool.handle()).build();
    /// let run = keyed.start("a", Limits::NONE, |()| 2); // on the pool
    /// assert_eq!(run.wait()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn executor(self, executor: impl Executor + 'static) -> Self {
        KeyedBuilder { executor: Some(Arc::new(executor)), ..self }
    }

    /// The clock that limits and leases are measured on; without this, the system's monotonic one.
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        KeyedBuilder { clock: Some(Arc::new(clock)), ..self }
    }

    /// The timers that wake what waits for a limit, end what was kept alive, and tell of overruns.
    /// Their clock is the registry's, too, whatever [`clock`](Self::clock) says.
    ///
    /// Without this, they are those [of the clock](Timers::of), or [the process's](Timers::global).
    /// Their thread starts with the first of: a [`Run`] with a limit that is awaited and is not
    /// over at once, an async closure with a lease that waits, a closure with a lease beside a
    /// [listener for overruns](Self::on_overrun), an idle key that is [kept
    /// alive](Self::keep_alive).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::VirtualClock;
    /// use turnwise::time::Timers;
    /// use turnwise_locks::Keyed;
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// let keyed = Keyed::builder().timers(timers.clone()).build();
    /// keyed.run(1, |()| ())?;
    /// assert!(timers.is_empty()); // nothing needs them
    /// # Ok::<(), turnwise_locks::RunError<()>>(())
    /// ```
    pub fn timers(self, timers: Timers) -> Self {
        KeyedBuilder { more: More { timers: Some(timers), ..self.more }, ..self }
    }

    /// A key and its state stay for so long after its last use; a use meanwhile begins anew. Zero
    /// is not at all, as without this.
    ///
    /// Each use of a key that is the last for now reads the clock. One timer is armed for the keys
    /// of a shard that are idle, and none while there is none. What it leads to is a turn in which
    /// the state is dropped, on the process's pool or the executor of the registry, never on the
    /// thread of the timers. A [`shutdown`](Keyed::shutdown), and the end of the registry, end all
    /// that is kept at once.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::Keyed;
    ///
    /// let keyed = Keyed::builder()
    ///     .default_state::<u32>()
    ///     .keep_alive(Duration::from_secs(60))
    ///     .build();
    /// keyed.run("a", |n| *n += 1)?;
    /// assert_eq!(keyed.run("a", |n| *n)?, 1);
    /// assert_eq!(keyed.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep_alive(self, time: Duration) -> Self {
        KeyedBuilder { more: More { keep_alive: Some(time), ..self.more }, ..self }
    }

    /// Bounds how many runs of a key may wait beside the one that runs: one more is refused at once
    /// with [`NotStarted::Full`]; with [`NotStarted::Deadlock`], if it would wait inside a closure
    /// that the key waits for. Zero lets none wait. Keys are bounded each for itself.
    ///
    /// Exact, also with calls from many threads. A run that is cancelled gives its place back at
    /// once; one whose wait is over, when its turn comes. Runs of a [`Key`] take the short
    /// lock of a shard then.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Keyed, Limits, NotStarted, RunError};
    ///
    /// let orders = Keyed::builder().capacity(1).build();
    /// orders.run("ada", |()| {
    ///     let first = orders.start("ada", Limits::NONE, |()| ());
    ///     let second = orders.start("ada", Limits::NONE, |()| ()).wait();
    ///     assert_eq!(second, Err(RunError::NotStarted(NotStarted::Full { key: None })));
    ///     assert!(orders.run("bob", |()| ()).is_ok());
    ///     drop(first);
    /// })?;
    /// # Ok::<(), RunError<()>>(())
    /// ```
    pub fn capacity(self, waiting: u32) -> Self {
        KeyedBuilder { more: More { capacity: Some(waiting), ..self.more }, ..self }
    }

    /// Counts the outcomes of runs: [`Keyed::stats`]. Runs of a [`Key`] take the short lock
    /// of a shard then; others count under the lock that they take anyway.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::Keyed;
    ///
    /// let keyed = Keyed::builder().counted(true).build();
    /// keyed.run("a", |()| assert!(keyed.try_run("a", |()| ()).is_err()))?;
    /// let stats = keyed.stats().unwrap();
    /// assert_eq!((stats.ran, stats.not_started), (1, 1));
    /// # Ok::<(), turnwise_locks::RunError<()>>(())
    /// ```
    pub fn counted(self, counted: bool) -> Self {
        KeyedBuilder { more: More { counts: counted, ..self.more }, ..self }
    }

    /// Gives keys names, by which errors and events call them: a [`NotStarted`] has the name of its
    /// key, and one of a deadlock says which keys wait for each other. Without this, that says
    /// their types.
    ///
    /// The function is called once for each key that comes into use, outside of all locks.
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Keyed, NotStarted};
    ///
    /// let orders = Keyed::builder().names(|order: &u32| format!("order {order}")).build();
    /// orders.run(7, |()| {
    ///     let refused = orders.run(7, |()| ()).unwrap_err();
    ///     let NotStarted::Deadlock(circle) = refused else { unreachable!() };
    ///     assert_eq!(circle.to_string(), "`order 7` waits for itself");
    /// })?;
    /// # Ok::<(), NotStarted>(())
    /// ```
    pub fn names(self, name: impl Fn(&K) -> String + Send + Sync + 'static) -> Self {
        KeyedBuilder { names: Some(Box::new(name)), ..self }
    }

    /// Sets a listener for closures that take longer than their lease: called once, when it is
    /// over, while the closure still runs and has its key to itself. A closure of
    /// [several keys](Keyed::run_all) counts for each of them. An async closure that is
    /// [cut](RunError::Cut) at its lease counts, too.
    ///
    /// It is called in turns of a mailbox of its own, one call at a time, on the process's pool:
    /// not on the thread of the timers, and not on a worker of the registry's executor, which may
    /// all be inside such closures. Its panic is ignored.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use turnwise_locks::{Keyed, Limits};
    ///
    /// let (tell, told) = mpsc::channel();
    /// let keyed = Keyed::builder()
    ///     .on_overrun(move |key: &&str, lease| tell.send((*key, lease)).unwrap())
    ///     .build();
    /// let lease = Duration::from_millis(5);
    /// let overran = keyed.run_within("a", Limits::NONE.lease(lease), move |()| {
    ///     told.recv().unwrap() // while this runs
    /// });
    /// let told = match overran {
    ///     Err(turnwise_locks::RunError::Overran { value, .. }) => value,
    ///     _ => unreachable!(),
    /// };
    /// assert_eq!(told, ("a", lease));
    /// ```
    pub fn on_overrun(self, tell: impl Fn(&K, Duration) + Send + Sync + 'static) -> Self {
        KeyedBuilder { more: More { listener: Some(Listener::new(tell)), ..self.more }, ..self }
    }

    /// Called once for each state of a key, when that ends: with the key, the state, and the cause.
    ///
    /// It ends [dropped](EndCause::Dropped) when the last use of the key does, or the time that it
    /// was [kept alive](Self::keep_alive) for; [closed](EndCause::Closed) after a
    /// [`shutdown`](Keyed::shutdown). [Stopped](EndCause::Stopped), it may be half changed: a
    /// closure has panicked, or was [cut](RunError::Cut), which counts as requested; or the
    /// executor is gone.
    ///
    /// It is called in a turn of the key, so nothing else of the key runs meanwhile: as the last
    /// part of the last use, on the thread that ran that. A run that comes by then waits, and gets
    /// a fresh state. A state that is kept when the registry is shut down or dropped ends on that
    /// thread, or after the turn that the thread is inside of, and no run of the key follows it. A
    /// key that has never run has no state, and so no end.
    ///
    /// A panic in it is caught and ignored. As a closure of the key, it may use other keys, must
    /// not wait for its own ([`NotStarted::Deadlock`]), and may start a run of that, which comes
    /// after it. A hook that holds a `Keyed` of its registry keeps the registry.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use turnwise::EndCause;
    /// use turnwise_locks::Keyed;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let visits = Keyed::builder()
    ///     .state(|_: &&str| 0)
    ///     .on_end(move |key, visits, cause| tx.send((*key, visits, cause)).unwrap())
    ///     .build();
    /// let home = visits.key("home")?;
    /// home.run(|n| *n += 1)?;
    /// home.run(|n| *n += 1)?;
    /// drop(home); // its last use
    /// assert_eq!(rx.recv()?, ("home", 2, EndCause::Dropped));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_end(self, hook: impl Fn(&K, S, EndCause) + Send + Sync + 'static) -> Self {
        KeyedBuilder { more: More { on_end: Some(Arc::new(hook)), ..self.more }, ..self }
    }

    /// Makes the registry.
    pub fn build(self) -> Keyed<K, S> {
        let KeyedBuilder { make, executor, clock, names, mut more } = self;
        let clock = more.timers.as_ref().map(|timers| timers.clock().clone()).or(clock);
        // They are to stay: nothing fires any more whose timers are gone.
        more.timers = more.timers.or_else(|| clock.as_ref().map(Timers::of));
        let elsewhere = executor.is_some();
        let (its_clock, on_end) = (clock.clone(), more.on_end.clone());
        let plain = !elsewhere && clock.is_none() && on_end.is_none();
        let spawner = move |name: Option<String>| {
            let mut spawner = Actor::builder().panic_policy(PanicPolicy::Resume);
            if let Some(hook) = on_end.clone() {
                let end = move |mut slot: KeySlot<K, S>, cause| slot.end(&*hook, cause);
                spawner = spawner.on_end(end);
            }
            if let Some(name) = name {
                spawner = spawner.name(name);
            }
            if let Some(executor) = &executor {
                spawner = spawner.executor(executor.clone());
            }
            if let Some(clock) = &its_clock {
                spawner = spawner.clock(clock.clone());
            }
            spawner.build().unwrap_or_else(|error| unreachable!("no limit is a good one: {error}"))
        };
        let unnamed = (!plain).then(|| spawner(None));
        let named = names
            .map(|name| -> NamedSpawner<K, S> { Box::new(move |key| spawner(Some(name(key)))) });
        Keyed { registry: Registry::with(make, unnamed, clock, elsewhere, (more, named)) }
    }
}

impl<K, S> fmt::Debug for KeyedBuilder<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBuilder").finish_non_exhaustive()
    }
}
