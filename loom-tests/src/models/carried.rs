//! R8, handed over: an executor carries the mailbox, and one token says whether a carrier is out.

use super::super::actor::ActorBuilder;
use super::super::drain::carrier::{Drain, Executor};
use super::super::error::StopCause;
use super::*;
use crate::sync::Mutex;
use crate::sync::reached;

/// Where drains wait for a thread; its lock is loom's, so it orders no less than a real queue does.
#[derive(Default)]
struct Queue(Mutex<Vec<Drain>>);

// SAFETY: loom's threads are coroutines of one thread, and a drain is Send.
unsafe impl Sync for Queue {}
// SAFETY: as above.
unsafe impl Send for Queue {}

impl Queue {
    /// Runs a drain, if one waits.
    fn run_one(&self) -> bool {
        let drain = self.0.lock().pop();
        let Some(drain) = drain else { return false };
        drain.run();
        true
    }
}

/// An actor whose drains wait in a queue.
fn carried(budget: u32) -> (Shared, Arc<Queue>) {
    built(|builder, queue| builder.budget(budget).executor(move |drain| queue.0.lock().push(drain)))
}

/// An actor whose senders drain for one turn, and leave the rest to a queue.
fn handed_on() -> (Shared, Arc<Queue>) {
    built(|builder, queue| builder.budget(1).hand_off_to(move |drain| queue.0.lock().push(drain)))
}

fn built(f: impl FnOnce(ActorBuilder<Log>, Arc<Queue>) -> ActorBuilder<Log>) -> (Shared, Arc<Queue>) {
    let books = Books::new();
    let queue = Arc::new(Queue::default());
    let (theirs, unrun) = (queue.clone(), books.clone());
    let builder = f(Actor::builder(Log::new(&books)), theirs);
    let builder = builder.undelivered(move |message| {
        add(&unrun.unrun);
        drop(message);
    });
    (Shared { actor: Arc::new(builder.spawn().expect("plain")), books }, queue)
}

/// Runs what is left, and looks whether everything was carried.
fn finish(shared: Shared, queue: &Queue) {
    while queue.run_one() {}
    assert!(shared.actor.is_idle(), "parked, and nobody carries it: {:?}", shared.actor);
    let Shared { actor, books } = shared;
    drop(Arc::into_inner(actor).expect("main is the last"));
    while queue.run_one() {}
    books.balance();
}

/// CARRY: two senders leave a message each and run what the executor has; nothing is left that nobody carries.
pub(super) fn r8_carried() {
    let (shared, queue) = carried(256);
    let theirs = queue.clone();
    let thread = shared.spawn(move |shared| {
        shared.send::<OWN>(1, 1);
        theirs.run_one();
    });
    shared.send::<OWN>(0, 1);
    queue.run_one();
    thread.join();
    finish(shared, &queue);
}

/// The same at a budget of one turn: the drain hands the rest off, with a saved list or with messages in HEAD.
pub(super) fn r8_budget() {
    let (shared, queue) = carried(1);
    let theirs = queue.clone();
    let thread = shared.spawn(move |shared| {
        shared.send::<OWN>(1, 1);
        theirs.run_one();
    });
    shared.send::<OWN>(0, 2);
    if queue.run_one() && !shared.actor.is_idle() {
        reached("handed off");
    }
    thread.join();
    finish(shared, &queue);
}

/// A caller who drains is over, parks, and hands the rest on. A sender comes, finds it running, parked, or parked and carried, and takes it over
/// if he can; then he runs what the queue has. Nothing is left that nobody carries.
pub(super) fn r8_handed_on() {
    let (shared, queue) = handed_on();
    for no in 1..=2 {
        shared.actor.enqueue(Mail::<OWN>::new(&shared.books, 0, no).message()).expect("open");
    }
    let theirs = queue.clone();
    let thread = shared.spawn(move |shared| {
        let carried = !theirs.0.lock().is_empty();
        shared.send::<OWN>(1, 1);
        if carried && shared.books.handled.load(Relaxed) > 1 {
            reached("taken over by a sender");
        }
        if theirs.run_one() {
            reached("handed on");
        }
    });
    shared.actor.drain();
    thread.join();
    finish(shared, &queue);
}

/// The last handle goes meanwhile: a carrier ends it, and frees the block.
pub(super) fn r8_handed_on_at_the_end() {
    let (shared, queue) = handed_on();
    for no in 1..=2 {
        shared.actor.enqueue(Mail::<OWN>::new(&shared.books, 0, no).message()).expect("open");
    }
    let Shared { actor, books } = shared;
    let theirs = queue.clone();
    let thread = spawn(move || {
        if theirs.run_one() {
            reached("handed on");
        }
    });
    let actor = Arc::into_inner(actor).expect("main has the only one");
    actor.drain();
    drop(actor);
    thread.join();
    while queue.run_one() {}
    books.balance();
}

/// An executor that takes nothing: whoever hands a drain over runs it, and nothing is given back.
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
    let (shared, queue) = built(|builder, _| builder.budget(1).executor(Refuses));
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.send::<OWN>(0, 2);
    thread.join();
    assert_eq!(shared.books.handled.load(Relaxed), 3);
    finish(shared, &queue);
}

/// Close and the last handle find it parked: a carrier ends it.
pub(super) fn r8_closed_while_carried() {
    let (shared, queue) = carried(256);
    let theirs = queue.clone();
    let thread = shared.spawn(move |shared| {
        shared.actor.close();
        theirs.run_one();
    });
    shared.send::<OWN>(0, 1);
    queue.run_one();
    thread.join();
    finish(shared, &queue);
}

/// A carrier is dropped: the actor stops, and everything is given back or refused; a carrier that is stale stops nothing.
pub(super) fn r8_carrier_dropped() {
    let (shared, queue) = carried(256);
    let theirs = queue.clone();
    let thread = shared.spawn(move |_| {
        let drain = theirs.0.lock().pop();
        drop(drain);
    });
    shared.send::<OWN>(0, 2);
    thread.join();
    if let Some(cause) = shared.actor.stop_cause() {
        reached("stopped");
        assert_eq!(cause, StopCause::ExecutorGone);
    }
    finish(shared, &queue);
}

/// Somebody waits for an answer, comes by and takes the mailbox over: its carrier is stale.
pub(super) fn r8_carrier_is_stale() {
    let (shared, queue) = carried(256);
    let theirs = queue.clone();
    let thread = shared.spawn(move |_| {
        theirs.run_one();
    });
    let answer = shared.actor.ask(|log| {
        log.last[3] += 1;
        log.last[3]
    });
    assert_eq!(answer.wait(), Ok(1));
    thread.join();
    finish(shared, &queue);
}
