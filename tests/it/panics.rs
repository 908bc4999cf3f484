//! A panic costs one message at most, never the mailbox: wherever it comes from, ownership is
//! settled and the policy acts.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::common::{Held, Tally, block_on, in_turn, must_end, poll_once, quiet_panic, size};
use turnwise::executor::{DrainQueue, QueueHandle};
use turnwise::time::{Every, Timers};
use turnwise::{
    Actor, AskError, Clock, Drain, Executor, Handler, MonotonicClock, Overflow, PanicPolicy,
    Reason, Reply, StopCause, System, TurnPanic, VirtualClock,
};

/// Panics when it is dropped, unless that is while another panic unwinds.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        if !thread::panicking() {
            quiet_panic("in a drop");
        }
    }
}

/// A payload whose drop panics, with a payload whose drop panics, and so on.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 && !thread::panicking() {
            resume_unwind(Box::new(Bomb(self.0 - 1)));
        }
    }
}

fn resuming<S: Send + 'static>(state: S) -> Actor<S> {
    Actor::builder().panic_policy(PanicPolicy::Resume).spawn(state).unwrap()
}

/// Checks that the actor is idle and takes messages, and this thread is inside no turn: a send runs
/// at once.
#[track_caller]
fn check_alive<S: Send + 'static>(actor: &Actor<S>) {
    assert!(actor.is_idle(), "{actor:?}");
    check_thread();
    let ran = Arc::new(AtomicUsize::new(0));
    let seen = ran.clone();
    actor.send(move |_| _ = ran.fetch_add(1, SeqCst)).unwrap();
    assert_eq!(seen.load(SeqCst), 1, "not run at once");
}

#[track_caller]
fn check_stopped<S: Send + 'static>(actor: &Actor<S>, text: &str) {
    let cause = StopCause::Panicked(text.into());
    assert_eq!(actor.stop_cause(), Some(cause.clone()));
    assert!(actor.is_closed() && actor.is_idle(), "{actor:?}");
    assert_eq!(actor.send(|_| ()).unwrap_err().reason(), &Reason::Stopped(cause.clone()));
    assert_eq!(actor.with(|_| ()), Err(AskError::from(Reason::Stopped(cause))));
    assert_eq!(actor.ended().within(Duration::ZERO), Ok(true));
    check_thread();
}

/// Checks that this thread runs a send to an idle actor at once, so that nothing is left of an
/// earlier turn.
#[track_caller]
fn check_thread() {
    let ran = Arc::new(AtomicUsize::new(0));
    let seen = ran.clone();
    Actor::new(()).send(move |()| _ = ran.fetch_add(1, SeqCst)).unwrap();
    assert_eq!(seen.load(SeqCst), 1, "this thread believes that it is inside a turn");
}

/// Every place from which a message can be run: the actor, and a way to send it a message that
/// panics.
#[expect(clippy::type_complexity, reason = "a table of closures")]
const PLACES: [(&str, fn(&Actor<u32>)); 8] = [
    ("inline", |actor| actor.send(|_| quiet_panic("x")).unwrap()),
    ("ask, inline", |actor| {
        assert_eq!(
            actor.call(|_| -> () { quiet_panic("x") }).wait(),
            Err(AskError::Panicked("x".into()))
        )
    }),
    ("mid-batch", |actor| {
        in_turn(|| {
            actor.send(|n| *n += 1).unwrap();
            actor.send(|_| quiet_panic("x")).unwrap();
            actor.send(|n| *n += 1).unwrap();
        });
    }),
    ("last before release", |actor| {
        in_turn(|| {
            actor.send(|n| *n += 1).unwrap();
            actor.send(|_| quiet_panic("x")).unwrap();
        });
    }),
    ("deferred", |actor| {
        let inner = actor.clone();
        Actor::new(()).send(move |()| inner.send(|_| quiet_panic("x")).unwrap()).unwrap();
    }),
    ("posted", |actor| {
        actor.posted().send(|_| quiet_panic("x")).unwrap();
        actor.idle().wait().unwrap();
    }),
    ("in the message's drop", |actor| {
        let part = PanicsInDrop;
        actor.send(move |_| drop(part)).unwrap();
    }),
    ("in the queued message's drop", |actor| {
        let part = PanicsInDrop;
        in_turn(|| actor.send(move |_| _ = &part).unwrap());
    }),
];

