//! MAILBOX-7 and MAILBOX-10: close, stop, the last handle.

use super::super::error::{Reason, StopCause};
use super::*;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::sync::panic::Planned;
use crate::sync::reached;

/// An actor whose end hook is counted and gets the state.
fn with_end(books: &Arc<Books>) -> (Actor<Log>, Arc<Written>) {
    let (builder, ends) = counts_ends(Actor::builder());
    let unrun = books.clone();
    let builder = builder.on_undelivered(move |message| {
        add(&unrun.unrun);
        drop(message);
    });
    (builder.spawn(Log::new(books)).expect("a plain actor"), ends)
}

pub(super) fn counts_ends(builder: ActorBuilder<Log>) -> (ActorBuilder<Log>, Arc<Written>) {
    let ends = Written::new();
    let theirs = ends.clone();
    let builder = builder.on_end(move |state, _| {
        theirs.write();
        drop(state);
    });
    (builder, ends)
}

impl Shared {
    pub(super) fn with_end() -> (Self, Arc<Written>) {
        let books = Books::new();
        let (actor, ends) = with_end(&books);
        (Shared { actor: Arc::new(actor), books, queue: None }, ends)
    }

    /// Does the same [by hand](Shared::by_hand).
    fn by_hand_with_end() -> (Self, Arc<Written>) {
        let mut ends = None;
        let shared = Shared::falling_back(|builder| {
            let (builder, counted) = counts_ends(builder);
            ends = Some(counted);
            builder.budget(Budget::UNLIMITED)
        });
        (shared, ends.expect("built"))
    }

    /// Does as `finish`, for an actor that has ended: the hook was called once.
    pub(super) fn finish_ended(self, ends: &Written) {
        self.queue.iter().for_each(|queue| queue.run_all());
        assert!(self.actor.is_closed());
        assert_eq!(ends.read(), 1, "the end hook");
        self.finish();
    }
}

/// FAREWELL and HANDOVER: close against send and release; earlier pushes run, later ones are
/// refused, the end comes once.
pub(super) fn r7_close_against_sends() {
    let (shared, ends) = Shared::with_end();
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 2));
    assert!(shared.actor.close());
    thread.join();
    shared.send::<OWN>(0, 1);
    shared.finish_ended(&ends);
}

/// Two closers and a sender: one of them closed it.
pub(super) fn r7_close_twice() {
    let (shared, ends) = Shared::with_end();
    let thread = shared.spawn(|shared| {
        if shared.actor.close() {
            reached("the other one closed");
        }
    });
    shared.send::<OWN>(0, 1);
    if shared.actor.close() {
        reached("main closed");
    }
    thread.join();
    shared.finish_ended(&ends);
}

/// Stop: waiting messages are given back, later ones refused with the cause.
pub(super) fn r7_stop_against_sends() {
    let (shared, ends) = Shared::with_end();
    let thread = shared.spawn(|shared| {
        for no in 1..=2 {
            if let Err(refused) =
                shared.actor.send(Mail::<OWN>::new(&shared.books, 1, no).message())
            {
                assert_eq!(*refused.reason(), Reason::Stopped(StopCause::Requested));
                add(&shared.books.returned);
            }
        }
    });
    assert!(shared.actor.stop());
    thread.join();
    assert_eq!(shared.actor.stop_cause(), Some(StopCause::Requested));
    shared.finish_ended(&ends);
}

/// CAUSE: a thread that finds the actor stopped by a panic finds the cause.
pub(super) fn r7_cause_of_a_panic() {
    let shared = Shared::new();
    // Loom looks back at one access per location, and the thread reads the flags before it writes
    // them: this one, which orders nothing, makes it try the other order too.
    let met = Arc::new(crate::sync::atomic::AtomicU32::new(0));
    let theirs = met.clone();
    let thread = shared.spawn(move |shared| {
        assert!(shared.actor.send(|_| Planned::panic()).is_ok());
        theirs.fetch_add(1, Relaxed);
    });
    met.load(Relaxed);
    if let Some(cause) = shared.actor.stop_cause() {
        reached("stopped");
        assert!(matches!(cause, StopCause::Panicked(_)), "{cause:?}");
    }
    if let Err(refused) = shared.actor.send(|_| ()) {
        reached("refused");
        assert!(matches!(refused.reason(), Reason::Stopped(StopCause::Panicked(_))), "{refused}");
    }
    thread.join();
    shared.finish();
}

