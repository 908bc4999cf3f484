//! The hooks around a batch.

use super::*;

/// The hooks of a batch belong to the ownership: what they write is seen by the next owner's, and
/// they come in pairs.
pub(super) fn batch_in_pairs() {
    let open = Written::new();
    let (start, end) = (open.clone(), open.clone());
    let shared = Shared::built(|builder| {
        builder
            .on_batch_start(move |_| {
                start.write();
                assert_eq!(start.read() % 2, 1);
            })
            .on_batch_end(move |_, _| end.write())
    });
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.send::<OWN>(0, 2);
    thread.join();
    shared.actor.with(|_| ()).expect("open");
    assert_eq!(open.read() % 2, 0);
    shared.finish();
}
