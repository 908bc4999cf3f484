//! Orders of steps, and conditions that are easily forgotten: a test for each planted bug that no
//! other test has found (`docs/verification.md`).

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;

use crate::common::{Held, block_on, in_turn, must_end, poll_once, tireless, until};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, Drain, Limit, Overflow, Reason, StopCause, System};

/// An actor whose executor runs everything in the call.
fn in_the_call<S: Send + 'static>(state: S) -> Actor<S> {
    Actor::builder().executor(|drain: Drain| drain.run()).spawn(state).unwrap()
}

#[test]
fn a_budget_that_ends_frees_no_place_for_newcomers() {
    for capacity in [1, 2, 4, 5, 8, 9] {
        for budget in 1..5 {
            let queue = DrainQueue::new();
            let builder = Actor::builder().capacity(capacity, Overflow::Reject);
            let log = builder.executor(queue.handle()).budget(budget).spawn(Vec::new()).unwrap();
            let handled = Arc::new(AtomicUsize::new(0));
            let push = |n: usize| {
                let handled = handled.clone();
                move |log: &mut Vec<usize>| {
                    handled.fetch_add(1, SeqCst);
                    log.push(n);
                }
            };
            (0..capacity).for_each(|n| log.send(push(n)).unwrap());
            let all = 2 * capacity + 5;
            let _waiting: Vec<_> = (capacity..all).map(|n| log.waiting().send(push(n))).collect();
            while queue.run_one() {
                // No poll comes first, because it would take a free place.
                if handled.load(SeqCst) + log.len() < all {
                    let refused = log.send(push(99)).unwrap_err();
                    assert_eq!(refused.reason(), &Reason::Full, "{capacity}, {budget}");
                }
            }
            let seen = log.call(|log| log.clone());
            queue.run_until_idle();
            assert_eq!(seen.wait().unwrap(), (0..all).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_drain_on_top_of_a_turn_leaves_nothing_to_it() {
    must_end(|| {
        let queue = Arc::new(DrainQueue::new());
        let upper = Actor::builder().executor(queue.handle()).spawn(()).unwrap();
        let (plain, ran) = (Actor::new(()), Arc::new(AtomicBool::new(false)));
        let (tells, told) = (ran.clone(), ran);
        upper.send(move |()| plain.send(move |()| tells.store(true, SeqCst)).unwrap()).unwrap();
        in_turn(|| {
            assert!(queue.run_one());
            // The wait is invisible to the crate.
            until(|| told.load(SeqCst));
        });
    });
}

#[test]
fn a_long_list_is_run_in_its_order_round_by_round() {
    const ACTORS: usize = 30;
    const ROUNDS: usize = 4;
    fn again(log: &Arc<Mutex<Vec<usize>>>, own: Actor<usize>, left: usize) {
        let (log, next) = (log.clone(), own.clone());
        let turn = move |n: &mut usize| {
            log.lock().unwrap().push(*n);
            if left > 1 {
                again(&log, next, left - 1);
            }
        };
        own.send(turn).unwrap();
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let actors: Vec<_> = (0..ACTORS).map(tireless).collect();
    Actor::builder()
        .spawn(())
        .unwrap()
        .with(|()| actors.iter().for_each(|actor| again(&log, actor.clone(), ROUNDS)))
        .unwrap();
    let expected: Vec<_> = (0..ROUNDS).flat_map(|_| 0..ACTORS).collect();
    assert_eq!(*log.lock().unwrap(), expected);
}

#[test]
fn what_an_executor_runs_in_the_call_runs_after_it() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (one, two) = (Actor::new(()), in_the_call(()));
    let inside = log.clone();
    one.send(move |()| {
        let last = inside.clone();
        inside.lock().unwrap().push("begins");
        two.send(move |()| last.lock().unwrap().push("sent")).unwrap();
        inside.lock().unwrap().push("ends");
    })
    .unwrap();
    assert_eq!(*log.lock().unwrap(), ["begins", "ends", "sent"]);
}

#[test]
fn a_poll_runs_nothing_on_any_executor() {
    must_end(|| {
        let actor = in_the_call(());
        let (gives, given) = mpsc::channel();
        let (go, waits) = mpsc::channel::<()>();
        let busy = thread::spawn(move || {
            in_turn(move || {
                // Deferred until this turn is over.
                gives.send(actor.call(|()| thread::current().id())).unwrap();
                let _ = waits.recv();
            });
        });
        let mut reply = given.recv().unwrap();
        let ran_on = match poll_once(&mut reply) {
            Poll::Ready(ran_on) => ran_on,
            Poll::Pending => block_on(reply),
        };
        assert_ne!(ran_on.unwrap(), thread::current().id());
        drop(go);
        busy.join().unwrap();
    });
}

#[test]
fn a_shutdown_that_was_given_up_is_no_stop() {
    must_end(|| {
        let system = System::new();
        let actor = system.actor(()).unwrap();
        let held = Held::hold(&actor);
        let mut closing = system.shutdown_async();
        assert!(poll_once(&mut closing).is_pending());
        drop(closing);
        assert_eq!(actor.stop_cause(), None);
        drop(system);
        assert_eq!(actor.stop_cause(), Some(StopCause::Requested));
        held.let_go();
    });
}

/// Shuts a system down when it is dropped.
struct ShutsDown(System);

impl Drop for ShutsDown {
    fn drop(&mut self) {
        _ = self.0.shutdown(Limit::Immediate);
    }
}

/// Keeps itself alive.
struct Own(#[allow(dead_code, reason = "it is dropped")] Option<Actor<Own>>);

#[test]
fn what_the_end_of_a_shutdown_drops_may_shut_down() {
    must_end(|| {
        for _ in 0..300 {
            let system = System::new();
            let hook = ShutsDown(System::new());
            let inside = system.clone();
            // Nothing else keeps its memory: the rest of it is dropped while the shutdown looks.
            let other = Actor::builder().on_undelivered(move |_| _ = &hook);
            let other = system.spawn(other, Own(None)).unwrap();
            let own = other.clone();
            other.send(move |kept| kept.0 = Some(own)).unwrap();
            drop((other, system));
            let shut_down = move |(): &mut ()| inside.shutdown(Limit::Unlimited).is_ok();
            assert_eq!(Actor::new(()).call(shut_down).wait(), Ok(true));
        }
    });
}
