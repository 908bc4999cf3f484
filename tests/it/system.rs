//! A system ends its actors: by shutdown, with a definite answer for each asker, or by its drop.
//! With a clock that the tests move.

use std::future::Future;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{Gate, Held, Tally, Token, block_on, must_end, quiet_panic, size};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, ActorName, AskError, BuildError, Drain, EndCause, Limit, Overflow, Reason,
    ShutdownReport, StopCause, System, ThreadPool, VirtualClock, promise,
};

const STOPPED: AskError = AskError::Refused(Reason::Stopped(StopCause::Requested), ActorName::ANY);
const ASKERS: usize = 85;
const SECOND: Duration = Duration::from_secs(1);

/// Threads that ask and wait.
struct Askers(Vec<thread::JoinHandle<Result<u32, AskError>>>);

impl Askers {
    /// Returns when all of them wait.
    fn start(actor: &Actor<Token>, tally: &Tally) -> Self {
        let waiting = actor.len() + ASKERS;
        let threads = (0..ASKERS).map(|i| {
            let (actor, token) = (actor.clone(), tally.token());
            thread::spawn(move || match i % 2 {
                0 => actor.call(move |_| token.handle()).wait().map(|()| 0),
                _ => actor.with(move |_| token.handle()).map(|()| 1),
            })
        });
        let askers = Askers(threads.collect());
        crate::common::until(|| actor.len() == waiting);
        askers
    }

    fn outcomes(self) -> Vec<Result<u32, AskError>> {
        self.0.into_iter().map(|asker| asker.join().unwrap()).collect()
    }
}

/// The state of a tested actor is a token: it has met its fate when the actor has ended.
fn desk(system: &System, states: &Tally) -> Actor<Token> {
    system.spawn(Actor::builder().name("desk"), states.token()).unwrap()
}

fn shut_down_elsewhere(
    system: System,
    limit: impl Into<Limit>,
) -> thread::JoinHandle<ShutdownReport> {
    let limit = limit.into();
    thread::spawn(move || system.shutdown(limit).unwrap())
}

#[test]
fn a_shutdown_in_time_answers_all_who_wait() {
    must_end(|| {
        let (states, questions) = (Tally::default(), Tally::default());
        let clock = VirtualClock::new();
        let system = System::with_clock(clock.clone());
        let actor = desk(&system, &states);
        let held = Held::hold(&actor);
        let askers = Askers::start(&actor, &questions);
        let shutting = shut_down_elsewhere(system, SECOND);
        clock.wait_for_sleepers(1);
        assert!(actor.is_closed());
        clock.advance(SECOND / 2);
        held.let_go();
        let report = shutting.join().unwrap();
        assert_eq!((report.ended, report.stopped, report.is_complete()), (1, 0, true), "{report}");
        let outcomes = askers.outcomes();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), ASKERS);
        assert_eq!((questions.handled(), states.dropped()), (ASKERS, 1), "no leak");
        questions.check();
    });
}

#[test]
fn a_shutdown_out_of_time_names_the_turn_that_runs() {
    must_end(|| {
        let (states, questions) = (Tally::default(), Tally::default());
        let clock = VirtualClock::new();
        let system = System::with_clock(clock.clone());
        let actor = desk(&system, &states);
        let idle = system.actor(states.token()).unwrap();
        let held = Held::hold(&actor);
        let askers = Askers::start(&actor, &questions);
        let shutting = shut_down_elsewhere(system, SECOND);
        clock.wait_for_sleepers(1);
        clock.advance(SECOND);
        let report = shutting.join().unwrap();
        assert_eq!((report.ended, report.stopped), (1, 0), "{report}");
        assert_eq!(report.running, ["desk"]);
        assert_eq!(actor.stop_cause(), Some(StopCause::Requested));
        assert_eq!(idle.stop_cause(), None, "it had ended by itself");
        held.let_go();
        assert_eq!(askers.outcomes(), vec![Err(STOPPED); ASKERS]);
        assert_eq!(
            (questions.handled(), questions.dropped(), states.dropped()),
            (0, ASKERS, 2),
            "no leak"
        );
        questions.check();
    });
}

#[test]
fn what_a_system_does_not_take_in_is_dropped() {
    let tally = Tally::default();
    let system = System::new();
    let none = Actor::builder().capacity(0, Overflow::Reject);
    assert_eq!(system.spawn(none, tally.token()).unwrap_err(), BuildError::CapacityZero);
    system.shutdown(Duration::ZERO).unwrap();
    assert_eq!(system.actor(tally.token()).unwrap_err(), BuildError::ShutDown);
    assert_eq!((tally.dropped(), system.actors()), (2, 0));
}

#[test]
fn an_actor_that_ends_by_itself_is_forgotten() {
    let system = System::new();
    let ways: [fn(Actor<u32>); 4] = [
        drop,
        |actor| _ = actor.close(),
        |actor| _ = actor.stop(),
        |actor| actor.send(|_| quiet_panic("planned")).unwrap(),
    ];
    for end in ways {
        let actor = system.actor(0).unwrap();
        assert_eq!(system.actors(), 1);
        end(actor);
        assert_eq!(system.actors(), 0);
    }
    // Neither a hook that panics nor a state that drops slowly keeps the place.
    drop(system.spawn(Actor::builder().on_end(|_, _| quiet_panic("planned")), 0).unwrap());
    assert_eq!(system.actors(), 0);
    assert_eq!(system.shutdown(Limit::Unlimited).unwrap().ended, 0);
}

