//! A system ends its actors: by shutdown, with a definite answer for everybody who waits, or by its drop. By a clock that the tests move.

mod common;

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use common::{Gate, Held, Tally, Token, must_end, quiet_panic, size};
use turnwise::{Actor, AskError, BuildError, Drain, EndCause, Limit, Overflow, Reason, SpawnReason, StopCause, System, VirtualClock};

const STOPPED: AskError = AskError::Stopped(StopCause::Requested);
const ASKERS: usize = 85;
const SECOND: Duration = Duration::from_secs(1);

type Queue = Arc<Mutex<VecDeque<Drain>>>;

/// An executor that runs drains when the test says so.
fn by_hand() -> (Queue, impl Fn(Drain) + Send + Sync) {
    let queue = Queue::default();
    let inner = queue.clone();
    (queue, move |drain| inner.lock().unwrap().push_back(drain))
}

/// Threads that ask and wait.
struct Askers(Vec<thread::JoinHandle<Result<u32, AskError>>>);

impl Askers {
    /// Returns when all of them wait.
    fn start(actor: &Actor<Token>, tally: &Tally) -> Self {
        let waiting = actor.len() + ASKERS;
        let threads = (0..ASKERS).map(|i| {
            let (actor, token) = (actor.clone(), tally.token());
            thread::spawn(move || match i % 2 {
                0 => actor.ask(move |_| token.handle()).wait().map(|()| 0),
                _ => actor.with(move |_| token.handle()).map(|()| 1),
            })
        });
        let askers = Askers(threads.collect());
        common::until(|| actor.len() == waiting);
        askers
    }

    fn outcomes(self) -> Vec<Result<u32, AskError>> {
        self.0.into_iter().map(|asker| asker.join().unwrap()).collect()
    }
}

/// The state of a tested actor is a token: it has met its fate when the actor has ended.
fn desk(system: &System, states: &Tally) -> Actor<Token> {
    system.spawn(Actor::builder(states.token()).name("desk")).unwrap()
}

fn shut_down_elsewhere(system: System, limit: impl Into<Limit>) -> thread::JoinHandle<turnwise::ShutdownReport> {
    let limit = limit.into();
    thread::spawn(move || system.shutdown(limit))
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
fn a_shutdown_out_of_time_names_the_turn_that_runs_and_everybody_behind_it_is_told() {
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
        assert_eq!((questions.handled(), questions.dropped(), states.dropped()), (0, ASKERS, 2), "no leak");
        questions.check();
    });
}

#[test]
fn mailboxes_that_nobody_drains_are_drained() {
    must_end(|| {
        let questions = Tally::default();
        let (queue, executor) = by_hand();
        let system = System::new();
        let posted = system.spawn(Actor::builder(0).executor(executor)).unwrap();
        let leaking = system.spawn(Actor::builder(0).executor(std::mem::forget::<Drain>)).unwrap();
        let plain = system.actor(0).unwrap();
        let mut replies = Vec::new();
        for actor in [&posted, &leaking, &plain] {
            let (first, token) = (questions.token(), questions.token());
            actor.enqueue(move |_| first.handle()).unwrap();
            // From inside a turn, so that it waits.
            Actor::new(()).with(|()| replies.push(actor.ask(move |_| token.handle()))).unwrap();
        }
        let report = system.shutdown(Limit::Unlimited);
        assert_eq!((report.ended, report.stopped, report.running.len()), (3, 0, 0));
        replies.into_iter().for_each(|reply| reply.wait().unwrap());
        questions.check_all_handled();
        queue.lock().unwrap().drain(..).for_each(Drain::run);
    });
}

#[test]
fn without_time_what_waits_is_given_back_and_only_the_idle_end_by_themselves() {
    must_end(|| {
        let (given, questions) = (Arc::new(AtomicUsize::new(0)), Tally::default());
        let system = System::new();
        let executor = || std::mem::forget::<Drain>;
        let idle = [system.actor(0).unwrap(), system.spawn(Actor::builder(0).executor(executor())).unwrap()];
        let count = given.clone();
        let plan = Actor::builder(0).executor(executor()).undelivered(move |_| _ = count.fetch_add(1, SeqCst));
        let actor = system.spawn(plan).unwrap();
        let token = questions.token();
        let mut reply = None;
        actor.enqueue(|_| unreachable!("given back")).unwrap();
        Actor::new(()).with(|()| reply = Some(actor.ask(move |_| token.handle()))).unwrap();
        let report = system.shutdown(Duration::ZERO);
        assert_eq!((report.ended, report.stopped, report.running.len()), (2, 1, 0), "{report}");
        assert_eq!(reply.unwrap().wait(), Err(STOPPED));
        assert_eq!((given.load(SeqCst), questions.dropped()), (1, 1));
        for actor in idle {
            assert_eq!(actor.send(|_| ()).unwrap_err().reason(), &Reason::Closed);
        }
        assert_eq!(actor.send(|_| ()).unwrap_err().reason(), &Reason::Stopped(StopCause::Requested));
    });
}

