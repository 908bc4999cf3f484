//! The ways to decide: three servers behind one call.
//!
//! | mode        | thread that waits for the file                | commits             |
//! |-------------|-----------------------------------------------|---------------------|
//! | `turnwise`  | the one thread of a pool, for all             | one for each pass   |
//! | `mutex`     | a blocking thread, with a mutex held          | one for each entry  |
//! | `immediate` | a blocking thread for each of some connections | one for each entry |
//!
//! In each of them a sync blocks no thread that serves requests, and an application that waits for
//! its turn is a task. In `mutex` tasks wait in the order of their coming; in `immediate` they wait
//! in that order for a connection, and then, as long again, for SQLite's lock, which has no order.
//!
//! `turnwise` has a pool of one thread, because there is one connection, used by one turn at a
//! time: a second thread would not add any work, only wake-ups. The pool has no other actor, so no
//! other actor waits behind a sync.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use turnwise::ThreadPool;
use turnwise_locks::Limits;
use turnwise_locks::admission::{Admission, Refused};

use crate::ledger::{Alone, LedgerError, Sharing, Sqlite, Who};
use crate::metrics::Metrics;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// One commit for all that came during the last one
    Turnwise,
    /// A mutex around the connection, a transaction for each entry
    Mutex,
    /// `BEGIN IMMEDIATE` for each entry, on pooled connections
    Immediate,
}

/// The parameters of a raffle.
pub(crate) struct Terms {
    pub(crate) seats: u64,
    pub(crate) wait: Duration,
    pub(crate) group: usize,
    pub(crate) connections: usize,
    pub(crate) slower: Duration,
}

/// The outcome for an applicant. Busy: its turn was not expected in time. Unknown: it may be
/// admitted or not. Stopping: the server is about to end.
pub(crate) enum Outcome {
    Admitted { place: u64 },
    Duplicate { place: u64 },
    Closed { seats: u64 },
    Busy { expected: Duration },
    TimedOut { waited: Duration },
    Failed { why: String },
    Unknown { why: String },
    Stopping,
}

impl Outcome {
    pub(crate) const NAMES: [&'static str; 8] =
        ["admitted", "duplicate", "closed", "busy", "timed_out", "failed", "unknown", "stopping"];

    pub(crate) fn number(&self) -> usize {
        match self {
            Outcome::Admitted { .. } => 0,
            Outcome::Duplicate { .. } => 1,
            Outcome::Closed { .. } => 2,
            Outcome::Busy { .. } => 3,
            Outcome::TimedOut { .. } => 4,
            Outcome::Failed { .. } => 5,
            Outcome::Unknown { .. } => 6,
            Outcome::Stopping => 7,
        }
    }
}

/// The state of a raffle, by its commits.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) seats: u64,
    pub(crate) count: u64,
    pub(crate) closed: bool,
    pub(crate) waiting: u64,
}

pub(crate) enum Raffle {
    Turnwise { admission: Admission<Who, Sqlite>, pool: ThreadPool, limits: Limits },
    Mutex { connection: Arc<Mutex<Sqlite>>, entries: Entries },
    Immediate { pool: Arc<Connections>, entries: Entries },
}

impl Raffle {
    /// Opens a raffle, and returns its entrants.
    pub(crate) fn open(
        mode: Mode,
        path: &Path,
        terms: &Terms,
        metrics: &Arc<Metrics>,
    ) -> Result<(Self, Vec<(Who, u64)>), String> {
        let failed = |error: LedgerError| format!("{}: {error}", path.display());
        let sharing = match mode {
            Mode::Turnwise | Mode::Mutex => Sharing::Alone,
            Mode::Immediate => Sharing::Shared { wait: terms.wait },
        };
        let open = || Sqlite::open(path, sharing, metrics.clone(), terms.slower).map_err(failed);
        let first = open()?;
        first.check().map_err(failed)?;
        let entrants = first.entrants().map_err(failed)?;
        let entries = Entries::new(terms, entrants.len() as u64);
        let raffle = match mode {
            Mode::Turnwise => {
                let pool = ThreadPool::builder().threads(1).thread_name("ledger").build();
                let pool = pool.map_err(|error| format!("no thread for the ledger: {error}"))?;
                let admission = Admission::builder(first, terms.seats)
                    .group(terms.group)
                    .executor(pool.handle())
                    .open()
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                let limits = Limits::wait(terms.wait).refuse_early();
                Raffle::Turnwise { admission, pool, limits }
            }
            Mode::Mutex => Raffle::Mutex { connection: Arc::new(Mutex::new(first)), entries },
            Mode::Immediate => {
                let mut idle = vec![first];
                while idle.len() < terms.connections {
                    idle.push(open()?);
                }
                let permits = Arc::new(Semaphore::new(idle.len()));
                let pool = Arc::new(Connections { permits, idle: idle.into() });
                Raffle::Immediate { pool, entries }
            }
        };
        Ok((raffle, entrants))
    }

