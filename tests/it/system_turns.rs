//! A system that is shut down from anywhere: inside turns, hooks, wakers and drops, by several at
//! once. A wait that could never end is refused. Tests that could hang run in a process of their
//! own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::in_child;
use crate::common::{
    Gate, Held, Tally, block_on, must_end, on_small_stack, poll_once, size, until,
};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, Clock, Limit, MonotonicClock, Reason, Reply, ShutdownReport, System, ThreadPool,
    blocking,
};

const PATIENCE: Duration = Duration::from_secs(40);

fn pool(threads: usize) -> ThreadPool {
    ThreadPool::builder().threads(threads).build().unwrap()
}

/// A pool of one. A member is inside a turn that waits off the pool's place; a turn on that pool of
/// an actor that is no member has it answered by a third actor on the pool, and shuts the system
/// down: the member ends only if the third one runs meanwhile.
fn shut_down_on_a_pool_of_one(limit: Limit) {
    let pool = pool(1);
    let system = System::new();
    let member = system.spawn(Actor::builder().executor(pool.handle()), ()).unwrap();
    let (answers, answer) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel::<()>();
    member
        .send(move |()| {
            begun.send(()).unwrap();
            let _ = blocking(|| answer.recv());
        })
        .unwrap();
    begins.recv().unwrap();
    let third = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
    let first = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
    let (tell, told) = mpsc::channel();
    first
        .send(move |()| {
            third.send(move |()| _ = answers.send(())).unwrap();
            let begun = Instant::now();
            tell.send((system.shutdown(limit).unwrap(), begun.elapsed())).unwrap();
        })
        .unwrap();
    let (report, took) = told.recv().unwrap();
    assert_eq!((report.ended, report.is_complete()), (1, true), "{report}");
    if let Limit::Within(limit) = limit {
        assert!(took < limit / 2, "it burnt {took:?} of its limit");
    }
    drop((member, first));
    assert!(pool.shutdown(PATIENCE).is_complete());
}

#[test]
fn a_shutdown_in_a_turn_leaves_its_place() {
    in_child("a_shutdown_in_a_turn_leaves_its_place", PATIENCE, || {
        shut_down_on_a_pool_of_one(Limit::Within(Duration::from_secs(10)));
        shut_down_on_a_pool_of_one(Limit::Unlimited);
    });
}

type Outcome = Result<ShutdownReport, Reason>;

/// Each of these actors shuts a system down in a turn; all are inside before the first does.
/// Returns the outcomes, in order.
fn shut_down_in_turns(calls: Vec<(Actor<()>, System)>, limit: Limit) -> Vec<Outcome> {
    let all_inside = Arc::new(Barrier::new(calls.len()));
    let asked = calls.into_iter().map(|(actor, system)| {
        let all_inside = all_inside.clone();
        let turn = move |(): &mut ()| {
            blocking(|| all_inside.wait());
            system.shutdown(limit)
        };
        thread::spawn(move || actor.call(turn).wait().unwrap())
    });
    let asked: Vec<_> = asked.collect();
    asked.into_iter().map(|asked| asked.join().unwrap()).collect()
}

fn named(system: &System, name: &str, pool: Option<&ThreadPool>) -> Actor<()> {
    let builder = Actor::builder().name(name);
    match pool {
        Some(pool) => system.spawn(builder.executor(pool.handle()), ()).unwrap(),
        None => system.spawn(builder, ()).unwrap(),
    }
}

/// Returns the circle that was refused.
fn circle(outcome: &Outcome) -> &[String] {
    let Err(Reason::Deadlock(cycle)) = outcome else { panic!("{outcome:?}") };
    cycle.actors()
}

