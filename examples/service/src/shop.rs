//! What the service is about, whoever takes the turns: baskets, products, and their bounds.
//!
//! A session is a basket: a list of the newest products and a receipt over it. A change of a basket
//! is some tens of microseconds of work (`--work`), and needs the product, which is loaded from a
//! catalogue that takes its time (`--model-load`).
//!
//! - S1: there is a basket only while it has a [`Seat`]; so there are no more than `--sessions`, in
//!   each backend, and how many there are is one number.
//! - S2: a basket whose turn panicked begins anew, and its session goes on.
//! - All counters are Relaxed: each is true by itself, and nothing is read through them.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;

/// What a session is called.
pub(crate) type Id = Arc<str>;
/// The number of a product.
pub(crate) type Sku = u32;
/// What a look into the catalogue has found.
pub(crate) type Found = Option<Arc<Product>>;

/// Products there are.
const PRODUCTS: Sku = 10_000;
/// Products that a basket remembers.
const NEWEST: usize = 32;

/// How much there may be of everything, and how long it may take.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) sessions: usize,
    /// Requests of one session that wait for the one that runs.
    pub(crate) waiting: usize,
    /// So long a request waits for its turn, or for a product, at most.
    pub(crate) wait: Duration,
    /// A session that is not used for so long is over.
    pub(crate) idle: Duration,
    pub(crate) cached: usize,
    /// Rounds of hashing for each change.
    pub(crate) work: u32,
    pub(crate) load: Duration,
    /// A product that no basket can take.
    pub(crate) bug: Option<Sku>,
}

/// What all backends have in common.
pub(crate) struct Shop {
    pub(crate) bounds: Bounds,
    pub(crate) seats: Arc<Seats>,
    /// Turns that have begun.
    turns: AtomicU64,
    loads: AtomicU64,
}

/// What a basket is asked.
#[derive(Clone)]
pub(crate) enum Ask {
    Add { product: Arc<Product>, count: u32 },
    Look,
}

/// How a basket stands.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct View {
    changes: u64,
    pieces: u64,
    cents: u64,
    receipt: u64,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    NoSession,
    NoProduct,
    /// Too many requests of this session wait.
    Busy,
    /// There are as many sessions as may be.
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
        // Each round goes on with what the last one has found: nothing of it can be left out.
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

    /// A basket, if there may be one more.
    pub(crate) fn basket(&self) -> Result<Basket, Refused> {
        self.seats.take().map(Basket::new).ok_or(Refused::Full)
    }

    /// A turn of a basket. It may panic.
    pub(crate) fn turn(&self, basket: &mut Basket, ask: &Ask) -> View {
        self.turns.fetch_add(1, Relaxed);
        if let Ask::Add { product, count } = ask {
            basket.add(product, *count, self.bounds.work);
            assert!(self.bounds.bug != Some(product.product), "a MODEL of a bug, as asked for");
        }
        basket.view()
    }

    /// The same, where nobody else catches a panic (S2).
    pub(crate) fn turn_caught(&self, basket: &mut Basket, ask: &Ask) -> Result<View, Refused> {
        let turned = catch_unwind(AssertUnwindSafe(|| self.turn(basket, ask)));
        turned.map_err(|_| {
            basket.clear();
            Refused::Broken
        })
    }

    /// The basket after a panic (S2).
    pub(crate) fn renew(&self, basket: &mut Basket) {
        basket.clear();
    }

    /// Looks into the catalogue: a MODEL of a database, a sleep.
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

/// The products at hand: so many at most, the oldest goes.
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

    /// Keeps what was found.
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

/// So many baskets there may be (S1).
#[derive(Default)]
pub(crate) struct Seats {
    most: usize,
    taken: AtomicUsize,
    /// Baskets there have been.
    given: AtomicU64,
    freed: Notify,
}

/// The place of a basket; dropped, it is free.
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

    /// Waits until there is no basket any more.
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
