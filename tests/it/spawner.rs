//! Spawners: one configuration holds for all actors that are created from it, each on its own.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{
    Held, Tally, block_on, in_turn, must_end, on_small_stack, quiet_panic, size, until,
};
use turnwise::executor::DrainQueue;
use turnwise::time::{Every, Timers};
use turnwise::{
    Actor, ActorBuilder, AskError, Budget, BuildError, Context, EndCause, Handler, Limit, Overflow,
    PanicPolicy, Reason, Spawner, StopCause, System, ThreadPool, TurnPanic, Undelivered,
    VirtualClock,
};

/// Counts its drops.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

struct Dropped(Arc<AtomicUsize>);

impl Drops {
    fn one(&self) -> Dropped {
        Dropped(self.0.clone())
    }
    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Panics when it is dropped.
struct Bomb(Drops);

impl Drop for Bomb {
    fn drop(&mut self) {
        drop(self.0.one());
        quiet_panic("dropped");
    }
}

fn built<S: Send + 'static>(builder: ActorBuilder<S>) -> Spawner<S> {
    builder.build().expect("good limits")
}

fn plain() -> Spawner<u32> {
    built(Actor::builder())
}

fn panics(n: &Actor<u32>) {
    n.send(|_| quiet_panic("oops")).unwrap();
}

fn panicked() -> StopCause {
    StopCause::Panicked("oops".into())
}

#[test]
fn each_actor_has_a_state_and_a_mailbox_of_its_own() {
    let spawner = plain();
    let all: Vec<_> = (0..100).map(|n| spawner.spawn(n)).collect();
    for actor in &all {
        actor.send(|n| *n += 1000).unwrap();
    }
    all[1].close();
    all[2].stop();
    for (n, actor) in (0..).zip(&all) {
        let now = actor.with(|n| *n);
        match n {
            1 => assert_eq!(now, Err(AskError::from(Reason::Closed))),
            2 => assert_eq!(now, Err(AskError::from(Reason::Stopped(StopCause::Requested)))),
            _ => assert_eq!(now, Ok(1000 + n)),
        }
    }
    assert_ne!(all[3], all[4]);
}

#[test]
fn limits_are_checked_when_it_is_made() {
    let asked = |messages| Actor::<u32>::builder().capacity(messages, Overflow::Reject).build();
    assert_eq!(asked(0).unwrap_err(), BuildError::CapacityZero);
    assert!(matches!(asked(u32::MAX as usize).unwrap_err(), BuildError::CapacityTooLarge { .. }));
    assert!(asked(70_000).is_ok());
    let budget = Actor::<u32>::builder().budget(0).build();
    assert_eq!(budget.unwrap_err(), BuildError::BudgetZero);
}

