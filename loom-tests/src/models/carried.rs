//! MAILBOX-8, handed over: an executor has the mailbox's entry, or a drain beside it, which POSTED
//! marks as out.

use super::super::actor::promise;
use super::super::cell::executor::Executor;
use super::super::error::StopCause;
use super::*;
use crate::sync::reached;

impl Shared {
    /// Senders and waiting threads drain for one turn, and leave the rest to a queue.
    fn handed_on() -> Self {
        Shared::falling_back(|builder| builder.budget(1))
    }
}

/// HANDOVER and MESSAGE by the entry: two senders leave a message each and run the executor's
/// drains; nothing is left without a drain.
pub(super) fn r8_carried() {
    let shared = Shared::carried(256);
    let thread = shared.spawn(move |shared| {
        shared.send::<OWN>(1, 1);
        shared.run_one();
    });
    shared.send::<OWN>(0, 1);
    shared.run_one();
    thread.join();
    shared.finish();
}

/// MESSAGE by `leave_first`: a push that has linked its node to waiting ones fails, because those
/// have been run meanwhile, and the node is left alone in an idle mailbox. The next one is linked
/// to it.
pub(super) fn r3_linked_anew() {
    let shared = Shared::carried(256);
    shared.send_one::<OWN>(0, 1);
    let thread = shared.spawn(|shared| {
        if shared.run_one() {
            reached("run by the other one");
        }
    });
    shared.send_one::<OWN>(0, 2);
    shared.send_one::<OWN>(0, 3);
    thread.join();
    while shared.run_one() {}
    shared.finish();
}

/// HANDOVER and MESSAGE by the entry at a budget of one turn: the drain hands the rest off, with a
/// saved list or with messages in HEAD.
pub(super) fn r8_budget() {
    let shared = Shared::carried(1);
    let thread = shared.spawn(move |shared| {
        shared.send::<OWN>(1, 1);
        shared.run_one();
    });
    shared.send::<OWN>(0, 2);
    if shared.run_one() && !shared.actor.is_idle() {
        reached("handed off");
    }
    thread.join();
    shared.finish();
}

/// A caller that drains is over budget, leaves the mailbox pending, and hands the rest on. A sender
/// finds it running, pending, or pending with a drain, and takes it over if it can; then it runs
/// the drains of the queue. Nothing is left without a drain.
pub(super) fn r8_handed_on() {
    let shared = Shared::handed_on();
    for no in 1..=2 {
        assert!(shared.leave::<OWN>(0, no));
    }
    let thread = shared.spawn(move |shared| {
        let carried = !shared.queue().drains.lock().is_empty();
        shared.send::<OWN>(1, 1);
        if carried && shared.books.handled.load(Relaxed) > 1 {
            reached("taken over by a sender");
        }
        if shared.run_one() {
            reached("handed on");
        }
    });
    shared.run_one();
    thread.join();
    shared.finish();
}

/// The last handle is dropped meanwhile: a drain ends the actor, and frees the block.
pub(super) fn r8_handed_on_at_the_end() {
    let Shared { actor, books, queue } = Shared::handed_on();
    let queue = queue.expect("it has an executor");
    let actor = Arc::into_inner(actor).expect("main has the only one");
    for no in 1..=2 {
        assert!(actor.posted().send(Mail::<OWN>::new(&books, 0, no).message()).is_ok());
    }
    let theirs = queue.clone();
    let thread = spawn(move || {
        if theirs.run_one() {
            reached("handed on");
        }
    });
    queue.run_one();
    drop(actor);
    thread.join();
    queue.run_all();
    books.balance();
}

/// An executor that accepts nothing: the thread that hands a drain over runs it, and nothing is
/// given back.
pub(super) fn r8_refused() {
    struct Refuses;
    impl Executor for Refuses {
        fn execute(&self, _: Drain) {
            unreachable!("it is asked first");
        }
        fn try_execute(&self, drain: Drain) -> Result<(), Drain> {
            reached("refused");
            Err(drain)
        }
    }
    let shared = Shared::built(|builder| builder.budget(1).executor(Refuses));
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.send::<OWN>(0, 2);
    thread.join();
    assert_eq!(shared.books.handled.load(Relaxed), 3);
    shared.finish();
}

