//! No polling and no spinning, by the processor time of threads. Linux only, which reports the time
//! of each thread.
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use paused::Actor;
use paused::pause::Gate;

/// Returns the processor time of this thread so far.
fn own_time() -> Duration {
    time("/proc/thread-self/schedstat")
}

/// Returns the processor time of all threads of this process.
fn all_time() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.map(|task| time(task.unwrap().path().join("schedstat").to_str().unwrap())).sum()
}

fn time(path: &str) -> Duration {
    let text = fs::read_to_string(path).unwrap_or_default();
    Duration::from_nanos(
        text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0),
    )
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// The tests of this file measure the whole process, so they run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// The time for which a thread is measured.
const WINDOW: Duration = Duration::from_millis(if cfg!(debug_assertions) { 100 } else { 1000 });

/// Works until the window is over, on other actors.
fn others_progress() -> u64 {
    let start = Instant::now();
    let others: Vec<_> = (0..100).map(|_| Actor::new(0u64)).collect();
    let mut sent = 0;
    while start.elapsed() < WINDOW {
        for other in &others {
            other.send(|n| *n += 1).unwrap();
        }
        sent += 1;
    }
    others.iter().for_each(|other| assert_eq!(other.with(|n| *n).unwrap(), sent));
    sent * 100
}

#[test]
fn an_owner_does_not_spin_while_a_sender_is_stopped_inside_send() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for k in 0.. {
        let (actor, gate) = (Actor::new(0u64), Gate::new());
        let (entered, is_in) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let (finish, finished) = mpsc::channel::<()>();
        let owner = actor.clone();
        let owner = thread::spawn(move || {
            let before = own_time();
            let turn = move |_: &mut u64| {
                entered.send(()).unwrap();
                ended.recv().unwrap();
            };
            owner.send(turn).unwrap(); // drains what comes, and returns
            finished.recv().unwrap();
            own_time() - before
        });
        is_in.recv().unwrap();
        let sender = thread::spawn({
            let (actor, gate) = (actor.clone(), gate.clone());
            move || gate.run(k, || actor.send(|n| *n += 1).unwrap())
        });
        let step = gate.stopped();
        end.send(()).unwrap();
        let progress = others_progress();
        finish.send(()).unwrap();
        let spent = owner.join().unwrap();
        gate.release();
        sender.join().unwrap();
        assert_eq!(actor.with(|n| *n).unwrap(), 1);
        println!(
            "stopped before {step:?}: owner used {spent:?} of {WINDOW:?}, {progress} messages of other actors were run"
        );
        assert!(
            spent < WINDOW / 20,
            "the owner spins while a sender is stopped before {step:?}: {spent:?}"
        );
        if step.is_none() {
            break;
        }
    }
}

#[test]
fn one_who_waits_for_a_stopped_owner_sleeps() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (actor, gate) = (Actor::new(0u64), Gate::new());
    let owner = thread::spawn({
        let (actor, gate) = (actor.clone(), gate.clone());
        move || gate.run(1, || actor.send(|n| *n += 1).unwrap())
    });
    let step = gate.stopped().expect("a send has a second step");
    let waits: [fn(Actor<u64>); 3] = [
        |actor| assert!(actor.with(|n| *n).unwrap() >= 1),
        |actor| assert!(actor.call(|n| *n).wait().unwrap() >= 1),
        |actor| actor.idle().wait().unwrap(),
    ];
    let (ready, are_ready) = mpsc::channel();
    let waiters: Vec<_> = waits
        .into_iter()
        .map(|wait| {
            let (actor, ready) = (actor.clone(), ready.clone());
            thread::spawn(move || {
                let before = own_time();
                ready.send(()).unwrap();
                wait(actor);
                own_time() - before
            })
        })
        .collect();
    waiters.iter().for_each(|_| are_ready.recv().unwrap());
    others_progress();
    gate.release();
    owner.join().unwrap();
    for waiter in waiters {
        let spent = waiter.join().unwrap();
        assert!(
            spent < WINDOW / 20,
            "waiting for an owner stopped before {step:?} took {spent:?} of processor time"
        );
    }
}

#[test]
fn idle_actors_cost_no_thread_and_no_time() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let threads_before = threads();
    let actors: Vec<_> = (0..100_000).map(|n| Actor::new(n as u64)).collect();
    for actor in &actors {
        actor.send(|n| *n += 1).unwrap();
    }
    // The test harness starts and ends threads of its own meanwhile.
    assert!(threads() < threads_before + 100, "an actor has no thread of its own");
    let before = all_time();
    // Orders nothing: it is the time in which nothing may happen.
    thread::sleep(WINDOW);
    let spent = all_time() - before;
    assert!(
        spent < WINDOW / 20,
        "{spent:?} of processor time while {} actors were idle",
        actors.len()
    );
    for (n, actor) in actors.iter().enumerate() {
        assert_eq!(actor.with(|n| *n).unwrap(), n as u64 + 1);
    }
}

#[test]
fn the_check_bites_a_thread_that_spins() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = Arc::new(AtomicBool::new(false));
    let spinner = thread::spawn({
        let stop = stop.clone();
        move || {
            let before = own_time();
            while !stop.load(Relaxed) {
                std::hint::spin_loop();
            }
            own_time() - before
        }
    });
    others_progress();
    stop.store(true, Relaxed);
    assert!(spinner.join().unwrap() > WINDOW / 20);
}