#[test]
fn names_and_capacities_are_those_of_the_spawner() {
    let spawner = built(Actor::builder().name("account").capacity(7, Overflow::Reject));
    assert_eq!(spawner.name(), Some("account"));
    let actor = spawner.spawn(0_u32);
    assert_eq!((actor.name(), actor.snapshot().capacity), (Some("account"), Some(7)));
    // The same once it has an allocation of its own.
    assert_eq!(actor.ended().within(Duration::ZERO), Ok(false));
    panics(&actor);
    assert_eq!(actor.stop_cause(), Some(panicked()));
    assert_eq!((actor.name(), actor.snapshot().capacity), (Some("account"), Some(7)));
    let shown = format!("{spawner:?} {actor:?} {:?}", Actor::<u32>::builder().name("b"));
    for part in ["Spawner", "account", "capacity: Some(7)", "uses: 2", "ActorBuilder", "\"b\""] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn it_is_dropped_with_the_last_that_needs_it() {
    for first in ["spawner", "actors"] {
        let drops = Drops::default();
        let dropped = drops.one();
        let spawner = built(Actor::builder().on_panic(move |_| _ = &dropped));
        let also = spawner.clone();
        let (one, two) = (spawner.spawn(1_u32), also.spawn(2));
        // One of them has an allocation of its own.
        panics(&one);
        assert_eq!(one.stop_cause(), Some(panicked()));
        let weak = two.downgrade();
        if first == "spawner" {
            drop((spawner, also));
            assert_eq!(two.with(|n| *n), Ok(2));
            drop(one);
            drop(two);
            assert_eq!(drops.count(), 0, "a weak handle keeps it");
            drop(weak);
        } else {
            drop((one, two, weak, also));
            assert_eq!(drops.count(), 0);
            drop(spawner);
        }
        assert_eq!(drops.count(), 1, "the {first} first");
    }
}

#[test]
fn panics_of_hooks_that_are_dropped_concern_nobody() {
    let drops = Drops::default();
    let bomb = || Bomb(drops.clone());
    let (a, b, c, d) = (bomb(), bomb(), bomb(), bomb());
    let spawner = built(
        Actor::builder()
            .on_panic(move |_| _ = &a)
            .on_batch_end(move |_, _| _ = &b)
            .on_undelivered(move |_| _ = &c)
            .panic_policy(PanicPolicy::restart(move || {
                let _ = &d;
                0
            })),
    );
    let actor = spawner.spawn(1_u32);
    drop(spawner);
    assert_eq!(actor.with(|n| *n), Ok(1));
    drop(actor);
    assert_eq!(drops.count(), 4);
}

#[test]
fn the_policies_hold_for_each_by_itself() {
    let factory = AtomicUsize::new(100);
    let made = move || factory.fetch_add(1, SeqCst) as u32;
    for (policy, after) in [
        (PanicPolicy::Stop, None),
        (PanicPolicy::Resume, Some(7)),
        (PanicPolicy::restart(made), Some(100)),
        (PanicPolicy::restart(|| quiet_panic("no state")), None),
    ] {
        let shown = format!("{policy:?}");
        let spawner = built(Actor::builder().panic_policy(policy));
        let (one, two) = (spawner.spawn(1), spawner.spawn(2));
        one.send(|n| {
            *n = 7;
            quiet_panic("oops")
        })
        .unwrap();
        assert_eq!(one.with(|n| *n).ok(), after, "{shown}");
        assert_eq!(one.stop_cause(), after.is_none().then(panicked), "{shown}");
        assert_eq!((two.with(|n| *n), two.stop_cause()), (Ok(2), None), "{shown}");
    }
}

#[test]
fn a_restart_makes_a_state_each_time() {
    let count = Arc::new(AtomicUsize::new(0));
    let made = count.clone();
    let policy = PanicPolicy::restart(move || made.fetch_add(1, SeqCst) as u32 + 10);
    let spawner = built(Actor::builder().panic_policy(policy));
    let (one, two) = (spawner.spawn(1), spawner.spawn(2));
    for actor in [&one, &two, &one] {
        panics(actor);
    }
    assert_eq!((one.with(|n| *n), two.with(|n| *n)), (Ok(12), Ok(11)));
    assert_eq!(count.load(SeqCst), 3);
}

#[test]
fn the_panic_hook_is_told_each_time_and_may_panic() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let hook = move |panic: &TurnPanic| {
        tell.lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .send(panic.text().to_owned())
            .unwrap();
        quiet_panic("in the hook")
    };
    let builder = Actor::builder().on_panic(hook).panic_policy(PanicPolicy::Resume);
    let spawner = built(builder);
    let all: Vec<_> = (0..3).map(|n| spawner.spawn(n)).collect();
    all.iter().for_each(panics);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), ["oops"; 3]);
    assert!(all.iter().all(|actor| actor.with(|_| ()).is_ok()));
}