#[test]
fn members_that_shut_their_system_down_are_refused_at_once() {
    in_child("members_that_shut_their_system_down_are_refused_at_once", PATIENCE, || {
        let pools = [Some(pool(2)), Some(pool(1)), None];
        let limits = [Limit::Unlimited, Limit::Within(2 * PATIENCE), Limit::Immediate];
        for (pool, limit) in pools.iter().zip(limits) {
            let system = System::new();
            let names = ["a", "b"];
            let actors = names.map(|name| named(&system, name, pool.as_ref()));
            let third = system.actor(()).unwrap();
            let calls = actors.iter().map(|actor| (actor.clone(), system.clone())).collect();
            for (outcome, own) in shut_down_in_turns(calls, limit).iter().zip(names) {
                assert_eq!(circle(outcome), [own]);
            }
            assert!(!system.is_shut_down() && !third.is_closed(), "nothing has happened");
            let after = system.shutdown(Limit::Unlimited).unwrap();
            assert_eq!((after.ended, after.is_complete()), (3, true), "{after}");
            assert!(actors.iter().all(|actor| actor.stop_cause().is_none()));
        }
    });
}

#[test]
fn many_members_that_shut_their_system_down_are_refused() {
    in_child("many_members_that_shut_their_system_down_are_refused", PATIENCE, || {
        for _ in 0..size(5, 50) {
            let system = System::new();
            let actors: Vec<_> = (0..16).map(|_| system.actor(()).unwrap()).collect();
            let calls = actors.iter().map(|actor| (actor.clone(), system.clone())).collect();
            let outcomes = shut_down_in_turns(calls, Limit::Unlimited);
            assert!(outcomes.iter().all(|outcome| circle(outcome).len() == 1));
            assert_eq!(system.shutdown(Limit::Unlimited).unwrap().ended, 16);
        }
    });
}

#[test]
fn a_member_below_another_turn_is_refused_too() {
    in_child("a_member_below_another_turn_is_refused_too", PATIENCE, || {
        let (system, other) = (System::new(), System::new());
        let (member, stranger) = (named(&system, "member", None), named(&other, "stranger", None));
        let shut_down = system.clone();
        let outcome = member.with(|()| stranger.with(|()| shut_down.shutdown(Limit::Unlimited)));
        assert_eq!(circle(&outcome.unwrap().unwrap()), ["stranger", "member"]);
        assert!(!system.is_shut_down());
    });
}

#[test]
fn a_member_and_another_thread_may_shut_down() {
    in_child("a_member_and_another_thread_may_shut_down", PATIENCE, || {
        for round in 0..size(200, 2_000) {
            let pool = (round % 2 == 0).then(|| pool(1));
            let system = System::new();
            let member = named(&system, "member", pool.as_ref());
            let gate = Gate::new(2);
            let report = thread::scope(|scope| {
                let (inside, turn) = (system.clone(), &gate);
                let asking = scope.spawn(move || {
                    turn.pass();
                    let turn = move |(): &mut ()| inside.shutdown(Limit::Unlimited);
                    // The request may be refused.
                    if let Ok(outcome) = member.call(turn).wait() {
                        assert_eq!(circle(&outcome), ["member"]);
                    }
                });
                gate.pass();
                let report = system.shutdown(Limit::Unlimited).unwrap();
                asking.join().unwrap();
                report
            });
            assert!(report.is_complete(), "who is in no turn waits for all: {report}");
        }
    });
}

#[test]
fn of_members_that_shut_each_others_systems_down_one_is_refused() {
    in_child("of_members_that_shut_each_others_systems_down_one_is_refused", PATIENCE, || {
        for (count, round) in (0..size(20, 200)).flat_map(|round| [(2, round), (3, round)]) {
            let pool = (round % 2 == 0).then(|| pool(1));
            let systems: Vec<_> = (0..count).map(|_| System::new()).collect();
            let names = ["a", "b", "c"];
            let call = |i: usize| {
                let actor = named(&systems[i], names[i], pool.as_ref().filter(|_| i == 0));
                (actor, systems[(i + 1) % count].clone())
            };
            let outcomes = shut_down_in_turns((0..count).map(call).collect(), Limit::Unlimited);
            let (complete, refused): (Vec<_>, Vec<_>) =
                outcomes.into_iter().partition(Result::is_ok);
            assert_eq!((refused.len(), circle(&refused[0]).len()), (1, count));
            let ended = |outcome: &Outcome| outcome.as_ref().is_ok_and(|report| report.ended == 1);
            assert!(complete.iter().all(ended), "{complete:?}");
            let mut again = systems.iter().map(|system| system.shutdown(Limit::Unlimited));
            assert!(again.all(|report| report.is_ok_and(|report| report.is_complete())));
        }
    });
}

