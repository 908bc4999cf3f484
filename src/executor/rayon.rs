//! Drains in a rayon pool.
//!
//! Rayon runs the newest job of a thread first, and a job that is spawned there goes before all
//! from outside. So a drain that is out of budget would go before everybody. Drains therefore wait
//! in a queue of our own, one for each rayon pool, and a job runs whatever is oldest there. There
//! are as many jobs as drains.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::{Arc, Weak};

use crossbeam_deque::Injector;

use crate::cell::executor::{Drain, Executor};
use crate::pool::queues::take;
use crate::sync::Mutex;

/// An [`Executor`] that runs drains in rayon's global pool, or in one of the program's own. With
/// the feature `rayon`.
///
/// The drains of all actors in a pool are run in the order in which they came; one that is out of
/// budget goes behind all others. One allocation per drain, rayon's. A turn that waits keeps its
/// thread of rayon's meanwhile: with as many such turns as threads, nothing else is run, and if
/// they wait for what is queued behind them, they wait for ever. Turns that wait belong in a
/// [`ThreadPool`](crate::ThreadPool). While a turn is inside `rayon::join` and the like, its thread
/// may run other drains on top of it.
///
/// # Examples
/// ```
/// use turnwise::Actor;
/// use turnwise::executor::Rayon;
///
/// let n = Actor::builder().executor(Rayon::global()).spawn(1)?;
/// n.send(|n| *n += 1)?;
/// assert_eq!(n.call(|n| *n).wait()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Rayon {
    pool: Option<Arc<rayon_core::ThreadPool>>,
    /// The drains that wait in this pool, the oldest first.
    queue: Arc<Injector<Drain>>,
}

/// A pool, and its queue.
struct Known {
    pool: Option<Weak<rayon_core::ThreadPool>>,
    queue: Weak<Injector<Drain>>,
}

impl Rayon {
    /// In rayon's global pool, which starts when it is needed.
    pub fn global() -> Self {
        Self::of(None)
    }

    /// In this pool (`rayon::ThreadPool` is the same type). It lives as long as an actor uses it.
    pub fn new(pool: Arc<rayon_core::ThreadPool>) -> Self {
        Self::of(Some(pool))
    }

    /// With the pool's queue: the same for all executors in one pool.
    fn of(pool: Option<Arc<rayon_core::ThreadPool>>) -> Self {
        static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
        let of_this = |known: &Known| match (&known.pool, &pool) {
            (Some(theirs), Some(pool)) => std::ptr::eq(theirs.as_ptr(), Arc::as_ptr(pool)),
            (theirs, pool) => theirs.is_none() && pool.is_none(),
        };
        let mut known = KNOWN.lock();
        known.retain(|known| known.queue.strong_count() > 0);
        let queue =
            known.iter().find(|known| of_this(known)).and_then(|known| known.queue.upgrade());
        let queue = queue.unwrap_or_else(|| {
            let queue = Arc::new(Injector::new());
            known.push(Known {
                pool: pool.as_ref().map(Arc::downgrade),
                queue: Arc::downgrade(&queue),
            });
            queue
        });
        drop(known);
        Rayon { pool, queue }
    }
}

impl Executor for Rayon {
    fn execute(&self, drain: Drain) {
        self.queue.push(drain);
        let queue = self.queue.clone();
        let run_oldest = move || {
            if let Some(drain) = take(|| queue.steal()) {
                drain.run();
            }
        };
        match &self.pool {
            None => rayon_core::spawn(run_oldest),
            Some(pool) => pool.spawn(run_oldest),
        }
    }
}

impl fmt::Debug for Rayon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rayon").field(if self.pool.is_some() { &"own" } else { &"global" }).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pool_has_one_queue() {
        let pool =
            || Arc::new(rayon_core::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
        let same = |one: &Rayon, other: &Rayon| Arc::ptr_eq(&one.queue, &other.queue);
        let [first, second] = [pool(), pool()];
        // What is not used is forgotten.
        drop((Rayon::global(), Rayon::new(first.clone()), Rayon::new(second.clone())));
        let (global, one, other) =
            (Rayon::global(), Rayon::new(first.clone()), Rayon::new(second.clone()));
        assert!(!same(&global, &one) && !same(&global, &other) && !same(&one, &other));
        assert!(same(&global, &Rayon::global()));
        assert!(same(&one, &Rayon::new(first)) && same(&other, &Rayon::new(second)));
    }
}
