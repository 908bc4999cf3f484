//! A guard that was released holds nothing.
use turnwise_locks::Locks;

fn main() {
    let locks = Locks::<u32>::new();
    let guard = locks.lock(7).wait().unwrap();
    guard.release().wait().unwrap();
    println!("{}", guard.fence());
}
