//! Supervision with limits: restarted a number of times, after a rest, then given up.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{Tally, block_on, in_turn, must_end, poll_once, quiet_panic, size, until};
use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{
    Actor, ActorBuilder, AskError, Budget, BuildError, Clock, EndCause, Limit, Overflow,
    PanicPolicy, Reason, Restarts, StopCause, System, ThreadPool, Undelivered, VirtualClock,
    WaitError,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A product of the factory: the number of the state, and the messages that it has run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    number: usize,
    ran: Vec<u32>,
}

/// A clock that is moved by hand, and a factory that counts.
struct Stage {
    clock: VirtualClock,
    timers: Timers,
    made: Arc<AtomicUsize>,
}

impl Stage {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let timers = Timers::by_hand(clock.clone());
        Stage { clock, timers, made: Arc::default() }
    }

    fn factory(&self) -> impl Fn() -> State + Send + Sync + 'static {
        let made = self.made.clone();
        move || State { number: made.fetch_add(1, SeqCst) + 1, ran: Vec::new() }
    }

    fn policy(&self, restarts: Restarts) -> PanicPolicy<State> {
        PanicPolicy::restart_within(restarts, self.factory())
    }

    /// Configures an actor that rests for a second, two, four, and so on.
    fn builder(&self, most: u32) -> ActorBuilder<State> {
        let restarts = Restarts::at_most(most, HOUR).backoff(SECOND, MINUTE);
        let builder = Actor::builder().timers(self.timers.clone());
        builder.panic_policy(self.policy(restarts))
    }

    fn made(&self) -> usize {
        self.made.load(SeqCst)
    }

    /// Advances the time; due messages go to their executor.
    fn pass(&self, time: Duration) -> usize {
        self.clock.advance(time);
        self.timers.run_due()
    }
}

fn run(n: u32) -> impl FnOnce(&mut State) + Send + 'static {
    move |state| state.ran.push(n)
}

fn oops(_: &mut State) {
    quiet_panic("oops")
}

fn gave_up(restarts: u32) -> StopCause {
    StopCause::GaveUp { restarts, panic: "oops".into() }
}

/// Waits for the state, on whatever thread.
fn state(actor: &Actor<State>) -> State {
    actor.call(|state| state.clone()).wait().unwrap()
}

/// A rest that never begins is no message.
#[test]
fn a_turn_that_stops_its_actor_and_panics_discards_nothing() {
    let stage = Stage::new();
    let n = stage.builder(5).counted(true).spawn(State::default()).unwrap();
    let own = n.clone();
    n.send(move |_| {
        own.stop();
        quiet_panic("after a stop");
    })
    .unwrap();
    let snapshot = n.snapshot();
    let stats = snapshot.stats.unwrap();
    assert_eq!((snapshot.discarded, stats.undelivered), (0, 0));
    assert_eq!((stats.handled, stats.panicked), (1, 1));
}

/// Parts of the old state, as the panic has left it, go into the fresh one.
#[test]
fn a_factory_sees_the_old_state() {
    let keep = |old: &mut State| {
        assert_ne!(old.number, 3, "the factory panics");
        State { number: old.number + 1, ran: std::mem::take(&mut old.ran) }
    };
    let (tell, told) = mpsc::channel();
    let n = Actor::builder()
        .panic_policy(PanicPolicy::restart_from(keep))
        .on_end(move |state, _| tell.send(state).unwrap())
        .spawn(State { number: 1, ran: vec![] })
        .unwrap();
    let panics = |of: u32| {
        n.send(move |n: &mut State| {
            n.ran.push(of);
            quiet_panic("half done");
        })
        .unwrap()
    };
    panics(1);
    panics(2);
    assert_eq!(n.with(|n| n.clone()).unwrap(), State { number: 3, ran: vec![1, 2] });
    // Its end hook has the old state, and what the factory has not taken.
    panics(3);
    assert_eq!(told.recv().unwrap(), State { number: 3, ran: vec![1, 2, 3] });
    assert!(matches!(n.stop_cause(), Some(StopCause::Panicked(_))));
}

/// After a rest as well.
#[test]
fn a_factory_sees_the_old_state_after_a_rest() {
    let stage = Stage::new();
    let keep =
        |old: &mut State| State { number: old.number + 1, ran: std::mem::take(&mut old.ran) };
    let restarts = Restarts::at_most(5, HOUR).backoff(SECOND, MINUTE);
    let n = Actor::builder()
        .timers(stage.timers.clone())
        .panic_policy(PanicPolicy::RestartWithin(restarts, Box::new(keep)))
        .spawn(State::default())
        .unwrap();
    n.send(|n| {
        n.ran.push(7);
        quiet_panic("half done");
    })
    .unwrap();
    let asked = n.call(|n| n.clone());
    assert!(!asked.is_ready());
    stage.clock.advance(SECOND);
    stage.timers.run_due();
    assert_eq!(asked.wait().unwrap(), State { number: 1, ran: vec![7] });
}

