//! Close: what was accepted before it runs, what comes after is handed back, and the end comes once.

mod common;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Gate, Held, Tally, must_end, size};
use turnwise::{Actor, AskError, Panic, Reason, SendError, StopCause};

type Ends<S> = Arc<Mutex<Vec<(Option<S>, Option<StopCause>)>>>;

fn recording<S: Send + 'static>(state: S) -> (Actor<S>, Ends<S>) {
    let ends = Ends::default();
    let told = ends.clone();
    let actor = Actor::builder(state).on_end(move |state, cause| told.lock().unwrap().push((state, cause.stop_cause()))).spawn().unwrap();
    (actor, ends)
}

#[test]
fn five_queued_messages_are_handled_and_the_sixth_is_refused() {
    let (actor, ends) = recording(Vec::new());
    let held = Held::hold(&actor);
    for n in 1..=5 {
        actor.send(move |list: &mut Vec<i32>| list.push(n)).unwrap();
    }
    assert!(actor.close());
    let refused = actor.send(|list: &mut Vec<i32>| list.push(6)).unwrap_err();
    assert_eq!(refused.reason(), &Reason::Closed);
    assert!(ends.lock().unwrap().is_empty(), "the end comes after the last message");
    held.let_go();
    assert_eq!(*ends.lock().unwrap(), [(Some(vec![1, 2, 3, 4, 5]), None)]);
    let mut elsewhere = Vec::new();
    refused.into_message()(&mut elsewhere);
    assert_eq!(elsewhere, [6], "the message is the caller's again");
}

#[test]
fn queued_messages_run_when_a_mailbox_that_nobody_drains_is_closed() {
    let (actor, ends) = recording(0);
    (0..5).for_each(|_| actor.enqueue(|n| *n += 1).unwrap());
    assert!(actor.close());
    assert_eq!(*ends.lock().unwrap(), [(Some(5), None)]);
}

#[test]
fn a_closed_actor_refuses_every_way_of_sending() {
    let (actor, _ends) = recording(0);
    assert!(!actor.is_closed());
    assert!(actor.close());
    assert!(actor.is_closed() && actor.is_idle());
    assert_eq!(actor.send(|_| ()).unwrap_err().reason(), &Reason::Closed);
    assert_eq!(actor.try_send(|_| ()).unwrap_err().reason(), &Reason::Closed);
    assert_eq!(actor.enqueue(|_| ()).unwrap_err().reason(), &Reason::Closed);
    assert_eq!(actor.with(|_| ()), Err(AskError::Closed));
    assert_eq!(actor.ask(|_| ()).wait(), Err(AskError::Closed));
    assert_eq!(actor.try_ask(|_| ()).unwrap_err().reason(), &Reason::Closed);
    let refused: SendError<Vec<_>> = actor.send_many((1..=3).map(|i| move |n: &mut i32| *n += i)).unwrap_err();
    let (messages, reason) = refused.into_parts();
    assert_eq!(reason, Reason::Closed);
    let mut n = 0;
    messages.into_iter().for_each(|message| message(&mut n));
    assert_eq!(n, 6);
    let inside = actor.clone();
    Actor::new(()).with(move |()| assert_eq!(inside.send(|_| ()).unwrap_err().reason(), &Reason::Closed)).unwrap();
    assert_eq!(actor.stop_cause(), None);
}

#[test]
fn the_first_close_wins_and_the_end_comes_once() {
    let (actor, ends) = recording(());
    assert!(actor.close());
    assert!(!actor.close());
    assert!(!actor.close_if_idle());
    drop(actor);
    assert_eq!(ends.lock().unwrap().len(), 1);
}

#[test]
fn closing_from_inside_a_turn_takes_effect_at_once_and_ends_after_it() {
    let (actor, ends) = recording(1);
    let (me, seen) = (actor.clone(), ends.clone());
    actor
        .send(move |n| {
            me.send(|n| *n += 10).unwrap();
            assert!(me.close());
            assert!(me.send(|n| *n += 100).is_err());
            *n += 1;
            assert!(seen.lock().unwrap().is_empty());
        })
        .unwrap();
    assert_eq!(*ends.lock().unwrap(), [(Some(12), None)]);
    // Another, idle actor is closed by a turn.
    let (other, ends) = recording(5);
    let (inner, seen) = (other.clone(), ends.clone());
    Actor::new(())
        .send(move |()| {
            assert!(inner.close());
            assert!(inner.is_closed());
            assert!(seen.lock().unwrap().is_empty(), "it ends after this turn");
        })
        .unwrap();
    assert_eq!(*ends.lock().unwrap(), [(Some(5), None)]);
}

