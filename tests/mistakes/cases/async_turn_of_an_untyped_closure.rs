//! An untyped async closure, with the type of its argument left out.
use turnwise::Actor;

fn main() {
    let actor = Actor::new(Vec::<u32>::new());
    let pushed = actor.run(|names| async move { names.push(1) });
    pushed.wait();
}
