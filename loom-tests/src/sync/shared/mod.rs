//! The part that is the same under every scheduler. The flavour that includes it supplies, in
//! `crate::sync`, the scheduler's crate as `backend`, its atomics and cells, `thread::spawn`, and
//! what it does about waits (`count_wait`) and poisoned locks (`unpoisoned`).

pub(crate) mod locals;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod panic;
mod plant;
pub(crate) mod queue;
mod still;
pub(crate) mod threads;

pub(crate) use locals::{global, thread_owned, thread_plain};
pub(crate) use lock::{Condvar, Mutex};
pub(crate) use plant::{plant, planted};
pub(crate) use still::{CachePadded, Instant, hint};
