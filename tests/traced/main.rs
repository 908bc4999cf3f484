//! Events and spans: a program of its own, for whether an event is wanted is remembered for the whole
//! process, and a thread without a subscriber may be the first to ask.
#![cfg(feature = "tracing")]

#[path = "../common/child.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;

mod events;
mod spans;