#[test]
fn dropped_in_a_turn_it_ends_that_actor_after_it() {
    must_end(|| {
        let messages = Tally::default();
        let system = System::new();
        let actor = system.actor(0).unwrap();
        let other = system.actor(0).unwrap();
        let (me, token) = (actor.clone(), messages.token());
        let ran = actor.with(move |n| {
            me.send(move |_| token.handle()).map_err(|_| ()).unwrap();
            drop(system);
            *n += 1;
            assert_eq!(other.stop_cause(), Some(StopCause::Requested));
            me.send(|_| ()).is_err()
        });
        assert_eq!(ran, Ok(true));
        assert!(actor.is_idle() && actor.is_closed());
        assert_eq!((messages.handled(), messages.dropped()), (0, 1));
    });
}

#[test]
fn one_without_a_name_is_reported_by_its_type() {
    must_end(|| {
        struct Nameless;
        let system = System::new();
        let actor = system.actor(Nameless).unwrap();
        let held = Held::hold(&actor);
        let report = system.shutdown(Duration::ZERO).unwrap();
        assert!(report.running[0].ends_with("Nameless"), "{report}");
        assert!(report.to_string().starts_with("0 ended, 0 stopped, 1 running: "), "{report}");
        held.let_go();
    });
}

#[test]
fn two_shutdowns_at_once_both_see_the_end() {
    must_end(|| {
        let states = Tally::default();
        let system = System::new();
        let actor = desk(&system, &states);
        let held = Held::hold(&actor);
        let complete = thread::scope(|scope| {
            let both = [(); 2]
                .map(|()| scope.spawn(|| system.shutdown(Limit::Unlimited).unwrap().is_complete()));
            held.let_go_soon();
            both.map(|shutting| shutting.join().unwrap())
        });
        assert_eq!(complete, [true, true]);
        assert_eq!(states.dropped(), 1);
        held.let_go();
    });
}

#[test]
fn actors_without_a_clock_get_the_systems() {
    must_end(|| {
        let (clock, own) = (VirtualClock::new(), VirtualClock::new());
        let system = System::with_clock(clock.clone());
        let actors = [
            system.actor(0).unwrap(),
            system.actor(0).unwrap(),
            system.spawn(Actor::builder().clock(own.clone()), 0).unwrap(),
        ];
        thread::scope(|scope| {
            let waiting =
                actors.each_ref().map(|actor| scope.spawn(|| actor.ended().within(SECOND)));
            clock.wait_for_sleepers(2);
            own.wait_for_sleepers(1);
            clock.advance(SECOND);
            own.advance(SECOND);
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap() == Ok(false)));
        });
    });
}

