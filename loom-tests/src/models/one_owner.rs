//! R1: one owner, whoever moves COUNT from 0.

use super::*;

/// Sender `i` sends `counts[i]` messages with nodes of their own; main is sender 0.
fn senders(counts: &[u32]) {
    let shared = Shared::new();
    let threads = (1..counts.len()).map(|from| {
        let n = counts[from];
        shared.spawn(move |shared| shared.send::<OWN>(from, n))
    });
    let threads = threads.collect::<Vec<_>>();
    shared.send::<OWN>(0, counts[0]);
    threads.into_iter().for_each(Joiner::join);
    shared.finish();
}

/// HANDOVER from release to claim and push, MESSAGE from push to take.
pub(super) fn r1_one_owner_1_1() {
    senders(&[1, 1]);
}

/// The same, with batches and with turns that follow a take.
pub(super) fn r1_one_owner_2_2() {
    senders(&[2, 2]);
}

/// The same, with batches of two, which have to be reversed.
pub(super) fn r1_one_owner_3_2() {
    senders(&[3, 2]);
}

/// The same, with two senders that meet on the word while a third one owns it.
pub(super) fn r1_one_owner_1_1_1() {
    senders(&[1, 1, 1]);
}

/// The same: COUNT is saturated in the narrow tree.
pub(super) fn r1_one_owner_2_1_1() {
    senders(&[2, 1, 1]);
}
