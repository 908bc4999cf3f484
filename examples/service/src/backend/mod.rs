//! Who takes the turns: five ways to have a basket for each session, and a cache that loads once.
//!
//! | backend    | a basket is                              | its requests wait in  | an idle one ends by       | the cache is           |
//! |------------|------------------------------------------|-----------------------|---------------------------|------------------------|
//! | `turnwise` | the state of a key of a `Keyed`          | the key's mailbox     | `keep_alive`              | an actor, and promises |
//! | `mutex`    | in a tokio mutex in a concurrent map     | the mutex's queue     | a sweep of the map        | a mutex, and `SetOnce` |
//! | `mpsc`     | owned by a task                          | a bounded channel     | a time-out of `recv`      | a task, and oneshots   |
//! | `kameo`    | an actor                                 | a bounded mailbox     | a message to itself       | an actor, and replies  |
//! | `ractor`   | an actor's state                         | a mailbox and a count | a message to itself       | an actor, and ports    |
//!
//! - B1: a session has one basket at a time, and nothing is left to one that ends. In all but
//!   `turnwise` a request takes a handle, or leaves its message, under the lock of the entry in the
//!   map; an idle session takes its entry out under the same lock, if nobody has a handle and nothing
//!   waits. An actor of `kameo` takes several messages out of its mailbox at once: those that it has
//!   not handled when it ends come back, and go to the next one. A message that is left to such an
//!   actor without the lock may get lost between its last look at the mailbox and the mailbox's end.
//! - B2: a product is loaded once, whatever the number of those who ask meanwhile. Who goes away
//!   does not end the load.
//! - B3: a request that is refused was not run. One that is late was not run, or has begun (the wait
//!   of `turnwise` and `mutex` ends with the beginning of its turn, so theirs was not); in `kameo` it
//!   may run later, as its mailbox keeps what nobody waits for.

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
    /// In the runtime that it is to work in.
    fn new(shop: Arc<Shop>) -> Self;

    /// A turn of a session. The first change makes it.
    fn ask(&self, id: Id, ask: Ask) -> impl Future<Output = Result<View, Refused>> + Send;

    /// A product, out of the cache.
    fn product(&self, sku: Sku) -> impl Future<Output = Result<Arc<Product>, Refused>> + Send;

    /// Ends all sessions. False: not within the limit.
    fn end(&self, limit: Duration) -> impl Future<Output = bool> + Send;
}

/// What was found, for whoever asked for it.
fn found(found: Found) -> Result<Arc<Product>, Refused> {
    found.ok_or(Refused::NoProduct)
}
