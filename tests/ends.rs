//! The end hook: once, with the state if there is one, and with the cause, whatever the cause.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use turnwise::{Actor, ActorBuilder, Bulk, BulkHandler, Context, Drain, EndCause, Handler, Limit, Panic, StopCause};

type N = u32;
type End = (Option<N>, EndCause);

struct Halt;
struct Many;

/// A state that handles what stops it.
#[derive(Clone, Copy)]
struct State(N);

impl Handler<Halt> for State {
    type Reply = ();
    fn handle(&mut self, _: Halt, cx: &mut Context<'_, Self>) {
        cx.stop();
    }
}

impl BulkHandler<Many> for State {
    fn handle_all(&mut self, _: Bulk<'_, Many>, _: &mut Context<'_, Self>) {
        panic!("bulk");
    }
}

fn requested() -> EndCause {
    EndCause::Stopped(StopCause::Requested)
}

fn panicked(text: &str) -> EndCause {
    EndCause::Stopped(StopCause::Panicked(text.into()))
}

/// How an actor is built, what is done with its only handle, and what the end hook is told.
type Case = (&'static str, fn(ActorBuilder<State>) -> ActorBuilder<State>, fn(Actor<State>), Option<N>, fn() -> EndCause);

/// A drain that is never run.
fn refuse(builder: ActorBuilder<State>) -> ActorBuilder<State> {
    builder.executor(drop::<Drain>)
}

fn bang(actor: &Actor<State>) {
    actor.send(|_| panic!("turn")).unwrap();
}

const CASES: &[Case] = &[
    ("last handle dropped", |b| b, drop, Some(1), || EndCause::Dropped),
    ("last handle dropped, one waits", |b| b, |a| a.enqueue(|s| s.0 = 2).unwrap(), Some(2), || EndCause::Dropped),
    ("last handle dropped in a turn", |b| b, |a| Actor::new(()).with(|()| drop(a)).unwrap(), Some(1), || EndCause::Dropped),
    ("closed", |b| b, |a| assert!(a.close()), Some(1), || EndCause::Closed),
    ("closed twice", |b| b, |a| assert!(a.close() && !a.close()), Some(1), || EndCause::Closed),
    ("closed if idle", |b| b, |a| assert!(a.close_if_idle()), Some(1), || EndCause::Closed),
    (
        "closed, one waits",
        |b| b,
        |a| {
            a.enqueue(|s| s.0 = 2).unwrap();
            a.close();
        },
        Some(2),
        || EndCause::Closed,
    ),
    (
        "closed inside",
        |b| b,
        |a| {
            let me = a.clone();
            a.send(move |_| assert!(me.close())).unwrap();
        },
        Some(1),
        || EndCause::Closed,
    ),
    ("stopped", |b| b, |a| assert!(a.stop()), Some(1), requested),
    (
        "stopped, one waits",
        |b| b,
        |a| {
            a.enqueue(|s| s.0 = 2).unwrap();
            a.stop();
        },
        Some(1),
        requested,
    ),
    (
        "closed, then stopped before it has ended",
        |b| b,
        |a| {
            let me = a.clone();
            a.send(move |_| assert!(me.close() && me.stop())).unwrap();
        },
        Some(1),
        requested,
    ),
    ("stopped by its handler", |b| b, |a| a.tell(Halt).unwrap(), Some(1), requested),
    ("panicked, sent", |b| b, |a| bang(&a), Some(1), || panicked("turn")),
    ("panicked, asked", |b| b, |a| drop(a.ask(|_| -> u32 { panic!("turn") })), Some(1), || panicked("turn")),
    (
        "panicked, waiting",
        |b| b,
        |a| drop(catch_unwind(AssertUnwindSafe(|| a.with(|_| -> u32 { panic!("turn") })))),
        Some(1),
        || panicked("turn"),
    ),
    (
        "panicked, then stopped",
        |b| b,
        |a| {
            bang(&a);
            assert!(!a.stop());
        },
        Some(1),
        || panicked("turn"),
    ),
    (
        "panicked and resumed, then closed",
        |b| b.on_panic(Panic::Resume),
        |a| {
            bang(&a);
            a.close();
        },
        Some(1),
        || EndCause::Closed,
    ),
    ("panicked and restarted, then dropped", |b| b.on_panic(Panic::restart(|| State(7))), |a| bang(&a), Some(7), || EndCause::Dropped),
    ("could not restart", |b| b.on_panic(Panic::restart(|| panic!("no"))), |a| bang(&a), Some(1), || panicked("turn")),
    ("before_pass panicked", |b| b.before_pass(|_| panic!("before")), |a| a.send(|_| ()).unwrap(), Some(1), || panicked("before")),
    ("after_pass panicked", |b| b.after_pass(|_, _| panic!("after")), |a| a.send(|s| s.0 = 2).unwrap(), Some(2), || panicked("after")),
    ("a bulk handler panicked", |b| b.bulk(), |a| a.tell_bulk(Many).unwrap(), Some(1), || panicked("bulk")),
    (
        "an own loop panicked",
        |b| b,
        |a| drop(catch_unwind(AssertUnwindSafe(|| a.try_own(|_| -> N { panic!("loop") })))),
        Some(1),
        || panicked("loop"),
    ),
    (
        "an own loop, closed inside",
        |b| b,
        |a| a.try_own(|own| own.0 = if a.close() { 2 } else { 3 }).unwrap(),
        Some(2),
        || EndCause::Closed,
    ),
    ("executor gone", refuse, |a| a.send(|s| s.0 = 2).unwrap(), Some(1), || EndCause::Stopped(StopCause::ExecutorGone)),
    ("executor gone, asked", refuse, |a| drop(a.ask(|s| s.0)), Some(1), || EndCause::Stopped(StopCause::ExecutorGone)),
    ("lazy, never started", |_| lazy(false), drop, None, || EndCause::Dropped),
    ("lazy, never started, closed", |_| lazy(false), |a| assert!(a.close()), None, || EndCause::Closed),
    ("lazy, never started, stopped", |_| lazy(false), |a| assert!(a.stop()), None, requested),
    ("lazy, started", |_| lazy(false), |a| a.send(|s| s.0 += 1).unwrap(), Some(2), || EndCause::Dropped),
    ("lazy, could not start", |_| lazy(true), |a| a.send(|_| ()).unwrap(), None, || panicked("start")),
];

fn lazy(panics: bool) -> ActorBuilder<State> {
    ActorBuilder::lazy(move || if panics { panic!("start") } else { State(1) })
}

#[test]
fn the_end_is_told_once_with_its_cause() {
    for (name, build, act, state, cause) in CASES {
        let ends: Arc<Mutex<Vec<End>>> = Arc::default();
        let told = ends.clone();
        let builder = build(Actor::builder(State(1)));
        let actor = builder.on_end(move |state, cause| told.lock().unwrap().push((state.map(|State(n)| n), cause))).spawn().unwrap();
        act(actor);
        assert_eq!(*ends.lock().unwrap(), [(*state, cause())], "{name}");
    }
}

#[test]
fn the_cause_that_is_told_is_the_one_that_others_see() {
    // Those that end while somebody still has a handle.
    for (name, build, act, _, cause) in CASES.iter().filter(|(_, _, _, _, cause)| cause() != EndCause::Dropped) {
        let (tx, ended) = channel();
        let builder = build(Actor::builder(State(1)));
        let actor = builder.on_end(move |_, _| tx.send(()).unwrap()).spawn().unwrap();
        act(actor.clone());
        assert!(actor.wait_ended(Limit::Unlimited).unwrap(), "{name}");
        ended.try_recv().unwrap();
        assert_eq!(actor.stop_cause(), cause().stop_cause(), "{name}");
    }
}
