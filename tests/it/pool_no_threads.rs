//! A process in which no thread can be started: work for the global pool waits, or stays where it
//! is.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use turnwise::executor::{DrainQueue, PoolError};
use turnwise::{Actor, Limit, System, ThreadPool, VirtualClock};

/// Runs a test of this file in a process of its own, whose threads would get stacks that no machine
/// has.
fn without_threads(test: &str) {
    let test = &format!("pool_no_threads::{test}");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--test-threads=1", "--nocapture"])
        .env("RUST_MIN_STACK", (1_u64 << 60).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{test} hangs");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let output = child.wait_with_output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(status.success() && output.contains("1 passed"), "{output}");
}

fn no_thread_can_be_started() {
    assert!(thread::Builder::new().spawn(|| ()).is_err());
    assert!(matches!(ThreadPool::new(), Err(PoolError::Spawn(_))));
}

#[test]
fn a_post_runs_not_in_the_call_though_without_threads() {
    without_threads("child_posts");
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_posts() {
    no_thread_can_be_started();
    let lock = Arc::new(Mutex::new(0));
    let plain = Actor::new(());
    let pooled = Actor::builder().executor(ThreadPool::global().clone()).spawn(()).unwrap();
    for actor in [&plain, &pooled] {
        let held = lock.lock().unwrap();
        let theirs = lock.clone();
        actor.posted().send(move |_| *theirs.lock().unwrap() += 1).unwrap();
        assert_eq!(*held, 0, "it is left for later");
    }
    // A waiting thread may run actors without an executor.
    plain.idle().wait().unwrap();
    assert_eq!(*lock.lock().unwrap(), 1);
    assert_eq!((plain.stop_cause(), pooled.stop_cause()), (None, None));
}

#[test]
fn a_wait_whose_time_is_over_runs_what_no_thread_can_take() {
    without_threads("child_waits_too_long");
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_waits_too_long() {
    no_thread_can_be_started();
    let clock = VirtualClock::new();
    let actor = Actor::builder().clock(clock.clone()).spawn(()).unwrap();
    let other = Actor::new(0);
    let theirs = other.clone();
    let sends = move |_: &mut ()| {
        theirs.send(|n| *n += 1).unwrap();
        clock.advance(Duration::from_secs(2));
    };
    actor.posted().send(sends).unwrap();
    assert!(actor.posted().call(|_| ()).within(Duration::from_secs(1)).is_err());
    assert!(other.is_idle(), "it was run here");
}

#[test]
fn a_drain_that_nobody_can_take_stays_on_its_thread() {
    without_threads("child_keeps");
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_keeps() {
    no_thread_can_be_started();
    let n = Actor::builder().budget(2).spawn(0).unwrap();
    let theirs = n.clone();
    Actor::new(()).with(|_| (0..100).for_each(|_| theirs.send(|n| *n += 1).unwrap())).unwrap();
    assert!(n.is_idle(), "all were run by this thread, whatever the budget");
    assert_eq!(n.with(|n| *n), Ok(100));
}

#[test]
fn a_shutdown_in_a_turn_needs_no_thread() {
    without_threads("child_shuts_down");
}

// An actor whose executor has ended would end in the global pool.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_shuts_down() {
    no_thread_can_be_started();
    let (queue, system) = (DrainQueue::new(), System::new());
    let given_back = Arc::new(Mutex::new(0));
    let count = given_back.clone();
    let builder = Actor::builder().executor(queue.handle());
    let builder = builder.on_undelivered(move |_| *count.lock().unwrap() += 1);
    let member = system.spawn(builder, ()).unwrap();
    let report = Actor::new(()).with(move |()| {
        member.send(|()| unreachable!("given back")).unwrap();
        drop(queue);
        system.shutdown(Limit::Unlimited).unwrap()
    });
    let report = report.unwrap();
    assert_eq!((report.ended, report.is_complete()), (1, true), "{report}");
    assert_eq!(*given_back.lock().unwrap(), 1);
}