#[test]
fn a_shutdown_and_a_call_that_wait_for_each_other_are_found() {
    in_child("a_shutdown_and_a_call_that_wait_for_each_other_are_found", PATIENCE, || {
        let hour = Duration::from_secs(3600);
        for shuts_first in [true, false] {
            let clock = Eventful::new(|| ());
            let system = System::with_clock(clock.clone());
            let spawn = |name: &str| Actor::builder().name(name).clock(clock.clone());
            let member = system.spawn(spawn("member"), ()).unwrap();
            let other = spawn("other").spawn(()).unwrap();
            let (begun, begins) = mpsc::channel();
            let [(go, wait), (call, called)] = [(); 2].map(|()| mpsc::channel::<()>());
            let calls = thread::spawn({
                let (other, begun) = (other.clone(), begun.clone());
                let turn = move |(): &mut ()| {
                    begun.send(()).unwrap();
                    let _ = called.recv();
                    other.call(|()| ()).within(2 * hour).is_ok()
                };
                move || member.call(turn).wait().unwrap()
            });
            let shuts = thread::spawn({
                let shut_down = system.clone();
                let turn = move |(): &mut ()| {
                    begun.send(()).unwrap();
                    let _ = wait.recv();
                    shut_down.shutdown(hour)
                };
                move || other.call(turn).wait().unwrap()
            });
            begins.recv().unwrap();
            begins.recv().unwrap();
            let (first, second) = if shuts_first { (go, call) } else { (call, go) };
            drop(first);
            // The first one sleeps now; the shutdown has the shorter limit, and is refused.
            until(|| clock.parks.load(SeqCst) > 0);
            drop(second);
            assert_eq!(circle(&shuts.join().unwrap()), ["other", "member"]);
            assert!(calls.join().unwrap(), "it is answered when the other turn is over");
            assert!(system.shutdown(Limit::Unlimited).unwrap().is_complete());
        }
    });
}

#[test]
fn a_call_that_is_gone_holds_none() {
    in_child("a_call_that_is_gone_holds_none", PATIENCE, || {
        let clock = Eventful::new(|| ());
        let (mine, theirs) = (System::with_clock(clock.clone()), System::new());
        let me = Actor::builder().name("me").clock(MonotonicClock);
        let (me, they) = (mine.spawn(me, ()).unwrap(), named(&theirs, "they", None));
        let (begun, begins) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let later = thread::spawn(move || {
            let turn = move |(): &mut ()| {
                begun.send(()).unwrap();
                let _ = wait.recv();
                mine.shutdown(Duration::from_secs(3600)).unwrap()
            };
            they.call(turn).wait().unwrap()
        });
        begins.recv().unwrap();
        let (tell, told) = mpsc::channel();
        let (leave, stay) = mpsc::channel::<()>();
        let sooner = thread::spawn(move || {
            let turn = move |(): &mut ()| {
                tell.send(theirs.shutdown(Duration::ZERO).unwrap()).unwrap();
                // The call is over, the turn is not.
                let _ = stay.recv();
            };
            me.call(turn).wait().unwrap();
        });
        assert_eq!(told.recv().unwrap().running, ["they"]);
        drop(go);
        until(|| clock.parks.load(SeqCst) == 1 || later.is_finished());
        drop(leave);
        let report = later.join().unwrap();
        assert_eq!((report.ended, report.is_complete()), (1, true), "it was waited for: {report}");
        sooner.join().unwrap();
    });
}

