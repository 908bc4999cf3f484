//! The promises of the crate, one module per promise, in one program that is built and linked once.
//!
//! `cargo test --test it close::` runs one module. Its tests run at the same time as all others, so
//! none of them may count what the whole process has, such as threads, or change it, such as the
//! panic hook: [`child::in_child`] has a process for such a test.

#[path = "../common/child.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/verbs.rs"]
mod verbs;

mod async_meetings;
#[cfg(feature = "tokio")]
mod async_programs;
mod async_shapes;
#[cfg(all(feature = "rayon", feature = "tokio"))]
mod async_stress;
#[cfg(feature = "tokio")]
mod async_turns;
mod auto_traits;
mod batches;
mod blocking;
mod budget;
mod capacity;
mod close;
mod deadlock;
mod drain_queue;
mod ends;
mod ends_that_wait;
mod error_paths;
mod errors;
mod executor_gone;
mod executors;
mod fairness;
mod flood;
mod full_mailbox;
mod given_up;
mod goes_on;
mod guarantees;
mod handles;
mod lost_wakeups;
mod memory_safety;
mod messages;
mod model;
mod nesting;
mod one_at_a_time;
mod order;
mod order_of_steps;
mod own_loop;
mod panics;
mod pool;
mod pool_ends;
#[cfg(target_os = "linux")]
mod pool_idle;
#[cfg(target_os = "linux")]
mod pool_no_threads;
mod pool_order;
mod pool_stuck;
mod posted;
mod progress;
mod promises;
mod question_mark;
mod questions;
mod readme;
mod recipients;
mod release_edge;
mod restarts;
mod says_who;
mod spawner;
mod stop;
mod system;
mod system_turns;
mod thread_ends;
mod timers;
#[cfg(feature = "tokio")]
mod tokio_starved;
#[cfg(feature = "tokio")]
mod tokio_workers;
mod try_with;
mod virtual_clock;
mod waiting;
