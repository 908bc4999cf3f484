//! The interface of databases, and the adapter that makes a store of one.
//!
//! The state machines of locks, slots, ticks, admissions and mailboxes run in the client. A
//! database keeps their objects as rows, and has no part in what they mean: it reads some rows of
//! an object with the object's version, and replaces rows if no version has changed since.
//!
//! ```text
//!   steps ──▶ Over: load ──▶ the machines ──▶ swap ──▶ answers, notices
//!                    ▲                          │
//!                    └─── a version has changed ┘
//! ```
//!
//! - ENGINE-1: the rows of one load, and the version beside them, are of one moment.
//! - ENGINE-2: a swap writes all of its changes, or none. It writes them only if each object still
//!   has the version that it was loaded with. Steps are answered only if all loads of an object had
//!   one version: those that only read, too.
//! - ENGINE-3: a swap that has returned is as durable as the database makes its writes.
//! - ENGINE-4: steps that arrive while others are swapped are run together, and swapped together.
//! - ENGINE-5: engines, and the wakers of callers, may panic. The thread of the store goes on.

use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::{ConnectError, Effect, StoreError};
use crate::step::{Answer, Notice, Op};
use crate::store::{Called, Life, NoticeSink, Store};
use crate::user_code::caught;
use crate::view::View;

pub use crate::view::{Value, ValueError};

/// The maximum number of steps that are swapped together.
const MOST_AT_ONCE: usize = 1024;

/// The number of lost races after which the client, which may repeat the step, hears of them.
const MOST_RACES: u32 = 1000;

/// The interval at which notices of other processes are read.
const LOOK: Duration = Duration::from_millis(20);

/// A read of rows of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The key of the object.
    pub object: String,
    /// The rows.
    pub rows: Vec<Which>,
}

/// The choice of rows in a [`Read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The row with this key, if there is one.
    Key(String),
    /// The first rows whose keys begin with a prefix, by the order of their bytes.
    First {
        /// The prefix.
        prefix: String,
        /// The key that all of them are behind. `None`: there is no such key.
        after: Option<String>,
        /// The maximum number of rows.
        most: usize,
    },
}

/// The answer to a [`Read`].
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The time of the database's clock since the Unix epoch. All clients of an object have the
    /// same clock. It should not go back.
    pub now: Duration,
    /// The version of the object. 0: there is no such object.
    pub version: u64,
    /// The rows that there are, in any order, each once or more often.
    pub rows: Vec<(String, Value)>,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The key of the object.
    pub object: String,
    /// The version that it has before the change. 0: it does not exist. It has another version
    /// after the change: the next one. An engine that deletes expired objects while others swap
    /// gives a new object a version that none of this key has had before.
    pub version: u64,
    /// The time of the change. An engine whose clock may go back stores it, and returns no earlier
    /// one beside the object.
    pub at: Duration,
    /// The time from which on the object may be deleted with all its rows. `None`: it is kept.
    pub expires: Option<Duration>,
    /// New values of rows by their keys. `None` deletes a row.
    pub rows: Vec<(String, Option<Value>)>,
}

