//! A store in this process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use turnwise::time::Clock;

use crate::desk::Desk;
use crate::mailbox::Shard;
use crate::record::Record;
use crate::step::{Answer, Notice, Op, Renewal, Step};
use crate::store::{Called, Life, NoticeSink, Store};

/// Objects in this process's memory, by the same steps as in a server: for tests, and for programs
/// that have one process yet. Clones are the same store.
///
/// A record of what nobody uses is forgotten after ten minutes.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    records: BTreeMap<String, Record>,
    desks: BTreeMap<String, Desk>,
    shards: BTreeMap<String, Shard>,
    sinks: HashMap<String, NoticeSink>,
    /// Until when each record is known; and how many steps there are until all are looked at.
    known: HashMap<String, u64>,
    steps: usize,
}

impl Tables {
    /// Forgets what is known no longer: of one record now, of all after as many steps.
    fn forget_old(&mut self, key: &str, now: u64) {
        if self.known.get(key).is_some_and(|until| *until <= now) {
            self.known.remove(key);
            self.records.remove(key);
        }
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            self.known.retain(|_, until| *until > now);
            let Tables { records, known, .. } = self;
            records.retain(|key, _| known.contains_key(key));
            self.steps = self.records.len().max(64);
        }
    }

    /// A record is known until then.
    fn keep(&mut self, key: &str, now: u64, step: &Step) {
        let Some(record) = self.records.get(key) else { return };
        let last = record.last(now, step);
        let until = self.known.entry(key.to_owned()).or_default();
        *until = if record.has_ticks() { last.max(*until) } else { last };
    }
}

impl MemoryStore {
    /// A store whose time is this machine's, and never goes back.
    pub fn new() -> Self {
        let (began, instant) = (SystemTime::now(), Instant::now());
        let began = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        MemoryStore::with(move || began + instant.elapsed())
    }

    /// A store whose time is a clock's: a [`VirtualClock`](turnwise::VirtualClock) in tests.
    pub fn by(clock: impl Clock + 'static) -> Self {
        MemoryStore::with(move || clock.now())
    }

    fn with(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let shared = Shared { clock: Box::new(clock), tables: Mutex::default() };
        MemoryStore { shared: Arc::new(shared) }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A clock that panics has changed nothing.
        self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does something with an object. One that is as if new is not kept.
fn on<T: Default + PartialEq, R>(
    table: &mut BTreeMap<String, T>,
    key: &str,
    step: impl FnOnce(&mut T) -> R,
) -> R {
    match table.get_mut(key) {
        Some(object) => step(object),
        None => {
            let mut object = T::default();
            let answer = step(&mut object);
            if object != T::default() {
                table.insert(key.to_owned(), object);
            }
            answer
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// Forgets a record, or its queue alone: what `DEL` of the key does in a server. For tests.
    #[doc(hidden)]
    pub fn forget_key(&self, key: &str) {
        let mut tables = self.tables();
        let split = key.split_once("}:").map(|(shard, part)| (format!("{shard}}}"), part));
        if let Some((shard, part)) = split
            && let Some(shard) = tables.shards.get_mut(&shard)
        {
            return shard.forget_part(part);
        }
        match key.strip_suffix(":q") {
            Some(key) => {
                if let Some(record) = tables.records.get_mut(key) {
                    record.forget_queue();
                }
            }
            None => drop(tables.records.remove(key)),
        }
    }
}

impl Store for MemoryStore {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            let mut notices = Vec::new();
            let mut tables = self.tables();
            // Under the lock: so the steps come in the order of their times.
            let now = u64::try_from((self.shared.clock)().as_micros()).unwrap_or(u64::MAX);
            tables.forget_old(&op.key, now);
            let answer = match &op.step {
                Step::Desk(step) => on(&mut tables.desks, &op.key, |desk| {
                    Answer::Desk(desk.step(now, step, &mut notices))
                }),
                Step::Mailbox(step) => on(&mut tables.shards, &op.key, |shard| {
                    Answer::Mailbox(shard.step(now, step, &mut notices))
                }),
                Step::RenewAll { renewals, lease } => Answer::Renewed(
                    renewals
                        .iter()
                        .map(|Renewal { key, token, place }| {
                            let record = tables.records.get_mut(key);
                            let held = record
                                .is_some_and(|record| record.renew(now, *place, token, *lease));
                            tables.keep(key, now, &op.step);
                            held
                        })
                        .collect(),
                ),
                step => {
                    let answer = on(&mut tables.records, &op.key, |record| {
                        record.step(now, op.places, op.above, step, &mut notices)
                    });
                    tables.keep(&op.key, now, step);
                    answer
                }
            };
            let told: Vec<_> = notices
                .into_iter()
                .filter_map(|notice| {
                    let (Notice::Granted(token) | Notice::Lost(token)) = &notice else {
                        return None;
                    };
                    Some((tables.sinks.get(token.client())?.clone(), notice))
                })
                .collect();
            drop(tables);
            told.into_iter().for_each(|(sink, notice)| sink(notice));
            Ok(answer)
        })
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        self.tables().sinks.insert(client.to_owned(), sink);
    }

    fn forget(&self, client: &str) {
        let sink = self.tables().sinks.remove(client);
        drop(sink);
    }

    fn life(&self) -> Option<Life> {
        let run = format!("memory at {:p}", Arc::as_ptr(&self.shared));
        Some(Life { run, began: None })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.tables().records.len();
        f.debug_struct("MemoryStore").field("records", &len).finish_non_exhaustive()
    }
}