#[test]
fn resume_goes_on_with_the_state_from_every_place() {
    for (place, panic) in PLACES {
        println!("{place}");
        let reports = Arc::new(AtomicUsize::new(0));
        let count = reports.clone();
        let hook = move |_: &TurnPanic| _ = count.fetch_add(1, SeqCst);
        let actor =
            Actor::builder().panic_policy(PanicPolicy::Resume).on_panic(hook).spawn(1).unwrap();
        for round in 1..=3 {
            panic(&actor);
            assert_eq!(reports.load(SeqCst), round, "{place}");
            check_alive(&actor);
        }
        assert!(actor.with(|n| *n).unwrap() >= 1);
    }
}

#[test]
fn restart_has_a_fresh_state_from_every_place() {
    for (place, panic) in PLACES {
        println!("{place}");
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let fresh = move || {
            count.fetch_add(1, SeqCst);
            100
        };
        let actor = Actor::builder().panic_policy(PanicPolicy::restart(fresh)).spawn(1).unwrap();
        panic(&actor);
        assert_eq!(made.load(SeqCst), 1, "{place}");
        check_alive(&actor);
        assert!(actor.with(|n| *n).unwrap() >= 100, "{place}");
    }
}

#[test]
fn stop_ends_with_the_cause_from_every_place() {
    for (place, panic) in PLACES {
        println!("{place}");
        let ends = Arc::new(Mutex::new(Vec::new()));
        let told = ends.clone();
        let actor = Actor::builder()
            .on_end(move |state, cause| told.lock().unwrap().push((state, cause.stop_cause())))
            .spawn(1)
            .unwrap();
        panic(&actor);
        let text = if place.contains("drop") { "in a drop" } else { "x" };
        check_stopped(&actor, text);
        let ends = ends.lock().unwrap();
        assert!(
            matches!(&ends[..], [(_, Some(StopCause::Panicked(cause)))] if *cause == *text),
            "{place}: {ends:?}"
        );
    }
}

#[test]
fn stop_by_a_panic_gives_back_what_waits() {
    let tally = Tally::default();
    let actor = Actor::builder()
        .on_undelivered({
            let tally = tally.clone();
            move |message| {
                // Dropped unrun, as its token records.
                drop(message);
                tally.token().come_back();
            }
        })
        .spawn(())
        .unwrap();
    let held = Held::hold(&actor);
    let before = tally.token();
    actor.send(move |()| before.handle()).unwrap();
    actor.send(|()| quiet_panic("x")).unwrap();
    for _ in 0..5 {
        let token = tally.token();
        actor.send(move |()| token.handle()).unwrap();
    }
    let reply = actor.call(|()| 1);
    held.let_go();
    assert_eq!(reply.wait(), Err(AskError::from(Reason::Stopped(StopCause::Panicked("x".into())))));
    check_stopped(&actor, "x");
    assert_eq!((tally.handled(), tally.returned(), tally.dropped()), (1, 5, 5));
    tally.check();
}

#[test]
fn every_seventh_panics_and_the_others_are_handled() {
    let ways: [fn(&Actor<u32>, u32); 3] = [
        |actor, n| actor.send(move |handled| handle(handled, n)).unwrap(),
        |actor, n| actor.posted().send(move |handled| handle(handled, n)).unwrap(),
        |actor, n| drop(actor.call(move |handled| handle(handled, n))),
    ];
    fn handle(handled: &mut u32, n: u32) {
        if n % 7 == 0 {
            quiet_panic("a multiple of seven");
        }
        *handled += 1;
    }
    for send in ways {
        for threads in [1, 4] {
            let reports = Arc::new(AtomicUsize::new(0));
            let count = reports.clone();
            let hook = move |panic: &TurnPanic| {
                assert_eq!(panic, "a multiple of seven");
                count.fetch_add(1, SeqCst);
            };
            let actor =
                Actor::builder().panic_policy(PanicPolicy::Resume).on_panic(hook).spawn(0).unwrap();
            thread::scope(|scope| {
                for me in 0..threads {
                    let actor = &actor;
                    scope.spawn(move || {
                        (1..=1_000).filter(|n| n % threads == me).for_each(|n| send(actor, n))
                    });
                }
            });
            actor.idle().wait().unwrap();
            assert_eq!(actor.len(), 0);
            actor.send(|handled| *handled += 1_000).unwrap();
            assert_eq!(actor.with(|handled| *handled).unwrap(), 1_858);
            assert_eq!(reports.load(SeqCst), 142);
        }
    }
}

