//! The answer of a turn outlives the turn: it is no part of the state. A clone may leave.
use turnwise::Actor;

fn main() {
    let actor = Actor::new(vec![String::from("ada")]);
    let first = actor.run(async |names: &mut Vec<String>| &names[0]);
    println!("{:?}", first.wait());
}
