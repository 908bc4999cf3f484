//! The one door to code that is not the crate's own.
//!
//! Closures, handlers, hooks, wakers, clocks, executors and every `Drop` of a user's value may
//! panic. A call on behalf of another party goes through [`catch`], and decides what the panic
//! means; [`ignore`] is for panics without a meaning, [`owning`] for those of the caller. No caller
//! of either holds a lock or a borrow meanwhile. `docs/user-code.md` lists every such place.

#![forbid(unsafe_code)]

use std::any::Any;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::Arc;

pub(crate) use crate::sync::panic::catch;

pub(crate) type Payload = Box<dyn Any + Send>;

/// Runs user code, and ignores its panic.
#[inline]
pub(crate) fn ignore(f: impl FnOnce()) {
    if let Err(payload) = catch(f) {
        discard(payload);
    }
}

/// Calls `f` with what the caller has given away. If it panics, that is dropped before the panic
/// goes on: with the last handle of an actor goes the actor, and no hook is called while a thread
/// unwinds.
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

/// A value of the user's, whose drop may panic, which is ignored.
pub(crate) struct QuietDrop<T>(Option<T>);

impl<T> QuietDrop<T> {
    pub(crate) fn new(value: T) -> Self {
        QuietDrop(Some(value))
    }
}

impl<T> Deref for QuietDrop<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is taken out by the drop")
    }
}

impl<T> Drop for QuietDrop<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        ignore(|| drop(value));
    }
}

/// Drops a payload. One that panics in its own drop is forgotten, with what it panicked with.
#[cold]
pub(crate) fn discard(payload: Payload) {
    catch(|| drop(payload)).unwrap_or_else(std::mem::forget);
}

pub(crate) fn text(payload: &(dyn Any + Send)) -> Arc<str> {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        Arc::from(*text)
    } else if let Some(text) = payload.downcast_ref::<String>() {
        Arc::from(text.as_str())
    } else {
        Arc::from("a panic without a text")
    }
}
