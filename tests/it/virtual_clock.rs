//! Timed waits on a clock that stands still until it is moved: no test here sleeps, and none reads
//! the time.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{Held, in_turn, must_end};
use turnwise::{Actor, AskError, Clock, Drain, Overflow, Reason, VirtualClock, WaitError};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn is_cancelled<R>(error: WaitError<R>) -> bool {
    matches!(error, WaitError::Cancelled(_))
}

#[test]
fn every_timed_wait_ends_at_its_moment_of_the_clock() {
    must_end(|| {
        let clock = VirtualClock::new();
        let actor =
            Actor::builder().clock(clock.clone()).capacity(3, Overflow::Reject).spawn(0).unwrap();
        let busy = Held::hold(&actor);
        let (asked, cancelled) = (actor.call(|n| *n), actor.call(|n| *n += 100));
        actor.send(|n| *n += 1).unwrap(); // full
        let (sender, caller, watcher) = (actor.clone(), actor.clone(), actor.clone());
        let waiting = [
            thread::spawn(move || matches!(asked.wait_timeout(HOUR), Err(WaitError::TimedOut(_)))),
            thread::spawn(move || cancelled.within(HOUR).is_err_and(is_cancelled)),
            thread::spawn(move || {
                let sent = sender.waiting().send(|_| ()).within(HOUR);
                sent.is_err_and(|refused| refused.reason() == &Reason::Full)
            }),
            thread::spawn(move || {
                caller.waiting().call(|_| ()).within(HOUR).is_err_and(is_cancelled)
            }),
            thread::spawn(move || watcher.ended().within(HOUR) == Ok(false)),
        ];
        clock.wait_for_sleepers(waiting.len());
        assert_eq!(clock.next_wake(), Some(HOUR));
        clock.advance(HOUR - SECOND);
        assert_eq!(clock.sleepers(), waiting.len(), "none was woken");
        assert!(waiting.iter().all(|thread| !thread.is_finished()));
        clock.advance(SECOND);
        assert_eq!(clock.sleepers(), 0);
        assert!(waiting.into_iter().all(|thread| thread.join().unwrap()));
        let refused = actor.call(|n| *n).within(HOUR);
        let full = AskError::from(Reason::Full);
        assert!(matches!(refused, Err(WaitError::Ask(error)) if error == full), "still full");
        busy.let_go();
        assert_eq!(actor.with(|n| *n), Ok(1), "what was cancelled or refused never runs");
    });
}

#[test]
fn a_wait_that_is_over_leaves_the_clock() {
    must_end(|| {
        let clock = VirtualClock::new();
        let actor = Actor::builder().clock(clock.clone()).spawn(7).unwrap();
        let busy = Held::hold(&actor);
        let asked = actor.call(|n| *n);
        let waiting = thread::spawn(move || asked.wait_timeout(HOUR).unwrap());
        clock.wait_for_sleepers(1);
        busy.let_go();
        assert_eq!(waiting.join().unwrap(), 7);
        assert_eq!((clock.sleepers(), clock.now()), (0, Duration::ZERO));
    });
}

/// Limits are measured on the waiting thread, and no worker has to be free for them to end.
#[test]
fn timed_waits_end_while_the_only_worker_is_busy() {
    must_end(|| {
        let clock = VirtualClock::new();
        let (tx, rx) = mpsc::channel::<Drain>();
        let worker = thread::spawn(move || rx.into_iter().for_each(Drain::run));
        let on_worker = || {
            let tx = tx.clone();
            Actor::builder()
                .clock(clock.clone())
                .executor(move |drain| tx.send(drain).unwrap())
                .spawn(0)
                .unwrap()
        };
        let (busy, other) = (on_worker(), on_worker());
        let (begun, running) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        busy.send(move |_| {
            begun.send(()).unwrap();
            let _ = wait.recv();
        })
        .unwrap();
        running.recv().unwrap();
        // Nothing runs on the worker from now on.
        let waiting = (1..=20_u32).map(|n| {
            let (busy, other) = (busy.clone(), other.clone());
            thread::spawn(move || match n % 2 {
                0 => {
                    let asked = busy.call(|_| unreachable!("cancelled"));
                    asked.within(n * SECOND).is_err_and(is_cancelled::<()>)
                }
                _ => other.ended().within(n * SECOND) == Ok(false),
            })
        });
        let mut waiting: Vec<_> = waiting.collect();
        clock.wait_for_sleepers(20);
        // Each in its time: the others sleep on.
        for (done, thread) in waiting.drain(..).enumerate() {
            assert_eq!(clock.sleepers(), 20 - done);
            let next = clock.next_wake().unwrap();
            assert_eq!(next, (done as u32 + 1) * SECOND);
            clock.set(next);
            assert!(thread.join().unwrap());
        }
        drop(go);
        assert_eq!(busy.with(|n| *n), Ok(0), "none of the cancelled questions ran");
        drop((busy, other, tx));
        worker.join().unwrap();
    });
}

