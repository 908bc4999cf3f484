//! A state that is made by the first turn: once, and only if there is one.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use turnwise::{Actor, ActorBuilder, AskError, OwnError, Panic, StopCause};

/// What an end hook is told.
type End = (Option<u64>, Option<StopCause>);

/// An actor that starts at 100, the number of factory calls, and what its end hook is told.
fn counted() -> (ActorBuilder<u64>, Arc<AtomicUsize>, Receiver<End>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let inner = calls.clone();
    let (tx, rx) = channel();
    let builder = ActorBuilder::lazy(move || {
        inner.fetch_add(1, SeqCst);
        100
    });
    (builder.on_end(move |state, cause| tx.send((state, cause.stop_cause())).unwrap()), calls, rx)
}

#[test]
fn sixty_four_first_senders_make_one_state() {
    let rounds = if cfg!(miri) { 1 } else { 50 };
    for _ in 0..rounds {
        let (builder, calls, ended) = counted();
        let actor = builder.spawn().unwrap();
        let start = Barrier::new(64);
        thread::scope(|scope| {
            for n in 0..64_u64 {
                let (actor, start) = (&actor, &start);
                scope.spawn(move || {
                    start.wait();
                    match n % 4 {
                        0 => actor.send(|state| *state += 1).unwrap(),
                        1 => actor.with(|state| *state += 1).unwrap(),
                        2 => actor.ask(|state| *state += 1).wait().unwrap(),
                        // Refused if another one is at it: then it sends.
                        _ if actor.try_own(|state| **state += 1).is_ok() => {}
                        _ => actor.send(|state| *state += 1).unwrap(),
                    }
                });
            }
        });
        drop(actor);
        assert_eq!(ended.recv().unwrap(), (Some(164), None));
        assert_eq!(calls.load(SeqCst), 1);
    }
}

#[test]
fn without_a_turn_there_is_no_state() {
    for case in 0..4 {
        let (builder, calls, ended) = counted();
        let actor = builder.spawn().unwrap();
        let cause = match case {
            0 => None,
            1 => {
                assert!(actor.close());
                None
            }
            2 => {
                assert!(actor.stop());
                Some(StopCause::Requested)
            }
            _ => {
                actor.enqueue(|n| *n += 1).unwrap();
                assert_eq!(calls.load(SeqCst), 0);
                assert!(actor.stop());
                Some(StopCause::Requested)
            }
        };
        drop(actor);
        assert_eq!(ended.recv().unwrap(), (None, cause));
        assert_eq!(calls.load(SeqCst), 0);
    }
}

#[test]
fn what_waits_when_it_is_closed_makes_a_state() {
    let (builder, calls, ended) = counted();
    let actor = builder.spawn().unwrap();
    actor.enqueue(|n| *n += 1).unwrap();
    actor.close();
    assert_eq!(ended.recv().unwrap(), (Some(101), None));
    assert_eq!(calls.load(SeqCst), 1);
}

#[test]
fn an_unused_factory_is_dropped_with_the_actor() {
    let token = Arc::new(());
    let inner = token.clone();
    let actor = Actor::lazy(move || inner);
    assert_eq!(Arc::strong_count(&token), 2);
    drop(actor);
    assert_eq!(Arc::strong_count(&token), 1);
    let inner = token.clone();
    let actor = Actor::lazy(move || inner);
    actor.send(|_| ()).unwrap();
    assert_eq!(Arc::strong_count(&token), 2);
    drop(actor);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn a_panicking_factory_is_the_policys() {
    let cause = || StopCause::Panicked("no disk".into());
    for policy in [Panic::Stop, Panic::Resume, Panic::restart(|| 7), Panic::restart(|| panic!("none here either"))] {
        let goes_on = matches!(&policy, Panic::Restart(_));
        let told = Arc::new(Mutex::new(Vec::new()));
        let hook = told.clone();
        let (tx, ended) = channel();
        let given_back = Arc::new(AtomicUsize::new(0));
        let back = given_back.clone();
        let name = format!("{policy:?}");
        let actor = ActorBuilder::lazy(|| panic!("no disk"))
            .on_panic(policy)
            .panic_hook(move |text| hook.lock().unwrap().push(text.to_owned()))
            .undelivered(move |_| _ = back.fetch_add(1, SeqCst))
            .on_end(move |state: Option<u32>, cause| tx.send((state, cause.stop_cause())).unwrap())
            .spawn()
            .unwrap();
        actor.enqueue(|n| *n += 1).unwrap();
        actor.enqueue(|n| *n += 1).unwrap();
        let asked = actor.ask(|n| *n);
        assert_eq!(*told.lock().unwrap(), ["no disk"], "{name}");
        match asked.wait() {
            Ok(n) => {
                assert!(goes_on);
                assert_eq!((n, given_back.load(SeqCst)), (9, 0));
                drop(actor);
                assert_eq!(ended.recv().unwrap(), (Some(9), None));
            }
            Err(error) => {
                assert_eq!(error, AskError::Stopped(cause()));
                assert_eq!(given_back.load(SeqCst), 2, "neither ran");
                assert_eq!(actor.stop_cause(), Some(cause()));
                assert_eq!(actor.try_own(|_| ()), Err(OwnError::Stopped(cause())));
                assert_eq!(ended.recv().unwrap(), (None, Some(cause())));
                actor.wait_idle().unwrap();
            }
        }
    }
}

#[test]
fn a_panicking_factory_answers_every_first_caller() {
    let (actor, fired) = (Actor::<u32>::lazy(|| panic!("no disk")), Barrier::new(8));
    let error = AskError::Stopped(StopCause::Panicked("no disk".into()));
    thread::scope(|scope| {
        for n in 0..8 {
            let (actor, fired, error) = (&actor, &fired, &error);
            scope.spawn(move || {
                fired.wait();
                let answer = if n % 2 == 0 { actor.with(|n| *n) } else { actor.ask(|n| *n).wait() };
                assert_eq!(answer.as_ref(), Err(error));
            });
        }
    });
}

#[test]
fn it_starts_before_the_pass() {
    let actor = ActorBuilder::lazy(|| vec!["made"])
        .before_pass(|log| log.push("before"))
        .after_pass(|log, turns| log.push(if turns == 1 { "after one" } else { "after" }))
        .spawn()
        .unwrap();
    actor.send(|log| log.push("turn")).unwrap();
    assert_eq!(actor.with(|log| log.clone()).unwrap(), ["made", "before", "turn", "after one", "before"]);
}

#[test]
fn a_factory_that_uses_its_own_actor_waits_for_nothing() {
    let (handle, own) = channel::<Actor<u32>>();
    let actor = Actor::lazy(move || {
        let me = own.recv().unwrap();
        assert_eq!(me.with(|_| ()), Err(AskError::Deadlock));
        assert_eq!(me.try_own(|_| ()), Err(OwnError::Busy));
        me.send(|n| *n += 10).unwrap();
        1
    });
    handle.send(actor.clone()).unwrap();
    actor.send(|n| *n += 1).unwrap();
    assert_eq!(actor.with(|n| *n), Ok(12));
}
