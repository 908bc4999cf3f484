//! An actor that rests before a restart. Its owner is on no thread; the timer resumes it, or a stop
//! does, once.

use std::time::Duration;

use super::super::cell::config::PanicPolicy;
use super::super::cell::restarts::Restarts;
use super::super::time::Timers;
use super::clock::{LIMIT, Steps};
use super::ending::counts_ends;
use super::*;
use crate::sync::panic::Planned;
use crate::sync::reached;

/// An actor that rests until the clock is moved, and timers that are run by hand.
struct Rest {
    shared: Shared,
    clock: Arc<Steps>,
    timers: Timers,
    ends: Arc<Written>,
    /// The books of the states that the factory creates.
    fresh: Arc<Books>,
}

impl Rest {
    fn new() -> Self {
        let clock = Arc::new(Steps::default());
        let timers = Timers::by_hand(clock.clone());
        let (theirs, fresh) = (timers.clone(), Books::new());
        let made = fresh.clone();
        let restarts = Restarts::at_most(9, LIMIT).backoff(Duration::from_nanos(1), LIMIT);
        let policy = PanicPolicy::restart_within(restarts, move || Log::new(&made));
        let mut ends = None;
        let shared = Shared::falling_back(|builder| {
            let (builder, counted) = counts_ends(builder);
            ends = Some(counted);
            let builder = builder.timers(theirs).panic_policy(policy);
            builder.budget(Budget::UNLIMITED)
        });
        Rest { shared, clock, timers, ends: ends.expect("built"), fresh }
    }
}

impl Shared {
    /// Sends a message that is handled, then panics.
    fn send_bomb(&self, from: usize, no: u32) {
        let mail = Mail::<OWN>::new(&self.books, from, no);
        let bomb = move |log: &mut Log| {
            log.handle(mail);
            Planned::panic()
        };
        if self.actor.send(bomb).is_err() {
            add(&self.books.returned);
        }
    }
}

/// A stop comes before the panic, while the owner is suspended, or after. The clock is not
/// moved: the actor still ends, and waiting messages are given back.
pub(super) fn l1_stop_as_it_lies_down() {
    let Rest { shared, timers, ends, fresh, .. } = Rest::new();
    let thread = shared.spawn(|shared| {
        shared.send_bomb(1, 1);
        shared.send_one::<OWN>(1, 2);
    });
    assert!(shared.actor.stop());
    if shared.actor.is_idle() {
        reached("idle by then");
    }
    thread.join();
    shared.finish_ended(&ends);
    assert_eq!(fresh.states.load(Relaxed), 0, "restarted after a stop");
    assert!(timers.is_empty(), "a timer of a rest that is over");
}

/// The time is over while a stop comes. One of them resumes the owner.
pub(super) fn l1_stop_as_its_time_comes() {
    let Rest { shared, clock, timers, ends, .. } = Rest::new();
    shared.send_bomb(0, 1);
    shared.send_one::<OWN>(0, 2);
    assert!(!shared.actor.is_idle());
    clock.tick();
    let theirs = timers.clone();
    let thread = spawn(move || {
        if theirs.run_due() == 1 {
            reached("the timer fired");
        }
    });
    assert!(shared.actor.stop());
    thread.join();
    shared.finish_ended(&ends);
    assert!(timers.is_empty());
}

/// A message of another thread comes before the panic, during the rest, or after it. It runs,
/// on the current state; the next owner sees the writes of the last one.
pub(super) fn l2_messages_wait() {
    let Rest { shared, clock, timers, fresh, .. } = Rest::new();
    let thread = shared.spawn(|shared| shared.send_one::<OWN>(1, 1));
    shared.send_bomb(0, 1);
    if shared.books.handled.load(Relaxed) == 1 {
        reached("the message waits");
    }
    clock.tick();
    timers.run_due();
    thread.join();
    shared.queue().run_all();
    // The panic may have been in the other thread's drain, and its rest begun by then.
    clock.tick();
    timers.run_due();
    shared.queue().run_all();
    // The fresh state has books of its own.
    shared.books.handled.fetch_add(fresh.handled.load(Relaxed), Relaxed);
    assert_eq!(shared.books.handled.load(Relaxed), 2);
    let Shared { actor, books, queue } = shared;
    assert!(actor.is_idle(), "stranded: {actor:?}");
    drop(Arc::into_inner(actor).expect("main is the last"));
    queue.inspect(|queue| queue.run_all());
    assert_eq!(fresh.states.load(Relaxed), 1, "restarted once, and dropped");
    books.balance();
}