/// A stop gives back waiting messages, oldest first, and runs none of them.
pub(super) fn r7_stop_gives_back() {
    let (shared, ends) = Shared::by_hand_with_end();
    for no in 1..=2 {
        assert!(shared.leave::<OWN>(0, no));
    }
    assert!(shared.actor.stop());
    assert!(!shared.actor.stop());
    shared.run_one();
    assert_eq!(shared.books.unrun.load(Relaxed), 2, "run after it was stopped");
    shared.finish_ended(&ends);
}

/// NEWS: a turn that knows of the stop is the last one, however long the list of its owner is.
pub(super) fn r7_stop_seen_between_turns() {
    let shared = Shared::by_hand();
    let told = Arc::new(crate::sync::atomic::AtomicU32::new(0));
    let (theirs, mail) = (told.clone(), Mail::<OWN>::new(&shared.books, 0, 1));
    let look = move |log: &mut Log| {
        log.handle(mail);
        if theirs.load(Acquire) == 1 {
            reached("seen in a turn");
            theirs.store(2, Relaxed);
        }
    };
    let (theirs, mail) = (told.clone(), Mail::<OWN>::new(&shared.books, 0, 2));
    let after = move |log: &mut Log| {
        log.handle(mail);
        assert_ne!(theirs.load(Relaxed), 2, "run after it was stopped");
    };
    assert!(shared.actor.posted().send(look).is_ok());
    assert!(shared.actor.posted().send(after).is_ok());
    let theirs = told.clone();
    let thread = shared.spawn(move |shared| {
        assert!(shared.actor.stop());
        theirs.store(1, Release);
    });
    shared.run_one();
    thread.join();
    shared.finish();
    drop(told);
}

/// MESSAGE and HANDOVER by a raised flag: the closer takes over the mailbox that another thread has
/// just deferred.
pub(super) fn r7_close_takes_over() {
    let first = Shared::new();
    let (shared, ends) = Shared::with_end();
    let on = shared.clone();
    let thread = first.spawn(move |first| {
        let mail = Mail::<OWN>::new(&first.books, 0, 1);
        let sent = first.actor.send(move |log: &mut Log| {
            log.handle(mail);
            on.send::<OWN>(1, 1);
        });
        assert!(sent.is_ok());
    });
    shared.actor.close();
    if shared.books.handled.load(Relaxed) == 1 {
        reached("taken over");
    }
    thread.join();
    first.finish();
    shared.finish_ended(&ends);
}

/// A pending mailbox is closed or stopped: its drain ends it, or the other sender had taken it
/// over.
pub(super) fn r7_close_parked() {
    let (shared, ends) = Shared::by_hand_with_end();
    assert!(shared.leave::<OWN>(0, 1));
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.actor.close();
    thread.join();
    shared.finish_ended(&ends);
}

/// A pending mailbox is stopped: its message is run or given back, never lost.
pub(super) fn r7_stop_parked() {
    let (shared, ends) = Shared::by_hand_with_end();
    assert!(shared.leave::<OWN>(0, 1));
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.actor.stop();
    thread.join();
    shared.finish_ended(&ends);
}

/// MAILBOX-10, GONE and FAREWELL: the last handle is dropped while the other thread sends and drops
/// its own; the last one ends the actor, once.
pub(super) fn r10_last_handle() {
    let books = Books::new();
    let (actor, ends) = with_end(&books);
    let (theirs, their_books) = (actor.clone(), books.clone());
    let thread = spawn(move || {
        send_all::<OWN>(&theirs, &their_books, 1, 1);
        drop(theirs);
    });
    send_all::<OWN>(&actor, &books, 0, 1);
    drop(actor);
    thread.join();
    assert_eq!(ends.read(), 1, "the end hook");
    books.balance();
}