#[test]
fn the_end_hook_is_told_once_of_each() {
    let (tell, told) = mpsc::channel();
    let spawner = built(Actor::builder().on_end(move |n, cause| {
        tell.send((n, cause)).unwrap();
        quiet_panic("in the hook")
    }));
    let all: Vec<_> = (0..4_u32).map(|n| spawner.spawn(n)).collect();
    all[1].close();
    all[2].stop();
    panics(&all[3]);
    assert!(all[1].ended().within(Limit::Unlimited).unwrap());
    drop(all);
    let mut ended: Vec<_> = told.try_iter().collect();
    ended.sort_by_key(|(n, _)| *n);
    let causes = [
        (0, EndCause::Dropped),
        (1, EndCause::Closed),
        (2, EndCause::Stopped(StopCause::Requested)),
        (3, EndCause::Stopped(panicked())),
    ];
    assert_eq!(ended, causes);
    drop(spawner);
    assert_eq!(told.try_iter().count(), 0);
}

#[test]
fn batches_begin_and_end_for_each_by_itself() {
    #[derive(Default)]
    struct Rows {
        ends: u32,
        turns: u64,
        sum: u32,
    }
    let spawner = built(Actor::builder().on_batch_end(|rows: &mut Rows, turns| {
        rows.ends += 1;
        rows.turns += turns;
    }));
    let (one, two) = (spawner.spawn(Rows::default()), spawner.spawn(Rows::default()));
    one.send_many((1..=5).map(|n| move |rows: &mut Rows| rows.sum += n)).unwrap();
    let seen = |rows: &mut Rows| (rows.ends, rows.turns, rows.sum);
    assert_eq!(one.with(seen), Ok((1, 5, 15)));
    assert_eq!(two.with(seen), Ok((0, 0, 0)));
    assert_eq!(two.with(seen), Ok((1, 1, 0)));
}

#[test]
fn a_batch_hook_that_panics_is_a_turn_that_panics() {
    let hook = |n: &mut u32, _| {
        if *n == 2 {
            quiet_panic("oops")
        }
    };
    let spawner = built(Actor::builder().on_batch_end(hook));
    let (one, two) = (spawner.spawn(1), spawner.spawn(2));
    one.send(|n| *n += 1).unwrap();
    two.send(|n| *n += 1).unwrap();
    assert_eq!((one.stop_cause(), two.with(|n| *n)), (Some(panicked()), Ok(3)));
}

#[test]
fn what_is_not_delivered_goes_to_the_hook() {
    let (tell, told) = mpsc::channel();
    let queue = DrainQueue::new();
    let spawner = built(
        Actor::builder()
            .executor(queue.handle())
            .capacity(1, Overflow::DropNewest)
            .on_undelivered(move |message| tell.send(message).unwrap()),
    );
    let (one, two) = (spawner.spawn(0_u32), spawner.spawn(0));
    one.send(|n| *n += 1).unwrap();
    two.send(|n| *n += 10).unwrap();
    two.send(|n| *n += 100).unwrap(); // no room is left for it but that of the one that will run
    two.send(|n| *n += 1000).unwrap();
    one.stop();
    queue.run_until_idle();
    let mut elsewhere = 0;
    for message in told.try_iter() {
        let Undelivered::Closure(message) = message else { panic!("closures were sent") };
        message(&mut elsewhere);
    }
    let reply = two.call(|n| *n);
    queue.run_until_idle();
    let run = reply.wait().unwrap();
    assert_eq!(run + elsewhere, 1111, "each went one way");
    assert_eq!((run % 100, elsewhere % 10), (10, 1));
}

#[test]
fn capacities_are_exact_and_each_has_its_own() {
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle()).capacity(2, Overflow::Reject);
    let spawner = built(builder);
    let (one, two) = (spawner.spawn(0_u32), spawner.spawn(0));
    let fill = |actor: &Actor<u32>| (0..9).filter(|_| actor.send(|n| *n += 1).is_ok()).count();
    let room = fill(&one);
    assert_eq!(fill(&two), room);
    assert!((2..=3).contains(&room), "{room}");
    assert_eq!(one.send(|_| ()).unwrap_err().reason(), &Reason::Full);
    // Waits for room, which needs the first allocation of its own.
    let mut late = Box::pin(one.waiting().send(|n| *n += 100).into_future());
    assert!(crate::common::poll_once(&mut late).is_pending());
    queue.run_until_idle();
    assert!(block_on(late).is_ok());
    let reply = one.call(|n| *n);
    queue.run_until_idle();
    assert_eq!(reply.wait(), Ok(100 + room as u32));
}