#[test]
fn close_if_idle_refuses_while_anything_runs_or_waits() {
    let (actor, ends) = recording(0);
    actor.enqueue(|_| ()).unwrap();
    assert!(!actor.close_if_idle());
    actor.drain();
    let held = Held::hold(&actor);
    assert!(!actor.close_if_idle());
    held.let_go();
    let me = actor.clone();
    actor.send(move |_| assert!(!me.close_if_idle())).unwrap();
    assert!(!actor.is_closed());
    assert!(actor.close_if_idle());
    assert!(!actor.close_if_idle());
    assert_eq!(ends.lock().unwrap().len(), 1);
}

#[test]
fn the_end_hook_may_use_other_actors_and_its_own_handle() {
    must_end(|| {
        let (log, seen) = (Actor::new(Vec::new()), Arc::new(Mutex::new(None)));
        let me: Arc<Mutex<Option<Actor<i32>>>> = Arc::default();
        let (inner_log, inner_me, told) = (log.clone(), me.clone(), seen.clone());
        let hook = move |state: Option<i32>, _| {
            inner_log.send(move |log: &mut Vec<_>| log.push(state)).unwrap();
            let me = inner_me.lock().unwrap().take().unwrap();
            *told.lock().unwrap() = Some((me.is_closed(), me.send(|_| ()).is_err(), me.with(|_| ()), me.wait_ended(Duration::MAX)));
        };
        let actor = Actor::builder(3).on_end(hook).spawn().unwrap();
        *me.lock().unwrap() = Some(actor.clone());
        actor.close();
        assert_eq!(log.with(|log| log.clone()).unwrap(), [Some(3)]);
        assert_eq!(seen.lock().unwrap().take(), Some((true, true, Err(AskError::Deadlock), Err(AskError::Deadlock))));
    });
}

#[test]
fn the_state_is_dropped_at_the_end_though_handles_are_left() {
    let part = Arc::new(());
    let actor = Actor::new(part.clone());
    actor.close();
    assert_eq!(Arc::strong_count(&part), 1);
    assert!(actor.is_closed());
    drop(actor);
}

#[test]
fn closing_under_fire_handles_what_was_accepted_and_returns_the_rest() {
    let tally = Tally::default();
    let refused = AtomicUsize::new(0);
    for round in 0..size(300, 10_000) {
        let (actor, ends) = recording(0_usize);
        let handled_before = tally.handled();
        let gate = Gate::new(3);
        thread::scope(|scope| {
            for me in 0..2 {
                let (actor, tally, gate, refused) = (&actor, &tally, &gate, &refused);
                scope.spawn(move || {
                    gate.pass();
                    for i in 0..5 {
                        let token = tally.token();
                        let message = move |n: &mut usize| {
                            *n += 1;
                            token.handle();
                        };
                        let sent = match (i + me + round) % 3 {
                            0 => actor.send(message).map_err(SendError::into_message),
                            1 => actor.enqueue(message).map_err(SendError::into_message),
                            _ => actor.try_ask(message).map(drop).map_err(SendError::into_message),
                        };
                        if let Err(message) = sent {
                            refused.fetch_add(1, SeqCst);
                            drop(message);
                        }
                    }
                });
            }
            gate.pass();
            assert!(actor.close());
        });
        assert_eq!(actor.wait_ended(Duration::ZERO), Ok(true));
        assert_eq!(*ends.lock().unwrap(), [(Some(tally.handled() - handled_before), None)]);
    }
    assert_eq!(tally.dropped(), refused.into_inner());
    tally.check();
    println!("{} messages: {} handled, {} refused", tally.created(), tally.handled(), tally.dropped());
}

#[test]
fn an_actor_that_was_restarted_ends_like_any_other() {
    let ends = Ends::default();
    let told = ends.clone();
    let builder = Actor::builder(1).on_panic(Panic::restart(|| 2));
    let actor = builder.on_end(move |state, cause| told.lock().unwrap().push((state, cause.stop_cause()))).spawn().unwrap();
    actor.send(|_| common::quiet_panic("x")).unwrap();
    actor.close();
    assert_eq!(*ends.lock().unwrap(), [(Some(2), None)]);
}
