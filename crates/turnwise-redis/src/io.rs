//! The runtime of a client's tasks.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::runtime::{EnterGuard, Handle};
use tokio::task::JoinHandle;

/// Holds tasks of a client back while it is pending, as if its thread did not run. For tests.
pub(crate) type Gate = Arc<dyn Fn(&mut Context<'_>) -> Poll<()> + Send + Sync>;

/// A client that runs in the current runtime: see `RemoteBuilder::here`.
#[derive(Clone)]
pub(crate) struct Here {
    /// Its number.
    pub(crate) number: String,
    pub(crate) gate: Gate,
}

impl fmt::Debug for Here {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Here").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The runtime of a client's tasks.
#[derive(Clone)]
pub(crate) struct Io {
    runtime: Handle,
    gate: Option<Gate>,
}

impl Io {
    pub(crate) fn new(runtime: Handle, gate: Option<Gate>) -> Self {
        Io { runtime, gate }
    }

    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Runs code of users that may take long, or wait for the client, on another thread. Tests run
    /// it at once.
    pub(crate) fn spawn_blocking(&self, run: impl FnOnce() + Send + 'static) {
        match self.gate {
            Some(_) => run(),
            None => drop(self.runtime.spawn_blocking(run)),
        }
    }

    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let Some(gate) = self.gate.clone() else { return self.runtime.spawn(task) };
        // One type for all tasks of an output, which only tests have.
        let mut task: Pin<Box<dyn Future<Output = F::Output> + Send>> = Box::pin(task);
        self.runtime.spawn(poll_fn(move |cx| {
            ready!(gate(cx));
            task.as_mut().poll(cx)
        }))
    }
}
