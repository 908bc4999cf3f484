//! Where objects are kept.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use crate::error::StoreError;
use crate::step::{Answer, Notice, Op};

/// What a step comes to, some time.
pub type Called<'a> = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send + 'a>>;

/// Gets a client's notices. It is called on the store's threads, and must not wait.
pub type NoticeSink = Arc<dyn Fn(Notice) + Send + Sync>;

/// A place where objects are kept: in memory ([`MemoryStore`](crate::MemoryStore)), or in a server.
///
/// The rules S1 to S5 are those of the [steps](crate::step). A store may be wrapped by another one:
/// tests put faults between a client and its store so.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Does a step: one atomic one, which may be repeated.
    ///
    /// It is polled in a runtime of tokio's: a client's own, or that of a caller. Steps of several
    /// runtimes come in any order.
    ///
    /// # Errors
    /// See [`StoreError`]. After one that may be [repeated](StoreError::is_transient), the step may
    /// have happened.
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a>;

    /// From now on, notices for the requests of this client go there. It is called in the client's
    /// own runtime.
    fn listen(&self, client: &str, sink: NoticeSink);

    /// No notices go to this client any more.
    fn forget(&self, client: &str);

    /// Which life of the store it is that answers, if that is known: as of the last answer.
    fn life(&self) -> Option<Life> {
        None
    }
}

/// From its start to its end, a store keeps what was written; from one life to the next it may
/// forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// No other life of any store is called so.
    pub run: String,
    /// When it began, as far as that matters. None: long ago.
    pub began: Option<Instant>,
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        (**self).call(op)
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        (**self).listen(client, sink);
    }

    fn forget(&self, client: &str) {
        (**self).forget(client);
    }

    fn life(&self) -> Option<Life> {
        (**self).life()
    }
}
