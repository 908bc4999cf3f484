//! The ledger: the admitted applicants, in an SQLite file.
//!
//! Two tables that agree at every commit: a row for each entrant, with its place, and one row with
//! their count. A commit is durable when it has returned: `synchronous=FULL`, with a write-ahead
//! log, which needs one sync of one file for each commit (a rollback journal needs four).
//!
//! | of a unit of work | in SQLite                                        |
//! |-------------------|--------------------------------------------------|
//! | `begin`           | `BEGIN IMMEDIATE`                                |
//! | `enter`           | `SAVEPOINT`, insert, count, `RELEASE`            |
//! | `commit`          | `COMMIT`                                         |
//! | `roll_back`       | `ROLLBACK`, if a transaction is open             |
//! | `load`            | all rows, if they and the count agree            |
//!
//! - L1: rows are numbered 1 to `count`, without a gap.
//! - L2: some errors (a full disk, a trigger's `RAISE(ROLLBACK)`) end the whole transaction, not
//!   only the statement. Then nothing more is entered into that unit, because a `SAVEPOINT` would
//!   begin a transaction of its own; and its commit reports that it was rolled back.
//! - L3: a `COMMIT` that fails and leaves the transaction open has not committed. One that fails
//!   and leaves none has an unknown outcome: `load` decides.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use turnwise_locks::admission::{CommitError, Ledger};

use crate::metrics::Metrics;

/// The name of an applicant.
pub(crate) type Who = Arc<str>;

/// The id that marks a file as a raffle's: "rafl".
const APPLICATION_ID: i64 = 0x7261_666c;

const SCHEMA: &str = "
    CREATE TABLE entrant (
        id    TEXT    NOT NULL PRIMARY KEY,
        place INTEGER NOT NULL UNIQUE CHECK (place > 0)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE raffle (
        one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        count INTEGER NOT NULL CHECK (count >= 0)
    ) STRICT;
    INSERT INTO raffle VALUES (1, 0);
";

/// An error of a ledger.
#[derive(Debug)]
pub(crate) enum LedgerError {
    Sqlite(rusqlite::Error),
    /// The file is damaged, or not a raffle's.
    Corrupt(String),
    /// An earlier error has ended the transaction that this belongs to (L2).
    Undone,
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerError::Sqlite(error) if self.is_busy() => {
                write!(f, "{error}: another program uses it")
            }
            LedgerError::Sqlite(error) => error.fmt(f),
            LedgerError::Corrupt(what) => f.write_str(what),
            LedgerError::Undone => f.write_str("an earlier error has undone this transaction"),
        }
    }
}

impl std::error::Error for LedgerError {}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        LedgerError::Sqlite(error)
    }
}

impl LedgerError {
    /// Returns true if another connection has the file.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, LedgerError::Sqlite(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy))
    }
}

/// The other users of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// None: a second server gets an error when it starts.
    Alone,
    /// Other connections. A statement waits this long for theirs.
    Shared { wait: Duration },
}

/// A connection to the file.
pub(crate) struct Sqlite {
    connection: Connection,
    metrics: Arc<Metrics>,
    /// A MODEL of a slower disk: each commit takes this much longer.
    slower: Duration,
}

/// The outcome of an entry with a transaction of its own.
pub(crate) enum Alone {
    In { place: u64 },
    Duplicate { place: u64 },
    Closed,
}

impl Sqlite {
    /// Opens the file, and makes it if it does not exist.
    pub(crate) fn open(
        path: &Path,
        sharing: Sharing,
        metrics: Arc<Metrics>,
        slower: Duration,
    ) -> Result<Self, LedgerError> {
        let connection = Connection::open(path)?;
        let (wait, locking) = match sharing {
            Sharing::Alone => (Duration::from_secs(1), "EXCLUSIVE"),
            Sharing::Shared { wait } => (wait, "NORMAL"),
        };
        connection.busy_timeout(wait)?;
        connection.pragma_update(None, "locking_mode", locking)?;
        let ledger = Sqlite { connection, metrics, slower };
        ledger.make()?;
        ledger.connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        ledger.connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(ledger)
    }

    /// Makes the tables in an empty file; rejects a file that is not a raffle's.
    fn make(&self) -> Result<(), LedgerError> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let id = self.number("PRAGMA application_id")?;
        if id == 0 && self.number("SELECT count(*) FROM sqlite_schema")? == 0 {
            self.connection.execute_batch(SCHEMA)?;
            self.connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        } else if id != APPLICATION_ID {
            return Err(LedgerError::Corrupt("it is a database, but not a raffle's".into()));
        }
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn number(&self, query: &str) -> Result<i64, rusqlite::Error> {
        self.connection.query_row(query, [], |row| row.get(0))
    }