#[test]
fn a_panic_in_with_comes_back_after_the_policy() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let (hook, factory) = (order.clone(), order.clone());
    let actor = Actor::builder()
        .on_panic(move |text| hook.lock().unwrap().push(text.text().to_owned()))
        .panic_policy(PanicPolicy::restart(move || {
            factory.lock().unwrap().push("restart".to_owned());
            2
        }))
        .spawn(1)
        .unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| actor.with(|_| quiet_panic("mine")))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"mine"));
    assert_eq!(*order.lock().unwrap(), ["mine", "restart"]);
    check_alive(&actor);
    assert_eq!(actor.with(|n| *n), Ok(2));
}

#[test]
fn a_panic_in_a_with_that_waited_comes_back_too() {
    must_end(|| {
        let actor = Actor::new(1);
        let held = Held::hold_until_waiting(&actor, 1);
        let panic =
            catch_unwind(AssertUnwindSafe(|| actor.with(|_| -> () { quiet_panic("mine") })))
                .unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"mine"));
        assert_eq!(actor.stop_cause(), Some(StopCause::Panicked("mine".into())));
        held.let_go();
        check_stopped(&actor, "mine");
    });
}

#[test]
fn a_panic_in_with_unwinds_its_own_turn_alone() {
    let (outer, inner) = (resuming(0), resuming(0));
    let reached = inner.clone();
    outer
        .send(move |n| {
            *n = 1;
            reached.with(|_| quiet_panic("inside")).unwrap()
        })
        .unwrap();
    check_alive(&inner);
    check_alive(&outer);
    assert_eq!(outer.with(|n| *n), Ok(1));
}

#[test]
fn what_a_turn_sent_before_it_panicked_is_run() {
    let (one, two) = (resuming(()), Actor::new(0));
    let inner = two.clone();
    one.send(move |()| {
        inner.send(|n| *n += 1).unwrap();
        inner.send(|n| *n += 1).unwrap();
        quiet_panic("after sending")
    })
    .unwrap();
    assert!(two.is_idle());
    assert_eq!(two.with(|n| *n), Ok(2));
}

#[test]
fn a_panicking_panic_hook_is_survived() {
    for depth in 0..5 {
        let hook = move |_: &TurnPanic| resume_unwind(Box::new(Bomb(depth)));
        let actor =
            Actor::builder().panic_policy(PanicPolicy::Resume).on_panic(hook).spawn(0).unwrap();
        actor.send(|_| quiet_panic("x")).unwrap();
        check_alive(&actor);
        in_turn(|| actor.send(|_| quiet_panic("x")).unwrap());
        check_alive(&actor);
    }
}

#[test]
fn a_panicking_factory_stops_the_actor() {
    for depth in 0..5 {
        let actor = Actor::builder()
            .panic_policy(PanicPolicy::restart(move || resume_unwind(Box::new(Bomb(depth)))))
            .spawn(0)
            .unwrap();
        actor.send(|_| quiet_panic("first")).unwrap();
        check_stopped(&actor, "first");
    }
}

#[test]
fn a_panicking_undelivered_hook_hears_of_all() {
    for depth in 0..5 {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        let actor = Actor::builder()
            .on_undelivered(move |_| {
                count.fetch_add(1, SeqCst);
                resume_unwind(Box::new(Bomb(depth)))
            })
            .spawn(())
            .unwrap();
        in_turn(|| {
            (0..5).for_each(|_| actor.send(|()| unreachable!("stopped")).unwrap());
            actor.stop();
        });
        assert_eq!(calls.load(SeqCst), 5);
        assert!(actor.is_idle());
        check_thread();
    }
}