/// A turn of an unrelated actor: messages that it sends before it waits stay with its thread.
struct Promising {
    go: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Promising {
    /// Returns when `send` has been called and the turn waits.
    fn turn(send: impl FnOnce() + Send + 'static) -> Self {
        let (go, wait) = mpsc::channel::<()>();
        let (sent, inside) = mpsc::channel();
        let thread = thread::spawn(move || {
            let turn = move |_: &mut ()| {
                send();
                sent.send(()).unwrap();
                let _ = wait.recv();
            };
            Actor::new(()).send(turn).unwrap_or_else(|refused| panic!("{refused}"));
        });
        inside.recv().unwrap();
        Promising { go, thread }
    }

    fn let_go(self) {
        drop(self.go);
        self.thread.join().unwrap();
    }
}

#[test]
fn mailboxes_that_nobody_runs_are_run() {
    must_end(|| {
        let questions = Tally::default();
        let (queue, pool) = (Arc::new(DrainQueue::new()), ThreadPool::new().unwrap());
        let system = System::new();
        let queued = system.spawn(Actor::builder().executor(queue.handle()), 0).unwrap();
        let pooled = system.spawn(Actor::builder().executor(pool.handle()), 0).unwrap();
        let plain = system.actor(0).unwrap();
        let (kept, tokens) = (plain.clone(), [questions.token(), questions.token()]);
        // Its thread is busy for long.
        let promising = Promising::turn(move || {
            tokens
                .into_iter()
                .for_each(|token| kept.send(move |_| token.handle()).unwrap_or_else(|_| panic!()));
        });
        let replies = [&queued, &pooled].map(|actor| {
            let token = questions.token();
            actor.call(move |_| token.handle())
        });
        let runner = thread::spawn({
            let queue = queue.clone();
            move || queue.run_until_closed()
        });
        let report = system.shutdown(Limit::Unlimited).unwrap();
        assert_eq!((report.ended, report.stopped, report.running.len()), (3, 0, 0));
        replies.into_iter().for_each(|reply| reply.wait().unwrap());
        questions.check_all_handled();
        promising.let_go();
        queue.close();
        runner.join().unwrap();
    });
}

#[test]
fn what_a_busy_thread_has_promised_is_run() {
    must_end(|| {
        let messages = Tally::default();
        let system = System::new();
        // One has no handle any more, the other is closed already.
        let (orphan, closed) = (system.actor(0).unwrap(), system.actor(0).unwrap());
        let tokens = [messages.token(), messages.token()];
        let promising = Promising::turn(move || {
            let [first, second] = tokens;
            orphan.send(move |_| first.handle()).unwrap_or_else(|_| panic!());
            closed.send(move |_| second.handle()).unwrap_or_else(|_| panic!());
            closed.close();
            std::mem::forget(closed);
        });
        let report = system.shutdown(Limit::Unlimited).unwrap();
        assert_eq!((report.ended, report.stopped, report.is_complete()), (2, 0, true));
        messages.check_all_handled();
        promising.let_go();
    });
}

#[test]
fn no_message_is_run_on_the_calling_thread() {
    must_end(|| {
        let (tx, rx) = mpsc::channel();
        let note = move |_: &mut i32| tx.send(thread::current().id()).unwrap();
        let system = System::new();
        let plain = system.actor(0).unwrap();
        let (kept, first) = (plain.clone(), note.clone());
        let promising = Promising::turn(move || kept.send(first).unwrap_or_else(|_| panic!()));
        // An end hook that runs here sends to an unrelated actor.
        let other = Actor::new(0);
        let (ends, ended) = mpsc::channel();
        let sends = system.spawn(
            Actor::builder().on_end(move |_, _| {
                ends.send(thread::current().id()).unwrap();
                other.send(note.clone()).unwrap_or_else(|_| panic!());
            }),
            0,
        );
        let report = system.shutdown(Limit::Unlimited).unwrap();
        assert_eq!((report.ended, report.is_complete()), (2, true));
        let here = thread::current().id();
        assert_eq!(ended.recv().unwrap(), here, "an idle actor without an executor ends here");
        drop(sends);
        assert!(rx.iter().all(|at| at != here));
        promising.let_go();
    });
}

#[test]
fn without_time_only_the_idle_end_by_themselves() {
    must_end(|| {
        let (given, questions) = (Arc::new(AtomicUsize::new(0)), Tally::default());
        let queue = DrainQueue::new();
        let (ends, ended) = mpsc::channel();
        let hook = |name: &'static str| {
            let ends = ends.clone();
            move |_, cause| ends.send((name, cause)).unwrap()
        };
        let system = System::new();
        let plain = system.spawn(Actor::builder().on_end(hook("plain")), 0).unwrap();
        let idle = Actor::builder().name("idle").on_end(hook("idle")).executor(queue.handle());
        let idle = system.spawn(idle, 0).unwrap();
        let count = given.clone();
        let plan = Actor::builder().name("busy").on_end(hook("busy")).executor(queue.handle());
        let plan = plan.on_undelivered(move |_| _ = count.fetch_add(1, SeqCst));
        let busy = system.spawn(plan, 0).unwrap();
        let token = questions.token();
        busy.send(|_| unreachable!("given back")).unwrap();
        let reply = busy.call(move |_| token.handle());
        let report = system.shutdown(Duration::ZERO).unwrap();
        assert_eq!((report.ended, report.stopped), (1, 0), "{report}");
        assert_eq!(report.running, ["idle", "busy"], "these end in their executor");
        assert_eq!(given.load(SeqCst), 0);
        queue.run_until_idle();
        assert_eq!(reply.wait(), Err(STOPPED));
        assert_eq!((given.load(SeqCst), questions.dropped()), (1, 1));
        for actor in [&plain, &idle] {
            assert_eq!(actor.send(|_| ()).unwrap_err().reason(), &Reason::Closed);
        }
        let stopped = Reason::Stopped(StopCause::Requested);
        assert_eq!(busy.send(|_| ()).unwrap_err().reason(), &stopped);
        let mut told: Vec<_> = ended.try_iter().collect();
        told.sort_by_key(|(name, _)| *name);
        let stopped = EndCause::Stopped(StopCause::Requested);
        let wanted = [("busy", stopped), ("idle", EndCause::Closed), ("plain", EndCause::Closed)];
        assert_eq!(told, wanted);
        assert_eq!(system.shutdown(Duration::ZERO).unwrap(), ShutdownReport::default());
    });
}

