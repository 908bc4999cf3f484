//! The ends of an actor, by a thread and by a task: closed, ended, idle; and the end of a system.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{CountWakes, Held, block_on, must_end, poll_once, queued, quiet_panic, size};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, Handler, Limit, ShutdownReport, System, ThreadPool, VirtualClock, promise};

const HOUR: Duration = Duration::from_secs(3600);
const NOW: Duration = Duration::ZERO;

/// The ways to close an actor.
type Closes = fn(&Actor<u32>, &DrainQueue);

const CLOSES: &[(&str, Closes)] = &[
    ("close", |n, _| assert!(n.close())),
    ("stop", |n, _| assert!(n.stop())),
    ("stop by a weak handle", |n, _| assert!(n.downgrade().stop())),
    ("a panic", |n, queue| {
        n.send(|_| quiet_panic("oops")).unwrap();
        queue.run_until_idle();
    }),
    ("an executor that is gone", |n, queue| {
        queue.close();
        assert!(n.send(|_| ()).is_err());
    }),
    ("a handler", |n, queue| {
        n.tell(Stop).unwrap();
        queue.run_until_idle();
    }),
];

struct Stop;

impl Handler<Stop> for u32 {
    type Reply = ();
    fn handle(&mut self, _: Stop, cx: &mut turnwise::Context<'_, Self>) {
        cx.stop();
    }
}

#[test]
fn the_end_comes_with_every_way_to_close() {
    must_end(|| {
        for (name, close) in CLOSES {
            let (queue, n) = queued(0);
            let (wakes, mut ended) = (Arc::new(CountWakes::default()), n.ended());
            let waker = Waker::from(wakes.clone());
            let mut cx = Context::from_waker(&waker);
            assert!(Pin::new(&mut ended).poll(&mut cx).is_pending(), "{name}");
            thread::scope(|scope| {
                let blocked = scope.spawn(|| n.ended().wait());
                let limited = scope.spawn(|| n.ended().within(HOUR));
                close(&n, &queue);
                assert!(n.is_closed(), "{name}");
                queue.run_until_idle();
                assert_eq!(wakes.0.load(SeqCst), 1, "{name}");
                assert_eq!(blocked.join().unwrap(), Ok(()), "{name}");
                assert_eq!(limited.join().unwrap(), Ok(true), "{name}");
            });
            assert!(poll_once(&mut ended).is_ready(), "{name}");
            assert!(poll_once(&mut ended).is_ready(), "{name}: and stays so");
            assert_eq!(block_on(n.ended().within_async(NOW)), Ok(true), "{name}");
        }
    });
}

#[test]
fn ends_have_limits_on_the_actors_clock() {
    must_end(|| {
        let clock = VirtualClock::new();
        let n = Actor::builder().clock(clock.clone()).spawn(0).unwrap();
        let held = Held::hold(&n);
        for what in [Actor::ended, Actor::idle] {
            for task in [false, true] {
                thread::scope(|scope| {
                    let waiting = scope.spawn(|| match task {
                        false => what(&n).within(HOUR),
                        true => block_on(what(&n).within_async(HOUR)),
                    });
                    clock.wait_for_sleepers(1);
                    clock.advance(HOUR);
                    assert_eq!(waiting.join().unwrap(), Ok(false));
                });
            }
            for limit in [Limit::Immediate, Limit::Within(Duration::from_nanos(0))] {
                assert_eq!(what(&n).within(limit), Ok(false));
                assert_eq!(block_on(what(&n).within_async(limit)), Ok(false));
            }
        }
        held.let_go();
        n.close();
        for what in [Actor::ended, Actor::idle] {
            for limit in [Limit::Immediate, Limit::Within(Duration::MAX), Limit::Unlimited] {
                assert_eq!(what(&n).within(limit), Ok(true));
                assert_eq!(block_on(what(&n).within_async(limit)), Ok(true));
            }
        }
    });
}

