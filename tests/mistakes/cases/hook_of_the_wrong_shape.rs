//! The hook for panics is given the panic.
use turnwise::Actor;

fn main() {
    Actor::builder().on_panic(|text: &str| println!("{text}")).spawn(0).unwrap();
}
