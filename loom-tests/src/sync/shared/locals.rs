//! Thread-locals and statics that live for one execution.
//!
//! A scheduler's own locals are dropped in no order and are gone while they are dropped. These are
//! dropped by [`drop_owned`] at the end of a thread, newest first, and plain ones stay until the
//! next execution, as in the product. They are kept in `std`'s locals, which all threads of the
//! scheduler share: they are coroutines of one thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::from_ref;

use crate::sync::backend::thread::{ThreadId, current};

/// One thread's value of one key: a leaked box, and how to drop it.
struct Value {
    memory: *mut (),
    drop: unsafe fn(*mut ()),
}

impl Value {
    fn new<T>(value: T) -> Self {
        /// # Safety
        /// `memory` is a leaked box of a `T`, not used again.
        unsafe fn drop_box<T>(memory: *mut ()) {
            // SAFETY: the caller's word.
            drop(unsafe { Box::from_raw(memory.cast::<T>()) });
        }
        Value { memory: Box::into_raw(Box::new(value)).cast(), drop: drop_box::<T> }
    }
}

#[derive(Default)]
struct Locals {
    plain: HashMap<usize, Value>,
    owned: Vec<(usize, Option<Value>)>,
}

std::thread_local! {
    static LOCALS: RefCell<HashMap<ThreadId, Locals>> = RefCell::new(HashMap::new());
}

fn with_locals<R>(f: impl FnOnce(&mut Locals) -> R) -> R {
    let thread = current().id();
    LOCALS.with_borrow_mut(|locals| f(locals.entry(thread).or_default()))
}

/// Checks before an execution that no thread has any locals.
pub(crate) fn renew() {
    for locals in LOCALS.take().into_values() {
        for value in locals.plain.into_values() {
            // SAFETY: the box is taken out once, and its execution is over.
            unsafe { (value.drop)(value.memory) };
        }
    }
}

/// Drops this thread's owned locals, newest first. Code that runs in a drop no longer finds them.
pub(crate) fn drop_owned() {
    loop {
        let newest =
            with_locals(|locals| locals.owned.iter_mut().rev().find_map(|(_, value)| value.take()));
        let Some(value) = newest else { return };
        // SAFETY: the box is taken out once.
        unsafe { (value.drop)(value.memory) };
    }
}

/// A local that is usable to the very end of its thread.
pub(crate) struct PlainKey<T: 'static>(fn() -> T);

/// A local that is dropped when its thread ends.
pub(crate) struct OwnedKey<T: 'static>(fn() -> T);

/// The local is being dropped, or was.
#[derive(Debug)]
pub(crate) struct AccessError;

impl<T> PlainKey<T> {
    pub(crate) const fn new(init: fn() -> T) -> Self {
        PlainKey(init)
    }

    pub(crate) fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let key = from_ref(self).addr();
        let found = with_locals(|locals| locals.plain.get(&key).map(|value| value.memory));
        // Created outside of the borrow: it may contain the scheduler's objects.
        let memory = found.unwrap_or_else(|| {
            let value = Value::new((self.0)());
            let memory = value.memory;
            with_locals(|locals| locals.plain.insert(key, value));
            memory
        });
        // SAFETY: a box of a `T` that stays until the execution is over, touched by this thread
        // alone.
        f(unsafe { &*memory.cast::<T>() })
    }
}

impl<T> OwnedKey<T> {
    pub(crate) const fn new(init: fn() -> T) -> Self {
        OwnedKey(init)
    }

    pub(crate) fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let key = from_ref(self).addr();
        let found = with_locals(|locals| {
            let (_, value) = locals.owned.iter().find(|(at, _)| *at == key)?;
            Some(value.as_ref().map(|value| value.memory))
        });
        let memory = match found {
            Some(Some(memory)) => memory,
            Some(None) => return Err(AccessError),
            None => {
                let value = Value::new((self.0)());
                let memory = value.memory;
                with_locals(|locals| locals.owned.push((key, Some(value))));
                memory
            }
        };
        // SAFETY: a box of a `T` that stays until this thread's end, touched by this thread alone.
        Ok(f(unsafe { &*memory.cast::<T>() }))
    }
}

macro_rules! thread_plain {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr;) => {
        $(#[$meta])* static $name: $crate::sync::shared::locals::PlainKey<$type> = $crate::sync::shared::locals::PlainKey::new(|| $init);
    };
}
macro_rules! thread_owned {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr;) => {
        $(#[$meta])* static $name: $crate::sync::shared::locals::OwnedKey<$type> = $crate::sync::shared::locals::OwnedKey::new(|| $init);
    };
}
macro_rules! global {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr;) => {
        $crate::sync::backend::lazy_static! { $(#[$meta])* static ref $name: $type = $init; }
    };
}
pub(crate) use {global, thread_owned, thread_plain};
