//! The shared configuration of a spawner's actors, and the drop of a last handle that finds itself
//! alone.

use super::super::actor::Spawner;
use super::super::cell::config::PanicPolicy;
use super::*;
use crate::sync::reached;

/// The content of a spawner's hook: it has to be dropped once, after all that was done before each
/// of the actors was dropped.
struct Kept {
    done: [Arc<Written>; 2],
    drops: Arc<AtomicU32>,
    _track: Track<()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        assert_eq!(self.done.iter().map(|done| done.read()).sum::<u32>(), 2);
        add(&self.drops);
    }
}

/// A spawner that resumes after a panic and keeps that content.
fn spawner(done: &[Arc<Written>; 2]) -> (Spawner<Log>, Arc<AtomicU32>) {
    let drops = Arc::new(AtomicU32::new(0));
    let kept = Kept { done: done.clone(), drops: drops.clone(), _track: Track::new(()) };
    let builder = Actor::builder().panic_policy(PanicPolicy::Resume).on_panic(move |_| {
        let _ = &kept;
    });
    (builder.build().expect("no limits"), drops)
}

/// BUILT-1 and GONE: two threads create an actor each from one spawner, and drop it and the
/// spawner; the last one frees the shared configuration, after all that the other one did.
pub(super) fn c1_made_and_freed() {
    let (done, all) = ([Written::new(), Written::new()], Books::new());
    let (spawner, drops) = spawner(&done);
    let (theirs, their_books) = (spawner.clone(), all.clone());
    let their_done = done[1].clone();
    let thread = spawn(move || {
        let actor = theirs.spawn(Log::new(&their_books));
        drop(theirs);
        their_done.write();
        drop(actor);
    });
    let actor = spawner.spawn(Log::new(&all));
    drop(spawner);
    done[0].write();
    drop(actor);
    thread.join();
    assert_eq!(all.states.load(Relaxed), 2);
    assert_eq!(drops.load(Relaxed), 1, "what the hook kept");
}

/// BUILT-1, HEADER-4 and CONFIG: two threads that wait for the end of one actor need a list that
/// its spawner does not have; one of them creates it, both find it, and the shared configuration
/// outlives it.
pub(super) fn c1_forked_by_two() {
    let (done, all) = ([Written::new(), Written::new()], Books::new());
    let (spawner, drops) = spawner(&done);
    let actor = spawner.spawn(Log::new(&all));
    drop(spawner);
    let (theirs, their_done) = (actor.clone(), done[1].clone());
    let thread = spawn(move || {
        if room::poll(&mut theirs.ended()).is_pending() {
            reached("both wait");
        }
        their_done.write();
        drop(theirs);
    });
    let mut ended = actor.ended();
    assert!(room::poll(&mut ended).is_pending());
    assert_eq!(actor.snapshot().capacity, None);
    done[0].write();
    actor.close();
    drop(actor);
    // A waiter is in the one list that exists, and is woken.
    assert!(room::wait_for(ended).is_ok());
    thread.join();
    assert_eq!(all.states.load(Relaxed), 1);
    assert_eq!(drops.load(Relaxed), 1, "what the hook kept");
}

/// BUILT-1 and HEADER-4: an actor gets an allocation of its own on one thread while the other
/// creates and drops one that has only the spawner.
pub(super) fn c1_forked_and_freed() {
    let (done, all) = ([Written::new(), Written::new()], Books::new());
    let (spawner, drops) = spawner(&done);
    let (actor, other) = (spawner.spawn(Log::new(&all)), spawner.spawn(Log::new(&all)));
    assert!(format!("{spawner:?}").contains("uses"));
    drop(spawner);
    let their_done = done[1].clone();
    let thread = spawn(move || {
        assert!(room::poll(&mut other.ended()).is_pending());
        their_done.write();
        drop(other);
    });
    done[0].write();
    drop(actor);
    thread.join();
    assert_eq!(all.states.load(Relaxed), 2);
    assert_eq!(drops.load(Relaxed), 1, "what the hook kept");
}

/// HEADER-5: the last handle is dropped while the last weak one is; either it finds itself alone,
/// or the other one frees the memory.
pub(super) fn b5_alone_or_not() {
    let books = Books::new();
    let actor = Actor::new(Log::new(&books));
    let weak = actor.downgrade();
    let thread = spawn(move || {
        if weak.upgrade().is_some() {
            reached("upgraded");
        }
        drop(weak);
    });
    drop(actor);
    thread.join();
    books.balance();
}

/// HEADER-5: a drain that is out keeps the last handle from finding itself alone.
pub(super) fn b5_drain_is_out() {
    let shared = Shared::queued(|builder| builder);
    let Shared { actor, books, queue } = shared;
    let (actor, queue) = (Arc::into_inner(actor).expect("the only one"), queue.expect("carried"));
    let theirs = queue.clone();
    send_all::<OWN>(&actor, &books, 0, 1);
    let thread = spawn(move || {
        if theirs.run_one() {
            reached("run");
        }
    });
    drop(actor);
    thread.join();
    queue.run_all();
    books.balance();
}

/// HEADER-5: a state that is dropped with its last handle drops the next one, which another thread
/// still uses.
pub(super) fn b5_chain() {
    let books = Books::new();
    let inner = Actor::new(Log::new(&books));
    let (theirs, their_books) = (inner.clone(), books.clone());
    let thread = spawn(move || {
        send_all::<OWN>(&theirs, &their_books, 1, 1);
        drop(theirs);
    });
    drop(Actor::new(inner));
    thread.join();
    books.balance();
}
