//! Atomics whose operations are events; each knows its caller, so that a gate can weaken it.

pub(crate) use std::sync::atomic::Ordering;

use std::panic::Location;

use super::site::pass;
use crate::explorer::{self, make, perform};
use crate::graph::{Action, Answer, Update};

#[track_caller]
pub(crate) fn fence_behind<A>(_: &A, ordering: Ordering) {
    fence(ordering);
}

#[track_caller]
pub(crate) fn fence(ordering: Ordering) {
    if let Some(ordering) = pass("fence", "", ordering) {
        explorer::fence(ordering, Location::caller());
    }
}

#[track_caller]
fn at(op: &'static str, half: &'static str, ordering: Ordering) -> Ordering {
    pass(op, half, ordering).expect("only a fence can be taken away")
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name {
            at: usize,
        }

        #[allow(dead_code, reason = "what std's have")]
        impl $name {
            #[track_caller]
            pub(crate) fn new(value: $value) -> Self {
                let mask = u64::from(<$value>::MAX);
                $name { at: make(value.into(), mask, Location::caller()) }
            }

            #[track_caller]
            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                let ordering = at("load", "", ordering);
                perform(Action::Load(self.at, ordering), Location::caller()).read as $value
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                let ordering = at("store", "", ordering);
                perform(Action::Store(self.at, value.into(), ordering), Location::caller());
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
                self.exchange(current, new, success, failure)
            }

            #[track_caller]
            fn exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let update = Update::Exchange(current.into(), new.into());
                let action = Action::Update(self.at, update, success, failure);
                let Answer { read, written } = perform(action, Location::caller());
                if written { Ok(current) } else { Err(read as $value) }
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
                let load = Action::Load(self.at, failure);
                let mut now = perform(load, Location::caller()).read as $value;
                while let Some(next) = f(now) {
                    match self.exchange(now, next, success, failure) {
                        Ok(_) => return Ok(now),
                        Err(seen) => now = seen,
                    }
                }
                Err(now)
            }

            #[track_caller]
            fn update(&self, op: &'static str, update: Update, ordering: Ordering) -> $value {
                let ordering = at(op, "", ordering);
                let action = Action::Update(self.at, update, ordering, ordering);
                perform(action, Location::caller()).read as $value
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, ordering: Ordering) -> $value {
                self.update("swap", Update::Swap(value.into()), ordering)
            }

            #[track_caller]
            pub(crate) fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                self.update("fetch_add", Update::Add(value.into()), ordering)
            }

            #[track_caller]
            pub(crate) fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                self.update("fetch_sub", Update::Sub(value.into()), ordering)
            }

            #[track_caller]
            pub(crate) fn fetch_or(&self, value: $value, ordering: Ordering) -> $value {
                self.update("fetch_or", Update::Or(value.into()), ordering)
            }

            #[track_caller]
            pub(crate) fn fetch_and(&self, value: $value, ordering: Ordering) -> $value {
                self.update("fetch_and", Update::And(value.into()), ordering)
            }

            #[track_caller]
            pub(crate) fn fetch_xor(&self, value: $value, ordering: Ordering) -> $value {
                self.update("fetch_xor", Update::Xor(value.into()), ordering)
            }
        }

        impl Default for $name {
            #[track_caller]
            fn default() -> Self {
                $name::new(0)
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
