//! The listener for closures that take longer than their lease.
//!
//! At the lease a timer posts a message into a mailbox of its own, which the process's pool runs:
//! so no user code runs on the thread of the timers, and none waits for the workers of the
//! registry, which may all be inside closures that take too long. The end of the closure cancels
//! the timer; if that has not fired and the lease is over, the end tells. So each overrun is
//! reported once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwise::Actor;
use turnwise::time::{Timer, Timers};

use crate::user_code::ignore;

type Tell<K> = dyn Fn(&K, Duration) + Send + Sync;

pub(crate) struct Listener<K> {
    tell: Box<Tell<K>>,
    /// One at a time, in the order in which they were noticed.
    actor: Actor<()>,
}

impl<K: Send + Sync + 'static> Listener<K> {
    pub(crate) fn new(tell: impl Fn(&K, Duration) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Listener { tell: Box::new(tell), actor: Actor::new(()) })
    }

    fn post(self: Arc<Self>, keys: Vec<Arc<K>>, lease: Duration) {
        let actor = self.actor.clone();
        let message = move |(): &mut ()| {
            for key in keys {
                ignore(|| (self.tell)(&key, lease));
                ignore(|| drop(key));
            }
            ignore(|| drop(self));
        };
        drop(actor.posted().send(message));
    }

    /// Watches a closure that has begun.
    pub(crate) fn watch(
        self: &Arc<Self>,
        timers: &Timers,
        begun: Duration,
        lease: Duration,
        keys: Vec<Arc<K>>,
    ) -> Watch<K> {
        let (listener, theirs) = (self.clone(), keys.clone());
        // Beyond what the clock can show: it is never over.
        let timer = begun
            .checked_add(lease)
            .map(|due| timers.at(due, move || listener.post(theirs, lease)));
        Watch { listener: self.clone(), timer, lease, keys }
    }
}

impl<K> fmt::Debug for Listener<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

/// A closure that is watched.
pub(crate) struct Watch<K> {
    listener: Arc<Listener<K>>,
    timer: Option<Timer>,
    lease: Duration,
    keys: Vec<Arc<K>>,
}

impl<K: Send + Sync + 'static> Watch<K> {
    /// The closure has ended.
    pub(crate) fn ended(self, overran: bool) {
        let Watch { listener, timer, lease, keys } = self;
        let untold = timer.is_some_and(|timer| timer.cancel());
        if untold && overran {
            listener.post(keys, lease);
        }
    }
}
