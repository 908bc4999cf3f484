//! The backends: five ways to have a basket for each session, and a cache that loads once.
//!
//! | backend    | a basket is                              | its requests wait in  | an idle one ends by       | the cache is           |
//! |------------|------------------------------------------|-----------------------|---------------------------|------------------------|
//! | `turnwise` | the state of a key of a `Keyed`          | the key's mailbox     | `keep_alive`              | an actor, and promises |
//! | `mutex`    | in a tokio mutex in a concurrent map     | the mutex's queue     | a sweep of the map        | a mutex, and `SetOnce` |
//! | `mpsc`     | owned by a task                          | a bounded channel     | a time-out of `recv`      | a task, and oneshots   |
//! | `kameo`    | an actor                                 | a bounded mailbox     | a message to itself       | an actor, and replies  |
//! | `ractor`   | an actor's state                         | a mailbox and a count | a message to itself       | an actor, and ports    |
//!
//! - B1: a session has one basket at a time, and no message is left to a session that ends. In all
//!   backends but `turnwise`, a request takes a handle, or enqueues its message, under the lock of
//!   the entry in the map; an idle session removes its entry under the same lock, if no request has
//!   a handle and no message waits. An actor of `kameo` takes several messages out of its mailbox
//!   at once: those that it has not handled when it ends come back, and go to the next one. A
//!   message that is sent to such an actor without the lock may get lost between its last look at
//!   the mailbox and the mailbox's end.
//! - B2: a product is loaded once, whatever the number of concurrent requests for it. A dropped
//!   request does not end the load.
//! - B3: a request that is refused was not run. One that timed out was not run, or has begun (in
//!   `turnwise` and `mutex` the wait ends when the turn begins, so theirs was not); in `kameo` it
//!   may run later, because its mailbox keeps messages whose senders no longer wait.

mod kameo;
mod mpsc;
mod mutex;
mod ractor;
mod turnwise;

use std::sync::Arc;
use std::time::Duration;

use crate::shop::{Ask, Found, Id, Product, Refused, Shop, Sku, View};

pub(crate) use self::kameo::Kameo;
pub(crate) use self::mpsc::Mpsc;
pub(crate) use self::mutex::Mutexes;
pub(crate) use self::ractor::Ractor;
pub(crate) use self::turnwise::Turnwise;

pub(crate) trait Backend: Send + Sync + 'static {
    /// Makes a backend, in the runtime that it works in.
    fn new(shop: Arc<Shop>) -> Self;

    /// Runs a turn of a session. The first change creates the session.
    fn ask(&self, id: Id, ask: Ask) -> impl Future<Output = Result<View, Refused>> + Send;

    /// Returns a product from the cache.
    fn product(&self, sku: Sku) -> impl Future<Output = Result<Arc<Product>, Refused>> + Send;

    /// Ends all sessions. Returns false if the limit passes first.
    fn end(&self, limit: Duration) -> impl Future<Output = bool> + Send;
}

/// Converts the result of a look-up.
fn found(found: Found) -> Result<Arc<Product>, Refused> {
    found.ok_or(Refused::NoProduct)
}
