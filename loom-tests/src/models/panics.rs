//! MAILBOX-11: panics in every place. The mailbox goes on or stops, by its policy; nothing is lost
//! and nothing runs twice.

use super::super::cell::config::PanicPolicy;
use super::super::error::{AskError, StopCause};
use super::scheduled::in_turn;
use super::*;
use crate::sync::panic::{Planned, catch};

impl Shared {
    fn with_policy(policy: PanicPolicy<Log>) -> Self {
        Shared::built(|builder| builder.panic_policy(policy).on_panic(|_| Planned::panic()))
    }
}

/// A message that is handled, then panics.
fn bomb(
    shared: &Shared,
    from: usize,
    no: u32,
    planned: Planned,
) -> impl FnOnce(&mut Log) + Send + 'static {
    let mail = Mail::<OWN>::new(&shared.books, from, no);
    move |log: &mut Log| {
        log.handle(mail);
        planned.fire();
    }
}

/// A message whose captures panic when they are dropped.
struct Touchy;

impl Drop for Touchy {
    fn drop(&mut self) {
        Planned::panic();
    }
}

/// Inline, on an idle actor; the other thread's message comes before, between or after, and is
/// handled.
pub(super) fn r11_inline() {
    let shared = Shared::with_policy(PanicPolicy::Resume);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    assert!(shared.actor.send(bomb(&shared, 0, 1, Planned::default())).is_ok());
    thread.join();
    assert_eq!(shared.books.handled.load(Relaxed), 2);
    shared.finish();
}

/// In the middle of a batch and last before release; the payload's own drop panics too.
pub(super) fn r11_in_a_batch() {
    let shared = Shared::with_policy(PanicPolicy::Resume);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let mail = Mail::<OWN>::new(&shared.books, 0, 2);
    let batch: [Message; 3] = [
        Box::new(bomb(&shared, 0, 1, Planned { again: 1 })),
        Box::new(mail.message()),
        Box::new(bomb(&shared, 0, 3, Planned::default())),
    ];
    assert!(shared.actor.send_many(batch).is_ok());
    thread.join();
    assert_eq!(shared.books.handled.load(Relaxed), 4);
    shared.finish();
}

/// The actor stops: waiting messages are given back, later ones refused with the cause, and the
/// actor ends.
pub(super) fn r11_stops() {
    let shared = Shared::with_policy(PanicPolicy::Stop);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let mail = Mail::<OWN>::new(&shared.books, 0, 2);
    let batch: [Message; 2] =
        [Box::new(bomb(&shared, 0, 1, Planned::default())), Box::new(mail.message())];
    if shared.actor.send_many(batch).is_err() {
        unreachable!("no other thread stops it");
    }
    thread.join();
    assert!(matches!(shared.actor.stop_cause(), Some(StopCause::Panicked(_))));
    assert!(shared.books.unrun.load(Relaxed) >= 1, "run after it was stopped");
    assert!(shared.actor.is_closed());
    shared.finish();
}

/// Listed: a turn of one actor panics after it has sent to another, which this thread still has to
/// run.
pub(super) fn r11_listed() {
    let shared = Shared::with_policy(PanicPolicy::Resume);
    let second = Shared::new();
    let thread = second.spawn(|second| second.send::<OWN>(1, 1));
    let (on, next) = (second.clone(), Mail::<OWN>::new(&second.books, 0, 1));
    let mail = Mail::<OWN>::new(&shared.books, 0, 1);
    let sent = shared.actor.send(move |log: &mut Log| {
        log.handle(mail);
        assert!(on.actor.send(next.message()).is_ok());
        Planned::panic();
    });
    assert!(sent.is_ok());
    thread.join();
    shared.finish();
    second.finish();
}

/// Alone in a mailbox of a list, by the fast path: messages pushed meanwhile are run afterwards.
pub(super) fn r11_short_way() {
    let shared = Shared::with_policy(PanicPolicy::Resume);
    let thread = shared.spawn(|shared| {
        shared.told(1, 1, "gone on with");
        shared.send_one::<OWN>(1, 2);
    });
    in_turn(|| {
        assert!(shared.actor.send(bomb(&shared, 0, 1, Planned { again: 1 })).is_ok());
    });
    thread.join();
    assert_eq!(shared.books.handled.load(Relaxed), 3);
    shared.finish();
}

