//! Stop: queued messages are given back, each once, and every asker gets an answer.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{
    Gate, Held, Tally, block_on, closure, in_turn, must_end, queued, quiet_panic, size, until,
};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, ActorName, AskError, EndCause, Reason, StopCause};

const REQUESTED: StopCause = StopCause::Requested;
const STOPPED: AskError = AskError::Refused(Reason::Stopped(REQUESTED), ActorName::ANY);

#[test]
fn what_waits_goes_to_the_hook_once_and_can_still_run() {
    let back = Arc::new(Mutex::new(Vec::new()));
    let given = back.clone();
    let actor = Actor::builder()
        .on_undelivered(move |message| given.lock().unwrap().push(message))
        .spawn(Vec::new())
        .unwrap();
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
    assert_eq!(actor.posted().send(|_| ()).unwrap_err().reason(), &stopped);
    assert_eq!(actor.waiting().send(|_| ()).wait().unwrap_err().reason(), &stopped);
    assert_eq!(actor.waiting().call(|_| ()).wait(), Err(STOPPED));
    assert_eq!(actor.send_many([|_: &mut i32| ()]).unwrap_err().reason(), &stopped);
    assert_eq!(actor.with(|_| ()), Err(STOPPED));
    assert_eq!(actor.call(|_| ()).wait(), Err(STOPPED));
    assert!(actor.is_closed() && actor.is_idle());
}

#[test]
fn an_actor_that_has_ended_is_stopped_no_more() {
    let actor = Actor::new(0);
    assert!(actor.close());
    assert!(!actor.stop() && !actor.downgrade().stop());
    assert_eq!(actor.stop_cause(), None);
    assert_eq!(actor.send(|_| ()).unwrap_err().into_reason(), Reason::Closed);
    let weak = Actor::new(0).downgrade();
    assert!(!weak.stop(), "it ended with its last handle");
    // Closed, and not at its end yet.
    let (queue, actor) = queued(0);
    let asked = actor.call(|n| *n);
    assert!(actor.close() && actor.stop() && !actor.stop());
    queue.run_until_idle();
    assert_eq!(asked.wait(), Err(STOPPED));
}

#[test]
fn a_stop_and_the_cause_of_the_end_agree() {
    must_end(|| {
        for _ in 0..if cfg!(miri) { 5 } else { 500 } {
            let cause = Arc::new(Mutex::new(None));
            let told = cause.clone();
            let builder = Actor::builder().on_end(move |_, cause| {
                *told.lock().unwrap() = Some(cause);
            });
            let actor = builder.spawn(()).unwrap();
            let start = Barrier::new(2);
            let stopped = thread::scope(|scope| {
                let stops = scope.spawn(|| {
                    start.wait();
                    actor.stop()
                });
                start.wait();
                actor.close();
                stops.join().unwrap()
            });
            actor.ended().wait().unwrap();
            let end = cause.lock().unwrap().take().and_then(EndCause::stop_cause);
            assert_eq!(stopped, end.is_some());
            assert_eq!(actor.stop_cause(), end);
        }
    });
}

#[test]
fn askers_and_callers_of_with_are_told() {
    must_end(|| {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        let actor = Actor::builder()
            .on_undelivered(move |_| _ = count.fetch_add(1, SeqCst))
            .spawn(0)
            .unwrap();
        let held = Held::hold(&actor);
        let (first, second) = (actor.call(|n| *n), actor.call(|n| *n));
        actor.stop();
        assert_eq!(actor.with(|n| *n), Err(STOPPED));
        held.let_go();
        assert_eq!(first.wait(), Err(STOPPED));
        assert_eq!(block_on(second), Err(STOPPED));
        assert_eq!(calls.load(SeqCst), 0, "questions are not handed to the hook");
    });
}

