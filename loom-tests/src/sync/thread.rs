//! Threads, their parkers and their locals.
//!
//! Loom's own `park` may wake a thread that waits in `join`, so a parker is a mutex and a condition
//! variable. Loom's locals are dropped in no order and are gone while they are dropped; these are
//! dropped by [`drop_owned`] at the end of [`spawn`], newest first, and plain ones stay until the
//! next execution, as in the product.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::from_ref;
use std::sync::Arc;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};
use loom::thread::ThreadId;

/// A handle to unpark a thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread(Arc<Parker>);

#[derive(Debug)]
struct Parker {
    token: Mutex<bool>,
    bell: Condvar,
}

super::thread_plain! {
    static PARKER: Thread = Thread(Arc::new(Parker { token: Mutex::new(false), bell: Condvar::new() }));
}

impl Thread {
    pub(crate) fn unpark(&self) {
        *self.0.token.lock().expect("never poisoned") = true;
        self.0.bell.notify_one();
    }
}

pub(crate) fn current() -> Thread {
    PARKER.with(Clone::clone)
}

/// Returns the number of this thread's handles: those of threads that are about to wake it, and
/// those that waits have left behind.
pub(crate) fn handles() -> usize {
    PARKER.with(|Thread(parker)| Arc::strong_count(parker) - 1)
}

pub(crate) fn park() {
    super::count_wait();
    let Thread(parker) = current();
    let mut token = parker.token.lock().expect("never poisoned");
    while !*token {
        token = parker.bell.wait(token).expect("never poisoned");
    }
    *token = false;
}

/// Does nothing: loom tries every order anyway.
pub(crate) fn yield_now() {}

/// There is no time here: a limit never passes while a thread sleeps. A limit that has passed
/// before is [`Duration::ZERO`].
pub(crate) fn park_timeout(_: Duration) {
    park();
}

/// A model's thread.
pub(crate) struct Joiner(loom::thread::JoinHandle<()>);

/// Starts threads as the product does. They have no names here, and stacks of loom's size.
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

    pub(crate) fn spawn(self, f: impl FnOnce() + 'static) -> std::io::Result<Joiner> {
        Ok(spawn(f))
    }
}

/// Starts a thread that drops its locals before it can be joined.
pub(crate) fn spawn(f: impl FnOnce() + 'static) -> Joiner {
    Joiner(loom::thread::spawn(|| {
        f();
        drop_owned();
    }))
}

impl Joiner {
    pub(crate) fn join(self) {
        self.0.join().expect("a thread that panics ends the process");
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
    let thread = loom::thread::current().id();
    LOCALS.with_borrow_mut(|locals| f(locals.entry(thread).or_default()))
}

/// Checks before an execution that no thread has any locals.
pub(super) fn renew() {
    for locals in LOCALS.take().into_values() {
        for value in locals.plain.into_values() {
            // SAFETY: the box is taken out once, and its execution is over.
            unsafe { (value.drop)(value.memory) };
        }
    }
}

/// Drops this thread's owned locals, newest first. Code that runs in a drop no longer finds them.
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
        // Created outside of the borrow: it may contain loom's objects.
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
