//! Close: messages accepted before it run, later ones are handed back. The end comes once, with its
//! cause, whatever the cause.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{
    Gate, Held, Tally, in_turn, must_end, poll_once, queued, quiet_panic, size, waits,
};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, ActorBuilder, AskError, Context, Cycle, Drain, EndCause, Handler, Limit, Overflow,
    PanicPolicy, Reason, SendError, StopCause,
};

type Ends<S> = Arc<Mutex<Vec<(S, EndCause)>>>;

fn recording<S: Send + 'static>(state: S) -> (Actor<S>, Ends<S>) {
    let ends = Ends::default();
    let told = ends.clone();
    let hook = move |state, cause| told.lock().unwrap().push((state, cause));
    (Actor::builder().on_end(hook).spawn(state).unwrap(), ends)
}

#[test]
fn what_waits_is_handled_and_what_comes_is_refused() {
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
    assert_eq!(*ends.lock().unwrap(), [(vec![1, 2, 3, 4, 5], EndCause::Closed)]);
    let mut elsewhere = Vec::new();
    refused.into_message()(&mut elsewhere);
    assert_eq!(elsewhere, [6], "the message is the caller's again");
}

#[test]
fn what_nobody_runs_is_run_when_it_is_closed() {
    must_end(|| {
        // By another thread, while this one has deferred it and is inside a turn.
        let (actor, ends) = recording(0);
        in_turn(|| {
            (0..5).for_each(|_| actor.send(|n| *n += 1).unwrap());
            thread::scope(|scope| assert!(scope.spawn(|| actor.close()).join().unwrap()));
            assert_eq!(*ends.lock().unwrap(), [(5, EndCause::Closed)]);
        });
        // By this thread, when its turn is over.
        let (actor, ends) = recording(0);
        in_turn(|| {
            (0..5).for_each(|_| actor.send(|n| *n += 1).unwrap());
            assert!(actor.close());
            assert!(ends.lock().unwrap().is_empty());
        });
        assert_eq!(*ends.lock().unwrap(), [(5, EndCause::Closed)]);
    });
}

#[test]
fn a_closed_actor_refuses_every_way_of_sending() {
    let (actor, _ends) = recording(0);
    assert!(!actor.is_closed());
    assert!(actor.close());
    assert!(actor.is_closed() && actor.is_idle());
    assert_eq!(actor.send(|_| ()).unwrap_err().reason(), &Reason::Closed);
    assert_eq!(actor.posted().send(|_| ()).unwrap_err().reason(), &Reason::Closed);
    assert_eq!(actor.waiting().send(|_| ()).wait().unwrap_err().reason(), &Reason::Closed);
    let closed = AskError::from(Reason::Closed);
    assert_eq!(actor.with(|_| ()), Err(closed.clone()));
    assert_eq!(actor.call(|_| ()).wait(), Err(closed.clone()));
    assert_eq!(actor.posted().call(|_| ()).wait(), Err(closed.clone()));
    assert_eq!(actor.waiting().call(|_| ()).wait(), Err(closed));
    let messages = (1..=3).map(|i| move |n: &mut i32| *n += i);
    let refused: SendError<Vec<_>> = actor.send_many(messages).unwrap_err();
    let (messages, reason) = refused.into_parts();
    assert_eq!(reason, Reason::Closed);
    let mut n = 0;
    messages.into_iter().for_each(|message| message(&mut n));
    assert_eq!(n, 6);
    let inside = actor.clone();
    in_turn(|| assert_eq!(inside.send(|_| ()).unwrap_err().reason(), &Reason::Closed));
    assert_eq!(actor.stop_cause(), None);
}

#[test]
fn the_first_close_wins_and_the_end_comes_once() {
    let (actor, ends) = recording(());
    assert!(actor.close());
    assert!(!actor.close());
    drop(actor);
    assert_eq!(ends.lock().unwrap().len(), 1);
}

#[test]
fn closing_in_a_turn_refuses_at_once_and_ends_after() {
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
    assert_eq!(*ends.lock().unwrap(), [(12, EndCause::Closed)]);
    // A turn closes another, idle actor.
    let (other, ends) = recording(5);
    let (inner, seen) = (other.clone(), ends.clone());
    Actor::new(())
        .send(move |()| {
            assert!(inner.close());
            assert!(inner.is_closed());
            assert!(seen.lock().unwrap().is_empty(), "it ends after this turn");
        })
        .unwrap();
    assert_eq!(*ends.lock().unwrap(), [(5, EndCause::Closed)]);
}