#[test]
fn what_ends_elsewhere_by_itself_is_not_stopped() {
    must_end(|| {
        let (go, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let system = System::new();
        let wait = Mutex::new(wait);
        let slow = Actor::builder().name("slow").on_end(move |_, cause| {
            let _ = wait.lock().unwrap().recv();
            tell.send(cause).unwrap();
        });
        let idle = system.spawn(slow, 0).unwrap();
        // Inside a turn, its end is in the fallback, and takes longer than the call.
        let report = Actor::new(()).with(|()| system.shutdown(Duration::ZERO).unwrap()).unwrap();
        assert_eq!((report.ended, report.stopped), (0, 0), "{report}");
        assert_eq!((report.running, idle.stop_cause()), (vec!["slow".to_owned()], None));
        drop(go);
        assert_eq!(told.recv(), Ok(EndCause::Closed));
        assert!(system.shutdown(Limit::Unlimited).unwrap().is_complete());
    });
}

#[test]
fn what_waits_is_given_back_here_without_an_executor() {
    must_end(|| {
        let here = thread::current().id();
        let (given, back) = mpsc::channel();
        let system = System::new();
        let hook = move |_| given.send(thread::current().id()).unwrap();
        let actor = system.spawn(Actor::builder().on_undelivered(hook), 0).unwrap();
        let kept = actor.clone();
        let promising = Promising::turn(move || {
            (0..5).for_each(|_| {
                kept.send(|_| unreachable!("given back")).unwrap_or_else(|_| panic!())
            });
        });
        let report = system.shutdown(Duration::ZERO).unwrap();
        assert_eq!((report.ended, report.stopped, report.running.len()), (0, 1, 0), "{report}");
        assert_eq!(back.try_iter().collect::<Vec<_>>(), [here; 5]);
        promising.let_go();
    });
}

#[test]
fn the_caller_is_there_when_the_time_is_over() {
    late(|builder, _| builder);
    late(|builder, pool| builder.executor(pool.handle()));
}

/// The waiting messages take longer than the limit.
fn late(plan: fn(turnwise::ActorBuilder<i32>, &ThreadPool) -> turnwise::ActorBuilder<i32>) {
    must_end(move || {
        let (clock, pool) = (VirtualClock::new(), ThreadPool::new().unwrap());
        let system = System::with_clock(clock.clone());
        let (given, back) = mpsc::channel();
        let builder =
            Actor::builder().name("slow").on_undelivered(move |_| given.send(()).unwrap());
        let actor = system.spawn(plan(builder, &pool), 0).unwrap();
        let (begun, running) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let kept = actor.clone();
        let promising = Promising::turn(move || {
            let slow = move |_: &mut i32| {
                begun.send(()).unwrap();
                let _ = wait.recv();
            };
            kept.send(slow).unwrap_or_else(|_| panic!());
            (0..5).for_each(|_| kept.send(|n| *n += 1).unwrap_or_else(|_| panic!()));
        });
        let shutting = shut_down_elsewhere(system, SECOND);
        running.recv().unwrap();
        clock.wait_for_sleepers(1);
        clock.advance(SECOND);
        let report = shutting.join().unwrap();
        let running = vec!["slow".to_owned()];
        assert_eq!((report.ended, report.stopped, report.running), (0, 0, running));
        drop(go);
        assert!(actor.ended().within(Limit::Unlimited).unwrap());
        assert_eq!(back.iter().take(5).count(), 5, "the turn was let go, the rest given back");
        promising.let_go();
    });
}

#[test]
fn an_actor_without_handles_is_waited_for() {
    must_end(|| {
        let queue = Arc::new(DrainQueue::new());
        let messages = Tally::default();
        let system = System::new();
        let actor = system.spawn(Actor::builder().executor(queue.handle()), ()).unwrap();
        let (begun, running) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let token = messages.token();
        actor
            .send(move |()| {
                begun.send(()).unwrap();
                let _ = wait.recv();
                token.handle();
            })
            .unwrap();
        drop(actor);
        let worker = thread::spawn({
            let queue = queue.clone();
            move || queue.run_until_idle()
        });
        running.recv().unwrap();
        assert_eq!(system.actors(), 1);
        assert!(!system.shutdown(Duration::ZERO).unwrap().is_complete());
        let again = thread::spawn(move || system.shutdown(Limit::Unlimited).unwrap());
        drop(go);
        let report = again.join().unwrap();
        assert!(report.is_complete(), "{report}");
        messages.check_all_handled();
        worker.join().unwrap();
    });
}

#[test]
fn an_actor_without_handles_and_time_gives_back() {
    must_end(|| {
        let messages = Tally::default();
        let (queue, system) = (DrainQueue::new(), System::new());
        let (given, back) = mpsc::channel();
        let plan = Actor::builder().executor(queue.handle());
        let plan = plan.on_undelivered(move |message| given.send(message).unwrap());
        let actor = system.spawn(plan, ()).unwrap();
        let token = messages.token();
        actor.send(move |()| token.handle()).unwrap();
        drop(actor);
        let report = system.shutdown(Limit::Immediate).unwrap();
        assert_eq!((report.ended, report.stopped, report.running.len()), (0, 0, 1), "{report}");
        queue.run_until_idle();
        assert_eq!((messages.handled(), back.try_iter().count()), (0, 1));
        messages.check();
        assert_eq!(system.actors(), 0);
    });
}

#[test]
fn each_limit_of_zero_ends_all_that_is_idle() {
    for limit in [Limit::Immediate, Limit::Within(Duration::ZERO)] {
        let system = System::new();
        let _idle: Vec<_> = (0..3).map(|n| system.actor(n).unwrap()).collect();
        assert_eq!(system.shutdown(limit).unwrap().ended, 3, "{limit:?}");
    }
}

#[test]
fn nothing_is_taken_in_after_a_shutdown() {
    let system = System::new();
    assert!(!system.is_shut_down());
    system.shutdown(Duration::ZERO).unwrap();
    assert!(system.is_shut_down());
    assert_eq!(system.actor("state").unwrap_err(), BuildError::ShutDown);
    assert_eq!(system.spawn(Actor::builder().name("seven"), 7).unwrap_err(), BuildError::ShutDown);
    assert_eq!(system.shutdown(SECOND).unwrap(), ShutdownReport::default(), "again is nothing");
}

#[test]
fn a_refused_builder_is_an_error_to_pass_on() {
    type Anything = Box<dyn std::error::Error + Send + Sync + 'static>;
    fn passes_on(system: &System) -> Result<(), Anything> {
        // Neither the state nor the hooks can be shared.
        let state = std::cell::Cell::new(1);
        let hook = |_: &turnwise::TurnPanic| ();
        system.spawn(Actor::builder().on_panic(hook), state)?;
        system.actor(std::cell::Cell::new(1))?;
        Ok(())
    }
    /// The bound of `anyhow::Error: From<E>`.
    fn is_a_good_error<E: std::error::Error + Send + Sync + 'static>(_: &E) {}
    let system = System::new();
    passes_on(&system).unwrap();
    system.shutdown(Duration::ZERO).unwrap();
    let refused = passes_on(&system).unwrap_err();
    assert_eq!(refused.to_string(), "the system has been shut down");
    is_a_good_error(&system.spawn(Actor::builder(), std::cell::Cell::new(1)).unwrap_err());
}

#[test]
fn the_own_end_hook_is_called_with_state_and_cause() {
    let (tx, rx) = mpsc::channel();
    let (queue, system) = (DrainQueue::new(), System::new());
    let hook = || {
        let tx = tx.clone();
        move |state, cause| tx.send((state, cause)).unwrap()
    };
    let closed = system.spawn(Actor::builder().on_end(hook()), 1).unwrap();
    let stopped = Actor::builder().on_end(hook()).executor(queue.handle());
    let stopped = system.spawn(stopped, 2).unwrap();
    stopped.send(|_| unreachable!("stopped")).unwrap();
    system.shutdown(Duration::ZERO).unwrap();
    drop((closed, stopped));
    queue.run_until_idle();
    let told: Vec<_> = rx.try_iter().collect();
    let stopped = EndCause::Stopped(StopCause::Requested);
    assert_eq!(told, [(1, EndCause::Closed), (2, stopped)]);
}

#[test]
fn the_last_drop_stops_all_and_waits_for_nobody() {
    must_end(|| {
        let (states, questions) = (Tally::default(), Tally::default());
        let system = System::new();
        let (busy, lower) = (desk(&system, &states), desk(&system, &states));
        let waiting = system.actor(states.token()).unwrap();
        let (kept, token) = (waiting.clone(), questions.token());
        let promising = Promising::turn(move || {
            kept.send(move |_| token.handle()).unwrap_or_else(|_| panic!());
        });
        let held = Held::hold(&busy);
        let askers = Askers::start(&busy, &questions);
        let clone = system.clone();
        drop(system);
        assert_eq!(busy.stop_cause(), None, "a clone is the same system");
        drop(clone);
        // It has not waited for the turn, which still runs.
        assert!(!busy.is_idle());
        for actor in [&busy, &lower, &waiting] {
            assert_eq!(actor.stop_cause(), Some(StopCause::Requested));
        }
        assert_eq!((states.dropped(), questions.dropped()), (2, 1));
        held.let_go();
        assert_eq!(askers.outcomes(), vec![Err(STOPPED); ASKERS]);
        assert_eq!(states.dropped(), 3, "no leak");
        promising.let_go();
        questions.check();
    });
}

#[test]
fn a_system_kept_by_its_own_actor_ends_with_it() {
    must_end(|| {
        let system = System::new();
        let root = system.actor(None).unwrap();
        let other = system.actor(0).unwrap();
        root.with(move |own: &mut Option<System>| *own = Some(system)).unwrap();
        assert_eq!(other.with(|n| *n), Ok(0), "still there");
        drop(root);
        assert_eq!(other.with(|n| *n), Err(STOPPED));
    });
}

#[test]
fn what_a_turn_has_promised_is_run_while_it_shuts_a_system_down() {
    must_end(|| {
        let messages = Tally::default();
        let system = System::new();
        let (worker, idle) = (system.actor(0).unwrap(), system.actor(0).unwrap());
        let promised = messages.token();
        let report = Actor::new(()).with(|()| {
            // This thread defers it until after the turn.
            worker.send(move |_| promised.handle()).map_err(|_| ()).unwrap();
            system.shutdown(Limit::Unlimited).unwrap()
        });
        let report = report.unwrap();
        assert_eq!((report.ended, report.stopped, report.is_complete()), (2, 0, true));
        assert!(idle.is_closed());
        messages.check_all_handled();
    });
}

/// A state whose drop takes its time, by a clock, and reports the thread of its drop.
struct Slow(VirtualClock, mpsc::Sender<thread::ThreadId>);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.advance(SECOND);
        self.1.send(thread::current().id()).unwrap();
    }
}

