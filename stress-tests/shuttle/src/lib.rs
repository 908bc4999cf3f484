//! Shapes that loom cannot hold: many actors, many threads, turns that wait for each other, in
//! schedules that [shuttle](https://docs.rs/shuttle) draws at random.
//!
//! The floors are copies of the shipped files, on a [`sync`] of their own. Atomics are sequentially
//! consistent here: orderings are the business of loom's models, and of their gate. What is looked
//! for here are wrong *steps*: a wake-up that is not given, a message that is lost or runs twice, a
//! future that stays, memory that is used after its end. A model that passes is not proven: it was
//! right in that number of schedules.
//!
//! | variable       | what it does                                     |
//! |----------------|--------------------------------------------------|
//! | `SHAPES_TIMES` | a factor of the number of schedules              |
//! | `SHAPES_SEED`  | this seed instead of the four                    |
//! | `SHAPES_PLANT` | with this bug of `planted.txt`                   |
//!
//! A model that runs by itself draws the same schedules each time.

#![cfg(test)]
#![allow(dead_code, reason = "the copies have more than the models use")]

mod models;
mod runner;
mod sync;

mod bugs {
    include!(concat!(env!("OUT_DIR"), "/bugs.rs"));
}
use bugs::BUGS;

#[allow(warnings, clippy::all, reason = "a generated copy, linted where it ships")]
pub(crate) mod floors {
    include!(concat!(env!("OUT_DIR"), "/floors.rs"));
}
