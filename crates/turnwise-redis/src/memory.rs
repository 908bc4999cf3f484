//! A store in this process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use turnwise::time::Clock;

use crate::step::{Notice, Op};
use crate::store::{Called, Life, NoticeSink, Store};
use crate::tables::Tables;

/// Objects in the memory of this process, with the same steps as in a server: for tests, and for
/// programs of one process. Clones share the same store.
///
/// A record is forgotten ten minutes after its last use.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    objects: Mutex<Objects>,
}

#[derive(Default)]
struct Objects {
    tables: Tables,
    sinks: HashMap<String, NoticeSink>,
}

impl MemoryStore {
    /// A store with this machine's time, which never goes back.
    pub fn new() -> Self {
        let (began, instant) = (SystemTime::now(), Instant::now());
        let began = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        MemoryStore::with(move || began + instant.elapsed())
    }

    /// A store with the time of a clock: a [`VirtualClock`](turnwise::VirtualClock) in tests.
    pub fn by(clock: impl Clock + 'static) -> Self {
        MemoryStore::with(move || clock.now())
    }

    fn with(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let shared = Shared { clock: Box::new(clock), objects: Mutex::default() };
        MemoryStore { shared: Arc::new(shared) }
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        // A clock that panics has changed nothing.
        self.shared.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// Forgets a record, or only its queue, as `DEL` of the key does in a server. For tests.
    #[doc(hidden)]
    pub fn forget_key(&self, key: &str) {
        self.objects().tables.forget_key(key);
    }
}

impl Store for MemoryStore {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            let mut notices = Vec::new();
            let mut objects = self.objects();
            // Read under the lock, so that steps are ordered by their times.
            let now = u64::try_from((self.shared.clock)().as_micros()).unwrap_or(u64::MAX);
            let answer = objects.tables.step(now, op, &mut notices);
            let told = told(&objects.sinks, notices);
            drop(objects);
            told.into_iter().for_each(|(sink, notice)| sink(notice));
            Ok(answer)
        })
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        self.objects().sinks.insert(client.to_owned(), sink);
    }

    fn forget(&self, client: &str) {
        let sink = self.objects().sinks.remove(client);
        drop(sink);
    }

    fn life(&self) -> Option<Life> {
        let run = format!("memory at {:p}", Arc::as_ptr(&self.shared));
        Some(Life { run, began: None })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.objects().tables.records();
        f.debug_struct("MemoryStore").field("records", &len).finish_non_exhaustive()
    }
}

/// Pairs each notice with its listener in this process.
pub(crate) fn told(
    sinks: &HashMap<String, NoticeSink>,
    notices: Vec<Notice>,
) -> Vec<(NoticeSink, Notice)> {
    let told = notices.into_iter().filter_map(|notice| {
        let (Notice::Granted(token) | Notice::Lost(token)) = &notice else { return None };
        Some((sinks.get(token.client())?.clone(), notice))
    });
    told.collect()
}