#[test]
fn ends_that_take_longer_than_the_limit_are_not_waited_for() {
    must_end(|| {
        let (clock, (tell, told)) = (VirtualClock::new(), mpsc::channel());
        let system = System::with_clock(clock.clone());
        let slow = || system.actor(Slow(clock.clone(), tell.clone())).unwrap();
        let _idle: Vec<_> = (0..100).map(|_| slow()).collect();
        let report = system.shutdown(5 * SECOND).unwrap();
        assert_eq!(report.stopped, 0, "what was idle is not stopped: {report}");
        let ended_on: Vec<_> = (0..100).map(|_| told.recv().unwrap()).collect();
        let here = ended_on.iter().filter(|thread| **thread == thread::current().id()).count();
        // Other threads may advance the clock, too, when the first has gone to them.
        assert_eq!(here, 5, "it looks at the clock after each");
        assert!(system.shutdown(Limit::Unlimited).unwrap().is_complete());
    });
}

#[test]
fn what_is_stopped_late_is_given_back_elsewhere() {
    must_end(|| {
        let (clock, (tell, told)) = (VirtualClock::new(), mpsc::channel());
        let system = System::with_clock(clock.clone());
        let here = thread::current().id();
        // Suspended turns, whose futures are dropped when they are cut.
        let waiting = [(); 20].map(|()| {
            let actor = system.actor(()).unwrap();
            let slow = Slow(clock.clone(), tell.clone());
            let (promise, kept) = promise::<()>();
            let turn = actor.run(async move |()| {
                let _slow = slow;
                kept.await
            });
            (actor, turn, promise)
        });
        // A hook that is called here spends the limit.
        let spends = Slow(clock.clone(), tell.clone());
        let last = system.spawn(Actor::builder().on_end(|slow, _| drop(slow)), spends).unwrap();
        let report = system.shutdown(SECOND).unwrap();
        assert_eq!(report.ended, 1, "{report}");
        assert_eq!(told.recv().unwrap(), here);
        assert!(last.is_closed());
        for _ in &waiting {
            assert_ne!(told.recv().unwrap(), here, "the time was over");
        }
        assert!(system.shutdown(Limit::Unlimited).unwrap().is_complete());
    });
}

