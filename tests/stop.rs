//! Stop: queued messages are given back, each once, and every asker is told.

mod common;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Gate, Held, Tally, block_on, closure, must_end, quiet_panic, size};
use turnwise::{Actor, AskError, Reason, StopCause};

const REQUESTED: StopCause = StopCause::Requested;

#[test]
fn each_queued_message_goes_to_the_hook_once_and_can_be_run_elsewhere() {
    let back = Arc::new(Mutex::new(Vec::new()));
    let given = back.clone();
    let actor = Actor::builder(Vec::new()).undelivered(move |message| given.lock().unwrap().push(message)).spawn().unwrap();
    let held = Held::hold(&actor);
    for n in 1..=5 {
        actor.send(move |list: &mut Vec<i32>| list.push(n)).unwrap();
    }
    assert!(actor.stop());
    assert!(!actor.stop());
    assert_eq!(actor.stop_cause(), Some(REQUESTED));
    assert!(back.lock().unwrap().is_empty(), "the turn that runs is not disturbed");
    held.let_go();
    let messages = std::mem::take(&mut *back.lock().unwrap());
    let mut elsewhere = Vec::new();
    messages.into_iter().for_each(|message| closure(message)(&mut elsewhere));
    assert_eq!(elsewhere, [1, 2, 3, 4, 5], "in their order");
}

#[test]
fn everything_after_stop_is_refused_with_the_cause() {
    let actor = Actor::new(0);
    actor.stop();
    let stopped = Reason::Stopped(REQUESTED);
    assert_eq!(actor.send(|_| ()).unwrap_err().reason(), &stopped);
    assert_eq!(actor.enqueue(|_| ()).unwrap_err().reason(), &stopped);
    assert_eq!(actor.send_many([|_: &mut i32| ()]).unwrap_err().reason(), &stopped);
    assert_eq!(actor.with(|_| ()), Err(AskError::Stopped(REQUESTED)));
    assert_eq!(actor.ask(|_| ()).wait(), Err(AskError::Stopped(REQUESTED)));
    assert!(actor.is_closed() && actor.is_idle());
}

#[test]
fn askers_and_callers_of_with_are_told() {
    must_end(|| {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        let actor = Actor::builder(0).undelivered(move |_| _ = count.fetch_add(1, SeqCst)).spawn().unwrap();
        let held = Held::hold(&actor);
        let (first, second) = (actor.ask(|n| *n), actor.ask(|n| *n));
        actor.stop();
        assert_eq!(actor.with(|n| *n), Err(AskError::Stopped(REQUESTED)));
        held.let_go();
        assert_eq!(first.wait(), Err(AskError::Stopped(REQUESTED)));
        assert_eq!(block_on(second), Err(AskError::Stopped(REQUESTED)));
        assert_eq!(calls.load(SeqCst), 0, "questions are not handed to the hook");
    });
}

#[test]
fn a_with_that_waits_when_its_actor_stops_is_told_and_keeps_its_closure() {
    must_end(|| {
        let actor = Actor::new(0);
        let tally = Tally::default();
        let stopper = actor.clone();
        let held = Held::hold_until_waiting(&actor, 2);
        // The next turn stops the actor, when the caller of `with` waits behind it.
        actor.enqueue(move |_| _ = stopper.stop()).unwrap();
        let token = tally.token();
        assert_eq!(actor.with(|_| token.handle()), Err(AskError::Stopped(REQUESTED)));
        held.let_go();
        assert_eq!(tally.dropped(), 1);
        tally.check();
    });
}

#[test]
fn stop_from_inside_a_turn_gives_back_what_waits() {
    let tally = Tally::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let told = ended.clone();
    let actor = Actor::builder(1)
        .undelivered(move |message| {
            count.fetch_add(1, SeqCst);
            closure(message)(&mut 0);
        })
        .on_end(move |state, cause| told.lock().unwrap().push((state, cause.stop_cause())))
        .spawn()
        .unwrap();
    let (me, turn) = (actor.clone(), tally.clone());
    actor
        .send(move |n| {
            for _ in 0..5 {
                let token = turn.token();
                me.send(move |_| token.come_back()).map_err(|_| ()).unwrap();
            }
            assert!(me.stop());
            assert!(me.send(|_| ()).is_err());
            *n += 1;
        })
        .unwrap();
    assert_eq!((calls.load(SeqCst), tally.returned()), (5, 5));
    tally.check();
    assert_eq!(*ended.lock().unwrap(), [(Some(2), Some(REQUESTED))]);
}

