//! Three ways to hold a raffle: the admission, one mutex around everything, and nothing at all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use turnwise_locks::Limits;
use turnwise_locks::admission::{Admission, CommitError, Ledger, Refused};

use crate::options::Options;

/// The answer to an applicant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    In {
        place: u64,
    },
    Closed,
    Duplicate,
    TimedOut,
    /// Refused at once, as its turn was not to be expected in time.
    Expected,
    Failed,
}

/// Names and places, as they are written.
pub(crate) type Rows = Arc<Mutex<Vec<(u64, u64)>>>;

/// The text of panics that are part of the program.
pub(crate) const PLANNED: &str = "the disk is on fire, as was asked for";

/// A way to hold a raffle.
pub(crate) trait Raffle: Sync {
    /// Applies: the answer, and when the call had returned that takes the place in the queue.
    fn apply(&self, name: u64) -> (Told, Instant);
    /// The number of those who are in, by its own count.
    fn count(&self) -> u64;
}

/// As if an entry took so long.
fn pretend(time: Duration) {
    if !time.is_zero() {
        thread::sleep(time);
    }
}

/// The ledger of the admission: a list, with the times of a database.
struct Book {
    rows: Rows,
    open: Vec<(u64, u64)>,
    written: u64,
    service: Duration,
    commit: Duration,
    fail_every: Option<u64>,
    panic_every: Option<u64>,
}

/// An entry was not written.
#[derive(Debug)]
struct Unwritten;

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the entry was not written, as was asked for")
    }
}

impl Ledger<u64> for Book {
    type Row = ();
    type Error = Unwritten;

    fn load(&mut self) -> Result<Vec<(u64, u64)>, Unwritten> {
        Ok(self.rows.lock().iter().copied().collect())
    }

    fn begin(&mut self) -> Result<(), Unwritten> {
        Ok(())
    }

    fn enter(&mut self, name: &u64, place: u64) -> Result<(), Unwritten> {
        pretend(self.service);
        self.written += 1;
        if self.panic_every.is_some_and(|every| self.written % every == 0) {
            panic!("{}", PLANNED);
        }
        if self.fail_every.is_some_and(|every| self.written % every == 0) {
            return Err(Unwritten);
        }
        self.open.push((*name, place));
        Ok(())
    }

    fn commit(&mut self) -> Result<(), CommitError<Unwritten>> {
        pretend(self.commit);
        self.rows.lock().append(&mut self.open);
        Ok(())
    }

    fn roll_back(&mut self) {
        self.open.clear();
    }
}

struct Admitting {
    admission: Admission<u64, Book>,
    limits: Limits,
}

impl Raffle for Admitting {
    fn apply(&self, name: u64) -> (Told, Instant) {
        let apply = self.admission.apply(name, self.limits);
        let applied = Instant::now();
        let told = match apply.wait() {
            Ok(admitted) => Told::In { place: admitted.place },
            Err(Refused::Closed { .. }) => Told::Closed,
            Err(Refused::Duplicate { .. }) => Told::Duplicate,
            Err(Refused::TimedOut { .. } | Refused::Busy) => Told::TimedOut,
            Err(Refused::Expected { .. }) => Told::Expected,
            Err(_) => Told::Failed,
        };
        (told, applied)
    }

    fn count(&self) -> u64 {
        self.admission.status().count
    }
}

/// Everything under one mutex, the commit too.
struct Mutexed {
    seats: u64,
    names: Mutex<HashMap<u64, u64>>,
    rows: Rows,
    times: (Duration, Duration),
    wait: Option<Duration>,
}

impl Raffle for Mutexed {
    fn apply(&self, name: u64) -> (Told, Instant) {
        let names = match self.wait {
            None => Some(self.names.lock()),
            Some(wait) => self.names.try_lock_for(wait),
        };
        let Some(mut names) = names else { return (Told::TimedOut, Instant::now()) };
        let count = names.len() as u64;
        let told = if count >= self.seats {
            Told::Closed
        } else if let Entry::Vacant(seat) = names.entry(name) {
            let place = count + 1;
            pretend(self.times.0);
            pretend(self.times.1);
            seat.insert(place);
            self.rows.lock().push((name, place));
            Told::In { place }
        } else {
            Told::Duplicate
        };
        (told, Instant::now())
    }

    fn count(&self) -> u64 {
        self.names.lock().len() as u64
    }
}

/// Looks, writes, and counts: three steps that others come between.
struct Unlocked {
    seats: u64,
    count: AtomicU64,
    rows: Rows,
    times: (Duration, Duration),
}

impl Raffle for Unlocked {
    fn apply(&self, name: u64) -> (Told, Instant) {
        let count = self.count.load(SeqCst);
        let told = if count >= self.seats {
            Told::Closed
        } else if self.rows.lock().iter().any(|(other, _)| *other == name) {
            Told::Duplicate
        } else {
            pretend(self.times.0);
            // A database would have the thread wait here.
            thread::yield_now();
            let place = count + 1;
            self.rows.lock().push((name, place));
            pretend(self.times.1);
            self.count.store(place, SeqCst);
            Told::In { place }
        };
        (told, Instant::now())
    }

    fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

/// A raffle, its name, and where it writes.
pub(crate) type Made = (&'static str, Box<dyn Raffle>, Rows);

/// The raffle that was asked for.
pub(crate) fn make(options: &Options) -> Result<Made, Box<dyn std::error::Error>> {
    let rows = Rows::default();
    let (seats, wait) = (options.seats, options.wait);
    let times = (options.service, options.commit);
    let written = rows.clone();
    if options.mutex {
        let raffle = Mutexed { seats, names: Mutex::default(), rows: written, times, wait };
        return Ok(("mutex", Box::new(raffle), rows));
    }
    if options.without_lock {
        let raffle = Unlocked { seats, count: AtomicU64::new(0), rows: written, times };
        return Ok(("without lock", Box::new(raffle), rows));
    }
    let book = Book {
        rows: written,
        open: Vec::new(),
        written: 0,
        service: options.service,
        commit: options.commit,
        fail_every: options.fail_every,
        panic_every: options.panic_every,
    };
    let admission = Admission::builder(book, seats).group(options.group).open()?;
    let mut limits = wait.map_or(Limits::NONE, Limits::wait);
    if options.refuse_early {
        limits = limits.refuse_early();
    }
    Ok(("admission", Box::new(Admitting { admission, limits }), rows))
}
