//! Own loops, lazy states, the hooks around a pass, and posts that another thread runs.

use super::super::actor::{ActorBuilder, promise};
use super::super::drain::plan::Overflow;
use super::super::error::OwnError;
use super::*;
use crate::sync::reached;

/// Owns the actor if nobody does, and pulls once.
fn pull(shared: &Shared, place: &'static str) {
    match shared.actor.try_own(|own| {
        own.last[3] += 1;
        own.run_waiting()
    }) {
        Ok(_) => reached(place),
        Err(error) => assert_eq!(error, OwnError::Busy),
    }
}

/// HANDOVER and MESSAGE by `own`: a loop against a sender. What is sent after its pull is run, too.
pub(super) fn own_against_a_sender() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 2));
    pull(&shared, "owned");
    thread.join();
    shared.finish();
}

/// Two loops and a parked mailbox: one of them at a time, and the first one runs what waits.
pub(super) fn own_takes_over() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        assert!(shared.actor.enqueue(Mail::<OWN>::new(&shared.books, 1, 1).message()).is_ok());
        pull(shared, "the other one owned");
    });
    pull(&shared, "main owned");
    thread.join();
    // Left by the other one while main owned, after main's pull, it was run by main; if main came first, by the other one.
    shared.finish();
}

/// A saved list stands before HEAD for a loop, too: a drain gives way in the middle of a batch, and a loop takes it over.
pub(super) fn own_takes_a_saved_list_over() {
    let (first, second) = (Shared::new(), Shared::new());
    let (mail, on) = (Mail::<OWN>::new(&first.books, 0, 1), second.clone());
    let forward = move |log: &mut Log| {
        log.handle(mail);
        on.send::<OWN>(0, 1);
    };
    assert!(first.actor.enqueue(forward).is_ok());
    assert!(first.actor.enqueue(Mail::<OWN>::new(&first.books, 0, 2).message()).is_ok());
    let thread = first.spawn(|first| pull(first, "owned"));
    first.actor.drain();
    thread.join();
    first.finish();
    // Promised by a pull, it is run by another thread, maybe now.
    second.actor.wait_idle().expect("not inside a turn");
    second.finish();
}

/// Close against a loop: what was accepted is run, and the end comes once, after the loop.
pub(super) fn own_closed_meanwhile() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        shared.send::<OWN>(1, 1);
        shared.actor.close();
    });
    match shared.actor.try_own(|own| {
        own.run_waiting();
        own.last[3] += 1;
    }) {
        Ok(()) => reached("owned"),
        Err(OwnError::Closed) => reached("closed"),
        Err(error) => assert_eq!(error, OwnError::Busy),
    }
    thread.join();
    shared.finish();
}

/// Stop against a loop: what was not run is given back.
pub(super) fn own_stopped_meanwhile() {
    let books = Books::new();
    let unrun = books.clone();
    let builder = Actor::builder(Log::new(&books)).undelivered(move |message| {
        add(&unrun.unrun);
        drop(message);
    });
    let shared = Shared { actor: Arc::new(builder.spawn().expect("plain")), books };
    assert!(shared.actor.enqueue(Mail::<OWN>::new(&shared.books, 0, 1).message()).is_ok());
    let thread = shared.spawn(|shared| {
        shared.actor.stop();
    });
    match shared.actor.try_own(|own| own.run_waiting()) {
        Ok(ran) => {
            assert_eq!(ran, 1);
            reached("owned");
        }
        Err(OwnError::Stopped(_)) => reached("stopped"),
        Err(error) => assert_eq!(error, OwnError::Busy),
    }
    thread.join();
    shared.finish();
}

