//! Tests of allocations: a program of its own, because its allocator counts.
//!
//! All of them: `cargo test --release --test alloc`.

#[path = "../common/child.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/counting.rs"]
mod counting;

mod idle;
mod large_batch;
mod memory;
mod no_alloc;
mod pool_alloc;
mod system_memory;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;
