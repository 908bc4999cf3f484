//! Handles: they keep an actor alive, and the last one ends it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Gate, Held, Tally, asked, in_turn, must_end, queued, size, until};
use turnwise::{Actor, Budget, EndCause, Overflow, System, WeakActor, promise};

#[test]
fn the_last_drop_lets_what_waits_run_first() {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let told = ended.clone();
    let hook = move |state, cause| told.lock().unwrap().push((state, cause));
    let actor = Actor::builder().on_end(hook).spawn(0).unwrap();
    let other = actor.clone();
    in_turn(|| {
        (0..5).for_each(|_| actor.send(|n| *n += 1).unwrap());
        drop(other);
        assert!(ended.lock().unwrap().is_empty());
        // Another thread drops the last one, and runs the waiting messages.
        thread::scope(|scope| scope.spawn(|| drop(actor)).join().unwrap());
        assert_eq!(*ended.lock().unwrap(), [(5, EndCause::Dropped)]);
    });
    assert_eq!(ended.lock().unwrap().len(), 1);
}

#[test]
fn the_last_drop_leaves_the_rest_to_the_one_that_runs() {
    let tally = Tally::default();
    let part = Arc::new(());
    let actor = Actor::new(part.clone());
    let held = Held::hold(&actor);
    for _ in 0..10 {
        let token = tally.token();
        actor.send(move |_| token.handle()).map_err(|_| ()).unwrap();
    }
    drop(actor);
    held.let_go();
    tally.check_all_handled();
    assert_eq!(Arc::strong_count(&part), 1);
}

#[test]
fn the_last_drop_in_its_own_turn_ends_it_afterwards() {
    let ended = Arc::new(Mutex::new(0));
    let told = ended.clone();
    let actor = Actor::builder().on_end(move |_, _| *told.lock().unwrap() += 1).spawn(()).unwrap();
    let (me, seen) = (actor.clone(), ended.clone());
    let outer = Actor::new(());
    outer
        .send(move |()| {
            let last = move |(): &mut ()| {
                drop(me);
                assert_eq!(*seen.lock().unwrap(), 0, "not inside its turn");
            };
            actor.send(last).unwrap();
        })
        .unwrap();
    assert_eq!(*ended.lock().unwrap(), 1);
}

#[test]
fn a_weak_handle_keeps_nothing_going() {
    let part = Arc::new(());
    let actor = Actor::builder().name("weak").spawn(part.clone()).unwrap();
    let weak = actor.downgrade();
    let again = weak.clone();
    assert_eq!(weak.upgrade().unwrap(), actor);
    drop(actor);
    assert_eq!(Arc::strong_count(&part), 1);
    assert!(weak.upgrade().is_none() && again.upgrade().is_none());
    assert_eq!(again.name(), Some("weak"), "the name is there as long as anything is");
}

