//! An async closure is `async |state| ..`; a closure that returns a future is another.
use turnwise::Actor;

fn main() {
    let actor = Actor::new(Vec::new());
    let pushed = actor.run(|names: &mut Vec<u32>| async move { names.push(1) });
    pushed.wait();
}
