//! R13 and R14: nobody waits below `with`; those who wait for idle or for the end are woken.

use std::time::Duration;

use super::super::drain::plan::Overflow;
use super::*;
use crate::sync::waits;

/// Longer than any model: loom has no time.
const LONG: Duration = Duration::from_secs(1 << 20);

/// No call that only leaves messages takes a lock that may block, or sleeps, whoever else stands still at whatever point.
pub(super) fn r13_no_waiting() {
    let shared = Shared::new();
    let first = shared.spawn(|shared| {
        shared.send::<ONE_SLOT>(1, 1);
        let _ = shared.actor.ask(|log| log.last[3]).is_ready();
    });
    let second = shared.spawn(|shared| {
        assert!(shared.actor.enqueue(Mail::<ONE_SLOT>::new(&shared.books, 2, 1).message()).is_ok());
    });
    shared.send::<ONE_SLOT>(0, 1);
    first.join();
    second.join();
    shared.actor.drain();
    assert!(!shared.actor.drain());
    shared.finish();
    assert_eq!(waits(), 0, "somebody may have waited");
}

/// MEETING: the owner's release sees WATCH, and wakes; the waiter sees what the turns did.
pub(super) fn r14_wait_idle() {
    let shared = Shared::new();
    let written = Written::new();
    let theirs = written.clone();
    assert!(shared.actor.enqueue(move |_| theirs.write()).is_ok());
    let thread = shared.spawn(|shared| {
        shared.actor.drain();
    });
    assert_eq!(shared.actor.wait_idle(), Ok(()));
    assert_eq!(written.read(), 1);
    thread.join();
    shared.finish();
}

/// MEETING by `take`: the owner has a batch to take when it is watched.
pub(super) fn r14_wait_idle_against_sends() {
    let shared = Shared::new();
    let first = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let second = shared.spawn(|shared| shared.send::<OWN>(2, 1));
    assert_eq!(shared.actor.wait_idle(), Ok(()));
    first.join();
    second.join();
    shared.finish();
}

/// MEETING by `settle_one` and `unwatch`: a bounded mailbox wakes after a turn.
pub(super) fn r14_wait_idle_bounded() {
    let books = Books::new();
    let capacity = super::super::mailbox::word::MAX_CAPACITY.min(2) as usize;
    let builder = Actor::builder(Log::new(&books)).capacity(capacity, Overflow::Reject);
    let shared = Shared { actor: Arc::new(builder.spawn().expect("a good capacity")), books };
    for no in 1..=capacity as u32 {
        assert!(shared.actor.enqueue(Mail::<OWN>::new(&shared.books, 1, no).message()).is_ok());
    }
    let thread = shared.spawn(|shared| {
        shared.actor.drain();
    });
    assert_eq!(shared.actor.wait_idle(), Ok(()));
    thread.join();
    shared.finish();
}

/// MEETING by `park`: an owner that gives way wakes, and the waiter takes the parked mailbox over.
pub(super) fn r14_wait_idle_parked() {
    let shared = Shared::new();
    let second = Shared::new();
    let on = second.clone();
    let thread = shared.spawn(move |shared| {
        let next = Mail::<OWN>::new(&on.books, 1, 1);
        let mails = [Mail::<OWN>::new(&shared.books, 1, 1), Mail::<OWN>::new(&shared.books, 1, 2)];
        let [first, last] = mails;
        let batch: [Message; 2] = [
            Box::new(move |log: &mut Log| {
                log.handle(first);
                assert!(on.actor.send(next.message()).is_ok());
            }),
            Box::new(last.message()),
        ];
        assert!(shared.actor.send_many(batch).is_ok());
    });
    assert_eq!(shared.actor.wait_idle(), Ok(()));
    thread.join();
    shared.finish();
    second.finish();
}

/// MEETING and FAREWELL: who waits for the end is woken by it, and sees what the end hook did.
pub(super) fn r14_wait_ended() {
    let books = Books::new();
    let written = Written::new();
    let theirs = written.clone();
    let builder = Actor::builder(Log::new(&books)).on_end(move |_, _| theirs.write());
    let shared = Shared { actor: Arc::new(builder.spawn().expect("plain")), books };
    let thread = shared.spawn(|shared| {
        shared.send::<OWN>(1, 1);
        shared.actor.close();
    });
    assert_eq!(shared.actor.wait_ended(LONG), Ok(true));
    assert_eq!(written.read(), 1);
    thread.join();
    shared.finish();
}

/// The same with a plain actor, whose list of those who wait is made by the first of them.
pub(super) fn r14_wait_ended_plain() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        assert_eq!(shared.actor.wait_ended(LONG), Ok(true));
    });
    shared.send::<OWN>(0, 1);
    shared.actor.close();
    assert_eq!(shared.actor.wait_ended(LONG), Ok(true));
    thread.join();
    shared.finish();
}

/// A wait whose time is over leaves nothing behind, whatever happens meanwhile.
pub(super) fn r14_timed_out() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        shared.send::<OWN>(1, 1);
        shared.actor.close();
    });
    if shared.actor.wait_ended(Duration::ZERO) == Ok(true) {
        assert!(shared.actor.is_closed() && shared.actor.is_idle());
    }
    thread.join();
    shared.finish();
}
