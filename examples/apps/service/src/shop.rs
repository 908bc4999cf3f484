//! The shop, for all backends: baskets, products, and their bounds.
//!
//! A session is a basket: a list of the newest products and a receipt over it. A change of a basket
//! is some tens of microseconds of work (`--work`), and needs the product, which is loaded from a
//! slow catalogue (`--model-load`).
//!
//! - S1: a basket exists only while it has a [`Seat`]; so there are no more than `--sessions`, in
//!   each backend, and one number counts them.
//! - S2: a basket whose turn panicked begins anew, and its session goes on.
//! - All counters are Relaxed: no other memory is read through them.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;

/// The name of a session.
pub(crate) type Id = Arc<str>;
/// The number of a product.
pub(crate) type Sku = u32;
/// The result of a look-up in the catalogue.
pub(crate) type Found = Option<Arc<Product>>;

/// The number of products.
const PRODUCTS: Sku = 10_000;
/// The number of products that a basket remembers.
const NEWEST: usize = 32;

/// The bounds of the service, and its time limits.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) sessions: usize,
    /// The maximum number of requests of one session that wait for the one that runs.
    pub(crate) waiting: usize,
    /// The maximum time that a request waits for its turn, or for a product.
    pub(crate) wait: Duration,
    /// The time after which an unused session ends.
    pub(crate) idle: Duration,
    pub(crate) cached: usize,
    /// Rounds of hashing for each change.
    pub(crate) work: u32,
    pub(crate) load: Duration,
    /// A product whose turn panics.
    pub(crate) bug: Option<Sku>,
}

/// The state that all backends share.
pub(crate) struct Shop {
    pub(crate) bounds: Bounds,
    pub(crate) seats: Arc<Seats>,
    /// Turns that have begun.
    turns: AtomicU64,
    loads: AtomicU64,
}

/// A request to a basket.
#[derive(Clone)]
pub(crate) enum Ask {
    Add { product: Arc<Product>, count: u32 },
    Look,
}

/// The state of a basket.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct View {
    changes: u64,
    pieces: u64,
    cents: u64,
    receipt: u64,
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    NoSession,
    NoProduct,
    /// Too many requests of this session wait.
    Busy,
    /// The maximum number of sessions is reached.
    Full,
    /// It did not get its turn, or the product, in time.
    TimedOut,
    /// The service ends.
    Ending,
    /// A turn panicked.
    Broken,
}

#[derive(Debug, Serialize)]
pub(crate) struct Product {
    pub(crate) product: Sku,
    name: String,
    cents: u64,
}

pub(crate) struct Basket {
    /// The newest last.
    lines: VecDeque<(Arc<Product>, u32)>,
    changes: u64,
    receipt: u64,
    _seat: Seat,
}

impl Basket {
    fn new(seat: Seat) -> Self {
        Basket { lines: VecDeque::new(), changes: 0, receipt: 0, _seat: seat }
    }

    fn clear(&mut self) {
        self.lines.clear();
        (self.changes, self.receipt) = (0, 0);
    }

    fn add(&mut self, product: &Arc<Product>, count: u32, work: u32) {
        self.lines.push_back((product.clone(), count));
        if self.lines.len() > NEWEST {
            self.lines.pop_front();
        }
        self.changes += 1;
        // Each round uses the result of the last one: so none can be optimized away.
        for round in 0..work {
            let mut hasher = DefaultHasher::new();
            (self.receipt, round, product.product).hash(&mut hasher);
            self.receipt = hasher.finish();
        }
    }

    fn view(&self) -> View {
        let pieces = self.lines.iter().map(|(_, count)| u64::from(*count)).sum();
        let cents = self.lines.iter().map(|(product, count)| product.cents * u64::from(*count));
        View { changes: self.changes, pieces, cents: cents.sum(), receipt: self.receipt }
    }
}

impl Shop {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        let seats = Arc::new(Seats { most: bounds.sessions, ..Seats::default() });
        Arc::new(Shop { bounds, seats, turns: AtomicU64::new(0), loads: AtomicU64::new(0) })
    }

    /// Makes a basket, if the maximum number is not reached.
    pub(crate) fn basket(&self) -> Result<Basket, Refused> {
        self.seats.take().map(Basket::new).ok_or(Refused::Full)
    }

    /// Runs a turn of a basket. May panic.
    pub(crate) fn turn(&self, basket: &mut Basket, ask: &Ask) -> View {
        self.turns.fetch_add(1, Relaxed);
        if let Ask::Add { product, count } = ask {
            basket.add(product, *count, self.bounds.work);
            assert!(self.bounds.bug != Some(product.product), "a MODEL of a bug, as asked for");
        }
        basket.view()
    }

    /// Runs a turn, and catches a panic, for backends that do not catch it themselves (S2).
    pub(crate) fn turn_caught(&self, basket: &mut Basket, ask: &Ask) -> Result<View, Refused> {
        let turned = catch_unwind(AssertUnwindSafe(|| self.turn(basket, ask)));
        turned.map_err(|_| {
            basket.clear();
            Refused::Broken
        })
    }

    /// Replaces the basket after a panic (S2).
    pub(crate) fn renew(&self, basket: &mut Basket) {
        basket.clear();
    }

    /// Looks a product up in the catalogue: a MODEL of a database, a sleep.
    pub(crate) async fn load(&self, sku: Sku) -> Found {
        self.loads.fetch_add(1, Relaxed);
        tokio::time::sleep(self.bounds.load).await;
        let cents = u64::from(sku) * 7 % 10_000 + 99;
        let product = || Product { product: sku, name: format!("product {sku}"), cents };
        (sku < PRODUCTS).then(|| Arc::new(product()))
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    pub(crate) fn loads(&self) -> u64 {
        self.loads.load(Relaxed)
    }
}

/// The cached products, up to a maximum number; the oldest is removed first.
pub(crate) struct Shelf {
    most: usize,
    products: HashMap<Sku, Arc<Product>>,
    order: VecDeque<Sku>,
}

impl Shelf {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Shelf { most: bounds.cached, products: HashMap::new(), order: VecDeque::new() }
    }

    pub(crate) fn get(&self, sku: Sku) -> Found {
        self.products.get(&sku).cloned()
    }

    /// Keeps the result of a look-up.
    pub(crate) fn put(&mut self, sku: Sku, found: &Found) {
        let Some(product) = found else { return };
        if self.products.insert(sku, product.clone()).is_none() {
            self.order.push_back(sku);
        }
        if self.order.len() > self.most {
            self.order.pop_front().map(|oldest| self.products.remove(&oldest));
        }
    }
}

/// The seats for baskets, up to a maximum number (S1).
#[derive(Default)]
pub(crate) struct Seats {
    most: usize,
    taken: AtomicUsize,
    /// The total number of baskets so far.
    given: AtomicU64,
    freed: Notify,
}

/// The place of a basket; it is free when this is dropped.
pub(crate) struct Seat(Arc<Seats>);

impl Seats {
    fn take(self: &Arc<Self>) -> Option<Seat> {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, more).ok()?;
        self.given.fetch_add(1, Relaxed);
        Some(Seat(self.clone()))
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    pub(crate) fn are_taken(&self) -> bool {
        self.taken() >= self.most
    }

    pub(crate) fn given(&self) -> u64 {
        self.given.load(Relaxed)
    }

    /// Waits until no basket is left.
    pub(crate) async fn all_free(&self) {
        loop {
            let freed = self.freed.notified();
            if self.taken() == 0 {
                return;
            }
            freed.await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.0.taken.fetch_sub(1, Relaxed) == 1 {
            self.0.freed.notify_waiters();
        }
    }
}