#[test]
fn a_limit_of_zero_runs_all_ends_that_may_run_here() {
    must_end(|| {
        let (clock, (tell, told)) = (VirtualClock::new(), mpsc::channel());
        let system = System::with_clock(clock.clone());
        let slow = || system.actor(Slow(clock.clone(), tell.clone())).unwrap();
        let _idle: Vec<_> = (0..10).map(|_| slow()).collect();
        let report = system.shutdown(Duration::ZERO).unwrap();
        assert_eq!((report.ended, report.is_complete()), (10, true), "{report}");
        drop(tell);
        assert_eq!(told.try_iter().filter(|by| *by == thread::current().id()).count(), 10);
    });
}

#[test]
fn stages_end_from_last_to_first() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let stages = [(); 3].map(|()| System::new());
        let (tx, rx) = mpsc::channel();
        let sum = Actor::builder().on_end(move |n, _| tx.send(n).unwrap());
        let sum = stages[0].spawn(sum, 0).unwrap();
        let pass = stages[1].actor(sum.clone()).unwrap();
        let source =
            || stages[2].spawn(Actor::builder().executor(pool.handle()), pass.clone()).unwrap();
        let sources: Vec<_> = (0..10).map(|_| source()).collect();
        // The pool has no spare thread before the shutdown has begun.
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        for source in &sources {
            for _ in 0..10 {
                let wait = wait.clone();
                let message = move |pass: &mut Actor<Actor<i32>>| {
                    let _ = wait.lock().unwrap().recv();
                    pass.send(|sum| sum.send(|n| *n += 1).unwrap()).unwrap();
                };
                source.send(message).unwrap_or_else(|_| panic!());
            }
        }
        let shutting = thread::spawn(move || {
            let in_order = stages.iter().rev();
            in_order.map(|stage| stage.shutdown(Limit::Unlimited).unwrap()).collect::<Vec<_>>()
        });
        crate::common::until(|| sources.iter().all(Actor::is_closed));
        assert!(!pass.is_closed() && !sum.is_closed());
        drop(go);
        let reports = shutting.join().unwrap();
        let ended: Vec<_> = reports.iter().map(|report| report.ended).collect();
        assert_eq!(ended, [10, 1, 1]);
        assert!(reports.iter().all(|report| report.is_complete() && report.stopped == 0));
        assert_eq!(rx.recv(), Ok(100), "nothing was refused on the way");
    });
}

#[test]
fn out_of_time_the_idle_end_by_themselves() {
    must_end(|| {
        let states = Tally::default();
        let root = System::new();
        let (busy, idle) = (desk(&root, &states), desk(&root, &states));
        let held = Held::hold(&busy);
        let report = root.shutdown(Duration::ZERO).unwrap();
        assert_eq!((report.ended, report.stopped, report.running.len()), (1, 0, 1), "{report}");
        assert_eq!(idle.stop_cause(), None);
        assert_eq!(busy.stop_cause(), Some(StopCause::Requested));
        held.let_go();
    });
}