#[test]
fn the_caller_is_there_when_the_time_is_over_though_what_was_found_waiting_takes_longer() {
    late(|system, builder| system.spawn(builder).unwrap());
    late(|system, builder| {
        let actor = builder.spawn().unwrap();
        system.adopt(&actor).unwrap();
        actor
    });
    late(|system, builder| system.spawn(builder.executor(std::mem::forget::<Drain>)).unwrap());
}

fn late(make: fn(&System, turnwise::ActorBuilder<i32>) -> Actor<i32>) {
    must_end(move || {
        let clock = VirtualClock::new();
        let system = System::with_clock(clock.clone());
        let (given, back) = mpsc::channel();
        let actor = make(&system, Actor::builder(0).name("slow").undelivered(move |_| given.send(()).unwrap()));
        let (begun, running) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        // Nobody runs these but the shutdown.
        actor
            .enqueue(move |_| {
                begun.send(()).unwrap();
                let _ = wait.recv();
            })
            .unwrap();
        (0..5).for_each(|_| actor.enqueue(|n| *n += 1).unwrap());
        let shutting = shut_down_elsewhere(system, SECOND);
        running.recv().unwrap();
        clock.wait_for_sleepers(1);
        clock.advance(SECOND);
        let report = shutting.join().unwrap();
        assert_eq!((report.ended, report.stopped, report.running), (0, 0, vec!["slow".to_owned()]));
        drop(go);
        assert!(actor.wait_ended(Limit::Unlimited).unwrap());
        assert_eq!(back.iter().take(5).count(), 5, "the turn was let go, the rest given back");
    });
}

#[test]
fn an_actor_without_handles_is_waited_for() {
    must_end(|| {
        let (queue, executor) = by_hand();
        let messages = Tally::default();
        let system = System::new();
        let actor = system.spawn(Actor::builder(()).executor(executor)).unwrap();
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
        let worker = thread::spawn(move || queue.lock().unwrap().pop_front().unwrap().run());
        running.recv().unwrap();
        assert_eq!(system.actors(), 1);
        assert!(!system.shutdown(Duration::ZERO).is_complete());
        let again = thread::spawn(move || system.shutdown(Limit::Unlimited));
        drop(go);
        let report = again.join().unwrap();
        assert!(report.is_complete(), "{report}");
        messages.check_all_handled();
        worker.join().unwrap();
    });
}

#[test]
fn an_actor_without_handles_and_drainers_runs_in_time_and_gives_back_without() {
    must_end(|| {
        for limit in [Limit::Unlimited, Limit::Immediate] {
            let messages = Tally::default();
            let system = System::new();
            let (given, back) = mpsc::channel();
            let plan = Actor::builder(()).executor(std::mem::forget::<Drain>).undelivered(move |message| given.send(message).unwrap());
            let actor = system.spawn(plan).unwrap();
            let token = messages.token();
            actor.send(move |()| token.handle()).unwrap();
            drop(actor);
            let report = system.shutdown(limit);
            let (handled, given) = (messages.handled(), back.try_iter().count());
            if limit == Limit::Unlimited {
                assert_eq!((report.ended, report.stopped, handled, given), (1, 0, 1, 0), "{report}");
            } else {
                assert_eq!((report.ended, report.stopped, handled, given), (0, 1, 0, 1), "{report}");
            }
            messages.check();
            assert_eq!(system.actors(), 0);
        }
    });
}

