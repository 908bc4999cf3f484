//! Registries that run a closure alone among those of its key, and forget unused keys.

use std::hint::black_box;
use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use lockable::LockPool;
use parking_lot::Mutex;
use turnwise_locks::{Key, Keyed, Limits};

/// A registry that is compared.
pub(crate) trait Subject: Send + Sync + 'static {
    const NAME: &'static str;

    fn new() -> Self;

    /// Runs a closure alone among those of its key, and waits for that.
    fn run(&self, key: u64, f: impl FnOnce() + Send);

    /// Starts a run without waiting for it, if that is possible.
    fn start(&self, key: u64, f: impl FnOnce() + Send + 'static) {
        self.run(key, f);
    }

    /// The number of keys that it still knows.
    fn len(&self) -> usize;
}

/// Ours.
pub(crate) struct Ours(Keyed<u64>);

impl Subject for Ours {
    const NAME: &'static str = "turnwise";

    fn new() -> Self {
        Ours(Keyed::new())
    }

    fn run(&self, key: u64, f: impl FnOnce() + Send) {
        self.0.run(key, |()| f()).expect("open");
    }

    fn start(&self, key: u64, f: impl FnOnce() + Send + 'static) {
        drop(self.0.start(key, Limits::NONE, |()| f()));
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A map of mutexes, from which the last user of a mutex removes it: the usual way to lock by key
/// without a leak.
pub(crate) struct Counted(DashMap<u64, Arc<Mutex<()>>>);

impl Subject for Counted {
    const NAME: &'static str = "map of mutexes";

    fn new() -> Self {
        Counted(DashMap::new())
    }

    fn run(&self, key: u64, f: impl FnOnce() + Send) {
        let mutex = self.0.entry(key).or_default().clone();
        {
            let _held = mutex.lock();
            f();
        }
        drop(mutex);
        // Clones are made under the lock of the shard alone.
        self.0.remove_if(&key, |_, mutex| Arc::strong_count(mutex) == 1);
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The lock of the map's shard, held around the closure: other keys of that shard wait, too.
pub(crate) struct Shard(DashMap<u64, ()>);

impl Subject for Shard {
    const NAME: &'static str = "lock of an entry";

    fn new() -> Self {
        Shard(DashMap::new())
    }

    fn run(&self, key: u64, f: impl FnOnce() + Send) {
        let entry = match self.0.entry(key) {
            Entry::Vacant(entry) => entry.insert_entry(()),
            Entry::Occupied(entry) => entry,
        };
        f();
        entry.remove();
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The pool of locks of the crate `lockable`.
pub(crate) struct Pool(LockPool<u64>);

impl Subject for Pool {
    const NAME: &'static str = "lockable";

    fn new() -> Self {
        Pool(LockPool::new())
    }

    fn run(&self, key: u64, f: impl FnOnce() + Send) {
        let held = self.0.blocking_lock(key);
        f();
        drop(held);
    }

    fn len(&self) -> usize {
        self.0.num_locked()
    }
}

/// One key of ours, pinned.
pub(crate) struct Pinned(Key<u64>);

impl Subject for Pinned {
    const NAME: &'static str = "turnwise, pinned";

    fn new() -> Self {
        Pinned(Keyed::new().key(1).expect("open"))
    }

    fn run(&self, _: u64, f: impl FnOnce() + Send) {
        self.0.run(|()| f()).expect("open");
    }

    fn start(&self, _: u64, f: impl FnOnce() + Send + 'static) {
        drop(self.0.start(Limits::NONE, |()| f()));
    }

    fn len(&self) -> usize {
        0
    }
}

/// One mutex.
pub(crate) struct OneMutex(Mutex<()>);

impl Subject for OneMutex {
    const NAME: &'static str = "parking_lot::Mutex";

    fn new() -> Self {
        OneMutex(Mutex::new(()))
    }

    fn run(&self, _: u64, f: impl FnOnce() + Send) {
        let _held = black_box(&self.0).lock();
        f();
    }

    fn len(&self) -> usize {
        0
    }
}
