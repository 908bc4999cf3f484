//! A message that is not waited for outlives the call: it borrows nothing. `with` may.
use turnwise::Actor;

fn main() {
    let actor = Actor::new(Vec::new());
    let word = String::from("ada");
    actor.send(|names: &mut Vec<String>| names.push(word.clone())).unwrap();
    println!("{word}");
}
