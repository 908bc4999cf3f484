//! MAILBOX-6: the capacity is exact at every moment.

use super::super::cell::settings::Overflow;
use super::super::error::Reason;
use super::*;

/// The largest capacity that the models use.
const CAPACITY: u32 = 2;

impl Shared {
    fn bounded(capacity: u32) -> Self {
        Shared::falling_back(|builder| {
            let builder = builder.capacity(capacity as usize, Overflow::Reject);
            builder.budget(Budget::UNLIMITED)
        })
    }

    /// Leaves a message that runs `also`. Returns true if there was room.
    fn leave_and(&self, from: usize, no: u32, also: impl FnOnce() + Send + 'static) -> bool {
        let mail = Mail::<OWN>::new(&self.books, from, no);
        let left = self.actor.posted().send(move |log: &mut Log| {
            log.handle(mail);
            also();
        });
        match left {
            Ok(()) => true,
            Err(refused) => {
                assert_eq!(*refused.reason(), Reason::Full);
                add(&self.books.returned);
                false
            }
        }
    }
}

/// Without a drain: exactly as many as it holds are accepted; and while each one runs, there is
/// room for exactly one again.
pub(super) fn r6_exact_alone() {
    let shared = Shared::bounded(CAPACITY);
    for no in 1..=CAPACITY {
        let inside = shared.clone();
        assert!(shared.leave_and(0, no, move || {
            assert!(inside.leave_and(1, 2 * no, || ()), "full with one place free");
            assert!(!inside.leave_and(1, 2 * no + 1, || ()), "accepted beyond the capacity");
        }));
    }
    assert!(!shared.leave_and(0, 9, || ()), "accepted beyond the capacity");
    assert!(shared.run_one());
    shared.finish();
}

/// Against another sender: a place is free as soon as a turn begins, and is given away once.
pub(super) fn r6_exact_against_a_sender() {
    let shared = Shared::bounded(CAPACITY);
    for no in 1..=CAPACITY {
        assert!(shared.leave_and(0, no, || ()));
    }
    // Full: of the other's messages, each accepted one stands for a turn that had begun.
    let thread = shared.spawn(|shared| {
        let mut accepted = 0;
        for no in 1..=2 {
            let inside = shared.clone();
            let in_turn = move || {
                assert!(inside.actor.len() <= CAPACITY as usize + 1, "accepted beyond the capacity")
            };
            accepted += u32::from(shared.leave_and(1, no, in_turn));
            assert!(
                accepted <= shared.books.handled.load(Relaxed) + 1,
                "accepted beyond the capacity"
            );
        }
    });
    shared.run_one();
    thread.join();
    shared.run_one();
    assert!(shared.leave_and(2, 1, || ()), "full and empty");
    shared.run_one();
    shared.finish();
}

/// Two senders at the boundary: the last place is given away once.
pub(super) fn r6_last_place() {
    let shared = Shared::bounded(1);
    let thread = shared.spawn(|shared| {
        shared.leave_and(1, 1, || ());
    });
    shared.leave_and(0, 1, || ());
    thread.join();
    assert_eq!(shared.books.returned.load(Relaxed), 1, "one place, two messages");
    shared.run_one();
    shared.finish();
}
