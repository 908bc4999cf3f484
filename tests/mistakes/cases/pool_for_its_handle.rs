//! A pool is given by its handle.
use turnwise::{Actor, ThreadPool};

fn main() {
    let pool = ThreadPool::new().unwrap();
    Actor::builder().executor(pool).spawn(0).unwrap();
}
