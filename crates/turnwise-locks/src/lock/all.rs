//! Several locks at once.

use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use turnwise::Limit;

use super::Guard;
use super::acquire::{Acquire, Guarding};
use super::error::LockError;
use super::guard::Held;
use super::keys::{Keys, Owner};
use crate::limits::{Limits, Wait};
use crate::registry::{Own, sorted};
use crate::user_code::{catch, ignore, owning};

/// Several locks that are asked for ([`Locks::lock_all`](crate::Locks::lock_all),
/// [`RwLocks::lock_all`](crate::RwLocks::lock_all)): a `Future`, or something to wait for. Dropping
/// it gives up what is asked for, and gives back what is held.
#[must_use = "dropping it gives the places up"]
pub struct AcquireAll<K: Hash + Eq + Send + Sync + 'static, G = Guard<K>> {
    keys: Keys<K>,
    owner: Option<Owner>,
    rest: std::vec::IntoIter<WantedKey<K>>,
    held: Vec<G>,
    next: Option<Next<K>>,
    limits: Limits,
    wait: Option<Wait>,
    lease: Option<Duration>,
    taken: bool,
}

/// A key, and how much of it is asked for.
struct WantedKey<K> {
    key: K,
    weight: u64,
}

/// Of one key the largest weight comes first; the others are equal to it.
impl<K: Ord> Ord for WantedKey<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then_with(|| Reverse(self.weight).cmp(&Reverse(other.weight)))
    }
}

impl<K: Ord> PartialOrd for WantedKey<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: PartialEq> PartialEq for WantedKey<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<K: Eq> Eq for WantedKey<K> {}

/// The lock that is asked for now.
struct Next<K: Send + Sync + 'static> {
    weight: u64,
    acquire: Acquire<K, Held<K>>,
}

impl<K: Hash + Eq + Ord + Send + Sync + 'static, G: Guarding<K>> AcquireAll<K, G> {
    /// Asks for these keys, each with a weight.
    pub(super) fn new(
        keys: &Keys<K>,
        owner: Option<&Owner>,
        wanted: impl IntoIterator<Item = (K, u64)>,
        limits: Limits,
    ) -> Self {
        let wanted = wanted.into_iter().map(|(key, weight)| WantedKey { key, weight });
        let (wanted, ()) = sorted(wanted, |_| ());
        let held = Vec::with_capacity(wanted.len());
        let all = AcquireAll {
            keys: keys.clone(),
            owner: owner.cloned(),
            rest: wanted.into_iter(),
            held,
            next: None,
            wait: limits.terms(|| keys.now()).wait,
            lease: limits.leased(),
            limits,
            taken: false,
        };
        owning(all, Self::go_on).0
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, G: Guarding<K>> AcquireAll<K, G> {
    /// Asks for the next lock, if there is one.
    fn go_on(&mut self) {
        let Some(WantedKey { key, weight }) = self.rest.next() else { return };
        let left = match self.wait {
            // What was called with a wait has its first attempt in any case.
            Some(wait) if !self.held.is_empty() => {
                self.limits.left(wait.at.saturating_sub(self.keys.now()))
            }
            _ => self.limits,
        };
        // A lease begins when all are held.
        let acquire = self.keys.acquire(Own(key), self.owner.as_ref(), weight, left.unleased());
        self.next = Some(Next { weight, acquire });
    }

    /// Waits for all of them, until the deadline that was made by the call. Their guards are in the
    /// order of their keys. May block.
    ///
    /// # Errors
    /// See [`LockError`]: none is held.
    pub fn wait(self) -> Result<Vec<G>, LockError> {
        let wait = |all: &mut Self| all.wait_timeout(Limit::Unlimited);
        owning(self, wait).1.unwrap_or(Err(LockError::Taken))
    }

    /// Waits for all of them for this time at most. Returns `None` if one has not come; those that
    /// are held stay held, and so does the place in the queue of the next. May block.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_locks::{Limits, Locks};
    ///
    /// let locks = Locks::new();
    /// let b = locks.lock("b").wait()?;
    /// let mut both = locks.lock_all(["a", "b"], Limits::NONE);
    /// assert!(both.wait_timeout(Duration::from_millis(1)).is_none());
    /// assert!(locks.is_locked("a"));
    /// drop(b);
    /// assert_eq!(both.wait()?.len(), 2);
    /// # Ok::<(), turnwise_locks::LockError>(())
    /// ```
    pub fn wait_timeout(&mut self, limit: impl Into<Limit>) -> Option<Result<Vec<G>, LockError>> {
        let limit = limit.into();
        let until = match limit {
            Limit::Within(limit) => self.keys.now().checked_add(limit),
            _ => None,
        };
        while let Some(Next { weight, acquire }) = &mut self.next {
            let left = match until {
                Some(until) => until.saturating_sub(self.keys.now()).into(),
                None => limit,
            };
            let (weight, held) = (*weight, acquire.wait_timeout(left)?);
            if let Err(error) = self.came(held, weight) {
                return Some(Err(error));
            }
        }
        Some(self.finish())
    }

    /// One has come, or never will.
    fn came(&mut self, held: Result<Held<K>, LockError>, weight: u64) -> Result<(), LockError> {
        self.next = None;
        // The next one's key may panic: then none is held, and a poll after that says so.
        catch(|| self.take(held, weight)).unwrap_or_else(|payload| {
            self.end();
            resume_unwind(payload)
        })
    }

    fn take(&mut self, held: Result<Held<K>, LockError>, weight: u64) -> Result<(), LockError> {
        match held {
            Ok(held) => self.held.push(G::weighing(held, weight)),
            Err(error) => {
                self.end();
                return Err(self.late(error));
            }
        }
        self.go_on();
        Ok(())
    }

    /// None is held.
    fn end(&mut self) {
        self.taken = true;
        self.held.clear();
        // Keys, whose drop is user code.
        std::mem::take(&mut self.rest).for_each(|wanted| ignore(|| drop(wanted)));
    }

    /// The error of one of them, as that of the whole call: its wait is one.
    fn late(&self, error: LockError) -> LockError {
        match (self.wait, error) {
            (Some(wait), LockError::TimedOut { key, .. } | LockError::Busy { key }) => {
                LockError::TimedOut { waited: self.keys.now().saturating_sub(wait.called), key }
            }
            (_, error) => error,
        }
    }

    fn finish(&mut self) -> Result<Vec<G>, LockError> {
        if std::mem::replace(&mut self.taken, true) {
            return Err(LockError::Taken);
        }
        let guards = std::mem::take(&mut self.held);
        if let Some(lease) = self.lease {
            // One that was forced meanwhile says so.
            guards.iter().for_each(|guard| _ = guard.held().renew(lease));
        }
        Ok(guards)
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, G: Guarding<K>> Future for AcquireAll<K, G> {
    type Output = Result<Vec<G>, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        while let Some(Next { weight, acquire }) = &mut this.next {
            let (weight, held) = (*weight, ready!(Pin::new(acquire).poll(cx)));
            if let Err(error) = this.came(held, weight) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(this.finish())
    }
}

// The guards are not pinned: they are handed out by value.
impl<K: Hash + Eq + Send + Sync + 'static, G> Unpin for AcquireAll<K, G> {}

impl<K: Hash + Eq + Send + Sync + 'static, G> fmt::Debug for AcquireAll<K, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireAll").field("held", &self.held.len()).finish_non_exhaustive()
    }
}