/// A database that keeps objects: what [`Over`] needs of it.
///
/// Calls block their thread, which is that of the adapter. An engine may take a lock of the
/// database in `load` and release it in `swap`: each `load` is followed by further ones, then by a
/// `swap`, unless the load or the swap fails or a version has changed. Then the next call is a
/// `load`.
///
/// A call may panic, as if it had failed. Of a store with [a thread of its own](Over::new), the
/// steps are then [not answered in time](StoreError::TimedOut); of an [inline](Over::inline) one,
/// the panic goes on in the thread or task that made the step.
///
/// # Examples
/// An engine in this process's memory, as short as it can be:
/// ```
/// use std::collections::BTreeMap;
/// use std::time::SystemTime;
///
/// use turnwise_redis::engine::{Change, Engine, Loaded, Over, Read, Value, Which};
/// use turnwise_redis::step::Notice;
/// use turnwise_redis::{Remote, StoreError};
///
/// #[derive(Default)]
/// struct InMemory {
///     versions: BTreeMap<String, u64>,
///     rows: BTreeMap<(String, String), Vec<u8>>,
/// }
///
/// impl Engine for InMemory {
///     fn load(&mut self, reads: &[Read]) -> Result<Vec<Loaded>, StoreError> {
///         let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
///         let load = |Read { object, rows: choices }: &Read| {
///             let version = self.versions.get(object).copied().unwrap_or(0);
///             let mut rows = Vec::new();
///             for ((of, key), bytes) in &self.rows {
///                 let mut chosen = choices.iter().filter(|which| match which {
///                     Which::Key(wanted) => key == wanted,
///                     // More rows than `most` are harmless.
///                     Which::First { prefix, .. } => key.starts_with(prefix),
///                 });
///                 if of == object && chosen.next().is_some() {
///                     rows.push((key.clone(), Value::from_bytes(bytes)?));
///                 }
///             }
///             Ok(Loaded { now, version, rows })
///         };
///         reads.iter().map(load).collect()
///     }
///
///     fn swap(&mut self, changes: &[Change], _: &[Notice]) -> Result<bool, StoreError> {
///         for change in changes {
///             if self.versions.get(&change.object).copied().unwrap_or(0) != change.version {
///                 return Ok(false);
///             }
///         }
///         for Change { object, version, rows, .. } in changes {
///             self.versions.insert(object.clone(), version + 1);
///             for (key, row) in rows {
///                 let key = (object.clone(), key.clone());
///                 match row {
///                     Some(row) => drop(self.rows.insert(key, row.to_bytes())),
///                     None => drop(self.rows.remove(&key)),
///                 }
///             }
///         }
///         Ok(true)
///     }
/// }
///
/// let remote = Remote::builder().over(Over::new(InMemory::default())?)?;
/// let guard = remote.locks().lock("order 7").wait()?;
/// assert!(remote.locks().try_lock("order 7").wait().is_err());
/// # drop(guard);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Engine: Send + 'static {
    /// Reads rows of objects, each with the object's version. There is one answer to each read, in
    /// order.
    ///
    /// # Errors
    /// See [`StoreError`]. Nothing is written.
    fn load(&mut self, reads: &[Read]) -> Result<Vec<Loaded>, StoreError>;

    /// Writes all changes, and sends the notices to the other processes that use the database,
    /// if it can. Returns false, and writes nothing, if the version of an object has changed.
    ///
    /// Objects of one swap have different keys. There may be none.
    ///
    /// # Errors
    /// See [`StoreError`]. The changes may have been written if the error may be
    /// [repeated](StoreError::is_transient).
    fn swap(&mut self, changes: &[Change], notices: &[Notice]) -> Result<bool, StoreError>;

    /// Returns notices that other processes have sent since, without waiting for them. It is called
    /// often. [`Notice::LookAgain`] stands for notices that may have been lost. An engine without
    /// notices returns none: waiters then look at their states in intervals.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn heard(&mut self) -> Result<Vec<Notice>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the life of the database, if it may forget objects: see [`Store::life`].
    fn life(&self) -> Option<Life> {
        None
    }
}

/// A store over a database. Clones share the same store.
///
/// # Examples
/// See [`Engine`].
pub struct Over<E> {
    shared: Arc<OverShared<E>>,
}

struct OverShared<E> {
    runs: Runs<E>,
    sinks: Sinks,
    life: Option<Life>,
}

type Sinks = Arc<Mutex<HashMap<String, NoticeSink>>>;

enum Runs<E> {
    /// In the thread of the call.
    Here(Mutex<E>),
    /// In a thread of the store.
    Thread(Sender<EngineRequest>),
}

struct EngineRequest {
    op: Op,
    answer: oneshot::Sender<Result<Answer, StoreError>>,
}

impl<E: Engine> Over<E> {
    /// A store with a thread of its own, which calls the engine and ends with the last clone.
    ///
    /// # Errors
    /// [`ConnectError::System`] if no thread can be started.
    pub fn new(engine: E) -> Result<Self, ConnectError> {
        let (life, sinks) = (engine.life(), Sinks::default());
        let (requests, asked) = channel();
        let told = sinks.clone();
        let builder = thread::Builder::new().name("turnwise-store".to_owned());
        let thread = builder.spawn(move || serve(engine, &asked, &told));
        thread.map_err(|error| ConnectError::System(error.to_string()))?;
        let shared = OverShared { runs: Runs::Thread(requests), sinks, life };
        Ok(Over { shared: Arc::new(shared) })
    }

    /// A store whose engine is called by the threads and tasks that make the steps: for engines
    /// that do not block. Notices of other processes are read after each step only.
    pub fn inline(engine: E) -> Self {
        let (life, sinks) = (engine.life(), Sinks::default());
        let shared = OverShared { runs: Runs::Here(Mutex::new(engine)), sinks, life };
        Over { shared: Arc::new(shared) }
    }
}

