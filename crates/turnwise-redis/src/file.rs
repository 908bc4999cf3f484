//! A store in a file of this machine: an SQLite database.
//!
//! - FILE-1: a swap returns after the transaction is on the disk (`synchronous = FULL`).
//! - FILE-2: steps that arrive while others are written are written together: one transaction, one
//!   `fsync`.
//! - FILE-3: a transaction begins with the first load and ends with the swap, so steps of several
//!   processes wait for one another, and none has to be run again.
//! - FILE-4: a file that was deleted or replaced is used no more: other processes would open
//!   another one at its path, and hold the same locks.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, params};

use crate::engine::{Change, Engine, Loaded, Over, Read, Value, Which};
use crate::error::{ConnectError, Refusal, StoreError};
use crate::record::micros;
use crate::step::{Notice, Op, Token};
use crate::store::{Called, NoticeSink, Store};

/// The version of the tables.
const VERSION: i64 = 2;

/// The time that a process waits for the transaction of another one.
const PATIENCE: Duration = Duration::from_secs(2);

/// The number of notices that are kept for other processes.
const NOTICES: i64 = 4096;

/// The number of swaps after which expired objects are deleted, and how many at once.
const SWAPS: u32 = 64;
const EXPIRED: u32 = 256;

const TABLES: &str = "
    CREATE TABLE objects
        (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
         at INTEGER NOT NULL, expires INTEGER);
    CREATE INDEX expiries ON objects (expires) WHERE expires IS NOT NULL;
    CREATE TABLE rows
        (object INTEGER NOT NULL, key TEXT NOT NULL, row BLOB NOT NULL,
         PRIMARY KEY (object, key)) WITHOUT ROWID;
    CREATE TRIGGER expired AFTER DELETE ON objects
        BEGIN DELETE FROM rows WHERE object = old.id; END;
    CREATE TABLE notices (seq INTEGER PRIMARY KEY, token TEXT NOT NULL, lost INTEGER NOT NULL);
";

/// Objects in a file of this machine, with the same steps as in a server: for several processes on
/// one machine, or for one process that must survive restarts. Clones share the same store.
///
/// If the file is deleted, moved or replaced, calls of the processes that have it open fail
/// ([`StoreError::WrongStore`]).
///
/// Each answered step is on the disk. Each process has one thread, which ends with the last clone.
/// Several processes may open the file at a time, but not over a network.
///
/// # Examples
/// ```
/// use turnwise_redis::{FileStore, Remote};
///
/// # let folder = std::env::temp_dir().join(format!("turnwise-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("store");
/// let remote = Remote::builder().over(FileStore::open(&path)?)?;
/// let guard = remote.locks().lock("order 7").wait()?;
///
/// let another = Remote::builder().over(FileStore::open(&path)?)?; // in another process, say
/// assert!(another.locks().try_lock("order 7").wait().is_err());
/// # drop(guard);
/// # drop((remote, another));
/// # let _ = std::fs::remove_dir_all(&folder);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FileStore {
    path: Arc<Path>,
    over: Over<File>,
}

impl FileStore {
    /// Opens a file, or creates it.
    ///
    /// # Errors
    /// [`ConnectError::Store`] if the file is of another kind, or cannot be read or written.
    /// [`ConnectError::System`] if no thread can be started.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ConnectError> {
        let path = path.as_ref();
        let over =
            Over::new(File::open(path).map_err(|failure| ConnectError::Store(failure.into()))?)?;
        Ok(FileStore { path: path.into(), over })
    }
}

