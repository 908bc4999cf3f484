//! The creation of actors, which is all that the benchmarks know of executors.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use turnwise::{Actor, ActorBuilder, Executor, StopCause};

/// A way to create actors.
pub(crate) trait System: Clone + Send + Sync + 'static {
    fn builder<S: Send + 'static>(&self) -> ActorBuilder<S>;

    fn spawn<S: Send + 'static>(&self, state: S) -> Actor<S> {
        self.builder().spawn(state).expect("no capacity was asked for")
    }
}

/// Plain actors, run by their senders.
#[derive(Clone)]
pub(crate) struct Inline;

impl System for Inline {
    fn builder<S: Send + 'static>(&self) -> ActorBuilder<S> {
        Actor::builder()
    }

    fn spawn<S: Send + 'static>(&self, state: S) -> Actor<S> {
        Actor::new(state)
    }
}

/// Actors that run in an executor.
#[derive(Clone)]
pub(crate) struct On<E>(pub(crate) E);

impl<E: Executor + Clone + 'static> System for On<E> {
    fn builder<S: Send + 'static>(&self) -> ActorBuilder<S> {
        Actor::builder().executor(self.0.clone())
    }
}

/// Actors that are counted when they are created and when they end.
#[derive(Clone)]
pub(crate) struct Tracked<Y>(pub(crate) Y, pub(crate) Ledger);

impl<Y: System> System for Tracked<Y> {
    fn builder<S: Send + 'static>(&self) -> ActorBuilder<S> {
        let ledger = self.1.clone();
        ledger.made();
        self.0.builder().on_end(move |_, cause| ledger.ended(cause.stop_cause()))
    }
}

/// The account of a run's actors.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<(Mutex<Entries>, Condvar)>);

#[derive(Default)]
struct Entries {
    alive: usize,
    stopped: Option<StopCause>,
}

impl Ledger {
    fn made(&self) {
        self.0.0.lock().unwrap().alive += 1;
    }

    fn ended(&self, cause: Option<StopCause>) {
        let (entries, changed) = &*self.0;
        let mut entries = entries.lock().unwrap();
        entries.alive -= 1;
        entries.stopped = entries.stopped.take().or(cause);
        if entries.alive == 0 {
            changed.notify_all();
        }
    }

    /// Waits until all actors have ended. Fails if they do not, or if one was stopped.
    pub(crate) fn all_ended(&self, limit: Duration) -> Result<(), String> {
        let (entries, changed) = &*self.0;
        let (entries, _) = changed
            .wait_timeout_while(entries.lock().unwrap(), limit, |entries| entries.alive > 0)
            .unwrap();
        match &entries.stopped {
            Some(cause) => Err(format!("an actor was stopped: {cause}")),
            None if entries.alive > 0 => Err(format!("{} actors have not ended", entries.alive)),
            None => Ok(()),
        }
    }
}
