//! The interface of stores.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::step::{Answer, Notice, Op};

/// A future of the answer to a step.
pub type Called<'a> = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send + 'a>>;

/// A callback for a client's notices. It is called on the store's threads, and must not block.
pub type NoticeSink = Arc<dyn Fn(Notice) + Send + Sync>;

/// A place where objects are kept: memory ([`MemoryStore`](crate::MemoryStore)), a file or a
/// server.
///
/// The rules STEP-1 to STEP-5 are those of the [steps](crate::step). A store may wrap another one,
/// as tests do to inject faults between a client and its store.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Executes one atomic step, which may be repeated.
    ///
    /// The future is polled in a tokio runtime: the client's own, or a caller's. Steps of several
    /// runtimes arrive in any order.
    ///
    /// # Errors
    /// See [`StoreError`]. After an error that may be [repeated](StoreError::is_transient), the
    /// step may have happened.
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a>;

    /// Executes one atomic step as [`call`](Self::call) does, and blocks the thread for about this
    /// time at most. Returns `None` if the store makes no such call, or makes none now: the step
    /// has had no effect then, and is left to `call`.
    ///
    /// A thread that [`wait`](crate::Acquire::wait)s makes it. The thread may be in the context of
    /// a tokio runtime. A store that wraps another one may forward it.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    fn call_blocking(&self, _op: &Op, _limit: Duration) -> Option<Result<Answer, StoreError>> {
        None
    }

    /// Routes notices for the requests of a client to a sink from now on. It is called in the
    /// client's own runtime.
    fn listen(&self, client: &str, sink: NoticeSink);

    /// Stops notices to a client.
    fn forget(&self, client: &str);

    /// Returns the part of the store that keeps a key, where one step cannot change objects of
    /// several parts: holds of one part are renewed together. A store that wraps one over a cluster
    /// forwards it.
    fn part(&self, _key: &str) -> u16 {
        0
    }

    /// Returns the life of the store that gave the last answer, if it is known.
    fn life(&self) -> Option<Life> {
        None
    }
}

/// A life of a store, from its start to its end. A store keeps what was written during a life, and
/// may forget it between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// An identifier that is unique among the lives of all stores.
    pub run: String,
    /// The time of its start, as far as that matters. `None` if that is long ago.
    pub began: Option<Instant>,
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        (**self).call(op)
    }

    fn call_blocking(&self, op: &Op, limit: Duration) -> Option<Result<Answer, StoreError>> {
        (**self).call_blocking(op, limit)
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        (**self).listen(client, sink);
    }

    fn forget(&self, client: &str) {
        (**self).forget(client);
    }

    fn part(&self, key: &str) -> u16 {
        (**self).part(key)
    }

    fn life(&self) -> Option<Life> {
        (**self).life()
    }
}