impl<E> Clone for Over<E> {
    fn clone(&self) -> Self {
        Over { shared: self.shared.clone() }
    }
}

impl<E> fmt::Debug for Over<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Over").finish_non_exhaustive()
    }
}

impl<E: Engine> Store for Over<E> {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        let OverShared { runs, sinks, .. } = &*self.shared;
        Box::pin(async move {
            match runs {
                Runs::Here(engine) => {
                    // An engine that panics has written nothing, or all.
                    let mut engine = engine.lock().unwrap_or_else(PoisonError::into_inner);
                    let mut notices = Vec::new();
                    let answers = run(&mut *engine, &[op], &mut notices);
                    notices.extend(engine.heard().unwrap_or_default());
                    drop(engine);
                    tell(sinks, notices);
                    answers.map(|mut answers| answers.remove(0))
                }
                Runs::Thread(requests) => {
                    let (answer, answered) = oneshot::channel();
                    let gone = || StoreError::TimedOut { effect: Effect::Unknown };
                    let request = EngineRequest { op: op.clone(), answer };
                    requests.send(request).map_err(|_| gone())?;
                    answered.await.unwrap_or_else(|_| Err(gone()))
                }
            }
        })
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        let mut sinks = self.shared.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        sinks.insert(client.to_owned(), sink);
    }

    fn forget(&self, client: &str) {
        let mut sinks = self.shared.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let sink = sinks.remove(client);
        drop(sinks);
        drop(sink);
    }

    fn life(&self) -> Option<Life> {
        self.shared.life.clone()
    }
}

/// Serves requests until all senders are dropped.
fn serve(mut engine: impl Engine, asked: &Receiver<EngineRequest>, sinks: &Sinks) {
    loop {
        let mut notices = Vec::new();
        let mut answered = Vec::new();
        match asked.recv_timeout(LOOK) {
            Ok(first) => {
                let mut requests = vec![first];
                requests.extend(asked.try_iter().take(MOST_AT_ONCE - 1));
                let ops: Vec<_> = requests.iter().map(|request| &request.op).collect();
                // ENGINE-5, as each call of `caught`.
                let answers = match caught(|| run(&mut engine, &ops, &mut notices)) {
                    Ok(Ok(answers)) => answers.into_iter().map(Ok).collect(),
                    Ok(Err(error)) => vec![Err(error); ops.len()],
                    Err(_) => {
                        notices.clear();
                        vec![Err(StoreError::TimedOut { effect: Effect::Unknown }); ops.len()]
                    }
                };
                answered = requests.into_iter().zip(answers).collect();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // The receiver of a request that was given up is gone.
        for (request, answer) in answered {
            let _ = caught(|| drop(request.answer.send(answer)));
        }
        let heard = caught(|| engine.heard());
        notices.extend(heard.ok().and_then(Result::ok).unwrap_or_default());
        tell(sinks, notices);
    }
}

/// Runs steps in order, and swaps what they change.
pub(crate) fn run(
    engine: &mut impl Engine,
    ops: &[&Op],
    notices: &mut Vec<Notice>,
) -> Result<Vec<Answer>, StoreError> {
    for _ in 0..MOST_RACES {
        notices.clear();
        let mut view = View::new(engine);
        view.read(ops);
        let answers = ops.iter().map(|op| view.step(op, notices)).collect();
        // `None`: a version has changed between two loads.
        if let Some(changes) = view.changes()?
            && engine.swap(&changes, notices)?
        {
            return Ok(answers);
        }
    }
    notices.clear();
    let why = "other processes change the same objects all the time".to_owned();
    Err(StoreError::Unreachable { since: Duration::ZERO, why })
}

/// Sends notices to the clients in this process.
fn tell(sinks: &Sinks, notices: Vec<Notice>) {
    if notices.is_empty() {
        return;
    }
    let mut told: Vec<(NoticeSink, Notice)> = Vec::new();
    let sinks = sinks.lock().unwrap_or_else(PoisonError::into_inner);
    for notice in notices {
        match &notice {
            Notice::Granted(token) | Notice::Lost(token) => {
                told.extend(sinks.get(token.client()).map(|sink| (sink.clone(), notice)));
            }
            Notice::LookAgain => {
                told.extend(sinks.values().map(|sink| (sink.clone(), notice.clone())));
            }
        }
    }
    drop(sinks);
    told.into_iter().for_each(|(sink, notice)| sink(notice));
}
