//! Thread-locals and statics.

use std::thread::LocalKey;

/// The thread-local that `thread_plain` makes.
pub(crate) struct PlainKey<T: 'static>(&'static LocalKey<T>);

impl<T> PlainKey<T> {
    pub(crate) const fn new(key: &'static LocalKey<T>) -> Self {
        assert!(!std::mem::needs_drop::<T>());
        PlainKey(key)
    }

    /// Calls `f` with this thread's value. Not inside of `LocalKey::with`: that function is the
    /// standard library's, and as large as what it is given, so it stayed out of line, `f` and
    /// all, and handed its result over in memory.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        let value = self.0.with(std::ptr::from_ref);
        // SAFETY: without a destructor it is there as long as this thread, on which `f` runs;
        // only shared references to it are made.
        f(unsafe { &*value })
    }
}

/// A thread-local without a destructor: usable at any time, in other destructors too.
macro_rules! thread_plain {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr;) => {
        $(#[$meta])* const $name: $crate::sync::locals::PlainKey<$type> = {
            std::thread_local! { static KEY: $type = const { $init } }
            $crate::sync::locals::PlainKey::new(&KEY)
        };
    };
}
/// A thread-local that is dropped at thread exit: use it by `try_with`.
macro_rules! thread_owned {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr;) => {
        std::thread_local! { $(#[$meta])* static $name: $type = const { $init } }
    };
}
/// A static; in the models it lives for one execution.
macro_rules! global {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr;) => {
        $(#[$meta])* static $name: $type = $init;
    };
}
pub(crate) use {global, thread_owned, thread_plain};