#[test]
fn an_upgraded_handle_is_a_handle() {
    let actor = Actor::new(1);
    let weak = actor.downgrade();
    let strong = weak.upgrade().unwrap();
    drop(actor);
    strong.send(|n| *n += 1).unwrap();
    assert_eq!(strong.with(|n| *n), Ok(2));
    drop(strong);
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_closed_actor_can_still_be_upgraded() {
    let actor = Actor::new(1);
    let weak = actor.downgrade();
    actor.close();
    assert!(weak.upgrade().is_some_and(|actor| actor.is_closed()));
}

#[test]
fn a_handle_outlives_the_threads_that_made_or_used_it() {
    let (queue, actor) = thread::spawn(|| {
        let (queue, actor) = queued(Vec::new());
        for n in 0..1_000 {
            actor.send(move |list: &mut Vec<i32>| list.push(n)).unwrap();
        }
        (queue, actor)
    })
    .join()
    .unwrap();
    let inner = actor.clone();
    let more = move || (1_000..2_000).for_each(|n| inner.send(move |list| list.push(n)).unwrap());
    thread::spawn(more).join().unwrap();
    let list = asked(&queue, &actor, |list| list.clone());
    assert_eq!(list, (0..2_000).collect::<Vec<_>>());
}

#[test]
fn a_reply_outlives_every_handle() {
    let actor = Actor::new(3);
    let mut reply = in_turn(move || {
        actor.send(|_| ()).unwrap();
        let reply = actor.call(|n| *n);
        drop(actor);
        assert!(!reply.is_ready());
        reply
    });
    assert_eq!(crate::common::poll_once(&mut reply), std::task::Poll::Ready(Ok(3)));
    // With an executor, too.
    let (queue, actor) = queued(3);
    let reply = actor.call(|n| *n);
    drop(actor);
    queue.run_until_idle();
    drop(queue);
    assert_eq!(reply.wait(), Ok(3));
}

#[test]
fn handles_are_equal_by_identity() {
    let (one, two) = (Actor::new(1), Actor::new(1));
    assert_eq!(one, one.clone());
    assert_ne!(one, two);
    let mut all = HashSet::from([one.clone(), two.clone(), one.clone()]);
    assert_eq!(all.len(), 2);
    let (weak, other) = (one.downgrade(), two.downgrade());
    assert_eq!(weak, one.downgrade());
    assert_ne!(weak, other);
    let weaks = HashSet::from([weak.clone(), other, one.downgrade()]);
    assert_eq!(weaks.len(), 2);
    assert!(all.remove(&weak.upgrade().unwrap()) && !all.remove(&one));
    drop((all, one));
    assert!(weak.upgrade().is_none() && weaks.contains(&weak), "it has led there");
}

#[test]
fn debug_shows_what_an_operator_wants_to_know() {
    let actor = Actor::builder().name("clerk").spawn(()).unwrap();
    let _other = actor.clone();
    let text = in_turn(|| {
        actor.send(|()| ()).unwrap();
        format!("{actor:?}")
    });
    for part in ["clerk", "1 queued", "handles: 2"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(format!("{:?}", actor.downgrade()).contains("clerk"));
}

#[test]
fn debug_names_the_type_and_shows_how_far_it_is() {
    let builder = Actor::builder().name("clerk").capacity(1, Overflow::Reject);
    let actor = builder.spawn(()).unwrap();
    let text = format!("{:?}", actor.waiting());
    assert!(text.starts_with("Waiting(") && text.contains("clerk"), "{text}");
    let held = Held::hold(&actor);
    let (sent, asked) = (actor.waiting().send(|()| ()), actor.waiting().call(|()| ()));
    assert_eq!(format!("{sent:?}"), "Sending { waits: false, .. }");
    assert_eq!(format!("{asked:?}"), "Asking { reply: Reply { ready: false, .. }, .. }");
    let waits = actor.waiting().send(|()| ());
    assert_eq!(format!("{waits:?}"), "Sending { waits: true, .. }");
    drop((waits, asked));
    held.let_go();
    assert_eq!(format!("{:?}", actor.ended()), "Ending { awaited: End, .. }");
    assert_eq!(format!("{:?}", actor.idle()), "Ending { awaited: Idle, .. }");
    let (promise, reply) = promise::<()>();
    assert_eq!(format!("{promise:?}"), "Promise { cancelled: false, .. }");
    assert!(reply.cancel().is_ok());
    assert_eq!(format!("{promise:?}"), "Promise { cancelled: true, .. }");
    let budget = Budget::turns(7).time(Duration::from_secs(1));
    assert_eq!(format!("{budget:?}"), "Budget { turns: Some(7), time: Some(1s), .. }");
    assert_eq!(format!("{:?}", Budget::UNLIMITED), "Budget { turns: None, time: None, .. }");
    let system = System::default();
    let shown = "System { shut_down: false, actors: [], discarded: 0 }";
    assert_eq!(format!("{system:?}"), shown);
    let mut closing = system.shutdown_async();
    assert_eq!(format!("{closing:?}"), "Closing { report: None, .. }");
    assert!(crate::common::poll_once(&mut closing).is_ready());
    assert!(format!("{closing:?}").starts_with("Closing { report: Some("));
}

#[test]
fn a_state_that_holds_its_own_weak_handle_is_dropped() {
    struct Own(
        Option<WeakActor<Own>>,
        #[expect(dead_code, reason = "it is there to be dropped")] Arc<()>,
    );
    let part = Arc::new(());
    let actor = Actor::new(Own(None, part.clone()));
    let weak = actor.downgrade();
    actor.with(|own| own.0 = Some(weak)).unwrap();
    drop(actor);
    assert_eq!(Arc::strong_count(&part), 1);
}

#[test]
fn upgrading_under_fire_ends_once_and_loses_nothing() {
    must_end(|| {
        let tally = Tally::default();
        let ended = Arc::new(Mutex::new(0));
        let rounds = size(300, 20_000);
        for _ in 0..rounds {
            let told = ended.clone();
            let actor =
                Actor::builder().on_end(move |_, _| *told.lock().unwrap() += 1).spawn(()).unwrap();
            let weak = actor.downgrade();
            let gate = Gate::new(3);
            thread::scope(|scope| {
                for _ in 0..2 {
                    let (weak, tally, gate) = (&weak, &tally, &gate);
                    scope.spawn(move || {
                        gate.pass();
                        for i in 0..4 {
                            let Some(actor) = weak.upgrade() else { return };
                            let token = tally.token();
                            let message = move |(): &mut ()| token.handle();
                            let sent = match i % 2 {
                                0 => actor.send(message),
                                _ => actor.posted().send(message),
                            };
                            sent.map_err(|_| ()).unwrap();
                        }
                    });
                }
                gate.pass();
                drop(actor);
            });
            assert!(weak.upgrade().is_none());
        }
        // The pool may be running the posted messages.
        until(|| *ended.lock().unwrap() >= rounds);
        assert_eq!(*ended.lock().unwrap(), rounds);
        tally.check_all_handled();
    });
}

#[test]
fn clones_on_many_threads_are_all_counted() {
    let part = Arc::new(());
    let actor = Actor::new(part.clone());
    let each = size(2_000, 200_000);
    thread::scope(|scope| {
        for _ in 0..4 {
            let actor = actor.clone();
            scope.spawn(move || {
                for _ in 0..each {
                    let clone = actor.clone();
                    let weak = clone.downgrade();
                    drop(clone);
                    assert!(weak.upgrade().is_some());
                }
            });
        }
    });
    assert_eq!(Arc::strong_count(&part), 2);
    drop(actor);
    assert_eq!(Arc::strong_count(&part), 1);
}
