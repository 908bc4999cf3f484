//! The hook for panics is given the panic.
use turnwise::Actor;

fn main() {
    Actor::builder(0).on_panic(|text: &str| println!("{text}")).spawn().unwrap();
}
