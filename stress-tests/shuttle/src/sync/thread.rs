//! Threads, their parkers and their locals.
//!
//! Locals are dropped by [`drop_owned`] at the end of [`spawn`], newest first; plain ones stay
//! until the next schedule, as in the product.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::from_ref;
use std::time::Duration;

pub(crate) use shuttle::thread::{Thread, ThreadId, current, park, yield_now};

/// There is no time here: a limit never passes while a thread sleeps.
pub(crate) fn park_timeout(_: Duration) {
    park();
}

/// A model's thread.
pub(crate) struct Joiner<R>(shuttle::thread::JoinHandle<R>);

/// How the product starts threads.
pub(crate) struct Builder;

impl Builder {
    pub(crate) fn new() -> Self {
        Builder
    }

    pub(crate) fn name(self, _: String) -> Self {
        self
    }

    pub(crate) fn stack_size(self, _: usize) -> Self {
        self
    }

    pub(crate) fn spawn(self, f: impl FnOnce() + Send + 'static) -> std::io::Result<Joiner<()>> {
        Ok(spawn(f))
    }
}

/// Starts a thread that drops its locals before it can be joined.
pub(crate) fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Joiner<R> {
    Joiner(shuttle::thread::spawn(|| {
        let result = f();
        drop_owned();
        result
    }))
}

impl<R> Joiner<R> {
    pub(crate) fn join(self) -> R {
        self.0.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }
}

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

/// Before a schedule: no thread has any locals.
pub(super) fn renew() {
    for locals in LOCALS.take().into_values() {
        for value in locals.plain.into_values() {
            // SAFETY: the box is taken out once, and its schedule is over.
            unsafe { (value.drop)(value.memory) };
        }
    }
}

/// Drops this thread's owned locals, newest first. Nothing that they do finds them any more.
pub(super) fn drop_owned() {
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
        // Made outside of the borrow: it may be made of shuttle's objects.
        let memory = found.unwrap_or_else(|| {
            let value = Value::new((self.0)());
            let memory = value.memory;
            with_locals(|locals| locals.plain.insert(key, value));
            memory
        });
        // SAFETY: a box of a `T` that stays until the schedule is over, touched by this thread
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
