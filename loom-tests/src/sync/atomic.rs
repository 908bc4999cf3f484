//! Loom's atomics behind wrappers that know their call sites.
//!
//! With [`fail_as_load`], a compare-and-swap that fails is a plain load, which may see an old
//! value; loom's own always sees the newest.

pub(crate) use std::sync::atomic::Ordering;

use std::cell::Cell;

use super::site::pass;

std::thread_local! {
    static FAIL_AS_LOAD: Cell<bool> = const { Cell::new(false) };
}

/// Makes a failing compare-and-swap a plain load from now on.
pub(crate) fn fail_as_load() {
    FAIL_AS_LOAD.set(true);
}

#[track_caller]
pub(crate) fn fence_behind<A>(_: &A, ordering: Ordering) {
    fence(ordering);
}

#[track_caller]
pub(crate) fn fence(ordering: Ordering) {
    if let Some(ordering) = pass("fence", "", ordering) {
        loom::sync::atomic::fence(ordering);
    }
}

/// Returns the ordering that the site has now; only a fence can be removed.
#[track_caller]
fn at(op: &'static str, half: &'static str, ordering: Ordering) -> Ordering {
    pass(op, half, ordering).expect("only a fence can be taken away")
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name $(<$t>)? (loom::sync::atomic::$name $(<$t>)?);

        impl $(<$t>)? $name $(<$t>)? {
            #[track_caller]
            pub(crate) fn new(value: $value) -> Self {
                $name(loom::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                self.0.load(at("load", "", ordering))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                self.0.store(value, at("store", "", ordering));
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, ordering: Ordering) -> $value {
                self.0.swap(value, at("swap", "", ordering))
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let success = at("compare_exchange", ":ok", success);
                let failure = at("compare_exchange", ":fail", failure);
                if FAIL_AS_LOAD.get() {
                    let now = self.0.load(failure);
                    if now != current {
                        return Err(now);
                    }
                }
                self.0.compare_exchange(current, new, success, failure)
            }
        }

        impl $(<$t>)? Drop for $name $(<$t>)? {
            fn drop(&mut self) {
                // No other thread may be using it: loom checks that.
                self.0.with_mut(|_| ());
            }
        }
    };
}

macro_rules! counts {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        impl Default for $name {
            fn default() -> Self {
                $name::new(0)
            }
        }

        impl $name {
            #[track_caller]
            pub(crate) fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                self.0.fetch_add(value, at("fetch_add", "", ordering))
            }

            #[track_caller]
            pub(crate) fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                self.0.fetch_sub(value, at("fetch_sub", "", ordering))
            }

            #[track_caller]
            pub(crate) fn fetch_or(&self, value: $value, ordering: Ordering) -> $value {
                self.0.fetch_or(value, at("fetch_or", "", ordering))
            }

            #[track_caller]
            pub(crate) fn fetch_and(&self, value: $value, ordering: Ordering) -> $value {
                self.0.fetch_and(value, at("fetch_and", "", ordering))
            }

            #[track_caller]
            pub(crate) fn fetch_xor(&self, value: $value, ordering: Ordering) -> $value {
                self.0.fetch_xor(value, at("fetch_xor", "", ordering))
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let success = at("fetch_update", ":ok", success);
                let failure = at("fetch_update", ":fail", failure);
                let mut now = self.0.load(failure);
                while let Some(next) = f(now) {
                    match self.0.compare_exchange(now, next, success, failure) {
                        Ok(_) => return Ok(now),
                        Err(seen) => now = seen,
                    }
                }
                Err(now)
            }
        }
    };
}

counts!(AtomicU32, u32);
counts!(AtomicU64, u64);
atomic!(AtomicPtr<T>, *mut T);