#[test]
fn a_parked_mailbox_is_stopped_on_the_spot() {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let told = ended.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let actor = Actor::builder(7)
        .undelivered(move |_| _ = count.fetch_add(1, SeqCst))
        .on_end(move |state, cause| told.lock().unwrap().push((state, cause.stop_cause())))
        .spawn()
        .unwrap();
    (0..5).for_each(|_| actor.enqueue(|_| unreachable!("stopped")).unwrap());
    let asked = actor.clone();
    let reply = thread::spawn(move || {
        let outer = Actor::new(());
        // Asked inside a turn: neither is run here.
        let mut reply = None;
        outer
            .with(|()| {
                reply = Some(asked.ask(|_| unreachable!("stopped")));
                asked.stop();
            })
            .unwrap();
        reply.unwrap()
    });
    let reply: turnwise::Reply<()> = reply.join().unwrap();
    assert_eq!(reply.wait(), Err(AskError::Stopped(REQUESTED)));
    assert_eq!(calls.load(SeqCst), 5);
    assert_eq!(*ended.lock().unwrap(), [(Some(7), Some(REQUESTED))]);
}

#[test]
fn stop_after_close_gives_back_what_has_not_run() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let actor = Actor::builder(0).undelivered(move |_| _ = count.fetch_add(1, SeqCst)).spawn().unwrap();
    let held = Held::hold(&actor);
    (0..3).for_each(|_| actor.send(|_| ()).unwrap());
    assert!(actor.close());
    assert!(actor.stop());
    held.let_go();
    assert_eq!(calls.load(SeqCst), 3);
    assert_eq!(actor.wait_ended(Duration::ZERO), Ok(true));
}

#[test]
fn without_a_hook_messages_that_are_not_run_are_dropped() {
    let tally = Tally::default();
    let actor = Actor::new(());
    for _ in 0..1_000 {
        let token = tally.token();
        actor.enqueue(move |()| token.handle()).map_err(|_| ()).unwrap();
    }
    actor.stop();
    assert_eq!(tally.dropped(), 1_000);
    tally.check();
}

#[test]
fn the_hook_may_send_to_others_and_to_itself_in_vain() {
    let log = Actor::new(Vec::new());
    let inner = log.clone();
    let me: Arc<Mutex<Option<Actor<()>>>> = Arc::default();
    let own = me.clone();
    let actor = Actor::builder(())
        .undelivered(move |_| {
            let refused = own.lock().unwrap().as_ref().unwrap().send(|()| ()).is_err();
            inner.send(move |log: &mut Vec<_>| log.push(refused)).unwrap();
        })
        .spawn()
        .unwrap();
    *me.lock().unwrap() = Some(actor.clone());
    (0..3).for_each(|_| actor.enqueue(|()| ()).unwrap());
    actor.stop();
    assert_eq!(log.with(|log| log.clone()).unwrap(), [true; 3]);
    me.lock().unwrap().take();
}

#[test]
fn stopping_under_fire_loses_no_message_and_no_asker() {
    must_end(|| {
        let tally = Tally::default();
        for round in 0..size(300, 10_000) {
            let hook = tally.clone();
            let actor = Actor::builder(())
                .undelivered(move |message| {
                    // The message's own token counts as dropped.
                    drop(message);
                    hook.token().come_back();
                })
                .spawn()
                .unwrap();
            let gate = Gate::new(3);
            thread::scope(|scope| {
                for me in 0..2 {
                    let (actor, tally, gate) = (&actor, &tally, &gate);
                    scope.spawn(move || {
                        gate.pass();
                        for i in 0..6 {
                            let token = tally.token();
                            let message = move |(): &mut ()| token.handle();
                            match (i + me + round) % 4 {
                                0 => drop(actor.send(message)),
                                1 => drop(actor.enqueue(message)),
                                2 => _ = actor.ask(message).wait(),
                                _ => _ = actor.with(message),
                            }
                        }
                    });
                }
                gate.pass();
                if round % 5 == 0 {
                    _ = actor.send(|()| quiet_panic("stops it too"));
                } else {
                    actor.stop();
                }
            });
            actor.stop();
            assert_eq!(actor.wait_ended(Duration::MAX), Ok(true));
            tally.check();
        }
        println!("{} messages: {} handled, {} given back", tally.created(), tally.handled(), tally.returned());
    });
}