#[test]
fn a_panicking_end_hook_is_survived() {
    for depth in 0..5 {
        let actor = Actor::builder()
            .on_end(move |_, _| resume_unwind(Box::new(Bomb(depth))))
            .spawn(())
            .unwrap();
        assert!(actor.close());
        assert!(actor.is_idle());
        check_thread();
    }
}

#[test]
fn a_state_that_panics_in_its_drop_is_survived() {
    // At the last drop, at close, at restart, and in a chain of them.
    drop(Actor::new(PanicsInDrop));
    check_thread();
    let actor = Actor::new(PanicsInDrop);
    actor.close();
    assert!(actor.is_idle());
    check_thread();
    let actor = Actor::builder()
        .panic_policy(PanicPolicy::restart(|| None))
        .spawn(Some(PanicsInDrop))
        .unwrap();
    actor.send(|_| quiet_panic("x")).unwrap();
    check_alive(&actor);
    let inner = Actor::new(PanicsInDrop);
    drop(Actor::new((PanicsInDrop, inner)));
    check_thread();
    for depth in 0..5 {
        drop(Actor::new(Bomb(depth)));
        check_thread();
        let actor = Actor::builder()
            .panic_policy(PanicPolicy::restart(|| Bomb(0)))
            .spawn(Bomb(depth))
            .unwrap();
        actor.send(|_| quiet_panic("x")).unwrap();
        check_alive(&actor);
    }
}

#[test]
fn hooks_that_panic_in_their_drop_are_survived() {
    let part = PanicsInDrop;
    let actor = Actor::builder().on_panic(move |_| _ = &part).spawn(()).unwrap();
    drop(actor);
    check_thread();
    let part = Bomb(3);
    let actor = Actor::builder().on_undelivered(move |_| _ = &part).spawn(()).unwrap();
    let inside = Actor::new(());
    inside.send(move |()| drop(actor)).unwrap();
    check_thread();
    check_alive(&inside);
}

#[test]
fn a_message_that_panics_on_its_way_back_is_survived() {
    let actor = Actor::new(());
    let tally = Tally::default();
    in_turn(|| {
        for _ in 0..3 {
            let part = PanicsInDrop;
            actor.send(move |()| _ = &part).unwrap();
        }
        let token = tally.token();
        actor.send(move |()| token.handle()).unwrap();
        let part = PanicsInDrop;
        let reply = actor.call(move |()| _ = &part);
        drop(reply);
    });
    assert!(actor.is_idle());
    assert_eq!(tally.dropped(), 1, "the first panic stopped the actor");
    // Now the same with a stop.
    let actor = Actor::new(());
    in_turn(|| {
        for depth in 0..5 {
            let (part, token) = (Bomb(depth), tally.token());
            actor.send(move |()| drop((part, token))).unwrap();
        }
        actor.stop();
    });
    assert!(actor.is_idle());
    check_thread();
    assert_eq!(tally.created(), 6);
    tally.check();
}

#[test]
fn a_payload_that_panics_in_its_drop_is_survived() {
    for depth in 0..6 {
        let actor = resuming(0);
        let blow_up = move |_: &mut i32| resume_unwind(Box::new(Bomb(depth)));
        actor.send(blow_up).unwrap();
        check_alive(&actor);
        in_turn(|| {
            actor.send(blow_up).unwrap();
            actor.send(blow_up).unwrap();
            actor.send(|n| *n = 5).unwrap();
        });
        check_alive(&actor);
        assert_eq!(
            actor.call(blow_up).wait(),
            Err(AskError::Panicked("a panic without a text".into()))
        );
        check_alive(&actor);
        // Behind another one, so that it is queued.
        let queued = in_turn(|| {
            actor.send(|_| ()).unwrap();
            actor.call(blow_up)
        });
        assert_eq!(queued.wait(), Err(AskError::Panicked("a panic without a text".into())));
        check_alive(&actor);
        assert_eq!(actor.with(|n| *n), Ok(5));
    }
}

