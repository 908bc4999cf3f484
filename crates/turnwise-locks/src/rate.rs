//! Rates by key: [`RateLimits`].
//!
//! Requests go in the order of the calls, and none is woken in vain. This is the generic cell rate
//! algorithm (ATM Forum, Traffic Management 4.0, 1996; ITU-T I.371).

// Of each key that was used lately, a map has the time at which all its permits are there again. A
// request moves that on by what it takes, and may go as soon as no more than a burst is missing.
//
// That time is in nanoseconds, for it may be later than a `Duration` can say: a burst of 2^32
// permits, each of which takes as long as the longest `Duration`, is below 2^127 of them.

use std::borrow::Borrow;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use turnwise::time::{Sleep, Timers};
use turnwise::{Actor, Limit, Reason, WaitError};

use crate::entry_ref::EntryRef;
use crate::limits::TimeSource;
use crate::map::{Entries, Map, MapEntry};
use crate::registry::{AsKey, Own, comparing};
use crate::user_code::{ignore, owning};

/// The number of permits that a key gets in a time, and at once.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_locks::rate::Rate;
///
/// let ten_a_second = Rate::new(10, Duration::from_secs(1))?; // and ten at once
/// let smooth = ten_a_second.burst(1)?; // one each 100 ms
/// # Ok::<(), turnwise_locks::rate::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// From one permit to the next.
    period: Duration,
    burst: u32,
}

/// The error of a request that got no permits: it has taken none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// They are there after this time, which is longer than the request was to wait.
    Expected {
        /// The time, from the call on.
        wait: Duration,
    },
    /// The request is for more permits than there are at once.
    TooMany {
        /// The number that there are at once.
        burst: u32,
    },
    /// A request, or a rate, is for no permits, or a rate for no time.
    Zero,
    /// Waiting was refused: this thread is a pool's worker, and no thread could take its place.
    WouldBlock,
    /// The outcome was taken by an earlier poll.
    Taken,
}

impl Rate {
    /// This many permits in this time, all of which may be taken at once.
    ///
    /// # Errors
    /// [`RateError::Zero`].
    pub fn new(permits: u32, per: Duration) -> Result<Rate, RateError> {
        if permits == 0 || per.is_zero() {
            return Err(RateError::Zero);
        }
        // Rounded up: never faster.
        let period = nanos(per.as_nanos().div_ceil(u128::from(permits)));
        Ok(Rate { period, burst: permits })
    }

    /// At most this many permits are taken at once, whatever was left before.
    ///
    /// # Errors
    /// [`RateError::Zero`].
    pub fn burst(self, permits: u32) -> Result<Rate, RateError> {
        if permits == 0 { Err(RateError::Zero) } else { Ok(Rate { burst: permits, ..self }) }
    }

    /// The time in which this many permits come, in nanoseconds.
    fn time(self, permits: u32) -> u128 {
        self.period.as_nanos() * u128::from(permits)
    }
}

fn nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % 1_000_000_000) as u32)
}

/// Limits how often something is done for each key: calls of a tenant, mails to an address.
///
/// Each key has its own [`Rate`]. Requests of a key go in the order of the calls, and each knows in
/// the call when it may go; so one that would wait for too long is refused at once, and takes
/// nothing. Keys whose burst is whole again are forgotten when the number of keys has doubled.
/// Clones are the same limits.
///
/// Never more than a burst is let through at once, nor more than the rate says in any time after
/// that.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_locks::rate::{Rate, RateError, RateLimits};
///
/// let calls = RateLimits::new(Rate::new(2, Duration::from_secs(60))?); // of each tenant
/// calls.try_acquire("ada", 1)?;
/// calls.try_acquire("ada", 1)?;
/// let Err(RateError::Expected { wait }) = calls.try_acquire("ada", 1) else { unreachable!() };
/// assert!(wait <= Duration::from_secs(30)); // `Retry-After`
/// calls.try_acquire("grace", 2)?;
/// # Ok::<(), RateError>(())
/// ```
pub struct RateLimits<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    rate: Rate,
    /// The moment at which all permits of a key are there again, in nanoseconds.
    full_at: Map<K, u128>,
    time: TimeSource,
}

/// Permits of a key that are asked for ([`RateLimits::acquire`]): a `Future` on any runtime, or
/// something to [wait](Self::wait) for.
///
/// The permits are taken by the call that made it, and it is ready when they are there. Dropped
/// before that, it gives them back if no request of its key came after it; else the next ones wait
/// as they would have.
#[must_use = "it says when to go on"]
pub struct AcquireRate<K: Eq + Hash + Send + 'static> {
    stage: Stage<K>,
    sleep: Option<Sleep>,
}

