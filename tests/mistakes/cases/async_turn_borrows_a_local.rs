//! A turn that waits outlives the call: it borrows nothing. `async move` takes what it names along.
use turnwise::Actor;

fn main() {
    let actor = Actor::new(Vec::new());
    let word = String::from("ada");
    let pushed = actor.run(async |names: &mut Vec<String>| names.push(word.clone()));
    println!("{word} {:?}", pushed.wait());
}
