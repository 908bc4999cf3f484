//! A store in a file of this machine.
//!
//! The file is an SQLite database that contains a log of steps with their times. The objects follow
//! from the steps alone, so each process that has read the log to the same position has the same
//! objects. A step is written in a transaction that first reads the steps of other processes, so
//! all processes agree on the order. Now and then a snapshot of the objects is written, and the log
//! before it is deleted.
//!
//! - F1: an answer is given after the transaction is on the disk (`synchronous = FULL`).
//! - F2: steps that arrive while one is written are written together: one transaction, one `fsync`.
//! - F3: after an error the objects are read again, so memory contains nothing that is not in the
//!   file.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tokio::sync::oneshot;

use crate::error::{ConnectError, Effect, Refusal, StoreError};
use crate::memory;
use crate::step::{Answer, Notice, Op};
use crate::store::{Called, NoticeSink, Store};
use crate::tables::Tables;

/// The maximum number of steps in one transaction.
const MOST_AT_ONCE: usize = 1024;

/// The minimum number of steps between two snapshots of the objects.
const STEPS_KEPT: i64 = 10_000;

/// The interval at which steps of other processes are read.
const LOOK: Duration = Duration::from_millis(20);

/// The time that a process waits for the transaction of another one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Objects in a file of this machine, with the same steps as in a server: for several processes on
/// one machine, or for one process that must survive restarts. Clones share the same store.
///
/// Each answered step is on the disk. Each process also keeps all objects in memory, and has one
/// thread, which ends with the last clone. Several processes may open the file at a time, but not
/// over a network.
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
    requests: Sender<Request>,
    sinks: Sinks,
}

type Sinks = Arc<Mutex<HashMap<String, NoticeSink>>>;

struct Request {
    op: Op,
    answer: oneshot::Sender<Result<Answer, StoreError>>,
}

impl FileStore {
    /// Opens a file, or creates it.
    ///
    /// # Errors
    /// [`ConnectError::Store`] if the file is of another kind, or cannot be read or written.
    /// [`ConnectError::System`] if no thread can be started.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ConnectError> {
        let path: PathBuf = path.as_ref().into();
        let log = Log::open(&path).map_err(|error| ConnectError::Store(failed("open", &error)))?;
        let (requests, asked) = channel();
        let sinks = Sinks::default();
        let told = sinks.clone();
        let builder = thread::Builder::new().name("turnwise-file".to_owned());
        let thread = builder.spawn(move || run(log, &asked, &told));
        thread.map_err(|error| ConnectError::System(error.to_string()))?;
        Ok(FileStore { path: path.into(), requests, sinks })
    }
}