#[test]
fn the_end_hook_may_use_others_and_its_own_handle() {
    must_end(|| {
        let (log, seen) = (Actor::new(Vec::new()), Arc::new(Mutex::new(None)));
        let me: Arc<Mutex<Option<Actor<i32>>>> = Arc::default();
        let (inner_log, inner_me, told) = (log.clone(), me.clone(), seen.clone());
        let hook = move |state: i32, _| {
            inner_log.send(move |log: &mut Vec<_>| log.push(state)).unwrap();
            let me = inner_me.lock().unwrap().take().unwrap();
            let refused = me.send(|_| ()).is_err();
            let waits = (me.with(|_| ()), me.ended().within(Duration::MAX));
            *told.lock().unwrap() = Some((me.is_closed(), refused, waits));
        };
        let actor = Actor::builder().on_end(hook).spawn(3).unwrap();
        *me.lock().unwrap() = Some(actor.clone());
        actor.close();
        assert_eq!(log.with(|log| log.clone()).unwrap(), [3]);
        let deadlock = Reason::Deadlock(Cycle::from(["i32"]));
        let waits = (Err(AskError::from(deadlock.clone())), Err(deadlock));
        assert_eq!(seen.lock().unwrap().take(), Some((true, true, waits)));
    });
}

#[test]
fn the_end_drops_the_state_though_handles_are_left() {
    let part = Arc::new(());
    let actor = Actor::new(part.clone());
    actor.close();
    assert_eq!(Arc::strong_count(&part), 1);
    assert!(actor.is_closed());
    drop(actor);
}

#[test]
fn closing_under_fire_handles_what_was_accepted() {
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
                            0 => actor.send(message).is_ok(),
                            1 => actor.posted().send(message).is_ok(),
                            _ => match actor.call(message) {
                                reply if reply.is_ready() => reply.wait().is_ok(),
                                _ => true,
                            },
                        };
                        if !sent {
                            refused.fetch_add(1, SeqCst);
                        }
                    }
                });
            }
            gate.pass();
            assert!(actor.close());
        });
        // The pool may be running the posted messages.
        assert_eq!(actor.ended().within(Duration::MAX), Ok(true));
        assert_eq!(*ends.lock().unwrap(), [(tally.handled() - handled_before, EndCause::Closed)]);
    }
    assert_eq!(tally.dropped(), refused.into_inner());
    tally.check();
    let (handled, refused) = (tally.handled(), tally.dropped());
    println!("{} messages: {handled} handled, {refused} refused", tally.created());
}

#[test]
fn an_actor_that_was_restarted_ends_like_any_other() {
    let ends = Ends::default();
    let told = ends.clone();
    let builder = Actor::builder().panic_policy(PanicPolicy::restart(|| 2));
    let hook = move |state, cause| told.lock().unwrap().push((state, cause));
    let actor = builder.on_end(hook).spawn(1).unwrap();
    actor.send(|_| quiet_panic("x")).unwrap();
    actor.close();
    assert_eq!(*ends.lock().unwrap(), [(2, EndCause::Closed)]);
}

// The end hook, and its cause.

type N = u32;

struct Halt;
struct Bang;

/// A state that handles the message that stops it.
#[derive(Clone, Copy)]
struct State(N);

impl Handler<Halt> for State {
    type Reply = ();
    fn handle(&mut self, _: Halt, cx: &mut Context<'_, Self>) {
        cx.stop();
    }
}

impl Handler<Bang> for State {
    type Reply = N;
    fn handle(&mut self, _: Bang, _: &mut Context<'_, Self>) -> N {
        quiet_panic("handler")
    }
}

fn requested() -> EndCause {
    EndCause::Stopped(StopCause::Requested)
}

fn panicked(text: &str) -> EndCause {
    EndCause::Stopped(StopCause::Panicked(text.into()))
}

/// The builder of an actor, the end of its only handle, and the cause that the end hook gets.
type Case = (
    &'static str,
    fn(ActorBuilder<State>) -> ActorBuilder<State>,
    fn(Actor<State>),
    N,
    fn() -> EndCause,
);

/// A drain that is never run.
fn refuse(builder: ActorBuilder<State>) -> ActorBuilder<State> {
    builder.executor(drop::<Drain>)
}

fn bang(actor: &Actor<State>) {
    actor.send(|_| quiet_panic("turn")).unwrap();
}

