//! The promises of the crate, one module each, in one program: it is built and linked once.
//!
//! `cargo test -p turnwise-locks --test it slots::` runs one module. Its tests run at once with
//! those of all others, so none of them may look at the whole process, or change it.

#[path = "../common/mod.rs"]
mod common;

mod admission;
mod entry_ref;
mod histories;
mod hostile_locks;
mod keyed;
mod keyed_async;
mod keyed_end;
mod keyed_time;
mod keyed_tokio;
mod latch;
mod locks;
mod mutexes;
mod names;
mod nesting;
mod panics;
mod promises;
mod question_mark;
mod rate;
mod rw;
mod semaphore;
mod semaphores;
mod slots;
mod slots_async;
mod ticks;
