//! Several locks at once.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::Guard;
use super::acquire::Acquire;
use super::error::{LockError, LostError};
use super::keys::Keys;
use crate::limits::Limits;
use crate::registry::sorted;
use crate::user_code::owning;

/// Several locks that are asked for ([`Locks::lock_all`](crate::Locks::lock_all)): a `Future`, or
/// something to wait for. Dropping it gives up what is asked for, and gives back what is held.
#[must_use = "dropping it gives the places up"]
pub struct AcquireAll<K: Hash + Eq + Send + Sync + 'static> {
    keys: Keys<K>,
    rest: std::vec::IntoIter<K>,
    held: Vec<Guard<K>>,
    next: Option<Acquire<K, Guard<K>>>,
    limits: Limits,
    until: Option<Duration>,
    lease: Option<Duration>,
    taken: bool,
}

/// Several locks that are held, in the order of their keys. Dropping it gives them back.
#[must_use = "dropping it gives them back"]
pub struct MultiGuard<K: Send + Sync + 'static> {
    guards: Vec<Guard<K>>,
}

impl<K: Hash + Eq + Ord + Send + Sync + 'static> AcquireAll<K> {
    pub(super) fn new(keys: &Keys<K>, wanted: impl IntoIterator<Item = K>, limits: Limits) -> Self {
        let (wanted, ()) = sorted(wanted, |_| ());
        let held = Vec::with_capacity(wanted.len());
        let all = AcquireAll {
            keys: keys.clone(),
            rest: wanted.into_iter(),
            held,
            next: None,
            until: limits.terms(|| keys.now()).wait.map(|wait| wait.at),
            lease: limits.leased(),
            limits,
            taken: false,
        };
        owning(all, Self::go_on).0
    }
}

impl<K: Hash + Eq + Send + Sync + 'static> AcquireAll<K> {
    /// Asks for the next lock, if there is one.
    fn go_on(&mut self) {
        let Some(key) = self.rest.next() else { return };
        let left = match self.until {
            // What was called with a wait has its first attempt in any case.
            Some(until) if !self.held.is_empty() => {
                Limits::wait(until.saturating_sub(self.keys.now()))
            }
            _ => self.limits,
        };
        // A lease begins when all are held; one of no time is an error at once.
        let limits = if self.limits.has_lease_of_zero() { self.limits } else { left.unleased() };
        self.next = Some(self.keys.acquire(key, None, 1, limits));
    }

    /// Waits for all of them, until the deadline that was made by the call. May block.
    ///
    /// # Errors
    /// See [`LockError`]: none is held.
    pub fn wait(self) -> Result<MultiGuard<K>, LockError> {
        owning(self, Self::wait_for_all).1
    }

    fn wait_for_all(&mut self) -> Result<MultiGuard<K>, LockError> {
        while let Some(next) = self.next.take() {
            let guard = next.wait();
            self.take(guard)?;
        }
        self.finish()
    }

    fn take(&mut self, guard: Result<Guard<K>, LockError>) -> Result<(), LockError> {
        match guard {
            Ok(guard) => self.held.push(guard),
            Err(error) => {
                self.taken = true;
                self.held.clear();
                return Err(error);
            }
        }
        self.go_on();
        Ok(())
    }

    fn finish(&mut self) -> Result<MultiGuard<K>, LockError> {
        if std::mem::replace(&mut self.taken, true) {
            return Err(LockError::Taken);
        }
        let guards = MultiGuard { guards: std::mem::take(&mut self.held) };
        if let Some(lease) = self.lease {
            // Forced meanwhile: then its guard says so.
            let _ = MultiGuard::renew(&guards, lease);
        }
        Ok(guards)
    }
}

impl<K: Hash + Eq + Send + Sync + 'static> Future for AcquireAll<K> {
    type Output = Result<MultiGuard<K>, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        while let Some(next) = &mut this.next {
            let guard = ready!(Pin::new(next).poll(cx));
            this.next = None;
            if let Err(error) = this.take(guard) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(this.finish())
    }
}

// The guards are not pinned: they are handed out by value.
impl<K: Hash + Eq + Send + Sync + 'static> Unpin for AcquireAll<K> {}

impl<K: Send + Sync + 'static> MultiGuard<K> {
    /// The guards, in the order of their keys.
    pub fn guards(&self) -> &[Guard<K>] {
        &self.guards
    }

    /// The guards, each for itself.
    pub fn into_guards(self) -> Vec<Guard<K>> {
        self.guards
    }

    /// True if one of them was taken away.
    pub fn is_lost(&self) -> bool {
        self.guards.iter().any(Guard::is_lost)
    }

    /// Their leases begin anew, with this length.
    ///
    /// # Errors
    /// The first that was lost before; the others are renewed.
    pub fn renew(&self, lease: Duration) -> Result<(), LostError> {
        self.guards.iter().map(|guard| guard.renew(lease)).fold(Ok(()), Result::and)
    }

    /// Gives them back, as dropping does, and says whether all were held until now.
    ///
    /// # Errors
    /// The first that was lost before; the others are given back.
    pub fn release(self) -> Result<(), LostError> {
        self.guards.into_iter().map(Guard::release).fold(Ok(()), Result::and)
    }
}

impl<K: Hash + Eq + Send + Sync + 'static> fmt::Debug for AcquireAll<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireAll").field("held", &self.held.len()).finish_non_exhaustive()
    }
}

impl<K: Send + Sync + 'static> fmt::Debug for MultiGuard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard").field("guards", &self.guards).finish()
    }
}