/// Close and the last handle find it pending: a drain ends it.
pub(super) fn r8_closed_while_carried() {
    let shared = Shared::carried(256);
    let thread = shared.spawn(move |shared| {
        shared.actor.close();
        shared.run_one();
    });
    shared.send::<OWN>(0, 1);
    shared.run_one();
    thread.join();
    shared.finish();
}

/// A drain is dropped unrun: the actor stops, nothing of it is run, and everything is given back or
/// refused.
pub(super) fn r8_carrier_dropped() {
    let shared = Shared::carried(256);
    let thread = shared.spawn(move |shared| {
        if let Some(drain) = shared.queue().take() {
            drop(drain);
            reached("stopped");
            assert_eq!(shared.actor.stop_cause(), Some(StopCause::ExecutorGone));
            assert_eq!(shared.books.handled.load(Relaxed), 0, "run, though its drain was dropped");
        }
    });
    shared.send::<OWN>(0, 2);
    thread.join();
    shared.finish();
}

/// A drain is dropped unrun inside a turn of another actor: the duties of the drop are done when
/// that turn is over, or by a thread that sends meanwhile.
pub(super) fn drain_dropped_in_a_turn() {
    let queue = Arc::new(Queue::default());
    let theirs = queue.clone();
    let books = Books::new();
    let unrun = books.clone();
    let builder = Actor::builder().executor(move |drain| theirs.push(drain));
    let builder = builder.on_undelivered(move |message| {
        assert!(!SENDING.with(std::cell::Cell::get), "given back inside a turn");
        add(&unrun.unrun);
        drop(message);
    });
    let actor = Arc::new(builder.spawn(Log::new(&books)).expect("plain"));
    let shared = Shared { actor, books, queue: Some(queue) };
    shared.send::<OWN>(0, 1);
    let other = Shared::new();
    let thread = shared.spawn(|shared| {
        shared.send::<OWN>(1, 1);
        if shared.run_one() {
            reached("run meanwhile");
        }
    });
    let (inner, mail) = (shared.clone(), Mail::<OWN>::new(&other.books, 0, 1));
    let sent = other.actor.send(move |log: &mut Log| {
        log.handle(mail);
        SENDING.with(|sending| sending.set(true));
        drop(inner.queue().take());
        SENDING.with(|sending| sending.set(false));
    });
    assert!(sent.is_ok());
    thread.join();
    assert!(other.actor.is_idle());
    if shared.actor.stop_cause().is_some() {
        reached("stopped");
    }
    shared.queue().run_all();
    other.finish();
    shared.finish();
}

/// A thread that waits for an answer takes the mailbox over, or the one that runs its drain does:
/// one of the two is too late.
pub(super) fn r8_carrier_is_stale() {
    let shared = Shared::by_hand();
    let thread = shared.spawn(move |shared| {
        shared.run_one();
    });
    let answer = shared.actor.posted().call(|log| {
        log.last[3] += 1;
        log.last[3]
    });
    assert_eq!(answer.wait(), Ok(1));
    thread.join();
    shared.finish();
}

/// Two threads leave a message each in a plain actor and wait until it has been run: posted
/// messages are run, although neither thread drains by its own call.
pub(super) fn posted_by_two() {
    fn post(shared: &Shared, from: usize) {
        let mail = Mail::<OWN>::new(&shared.books, from, 1);
        let (run, told) = promise();
        let message = move |log: &mut Log| {
            log.handle(mail);
            run.keep(());
        };
        assert!(shared.actor.posted().send(message).is_ok());
        assert_eq!(told.wait(), Ok(()));
    }
    let shared = Shared::new();
    let thread = shared.spawn(|shared| post(shared, 1));
    post(&shared, 0);
    thread.join();
    shared.finish();
}
