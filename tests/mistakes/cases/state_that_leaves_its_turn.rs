//! The state is lent for a turn, and for no longer.
use turnwise::Actor;

fn main() {
    let actor = Actor::new(String::new());
    let state: &mut String = actor.with(|state| state).unwrap();
    state.push('!');
}
