//! User code, run on behalf of another caller: its panics go where they are reported.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

pub(crate) type Payload = Box<dyn Any + Send>;

/// Runs user code on behalf of somebody else.
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Runs user code whose panic is ignored.
pub(crate) fn ignore(f: impl FnOnce()) {
    if let Err(payload) = catch(f) {
        discard(payload);
    }
}

/// Calls `f` with what the caller has given away. If it panics, that is dropped before the panic
/// goes on: nothing of the user's is dropped while a thread unwinds.
#[inline]
pub(crate) fn owning<T, R>(mut value: T, f: impl FnOnce(&mut T) -> R) -> (T, R) {
    match catch(|| f(&mut value)) {
        Ok(result) => (value, result),
        Err(payload) => {
            ignore(|| drop(value));
            resume_unwind(payload)
        }
    }
}

/// Drops a payload. One that panics in its own drop is forgotten, with what it panicked with.
pub(crate) fn discard(payload: Payload) {
    catch(|| drop(payload)).unwrap_or_else(std::mem::forget);
}

/// The text of a panic.
pub(crate) fn text(payload: &(dyn Any + Send)) -> Arc<str> {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        Arc::from(*text)
    } else if let Some(text) = payload.downcast_ref::<String>() {
        Arc::from(text.as_str())
    } else {
        Arc::from("a panic without a text")
    }
}
