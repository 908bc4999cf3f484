//! MAILBOX-2 and MAILBOX-3: nodes, their memory and their addresses. Chunks have three slots here,
//! caches and depot hold one.

use super::super::mailbox::chunk::Row;
use super::super::mailbox::list::Batch;
use super::super::mailbox::node::{Envelope, NodePtr, VTable};
use super::super::mailbox::word::{Due, Entry, Snapshot, Word};
use super::super::panic::Payload;
use super::*;
use crate::sync::reached;

/// COUNTDOWN: nodes of one slot; each thread runs and frees the other's, or takes a refused one
/// back at its end.
pub(super) fn r2_one_slot() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| shared.send::<ONE_SLOT>(1, 2));
    shared.send::<ONE_SLOT>(0, 2);
    thread.join();
    shared.finish();
}

/// COUNTDOWN: nodes of two slots, so that a chunk is retired with a slot that was never handed out,
/// and the next one is begun.
pub(super) fn r2_two_slots() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| shared.send::<TWO_SLOTS>(1, 2));
    shared.send::<TWO_SLOTS>(0, 2);
    thread.join();
    shared.finish();
}

/// COUNTDOWN: all slots of a chunk are handed out, and the thread that empties it keeps it and uses
/// it again; the rest goes by the depot.
pub(super) fn r2_chunks_recycled() {
    let shared = Shared::by_hand();
    let thread = shared.spawn(|shared| {
        for no in 1..=4 {
            assert!(shared.leave::<ONE_SLOT>(1, no));
        }
    });
    shared.run_one();
    thread.join();
    for no in 1..=4 {
        assert!(shared.leave::<ONE_SLOT>(0, no));
    }
    shared.finish();
}

/// A refused node is taken back: un-bumped, or subtracted if it was the last of its chunk.
pub(super) fn r2_refused() {
    let shared = Shared::by_hand();
    for no in 1..=2 {
        assert!(shared.leave::<ONE_SLOT>(1, no));
    }
    let thread = shared.spawn(|shared| {
        shared.actor.close();
    });
    // The third and last slot.
    shared.send::<ONE_SLOT>(0, 1);
    thread.join();
    shared.send::<TWO_SLOTS>(2, 2);
    shared.send::<ONE_SLOT>(3, 1);
    shared.finish();
}

/// The data that one thread hands to another on a word that a third one, main, owns all the time.
struct Bare {
    word: Word,
    order: std::sync::Mutex<Vec<u64>>,
}

/// A message that records its number when it is run.
struct Number(Track<u64>);

impl Number {
    /// # Safety
    /// The payload is a `Number`, moved out here, and `env` a [`Bare`].
    unsafe fn run(payload: *mut u8, env: *const ()) {
        // SAFETY: the payload is a `Number`, moved out once, and `env` a `Bare`.
        let (number, bare) = unsafe { (payload.cast::<Self>().read(), &*env.cast::<Bare>()) };
        bare.order.lock().expect("one thread at a time").push(*number.0.get_ref());
    }

    /// # Safety
    /// Never called.
    unsafe fn discard(_: *mut u8, _: *const ()) {}

    /// # Safety
    /// Never called.
    unsafe fn panicked(_: *mut u8, _: *const (), _: Payload) {}
}

impl Envelope for Number {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked);
}

impl Bare {
    /// Pushes number `n` onto a word that was seen as `seen`. Returns true if the first attempt
    /// succeeded.
    fn push(&self, seen: Snapshot, n: u64) -> bool {
        let node = NodePtr::new(Number(Track::new(n)));
        let mut tries = 0;
        let link = |head| {
            tries += 1;
            node.set_next(head);
        };
        let due = self.word.push(seen, (node.addr(), 1), Entry::Drain, link);
        assert!(matches!(due, Ok(Due::Nothing)));
        tries == 1
    }

    /// Runs the waiting messages, by the owner.
    fn run(&self, done: u64) -> u64 {
        let mut batch = Batch::new();
        batch.append_newest_first(self.word.take(self.word.load(), done));
        let mut row = Row::new();
        let mut turns = 0;
        while let Some(taken) = batch.pop() {
            // SAFETY: our own message, run once and then freed.
            unsafe {
                taken.run(std::ptr::from_ref(self).cast());
                taken.free(&mut row);
            }
            turns += 1;
        }
        turns
    }
}

/// MAILBOX-3: a push whose guess is stale succeeds, because a new node lies where the old one lay:
/// it links to the new one, and all are run.
pub(super) fn r3_stale_address() {
    let bare = Arc::new(Bare { word: Word::new(), order: std::sync::Mutex::default() });
    // Main owns the word to the end.
    assert!(bare.word.claim().is_ok());
    let theirs = bare.clone();
    // A thread that ends gives its chunk up, so the thread that runs its message gets the chunk.
    spawn(move || assert!(!theirs.push(Snapshot::IDLE, 1))).join();
    let seen = bare.word.load();
    let theirs = bare.clone();
    let thread = spawn(move || {
        let at_once = theirs.push(seen, 3);
        let order = theirs.order.lock().expect("one thread at a time").len();
        if at_once && order == 1 && theirs.word.load().count() == 3 {
            reached("a stale guess holds");
        }
    });
    let done = bare.run(1);
    assert!(done >= 1);
    bare.push(bare.word.load(), 2);
    let more = bare.run(done);
    thread.join();
    bare.run(more);
    let mut order = bare.order.lock().expect("one thread at a time").clone();
    order.sort_unstable();
    assert_eq!(order, [1, 2, 3]);
}