#[test]
fn a_ring_is_seen_though_another_call_has_gone() {
    in_child("a_ring_is_seen_though_another_call_has_gone", PATIENCE, || {
        let clock = Eventful::new(|| ());
        let systems = [(); 4].map(|()| System::with_clock(clock.clone()));
        // Each is inside a turn, and then shuts the next one's system down.
        let turns = [0, 1, 2, 3].map(|i: usize| {
            let actor = Actor::builder().clock(MonotonicClock);
            let actor = systems[i].spawn(actor, ()).unwrap();
            let next = systems[(i + 1) % 4].clone();
            let (begun, begins) = mpsc::channel();
            let (go, wait) = mpsc::channel::<()>();
            let turn = move |(): &mut ()| {
                begun.send(()).unwrap();
                let _ = wait.recv();
                next.shutdown(Duration::from_secs(3600))
            };
            let thread = thread::spawn(move || actor.call(turn).wait().unwrap());
            begins.recv().unwrap();
            (go, thread)
        });
        let mut calls = Vec::new();
        for (i, (go, thread)) in turns.into_iter().enumerate() {
            if i == 3 {
                // An unrelated shutdown comes and goes before the ring is closed.
                let other = Actor::new(()).with(|()| System::new().shutdown(Limit::Unlimited));
                assert_eq!(other.unwrap(), Ok(ShutdownReport::default()));
            }
            drop(go);
            calls.push(thread);
            until(|| i == 3 || clock.parks.load(SeqCst) > i);
        }
        let outcomes: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        let refused: Vec<_> = outcomes.iter().filter(|outcome| outcome.is_err()).collect();
        assert_eq!((refused.len(), circle(refused[0]).len()), (1, 4), "{outcomes:?}");
        assert!(systems.iter().all(|system| system.shutdown(Limit::Unlimited).is_ok()));
    });
}

#[test]
fn a_future_is_refused_in_a_turn_of_a_member() {
    in_child("a_future_is_refused_in_a_turn_of_a_member", PATIENCE, || {
        let system = System::new();
        let inside = Arc::new(Barrier::new(2));
        let asked = [true, false].map(|limited| {
            let actor = named(&system, "own", None);
            let (system, inside) = (system.clone(), inside.clone());
            let turn = move |(): &mut ()| {
                inside.wait();
                match limited {
                    true => block_on(system.shutdown_async().within_async(PATIENCE)),
                    false => block_on(system.shutdown_async()),
                }
            };
            thread::spawn(move || actor.call(turn).wait().unwrap())
        });
        for asked in asked {
            assert_eq!(circle(&asked.join().unwrap()), ["own"]);
        }
        assert!(!system.is_shut_down());
        // The same future goes on outside of the turn.
        let member = named(&system, "own", None);
        let mut closing = Box::pin(system.shutdown_async());
        let refused = member.with(|()| poll_once(&mut closing)).unwrap();
        let Poll::Ready(refused) = refused else { panic!("it waits for itself") };
        assert_eq!(circle(&refused), ["own"]);
        assert_eq!(block_on(closing).unwrap().ended, 1);
    });
}

/// Shuts its system down when it is dropped.
struct ShutsDown(Option<System>, mpsc::Sender<Outcome>);

impl Drop for ShutsDown {
    fn drop(&mut self) {
        if let Some(system) = self.0.take() {
            self.1.send(system.shutdown(Limit::Unlimited)).unwrap();
        }
    }
}

#[test]
fn the_drop_of_a_members_state_is_refused() {
    in_child("the_drop_of_a_members_state_is_refused", PATIENCE, || {
        for pool in [None, Some(pool(1))] {
            let system = System::new();
            let (tx, rx) = mpsc::channel();
            let state = ShutsDown(Some(system.clone()), tx);
            let builder = Actor::builder().name("own");
            let actor = match &pool {
                Some(pool) => system.spawn(builder.executor(pool.handle()), state),
                None => system.spawn(builder, state),
            };
            let others = [named(&system, "other", None), named(&system, "other", pool.as_ref())];
            // By a shutdown, or by itself.
            let actor = actor.unwrap();
            if pool.is_some() {
                drop(actor);
            } else {
                assert!(system.shutdown(Limit::Unlimited).unwrap().is_complete());
            }
            assert_eq!(circle(&rx.recv().unwrap()), ["own"]);
            assert_eq!(others.iter().all(Actor::is_closed), pool.is_none());
        }
    });
}