#[test]
fn who_comes_during_a_shutdown_is_ended_or_refused() {
    must_end(|| {
        for round in 0..size(30, 300) {
            let (states, messages) = (Tally::default(), Tally::default());
            let system = System::new();
            let gate = Gate::new(4);
            let spawner = |system: &System| {
                gate.pass();
                for n in 0..1_000 {
                    let Ok(actor) = system.actor(states.token()) else { break };
                    let token = messages.token();
                    let message = move |_: &mut Token| token.handle();
                    // Refused by a shutdown, it is dropped.
                    _ = if n % 50 == 0 {
                        actor.posted().send(message)
                    } else {
                        actor.send(message)
                    };
                }
            };
            let complete = thread::scope(|scope| {
                (0..3).for_each(|_| _ = scope.spawn(|| spawner(&system)));
                gate.pass();
                let limit = if round % 2 == 0 { Limit::Unlimited } else { Limit::Immediate };
                system.shutdown(limit).unwrap().is_complete() || limit == Limit::Immediate
            });
            assert!(complete);
            assert!(system.shutdown(Limit::Unlimited).unwrap().is_complete());
            assert_eq!(system.actors(), 0);
            assert_eq!(states.created(), states.dropped(), "no leak");
            messages.check();
        }
    });
}

#[test]
fn an_actor_whose_executor_is_gone_is_no_obstacle() {
    must_end(|| {
        for inside in [false, true] {
            let messages = Tally::default();
            let queue = DrainQueue::new();
            let system = System::new();
            let spawn = || system.spawn(Actor::builder().executor(queue.handle()), ()).unwrap();
            let (idle, busy) = (spawn(), spawn());
            let (token, kept) = (messages.token(), busy.clone());
            let forgetting = system.spawn(Actor::builder().executor(drop::<Drain>), ()).unwrap();
            let shut_down = move || {
                kept.send(move |()| token.handle()).unwrap_or_else(|_| panic!());
                drop(queue);
                system.shutdown(Limit::Unlimited).unwrap()
            };
            let report = match inside {
                true => Actor::new(()).call(move |()| shut_down()).wait().unwrap(),
                false => shut_down(),
            };
            // Outside of turns, dropping the queue has ended the one with a message.
            let ended = 2 + usize::from(inside);
            assert_eq!((report.ended, report.is_complete()), (ended, true), "{report}");
            assert_eq!(busy.stop_cause(), Some(StopCause::ExecutorGone));
            assert!(idle.is_closed() && forgetting.is_closed());
            assert_eq!((messages.handled(), messages.dropped()), (0, 1));
        }
    });
}

#[test]
fn a_future_ends_a_system() {
    must_end(|| {
        let (queue, messages) = (DrainQueue::new(), Tally::default());
        let system = System::new();
        let (tx, rx) = mpsc::channel();
        let sum = Actor::builder().executor(queue.handle());
        let sum = system.spawn(sum.on_end(move |n, _| tx.send(n).unwrap()), 0).unwrap();
        let token = messages.token();
        let message = move |n: &mut i32| {
            *n += 1;
            token.handle();
        };
        sum.send(message).unwrap_or_else(|_| panic!());
        let mut closing = Box::pin(system.shutdown_async());
        assert!(!system.is_shut_down(), "nothing before the first poll");
        let (wakes, waker) = counting_waker();
        let mut cx = std::task::Context::from_waker(&waker);
        use std::task::Poll;
        assert!(closing.as_mut().poll(&mut cx).is_pending());
        assert!(system.is_shut_down() && sum.is_closed() && rx.try_recv().is_err());
        assert_eq!((messages.handled(), wakes.0.load(SeqCst)), (0, 0));
        queue.run_until_idle();
        assert_eq!(wakes.0.load(SeqCst), 1);
        let Poll::Ready(report) = closing.as_mut().poll(&mut cx) else { panic!("all have ended") };
        let ended = report.as_ref().unwrap();
        assert_eq!((ended.ended, ended.stopped, ended.is_complete()), (1, 0, true));
        assert_eq!(closing.as_mut().poll(&mut cx), Poll::Ready(report), "again is the same");
        assert_eq!(rx.recv(), Ok(1));
        messages.check_all_handled();
    });
}

fn counting_waker() -> (Arc<crate::common::CountWakes>, std::task::Waker) {
    let wakes = Arc::new(crate::common::CountWakes::default());
    (wakes.clone(), wakes.into())
}

#[test]
fn a_poll_runs_no_turn_and_no_end() {
    must_end(|| {
        let (tx, rx) = mpsc::channel();
        let system = System::new();
        let note = || {
            let tx = tx.clone();
            move || tx.send(thread::current().id()).unwrap()
        };
        let (end, turn) = (note(), note());
        let idle = system.spawn(Actor::builder().on_end(move |_, _| end()), 0).unwrap();
        let busy = system.actor(0).unwrap();
        let kept = busy.clone();
        let promising = Promising::turn(move || {
            kept.send(move |_| turn()).unwrap_or_else(|_| panic!());
        });
        let report = block_on(system.shutdown_async()).unwrap();
        assert_eq!((report.ended, report.is_complete()), (2, true));
        let here = thread::current().id();
        assert_eq!(rx.try_iter().filter(|at| *at != here).count(), 2);
        assert!(idle.is_closed() && busy.is_closed());
        promising.let_go();
    });
}