impl Store for FileStore {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        self.over.call(op)
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        self.over.listen(client, sink);
    }

    fn forget(&self, client: &str) {
        self.over.forget(client);
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The engine.
struct File {
    file: Connection,
    /// The file's path, and what it was when it was opened.
    path: PathBuf,
    was: Option<Identity>,
    /// The last notice that was read or written.
    seen: i64,
    heard: Vec<Notice>,
    /// The number of swaps until expired objects are deleted.
    swaps: u32,
}

/// An error of reading or writing the file.
#[derive(Debug)]
enum FileFailure {
    Database(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for FileFailure {
    fn from(error: rusqlite::Error) -> Self {
        FileFailure::Database(error)
    }
}

impl From<FileFailure> for StoreError {
    fn from(failure: FileFailure) -> Self {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, NotADatabase};
        let error = match failure {
            FileFailure::Store(error) => return error,
            FileFailure::Database(error) => error,
        };
        let (why, step) = (error.to_string(), "use the file");
        match error.sqlite_error_code() {
            // Another process has locked it.
            Some(DatabaseBusy | DatabaseLocked) => {
                StoreError::Unreachable { since: Duration::ZERO, why }
            }
            Some(DiskFull) => StoreError::Refused { refusal: Refusal::Full, step, why },
            Some(NotADatabase) => {
                StoreError::WrongStore { needs: format!("an SQLite database at this path: {why}") }
            }
            _ => StoreError::Refused { refusal: Refusal::Other, step, why },
        }
    }
}

impl File {
    fn open(path: &Path) -> Result<Self, FileFailure> {
        // The program may change its folder, and SQLite has other names than paths: `:memory:`.
        let path = std::path::absolute(path).map_err(|error| {
            let (refusal, step, why) = (Refusal::Other, "use the file", error.to_string());
            FileFailure::Store(StoreError::Refused { refusal, step, why })
        })?;
        let file = Connection::open(&path)?;
        file.busy_timeout(PATIENCE)?;
        file.pragma_update(None, "journal_mode", "WAL")?;
        file.pragma_update(None, "synchronous", "FULL")?;
        // 16 MB are moved from the log to the tables at a time.
        file.pragma_update(None, "wal_autocheckpoint", 4096)?;
        // 32 MB of the tables are kept in memory.
        file.pragma_update(None, "cache_size", -32_768)?;
        file.set_prepared_statement_cache_capacity(32);
        let was = identity(&path);
        let mut engine = File { file, path, was, seen: 0, heard: Vec::new(), swaps: 0 };
        engine.begin()?;
        engine.or_roll_back(|engine| {
            let file = &engine.file;
            let version: i64 = file.pragma_query_value(None, "user_version", |row| row.get(0))?;
            let tables: i64 =
                file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if version == 0 && tables == 0 {
                file.execute_batch(TABLES)?;
                file.pragma_update(None, "user_version", VERSION)?;
            } else if version != VERSION {
                let needs = format!("a file of version {VERSION}, not {version}");
                return Err(FileFailure::Store(StoreError::WrongStore { needs }));
            }
            engine.seen = engine.last_notice()?;
            Ok(engine.file.execute_batch("COMMIT")?)
        })?;
        Ok(engine)
    }

    fn begin(&mut self) -> Result<(), FileFailure> {
        if self.file.is_autocommit() {
            // FILE-4.
            if self.was.is_some() && identity(&self.path) != self.was {
                let needs =
                    "the file that was opened: it was deleted, moved or replaced".to_owned();
                return Err(FileFailure::Store(StoreError::WrongStore { needs }));
            }
            self.file.execute_batch("BEGIN IMMEDIATE")?;
        }
        Ok(())
    }

    /// Ends the transaction without an effect after an error.
    fn or_roll_back<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, FileFailure>,
    ) -> Result<T, FileFailure> {
        let result = part(self);
        if result.is_err() && !self.file.is_autocommit() {
            // An error here is that of the transaction again.
            let _ = self.file.execute_batch("ROLLBACK");
        }
        result
    }

    fn last_notice(&self) -> Result<i64, FileFailure> {
        let mut last = self.file.prepare_cached("SELECT coalesce(max(seq), 0) FROM notices")?;
        Ok(last.query_row([], |row| row.get(0))?)
    }

    fn read(&self, read: &Read) -> Result<Loaded, FileFailure> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut object =
            self.file.prepare_cached("SELECT id, version, at FROM objects WHERE key = ?1")?;
        let object = object.query_row([&read.object], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        let Some((id, version, at)) = object.optional()? else {
            return Ok(Loaded { now, version: 0, rows: Vec::new() });
        };
        let mut rows = Vec::new();
        let select = "SELECT row FROM rows WHERE object = ?1 AND key = ?2";
        let mut select = self.file.prepare_cached(select)?;
        for which in &read.rows {
            match which {
                Which::Key(key) => {
                    let mut row = select.query(params![id, key])?;
                    if let Some(row) = row.next()? {
                        rows.push((key.clone(), value_in(row, 0)?));
                    }
                }
                Which::First { prefix, after, most } => {
                    let select = "SELECT key, row FROM rows
                        WHERE object = ?1 AND key >= ?2 AND key > ?3 ORDER BY key LIMIT ?4";
                    let mut first = self.file.prepare_cached(select)?;
                    let most = i64::try_from(*most).unwrap_or(i64::MAX);
                    let from = params![id, prefix, after.as_deref().unwrap_or(""), most];
                    let mut first = first.query(from)?;
                    while let Some(row) = first.next()? {
                        let key: String = row.get(0)?;
                        if !key.starts_with(prefix) {
                            break;
                        }
                        rows.push((key, value_in(row, 1)?));
                    }
                }
            }
        }
        // Time never goes back, whatever process wrote before.
        Ok(Loaded { now: now.max(time(at)), version: version.cast_unsigned(), rows })
    }

    /// Returns false if the object has another version.
    fn write(&self, change: &Change) -> Result<bool, FileFailure> {
        let Change { object, version, at, expires, rows } = change;
        let next = (version + 1).cast_signed();
        let values = params![object, next, column(*at), expires.map(column)];
        let id = if *version == 0 {
            let insert = "INSERT INTO objects (key, version, at, expires) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT DO NOTHING RETURNING id";
            let mut insert = self.file.prepare_cached(insert)?;
            insert.query_row(values, |row| row.get::<_, i64>(0)).optional()?
        } else {
            let update = "UPDATE objects SET version = ?2, at = ?3, expires = ?4
                WHERE key = ?1 AND version = ?2 - 1 RETURNING id";
            let mut update = self.file.prepare_cached(update)?;
            update.query_row(values, |row| row.get::<_, i64>(0)).optional()?
        };
        let Some(id) = id else { return Ok(false) };
        let replace = "INSERT INTO rows (object, key, row) VALUES (?1, ?2, ?3)
            ON CONFLICT DO UPDATE SET row = excluded.row";
        let mut replace = self.file.prepare_cached(replace)?;
        let delete = "DELETE FROM rows WHERE object = ?1 AND key = ?2";
        let mut delete = self.file.prepare_cached(delete)?;
        for (key, row) in rows {
            match row {
                Some(row) => replace.execute(params![id, key, row.to_bytes()])?,
                None => delete.execute(params![id, key])?,
            };
        }
        Ok(true)
    }

    /// Reads the notices of other processes.
    fn listen(&mut self) -> Result<(), FileFailure> {
        let last = self.last_notice()?;
        if last <= self.seen {
            return Ok(());
        }
        if last - self.seen > NOTICES {
            self.heard.push(Notice::LookAgain);
        }
        let select = "SELECT token, lost FROM notices WHERE seq > ?1 ORDER BY seq";
        let mut notices = self.file.prepare_cached(select)?;
        let mut notices = notices.query([self.seen])?;
        while let Some(row) = notices.next()? {
            let token = Token::from_text(row.get(0)?);
            let lost = row.get(1)?;
            self.heard.push(if lost { Notice::Lost(token) } else { Notice::Granted(token) });
        }
        self.seen = last;
        Ok(())
    }

    /// Writes notices for other processes.
    fn send(&mut self, notices: &[Notice]) -> Result<(), FileFailure> {
        for notice in notices {
            let (token, lost) = match notice {
                Notice::Granted(token) => (token, false),
                Notice::Lost(token) => (token, true),
                Notice::LookAgain => continue,
            };
            let insert = "INSERT INTO notices (token, lost) VALUES (?1, ?2)";
            let mut insert = self.file.prepare_cached(insert)?;
            insert.execute(params![token.as_str(), lost])?;
            self.seen = self.file.last_insert_rowid();
        }
        Ok(())
    }

    /// Deletes what is no longer needed.
    fn clean(&mut self, changes: &[Change]) -> Result<(), FileFailure> {
        self.swaps = self.swaps.saturating_sub(1);
        let Some(last) = changes.last() else { return Ok(()) };
        if self.swaps == 0 {
            self.swaps = SWAPS;
            let delete = "DELETE FROM objects WHERE id IN
                (SELECT id FROM objects WHERE expires <= ?1 LIMIT ?2)";
            let mut delete = self.file.prepare_cached(delete)?;
            delete.execute(params![column(last.at), EXPIRED])?;
            let mut delete = self.file.prepare_cached("DELETE FROM notices WHERE seq <= ?1")?;
            delete.execute([self.seen - NOTICES])?;
        }
        Ok(())
    }
}

/// A file by its device and its number there.
type Identity = (u64, u64);

/// Returns the file at a path. `None`: there is none, or the system does not say.
fn identity(path: &Path) -> Option<Identity> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(path).ok()?;
        Some((file.dev(), file.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Reads a row of an object from a column.
fn value_in(row: &rusqlite::Row<'_>, column: usize) -> Result<Value, FileFailure> {
    let bytes = row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?;
    Value::from_bytes(bytes).map_err(|error| FileFailure::Store(error.into()))
}

/// Returns a time as it is stored: the numbers of SQLite are signed.
fn column(time: Duration) -> i64 {
    i64::try_from(micros(time)).unwrap_or(i64::MAX)
}

fn time(micros: i64) -> Duration {
    Duration::from_micros(micros.cast_unsigned())
}

impl Engine for File {
    fn load(&mut self, reads: &[Read]) -> Result<Vec<Loaded>, StoreError> {
        self.begin()?;
        Ok(self.or_roll_back(|engine| reads.iter().map(|read| engine.read(read)).collect())?)
    }

    fn swap(&mut self, changes: &[Change], notices: &[Notice]) -> Result<bool, StoreError> {
        self.begin()?;
        let seen = self.seen;
        let swapped = self.or_roll_back(|engine| {
            for change in changes {
                if !engine.write(change)? {
                    engine.file.execute_batch("ROLLBACK")?;
                    return Ok(false);
                }
            }
            engine.listen()?;
            engine.send(notices)?;
            engine.clean(changes)?;
            engine.file.execute_batch("COMMIT")?;
            Ok(true)
        });
        if swapped.is_err() {
            self.seen = seen;
        }
        Ok(swapped?)
    }

    fn heard(&mut self) -> Result<Vec<Notice>, StoreError> {
        self.listen()?;
        Ok(std::mem::take(&mut self.heard))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::engine::run;
    use crate::step::{Answer, Step};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = format!("turnwise-file-test-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn op(name: &str, step: Step) -> Op {
        Op { key: format!("t:{{lock:{name}}}"), places: 1, above: 0, step }
    }

    fn acquire(name: &str, number: u64) -> Op {
        let (token, lease) = (Token::new("c", number), Duration::from_secs(1000));
        op(name, Step::Acquire { token, lease, alive: Some(lease) })
    }

    /// Returns the number of waiters of a lock.
    fn waiting(file: &mut File, name: &str) -> u64 {
        match run(file, &[&op(name, Step::Look)], &mut Vec::new()).unwrap().remove(0) {
            Answer::Seen { waiting, .. } => waiting,
            other => panic!("{other:?}"),
        }
    }

    fn count(file: &File, table: &str) -> i64 {
        let count = format!("SELECT count(*) FROM {table}");
        file.file.query_row(&count, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn expired_objects_are_deleted_with_their_rows() {
        let folder = Folder::new("expired");
        let mut file = File::open(&folder.0.join("store")).unwrap();
        for number in 0..u64::from(SWAPS) - 1 {
            let op = acquire(&format!("{number}"), number);
            run(&mut file, &[&op], &mut Vec::new()).unwrap();
        }
        file.file.execute("UPDATE objects SET expires = 1 WHERE id < 10", []).unwrap();
        assert_eq!((count(&file, "objects"), count(&file, "rows")), (63, 63));
        for number in 0..3 {
            run(&mut file, &[&acquire("last", number)], &mut Vec::new()).unwrap();
        }
        assert_eq!((count(&file, "objects"), count(&file, "rows")), (55, 55));
    }

    /// Others open another file at the path, where the same lock is free.
    #[cfg(unix)]
    #[test]
    fn files_that_are_gone_are_used_no_more() {
        let folder = Folder::new("gone");
        let path = folder.0.join("store");
        let mut file = File::open(&path).unwrap();
        run(&mut file, &[&acquire("a", 0)], &mut Vec::new()).unwrap();
        let is_refused = |file: &mut File| {
            let error = run(file, &[&acquire("a", 0)], &mut Vec::new());
            matches!(error, Err(StoreError::WrongStore { .. }))
        };
        std::fs::rename(&path, folder.0.join("moved")).unwrap();
        assert!(is_refused(&mut file));
        let mut other = File::open(&path).unwrap();
        run(&mut other, &[&acquire("a", 1)], &mut Vec::new()).unwrap();
        assert!(is_refused(&mut file));
        // It is back.
        std::fs::rename(folder.0.join("moved"), &path).unwrap();
        assert!(!is_refused(&mut file) && is_refused(&mut other));
    }

    /// A failed transaction leaves nothing behind, and is over.
    #[test]
    fn failures_leave_nothing() {
        let folder = Folder::new("failures");
        let path = folder.0.join("store");
        let (mut file, mut other) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        run(&mut file, &[&acquire("a", 0)], &mut Vec::new()).unwrap();
        file.file
            .execute_batch(
                "CREATE TRIGGER full BEFORE INSERT ON objects WHEN new.key LIKE '%b%'
                BEGIN SELECT raise(FAIL, 'the disk is full'); END",
            )
            .unwrap();
        let ops = [&acquire("a", 1), &acquire("b", 2)];
        let error = run(&mut file, &ops, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert_eq!((waiting(&mut other, "a"), waiting(&mut file, "a")), (0, 0));
        file.file.execute_batch("DROP TRIGGER full").unwrap();
        run(&mut file, &ops, &mut Vec::new()).unwrap();
        assert_eq!((waiting(&mut other, "a"), waiting(&mut file, "a")), (1, 1));
    }

    #[test]
    fn what_is_no_store_is_refused() {
        let folder = Folder::new("wrong");
        let open = |path: &Path| FileStore::open(path).map(drop).unwrap_err();
        let path = folder.0.join("text");
        std::fs::write(&path, "a text, and no database. ".repeat(100)).unwrap();
        let error = open(&path);
        assert!(matches!(error, ConnectError::Store(StoreError::WrongStore { .. })), "{error}");
        // SQLite opens addresses, and for no path a database that is deleted when it is closed.
        let address = format!("file:{}", folder.0.join("address").display());
        for path in
            [folder.0.clone(), folder.0.join("no/such/folder"), address.into(), PathBuf::new()]
        {
            let error = open(&path);
            assert!(matches!(error, ConnectError::Store(StoreError::Refused { .. })), "{error}");
        }
        // Databases of other programs, and of another version of this crate.
        for tables in ["CREATE TABLE log (seq INTEGER)", "PRAGMA user_version = 3"] {
            let path = folder.0.join(&tables[..6]);
            let other = Connection::open(&path).unwrap();
            other.execute_batch(tables).unwrap();
            let error = open(&path);
            assert!(matches!(error, ConnectError::Store(StoreError::WrongStore { .. })), "{error}");
        }
        // A row of a later version.
        let mut file = File::open(&folder.0.join("store")).unwrap();
        run(&mut file, &[&acquire("a", 0)], &mut Vec::new()).unwrap();
        file.file.execute("UPDATE rows SET row = x'FF00'", []).unwrap();
        let error = run(&mut file, &[&acquire("a", 0)], &mut Vec::new()).unwrap_err();
        assert!(matches!(error, StoreError::WrongStore { .. }), "{error}");
    }
}