#[test]
fn restarts_are_counted_and_resumptions_and_stops_are_not() {
    let counts = |policy: PanicPolicy<u32>| {
        let actor = Actor::builder().counted(true).panic_policy(policy).spawn(7).unwrap();
        for _ in 0..3 {
            let _ = actor.send(|_| quiet_panic("oops"));
        }
        let stats = actor.snapshot().stats.unwrap();
        (stats.panicked, stats.restarted)
    };
    assert_eq!(counts(PanicPolicy::Restart(Box::new(|_| 0))), (3, 3));
    assert_eq!(counts(PanicPolicy::Resume), (3, 0));
    assert_eq!(counts(PanicPolicy::restart_within(Restarts::at_most(1, HOUR), || 0)), (2, 1));
    assert_eq!(counts(PanicPolicy::Stop), (1, 0));
}

#[test]
fn messages_wait_while_an_actor_rests() {
    must_end(|| {
        let stage = Stage::new();
        let actor = stage.builder(9).spawn(State::default()).unwrap();
        actor.send(run(1)).unwrap();
        let panicked = actor.call(oops);
        assert_eq!(panicked.wait(), Err(AskError::Panicked("oops".into())), "told at once");
        actor.send(run(2)).unwrap();
        let mut asked = actor.call(|state| state.clone());
        assert!(poll_once(&mut asked).is_pending());
        assert_eq!((actor.is_idle(), actor.is_closed(), actor.len()), (false, false, 3));
        assert_eq!(stage.pass(SECOND - Duration::from_nanos(1)), 0);
        assert!(poll_once(&mut asked).is_pending());
        assert_eq!(stage.made(), 0, "not before its time");
        assert_eq!(stage.pass(Duration::from_nanos(1)), 1);
        assert_eq!(block_on(asked), Ok(State { number: 1, ran: vec![2] }));
        actor.idle().wait().unwrap();
        assert_eq!(stage.timers.len(), 0);
        // It continues as if nothing had happened.
        assert_eq!(actor.with(|state| state.number), Ok(1));
    });
}

/// Messages behind a panic in the same batch wait, too, in order.
#[test]
fn a_batch_waits_behind_its_panic() {
    must_end(|| {
        let (stage, queue) = (Stage::new(), DrainQueue::new());
        let actor = stage.builder(9).executor(queue.handle()).spawn(State::default()).unwrap();
        for n in 1..=5 {
            match n {
                3 => actor.send(oops).unwrap(),
                _ => actor.send(run(n)).unwrap(),
            }
        }
        queue.run_until_idle();
        actor.send(run(6)).unwrap();
        assert_eq!(queue.run_until_idle(), 0, "it is not run");
        assert_eq!(actor.len(), 4);
        assert_eq!(stage.pass(SECOND), 1);
        assert_eq!((queue.len(), stage.made()), (1, 0), "in its executor");
        let now = crate::common::asked(&queue, &actor, |state| state.clone());
        assert_eq!(now, State { number: 1, ran: vec![4, 5, 6] });
        assert!(actor.is_idle());
    });
}

#[test]
fn rests_are_doubled_up_to_the_longest() {
    let stage = Stage::new();
    let restarts = Restarts::at_most(9, HOUR).backoff(SECOND, 5 * SECOND);
    let builder = Actor::builder().timers(stage.timers.clone());
    let queue = DrainQueue::new();
    let builder = builder.executor(queue.handle());
    let actor = builder.panic_policy(stage.policy(restarts)).spawn(State::default()).unwrap();
    let mut rests = Vec::new();
    for number in 1..=5 {
        actor.send(oops).unwrap();
        queue.run_until_idle();
        rests.push(stage.timers.next_due().unwrap().saturating_sub(stage.clock.now()).as_secs());
        stage.pass(5 * SECOND);
        queue.run_until_idle();
        assert_eq!(stage.made(), number);
    }
    assert_eq!(rests, [1, 2, 4, 5, 5]);
    // Old ones are forgotten.
    stage.pass(HOUR);
    actor.send(oops).unwrap();
    queue.run_until_idle();
    assert_eq!(stage.timers.next_due(), Some(stage.clock.now() + SECOND));
}