#[test]
fn hooks_of_a_member_are_refused() {
    in_child("hooks_of_a_member_are_refused", PATIENCE, || {
        for pool in [None, Some(pool(1))] {
            let system = System::new();
            let (tx, rx) = mpsc::channel();
            let shut_down = |at: &'static str| {
                let (system, tx) = (system.clone(), tx.clone());
                move || tx.send((at, system.shutdown(Limit::Unlimited))).unwrap()
            };
            let (ends, undelivered) = (shut_down("end"), shut_down("undelivered"));
            let builder = Actor::builder()
                .name("own")
                .on_end(move |(), _| ends())
                .on_undelivered(move |_| undelivered());
            let actor = match &pool {
                Some(pool) => system.spawn(builder.executor(pool.handle()), ()),
                None => system.spawn(builder, ()),
            };
            let actor = actor.unwrap();
            let held = Held::hold(&actor);
            actor.send(|()| unreachable!("given back")).unwrap();
            actor.stop();
            held.let_go();
            for at in ["undelivered", "end"] {
                let (told, outcome) = rx.recv().unwrap();
                assert_eq!((told, circle(&outcome)), (at, &["own".to_owned()][..]));
            }
            assert!(system.shutdown(Limit::Unlimited).unwrap().is_complete());
        }
    });
}

/// A waker that shuts a system down.
struct Shuts(System, mpsc::Sender<Outcome>);

impl Wake for Shuts {
    fn wake(self: Arc<Self>) {
        self.1.send(self.0.shutdown(Limit::Unlimited)).unwrap();
    }
}

#[test]
fn a_waker_may_shut_down_what_it_is_not_inside_of() {
    in_child("a_waker_may_shut_down_what_it_is_not_inside_of", PATIENCE, || {
        let queue = DrainQueue::new();
        let [system, another] = [System::new(), System::new()];
        let member = Actor::builder().name("own").executor(queue.handle());
        let member = system.spawn(member, 7).unwrap();
        let other = named(&another, "other", Some(&pool(1)));
        // The waker of an answer, inside the turn that answers.
        for (shut_down, own) in [(&system, true), (&another, false)] {
            let (tx, rx) = mpsc::channel();
            let waker = Arc::new(Shuts(shut_down.clone(), tx)).into();
            let mut cx = Context::from_waker(&waker);
            let mut reply: Reply<i32> = member.call(|n| *n);
            assert!(pin!(&mut reply).poll(&mut cx).is_pending());
            queue.run_until_idle();
            let outcome = rx.recv().unwrap();
            match own {
                true => assert_eq!(circle(&outcome), ["own"]),
                false => assert_eq!(outcome.unwrap().ended, 1),
            }
            assert_eq!(reply.wait(), Ok(7));
        }
        assert!(!member.is_closed() && other.is_closed());

        // The waker of the end of a system, inside the end of its last member, which has gone.
        let (tx, rx) = mpsc::channel();
        let waker = Arc::new(Shuts(system.clone(), tx)).into();
        let mut cx = Context::from_waker(&waker);
        let mut closing = Box::pin(system.shutdown_async());
        assert!(closing.as_mut().poll(&mut cx).is_pending());
        queue.run_until_idle();
        assert_eq!(rx.recv().unwrap(), Ok(ShutdownReport::default()));
        assert!(closing.as_mut().poll(&mut cx).is_ready());
    });
}

/// A clock that runs an action at a chosen call.
struct Eventful {
    calls: AtomicUsize,
    parks: AtomicUsize,
    at: AtomicUsize,
    event: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Eventful {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Eventful").finish_non_exhaustive()
    }
}

