//! The end of a batch.

use super::*;

/// The hook of a batch belongs to the ownership: the next owner's hook sees its writes. Each turn
/// is in one batch that ends.
pub(super) fn batch_ends() {
    let (ends, turns) = (Written::new(), Arc::new(AtomicU32::new(0)));
    let (end, counted) = (ends.clone(), turns.clone());
    let shared = Shared::built(|builder| {
        builder.on_batch_end(move |_, turns| {
            end.write();
            counted.fetch_add(turns as u32, Relaxed);
        })
    });
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.send::<OWN>(0, 2);
    thread.join();
    shared.actor.with(|_| ()).expect("open");
    assert_ne!(ends.read(), 0);
    assert_eq!(turns.load(Relaxed), 4);
    shared.finish();
}
