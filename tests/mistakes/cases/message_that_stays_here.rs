//! A message goes to another thread, so what is in it must be `Send`.
use std::rc::Rc;
use turnwise::Actor;

fn main() {
    let actor = Actor::new(0);
    let n = Rc::new(1);
    actor.send(move |state| *state += *n).unwrap();
}