#[test]
fn both_shutdowns_report_the_same() {
    fn system() -> (System, DrainQueue, [Actor<u32>; 3]) {
        let (system, queue) = (System::new(), DrainQueue::new());
        let idle = system.spawn(Actor::builder().name("idle"), 0_u32).unwrap();
        let busy = system.spawn(Actor::builder().name("busy").executor(queue.handle()), 0).unwrap();
        let gone = system.spawn(Actor::builder().name("gone"), 0).unwrap();
        busy.send(|_| ()).unwrap();
        gone.stop();
        (system, queue, [idle, busy, gone])
    }
    let limits = [NOW, Duration::from_millis(2)];
    must_end(move || {
        for limit in limits {
            let (blocking, queue, actors) = system();
            let report = blocking.shutdown(limit).unwrap();
            queue.run_until_idle();
            assert!(actors.iter().all(Actor::is_closed));
            let (task, queue, actors) = system();
            let mut ending = task.shutdown_async().within_async(limit);
            let by_task = block_on(&mut ending).unwrap();
            assert_eq!(block_on(&mut ending).as_ref(), Ok(&by_task), "polled again");
            queue.run_until_idle();
            assert!(actors.iter().all(Actor::is_closed));
            // A poll runs no end: an idle actor without an executor ends in the fallback.
            assert_eq!(report.running, ["busy"]);
            assert!(by_task.running.contains(&"busy".to_string()), "{by_task}");
            let all =
                |report: &ShutdownReport| report.ended + report.stopped + report.running.len();
            assert_eq!((all(&report), all(&by_task)), (2, 2));
            assert!(block_on(task.shutdown_async().within_async(HOUR)).unwrap().is_complete());
        }
        // In time: complete, both.
        let (system, queue, _actors) = system();
        let run = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                while run.load(SeqCst) {
                    queue.run_until_idle();
                    thread::yield_now();
                }
            });
            let report = block_on(system.shutdown_async().within_async(HOUR)).unwrap();
            assert!(report.is_complete(), "{report}");
            assert_eq!((report.ended, report.stopped), (2, 0));
            run.store(false, SeqCst);
        });
    });
}

#[test]
fn a_systems_clock_ends_its_shutdown() {
    must_end(|| {
        let clock = VirtualClock::new();
        let (system, queue) = (System::with_clock(clock.clone()), DrainQueue::new());
        let builder = Actor::builder().name("slow").executor(queue.handle());
        let n = system.spawn(builder, 0).unwrap();
        n.send(|n| *n += 1).unwrap();
        let asked = n.call(|n| *n);
        thread::scope(|scope| {
            let ending =
                scope.spawn(|| block_on(system.shutdown_async().within_async(HOUR)).unwrap());
            clock.wait_for_sleepers(1);
            assert!(n.is_closed());
            assert_eq!(n.stop_cause(), None);
            clock.advance(HOUR);
            assert_eq!(ending.join().unwrap().running, ["slow"]);
        });
        assert!(n.stop_cause().is_some());
        queue.run_until_idle();
        assert!(asked.wait().is_err());
        assert!(system.shutdown(NOW).unwrap().is_complete());
    });
}

/// Clones are handles: the last one that is dropped stops the actors.
#[test]
fn clones_of_a_system_end_it_together() {
    must_end(|| {
        let system = System::new();
        let (other, n) = (system.clone(), system.actor(0).unwrap());
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let sender = Actor::builder().executor(pool.handle()).spawn(other).unwrap();
        drop(system);
        assert!(!n.is_closed(), "a handle is left, in an actor's state");
        let late = sender.call(|system| system.actor(1).unwrap().with(|n| *n));
        assert_eq!(late.wait(), Ok(Ok(1)));
        drop(sender);
        assert_eq!(n.ended().wait(), Ok(()));
        assert!(n.stop_cause().is_some());
    });
}

/// Measures `n` tasks that wait for one end: the first polls, the second polls and the drops, the
/// latest first.
fn times_of(n: usize, actor: &Actor<u32>) -> [Duration; 3] {
    let mut waiting: Vec<_> = (0..n).map(|_| actor.ended()).collect();
    let mut poll_all = || {
        let begun = Instant::now();
        assert!(waiting.iter_mut().all(|ended| poll_once(ended).is_pending()));
        begun.elapsed()
    };
    let (first, again) = (poll_all(), poll_all());
    let begun = Instant::now();
    while waiting.pop().is_some() {}
    [first, again, begun.elapsed()]
}

#[test]
fn a_waiter_costs_the_same_however_many_wait() {
    must_end(|| {
        let actor = Actor::new(0);
        let [first, again, dropped] = times_of(size(60_000, 100_000), &actor);
        // A search from the front takes hundreds of times as long.
        assert!(again < 40 * first, "{again:?} to poll again, {first:?} at first");
        assert!(dropped < 40 * first, "{dropped:?} to give up, {first:?} to be polled");
    });
}