#[test]
fn a_with_that_waits_at_a_stop_keeps_its_closure() {
    must_end(|| {
        let actor = Actor::new(0);
        let tally = Tally::default();
        let stopper = actor.clone();
        let held = Held::hold_until_waiting(&actor, 2);
        // The next turn stops the actor, when the caller of `with` waits behind it.
        actor.send(move |_| _ = stopper.stop()).unwrap();
        let token = tally.token();
        assert_eq!(actor.with(|_| token.handle()), Err(STOPPED));
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
    let actor = Actor::builder()
        .on_undelivered(move |message| {
            count.fetch_add(1, SeqCst);
            closure(message)(&mut 0);
        })
        .on_end(move |state, cause| told.lock().unwrap().push((state, cause)))
        .spawn(1)
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
    assert_eq!(*ended.lock().unwrap(), [(2, EndCause::Stopped(REQUESTED))]);
}

#[test]
fn a_parked_mailbox_is_stopped_on_the_spot() {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let told = ended.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let actor = Actor::builder()
        .on_undelivered(move |_| _ = count.fetch_add(1, SeqCst))
        .on_end(move |state, cause| told.lock().unwrap().push((state, cause)))
        .spawn(7)
        .unwrap();
    must_end(move || {
        // This thread has deferred it, and is inside a turn: the thread that stops it gives all
        // back.
        in_turn(|| {
            (0..5).for_each(|_| actor.send(|_| unreachable!("stopped")).unwrap());
            let asked = actor.call(|_| unreachable!("stopped"));
            thread::scope(|scope| assert!(scope.spawn(|| actor.stop()).join().unwrap()));
            assert_eq!(asked.wait(), Err::<(), _>(STOPPED));
            assert_eq!(calls.load(SeqCst), 5);
            assert_eq!(*ended.lock().unwrap(), [(7, EndCause::Stopped(REQUESTED))]);
        });
    });
}

#[test]
fn what_a_turn_has_sent_and_stopped_comes_back() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let hook = move |_| _ = count.fetch_add(1, SeqCst);
    let actor = Actor::builder().on_undelivered(hook).spawn(()).unwrap();
    let asked = in_turn(|| {
        (0..5).for_each(|_| actor.send(|()| unreachable!("stopped")).unwrap());
        let asked = actor.call(|()| unreachable!("stopped"));
        assert!(actor.stop());
        assert_eq!(calls.load(SeqCst), 0, "not inside this turn");
        asked
    });
    assert_eq!(asked.wait(), Err::<(), _>(STOPPED));
    assert_eq!(calls.load(SeqCst), 5);
}

#[test]
fn with_an_executor_a_stop_gives_back_there() {
    let queue = DrainQueue::new();
    let (calls, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (count, told) = (calls.clone(), ended.clone());
    let actor = Actor::builder()
        .executor(queue.handle())
        .on_undelivered(move |_| _ = count.fetch_add(1, SeqCst))
        .on_end(move |state, cause| told.lock().unwrap().push((state, cause)))
        .spawn(7)
        .unwrap();
    (0..5).for_each(|_| actor.send(|_| unreachable!("stopped")).unwrap());
    let asked = actor.call(|_| unreachable!("stopped"));
    assert!(actor.stop());
    assert!(!asked.is_ready());
    assert_eq!((calls.load(SeqCst), ended.lock().unwrap().len()), (0, 0));
    queue.run_until_idle();
    assert_eq!(asked.wait(), Err::<(), _>(STOPPED));
    assert_eq!(calls.load(SeqCst), 5);
    assert_eq!(*ended.lock().unwrap(), [(7, EndCause::Stopped(REQUESTED))]);
}

#[test]
fn stop_after_close_gives_back_what_has_not_run() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let actor =
        Actor::builder().on_undelivered(move |_| _ = count.fetch_add(1, SeqCst)).spawn(0).unwrap();
    let held = Held::hold(&actor);
    (0..3).for_each(|_| actor.send(|_| ()).unwrap());
    assert!(actor.close());
    assert!(actor.stop());
    held.let_go();
    assert_eq!(calls.load(SeqCst), 3);
    assert_eq!(actor.ended().within(Duration::ZERO), Ok(true));
}

#[test]
fn without_a_hook_what_is_not_run_is_dropped() {
    let tally = Tally::default();
    let actor = Actor::new(());
    in_turn(|| {
        for _ in 0..1_000 {
            let token = tally.token();
            actor.send(move |()| token.handle()).map_err(|_| ()).unwrap();
        }
        actor.stop();
    });
    // Messages left when the budget of this thread's list is spent are given back elsewhere.
    until(|| tally.dropped() == 1_000);
    tally.check();
}

#[test]
fn the_hook_may_send_to_others_and_to_itself_in_vain() {
    let log = Actor::new(Vec::new());
    let inner = log.clone();
    let me: Arc<Mutex<Option<Actor<()>>>> = Arc::default();
    let own = me.clone();
    let actor = Actor::builder()
        .on_undelivered(move |_| {
            let refused = own.lock().unwrap().as_ref().unwrap().send(|()| ()).is_err();
            inner.send(move |log: &mut Vec<_>| log.push(refused)).unwrap();
        })
        .spawn(())
        .unwrap();
    *me.lock().unwrap() = Some(actor.clone());
    in_turn(|| {
        (0..3).for_each(|_| actor.send(|()| ()).unwrap());
        actor.stop();
    });
    assert_eq!(log.with(|log| log.clone()).unwrap(), [true; 3]);
    me.lock().unwrap().take();
}

#[test]
fn stopping_under_fire_loses_no_message_and_no_asker() {
    must_end(|| {
        let tally = Tally::default();
        for round in 0..size(300, 10_000) {
            let hook = tally.clone();
            let actor = Actor::builder()
                .on_undelivered(move |message| {
                    // The message's own token counts as dropped.
                    drop(message);
                    hook.token().come_back();
                })
                .spawn(())
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
                                1 => drop(actor.posted().send(message)),
                                2 => _ = actor.call(message).wait(),
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
            assert_eq!(actor.ended().within(Duration::MAX), Ok(true));
            tally.check();
        }
        let (handled, returned) = (tally.handled(), tally.returned());
        println!("{} messages: {handled} handled, {returned} given back", tally.created());
    });
}
