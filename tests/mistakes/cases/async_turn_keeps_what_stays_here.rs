//! A turn that waits may go on in another thread: what it holds over an await is `Send`.
use std::rc::Rc;
use turnwise::{Actor, promise};

fn main() {
    let actor = Actor::new(0);
    let (_promise, reply) = promise::<u64>();
    let total = actor.run(async move |n: &mut u64| {
        let shared = Rc::new(1);
        *n += reply.await.unwrap_or(0);
        *n + *shared
    });
    drop(total);
}
