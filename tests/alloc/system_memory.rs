//! A system forgets its dead: its memory does not grow with the actors that have come and gone.

use crate::counting::{alone, cost};
use turnwise::System;

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