#[test]
fn a_dropped_future_leaves_the_system_closed() {
    must_end(|| {
        let queue = DrainQueue::new();
        let system = System::new();
        let actors =
            [0; 2].map(|n| system.spawn(Actor::builder().executor(queue.handle()), n).unwrap());
        let mut closing = Box::pin(system.shutdown_async());
        let (wakes, waker) = counting_waker();
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(closing.as_mut().poll(&mut cx).is_pending());
        drop(closing);
        assert!(system.is_shut_down() && actors.iter().all(Actor::is_closed));
        queue.run_until_idle();
        assert_eq!(wakes.0.load(SeqCst), 0, "none waits any more");
        drop(waker);
        assert_eq!(Arc::strong_count(&wakes), 1, "no waker is left behind");
        assert_eq!(system.actors(), 0);
    });
}

/// A waker that records whether the thread that wakes it unwinds.
struct Unwinding(mpsc::Sender<bool>);

impl std::task::Wake for Unwinding {
    fn wake(self: Arc<Self>) {
        self.0.send(thread::panicking()).unwrap();
    }
}

#[test]
fn who_waits_is_woken_after_the_panic_of_an_end_hook() {
    let (tell, told) = mpsc::channel();
    let system = System::new();
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle());
    let n = system.spawn(builder.on_end(|_, _| quiet_panic("oops")), 0).unwrap();
    n.send(|_| ()).unwrap();
    let waker = std::task::Waker::from(Arc::new(Unwinding(tell)));
    let mut closing = Box::pin(system.shutdown_async());
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(closing.as_mut().poll(&mut cx).is_pending());
    queue.run_until_idle();
    assert_eq!(told.recv(), Ok(false));
    assert!(closing.as_mut().poll(&mut cx).is_ready());
}

/// An end hook that waits for a thread that waits for another member to end.
#[test]
fn all_are_closed_before_the_first_one_ends() {
    type End = fn(System);
    let shut_down = |limit: Duration| move |system: System| drop(system.shutdown(limit).unwrap());
    let (late, at_once) = (shut_down(SECOND * 3600), shut_down(Duration::ZERO));
    let ways: [Box<dyn Fn(System) + Send>; 3] =
        [Box::new(late), Box::new(at_once), Box::new(drop as End)];
    for ends in ways {
        must_end(move || {
            let system = System::new();
            let other: Arc<Mutex<Option<thread::JoinHandle<()>>>> = Arc::default();
            let theirs = other.clone();
            let joins = move |_, _| theirs.lock().unwrap().take().unwrap().join().unwrap();
            let _first = system.spawn(Actor::builder().on_end(joins), 0).unwrap();
            let second = system.actor(0).unwrap();
            *other.lock().unwrap() = Some(thread::spawn(move || second.ended().wait().unwrap()));
            ends(system);
        });
    }
}

/// The actors of a system that has ended report that they have ended.
#[test]
fn actors_of_a_complete_shutdown_are_idle() {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    for _ in 0..size(500, 5_000) {
        let system = System::new();
        let actor = system.spawn(Actor::builder().executor(pool.handle()), 0).unwrap();
        actor.send(|n| *n += 1).unwrap();
        assert!(system.shutdown(Limit::Unlimited).unwrap().is_complete());
        assert!(actor.is_idle() && actor.ended().within(Duration::ZERO).unwrap());
    }
}

#[test]
fn a_poll_ends_nothing_whose_executor_is_gone() {
    must_end(|| {
        let (tx, rx) = mpsc::channel();
        let (queue, system) = (DrainQueue::new(), System::new());
        let end = move |_, _| tx.send(thread::current().id()).unwrap();
        let builder = Actor::builder().executor(queue.handle()).on_end(end);
        let actor = system.spawn(builder, 0).unwrap();
        drop(queue);
        let report = block_on(system.shutdown_async()).unwrap();
        assert!(report.is_complete() && actor.is_closed());
        assert_ne!(rx.recv().unwrap(), thread::current().id());
    });
}

/// A sender that finds the mailbox full may discard its message after the actor has ended.
#[test]
fn what_a_late_sender_discards_is_counted() {
    for _ in 0..size(200, 2_000) {
        let system = System::new();
        let actor = Actor::builder().capacity(1, Overflow::DropNewest);
        let actor = system.spawn(actor, ()).unwrap();
        let gate = Arc::new(Gate::new(3));
        let senders = [(); 2].map(|()| {
            let (actor, gate) = (actor.clone(), gate.clone());
            thread::spawn(move || {
                gate.pass();
                while actor.send(|()| ()).is_ok() {}
            })
        });
        gate.pass();
        system.shutdown(Limit::Unlimited).unwrap();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(actor.snapshot().discarded, system.snapshot().discarded);
    }
}