#[test]
fn each_can_be_waited_for_and_stopped() {
    let spawner = built(Actor::builder().name("watched"));
    let all: Vec<_> = (0..4_u32).map(|n| spawner.spawn(n)).collect();
    let held: Vec<_> = all.iter().map(Held::hold).collect();
    let waiting: Vec<_> = all
        .iter()
        .cloned()
        .map(|actor| {
            thread::spawn(move || {
                actor.idle().wait().unwrap();
                actor.ended().within(Limit::Unlimited).unwrap()
            })
        })
        .collect();
    let mut idle: Vec<_> = all.iter().map(|actor| Box::pin(actor.idle())).collect();
    assert!(idle.iter_mut().all(|idle| crate::common::poll_once(idle).is_pending()));
    drop(held);
    idle.into_iter().for_each(|idle| _ = block_on(idle));
    all[0].close();
    all[1].stop();
    panics(&all[2]);
    all[3].close();
    block_on(all[3].ended()).unwrap();
    assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap()));
    assert_eq!(all[1].stop_cause(), Some(StopCause::Requested));
    assert_eq!(all[2].stop_cause(), Some(panicked()));
    assert_eq!(all[3].stop_cause(), None);
    assert!(all.iter().all(|actor| actor.name() == Some("watched")));
}

#[test]
fn limits_are_measured_on_its_clock() {
    let clock = VirtualClock::new();
    let actor = built(Actor::builder().clock(clock.clone())).spawn(0_u32);
    waits_by(actor, clock);
}

/// Checks that waiters for this actor wait by this clock.
fn waits_by(actor: Actor<u32>, clock: VirtualClock) {
    must_end(move || {
        let waiting = thread::spawn(move || actor.ended().within(Duration::from_secs(60)));
        clock.wait_for_sleepers(1);
        clock.advance(Duration::from_secs(60));
        assert_eq!(waiting.join().unwrap(), Ok(false));
    });
}

#[test]
fn its_executor_runs_them_and_may_go() {
    let queue = DrainQueue::new();
    let spawner = built(Actor::builder().executor(queue.handle()).budget(Budget::UNLIMITED));
    let all: Vec<_> = (0..10_u32).map(|n| spawner.spawn(n)).collect();
    all.iter().for_each(|actor| actor.send(|n| *n += 1).unwrap());
    assert_eq!((queue.len(), all[0].len()), (10, 1));
    queue.run_until_idle();
    let asked: Vec<_> = all.iter().map(|actor| actor.call(|n| *n)).collect();
    drop(queue);
    const GONE: Reason = Reason::Stopped(StopCause::ExecutorGone);
    for (actor, reply) in all.iter().zip(asked) {
        assert_eq!(reply.wait(), Err(AskError::from(GONE)));
        assert_eq!(actor.stop_cause(), Some(StopCause::ExecutorGone));
    }
    let late = spawner.spawn(0);
    assert_eq!(late.send(|_| ()).unwrap_err().reason(), &GONE);
}