/// A panic in the first of two messages, by the fast path.
pub(super) fn r11_short_way_of_two() {
    let shared = Shared::with_policy(PanicPolicy::Resume);
    let thread = shared.spawn(|shared| shared.send_one::<OWN>(1, 1));
    in_turn(|| {
        assert!(shared.actor.send(bomb(&shared, 0, 1, Planned::default())).is_ok());
        shared.send_one::<OWN>(0, 2);
    });
    thread.join();
    assert_eq!(shared.books.handled.load(Relaxed), 3);
    shared.finish();
}

/// A panic by the fast path that stops the actor.
pub(super) fn r11_short_way_stops() {
    let shared = Shared::with_policy(PanicPolicy::Stop);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 2));
    in_turn(|| {
        assert!(shared.actor.send(bomb(&shared, 0, 1, Planned::default())).is_ok());
    });
    thread.join();
    assert!(matches!(shared.actor.stop_cause(), Some(StopCause::Panicked(_))));
    shared.finish();
}

/// In a borrowed message: the caller gets it, the mailbox is released before.
pub(super) fn r11_borrowed() {
    let shared = Shared::with_policy(PanicPolicy::Resume);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let inner = shared.clone();
    let caught = catch(move || inner.actor.with(|_| Planned::panic()));
    assert!(caught.is_err(), "the caller gets the panic");
    thread.join();
    shared.finish();
}

/// In a request: the asker gets it.
pub(super) fn r11_question() {
    let shared = Shared::with_policy(PanicPolicy::Resume);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let answer = shared.actor.call(|_| Planned::panic()).wait();
    assert!(matches!(answer, Err(AskError::Panicked(_))));
    thread.join();
    shared.finish();
}

/// In the drop of a message that was run, of an answer without an asker, of a message that is given
/// back, and of the state.
pub(super) fn r11_in_drops() {
    struct Fragile {
        log: Log,
        _touchy: Touchy,
    }
    let books = Books::new();
    let queue = Queue::of_the_fallback();
    let builder = Actor::builder().panic_policy(PanicPolicy::Resume).budget(Budget::UNLIMITED);
    let actor =
        Arc::new(builder.spawn(Fragile { log: Log::new(&books), _touchy: Touchy }).expect("plain"));
    let theirs = actor.clone();
    let thread = spawn(move || {
        let touchy = Touchy;
        assert!(theirs.send(move |_| drop(touchy)).is_ok());
        drop(theirs);
    });
    let mail = Mail::<OWN>::new(&books, 0, 1);
    let touchy = Touchy;
    let sent = actor.send(move |state: &mut Fragile| {
        let _touchy = touchy;
        state.log.handle(mail);
    });
    assert!(sent.is_ok());
    thread.join();
    let left = actor.posted().send({
        let touchy = Touchy;
        move |_: &mut Fragile| drop(touchy)
    });
    assert!(left.is_ok());
    actor.stop();
    queue.run_all();
    assert!(actor.is_idle());
    drop(actor);
    queue.run_all();
    books.balance();
}

/// Later turns see the fresh state after a panic.
pub(super) fn r11_restarts() {
    let books = Books::new();
    let fresh = books.clone();
    let builder = Actor::builder().panic_policy(PanicPolicy::restart(move || Log {
        books: fresh.clone(),
        last: [7; 4],
        _track: Track::new(()),
    }));
    let actor = Arc::new(builder.spawn(Log::new(&books)).expect("plain"));
    let shared = Shared { actor, books: books.clone(), queue: None };
    let thread = shared.spawn(|shared| {
        assert!(shared.actor.send(|_| Planned::panic()).is_ok());
    });
    assert!(shared.actor.send(|log| assert!(log.last[0] == 0 || log.last[0] == 7)).is_ok());
    thread.join();
    assert_eq!(shared.actor.with(|log| log.last[0]), Ok(7));
    drop(shared);
    assert_eq!(books.states.load(Relaxed), 2, "the old state and the new one");
}