impl Eventful {
    fn new(event: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let (calls, parks) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Eventful {
            calls,
            parks,
            at: AtomicUsize::new(usize::MAX),
            event: Box::new(event),
        })
    }

    /// Runs the action at this number of calls from now on.
    fn at(&self, calls: usize) {
        self.at.store(self.calls.load(SeqCst) + calls, SeqCst);
    }
}

impl Clock for Eventful {
    fn now(&self) -> Duration {
        if self.calls.fetch_add(1, SeqCst) == self.at.load(SeqCst) {
            (self.event)();
        }
        MonotonicClock.now()
    }

    /// Wake-ups never come by themselves, so that a missed one shows.
    fn park_until(&self, _: Duration) {
        self.parks.fetch_add(1, SeqCst);
        thread::park();
    }
}

#[test]
fn a_clock_that_panics_leaves_a_system_that_ends() {
    in_child("a_clock_that_panics_leaves_a_system_that_ends", PATIENCE, || {
        for (at, inside) in (0..4).flat_map(|at| [(at, true), (at, false)]) {
            let clock = Eventful::new(|| crate::common::quiet_panic("planned"));
            let system = System::with_clock(clock.clone());
            let (busy, idle) = (system.actor(0).unwrap(), system.actor(0).unwrap());
            let boss = Actor::new(());
            let held = Held::hold(&busy);
            clock.at(at);
            let shut_down = || {
                let shut_down = || system.shutdown(Duration::from_secs(3600));
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(shut_down))
            };
            let outcome = match inside {
                true => boss.with(|()| shut_down()).unwrap(),
                false => shut_down(),
            };
            assert!(outcome.is_err(), "the clock's panic is the caller's");
            // At the first call nothing has happened.
            assert_eq!((system.is_shut_down(), idle.is_closed()), (at > 0, at > 0));
            let (again, done) = (system.clone(), Arc::new(AtomicBool::new(false)));
            let told = done.clone();
            let shutting = thread::spawn(move || {
                let report = again.shutdown(Limit::Unlimited).unwrap();
                told.store(true, SeqCst);
                report
            });
            until(|| busy.is_closed());
            assert!(!done.load(SeqCst));
            held.let_go();
            assert!(shutting.join().unwrap().is_complete());
        }
    });
}

#[test]
fn an_end_after_the_look_is_not_missed() {
    in_child("an_end_after_the_look_is_not_missed", PATIENCE, || {
        // The last member ends while the clock is read, which is after the look and before the
        // sleep.
        for at in 1..4 {
            let system = Arc::new(std::sync::OnceLock::<System>::new());
            let (go, wait) = mpsc::channel::<()>();
            let go = std::sync::Mutex::new(Some(go));
            let watched = system.clone();
            let clock = Eventful::new(move || {
                go.lock().unwrap().take();
                until(|| watched.get().unwrap().actors() == 0);
            });
            let system = system.get_or_init(|| System::with_clock(clock.clone()));
            let plain = Actor::builder().clock(MonotonicClock);
            let member = system.spawn(plain, ()).unwrap();
            let (begun, running) = mpsc::channel();
            let turns = thread::spawn(move || {
                let turn = move |(): &mut ()| {
                    begun.send(()).unwrap();
                    let _ = wait.recv();
                };
                member.send(turn).unwrap();
            });
            running.recv().unwrap();
            clock.at(at);
            let report = system.shutdown(Duration::from_secs(3600)).unwrap();
            assert_eq!((report.ended, report.is_complete()), (1, true), "{at}: {report}");
            turns.join().unwrap();
        }
    });
}

#[test]
fn the_last_of_many_ends_is_not_missed() {
    in_child("the_last_of_many_ends_is_not_missed", 2 * PATIENCE, || {
        let pool = pool(1);
        for round in 0..size(2_000, 20_000) {
            let system = System::new();
            // They end one after the other; a waiter is woken by many, and the last one counts.
            let spawn = |_| system.spawn(Actor::builder().executor(pool.handle()), 0).unwrap();
            let members: Vec<_> = (0..16).map(spawn).collect();
            let report = match round % 2 {
                0 => system.shutdown(Limit::Unlimited).unwrap(),
                _ => block_on(system.shutdown_async()).unwrap(),
            };
            assert_eq!((report.ended, report.is_complete()), (members.len(), true));
        }
    });
}