enum Stage<K> {
    Over(Result<(), RateError>),
    Waits(Taken<K>),
    Taken,
}

/// Permits that are taken, and come later.
struct Taken<K> {
    inner: Arc<Inner<K>>,
    hash: u64,
    key: K,
    permits: u32,
    /// All permits were to be there then, by this request.
    full_at: u128,
    /// The moment at which these are there.
    at: Duration,
}

/// The outcome of a request, in the call.
enum RateOutcome<K> {
    Now,
    /// The key, for the time when it is taken back.
    Later {
        key: K,
        full_at: u128,
        at: Duration,
    },
    /// Too late.
    Expected(Duration),
}

impl<K: Hash + Eq + Send + 'static> RateLimits<K> {
    /// Limits on the machine's clock.
    pub fn new(rate: Rate) -> Self {
        Self::over(rate, None)
    }

    /// Limits on the clock of these timers.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::VirtualClock;
    /// use turnwise::time::Timers;
    /// use turnwise_locks::rate::{Rate, RateLimits};
    ///
    /// let clock = VirtualClock::new();
    /// let rate = Rate::new(1, Duration::from_secs(60))?;
    /// let mails = RateLimits::with_timers(rate, Timers::by_hand(clock.clone()));
    /// mails.try_acquire("ada@example.org", 1)?;
    /// clock.advance(Duration::from_secs(60));
    /// mails.try_acquire("ada@example.org", 1)?;
    /// # Ok::<(), turnwise_locks::rate::RateError>(())
    /// ```
    pub fn with_timers(rate: Rate, timers: Timers) -> Self {
        Self::over(rate, Some(timers))
    }

    fn over(rate: Rate, timers: Option<Timers>) -> Self {
        let time = TimeSource::new(timers);
        RateLimits { inner: Arc::new(Inner { rate, full_at: Map::new(), time }) }
    }

    /// Takes permits of a key that are there now. Never waits but for the short lock of a shard.
    ///
    /// # Errors
    /// [`RateError::Expected`], [`RateError::TooMany`], [`RateError::Zero`].
    pub fn try_acquire(&self, key: K, permits: u32) -> Result<(), RateError> {
        self.acquire_within(key, permits, Limit::Immediate).at_once()
    }

    /// Asks for one permit of a key, without a limit on the wait.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::rate::{Rate, RateLimits};
    ///
    /// let calls = RateLimits::new(Rate::new(1_000, Duration::from_secs(1))?.burst(1)?);
    /// for _ in 0..3 {
    ///     calls.acquire("ada").wait()?; // or `.await`: one each millisecond
    /// }
    /// # Ok::<(), turnwise_locks::rate::RateError>(())
    /// ```
    pub fn acquire(&self, key: K) -> AcquireRate<K> {
        self.acquire_within(key, 1, Limit::Unlimited)
    }

    /// Asks for permits of a key, if they are there within a time. One that would wait for longer
    /// is refused at once.
    pub fn acquire_within(&self, key: K, permits: u32, limit: impl Into<Limit>) -> AcquireRate<K> {
        self.acquire_of(Own(key), permits, limit)
    }

    /// [`acquire_within`](Self::acquire_within), by a key that is given away or borrowed.
    fn acquire_of<A>(&self, key: A, permits: u32, limit: impl Into<Limit>) -> AcquireRate<K>
    where
        A: AsKey<K>,
    {
        let (key, limit) = owning(key, |_| limit.into());
        let over = |error| AcquireRate { stage: Stage::Over(Err(error)), sleep: None };
        let Rate { burst, .. } = self.inner.rate;
        if permits == 0 {
            return over(RateError::Zero);
        }
        if permits > burst {
            return over(RateError::TooMany { burst });
        }
        let patience = match limit {
            Limit::Unlimited => Duration::MAX,
            Limit::Immediate => Duration::ZERO,
            Limit::Within(limit) => limit,
        };
        let (key, hash) = owning(key, |key| self.inner.full_at.hash_of(key));
        let stage = match self.inner.take(hash, key, permits, patience) {
            RateOutcome::Now => Stage::Over(Ok(())),
            RateOutcome::Expected(wait) => Stage::Over(Err(RateError::Expected { wait })),
            RateOutcome::Later { key, full_at, at } => {
                let inner = self.inner.clone();
                Stage::Waits(Taken { inner, hash, key, permits, full_at, at })
            }
        };
        AcquireRate { stage, sleep: None }
    }

    /// A key by a borrowed form of it, `&str` of a `String`: it is cloned if it is not known, or if
    /// its request has to wait, and else not.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::rate::{Rate, RateLimits};
    ///
    /// let calls = RateLimits::<String>::new(Rate::new(2, Duration::from_secs(60))?);
    /// calls.entry_ref("ada").try_acquire(1)?;
    /// calls.entry_ref("ada").try_acquire(1)?; // no clone: it is known
    /// assert!(calls.entry_ref("ada").try_acquire(1).is_err());
    /// # Ok::<(), turnwise_locks::rate::RateError>(())
    /// ```
    pub fn entry_ref<'a, Q>(&'a self, key: &'a Q) -> EntryRef<'a, Self, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        EntryRef { all: self, key }
    }

    /// The number of permits of a key that could be taken now. Stale on return.
    pub fn available<Q>(&self, key: &Q) -> u32
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Inner { rate, full_at, .. } = &*self.inner;
        let (now, hash) = (self.inner.now().as_nanos(), full_at.hash(key));
        let full_at = full_at.shard(hash, |all| all.find(hash, key).copied()).unwrap_or(now);
        let missing = full_at.saturating_sub(now).div_ceil(rate.time(1));
        rate.burst.saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    /// The number of known keys: those whose burst is not whole, and others that are not forgotten
    /// yet. Stale on return.
    pub fn known(&self) -> usize {
        self.inner.full_at.len()
    }
}