#[test]
fn a_waiter_that_was_woken_takes_no_other_one_out() {
    let (queue, actor) = queued(0);
    actor.send(|_| ()).unwrap();
    let woken = Arc::new(CountWakes::default());
    let waker = Waker::from(woken.clone());
    let mut cx = Context::from_waker(&waker);
    let (mut old, mut new) = (actor.idle(), actor.idle());
    assert!(Pin::new(&mut old).poll(&mut cx).is_pending());
    queue.run_until_idle();
    assert_eq!(woken.0.load(SeqCst), 1);
    actor.send(|_| ()).unwrap();
    // At the place of the other one, which goes now.
    assert!(Pin::new(&mut new).poll(&mut cx).is_pending());
    drop(old);
    queue.run_until_idle();
    assert_eq!(woken.0.load(SeqCst), 2);
    assert!(poll_once(&mut new).is_ready());
}

/// Plain members end one after the other, on the thread that shuts down. The hook of the first one
/// may await what the others cause: they end elsewhere then.
#[test]
fn a_hook_awaits_the_end_of_a_later_member() {
    for limit in [Limit::Unlimited, Limit::Within(Duration::from_secs(3_600))] {
        for reversed in [false, true] {
            must_end(move || {
                let system = System::new();
                let (tell, told) = promise::<u32>();
                let (tell, told) = (Mutex::new(Some(tell)), Mutex::new(Some(told)));
                let other = Arc::new(Mutex::new(None::<Actor<u32>>));
                let seen = other.clone();
                // By its end, and by what its hook sends.
                let awaits = move |_, _| {
                    let other = seen.lock().unwrap().clone().unwrap();
                    block_on(other.ended()).unwrap();
                    let told = told.lock().unwrap().take().unwrap();
                    assert_eq!(block_on(told), Ok(7));
                };
                let sends = move |_, _| tell.lock().unwrap().take().unwrap().keep(7);
                let mut awaits = Some(Actor::builder().on_end(awaits));
                let mut spawn = || system.spawn(awaits.take().unwrap(), 1).unwrap();
                let sends = Actor::builder().on_end(sends);
                let _first = (!reversed).then(&mut spawn);
                *other.lock().unwrap() = Some(system.spawn(sends, 2).unwrap());
                let _last = reversed.then(spawn);
                let report = system.shutdown(limit).unwrap();
                assert_eq!((report.ended, report.is_complete()), (2, true));
            });
        }
    }
}

/// The hook awaits a member that it does not name.
#[test]
fn a_hook_awaits_what_the_hook_of_a_later_member_brings() {
    must_end(|| {
        let system = System::new();
        let mut actors = Vec::new();
        let (mut tells, mut nexts) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let (tell, told) = promise::<()>();
            tells.push(tell);
            nexts.push(told);
        }
        // Each awaits the one after it; the last one reports.
        let mut before = None;
        for (tell, told) in tells.into_iter().zip(nexts.into_iter().map(Some).skip(1).chain([None]))
        {
            let (tell, told) = (Mutex::new(Some(tell)), Mutex::new(told));
            let hook = move |_, _| {
                if let Some(told) = told.lock().unwrap().take() {
                    block_on(told).unwrap();
                }
                tell.lock().unwrap().take().unwrap().keep(());
            };
            before = Some(system.spawn(Actor::builder().on_end(hook), 1).unwrap());
            actors.extend(before.clone());
        }
        drop(before);
        assert_eq!(system.shutdown(Limit::Unlimited).unwrap().ended, 5);
    });
}

/// A hook shuts another system down, and both have members that end here.
#[test]
fn a_hook_shuts_another_system_down() {
    must_end(|| {
        let (outer, inner) = (System::new(), System::new());
        let (tell, told) = promise::<()>();
        let (tell, told) = (Mutex::new(Some(tell)), Mutex::new(Some(told)));
        let _kept: Vec<_> = (0..3).map(|n| inner.spawn(Actor::builder(), n).unwrap()).collect();
        let ends = move |_, _| {
            assert_eq!(inner.shutdown(Limit::Unlimited).unwrap().ended, 3);
            block_on(told.lock().unwrap().take().unwrap()).unwrap();
        };
        let sends = move |_, _| tell.lock().unwrap().take().unwrap().keep(());
        let _first = outer.spawn(Actor::builder().on_end(ends), 1).unwrap();
        let _second = outer.spawn(Actor::builder().on_end(sends), 1).unwrap();
        assert_eq!(outer.shutdown(Limit::Unlimited).unwrap().ended, 2);
    });
}