#[test]
fn one_panic_too_many_gives_the_actor_up() {
    must_end(|| {
        for most in [0, 1, 3] {
            let (stage, queue) = (Stage::new(), DrainQueue::new());
            let (ended, told) = (mpsc::channel(), mpsc::channel());
            let (end, tell, back) = (ended.0, told.0, Tally::default());
            let returned = back.clone();
            let actor = stage
                .builder(most)
                .executor(queue.handle())
                .on_end(move |state, cause| end.send((state, cause)).unwrap())
                .on_panic(move |text| tell.send(text.to_string()).unwrap())
                .on_undelivered(move |message| {
                    assert!(matches!(message, Undelivered::Closure(_)));
                    returned.token().come_back();
                })
                .spawn(State::default())
                .unwrap();
            for n in 0..=most {
                actor.send(oops).unwrap();
                queue.run_until_idle();
                let given_up = n == most;
                assert_eq!(stage.pass(MINUTE), usize::from(!given_up), "{most}");
                actor.send(run(n)).map_or_else(
                    |refused| {
                        assert!(given_up);
                        assert_eq!(refused.reason(), &Reason::Stopped(gave_up(most)));
                    },
                    |()| assert!(!given_up),
                );
                queue.run_until_idle();
            }
            let (state, cause) = ended.1.try_recv().unwrap();
            assert_eq!(cause, EndCause::Stopped(gave_up(most)));
            assert_eq!(state.number, most as usize);
            assert_eq!(told.1.try_iter().count(), most as usize + 1);
            let asked = actor.call(|state| state.number).wait();
            assert_eq!(asked, Err(AskError::from(Reason::Stopped(gave_up(most)))));
            assert_eq!(back.returned(), 0);
            assert_eq!(actor.stop_cause(), Some(gave_up(most)));
        }
    });
}

/// Waiters get the reason when it is given up, and messages are returned.
#[test]
fn whoever_waits_for_one_given_up_is_told() {
    must_end(|| {
        let (stage, queue) = (Stage::new(), DrainQueue::new());
        let back = Arc::new(Mutex::new(0));
        let counts = back.clone();
        let builder = stage.builder(1).executor(queue.handle());
        let actor = builder
            .on_undelivered(move |_| *counts.lock().unwrap() += 1)
            .spawn(State::default())
            .unwrap();
        actor.send(oops).unwrap();
        actor.send(oops).unwrap();
        actor.send(run(1)).unwrap();
        let asked = actor.call(|_| ());
        queue.run_until_idle();
        thread::scope(|scope| {
            let with = scope.spawn(|| actor.with(|_| ()));
            until(|| actor.len() == 5);
            stage.pass(SECOND);
            queue.run_until_idle();
            let refused = Err(AskError::from(Reason::Stopped(gave_up(1))));
            assert_eq!(asked.wait(), refused);
            assert_eq!(with.join().unwrap(), refused);
        });
        assert_eq!(*back.lock().unwrap(), 1);
        assert_eq!(actor.ended().within(MINUTE), Ok(true));
    });
}

#[test]
fn a_factory_that_panics_is_tried_later() {
    must_end(|| {
        for rest in [Duration::ZERO, SECOND] {
            let stage = Stage::new();
            let (tries, restarts) = (Arc::new(AtomicUsize::new(0)), Restarts::at_most(3, HOUR));
            let tried = tries.clone();
            let policy = PanicPolicy::restart_within(restarts.backoff(rest, MINUTE), move || {
                match tried.fetch_add(1, SeqCst) {
                    n @ 0..2 => std::panic::panic_any(format!("factory {n}")),
                    n => State { number: n, ran: Vec::new() },
                }
            });
            let told = Arc::new(Mutex::new(Vec::new()));
            let tell = told.clone();
            let queue = DrainQueue::new();
            let builder = Actor::builder().timers(stage.timers.clone());
            let builder = builder.executor(queue.handle()).panic_policy(policy);
            let builder = builder.on_panic(move |panic| {
                tell.lock().unwrap().push(panic.text().to_string());
                quiet_panic("a hook that panics")
            });
            let actor = builder.spawn(State::default()).unwrap();
            actor.send(oops).unwrap();
            actor.send(run(1)).unwrap();
            queue.run_until_idle();
            for passed in [1, 2, 4] {
                assert_eq!(stage.pass(passed * SECOND), usize::from(!rest.is_zero()));
                queue.run_until_idle();
            }
            assert_eq!(tries.load(SeqCst), 3);
            assert_eq!(*told.lock().unwrap(), ["oops", "factory 0", "factory 1"]);
            let now = crate::common::asked(&queue, &actor, |state| state.clone());
            assert_eq!(now, State { number: 2, ran: vec![1] });
            // That was its last restart.
            actor.send(oops).unwrap();
            queue.run_until_idle();
            assert_eq!(actor.stop_cause(), Some(gave_up(3)));
        }
    });
}

#[test]
fn without_a_rest_the_restart_is_at_once() {
    let stage = Stage::new();
    let policy = stage.policy(Restarts::at_most(2, HOUR));
    let actor = Actor::builder().panic_policy(policy).spawn(State::default()).unwrap();
    for number in 1..=2 {
        actor.send(oops).unwrap();
        assert_eq!(actor.with(|state| state.number), Ok(number));
    }
    actor.send(oops).unwrap();
    assert_eq!(actor.stop_cause(), Some(gave_up(2)));
}