/// The limit of a bounded mailbox in a loop's hands: one may wait, neither more nor, after a pull, less.
pub(super) fn own_bounded() {
    let books = Books::new();
    let actor = Actor::builder(Log::new(&books)).capacity(1, Overflow::Reject).spawn().expect("a capacity");
    let shared = Shared { actor: Arc::new(actor), books };
    assert!(shared.actor.enqueue(Mail::<OWN>::new(&shared.books, 0, 1).message()).is_ok());
    let thread = shared.spawn(|shared| {
        shared.send::<OWN>(1, 1);
    });
    let owned = shared.actor.try_own(|own| {
        let ran = own.run_waiting() + own.run_waiting();
        // The thread may have sent again meanwhile; by itself, this one has room for one.
        if ran == 2 {
            assert!(shared.actor.send(Mail::<OWN>::new(&shared.books, 0, 2).message()).is_ok());
            assert!(shared.actor.send(Mail::<OWN>::new(&shared.books, 0, 3).message()).is_err());
            add(&shared.books.returned);
            reached("full");
        }
    });
    assert!(matches!(owned, Ok(()) | Err(OwnError::Busy)));
    thread.join();
    shared.finish();
}

/// A lazy actor, and how often its state was made.
fn lazy() -> (ActorBuilder<Log>, Arc<Books>, Arc<AtomicU32>) {
    let books = Books::new();
    let made = Arc::new(AtomicU32::new(0));
    let (theirs, makes) = (books.clone(), made.clone());
    let builder = ActorBuilder::lazy(move || {
        add(&makes);
        Log::new(&theirs)
    });
    (builder, books, made)
}

/// Two first senders: one of them makes the state, and the other one sees it.
pub(super) fn lazy_is_made_once() {
    let (builder, books, made) = lazy();
    let shared = Shared { actor: Arc::new(builder.spawn().expect("plain")), books };
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.send::<OWN>(0, 1);
    thread.join();
    assert_eq!(made.load(Relaxed), 1);
    shared.finish();
}

/// A first sender and a stop: there is a state or none, and the end knows which.
pub(super) fn lazy_stopped() {
    let (builder, books, made) = lazy();
    let (unrun, ended) = (books.clone(), made.clone());
    let builder = builder.undelivered(move |message| {
        add(&unrun.unrun);
        drop(message);
    });
    let builder = builder.on_end(move |state, _| assert_eq!(u32::from(state.is_some()), ended.load(Relaxed)));
    let shared = Shared { actor: Arc::new(builder.spawn().expect("plain")), books };
    let thread = shared.spawn(|shared| {
        shared.actor.stop();
    });
    shared.send::<OWN>(0, 1);
    thread.join();
    if made.load(Relaxed) == 0 {
        reached("never made");
        // For the books: the state that was not made counts as dropped.
        add(&shared.books.states);
    } else {
        reached("made");
    }
    shared.finish();
}

/// The hooks of a pass belong to the ownership: what they write is seen by the next owner's, and they come in pairs.
pub(super) fn pass_in_pairs() {
    let books = Books::new();
    let open = Written::new();
    let (before, after) = (open.clone(), open.clone());
    let builder = Actor::builder(Log::new(&books))
        .before_pass(move |_| {
            before.write();
            assert_eq!(before.read() % 2, 1);
        })
        .after_pass(move |_, _| after.write());
    let shared = Shared { actor: Arc::new(builder.spawn().expect("plain")), books };
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.send::<OWN>(0, 2);
    thread.join();
    shared.actor.with(|_| ()).expect("open");
    assert_eq!(open.read() % 2, 0);
    shared.finish();
}

/// Posts a message, and waits until somebody else has run it: only a promise tells, so this thread does not come by.
fn post(shared: &Shared, from: usize) {
    let mail = Mail::<OWN>::new(&shared.books, from, 1);
    let (run, told) = promise();
    let message = move |log: &mut Log| {
        log.handle(mail);
        run.keep(());
    };
    assert!(shared.actor.post(message).is_ok());
    assert!(told.wait().is_ok());
}

/// CARRY without an executor: two post, and the carrier of the first, or one more, runs both messages.
pub(super) fn posted_by_two() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| post(shared, 1));
    post(&shared, 0);
    thread.join();
    shared.actor.wait_idle().expect("not inside a turn");
    shared.finish();
}
