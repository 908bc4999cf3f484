//! A closure of a key may run on another thread.
use std::rc::Rc;
use turnwise_locks::Keyed;

fn main() {
    let keyed = Keyed::<u32>::new();
    let n = Rc::new(1);
    keyed.run(7, |()| *n).unwrap();
}