const CASES: &[Case] = &[
    ("last handle dropped", |b| b, drop, 1, || EndCause::Dropped),
    (
        "last handle dropped, one waits",
        |b| b,
        |a| in_turn(move || a.send(|s| s.0 = 2).unwrap()),
        2,
        || EndCause::Dropped,
    ),
    ("last handle dropped in a turn", |b| b, |a| in_turn(|| drop(a)), 1, || EndCause::Dropped),
    ("closed", |b| b, |a| assert!(a.close()), 1, || EndCause::Closed),
    ("closed twice", |b| b, |a| assert!(a.close() && !a.close()), 1, || EndCause::Closed),
    (
        "closed, one waits",
        |b| b,
        |a| {
            in_turn(move || {
                a.send(|s| s.0 = 2).unwrap();
                a.close();
            });
        },
        2,
        || EndCause::Closed,
    ),
    (
        "closed inside",
        |b| b,
        |a| {
            let me = a.clone();
            a.send(move |_| assert!(me.close())).unwrap();
        },
        1,
        || EndCause::Closed,
    ),
    ("stopped", |b| b, |a| assert!(a.stop()), 1, requested),
    (
        "stopped, one waits",
        |b| b,
        |a| {
            in_turn(move || {
                a.send(|s| s.0 = 2).unwrap();
                a.stop();
            });
        },
        1,
        requested,
    ),
    (
        "closed, then stopped before it has ended",
        |b| b,
        |a| {
            let me = a.clone();
            a.send(move |_| assert!(me.close() && me.stop())).unwrap();
        },
        1,
        requested,
    ),
    ("stopped by its handler", |b| b, |a| a.tell(Halt).unwrap(), 1, requested),
    ("panicked, sent", |b| b, |a| bang(&a), 1, || panicked("turn")),
    (
        "panicked, asked",
        |b| b,
        |a| drop(a.call(|_| -> u32 { quiet_panic("turn") })),
        1,
        || panicked("turn"),
    ),
    (
        "panicked, waiting",
        |b| b,
        |a| drop(catch_unwind(AssertUnwindSafe(|| a.with(|_| -> u32 { quiet_panic("turn") })))),
        1,
        || panicked("turn"),
    ),
    (
        "panicked, then stopped",
        |b| b,
        |a| {
            bang(&a);
            assert!(!a.stop());
        },
        1,
        || panicked("turn"),
    ),
    (
        "panicked and resumed, then closed",
        |b| b.panic_policy(PanicPolicy::Resume),
        |a| {
            bang(&a);
            a.close();
        },
        1,
        || EndCause::Closed,
    ),
    (
        "panicked and restarted, then dropped",
        |b| b.panic_policy(PanicPolicy::restart(|| State(7))),
        |a| bang(&a),
        7,
        || EndCause::Dropped,
    ),
    (
        "could not restart",
        |b| b.panic_policy(PanicPolicy::restart(|| quiet_panic("no"))),
        |a| bang(&a),
        1,
        || panicked("turn"),
    ),
    (
        "on_batch_end panicked",
        |b| b.on_batch_end(|_, _| quiet_panic("after")),
        |a| a.send(|s| s.0 = 2).unwrap(),
        2,
        || panicked("after"),
    ),
    ("a handler panicked", |b| b, |a| a.tell(Bang).unwrap(), 1, || panicked("handler")),
    ("a handler panicked, asked", |b| b, |a| drop(a.ask(Bang)), 1, || panicked("handler")),
    (
        "executor gone",
        refuse,
        |a| a.send(|s| s.0 = 2).unwrap(),
        1,
        || EndCause::Stopped(StopCause::ExecutorGone),
    ),
    (
        "executor gone, asked",
        refuse,
        |a| drop(a.call(|s| s.0)),
        1,
        || EndCause::Stopped(StopCause::ExecutorGone),
    ),
];

#[test]
fn the_end_is_told_once_with_its_cause() {
    for (name, build, act, state, cause) in CASES {
        let ends = Ends::default();
        let told = ends.clone();
        let builder = build(Actor::builder());
        let hook = move |State(n), cause| told.lock().unwrap().push((n, cause));
        let actor = builder.on_end(hook).spawn(State(1)).unwrap();
        act(actor);
        assert_eq!(*ends.lock().unwrap(), [(*state, cause())], "{name}");
    }
}

#[test]
fn the_cause_that_is_told_is_the_one_that_others_see() {
    // Ends while a handle exists.
    for (name, build, act, _, cause) in CASES.iter().filter(|case| case.4() != EndCause::Dropped) {
        let (tx, ended) = channel();
        let builder = build(Actor::builder());
        let actor = builder.on_end(move |_, _| tx.send(()).unwrap()).spawn(State(1)).unwrap();
        act(actor.clone());
        assert!(actor.ended().within(Limit::Unlimited).unwrap(), "{name}");
        ended.try_recv().unwrap();
        assert_eq!(actor.stop_cause(), cause().stop_cause(), "{name}");
    }
}