/// Requests of a key that is borrowed.
impl<K, Q> EntryRef<'_, RateLimits<K>, Q>
where
    K: Borrow<Q> + Hash + Eq + Send + 'static,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
    /// As [`RateLimits::try_acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire(self, permits: u32) -> Result<(), RateError> {
        self.acquire_within(permits, Limit::Immediate).at_once()
    }

    /// As [`RateLimits::acquire`].
    pub fn acquire(self) -> AcquireRate<K> {
        self.acquire_within(1, Limit::Unlimited)
    }

    /// As [`RateLimits::acquire_within`].
    pub fn acquire_within(self, permits: u32, limit: impl Into<Limit>) -> AcquireRate<K> {
        self.all.acquire_of(self.key, permits, limit)
    }
}

impl<K> Inner<K> {
    fn now(&self) -> Duration {
        self.time.now()
    }
}

impl<K: Hash + Eq> Inner<K> {
    fn take<A>(&self, hash: u64, key: A, permits: u32, patience: Duration) -> RateOutcome<K>
    where
        A: AsKey<K>,
    {
        let (rate, now) = (self.rate, self.now().as_nanos());
        let look = |key: &mut Option<A>, all: &mut Entries<K, u128>| {
            let Some(name) = &key else { unreachable!("it is there still") };
            let Some(before) = all.find_by(hash, |other| name.is(other)) else {
                if A::BORROWED {
                    return (None, Vec::new());
                }
                // A burst is there.
                let over = all.sweep(|&full_at| full_at <= now);
                if let Some(key) = key.take() {
                    all.insert(hash, key.own(), now + rate.time(permits));
                }
                return (Some(Ok(now)), over);
            };
            let full_at = (*before).max(now) + rate.time(permits);
            let at = full_at.saturating_sub(rate.time(rate.burst));
            // Beyond what the clock can show: never.
            let is_never = at > now && at >= Duration::MAX.as_nanos();
            let wait = if is_never { Duration::MAX } else { nanos(at.saturating_sub(now)) };
            if wait > patience || is_never {
                return (Some(Err(wait)), Vec::new());
            }
            if A::BORROWED && !wait.is_zero() {
                return (None, Vec::new());
            }
            *before = full_at;
            (Some(Ok(at)), Vec::new())
        };
        let shard = |key: &mut Option<A>| self.full_at.shard(hash, |all| look(key, all));
        let (key, (asked, over)) = owning(Some(key), shard);
        // Outside of the lock.
        over.into_iter().for_each(|entry: MapEntry<K, u128>| ignore(|| drop(entry)));
        match (asked, key) {
            // It is not there, or has to wait. Its clone is the user's: outside of the lock.
            (None, Some(key)) => self.take(hash, Own(key.own()), permits, patience),
            (None, None) => unreachable!("it is there still"),
            (Some(Ok(at)), Some(key)) if at > now => {
                let full_at = at + rate.time(rate.burst);
                RateOutcome::Later { key: key.own(), full_at, at: nanos(at) }
            }
            (Some(Ok(_)), key) => {
                ignore(|| drop(key));
                RateOutcome::Now
            }
            (Some(Err(wait)), key) => {
                ignore(|| drop(key));
                RateOutcome::Expected(wait)
            }
        }
    }
}

