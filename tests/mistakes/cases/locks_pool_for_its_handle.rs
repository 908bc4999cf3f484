//! As for actors: a pool is given by its handle.
use turnwise::ThreadPool;
use turnwise_locks::Keyed;

fn main() {
    let pool = ThreadPool::new().unwrap();
    Keyed::<u32>::builder().executor(pool).build();
}