#[test]
fn nothing_is_taken_in_after_a_shutdown_and_everything_is_handed_back() {
    let system = System::new();
    let child = system.child().unwrap();
    let other = Actor::new(0);
    assert!(!system.is_shut_down());
    system.shutdown(Duration::ZERO);
    assert!(system.is_shut_down() && child.is_shut_down());
    for closed in [&system, &child] {
        let refused = closed.actor("state").unwrap_err();
        assert_eq!(refused.to_string(), "no actor was made: the system has been shut down");
        assert_eq!(refused.into_parts(), ("state", SpawnReason::ShutDown));
        let builder = closed.spawn(Actor::builder(7).name("seven")).unwrap_err().into_refused();
        let actor = builder.spawn().unwrap();
        assert_eq!((actor.name(), actor.with(|n| *n)), (Some("seven"), Ok(7)));
        assert_eq!(closed.adopt(&other), Err(SpawnReason::ShutDown));
        assert_eq!(closed.child().unwrap_err(), SpawnReason::ShutDown);
    }
    assert_eq!(other.with(|n| *n), Ok(0));
    assert_eq!(system.shutdown(SECOND), turnwise::ShutdownReport::default(), "again is nothing");
}

#[test]
fn a_builder_that_cannot_be_built_comes_back() {
    let system = System::new();
    let refused = system.spawn(Actor::builder(7).capacity(0, Overflow::Reject)).unwrap_err();
    assert_eq!(refused.reason(), &SpawnReason::Build(BuildError::CapacityZero));
    let actor = system.spawn(refused.into_refused().capacity(1, Overflow::Reject)).unwrap();
    assert_eq!((actor.capacity(), actor.with(|n| *n)), (Some(1), Ok(7)));
    drop(actor);
    assert_eq!(system.actors(), 0);
}

#[test]
fn an_actor_that_ends_by_itself_is_forgotten() {
    let system = System::new();
    let ways: [fn(Actor<u32>); 4] =
        [drop, |actor| _ = actor.close(), |actor| _ = actor.stop(), |actor| actor.send(|_| quiet_panic("planned")).unwrap()];
    for end in ways {
        let actor = system.actor(0).unwrap();
        assert_eq!(system.actors(), 1);
        end(actor);
        assert_eq!(system.actors(), 0);
    }
    // Neither a hook that panics nor one that is slow to drop its state keeps the place.
    drop(system.spawn(Actor::builder(0).on_end(|_, _| quiet_panic("planned"))).unwrap());
    assert_eq!(system.actors(), 0);
    assert_eq!(system.shutdown(Limit::Unlimited).ended, 0);
}

#[test]
fn the_own_end_hook_is_called_with_state_and_cause() {
    let (tx, rx) = mpsc::channel();
    let system = System::new();
    let spawn = |n: u32| {
        let tx = tx.clone();
        system.spawn(Actor::builder(n).on_end(move |state, cause| tx.send((state, cause)).unwrap())).unwrap()
    };
    let (closed, stopped) = (spawn(1), spawn(2));
    stopped.enqueue(|_| unreachable!("stopped")).unwrap();
    system.shutdown(Duration::ZERO);
    drop((closed, stopped));
    let told: Vec<_> = rx.try_iter().collect();
    assert_eq!(told[0], (Some(1), EndCause::Closed));
    assert_eq!(told[1], (Some(2), EndCause::Stopped(StopCause::Requested)));
    assert_eq!(told.len(), 2);
}

#[test]
fn dropping_a_system_stops_all_and_waits_for_nobody() {
    must_end(|| {
        let (states, questions) = (Tally::default(), Tally::default());
        let system = System::new();
        let below = system.child().unwrap();
        let (busy, lower) = (desk(&system, &states), desk(&below, &states));
        let adopted = Actor::new(states.token());
        below.adopt(&adopted).unwrap();
        let token = questions.token();
        adopted.enqueue(move |_| token.handle()).unwrap();
        let held = Held::hold(&busy);
        let askers = Askers::start(&busy, &questions);
        drop(system);
        // It has not waited for the turn, which still runs.
        assert!(!busy.is_idle());
        for actor in [&busy, &lower, &adopted] {
            assert_eq!(actor.stop_cause(), Some(StopCause::Requested));
        }
        assert_eq!((states.dropped(), questions.dropped()), (2, 1));
        assert!(below.is_shut_down());
        held.let_go();
        assert_eq!(askers.outcomes(), vec![Err(STOPPED); ASKERS]);
        assert_eq!(states.dropped(), 3, "no leak");
        questions.check();
    });
}