#[test]
fn an_answer_that_panics_in_its_drop_is_survived() {
    for depth in 0..5 {
        let actor = resuming(0);
        // Its asker has gone before it is answered.
        let held = Held::hold(&actor);
        drop(actor.call(move |_| Bomb(depth)));
        let seen = actor.call(|_| 5);
        held.let_go();
        assert_eq!(seen.wait(), Ok(5));
        check_alive(&actor);
    }
}

struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        quiet_panic("in a wake");
    }
}

#[test]
fn a_waker_that_panics_costs_nothing() {
    let actor = resuming(7);
    let tally = Tally::default();
    for read in [true, false] {
        let held = Held::hold(&actor);
        let token = tally.token();
        let mut reply = actor.call(move |n| (*n, token));
        let later = actor.call(|n| *n + 1);
        let waker = Waker::from(Arc::new(BadWaker));
        let polled = std::pin::Pin::new(&mut reply).poll(&mut Context::from_waker(&waker));
        assert!(matches!(polled, Poll::Pending));
        held.let_go();
        assert_eq!(later.wait(), Ok(8), "the next message is answered");
        check_alive(&actor);
        if read {
            let (n, token) = block_on(reply).unwrap();
            assert_eq!(n, 7);
            token.handle();
        }
    }
    assert_eq!(tally.created(), 2);
    tally.check();
}