/// MAILBOX-10: the last handle of a pending mailbox is dropped: its message is run first.
pub(super) fn r10_last_handle_parked() {
    let (shared, ends) = Shared::by_hand_with_end();
    let Shared { actor, books, queue } = shared;
    let actor = Arc::into_inner(actor).expect("main has the only one");
    let (theirs, their_books) = (actor.clone(), books.clone());
    let thread = spawn(move || {
        let mail = Mail::<OWN>::new(&their_books, 1, 1);
        assert!(theirs.posted().send(mail.message()).is_ok());
        drop(theirs);
    });
    drop(actor);
    thread.join();
    queue.expect("it has an executor").run_all();
    assert_eq!(ends.read(), 1, "the end hook");
    assert_eq!(books.handled.load(Relaxed), 1, "accepted, and not run");
    books.balance();
}

/// MAILBOX-10, GONE: the end comes after all that was done with any handle before its drop, sent or
/// not.
pub(super) fn r10_end_comes_last() {
    let books = Books::new();
    let (first, second) = (Written::new(), Written::new());
    let seen = (first.clone(), second.clone());
    let builder = Actor::builder().on_end(move |_, _| assert_eq!(seen.0.read() + seen.1.read(), 2));
    let actor = builder.spawn(Log::new(&books)).expect("plain");
    let theirs = actor.clone();
    let thread = spawn(move || {
        first.write();
        drop(theirs);
    });
    second.write();
    drop(actor);
    thread.join();
    books.balance();
}

/// MAILBOX-10, HEADER-2: no handle is made from a count of 0: a weak handle is upgraded, used and
/// dropped against the drop of the last handle.
pub(super) fn r10_weak() {
    let books = Books::new();
    let (actor, ends) = with_end(&books);
    let (weak, their_books) = (actor.downgrade(), books.clone());
    let thread = spawn(move || {
        if let Some(actor) = weak.upgrade() {
            reached("upgraded");
            send_all::<OWN>(&actor, &their_books, 1, 1);
        } else {
            reached("too late");
        }
    });
    drop(actor);
    thread.join();
    assert_eq!(ends.read(), 1, "the end hook");
    books.balance();
}

/// MAILBOX-10: a weak handle keeps the block, not the state; the last reference frees it.
pub(super) fn r10_storage() {
    let books = Books::new();
    let actor = Actor::new(Log::new(&books));
    assert!(format!("{actor:?}").contains("handles: 1"));
    let weak = actor.downgrade();
    let also = weak.clone();
    let thread = spawn(move || {
        assert!(also.name().is_none());
        drop(also);
    });
    drop(actor);
    drop(weak);
    thread.join();
    books.balance();
}

/// MAILBOX-10: a state that holds the last handle of another actor: freed one after the other, by
/// the thread that ends the first.
pub(super) fn r10_chain_of_states() {
    let books = Books::new();
    let inner = Actor::new(Log::new(&books));
    let outer = Actor::new(Some(inner));
    let (theirs, their_books) = (outer.clone(), books.clone());
    let thread = spawn(move || {
        let mail = Mail::<OWN>::new(&their_books, 1, 1);
        let sent = theirs.send(move |inner: &mut Option<Actor<Log>>| {
            let inner = inner.take().expect("taken once");
            assert!(inner.send(mail.message()).is_ok());
        });
        assert!(sent.is_ok());
    });
    drop(outer);
    thread.join();
    books.balance();
}

/// A message that is given back without a receiver is counted, by its actor and by the process; or
/// it ran before the stop.
pub(super) fn r7_lost_is_counted() {
    let queue = Arc::new(Queue::default());
    let theirs = queue.clone();
    let actor = Actor::builder().executor(move |drain| theirs.push(drain)).spawn(());
    let actor = actor.expect("good settings");
    assert!(actor.send(|()| ()).is_ok());
    let other = actor.clone();
    let thread = spawn(move || {
        other.stop();
    });
    queue.run_one();
    thread.join();
    queue.run_all();
    match actor.snapshot().discarded {
        0 => reached("it ran"),
        1 => reached("it was lost"),
        more => panic!("{more} of one"),
    }
    drop(actor);
    queue.run_all();
}
