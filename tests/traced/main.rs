//! Events and spans: a program of its own, because the interest in an event is cached for the whole
//! process, and a thread without a subscriber may be the first to ask.
#![cfg(feature = "tracing")]

#[path = "../common/child.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;

mod events;
mod spans;