#[test]
fn dropped_in_a_turn_of_its_own_actor_it_ends_that_one_after_the_turn() {
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
fn a_system_that_belongs_to_its_own_actor_ends_with_it() {
    must_end(|| {
        let system = Arc::new(System::new());
        let root = system.actor(None).unwrap();
        let other = system.actor(0).unwrap();
        let inside = system.clone();
        root.with(move |own: &mut Option<Arc<System>>| *own = Some(inside)).unwrap();
        drop(system);
        assert_eq!(other.with(|n| *n), Ok(0), "still there");
        drop(root);
        assert_eq!(other.with(|n| *n), Err(STOPPED));
    });
}

#[test]
fn shut_down_in_a_turn_of_its_own_actor_it_does_not_wait_for_that_one() {
    must_end(|| {
        let messages = Tally::default();
        let system = System::new();
        let boss = system.spawn(Actor::builder(0).name("boss")).unwrap();
        let worker = system.actor(0).unwrap();
        let (me, own, promised) = (boss.clone(), messages.token(), messages.token());
        let report = boss
            .with(|_| {
                me.enqueue(move |_| own.handle()).map_err(|_| ()).unwrap();
                // This thread promises to run it after the turn.
                worker.send(move |_| promised.handle()).map_err(|_| ()).unwrap();
                system.shutdown(Limit::Unlimited)
            })
            .unwrap();
        assert_eq!((report.ended, report.stopped, report.running), (1, 0, vec!["boss".to_owned()]));
        assert!(boss.is_closed() && boss.is_idle());
        assert_eq!(boss.stop_cause(), None, "what it had accepted was run");
        messages.check_all_handled();
    });
}

#[test]
fn the_systems_below_end_first_and_may_send_upwards_until_then() {
    must_end(|| {
        let root = System::new();
        let (tx, rx) = mpsc::channel();
        let sum = root.spawn(Actor::builder(0).on_end(move |n, _| tx.send(n.unwrap()).unwrap())).unwrap();
        let middle = root.child().unwrap();
        let bottom = middle.child().unwrap();
        let pass = middle.actor(sum.clone()).unwrap();
        let sources: Vec<_> = (0..10).map(|_| bottom.actor(pass.clone()).unwrap()).collect();
        for source in &sources {
            for _ in 0..10 {
                source.enqueue(|pass| pass.send(|sum| sum.send(|n| *n += 1).unwrap()).unwrap()).unwrap();
            }
        }
        assert_eq!(root.actors(), 12);
        let report = root.shutdown(Limit::Unlimited);
        assert_eq!((report.ended, report.stopped, report.running.len()), (12, 0, 0));
        assert_eq!(rx.try_recv(), Ok(100), "nothing was refused on the way");
    });
}

#[test]
fn out_of_time_the_idle_end_by_themselves_on_every_level() {
    must_end(|| {
        let states = Tally::default();
        let root = System::new();
        let child = root.child().unwrap();
        let (idle, busy) = (desk(&root, &states), desk(&child, &states));
        let adopted = Actor::new(0);
        root.adopt(&adopted).unwrap();
        let held = Held::hold(&busy);
        let report = root.shutdown(Duration::ZERO);
        assert_eq!((report.ended, report.stopped, report.running.len()), (2, 0, 1), "{report}");
        assert_eq!((idle.stop_cause(), adopted.stop_cause()), (None, None));
        held.let_go();
    });
}

#[test]
fn a_system_below_that_was_dropped_still_belongs_to_the_one_above() {
    must_end(|| {
        let states = Tally::default();
        let root = System::new();
        let child = root.child().unwrap();
        let actor = desk(&child, &states);
        let held = Held::hold(&actor);
        drop(child);
        assert_eq!(root.shutdown(Duration::ZERO).running, ["desk"]);
        held.let_go_soon();
        assert!(root.shutdown(Limit::Unlimited).is_complete());
        assert_eq!(states.dropped(), 1);
        held.let_go();
    });
}

#[test]
fn an_adopted_actor_is_ended_too_and_leaves_with_its_last_handle() {
    must_end(|| {
        let (clock, other) = (VirtualClock::new(), VirtualClock::new());
        let system = System::with_clock(clock.clone());
        // Its own limits are measured on its own clock; the shutdown's on the system's.
        let actor = Actor::builder(0).clock(other.clone()).name("adopted").spawn().unwrap();
        system.adopt(&actor).unwrap();
        let gone = Actor::new(0);
        system.adopt(&gone).unwrap();
        drop(gone);
        let held = Held::hold(&actor);
        let report = thread::scope(|scope| {
            let shutting = scope.spawn(|| system.shutdown(SECOND));
            clock.wait_for_sleepers(1);
            assert_eq!(other.sleepers(), 0);
            clock.advance(SECOND);
            shutting.join().unwrap()
        });
        assert_eq!((report.ended, report.stopped, report.running), (1, 0, vec!["adopted".to_owned()]));
        held.let_go();
        assert_eq!(system.shutdown(SECOND).running.len(), 0);
        assert_eq!(system.actors(), 0);
    });
}

#[test]
fn a_busy_adopted_actor_is_waited_for() {
    must_end(|| {
        let messages = Tally::default();
        let system = System::new();
        let actor = Actor::new(());
        system.adopt(&actor).unwrap();
        let held = Held::hold(&actor);
        let token = messages.token();
        actor.send(move |()| token.handle()).unwrap();
        let report = thread::scope(|scope| {
            let shutting = scope.spawn(|| system.shutdown(Limit::Unlimited));
            common::until(|| actor.is_closed());
            held.let_go_soon();
            shutting.join().unwrap()
        });
        assert_eq!((report.ended, report.stopped, report.running.len()), (1, 0, 0), "{report}");
        assert!(actor.is_idle());
        messages.check_all_handled();
        held.let_go();
    });
}

#[test]
fn shut_down_in_a_turn_of_an_adopted_actor_it_does_not_wait_for_that_one() {
    must_end(|| {
        let system = System::new();
        let (boss, worker) = (Actor::new(0), Actor::new(0));
        system.adopt(&boss).unwrap();
        system.adopt(&worker).unwrap();
        worker.enqueue(|n| *n += 1).unwrap();
        let report = boss.with(|_| system.shutdown(Limit::Unlimited)).unwrap();
        assert_eq!((report.ended, report.stopped, report.running.len()), (1, 0, 1), "{report}");
        assert!(boss.wait_ended(Limit::Unlimited).unwrap());
        assert_eq!((boss.stop_cause(), worker.stop_cause()), (None, None));
    });
}

#[test]
fn one_without_a_name_is_reported_by_its_type() {
    must_end(|| {
        struct Nameless;
        let system = System::new();
        let actor = system.actor(Nameless).unwrap();
        let held = Held::hold(&actor);
        let report = system.shutdown(Duration::ZERO);
        assert!(report.running[0].ends_with("Nameless"), "{report}");
        assert!(report.to_string().starts_with("0 ended, 0 stopped, 1 inside a turn: "), "{report}");
        held.let_go();
    });
}

#[test]
fn who_is_taken_in_while_the_system_shuts_down_is_ended_or_refused() {
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
                    // The first ones are kept by nobody.
                    let message = move |_: &mut Token| token.handle();
                    // Refused by a shutdown, it is dropped.
                    _ = if n % 2 == 0 { actor.enqueue(message) } else { actor.send(message) };
                }
            };
            let complete = thread::scope(|scope| {
                (0..3).for_each(|_| _ = scope.spawn(|| spawner(&system)));
                gate.pass();
                let limit = if round % 2 == 0 { Limit::Unlimited } else { Limit::Immediate };
                system.shutdown(limit).is_complete() || limit == Limit::Immediate
            });
            assert!(complete);
            assert_eq!(system.actors(), 0);
            assert_eq!(states.created(), states.dropped(), "no leak");
            messages.check();
        }
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
            let both = [(); 2].map(|()| scope.spawn(|| system.shutdown(Limit::Unlimited).is_complete()));
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
        let child = system.child().unwrap();
        let actors = [system.actor(0).unwrap(), child.actor(0).unwrap(), child.spawn(Actor::builder(0).clock(own.clone())).unwrap()];
        thread::scope(|scope| {
            let waiting = actors.each_ref().map(|actor| scope.spawn(|| actor.wait_ended(SECOND)));
            clock.wait_for_sleepers(2);
            own.wait_for_sleepers(1);
            clock.advance(SECOND);
            own.advance(SECOND);
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap() == Ok(false)));
        });
    });
}
