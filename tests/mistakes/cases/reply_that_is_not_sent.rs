//! An answer goes back to another thread.
use std::rc::Rc;
use turnwise::Actor;

fn main() {
    let actor = Actor::new(0);
    let answer = actor.call(|n| Rc::new(*n)).wait();
}
