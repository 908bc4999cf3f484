//! A hook is called by any thread.
use std::rc::Rc;
use turnwise_locks::Keyed;

fn main() {
    let told = Rc::new(0);
    Keyed::<u32>::builder().on_overrun(move |_, _| println!("{told}")).build();
}
