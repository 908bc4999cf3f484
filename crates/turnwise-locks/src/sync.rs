//! What the registry and the lock objects synchronize with: the one thing that a model replaces.

pub(crate) use parking_lot::{Mutex, MutexGuard};
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