#[test]
fn a_stop_ends_the_rest() {
    type Stops = (&'static str, fn(Actor<State>));
    fn stops() -> [Stops; 3] {
        [
            ("stop", |actor| assert!(actor.stop())),
            ("weak", |actor| assert!(actor.downgrade().stop())),
            ("weak, the last handle gone", |actor| {
                let weak = actor.downgrade();
                drop(actor);
                assert!(weak.stop());
            }),
        ]
    }
    must_end(|| {
        for (name, stop) in stops() {
            for queued in [false, true] {
                let (stage, queue, tally) = (Stage::new(), DrainQueue::new(), Tally::default());
                let (end, ended) = mpsc::channel();
                let mut builder = stage.builder(9);
                if queued {
                    builder = builder.executor(queue.handle());
                }
                let builder = builder.on_end(move |state, cause| end.send((state, cause)).unwrap());
                let actor = builder.spawn(State::default()).unwrap();
                actor.send(run(1)).unwrap();
                actor.send(oops).unwrap();
                queue.run_until_idle();
                let token = tally.token();
                actor.send(move |_| token.handle()).unwrap();
                stop(actor);
                queue.run_until_idle();
                let (state, cause) = ended.recv_timeout(MINUTE).unwrap();
                assert_eq!(cause, EndCause::Stopped(StopCause::Requested), "{name} {queued}");
                assert_eq!(state, State { number: 0, ran: vec![1] }, "as the panic left it");
                assert_eq!((tally.dropped(), stage.timers.len()), (1, 0), "{name} {queued}");
                assert_eq!((stage.pass(HOUR), stage.made()), (0, 0));
            }
        }
    });
}

#[test]
fn a_close_or_the_last_drop_does_not() {
    must_end(|| {
        for drops in [false, true] {
            let (stage, queue) = (Stage::new(), DrainQueue::new());
            let (end, ended) = mpsc::channel();
            let builder = stage.builder(9).executor(queue.handle());
            let builder = builder.on_end(move |state, cause| end.send((state, cause)).unwrap());
            let actor = builder.spawn(State::default()).unwrap();
            actor.send(oops).unwrap();
            actor.send(run(1)).unwrap();
            queue.run_until_idle();
            let cause = match drops {
                true => {
                    drop(actor);
                    EndCause::Dropped
                }
                false => {
                    assert!(actor.close());
                    EndCause::Closed
                }
            };
            queue.run_until_idle();
            assert!(ended.try_recv().is_err(), "it rests");
            stage.pass(SECOND);
            queue.run_until_idle();
            assert_eq!(ended.try_recv(), Ok((State { number: 1, ran: vec![1] }, cause)));
        }
    });
}

#[test]
fn the_capacity_holds_while_an_actor_rests() {
    must_end(|| {
        let (stage, queue) = (Stage::new(), DrainQueue::new());
        let builder = stage.builder(9).executor(queue.handle()).capacity(2, Overflow::Reject);
        let actor = builder.spawn(State::default()).unwrap();
        actor.send(oops).unwrap();
        actor.send(run(1)).unwrap();
        let mut two = actor.waiting().send(run(2));
        let mut three = actor.waiting().send(run(3));
        assert!(poll_once(&mut two).is_pending() && poll_once(&mut three).is_pending());
        queue.run_until_idle();
        // The place of the message that panicked is the next one's: two wait, as many as may.
        assert!(poll_once(&mut two).is_ready());
        assert!(poll_once(&mut three).is_pending());
        assert_eq!(actor.send(run(9)).unwrap_err().into_reason(), Reason::Full);
        let late = actor.waiting().call(|_| ()).within(Duration::ZERO);
        assert!(matches!(late, Err(WaitError::Cancelled(_))));
        stage.pass(SECOND);
        queue.run_until_idle();
        assert!(poll_once(&mut three).is_ready());
        let now = crate::common::asked(&queue, &actor, |state| state.clone());
        assert_eq!(now, State { number: 1, ran: vec![1, 2, 3] });
        // With room, it is accepted.
        actor.send(oops).unwrap();
        queue.run_until_idle();
        actor.send(run(4)).unwrap();
        actor.send(run(5)).unwrap();
        assert_eq!(actor.send(run(9)).unwrap_err().into_reason(), Reason::Full);
        stage.pass(MINUTE);
        queue.run_until_idle();
        let now = crate::common::asked(&queue, &actor, |state| state.clone());
        assert_eq!(now, State { number: 2, ran: vec![4, 5] });
    });
}

#[test]
fn a_restart_whose_rest_is_over_takes_no_place() {
    must_end(|| {
        let (stage, queue) = (Stage::new(), DrainQueue::new());
        let builder = stage.builder(9).executor(queue.handle()).capacity(1, Overflow::Reject);
        let actor = builder.spawn(State::default()).unwrap();
        actor.send(oops).unwrap();
        queue.run_until_idle();
        stage.pass(SECOND);
        // It has to be restarted, but no thread has come to it yet.
        actor.send(run(1)).unwrap();
        assert_eq!(actor.send(run(9)).unwrap_err().into_reason(), Reason::Full);
        queue.run_until_idle();
        let now = crate::common::asked(&queue, &actor, |state| state.clone());
        assert_eq!(now, State { number: 1, ran: vec![1] });
    });
}

#[test]
fn every_kind_of_turn_may_panic() {
    must_end(|| {
        let stage = Stage::new();
        let hooked = |builder: ActorBuilder<State>| builder.on_batch_end(|_, _| ());
        for hooks in [false, true] {
            let builder = stage.builder(99);
            let builder = if hooks { hooked(builder) } else { builder };
            let actor = builder.spawn(State::default()).unwrap();
            let asked = |actor: &Actor<State>| {
                let caught = std::panic::AssertUnwindSafe(|| actor.with(oops));
                assert!(std::panic::catch_unwind(caught).is_err());
            };
            type Turn<'a> = (&'static str, &'a dyn Fn(&Actor<State>));
            let turns: [Turn<'_>; 6] = [
                ("send", &|actor| actor.send(oops).unwrap()),
                ("posted", &|actor| {
                    actor.posted().send(oops).unwrap();
                    until(|| actor.len() == 1 && stage.timers.len() == 1);
                }),
                ("call", &|actor| assert!(actor.call(oops).wait().is_err())),
                ("with", &asked),
                ("try_with", &|actor| {
                    let caught = std::panic::AssertUnwindSafe(|| actor.try_with(oops).is_ok());
                    assert!(std::panic::catch_unwind(caught).is_err());
                }),
                ("in a turn", &|actor| in_turn(|| actor.send(oops).unwrap())),
            ];
            for (name, turn) in turns {
                let before = stage.made();
                turn(&actor);
                until(|| stage.timers.len() == 1);
                assert_eq!(actor.try_with(|_| ()).unwrap_err().into_reason(), Reason::Busy);
                actor.send(run(1)).unwrap();
                assert_eq!(stage.pass(HOUR), 1, "{name}");
                let now = state(&actor);
                assert_eq!(now, State { number: before + 1, ran: vec![1] }, "{name} {hooks}");
                actor.idle().wait().unwrap();
            }
        }
    });
}

#[test]
fn hooks_of_batches_see_the_fresh_state_only() {
    must_end(|| {
        let (stage, queue) = (Stage::new(), DrainQueue::new());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let ends = seen.clone();
        let actor = stage
            .builder(9)
            .executor(queue.handle())
            .on_batch_end(move |state, n| ends.lock().unwrap().push((state.number, n)))
            .spawn(State::default())
            .unwrap();
        actor.send(run(1)).unwrap();
        actor.send(oops).unwrap();
        actor.send(run(2)).unwrap();
        queue.run_until_idle();
        assert_eq!(*seen.lock().unwrap(), []);
        stage.pass(SECOND);
        queue.run_until_idle();
        assert_eq!(*seen.lock().unwrap(), [(1, 3)]);
    });
}

#[test]
fn a_hook_of_a_batch_that_panics_restarts_at_once() {
    must_end(|| {
        let (stage, queue) = (Stage::new(), DrainQueue::new());
        let actor = stage
            .builder(3)
            .executor(queue.handle())
            .on_batch_end(move |state, _| {
                if state.number < 2 {
                    quiet_panic("oops")
                }
            })
            .spawn(State::default())
            .unwrap();
        for n in 1..=3 {
            actor.send(run(n)).unwrap();
            queue.run_until_idle();
        }
        assert_eq!((stage.made(), stage.timers.len()), (2, 0));
        assert!(!actor.is_closed());
        actor.send(oops).unwrap();
        queue.run_until_idle();
        assert_eq!(stage.timers.len(), 1, "a turn rests");
        stage.pass(HOUR / 2);
        actor.send(oops).unwrap();
        queue.run_until_idle();
        assert_eq!(actor.stop_cause(), Some(gave_up(3)), "they all count");
    });
}

#[test]
fn a_rest_comes_before_the_hook_of_its_batch() {
    must_end(|| {
        let stage = Stage::new();
        let hooked = |most| {
            let builder = stage.builder(most).counted(true);
            builder.on_batch_end(|state, _| {
                if state.number == 0 {
                    quiet_panic("no state to work with")
                }
            })
        };
        let turns: [fn(&Actor<State>); 2] = [
            |actor| actor.send(oops).unwrap(),
            |actor| {
                let caught = std::panic::AssertUnwindSafe(|| actor.try_with(oops).is_ok());
                assert!(std::panic::catch_unwind(caught).is_err());
            },
        ];
        for turn in turns {
            let before = stage.made();
            let actor = hooked(3).spawn(State::default()).unwrap();
            turn(&actor);
            actor.send(run(1)).unwrap();
            assert_eq!((stage.made(), stage.timers.len()), (before, 1), "it rests");
            assert_eq!(stage.pass(SECOND), 1);
            assert_eq!(state(&actor), State { number: before + 1, ran: vec![1] });
            assert_eq!(stage.made(), before + 1);
            let stats = actor.snapshot().stats.unwrap();
            assert_eq!((stats.panicked, stats.restarted), (1, 1), "the hook saw no old state");
            assert!(stage.timers.is_empty() && !actor.is_closed());
            // A stop ends the batch with the state that the panic has left.
            let actor = hooked(2).spawn(State::default()).unwrap();
            turn(&actor);
            assert_eq!(actor.snapshot().stats.unwrap().panicked, 1);
            actor.stop();
            actor.ended().wait().unwrap();
            let stats = actor.snapshot().stats.unwrap();
            assert_eq!((stats.handled, stats.panicked), (1, 2));
        }
    });
}

#[test]
fn actors_of_a_spawner_are_restarted_each() {
    must_end(|| {
        let (stage, queue) = (Stage::new(), DrainQueue::new());
        let restarts = Restarts::at_most(1, HOUR).backoff(SECOND, MINUTE);
        let spawner = Actor::builder()
            .executor(queue.handle())
            .timers(stage.timers.clone())
            .panic_policy(PanicPolicy::restart_within(restarts, stage.factory()))
            .build()
            .unwrap();
        let all: Vec<_> = (0..10).map(|_| spawner.spawn(State::default())).collect();
        for (n, actor) in all.iter().enumerate() {
            actor.send(oops).unwrap();
            actor.send(run(n as u32)).unwrap();
        }
        queue.run_until_idle();
        assert_eq!(stage.pass(SECOND), 10);
        queue.run_until_idle();
        for (n, actor) in all.iter().enumerate() {
            assert_eq!(crate::common::asked(&queue, actor, |state| state.ran.clone()), [n as u32]);
        }
        assert_eq!(stage.made(), 10);
        all[3].send(oops).unwrap();
        queue.run_until_idle();
        assert_eq!(all.iter().filter(|actor| actor.is_closed()).count(), 1);
        assert_eq!(all[3].stop_cause(), Some(gave_up(1)));
    });
}

#[test]
fn a_system_ends_while_its_actors_rest() {
    must_end(|| {
        for queued in [false, true] {
            // Its own clock; the rest ends with the limit.
            let clock = VirtualClock::new();
            let (system, queue) = (System::with_clock(clock.clone()), DrainQueue::new());
            let stage = Stage::new();
            let restarts = Restarts::at_most(9, HOUR).backoff(HOUR, HOUR);
            let builder = Actor::builder().panic_policy(stage.policy(restarts));
            let builder = if queued { builder.executor(queue.handle()) } else { builder };
            let actor = system.spawn(builder, State::default()).unwrap();
            actor.send(oops).unwrap();
            queue.run_until_idle();
            let asked = actor.call(|_| ());
            let report = system.shutdown(Duration::ZERO).unwrap();
            match queued {
                true => assert_eq!(report.running.len(), 1),
                false => assert_eq!((report.stopped, report.running.len()), (1, 0)),
            }
            queue.run_until_idle();
            assert_eq!(system.actors(), 0);
            assert!(asked.wait().is_err());
            assert_eq!(stage.made(), 0);
            // In time: a fresh state runs the accepted messages.
            let system = System::with_clock(clock.clone());
            let restarts = Restarts::at_most(9, HOUR).backoff(SECOND, HOUR);
            let builder = Actor::builder().panic_policy(stage.policy(restarts));
            let actor = system.spawn(builder, State::default()).unwrap();
            actor.send(oops).unwrap();
            let asked = actor.call(|state| state.number);
            thread::scope(|scope| {
                let ending = scope.spawn(|| system.shutdown(Limit::Within(HOUR)).unwrap());
                clock.wait_for_sleepers(2); // it, and the thread of the timers
                clock.advance(SECOND);
                let report = ending.join().unwrap();
                assert_eq!((report.ended, report.stopped), (1, 0), "{report}");
            });
            assert_eq!(asked.wait(), Ok(1));
            // Dropping a system ends a rest, too.
            let system = System::with_clock(clock.clone());
            let builder = Actor::builder()
                .panic_policy(stage.policy(Restarts::at_most(9, HOUR).backoff(HOUR, HOUR)));
            let actor = system.spawn(builder, State::default()).unwrap();
            actor.send(oops).unwrap();
            drop(system);
            assert_eq!(actor.ended().wait(), Ok(()));
        }
    });
}

#[test]
fn a_rest_ends_when_its_timers_do() {
    must_end(|| {
        // Never fired: the service has ended with its last handle, and no thread would ever run it.
        let stage = Stage::new();
        let restarts = Restarts::at_most(9, HOUR).backoff(HOUR, HOUR);
        let builder = Actor::builder().clock(stage.clock.clone());
        let actor = builder.panic_policy(stage.policy(restarts)).spawn(State::default()).unwrap();
        actor.send(oops).unwrap();
        stage.clock.wait_for_sleepers(1);
        stage.clock.advance(HOUR);
        assert_eq!(state(&actor).number, 1, "a service that only the rest keeps");
        // The executor has ended meanwhile, so the actor stops.
        let queue = DrainQueue::new();
        let actor = stage.builder(9).executor(queue.handle()).spawn(State::default()).unwrap();
        actor.send(oops).unwrap();
        queue.run_until_idle();
        let asked = actor.call(|_| ());
        drop(queue);
        stage.pass(SECOND);
        assert_eq!(actor.stop_cause(), Some(StopCause::ExecutorGone));
        assert!(asked.wait().is_err());
    });
}

#[test]
fn a_clock_that_panics_costs_the_rest_alone() {
    #[derive(Debug)]
    struct Broken;
    impl Clock for Broken {
        fn now(&self) -> Duration {
            quiet_panic("broken")
        }
    }
    must_end(|| {
        let stage = Stage::new();
        let restarts = Restarts::at_most(2, HOUR).backoff(HOUR, HOUR);
        let builder = Actor::builder().clock(Broken);
        let actor = builder.panic_policy(stage.policy(restarts)).spawn(State::default()).unwrap();
        for number in 1..=2 {
            actor.send(oops).unwrap();
            assert_eq!(state(&actor).number, number);
        }
        actor.send(oops).unwrap();
        assert_eq!(actor.stop_cause(), Some(gave_up(2)));
    });
}

/// On a pool, in real time, with stops meanwhile: every message has its fate.
#[test]
fn no_message_is_lost_around_a_rest() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let tally = Tally::default();
        for round in 0..size(40, 1_000) {
            let policy = PanicPolicy::restart_within(
                Restarts::at_most(1_000, MINUTE)
                    .backoff(Duration::from_micros(50), Duration::from_micros(200)),
                State::default,
            );
            let back = tally.clone();
            let _ = &back;
            let builder = Actor::builder().panic_policy(policy);
            let builder = if round % 2 == 0 { builder.executor(pool.handle()) } else { builder };
            let builder =
                if round % 3 == 0 { builder.capacity(4, Overflow::Reject) } else { builder };
            let actor = builder.spawn(State::default()).unwrap();
            thread::scope(|scope| {
                for thread in 0..3_u32 {
                    let (actor, tally) = (actor.clone(), tally.clone());
                    scope.spawn(move || {
                        for n in 0..20 {
                            let token = tally.token();
                            let message = move |_: &mut State| {
                                token.handle();
                                if n % 5 == thread {
                                    quiet_panic("oops")
                                }
                            };
                            match n % 3 {
                                0 => drop(actor.send(message)),
                                1 => drop(actor.waiting().send(message).wait()),
                                _ => drop(actor.call(message).within(Duration::from_micros(100))),
                            }
                        }
                    });
                }
                if round % 4 == 0 {
                    let actor = actor.clone();
                    scope.spawn(move || {
                        until(|| actor.is_closed() || actor.len() > 1 || actor.is_idle());
                        actor.stop();
                    });
                }
            });
            actor.close();
            assert_eq!(actor.ended().within(MINUTE), Ok(true));
        }
        tally.check();
    });
}

