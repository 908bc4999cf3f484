//! Panics that stay where they are.

#![forbid(unsafe_code)]

use crate::sync::panic::catch;

/// Runs user code whose panic is nobody's business. A payload that panics in its drop is forgotten with what it panicked with.
pub(crate) fn shrug_off(f: impl FnOnce()) {
    if let Err(panic) = catch(f) {
        catch(|| drop(panic)).unwrap_or_else(std::mem::forget);
    }
}
