//! MAILBOX-1: one owner, whatever thread moves COUNT from 0.

use super::super::mailbox::word::{Entry, Snapshot, Word};
use super::*;
use crate::sync::reached;

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

/// One owner, with batches and with turns that follow a take.
pub(super) fn r1_one_owner_2_2() {
    senders(&[2, 2]);
}

/// One owner, with batches of two, which have to be reversed.
pub(super) fn r1_one_owner_3_2() {
    senders(&[3, 2]);
}

/// One owner, with two senders that meet on the word while a third one owns it.
pub(super) fn r1_one_owner_1_1_1() {
    senders(&[1, 1, 1]);
}

/// One owner, with a second message for it.
pub(super) fn r1_one_owner_2_1_1() {
    senders(&[2, 1, 1]);
}

/// A saturated COUNT is left by release only (in the narrow tree, where few messages saturate it).
pub(super) fn r1_saturated() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        let batch = [1, 2, 3, 4].map(|no| Mail::<OWN>::new(&shared.books, 1, no).message());
        assert!(shared.actor.send_many(batch).is_ok());
    });
    shared.send::<OWN>(0, 2);
    // As many as more than any COUNT here holds.
    let word = Word::new();
    let pushed = word.push(Snapshot::IDLE, (1 << 5, 9), Entry::Leave, |_| ());
    assert!(pushed.is_ok());
    if shared.actor.len() as u64 >= word.load().count().min(4) {
        reached("saturated");
    }
    thread.join();
    shared.finish();
}