#[test]
fn a_stop_ends_a_factory_that_panics_for_ever() {
    must_end(|| {
        let tries = Arc::new(AtomicUsize::new(0));
        let tried = tries.clone();
        let restarts = Restarts::at_most(u32::MAX, MINUTE);
        let policy = PanicPolicy::restart_within(restarts, move || -> State {
            tried.fetch_add(1, SeqCst);
            quiet_panic("it never works")
        });
        let actor = Actor::builder().panic_policy(policy).spawn(State::default()).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| actor.send(oops).unwrap());
            until(|| tries.load(SeqCst) > 100);
            actor.stop();
        });
        assert_eq!(actor.ended().within(MINUTE), Ok(true));
    });
}

#[test]
fn restarts_within_no_time_are_refused() {
    let build = |restarts: u32, within: Duration| {
        let policy = PanicPolicy::restart_within(Restarts::at_most(restarts, within), || 0);
        Actor::builder().panic_policy(policy).spawn(0).map(drop)
    };
    assert_eq!(build(1, Duration::ZERO), Err(BuildError::RestartTimeZero));
    assert_eq!(build(0, Duration::ZERO), Ok(()), "the first panic stops it");
    assert_eq!(build(1, Duration::from_nanos(1)), Ok(()));
}

/// A late restart counts from its own time.
#[test]
fn a_late_restart_is_not_forgotten_early() {
    let (clock, queue) = (VirtualClock::new(), DrainQueue::new());
    let timers = Timers::by_hand(clock.clone());
    let restarts = Restarts::at_most(1, SECOND * 30).backoff(SECOND * 2, SECOND * 2);
    let actor = Actor::builder()
        .executor(queue.handle())
        .timers(timers.clone())
        .panic_policy(PanicPolicy::restart_within(restarts, || ()))
        .spawn(())
        .unwrap();
    (0..3).for_each(|_| actor.send(|()| quiet_panic("again")).unwrap());
    queue.run_until_idle();
    // The executor comes long after the rest is over: the second panic is one too many.
    clock.advance(SECOND * 100);
    timers.run_due();
    queue.run_until_idle();
    assert!(matches!(actor.stop_cause(), Some(StopCause::GaveUp { restarts: 1, .. })));
}