#[test]
fn with_an_executor_the_end_comes_there() {
    type Act = fn(Actor<u32>);
    let acts: [(Act, u32, EndCause); 5] = [
        (drop, 1, EndCause::Dropped),
        (|a| a.send(|n| *n += 1).unwrap(), 2, EndCause::Dropped),
        (|a| _ = a.close(), 1, EndCause::Closed),
        (|a| assert!(a.send(|n| *n += 1).is_ok() && a.close()), 2, EndCause::Closed),
        (|a| assert!(a.send(|n| *n += 1).is_ok() && a.stop()), 1, requested()),
    ];
    for (act, state, cause) in acts {
        for inside in [false, true] {
            let ends = Ends::default();
            let (told, queue) = (ends.clone(), DrainQueue::new());
            let hook = move |n, cause| told.lock().unwrap().push((n, cause));
            let builder = Actor::builder().executor(queue.handle()).on_end(hook);
            let actor = builder.spawn(1).unwrap();
            if inside {
                in_turn(|| act(actor))
            } else {
                act(actor)
            }
            assert!(ends.lock().unwrap().is_empty(), "no caller ends it");
            queue.run_until_idle();
            assert_eq!(*ends.lock().unwrap(), [(state, cause.clone())]);
        }
    }
    // The remaining handles see it then.
    let (queue, actor) = queued(1);
    assert!(actor.close() && actor.is_closed());
    assert_eq!(actor.ended().within(Duration::ZERO), Ok(false));
    queue.run_until_idle();
    assert_eq!(actor.ended().within(Duration::ZERO), Ok(true));
}

#[test]
fn those_that_wait_are_told_before_what_was_accepted_runs() {
    for stops in [false, true] {
        must_end(move || {
            let (tell, told) = channel();
            let hook = Mutex::new(told);
            let all_told = move || (0..2).for_each(|_| hook.lock().unwrap().recv().unwrap());
            let (all_told, given_back) = (Arc::new(all_told), AtomicUsize::new(0));
            let in_hook = all_told.clone();
            let actor = Actor::builder()
                .capacity(1, Overflow::Reject)
                .on_undelivered(move |_| {
                    if given_back.fetch_add(1, SeqCst) == 0 {
                        in_hook();
                    }
                })
                .spawn(())
                .unwrap();
            // It is pending, on the list of a thread inside a turn; waiters do not help it.
            in_turn(|| {
                actor.send(move |()| all_told()).unwrap();
                let mut sending = actor.waiting().send(|()| ());
                let mut asking = actor.waiting().call(|()| ());
                let end = || {
                    let tells = || {
                        let tell = tell.clone();
                        move || tell.send(()).unwrap()
                    };
                    waits(&mut sending, tells());
                    waits(&mut asking, tells());
                    assert!(if stops { actor.stop() } else { actor.close() });
                    assert!(
                        poll_once(&mut sending).is_ready() && poll_once(&mut asking).is_ready()
                    );
                };
                thread::scope(|scope| scope.spawn(end).join().unwrap());
            });
        });
    }
}

#[test]
fn a_waker_that_is_told_of_the_close_may_run_a_queue() {
    must_end(|| {
        let queue = DrainQueue::new();
        let asked = Actor::builder().executor(queue.handle()).spawn(7).unwrap();
        let other = DrainQueue::new();
        let builder = Actor::builder().capacity(1, Overflow::Reject).executor(other.handle());
        let actor = builder.spawn(0).unwrap();
        actor.send(|n| *n += 1).unwrap();
        // A loop of the program's own that runs the queue until its reply has come.
        let runs = move || {
            let reply = asked.call(|n| *n);
            while !reply.is_ready() {
                queue.run_until_idle();
            }
            assert_eq!(reply.wait().unwrap(), 7);
        };
        let mut sending = actor.waiting().send(|n| *n += 1);
        waits(&mut sending, runs);
        assert!(actor.close());
    });
}

#[test]
fn a_turn_that_waits_for_room_goes_on_before_the_end() {
    for stops in [false, true] {
        must_end(move || {
            let (tell, told) = channel();
            let told = Mutex::new(told);
            let builder = Actor::builder().capacity(1, Overflow::Reject);
            let builder = builder.on_end(move |_, _| told.lock().unwrap().recv().unwrap());
            let actor = builder.spawn(0).unwrap();
            // It is pending, on the list of a thread inside a turn.
            in_turn(|| {
                actor.send(|n| *n += 1).unwrap();
                let end = || {
                    let (full, other) = (actor.clone(), Actor::new(()));
                    let waits = other.run(async move |()| {
                        full.waiting().send(|n| *n += 1).await.unwrap_err();
                        tell.send(()).unwrap();
                    });
                    assert!(if stops { actor.stop() } else { actor.close() });
                    waits.wait().unwrap();
                };
                thread::scope(|scope| scope.spawn(end).join().unwrap());
            });
            actor.ended().wait().unwrap();
        });
    }
}