#[test]
fn many_threads_make_use_and_drop_them() {
    must_end(|| {
        let (threads, each) = (4, size(2_000, 50_000));
        let drops = Drops::default();
        let sum = Arc::new(AtomicUsize::new(0));
        let (ended, dropped) = (sum.clone(), drops.one());
        let tally = Tally::default();
        let spawner = built(Actor::builder().on_end(move |n: usize, _| {
            let _ = &dropped;
            ended.fetch_add(n, SeqCst);
        }));
        // Half of them are dropped by another thread than the one that has created them.
        let (give, take) = mpsc::channel::<Actor<usize>>();
        let take = Arc::new(Mutex::new(take));
        thread::scope(|scope| {
            for _ in 0..threads {
                let (spawner, give, take) = (spawner.clone(), give.clone(), take.clone());
                let tally = &tally;
                scope.spawn(move || {
                    for n in 0..each {
                        let actor = spawner.spawn(0);
                        let token = tally.token();
                        let count = move |n: &mut usize| {
                            *n += 1;
                            token.handle();
                        };
                        actor.send(count).unwrap();
                        if n % 8 == 0 {
                            let _ = actor.ended().within(Duration::ZERO);
                        }
                        if n % 2 == 0 {
                            give.send(actor).unwrap();
                            drop(take.lock().unwrap().try_recv());
                        }
                    }
                });
            }
        });
        assert_eq!(drops.count(), 0);
        drop((spawner, give, take));
        tally.check_all_handled();
        assert_eq!((sum.load(SeqCst), drops.count()), (threads * each, 1));
    });
}

#[test]
fn the_last_two_go_at_the_same_time() {
    must_end(|| {
        for _ in 0..size(500, 20_000) {
            let drops = Drops::default();
            let dropped = drops.one();
            let spawner = built(Actor::builder().on_panic(move |_| _ = &dropped));
            let (one, two) = (spawner.spawn(1_u32), spawner.spawn(2));
            drop(spawner);
            let gate = Arc::new(crate::common::Gate::new(2));
            let theirs = gate.clone();
            let thread = thread::spawn(move || {
                theirs.pass();
                drop(two);
            });
            gate.pass();
            drop(one);
            thread.join().unwrap();
            assert_eq!(drops.count(), 1);
        }
    });
}

#[test]
fn on_a_pool_every_message_is_handled() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let spawner = built(Actor::builder().executor(pool.handle()));
        let tally = Tally::default();
        let all: Vec<_> = (0..size(1_000, 50_000)).map(|_| spawner.spawn(0_u32)).collect();
        for actor in all.iter().chain(&all) {
            let token = tally.token();
            let count = move |n: &mut u32| {
                *n += 1;
                token.handle();
            };
            actor.send(count).unwrap();
        }
        assert!(all.iter().all(|actor| actor.call(|n| *n).wait() == Ok(2)));
        tally.check_all_handled();
        drop(all);
        assert!(pool.shutdown(Duration::from_secs(60)).is_complete());
    });
}

// Systems.

#[test]
fn a_system_ends_what_it_made_from_a_spawner() {
    let (tell, told) = mpsc::channel();
    let spawner = built(Actor::builder().on_end(move |n, cause| {
        tell.send((n, cause)).unwrap();
    }));
    let system = System::new();
    let (one, two) =
        (system.spawn_from(&spawner, 1_u32).unwrap(), system.spawn_from(&spawner, 2).unwrap());
    let free = spawner.spawn(3);
    assert_eq!(system.actors(), 2);
    drop(one);
    assert_eq!(system.actors(), 1);
    let report = system.shutdown(Duration::from_secs(60)).unwrap();
    assert!(report.is_complete() && report.ended == 1, "{report:?}");
    assert!(two.send(|_| ()).is_err() && free.send(|_| ()).is_ok());
    assert_eq!(
        told.try_iter().collect::<Vec<_>>(),
        [(1, EndCause::Dropped), (2, EndCause::Closed)]
    );
    assert_eq!(system.spawn_from(&spawner, 4).unwrap_err(), BuildError::ShutDown);
}

#[test]
fn a_systems_clock_is_for_those_without_one() {
    let (theirs, own) = (VirtualClock::new(), VirtualClock::new());
    let system = System::with_clock(theirs.clone());
    let without = system.spawn_from(&plain(), 0).unwrap();
    let with = built(Actor::builder().clock(own.clone()));
    let with = system.spawn_from(&with, 0_u32).unwrap();
    for (actor, clock) in [(without, theirs), (with, own)] {
        waits_by(actor, clock);
    }
}

