//! MAILBOX-8 and MAILBOX-9: pending mailboxes, and the list of those that a thread has deferred.

use super::super::actor::promise;
use super::*;
use crate::sync::reached;

/// HANDOVER and MESSAGE by a push that takes over: a message left by one thread is run by the next
/// sender, before its own.
pub(super) fn r8_left_and_taken_over() {
    let shared = Shared::by_hand();
    let thread = shared.spawn(|shared| {
        assert!(shared.leave::<OWN>(1, 1));
        assert!(shared.leave::<OWN>(1, 2));
    });
    shared.send::<OWN>(0, 2);
    thread.join();
    shared.finish();
}

/// Two senders and a pending mailbox: one of them takes it over.
pub(super) fn r8_two_senders_take_over() {
    let shared = Shared::by_hand();
    assert!(shared.leave::<OWN>(2, 1));
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.send::<OWN>(0, 1);
    thread.join();
    shared.finish();
}

/// HANDOVER by `take_over`: two threads drain a mailbox that a third one, main, has left.
pub(super) fn r8_two_drain() {
    let shared = Shared::by_hand();
    assert!(shared.leave::<OWN>(0, 1));
    let thread = shared.spawn(|shared| {
        if shared.run_one() {
            reached("the other one drained");
        }
    });
    if shared.run_one() {
        reached("main drained");
    }
    thread.join();
    shared.finish();
}

/// Two actors; a turn of the first sends to the second.
struct Two {
    first: Shared,
    second: Shared,
}

impl Two {
    fn new() -> Self {
        Two { first: Shared::new(), second: Shared::new() }
    }

    fn finish(self) {
        self.first.finish();
        self.second.finish();
    }
}

/// A message to `to` whose turn sends one on to `on`.
fn forward(
    to: &Shared,
    on: &Shared,
    from: usize,
    no: u32,
) -> impl FnOnce(&mut Log) + Send + 'static {
    let (mail, on, next) =
        (Mail::<OWN>::new(&to.books, from, no), on.clone(), Mail::<OWN>::new(&on.books, from, no));
    move |log: &mut Log| {
        let before = on.books.handled.load(Relaxed);
        log.handle(mail);
        SENDING.with(|sending| sending.set(true));
        assert!(on.actor.send(next.message()).is_ok());
        SENDING.with(|sending| sending.set(false));
        if on.books.handled.load(Relaxed) == before {
            reached("left for later");
        }
    }
}

/// The saved list, and HANDOVER of `set_pending`: an owner leaves in the middle of a batch, because
/// its budget is spent, and another sender takes the pending mailbox over, saved messages first.
pub(super) fn r8_saved_list() {
    let shared = Shared::falling_back(|builder| builder.budget(1));
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let mail = |no| Mail::<OWN>::new(&shared.books, 0, no);
    let (one, two) = (mail(1), mail(2));
    let batch: [Message; 2] = [Box::new(one.message()), Box::new(two.message())];
    assert!(shared.actor.send_many(batch).is_ok());
    thread.join();
    while shared.run_one() {}
    shared.finish();
}

/// An owner yields to its thread's list with messages in HEAD, not yet taken.
pub(super) fn r8_gives_way_before_a_take() {
    let Two { first, second } = Two::new();
    let thread = first.spawn(|first| first.send::<OWN>(1, 2));
    assert!(first.actor.send(forward(&first, &second, 0, 1)).is_ok());
    thread.join();
    Two { first, second }.finish();
}

/// A list's entry may be stale: another thread takes the listed mailbox over, and the entry finds
/// it running, idle or pending again.
pub(super) fn r9_entry_is_stale() {
    let Two { first, second } = Two::new();
    let thread = second.spawn(|second| second.send::<OWN>(1, 1));
    assert!(first.actor.send(forward(&first, &second, 0, 1)).is_ok());
    thread.join();
    Two { first, second }.finish();
}

/// An owner yields between two batches: messages of a turn to other actors come after the rest of
/// its batch, which was sent before, and before its later messages to its own mailbox.
pub(super) fn r9_gives_way() {
    let Two { first, second } = Two::new();
    let mail = |no| Mail::<OWN>::new(&first.books, 0, no);
    let (turn, rest, last) = (forward(&first, &second, 0, 1), mail(2), mail(3));
    let (own, before, after) = (first.clone(), second.books.clone(), second.books.clone());
    let last = move |log: &mut Log| {
        assert_eq!(after.handled.load(Relaxed), 1, "it did not give way");
        log.handle(last);
    };
    let batch: [Message; 2] = [
        Box::new(move |log: &mut Log| {
            turn(log);
            SENDING.with(|sending| sending.set(true));
            assert!(own.actor.send(last).is_ok());
            SENDING.with(|sending| sending.set(false));
        }),
        Box::new(move |log: &mut Log| {
            assert_eq!(before.handled.load(Relaxed), 0, "it gave way in the middle of a batch");
            log.handle(rest);
        }),
    ];
    assert!(first.actor.send_many(batch).is_ok());
    Two { first, second }.finish();
}

/// A send from inside a turn never runs inside it; two actors send to each other from two threads.
pub(super) fn r9_crossing() {
    let Two { first, second } = Two::new();
    let (one, two) = (first.clone(), second.clone());
    let thread = spawn(move || assert!(two.actor.send(forward(&two, &one, 1, 1)).is_ok()));
    assert!(first.actor.send(forward(&first, &second, 0, 1)).is_ok());
    thread.join();
    Two { first, second }.finish();
}

/// A turn that blocks waits for the turn of an actor that it has sent to: the mailboxes that its
/// thread has deferred go to the executors before it sleeps, and are run there once.
pub(super) fn r9_hands_its_list_off_before_it_blocks() {
    let first = Shared::new();
    let second = Shared::by_hand();
    let on = second.clone();
    let thread = first.spawn(move |first| {
        let mail = Mail::<OWN>::new(&first.books, 0, 1);
        let sent = first.actor.send(move |log: &mut Log| {
            log.handle(mail);
            let next = Mail::<OWN>::new(&on.books, 0, 1);
            let (kept, told) = promise();
            let message = move |log: &mut Log| {
                log.handle(next);
                kept.keep(());
            };
            assert!(on.actor.send(message).is_ok());
            assert_eq!(told.wait(), Ok(()));
        });
        assert!(sent.is_ok());
    });
    second.queue().run_next();
    thread.join();
    first.finish();
    second.finish();
}

/// MAILBOX-9: a turn that blocks by `with` on an actor that a third thread runs hands its list off
/// before.
pub(super) fn r9_hands_its_list_off_before_with_blocks() {
    let Two { first, second } = Two::new();
    let third = Shared::by_hand();
    let thread = second.spawn(|second| second.send::<OWN>(1, 1));
    let (inner, on) = (second.clone(), third.clone());
    let mail = Mail::<OWN>::new(&first.books, 0, 1);
    let sent = first.actor.send(move |log: &mut Log| {
        log.handle(mail);
        on.send::<OWN>(0, 1);
        let written = Written::new();
        assert!(inner.actor.with(|_| written.write()).is_ok());
        assert_eq!(written.read(), 1);
    });
    assert!(sent.is_ok());
    thread.join();
    third.finish();
    Two { first, second }.finish();
}