impl<K: Eq + Hash> Taken<K> {
    /// Gives the permits back, if no request came after this one.
    fn give_back(&self) {
        let Taken { inner, hash, key, permits, full_at, .. } = self;
        inner.full_at.shard(*hash, |all| {
            if let Some(now_full_at) = all.find(*hash, key).filter(|at| **at == *full_at) {
                *now_full_at = full_at - inner.rate.time(*permits);
            }
        });
    }
}

impl<K: Eq + Hash + Send + 'static> AcquireRate<K> {
    /// The outcome of a request that does not wait.
    fn at_once(mut self) -> Result<(), RateError> {
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Over(outcome) => outcome,
            _ => unreachable!("what does not wait is over"),
        }
    }

    /// True if the permits are there, or never will be.
    pub fn is_ready(&self) -> bool {
        match &self.stage {
            Stage::Over(_) => true,
            Stage::Waits(taken) => taken.inner.now() >= taken.at,
            Stage::Taken => false,
        }
    }

    /// Waits until the permits are there. May block.
    ///
    /// # Errors
    /// See [`RateError`]: no permits are taken.
    pub fn wait(mut self) -> Result<(), RateError> {
        let taken = match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Over(outcome) => return outcome,
            Stage::Taken => return Err(RateError::Taken),
            Stage::Waits(taken) => taken,
        };
        loop {
            let left = taken.at.saturating_sub(taken.inner.now());
            if left.is_zero() {
                return Ok(());
            }
            // What is waited for is the limit: the answer never comes.
            let (_never, reply) = taken.inner.time.promise::<()>();
            match reply.wait_timeout(left) {
                Err(WaitError::TimedOut(_)) => {}
                _ => {
                    self.stage = Stage::Waits(taken);
                    return Err(RateError::WouldBlock);
                }
            }
        }
    }
}

impl<K: Eq + Hash + Send + 'static> Future for AcquireRate<K> {
    type Output = Result<(), RateError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        while let Stage::Waits(taken) = &this.stage {
            let left = taken.at.saturating_sub(taken.inner.now());
            if left.is_zero() {
                this.stage = Stage::Over(Ok(()));
                break;
            }
            let timers = taken.inner.time.timers();
            let sleep = this.sleep.get_or_insert_with(|| timers.sleep(left));
            ready!(Pin::new(sleep).poll(cx));
            // The clock may have gone back.
            this.sleep = None;
        }
        match std::mem::replace(&mut this.stage, Stage::Taken) {
            Stage::Over(outcome) => Poll::Ready(outcome),
            _ => Poll::Ready(Err(RateError::Taken)),
        }
    }
}

impl<K: Eq + Hash + Send + 'static> Drop for AcquireRate<K> {
    fn drop(&mut self) {
        let Stage::Waits(taken) = std::mem::replace(&mut self.stage, Stage::Taken) else { return };
        if taken.inner.now() >= taken.at {
            return;
        }
        // The key's `Eq` is the user's.
        let give_back = move || ignore(|| taken.give_back());
        if comparing() {
            // Inside the `Eq` of a key: then not here, and a pool does it.
            drop(Actor::new(()).posted().send(move |()| give_back()));
        } else {
            give_back();
        }
    }
}

// It has nothing that is pinned.
impl<K: Eq + Hash + Send + 'static> Unpin for AcquireRate<K> {}

impl<K> Clone for RateLimits<K> {
    fn clone(&self) -> Self {
        RateLimits { inner: self.inner.clone() }
    }
}

impl<K> fmt::Debug for RateLimits<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimits").field("rate", &self.inner.rate).finish_non_exhaustive()
    }
}

impl<K: Eq + Hash + Send + 'static> fmt::Debug for AcquireRate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireRate").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RateError::Expected { wait } => write!(f, "the rate is used up for {wait:?}"),
            RateError::TooMany { burst } => write!(f, "there are {burst} permits at once"),
            RateError::Zero => f.write_str("a rate needs permits, and some time"),
            RateError::WouldBlock => Reason::WouldBlock.fmt(f),
            RateError::Taken => f.write_str("the outcome was taken before"),
        }
    }
}

impl Error for RateError {}
