//! Cells are freed one after the other, in constant stack, by the thread that drops the last
//! reference.

use std::cell::Cell;

use super::super::actor::WeakActor;
use super::*;

thread_plain! {
    /// The number of [`Deep`] values that are being dropped on this thread.
    static DEPTH: Cell<u32> = Cell::new(0);
}

/// Keeps the next cell, and checks that it is not freed inside its own drop.
struct Deep(Option<WeakActor<Log>>);

impl Drop for Deep {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        assert_eq!(DEPTH.with(Cell::get), 1, "freed inside of another's freeing");
        drop(self.0.take());
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Three cells, each kept by a hook of the one before; the reference to the second is shared with a
/// thread that drops it meanwhile.
pub(super) fn free_chain() {
    let all = Books::new();
    let keeps = |next: Option<WeakActor<Log>>| {
        let deep = Deep(next);
        let builder = Actor::builder().on_panic(move |_| {
            let _ = &deep;
        });
        builder.spawn(Log::new(&all)).expect("plain")
    };
    let third = keeps(None);
    let second = keeps(Some(third.downgrade()));
    let first = keeps(Some(second.downgrade()));
    let weak = second.downgrade();
    drop((third, second));
    let thread = spawn(move || drop(weak));
    drop(first);
    thread.join();
    assert_eq!(all.states.load(Relaxed), 3);
}
