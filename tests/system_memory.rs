//! A system forgets its dead: what it holds does not grow with the actors that have come and gone.

mod common {
    pub(crate) mod counting;
}

use common::counting::{Counting, alone, cost};
use turnwise::System;

#[global_allocator]
static COUNTING: Counting = Counting;

const ACTORS: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

#[test]
fn a_million_short_lived_actors_leave_nothing_behind() {
    let _alone = alone();
    let system = System::new();
    let kept = system.actor(0).unwrap();
    let spent = cost(|| {
        for n in 0..ACTORS {
            system.actor(n).unwrap().send(|n| *n += 1).unwrap();
        }
    });
    assert_eq!(system.actors(), 1);
    assert_eq!(spent.bytes, 0);
    assert!(spent.peak < 4096, "{} bytes", spent.peak);
    drop(kept);
}

#[test]
fn systems_below_that_have_gone_are_found_in_time() {
    let _alone = alone();
    let system = System::new();
    let spent = cost(|| {
        for n in 0..ACTORS / 10 {
            let child = system.child().unwrap();
            child.actor(n).unwrap();
        }
    });
    assert_eq!(system.actors(), 0);
    assert!(spent.peak < 64 << 10, "{} bytes", spent.peak);
}

#[test]
fn looks_for_the_spent_become_rarer_as_it_grows() {
    const MANY: usize = 2_000;
    let _alone = alone();
    let system = System::new();
    let mut below = Vec::with_capacity(MANY);
    let spent = cost(|| below.extend((0..MANY).map(|_| system.child().unwrap())));
    // A look copies the list: one for each would be some 300,000 pieces.
    assert!(spent.calls < 20 * MANY, "{} pieces of memory", spent.calls);
}