#[test]
fn a_system_that_is_dropped_stops_them() {
    let drops = Drops::default();
    let spawner = built(Actor::<Dropped>::builder().name("member"));
    let system = System::new();
    let actor = system.spawn_from(&spawner, drops.one()).unwrap();
    assert_eq!(actor.name(), Some("member"));
    drop(system);
    assert_eq!((actor.stop_cause(), drops.count()), (Some(StopCause::Requested), 1));
}

// Dropping the last handle of an idle actor, which has a fast path: `Strong::last_gone`.

/// A state that runs a closure when it is dropped.
struct Then(Option<Box<dyn FnOnce() + Send>>);

impl Then {
    fn new(f: impl FnOnce() + Send + 'static) -> Self {
        Then(Some(Box::new(f)))
    }
}

impl Drop for Then {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

type Maker<S> = Box<dyn Fn(S) -> Actor<S> + Send>;

/// The ways to create an actor that is dropped without further effect.
fn makers<S: Send + 'static>() -> Vec<(&'static str, Maker<S>)> {
    let spawner = built(Actor::builder().name("of a spawner"));
    let watched = spawner.clone();
    vec![
        ("plain", Box::new(Actor::new)),
        ("built", Box::new(|state| Actor::builder().name("built").spawn(state).unwrap())),
        ("of a spawner", Box::new(move |state| spawner.spawn(state))),
        (
            "watched",
            Box::new(move |state| {
                let actor = watched.spawn(state);
                assert_eq!(actor.ended().within(Duration::ZERO), Ok(false));
                assert!(crate::common::poll_once(&mut Box::pin(actor.ended())).is_pending());
                actor
            }),
        ),
    ]
}

#[test]
fn a_dropped_state_is_dropped_once_wherever_it_is() {
    for (name, make) in makers() {
        let drops = Drops::default();
        drop(make(drops.one()));
        assert_eq!(drops.count(), 1, "{name}");
        let actor = make(drops.one());
        let (also, weak) = (actor.clone(), actor.downgrade());
        actor.send(|_| ()).unwrap();
        drop(actor);
        assert_eq!(drops.count(), 1, "{name}, with a clone");
        drop(also);
        assert_eq!(drops.count(), 2, "{name}, with a weak handle");
        assert!(weak.upgrade().is_none());
        let actor = make(drops.one());
        in_turn(|| {
            drop(actor);
            assert_eq!(drops.count(), 2, "{name}: the drop is for after the turn");
        });
        assert_eq!(drops.count(), 3, "{name}, in a turn");
        let closed = make(drops.one());
        closed.close();
        assert_eq!(drops.count(), 4, "{name}, closed");
        drop(closed);
        assert_eq!(drops.count(), 4, "{name}: once");
    }
}

#[test]
fn what_a_dropped_state_sends_runs_after_it() {
    for (name, make) in makers() {
        let log = Actor::new(Vec::new());
        let theirs = log.clone();
        drop(make(Then::new(move || {
            theirs.send(|log| log.push("sent")).unwrap();
            assert_eq!(theirs.len(), 1, "{name}: a turn ran inside of the drop");
            let waited = theirs.with(|log| log.len());
            assert_eq!(waited, Ok(1), "{name}: one may wait in there");
        })));
        assert_eq!(log.with(|log| log.clone()), Ok(vec!["sent"]), "{name}");
    }
}

#[test]
fn a_state_that_panics_in_its_drop_hurts_nobody() {
    for (name, make) in makers() {
        let drops = Drops::default();
        let spawner = built(Actor::builder().name("neighbour"));
        let neighbour = spawner.spawn(1_u32);
        drop(make(Bomb(drops.clone())));
        assert_eq!(drops.count(), 1, "{name}");
        // This thread is inside no turn.
        let here = thread::current().id();
        assert_eq!(neighbour.with(|_| thread::current().id()), Ok(here));
        neighbour.send(|n| *n += 1).unwrap();
        assert_eq!(neighbour.with(|n| *n), Ok(2), "{name}");
    }
}