/// A waker that waits until a thread has slept once more, or is done.
struct Delays {
    clock: Arc<Eventful>,
    done: Arc<AtomicBool>,
}

impl Wake for Delays {
    fn wake(self: Arc<Self>) {
        let parks = self.clock.parks.load(SeqCst);
        until(|| self.done.load(SeqCst) || self.clock.parks.load(SeqCst) > parks);
    }
}

#[test]
fn who_is_woken_finds_the_member_gone() {
    in_child("who_is_woken_finds_the_member_gone", PATIENCE, || {
        for _ in 0..size(20, 200) {
            let clock = Eventful::new(|| ());
            let system = System::with_clock(clock.clone());
            let member = system.spawn(Actor::builder().clock(MonotonicClock), ()).unwrap();
            let held = Held::hold(&member);
            let done = Arc::new(AtomicBool::new(false));
            let shutting = thread::spawn({
                let (system, done) = (system.clone(), done.clone());
                move || {
                    let report = system.shutdown(Duration::from_secs(3600)).unwrap();
                    done.store(true, SeqCst);
                    report
                }
            });
            // Its place is before the task's.
            until(|| clock.parks.load(SeqCst) == 1);
            let waker = Arc::new(Delays { clock, done }).into();
            let mut closing = Box::pin(system.shutdown_async());
            assert!(closing.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            held.let_go();
            assert!(shutting.join().unwrap().is_complete());
        }
    });
}

/// A waker whose drop ends a member.
struct EndsMember(std::sync::Mutex<Option<Held>>, System);

impl Wake for EndsMember {
    fn wake(self: Arc<Self>) {}
}

impl Drop for EndsMember {
    fn drop(&mut self) {
        drop(self.0.lock().unwrap().take());
        until(|| self.1.actors() == 0);
    }
}

#[test]
fn an_end_between_two_looks_of_a_poll_is_seen() {
    in_child("an_end_between_two_looks_of_a_poll_is_seen", PATIENCE, || {
        let system = System::new();
        let member = system.actor(()).unwrap();
        let held = std::sync::Mutex::new(Some(Held::hold(&member)));
        let waker = Arc::new(EndsMember(held, system.clone())).into();
        let mut closing = Box::pin(system.shutdown_async());
        assert!(closing.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        // The next poll drops the one remaining waker, and has looked before.
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(report) = closing.as_mut().poll(&mut cx) else { panic!("it has ended") };
        assert_eq!(report.map(|report| (report.ended, report.is_complete())), Ok((1, true)));
    });
}

#[test]
fn no_end_is_missed_by_threads_and_tasks() {
    in_child("no_end_is_missed_by_threads_and_tasks", 2 * PATIENCE, || {
        for round in 0..size(3_000, 10_000) {
            let states = Tally::default();
            let system = System::new();
            let members = [(); 2].map(|()| system.actor(states.token()).unwrap());
            let gate = Gate::new(3);
            let turn = |actor: &Actor<_>, spins: usize| {
                let posted = actor.send(move |_| (0..spins).for_each(|_| std::hint::spin_loop()));
                // A shutdown may be earlier.
                _ = posted;
            };
            thread::scope(|scope| {
                let [first, second] = &members;
                for (i, actor) in [first, second].into_iter().enumerate() {
                    let gate = &gate;
                    scope.spawn(move || {
                        gate.pass();
                        turn(actor, (round * 7 + i * 13) % 400);
                    });
                }
                gate.pass();
                let report = match round % 2 {
                    0 => system.shutdown(Limit::Unlimited).unwrap(),
                    _ => block_on(system.shutdown_async()).unwrap(),
                };
                assert_eq!((report.ended, report.is_complete()), (2, true));
            });
            assert_eq!(states.dropped(), 2);
        }
    });
}

#[test]
fn two_shutdowns_end_with_the_same_members() {
    must_end(|| {
        for _ in 0..size(100, 1_000) {
            let system = System::new();
            let members: Vec<_> = (0..4).map(|_| system.actor(()).unwrap()).collect();
            let gate = Gate::new(3);
            thread::scope(|scope| {
                let shut_down = || {
                    gate.pass();
                    system.shutdown(Limit::Unlimited).unwrap().is_complete()
                };
                let both = [(); 2].map(|()| scope.spawn(shut_down));
                gate.pass();
                for member in &members {
                    _ = member.posted().send(|()| ());
                }
                assert!(both.into_iter().all(|shutting| shutting.join().unwrap()));
            });
            assert_eq!(system.actors(), 0);
        }
    });
}

#[test]
fn a_chain_of_systems_in_states_ends_on_a_small_stack() {
    struct Holds {
        _system: System,
    }
    let last = on_small_stack(|| {
        let end = System::new();
        let last = end.actor(0).unwrap();
        let mut next = end;
        let mut handles = Vec::new();
        for _ in 0..size(10_000, 100_000) {
            let system = System::new();
            let state = Holds { _system: std::mem::replace(&mut next, system.clone()) };
            handles.push(system.actor(state).unwrap());
        }
        drop(next);
        // After a millisecond others continue with it.
        until(|| handles.iter().all(Actor::is_closed));
        last
    });
    assert!(last.is_closed());
}

/// Keeps itself alive.
struct KeepsItself(#[allow(dead_code, reason = "it is dropped")] Option<Actor<KeepsItself>>);

#[test]
fn a_chain_of_systems_in_hooks_ends_on_a_small_stack() {
    on_small_stack(|| {
        let last = System::new();
        let end = last.actor(0).unwrap();
        let mut next = last;
        for _ in 0..size(10_000, 100_000) {
            let system = System::new();
            let held = std::mem::replace(&mut next, system.clone());
            let builder = Actor::builder().on_undelivered(move |_| _ = &held);
            // It ends when its system stops it.
            let own = system.spawn(builder, KeepsItself(None)).unwrap();
            let kept = own.clone();
            own.send(move |own| own.0 = Some(kept)).unwrap();
        }
        drop(next);
        until(|| end.is_closed());
    });
}

/// The turn of a member runs a drain by hand, in which the turn of another actor polls the
/// shutdown. That turn may lie down, and the member goes on. If it blocks instead, both wait for
/// ever.
#[test]
fn a_task_that_blocks_a_member_is_refused_after_a_poll_by_its_turn() {
    let (system, queue) = (System::new(), DrainQueue::new());
    let member = system.actor(()).unwrap();
    let other = Actor::builder().executor(queue.handle()).spawn(()).unwrap();
    let (tell, told) = mpsc::channel();
    let mut closing = Box::pin(system.shutdown_async());
    let ended = other.run(async move |()| {
        let by_turn = poll_fn(|cx| Poll::Ready(closing.as_mut().poll(cx))).await;
        let by_thread = closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        tell.send((by_turn, by_thread)).unwrap();
        closing.await
    });
    member.with(|()| assert!(queue.run_one())).unwrap();
    let (by_turn, by_thread) = told.recv().unwrap();
    assert!(by_turn.is_pending(), "{by_turn:?}");
    assert!(matches!(by_thread, Poll::Ready(Err(Reason::Deadlock(_)))), "{by_thread:?}");
    queue.run_until_idle();
    assert_eq!(ended.wait().unwrap().unwrap().ended, 1);
}

/// A member that has ended leaves its memory to the next one.
#[test]
fn a_future_that_was_refused_is_refused_in_the_turn_of_a_later_member() {
    let system = System::new();
    let mut closing = Box::pin(system.shutdown_async());
    for _ in 0..10 {
        let member = system.actor(()).unwrap();
        let mut poll = || closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let polled = member.with(|()| poll()).unwrap();
        assert!(matches!(polled, Poll::Ready(Err(Reason::Deadlock(_)))), "{polled:?}");
    }
}
