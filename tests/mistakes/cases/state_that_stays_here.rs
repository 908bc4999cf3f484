//! So must the state be.
use std::rc::Rc;
use turnwise::Actor;

fn main() {
    Actor::new(Rc::new(0));
}