/// Moves on by a millisecond at each look: a rest as long is over when it is first looked at.
#[derive(Debug, Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, SeqCst))
    }
}

/// An actor whose rests are over at once.
fn restless() -> ActorBuilder<u32> {
    let tick = Duration::from_millis(1);
    let restarts = Restarts::at_most(u32::MAX, HOUR).backoff(tick, tick);
    let builder = Actor::builder().clock(Ticks::default());
    builder.panic_policy(PanicPolicy::restart_within(restarts, || 0))
}

/// The rest has the place of the turn that has panicked, in the budget as in the mailbox.
#[test]
fn a_restart_counts_as_the_turn_before_it() {
    for budget in 1..4 {
        let queue = DrainQueue::new();
        let actor = restless().executor(queue.handle()).budget(budget).spawn(0).unwrap();
        for n in 0..20 {
            match n % 5 {
                0 => actor.send(|_| quiet_panic("oops")).unwrap(),
                _ => actor.send(|n| *n += 1).unwrap(),
            }
        }
        for left in (0..20).rev().step_by(budget as usize) {
            assert!(queue.run_one());
            let left = (left + 1_usize).saturating_sub(budget as usize);
            assert_eq!(actor.len(), left, "{budget}");
        }
        assert!(queue.is_empty() && actor.is_idle());
    }
}