impl Store for FileStore {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let gone = || StoreError::TimedOut { effect: Effect::Unknown };
            let request = Request { op: op.clone(), answer };
            self.requests.send(request).map_err(|_| gone())?;
            answered.await.unwrap_or_else(|_| Err(gone()))
        })
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        sinks.insert(client.to_owned(), sink);
    }

    fn forget(&self, client: &str) {
        let sink = self.sinks.lock().unwrap_or_else(PoisonError::into_inner).remove(client);
        drop(sink);
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Serves requests until all senders are dropped.
fn run(mut log: Log, asked: &Receiver<Request>, sinks: &Sinks) {
    loop {
        let mut notices = Vec::new();
        match asked.recv_timeout(LOOK) {
            Ok(first) => {
                let mut requests = vec![first];
                requests.extend(asked.try_iter().take(MOST_AT_ONCE - 1));
                let ops: Vec<_> = requests.iter().map(|request| &request.op).collect();
                let answers = log.write(&ops, &mut notices);
                if answers.is_err() {
                    notices.clear();
                    log.forget();
                }
                for (index, Request { op, answer }) in requests.into_iter().enumerate() {
                    // The receiver of a request that was given up is gone.
                    let _ = answer.send(match &answers {
                        Ok(answers) => Ok(answers[index].clone()),
                        Err(error) => Err(failed(op.step.name(), error)),
                    });
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if log.read_others(&mut notices).is_err() {
                    log.forget();
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let told = {
            let sinks = sinks.lock().unwrap_or_else(PoisonError::into_inner);
            memory::told(&sinks, notices)
        };
        told.into_iter().for_each(|(sink, notice)| sink(notice));
    }
}

/// An error of reading or writing the file.
#[derive(Debug)]
enum Failure {
    Database(rusqlite::Error),
    /// The content is not of this version.
    Format(postcard::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Database(error)
    }
}

impl From<postcard::Error> for Failure {
    fn from(error: postcard::Error) -> Self {
        Failure::Format(error)
    }
}

fn failed(step: &'static str, failure: &Failure) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, NotADatabase};
    let error = match failure {
        Failure::Format(error) => {
            return StoreError::WrongStore { needs: format!("a file of this version: {error}") };
        }
        Failure::Database(error) => error,
    };
    let why = error.to_string();
    match error.sqlite_error_code() {
        // Another process has locked it.
        Some(DatabaseBusy | DatabaseLocked) => {
            StoreError::Unreachable { since: Duration::ZERO, why }
        }
        Some(DiskFull) => StoreError::Refused { refusal: Refusal::Full, step, why },
        Some(NotADatabase) => StoreError::WrongStore { needs: format!("a file of its own: {why}") },
        _ => StoreError::Refused { refusal: Refusal::Other, step, why },
    }
}

/// The file, and the objects as of a step of its log.
struct Log {
    file: Connection,
    tables: Tables,
    /// The last step that the objects reflect, and its time.
    seq: i64,
    at: u64,
    /// The step of the last snapshot, and the number of steps until the next one.
    written: i64,
    kept: i64,
}

impl Log {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = Connection::open(path)?;
        file.busy_timeout(PATIENCE)?;
        file.pragma_update(None, "journal_mode", "WAL")?;
        file.pragma_update(None, "synchronous", "FULL")?;
        file.execute_batch(
            "CREATE TABLE IF NOT EXISTS log
                 (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, op BLOB NOT NULL);
             CREATE TABLE IF NOT EXISTS objects
                 (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL,
                  at INTEGER NOT NULL, tables BLOB NOT NULL);",
        )?;
        let mut log = Log { file, tables: Tables::default(), seq: 0, at: 0, written: 0, kept: 0 };
        log.write(&[], &mut Vec::new())?;
        Ok(log)
    }

    /// Resets memory, when it may differ from the file.
    fn forget(&mut self) {
        (self.tables, self.seq, self.at) = (Tables::default(), 0, 0);
        (self.written, self.kept) = (0, 0);
    }

    /// Applies steps that other processes have written since.
    fn read_others(&mut self, notices: &mut Vec<Notice>) -> Result<(), Failure> {
        let last: Option<i64> =
            self.file.query_row("SELECT max(seq) FROM log", [], |row| row.get(0))?;
        if last.is_some_and(|last| last > self.seq) {
            self.write(&[], notices)?;
        }
        Ok(())
    }

    /// Writes steps behind those of others, and applies both.
    fn write(&mut self, ops: &[&Op], notices: &mut Vec<Notice>) -> Result<Vec<Answer>, Failure> {
        let Log { file, tables, seq, at, written, kept } = self;
        let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let objects = "SELECT seq, at, tables FROM objects WHERE seq > ?1";
        let newer: Option<(i64, i64, Vec<u8>)> = transaction
            .query_row(objects, [*seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        if let Some((of, moment, bytes)) = newer {
            *tables = postcard::from_bytes(&bytes)?;
            (*seq, *at, *written) = (of, moment.cast_unsigned(), of);
            *kept = steps_kept(&bytes);
        }
        {
            let mut others = transaction
                .prepare_cached("SELECT seq, at, op FROM log WHERE seq > ?1 ORDER BY seq")?;
            let mut others = others.query([*seq])?;
            while let Some(row) = others.next()? {
                let bytes: Vec<u8> = row.get(2)?;
                let op: Op = postcard::from_bytes(&bytes)?;
                (*seq, *at) = (row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned());
                tables.step(*at, &op, notices);
            }
        }
        let mut answers = Vec::with_capacity(ops.len());
        if !ops.is_empty() {
            let mut insert =
                transaction.prepare_cached("INSERT INTO log (seq, at, op) VALUES (?1, ?2, ?3)")?;
            for op in ops {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let now = now.unwrap_or_default().as_micros();
                // Time never goes back, whatever process wrote before.
                *at = u64::try_from(now).unwrap_or(u64::MAX).max(*at);
                *seq += 1;
                insert.execute(params![*seq, at.cast_signed(), postcard::to_stdvec(op)?])?;
                answers.push(tables.step(*at, op, notices));
            }
        }
        if *seq - *written >= (*kept).max(STEPS_KEPT) {
            let all = postcard::to_stdvec(tables)?;
            *kept = steps_kept(&all);
            let replace =
                "INSERT OR REPLACE INTO objects (one, seq, at, tables) VALUES (1, ?1, ?2, ?3)";
            transaction.execute(replace, params![*seq, at.cast_signed(), all])?;
            // The last step stays, so that other processes see that there is something new.
            transaction.execute("DELETE FROM log WHERE seq < ?1", [*seq])?;
            *written = *seq;
        }
        transaction.commit()?;
        Ok(answers)
    }
}

/// The number of steps between snapshots of this size, which keeps the cost for each step small.
fn steps_kept(objects: &[u8]) -> i64 {
    i64::try_from(objects.len() / 100).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Step, Token};

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

    fn op(step: Step) -> Op {
        Op { key: "t:{lock:a}".to_owned(), places: 1, above: 0, step }
    }

    fn acquire(number: u64) -> Op {
        let (token, lease) = (Token::new("c", number), Duration::from_secs(1000));
        op(Step::Acquire { token, lease, alive: Some(lease) })
    }

    fn look(log: &mut Log) -> Answer {
        log.write(&[&op(Step::Look)], &mut Vec::new()).unwrap().remove(0)
    }

    fn without_times(answer: Answer) -> (Vec<(u32, Token)>, u64, u64) {
        let Answer::Seen { holders, fence, waiting } = answer else { panic!("{answer:?}") };
        (holders.into_iter().map(|(place, token, _)| (place, token)).collect(), fence, waiting)
    }

    /// Snapshots replace the log; a process that was behind reads the snapshot.
    #[test]
    fn logs_are_kept_short() {
        let folder = Folder::new("short");
        let path = folder.0.join("store");
        let (mut first, mut behind) = (Log::open(&path).unwrap(), Log::open(&path).unwrap());
        let ops: Vec<_> = (0..100).map(acquire).collect();
        let ops: Vec<_> = ops.iter().collect();
        let rounds = STEPS_KEPT / 100 + 3;
        for _ in 0..rounds {
            first.write(&ops, &mut Vec::new()).unwrap();
        }
        let count = |table: &str| -> i64 {
            let count = format!("SELECT count(*) FROM {table}");
            first.file.query_row(&count, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(count("objects"), 1);
        assert!(count("log") < STEPS_KEPT / 2, "{}", count("log"));
        let seen = without_times(look(&mut first));
        assert_eq!((&seen.0[..], seen.2), (&[(1, Token::new("c", 0))][..], 99));
        assert_eq!(without_times(look(&mut behind)), seen);
        assert_eq!(without_times(look(&mut Log::open(&path).unwrap())), seen);
    }

    /// A failed transaction leaves nothing in memory.
    #[test]
    fn failures_leave_nothing() {
        let folder = Folder::new("failures");
        let path = folder.0.join("store");
        let (mut log, mut other) = (Log::open(&path).unwrap(), Log::open(&path).unwrap());
        log.write(&[&acquire(0)], &mut Vec::new()).unwrap();
        log.file
            .execute_batch(
                "CREATE TRIGGER full BEFORE INSERT ON log WHEN new.seq = 3
            BEGIN SELECT raise(FAIL, 'the disk is full'); END",
            )
            .unwrap();
        let error = log.write(&[&acquire(1), &acquire(2)], &mut Vec::new()).unwrap_err();
        assert!(failed("acquire", &error).to_string().contains("the disk is full"));
        log.forget();
        log.file.execute_batch("DROP TRIGGER full").unwrap();
        let seen = without_times(look(&mut log));
        assert_eq!(seen.2, 0);
        assert_eq!(without_times(look(&mut other)), seen);
    }

    #[test]
    fn what_is_no_store_is_refused() {
        let folder = Folder::new("wrong");
        let open = |path: &Path| FileStore::open(path).map(drop).unwrap_err();
        let path = folder.0.join("text");
        std::fs::write(&path, "a text, and no database. ".repeat(100)).unwrap();
        let error = open(&path);
        assert!(matches!(error, ConnectError::Store(StoreError::WrongStore { .. })), "{error}");
        for path in [folder.0.clone(), folder.0.join("no/such/folder")] {
            let error = open(&path);
            assert!(matches!(error, ConnectError::Store(StoreError::Refused { .. })), "{error}");
        }
        // A file of another version.
        let path = folder.0.join("store");
        let log = Log::open(&path).unwrap();
        log.file.execute("INSERT INTO log VALUES (1, 1, x'FFFFFFFF')", []).unwrap();
        let error = open(&path);
        assert!(matches!(error, ConnectError::Store(StoreError::WrongStore { .. })), "{error}");
    }
}
