//! What the registry synchronizes with: the one thing that a model replaces.

pub(crate) use parking_lot::{Mutex, MutexGuard};