    /// Checks the whole file.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        let found: String = self.connection.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
        if found == "ok" { Ok(()) } else { Err(LedgerError::Corrupt(found)) }
    }

    /// Returns all entrants, in the order of their places.
    pub(crate) fn entrants(&self) -> Result<Vec<(Who, u64)>, LedgerError> {
        let count = self.count()?;
        let mut query = self.connection.prepare("SELECT id, place FROM entrant ORDER BY place")?;
        let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        let mut entrants = Vec::new();
        for row in rows {
            let (id, place) = row?;
            entrants.push((Who::from(id), place));
        }
        let last = entrants.last().map_or(0, |(_, place)| *place);
        let rows = entrants.len() as u64;
        // L1. Places are unique, and above zero.
        if rows != count || last != count {
            return Err(LedgerError::Corrupt(format!(
                "{rows} entrants, the last in place {last}, and a count of {count}"
            )));
        }
        Ok(entrants)
    }

    fn count(&self) -> Result<u64, LedgerError> {
        Ok(self
            .connection
            .prepare_cached("SELECT count FROM raffle WHERE one = 1")?
            .query_row([], |row| row.get(0))?)
    }

    fn place(&self, who: &Who) -> Result<Option<u64>, LedgerError> {
        Ok(self
            .connection
            .prepare_cached("SELECT place FROM entrant WHERE id = ?1")?
            .query_row([&**who], |row| row.get(0))
            .optional()?)
    }

    fn run(&self, statement: &str) -> Result<(), LedgerError> {
        self.connection.prepare_cached(statement)?.execute([])?;
        Ok(())
    }

    /// Makes one entry in a transaction of its own, as a server does that commits for each request.
    pub(crate) fn enter_alone(&mut self, who: &Who, limit: u64) -> Result<Alone, LedgerError> {
        self.begin()?;
        let decided = self.decide(who, limit);
        let ended = match decided {
            Ok(Alone::In { .. }) => match self.commit() {
                Ok(()) => return decided,
                Err(CommitError::RolledBack(error)) => Err(error),
                // L3.
                Err(CommitError::Unknown(error)) => match self.place(who) {
                    Ok(Some(_)) => return decided,
                    _ => Err(error),
                },
            },
            refused => refused,
        };
        self.roll_back();
        ended
    }

    fn decide(&mut self, who: &Who, limit: u64) -> Result<Alone, LedgerError> {
        let count = self.count()?;
        if count >= limit {
            return Ok(Alone::Closed);
        }
        if let Some(place) = self.place(who)? {
            return Ok(Alone::Duplicate { place });
        }
        let place = count + 1;
        self.enter(who, place)?;
        Ok(Alone::In { place })
    }
}

impl Ledger<Who> for Sqlite {
    type Row = ();
    type Error = LedgerError;

    fn load(&mut self) -> Result<Vec<(Who, u64)>, LedgerError> {
        Ok(self.entrants()?.into_iter().collect())
    }

    fn begin(&mut self) -> Result<(), LedgerError> {
        self.run("BEGIN IMMEDIATE")
    }

    fn enter(&mut self, who: &Who, place: u64) -> Result<(), LedgerError> {
        // L2.
        if self.connection.is_autocommit() {
            return Err(LedgerError::Undone);
        }
        self.run("SAVEPOINT entry")?;
        let entered = self
            .connection
            .prepare_cached("INSERT INTO entrant (id, place) VALUES (?1, ?2)")
            .and_then(|mut insert| insert.execute(params![&**who, place]))
            .map_err(LedgerError::from)
            .and_then(|_| self.run("UPDATE raffle SET count = count + 1 WHERE one = 1"))
            .and_then(|()| self.run("RELEASE entry"));
        if entered.is_err() && !self.connection.is_autocommit() {
            let undone = self.run("ROLLBACK TO entry").and_then(|()| self.run("RELEASE entry"));
            if undone.is_err() {
                // Half an entry must not stay: L2 applies to the rest of the unit.
                self.roll_back();
            }
        }
        entered
    }

    fn commit(&mut self) -> Result<(), CommitError<LedgerError>> {
        // L2.
        if self.connection.is_autocommit() {
            return Err(CommitError::RolledBack(LedgerError::Undone));
        }
        if !self.slower.is_zero() {
            std::thread::sleep(self.slower);
        }
        match self.run("COMMIT") {
            Ok(()) => {
                self.metrics.committed();
                Ok(())
            }
            // L3.
            Err(error) if self.connection.is_autocommit() => Err(CommitError::Unknown(error)),
            Err(error) => Err(CommitError::RolledBack(error)),
        }
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.run("ROLLBACK")
        {
            // After a panic the rows are read again before another applicant is admitted.
            panic!("not rolled back: {error}");
        }
    }
}
