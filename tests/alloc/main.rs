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

/// A thread of a pool ends after its test, and frees what it has kept.
#[test]
fn threads_of_the_test_before_are_not_counted() {
    use counting::{alone, cost, count_this_thread};
    use std::sync::Barrier;

    let (started, next) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        let test = alone();
        let outlives = scope.spawn(|| {
            count_this_thread();
            let kept = vec![0_u8; 4096];
            started.wait();
            next.wait();
            drop(kept);
        });
        started.wait();
        drop(test);
        let _alone = alone();
        let spent = cost(|| {
            next.wait();
            outlives.join().unwrap();
        });
        assert!(spent.bytes > -4096, "{spent:?}");
    });
}

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;