/// Inside a turn, a waiter runs what its thread has promised to run.
#[test]
fn a_waiter_whose_time_is_over_runs_no_further_turn() {
    let clock = VirtualClock::new();
    let actor = Actor::builder().clock(clock.clone()).spawn(()).unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    in_turn(|| {
        let runs = ran.clone();
        actor.send(move |()| clock.advance(HOUR)).unwrap();
        actor.send(move |()| runs.store(true, SeqCst)).unwrap();
        assert!(actor.call(|()| ()).within(SECOND).is_err_and(is_cancelled));
        assert!(!ran.load(SeqCst));
    });
    actor.idle().wait().unwrap();
    assert!(ran.load(SeqCst));
}

#[test]
fn a_waiter_whose_time_is_over_runs_no_other_actor() {
    must_end(|| {
        let clock = VirtualClock::new();
        let actor = Actor::builder().clock(clock.clone()).spawn(()).unwrap();
        let ((ask, asked), (leave, left)) = (mpsc::channel(), mpsc::channel::<()>());
        let (tell, told) = mpsc::channel();
        let asks = thread::spawn(move || {
            in_turn(move || {
                // They are this thread's, until its turn is over.
                let sends = move |_: &mut ()| {
                    let other = Actor::new(());
                    other.send(move |_| tell.send(thread::current().id()).unwrap()).unwrap();
                    clock.advance(HOUR);
                };
                actor.send(sends).unwrap();
                ask.send(actor.call(|()| ())).unwrap();
                let _ = left.recv();
            });
        });
        let _ = asked.recv().unwrap().within(SECOND);
        assert_ne!(told.recv(), Ok(thread::current().id()));
        drop(leave);
        asks.join().unwrap();
    });
}

#[test]
fn clones_are_one_clock_and_it_may_be_shared() {
    let clock = VirtualClock::new();
    let (clone, shared) = (clock.clone(), std::sync::Arc::new(clock.clone()));
    clock.advance(SECOND);
    clone.set(3 * SECOND);
    assert_eq!((clock.now(), Clock::now(&shared)), (3 * SECOND, 3 * SECOND));
    clock.advance(Duration::MAX);
    assert_eq!(clock.now(), Duration::MAX);
    shared.park_until(Duration::MAX); // no wait
    assert_eq!(format!("{:?}", VirtualClock::new()), "VirtualClock { now: Some(0ns), .. }");
}

#[test]
#[should_panic(expected = "cannot be set back")]
fn a_clock_is_never_set_back() {
    let clock = VirtualClock::new();
    clock.set(SECOND);
    clock.set(SECOND / 2);
}

#[test]
fn many_who_wait_for_sleepers_are_all_told() {
    must_end(|| {
        let clock = VirtualClock::new();
        let actor = Actor::builder().clock(clock.clone()).spawn(0).unwrap();
        let (told, waits) = mpsc::channel();
        for threads in [1, 2, 2] {
            let (clock, told) = (clock.clone(), told.clone());
            thread::spawn(move || {
                clock.wait_for_sleepers(threads);
                told.send(threads).unwrap();
            });
        }
        let wait = || {
            let actor = actor.clone();
            thread::spawn(move || actor.ended().within(HOUR))
        };
        let first = wait();
        assert_eq!(waits.recv().unwrap(), 1);
        let second = wait();
        assert_eq!(waits.iter().take(2).collect::<Vec<_>>(), [2, 2]);
        clock.advance(HOUR);
        assert_eq!([first, second].map(|waiting| waiting.join().unwrap()), [Ok(false), Ok(false)]);
    });
}