#[test]
fn states_that_hold_the_next_go_in_constant_stack() {
    on_small_stack(|| {
        struct Link(#[expect(dead_code)] Option<Actor<Link>>, #[expect(dead_code)] Dropped);
        let len = size(20_000, 300_000);
        for (name, make) in makers() {
            let drops = Drops::default();
            let first = (0..len).fold(None, |next, _| Some(make(Link(next, drops.one()))));
            drop(first);
            // After a millisecond, others may continue.
            until(|| drops.count() == len);
            assert_eq!(drops.count(), len, "{name}");
        }
    });
}

#[test]
fn hooks_that_hold_the_next_go_in_constant_stack() {
    on_small_stack(|| {
        let len = size(5_000, 100_000);
        let drops = Drops::default();
        // Each spawner is kept by its one actor alone, and keeps the next one.
        let mut next: Option<Actor<u32>> = None;
        for _ in 0..len {
            let (held, dropped) = (next.take(), drops.one());
            let spawner = built(Actor::builder().on_panic(move |_| _ = (&held, &dropped)));
            next = Some(spawner.spawn(0));
        }
        drop(next);
        assert_eq!(drops.count(), len);
    });
}

/// The content of the hook of a chain's next link.
#[allow(dead_code, reason = "it is held, and dropped")]
enum Link {
    Spawner(Spawner<u32>),
    Actor(Actor<u32>),
}

#[test]
fn hooks_that_hold_the_next_spawner_go_in_constant_stack() {
    let links: [fn(Spawner<u32>) -> Link; 2] =
        [Link::Spawner, |spawner| Link::Actor(spawner.spawn(0))];
    for mixed in [false, true] {
        on_small_stack(move || {
            let len = size(5_000, 100_000);
            let drops = Drops::default();
            let mut next: Option<Link> = None;
            for n in 0..len {
                let (held, dropped) = (Mutex::new(next.take()), drops.one());
                let spawner = built(Actor::builder().on_panic(move |_| _ = (&held, &dropped)));
                next = Some(links[if mixed { n % 2 } else { 0 }](spawner));
            }
            drop(next);
            assert_eq!(drops.count(), len, "mixed: {mixed}");
        });
    }
}

#[test]
fn panics_of_a_builders_hooks_concern_nobody() {
    let drops = Drops::default();
    let (a, b, c) = (Bomb(drops.clone()), Bomb(drops.clone()), Bomb(drops.clone()));
    let builder = Actor::builder();
    let builder = builder.on_panic(move |_| _ = &a).on_batch_end(move |_, _| _ = &b);
    drop(builder.on_undelivered(move |_| _ = &c).spawn(0).unwrap());
    assert_eq!(drops.count(), 3);
}

#[test]
fn an_executors_state_is_dropped_by_it() {
    let drops = Drops::default();
    let queue = DrainQueue::new();
    let spawner = built(Actor::builder().executor(queue.handle()));
    drop(spawner.spawn(drops.one()));
    assert_eq!((drops.count(), queue.len()), (0, 1));
    queue.run_until_idle();
    assert_eq!(drops.count(), 1);
    // An actor whose state has no drop leaves nothing to run.
    let spawner = built(Actor::builder().executor(queue.handle()));
    drop(spawner.spawn(0_u32));
    assert_eq!(queue.len(), 0);
}

#[test]
fn the_last_handle_goes_as_a_weak_one_does() {
    must_end(|| {
        let drops = Drops::default();
        let rounds = size(2_000, 20_000);
        let spawner = built(Actor::builder().name("raced"));
        for round in 0..rounds {
            let state = drops.one();
            let actor = if round % 2 == 0 { Actor::new(state) } else { spawner.spawn(state) };
            let weak = actor.downgrade();
            let gate = Arc::new(crate::common::Gate::new(2));
            let theirs = gate.clone();
            let thread = thread::spawn(move || {
                theirs.pass();
                match round % 3 {
                    0 => drop(weak),
                    1 => drop(weak.upgrade()),
                    _ => {
                        let sent = weak.upgrade().map(|actor| actor.send(|_| ()));
                        assert!(sent.is_none_or(|sent| sent.is_ok()));
                    }
                }
            });
            gate.pass();
            drop(actor);
            thread.join().unwrap();
            until(|| drops.count() > round);
            assert_eq!(drops.count(), round + 1);
        }
    });
}

// Delayed messages.

const HOUR: Duration = Duration::from_secs(3600);

/// The ways to set the timers of actors.
type Timed = fn(ActorBuilder<u32>, &VirtualClock, &Timers) -> ActorBuilder<u32>;

#[test]
fn delayed_messages_of_its_timers() {
    let (clock, system) = (VirtualClock::new(), System::new());
    let timers = Timers::by_hand(clock.clone());
    let spawner = built(Actor::builder().clock(VirtualClock::new()).timers(timers.clone()));
    let all =
        [spawner.spawn(0), spawner.spawn(0), system.spawn_from(&spawner, 0).expect("it is open")];
    waits_by(spawner.spawn(0), clock.clone());
    for (n, actor) in (1..).zip(&all) {
        actor.posted().send_after(n * HOUR, move |sum| *sum += n).forget();
    }
    let ticking = all[0].posted().tell_every(Every::step(2 * HOUR), Tick).unwrap();
    let cancelled = all[1].posted().tell_after(HOUR, Tick);
    assert!(cancelled.cancel());
    clock.advance(2 * HOUR);
    assert_eq!(timers.run_due(), 3, "two messages and a tick");
    all.iter().for_each(|actor| actor.idle().wait().unwrap());
    let sums = || all.each_ref().map(|actor| actor.with(|sum| *sum).unwrap());
    assert_eq!(sums(), [101, 2, 0]);
    clock.advance(HOUR);
    assert_eq!((timers.run_due(), timers.len()), (1, 1));
    all[2].idle().wait().unwrap();
    assert_eq!(sums(), [101, 2, 3]);
    // An actor that has ended gets no message, and keeps no service.
    all[0].close();
    clock.advance(HOUR);
    timers.run_due();
    assert!(!ticking.is_armed() && timers.is_empty());
    let late = all[1].posted().send_after(HOUR, |_| unreachable!());
    drop((all, system, spawner));
    clock.advance(HOUR);
    assert_eq!((timers.run_due(), late.is_armed()), (1, false));
    assert_eq!(timers.undelivered(), 2);
}

#[derive(Clone)]
struct Tick;

impl Handler<Tick> for u32 {
    type Reply = ();

    fn handle(&mut self, _: Tick, _: &mut Context<'_, Self>) {
        *self += 100;
    }
}

/// The timers that were set last, or those of the clock that was; the same for all its actors.
#[test]
fn delayed_messages_of_its_clock() {
    must_end(|| {
        let by_clock: [Timed; 2] = [
            |builder, clock, _| builder.clock(clock.clone()),
            |builder, clock, timers| builder.timers(timers.clone()).clock(clock.clone()),
        ];
        for timed in by_clock {
            let clock = VirtualClock::new();
            let other = Timers::by_hand(VirtualClock::new());
            let spawner = built(timed(Actor::builder(), &clock, &other));
            let (one, two) = (spawner.spawn(0), spawner.spawn(0));
            one.posted().send_after(HOUR, |sum| *sum += 1).forget();
            two.posted().send_after(HOUR, |sum| *sum += 1).forget();
            assert!(other.is_empty());
            clock.wait_for_sleepers(1);
            assert_eq!(clock.sleepers(), 1, "one service for both");
            clock.advance(HOUR);
            until(|| [&one, &two].iter().all(|actor| actor.with(|sum| *sum) == Ok(1)));
        }
    });
}