#[test]
fn a_waker_that_panics_in_its_drop_is_survived() {
    struct Quiet(#[allow(dead_code, reason = "it is there to be dropped")] PanicsInDrop);
    impl Wake for Quiet {
        fn wake(self: Arc<Self>) {}
    }
    let actor = resuming(7);
    let held = Held::hold(&actor);
    let mut reply = actor.call(|n| *n);
    let later = actor.call(|n| *n + 1);
    let waker = Waker::from(Arc::new(Quiet(PanicsInDrop)));
    assert!(matches!(
        std::pin::Pin::new(&mut reply).poll(&mut Context::from_waker(&waker)),
        Poll::Pending
    ));
    // Another waker replaces it: the first one is dropped with its last clone, in the poll.
    drop(waker);
    let polled = catch_unwind(AssertUnwindSafe(|| {
        std::pin::Pin::new(&mut reply).poll(&mut Context::from_waker(Waker::noop()))
    }));
    assert!(matches!(polled, Ok(Poll::Pending)), "it is the waker's alone");
    held.let_go();
    assert_eq!(later.wait(), Ok(8));
    assert_eq!(block_on(reply), Ok(7));
    check_alive(&actor);
}

#[test]
fn panics_under_load_lose_nothing() {
    let each = size(3_000, 100_000);
    let tally = Tally::default();
    let reports = Arc::new(AtomicUsize::new(0));
    let count = reports.clone();
    let hook = move |_: &TurnPanic| _ = count.fetch_add(1, SeqCst);
    let actor =
        Actor::builder().panic_policy(PanicPolicy::Resume).on_panic(hook).spawn(0_usize).unwrap();
    thread::scope(|scope| {
        for me in 0..4 {
            let (actor, tally) = (&actor, &tally);
            scope.spawn(move || {
                for i in 0..each {
                    let token = tally.token();
                    let message = move |n: &mut usize| {
                        if i % 3 == 0 {
                            quiet_panic("one of three");
                        }
                        *n += 1;
                        token.handle();
                    };
                    match (me + i) % 4 {
                        0 => _ = catch_unwind(AssertUnwindSafe(|| actor.with(message))),
                        1 => drop(actor.call(message).wait()),
                        2 => actor.posted().send(message).map_err(|_| ()).unwrap(),
                        _ => actor.send(message).map_err(|_| ()).unwrap(),
                    }
                }
            });
        }
    });
    let handled = actor.with(|n| *n).unwrap();
    tally.check();
    assert_eq!((handled, reports.load(SeqCst)), (tally.handled(), tally.dropped()));
    assert_eq!(tally.dropped(), 4 * each.div_ceil(3));
    check_alive(&actor);
}

/// Records, when it is called or dropped, whether its thread unwinds.
#[derive(Clone)]
struct Says(mpsc::Sender<bool>);

impl Says {
    fn say(&self) {
        _ = self.0.send(thread::panicking());
    }
}

impl Wake for Says {
    fn wake(self: Arc<Self>) {
        self.say();
    }
}

impl Drop for Says {
    fn drop(&mut self) {
        self.say();
    }
}

/// A clock that panics at this read, counted from 0.
#[derive(Debug)]
struct Breaks(AtomicUsize, usize);

impl Clock for Breaks {
    fn now(&self) -> Duration {
        if self.0.fetch_add(1, SeqCst) == self.1 {
            quiet_panic("a clock");
        }
        MonotonicClock.now()
    }
}

/// A writer that panics.
struct Broken;

impl std::fmt::Write for Broken {
    fn write_str(&mut self, _: &str) -> std::fmt::Result {
        quiet_panic("a writer")
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// An actor whose hooks, end and state record whether their thread unwinds; its clock panics at
/// this read.
fn saying(says: &Says, look: usize) -> Actor<Says> {
    let (end, undelivered) = (says.clone(), says.clone());
    Actor::builder()
        .clock(Breaks(AtomicUsize::new(0), look))
        .on_end(move |state, _| {
            end.say();
            drop(state);
        })
        .on_undelivered(move |_| undelivered.say())
        .spawn(says.clone())
        .unwrap()
}

type Call = fn(Says);

/// Panics of user code in a call that is given the last handle, or the like.
const CALLS: &[(&str, Call)] = &[
    ("the end of an actor", |says| {
        for look in 0..2 {
            let ended = saying(&says, look).ended();
            assert!(catch_unwind(AssertUnwindSafe(|| ended.within(HOUR))).is_err());
        }
        let ended = saying(&says, 0).ended();
        assert!(catch_unwind(AssertUnwindSafe(|| ended.within_async(HOUR))).is_err());
    }),
    ("a reply that has been polled", |says| {
        for look in 0..3 {
            let queue = DrainQueue::new();
            let clock = Breaks(AtomicUsize::new(0), look / 2);
            let actor = Actor::builder().clock(clock).executor(queue.handle()).spawn(0).unwrap();
            let mut reply = actor.call(|n| *n);
            let waker = Waker::from(Arc::new(says.clone()));
            let pinned = std::pin::Pin::new(&mut reply);
            assert!(pinned.poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            let waits = AssertUnwindSafe(|| match look {
                0 => drop(reply.within_async(HOUR)),
                1 => drop(reply.wait_timeout(HOUR)),
                _ => drop(reply.within(HOUR)),
            });
            assert!(catch_unwind(waits).is_err());
        }
    }),
    ("a message that is withdrawn", |says| {
        for way in 0..3 {
            let queue = DrainQueue::new();
            let actor = Actor::builder().executor(queue.handle()).spawn(0).unwrap();
            let message = PanicsInDrop;
            let mut reply = actor.call(move |_| drop(message));
            let waker = Waker::from(Arc::new(says.clone()));
            let pinned = std::pin::Pin::new(&mut reply);
            assert!(pinned.poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            let withdraws = AssertUnwindSafe(|| match way {
                0 => drop(reply.cancel()),
                1 => drop(reply.within(Duration::ZERO)),
                _ => drop(poll_once(&mut reply.within_async(Duration::ZERO))),
            });
            assert!(catch_unwind(withdraws).is_err());
        }
    }),
    ("the end of a system", |says| {
        let system = System::with_clock(Breaks(AtomicUsize::new(0), 0));
        let _actor = system.actor(says.clone()).unwrap();
        let closing = system.shutdown_async();
        drop(system);
        assert!(catch_unwind(AssertUnwindSafe(|| closing.within_async(HOUR))).is_err());
    }),
    ("an end hook of a member", |says| {
        let system = System::new();
        let builder = Actor::builder().on_end(|_, _| quiet_panic("a hook"));
        let actor = system.spawn(builder, 0).unwrap();
        let held = Held::hold(&actor);
        let mut closing = system.shutdown_async();
        let waker = Waker::from(Arc::new(says));
        let pinned = std::pin::Pin::new(&mut closing);
        assert!(pinned.poll(&mut Context::from_waker(&waker)).is_pending());
        drop(actor);
        held.let_go();
        assert!(block_on(closing).is_ok());
    }),
    ("a delayed message", |says| {
        /// Drops the last handle but the timer's, and panics.
        struct Last(Option<Actor<Says>>);
        impl Drop for Last {
            fn drop(&mut self) {
                drop(self.0.take());
                quiet_panic("a message");
            }
        }
        let clock = VirtualClock::new();
        for gone in [true, false] {
            let timers = Timers::by_hand(clock.clone());
            let (end, hook) = (says.clone(), says.clone());
            let actor = Actor::builder()
                .timers(timers.clone())
                .on_end(move |state, _| {
                    end.say();
                    drop(state);
                })
                .on_panic(move |_| hook.say())
                .spawn(says.clone())
                .unwrap();
            actor.close();
            let message = Last((!gone).then(|| actor.clone()));
            actor.posted().send_after(Duration::ZERO, move |_| drop(message)).forget();
            drop(actor);
            assert_eq!((timers.run_due(), timers.undelivered()), (1, 1));
        }
    }),
    ("a message of a clock that panics", |says| {
        /// Records whether the thread unwinds, and panics.
        #[derive(Clone)]
        struct Loud(mpsc::Sender<bool>);
        impl Drop for Loud {
            fn drop(&mut self) {
                _ = self.0.send(thread::panicking());
                quiet_panic("a message");
            }
        }
        impl Handler<Loud> for u32 {
            type Reply = ();
            fn handle(&mut self, _: Loud, _: &mut turnwise::Context<'_, Self>) {}
        }
        type Arms = fn(&Timers, &Actor<u32>, Loud);
        let ways: [Arms; 5] = [
            |timers, _, loud| drop(timers.after(HOUR, move || drop(loud))),
            |timers, _, loud| drop(timers.every(Every::step(HOUR), move |_| _ = &loud)),
            |_, actor, loud| drop(actor.posted().send_after(HOUR, move |_| drop(loud))),
            |_, actor, loud| drop(actor.posted().tell_after(HOUR, loud)),
            |_, actor, loud| drop(actor.posted().tell_every(Every::step(HOUR), loud)),
        ];
        for way in ways {
            let timers = Timers::by_hand(Breaks(AtomicUsize::new(0), 0));
            let actor = Actor::builder().timers(timers.clone()).spawn(0).unwrap();
            let loud = Loud(says.0.clone());
            let armed = catch_unwind(AssertUnwindSafe(|| way(&timers, &actor, loud)));
            assert_eq!(*armed.unwrap_err().downcast::<&str>().unwrap(), "a clock");
            assert!(timers.is_empty());
        }
    }),
    ("a message that is sent again and again", |says| {
        /// Its clone drops the last handle but the timer's, and panics.
        struct Again(Arc<Mutex<Option<Actor<Says>>>>);
        impl Clone for Again {
            fn clone(&self) -> Self {
                drop(self.0.lock().unwrap().take());
                quiet_panic("a clone")
            }
        }
        impl Handler<Again> for Says {
            type Reply = ();
            fn handle(&mut self, _: Again, _: &mut turnwise::Context<'_, Self>) {}
        }
        let clock = VirtualClock::new();
        let timers = Timers::by_hand(clock.clone());
        let end = says.clone();
        let actor = Actor::builder().timers(timers.clone()).on_end(move |state, _| {
            end.say();
            drop(state);
        });
        let actor = actor.spawn(says).unwrap();
        let last = Arc::new(Mutex::new(Some(actor.clone())));
        let timer = actor.posted().tell_every(Every::step(HOUR), Again(last)).unwrap();
        drop(actor);
        clock.advance(HOUR);
        assert_eq!(timers.run_due(), 1);
        assert!(!timer.is_armed());
    }),
    ("a writer", |says| {
        let system = System::new();
        let actor = system.actor(says).unwrap();
        let write = || std::fmt::write(&mut Broken, format_args!("{system:?} {actor:?}"));
        assert!(catch_unwind(AssertUnwindSafe(write)).is_err());
        drop((actor, system));
    }),
    ("waits for room", |says| {
        for look in 0..2 {
            let full = || {
                let queue = DrainQueue::new();
                let builder = Actor::builder().capacity(1, Overflow::Reject);
                let clock = Breaks(AtomicUsize::new(0), look);
                let builder = builder.clock(clock).executor(queue.handle());
                let actor: Actor<u32> = builder.spawn(0).unwrap();
                actor.send(|_| ()).unwrap();
                (queue, actor)
            };
            let says = || {
                let says = says.clone();
                move |_: &mut u32| drop(says)
            };
            let (_queue, actor) = full();
            let sending = actor.waiting().send(says());
            assert!(catch_unwind(AssertUnwindSafe(|| sending.within(HOUR))).is_err());
            let (_queue, actor) = full();
            let asking = actor.waiting().call(says());
            assert!(catch_unwind(AssertUnwindSafe(|| asking.within(HOUR))).is_err());
        }
    }),
    ("an actor that is waited for", |says| {
        let builder = Actor::builder().capacity(1, Overflow::Reject);
        let actor = builder.clock(Breaks(AtomicUsize::new(0), 0)).spawn(0).unwrap();
        let mut idle = actor.idle();
        let held = Held::hold(&actor);
        let waker = Waker::from(Arc::new(says));
        let pinned = std::pin::Pin::new(&mut idle);
        assert!(pinned.poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        assert!(catch_unwind(AssertUnwindSafe(|| idle.within(HOUR))).is_err());
        held.let_go();
        assert!(poll_once(&mut actor.idle()).is_ready());
    }),
    ("a withdrawn question", |says| {
        /// Calls a function when it is dropped, and panics.
        struct Calls<F: Fn()>(F);
        impl<F: Fn()> Drop for Calls<F> {
            fn drop(&mut self) {
                (self.0)();
                quiet_panic("a capture");
            }
        }
        /// A queue that this thread runs.
        struct Here(QueueHandle);
        impl Executor for Here {
            fn execute(&self, drain: Drain) {
                self.0.execute(drain);
            }
            fn needs_this_thread(&self) -> bool {
                true
            }
        }
        let waits: [fn(Reply<()>); 5] = [
            |reply| drop(reply.wait()),
            |reply| drop(reply.wait_timeout(HOUR)),
            |reply| drop(reply.within(Duration::ZERO)),
            |reply| drop(block_on(reply.within_async(Duration::ZERO))),
            |reply| drop(reply.cancel()),
        ];
        for wait in waits {
            let (queue, says) = (Arc::new(DrainQueue::new()), says.clone());
            let builder = Actor::builder().executor(Here(queue.handle()));
            let actor = builder.on_end(move |(), _| _ = &says).spawn(()).unwrap();
            // The actor ends in the drop of the question: the reply is all that is left of it.
            let calls = Calls(move || _ = queue.run_until_idle());
            let reply = actor.call(move |()| _ = &calls);
            drop(actor);
            assert!(catch_unwind(AssertUnwindSafe(|| wait(reply))).is_err());
        }
    }),
    ("an iterator of messages", |says| {
        let actor = Actor::new(0);
        let messages = (0..4).map(|n| {
            if n == 3 {
                quiet_panic("an iterator");
            }
            let held = if n == 1 { Err(PanicsInDrop) } else { Ok(says.clone()) };
            move |_: &mut u32| drop(held)
        });
        assert!(catch_unwind(AssertUnwindSafe(|| actor.send_many(messages))).is_err());
        assert!(actor.is_idle());
    }),
    ("what an iterator of messages holds", |says| {
        let actor = Actor::new(0);
        let messages = std::iter::from_fn(move || -> Option<fn(&mut u32)> {
            let _says = &says;
            quiet_panic("an iterator")
        });
        assert!(catch_unwind(AssertUnwindSafe(|| actor.send_many(messages))).is_err());
        assert!(actor.is_idle());
    }),
];

#[test]
fn no_code_of_others_is_called_while_a_thread_unwinds() {
    must_end(|| {
        for (name, call) in CALLS {
            let (tell, told) = mpsc::channel();
            call(Says(tell));
            let unwinding: Vec<_> = told.iter().collect();
            assert!(!unwinding.is_empty(), "{name}");
            assert!(!unwinding.contains(&true), "{name}: {unwinding:?}");
        }
    });
}
