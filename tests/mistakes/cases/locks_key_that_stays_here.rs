//! A key is shared by all threads that use it.
use std::rc::Rc;
use turnwise_locks::Locks;

fn main() {
    Locks::<Rc<str>>::new().lock("a".into());
}
