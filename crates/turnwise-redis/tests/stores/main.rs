//! The promises of the crate, in one program: it is built and linked once, and its tests, most of
//! which wait for leases and for servers that are slow or gone, wait together.
//!
//! `cargo test -p turnwise-redis --test stores faults::` runs one module. Its tests run beside
//! those of all others, so none of them may look at the whole process, or change it.

#[path = "../support/mod.rs"]
mod support;

mod actor_deaths;
mod actors;
mod admission;
mod agree;
mod agree_admission;
mod agree_mailbox;
mod callers;
mod clocks;
mod cluster;
mod contract;
mod fault_table;
mod faults;
mod histories;
mod majority;
mod owners;
#[cfg(feature = "programs")]
mod programs;
mod sentinel;
#[cfg(feature = "tls")]
mod tls;