/// One that waits inside a turn is let go when its message is done, whatever comes behind that.
#[test]
fn a_wait_ends_behind_a_restart() {
    fn again(actor: &Actor<u32>, turns: u32) {
        let own = actor.clone();
        let turn = move |_: &mut u32| turns.checked_sub(1).map_or((), |left| again(&own, left));
        actor.send(turn).unwrap();
    }
    let actor = restless().budget(Budget::UNLIMITED).spawn(0).unwrap();
    let left = in_turn(|| {
        actor.send(|_| quiet_panic("oops")).unwrap();
        let asked = actor.call(|_| ());
        again(&actor, 10_000);
        assert_eq!(asked.wait(), Ok(()));
        actor.len()
    });
    assert_eq!(left, 1, "it has not run what came behind its message");
    actor.idle().wait().unwrap();
}

/// The panic of a batch's hook restarts at once, and is not noted as if that came after a rest.
#[test]
fn a_restart_at_once_counts_from_when_it_was() {
    let clock = VirtualClock::new();
    let restarts = Restarts::at_most(1, 10 * SECOND).backoff(5 * SECOND, 5 * SECOND);
    let panics = Arc::new(AtomicBool::new(false));
    let hook = panics.clone();
    let n = Actor::<u32>::builder()
        .timers(Timers::by_hand(clock.clone()))
        .on_batch_end(move |_, _| {
            if hook.swap(false, SeqCst) {
                quiet_panic("hook");
            }
        })
        .panic_policy(PanicPolicy::restart_within(restarts, || 0))
        .spawn(0)
        .unwrap();
    for _ in 0..2 {
        panics.store(true, SeqCst);
        n.send(|_| ()).unwrap();
        assert!(n.is_idle(), "the restart came at once");
        assert_eq!(n.stop_cause(), None, "at {:?}", clock.now());
        clock.advance(12 * SECOND);
    }
}

#[test]
fn twice_no_rest_is_no_rest() {
    let clock = VirtualClock::new();
    let restarts = Restarts::at_most(100, 3600 * SECOND).backoff(Duration::ZERO, 10 * SECOND);
    let n = Actor::builder()
        .timers(Timers::by_hand(clock))
        .panic_policy(PanicPolicy::restart_within(restarts, || 0))
        .spawn(0)
        .unwrap();
    for panics in 1..=40 {
        n.send(|_| quiet_panic("again")).unwrap();
        assert!(n.is_idle(), "it rests after panic {panics}");
    }
}