    pub(crate) async fn apply(&self, who: Who) -> Outcome {
        match self {
            Raffle::Turnwise { admission, limits, .. } => {
                match admission.apply(who, *limits).await {
                    Ok(admitted) => Outcome::Admitted { place: admitted.place },
                    Err(refused) => told(refused),
                }
            }
            Raffle::Mutex { connection, entries } => {
                let lock = connection.clone().lock_owned();
                entries.one(lock, move |mut sqlite, limit| sqlite.enter_alone(&who, limit)).await
            }
            Raffle::Immediate { pool, entries } => {
                let permit = pool.permits.clone().acquire_owned();
                let pool = pool.clone();
                let enter = move |_permit, limit| {
                    let mut sqlite = pool.idle().pop().ok_or(LedgerError::Undone)?;
                    let entered = sqlite.enter_alone(&who, limit);
                    pool.idle().push(sqlite);
                    entered
                };
                entries.one(permit, enter).await
            }
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        match self {
            Raffle::Turnwise { admission, .. } => {
                let status = admission.status();
                let (seats, count, closed) = (status.limit, status.count, status.closed);
                Standing { seats, count, closed, waiting: status.waiting as u64 }
            }
            Raffle::Mutex { entries, .. } | Raffle::Immediate { entries, .. } => {
                let (seats, count) = (entries.seats, entries.count.load(Relaxed));
                let waiting = entries.waiting.load(Relaxed);
                Standing { seats, count, closed: count >= seats, waiting }
            }
        }
    }

    /// Decides the waiting applications, and closes the file. Returns false if the limit passes
    /// first. Blocks.
    pub(crate) fn shut_down(self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        match self {
            Raffle::Turnwise { admission, pool, .. } => {
                let ended = admission.shutdown(limit) == Ok(true);
                drop(admission);
                ended
                    && pool.shutdown(until.saturating_duration_since(Instant::now())).is_complete()
            }
            // Their entries end with their requests; the files are closed when they are dropped.
            Raffle::Mutex { .. } | Raffle::Immediate { .. } => true,
        }
    }
}

fn told(refused: Refused<LedgerError>) -> Outcome {
    match refused {
        Refused::Closed { limit } => Outcome::Closed { seats: limit },
        Refused::Duplicate { place } => Outcome::Duplicate { place },
        Refused::Expected { wait } => Outcome::Busy { expected: wait },
        Refused::TimedOut { waited } => Outcome::TimedOut { waited },
        Refused::Busy => Outcome::TimedOut { waited: Duration::ZERO },
        Refused::Gone(_) => Outcome::Stopping,
        Refused::Unknown(_) | Refused::NotAwaited(_) => {
            Outcome::Unknown { why: refused.to_string() }
        }
        refused => Outcome::Failed { why: refused.to_string() },
    }
}

/// Entries with a transaction each: the common part of the two modes for comparison.
pub(crate) struct Entries {
    seats: u64,
    wait: Duration,
    count: Arc<AtomicU64>,
    waiting: AtomicU64,
}

/// A waiting application; dropped, it no longer counts.
struct Waiting<'a>(&'a AtomicU64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Entries {
    fn new(terms: &Terms, count: u64) -> Self {
        let count = Arc::new(AtomicU64::new(count));
        Entries { seats: terms.seats, wait: terms.wait, count, waiting: AtomicU64::new(0) }
    }

    /// Waits for its turn, and then enters on a thread that may block.
    async fn one<P: Send + 'static>(
        &self,
        turn: impl Future<Output = P>,
        enter: impl FnOnce(P, u64) -> Result<Alone, LedgerError> + Send + 'static,
    ) -> Outcome {
        let seats = self.seats;
        if self.count.load(Relaxed) >= seats {
            return Outcome::Closed { seats };
        }
        let since = Instant::now();
        self.waiting.fetch_add(1, Relaxed);
        let waiting = Waiting(&self.waiting);
        let Ok(turn) = timeout(self.wait, turn).await else {
            return Outcome::TimedOut { waited: since.elapsed() };
        };
        let count = self.count.clone();
        // If the request is dropped meanwhile, this goes on: so it counts, too.
        let entered = spawn_blocking(move || {
            let entered = enter(turn, seats);
            if let Ok(Alone::In { place }) = entered {
                count.fetch_max(place, Relaxed);
            }
            entered
        });
        let entered = entered.await;
        drop(waiting);
        match entered {
            Ok(Ok(Alone::In { place })) => Outcome::Admitted { place },
            Ok(Ok(Alone::Duplicate { place })) => Outcome::Duplicate { place },
            Ok(Ok(Alone::Closed)) => Outcome::Closed { seats },
            Ok(Err(error)) if error.is_busy() => Outcome::TimedOut { waited: since.elapsed() },
            Ok(Err(error)) => Outcome::Failed { why: error.to_string() },
            Err(error) => Outcome::Unknown { why: error.to_string() },
        }
    }
}

/// Connections to one file. The holder of a permit finds an idle one.
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    idle: std::sync::Mutex<Vec<Sqlite>>,
}

impl Connections {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Sqlite>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
