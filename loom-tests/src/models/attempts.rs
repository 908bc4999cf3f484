//! MAILBOX-1 and MAILBOX-9 with `try_with`: a turn here and now, or none.

use std::cell::Cell;

use super::super::cell::message::Closure;
use super::super::cell::refs::Strong;
use super::super::error::{Reason, StopCause};
use super::scheduled::in_turn;
use super::*;
use crate::sync::panic::Planned;
use crate::sync::reached;

thread_plain! {
    /// This thread is the one that tries.
    static TRIES: Cell<bool> = Cell::new(false);
}

impl Shared {
    /// Tries once; the closure may borrow, and is run by this thread or comes back.
    fn attempt(&self) -> Result<u32, Reason> {
        let mut local = Track::new(0);
        TRIES.with(|tries| tries.set(true));
        let tried = self.actor.try_with(|log| {
            assert!(TRIES.with(Cell::get), "run by another thread");
            log.last[3] += 1;
            *local.get_mut() = log.last[3];
            log.last[3]
        });
        TRIES.with(|tries| tries.set(false));
        let tried = tried.map_err(|refused| refused.into_reason());
        assert_eq!(*local.get_ref(), *tried.as_ref().unwrap_or(&0));
        tried
    }
}

/// HANDOVER: two threads try an idle actor. At least one of them runs; each sees the effects of the
/// other's turn, or gets Busy; nothing is left in the mailbox.
pub(super) fn r1_attempts() {
    let shared = Shared::new();
    let ran = Arc::new(AtomicU32::new(0));
    let theirs = ran.clone();
    let attempt = |shared: &Shared, ran: &AtomicU32| match shared.attempt() {
        Ok(_) => add(ran),
        Err(reason) => {
            assert_eq!(reason, Reason::Busy);
            reached("busy");
        }
    };
    let thread = shared.spawn(move |shared| attempt(shared, &theirs));
    attempt(&shared, &ran);
    thread.join();
    let ran = ran.load(Relaxed);
    assert!(ran > 0, "it was idle, and nothing has run");
    assert_eq!(shared.attempt(), Ok(ran + 1));
    shared.finish();
}

/// Messages sent during the turn of an attempt are run by the thread that tried.
pub(super) fn r1_attempt_against_sends() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 2));
    if shared.attempt() == Err(Reason::Busy) {
        reached("busy");
    }
    thread.join();
    shared.finish();
}

/// An attempt with a hook, which is called after the turn of the attempt as after any batch.
pub(super) fn r1_attempt_with_hooks() {
    let ends = Written::new();
    let end = ends.clone();
    let shared = Shared::built(|builder| {
        builder.on_batch_end(move |_, turns| {
            assert_ne!(turns, 0);
            end.write();
        })
    });
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let tried = shared.attempt();
    if tried == Err(Reason::Busy) {
        reached("busy");
    }
    thread.join();
    let before = ends.read();
    assert_eq!(shared.attempt(), Ok(1 + u32::from(tried.is_ok())));
    assert_eq!(ends.read(), before + 1);
    shared.finish();
}

/// SEND-1: this thread has run the waiting messages, and none follows. Then its attempt is not
/// refused, whether the entry is out in a turn that goes on, or is used meanwhile.
pub(super) fn r8_attempt_beside_a_stale_entry() {
    let books = Books::new();
    let actor = Strong::new(Log::new(&books));
    let (theirs, their_books) = (actor.clone(), books.clone());
    let thread = spawn(move || {
        let mail = Mail::<OWN>::new(&their_books, 1, 1);
        TRIES.with(|tries| tries.set(true));
        let quiet = theirs.with(|log| {
            log.handle(mail);
            // The other one's message was run before, and this thread releases the mailbox.
            TRIES.with(Cell::get) && log.last[0] == 1
        });
        if !quiet.expect("it is not stopped") {
            return;
        }
        let beside = theirs.try_with(|_| theirs.header().word.load().is_scheduled());
        match beside {
            Ok(true) => reached("beside its entry"),
            Ok(false) => reached("after its entry"),
            Err(refused) => panic!("idle, and {refused}"),
        }
    });
    in_turn(|| {
        let mail = Mail::<OWN>::new(&books, 0, 1);
        assert!(actor.send(Closure::new(mail.message())).is_ok());
        drop(actor);
    });
    thread.join();
    books.balance();
}

/// MAILBOX-9: two turns try each other's actors. Neither waits, and both end.
pub(super) fn r9_attempts_crossing() {
    let [one, two] = [Shared::new(), Shared::new()];
    let cross = |mine: &Shared, other: &Shared| {
        let inner = mine.actor.try_with(|_| other.attempt());
        match inner.map_err(|refused| refused.into_reason()) {
            Ok(Err(reason)) | Err(reason) => {
                assert_eq!(reason, Reason::Busy);
                reached("busy");
            }
            Ok(Ok(_)) => reached("nested"),
        }
    };
    let (their_one, their_two) = (one.clone(), two.clone());
    let thread = spawn(move || cross(&their_two, &their_one));
    cross(&one, &two);
    thread.join();
    one.finish();
    two.finish();
}

/// FAREWELL and CAUSE: an attempt against a turn that panics has run before it, or gets Busy, or
/// the cause of the stop.
pub(super) fn r7_attempt_against_a_stop() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        let sent = shared.actor.send(|_| Planned::panic());
        assert!(sent.is_ok(), "no other thread stops it");
    });
    for _ in 0..2 {
        match shared.attempt() {
            Ok(_) => reached("ran"),
            Err(Reason::Busy) => reached("busy"),
            Err(Reason::Stopped(StopCause::Panicked(_))) => reached("stopped"),
            Err(other) => panic!("{other:?}"),
        }
    }
    thread.join();
    assert!(matches!(shared.attempt(), Err(Reason::Stopped(StopCause::Panicked(_)))));
    shared.finish();
}
