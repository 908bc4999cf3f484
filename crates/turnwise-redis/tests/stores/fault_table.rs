//! The rows of `FAULTS.md`: servers that are killed and keep more or less on their disks, replicas
//! that lag, clocks that step, answers that arrive late and requests that arrive twice.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::proxy::{Fate, Proxy};
use crate::support::{Dice, Server, until};
use turnwise_redis::{Fenced, Limits, LockError, Locks, ReleaseError, Remote, RemoteBuilder};

/// Longer than these tests take, apart from renewals.
const LONG: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_millis(500);

fn builder() -> RemoteBuilder {
    Remote::builder().lease(LONG).place(LEASE).answer_within(LEASE)
}

/// True if it is held, as far as the store knows.
fn is_held(locks: &Locks, name: &str) -> bool {
    locks.info(name).wait().unwrap().is_some_and(|info| info.holder.is_some())
}

/// Takes two locks, the first one long before, then kills the server. Returns which of them are
/// held by its next life.
fn killed(what: &str, options: &[&str], between: impl Fn(&Server)) -> [bool; 2] {
    killed_after(what, options, between, |_| ())
}

/// Does as `killed`, with an action between the second lock and the kill.
fn killed_after(
    what: &str,
    options: &[&str],
    between: impl Fn(&Server),
    after: impl Fn(&Server),
) -> [bool; 2] {
    let mut server = Server::with(options);
    let locks = builder().connect(&server.url()).unwrap().locks();
    let early = locks.lock("early").wait().unwrap();
    between(&server);
    let late = locks.lock("late").wait().unwrap();
    let fences = [early.fence(), late.fence()];
    after(&server);

    let began = Instant::now();
    server.kill();
    server.run();
    let up = began.elapsed();
    let names = ["early", "late"];
    let kept = names.map(|name| is_held(&locks, name));
    let back = began.elapsed();
    println!("{what}: up after {up:.0?}, answers after {back:.0?}; held: {kept:?}");

    // A forgotten holder learns of it at its release; and fences go on above the old ones.
    for (guard, kept) in [early, late].into_iter().zip(kept) {
        let fence = guard.fence();
        let expected = if kept { Ok(()) } else { Err(ReleaseError::Lost(fence)) };
        assert_eq!(guard.release().wait(), expected, "{what}");
    }
    for (name, fence) in names.into_iter().zip(fences) {
        let next = locks.lock(name).wait().unwrap();
        assert!(next.fence() > fence, "{what}: {} after {fence}", next.fence());
    }
    kept
}

#[test]
fn a_server_without_persistence_is_killed() {
    let options = ["--save", "", "--appendonly", "no"];
    assert_eq!(killed("none", &options, |_| ()), [false, false]);
}

#[test]
fn a_server_with_snapshots_is_killed() {
    // What came after the last snapshot is gone.
    let options = ["--save", "3600 1", "--appendonly", "no"];
    let snapshot = |server: &Server| assert_eq!(server.ask("SAVE"), "+OK");
    assert_eq!(killed("RDB", &options, snapshot), [true, false]);
}

#[test]
fn a_server_that_appends_each_second_is_killed() {
    // The operating system keeps what it was given, although the server is killed. The server gives
    // it each step before it answers, except for steps that arrive while an earlier `fsync` lasts:
    // these it holds back, for two seconds at most.
    let options = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];
    let written = |server: &Server| {
        let is_empty = |line: String| line == "aof_buffer_length:0";
        let info = || server.all("INFO persistence\r\nQUIT", 60).into_iter();
        until("all steps are with the operating system", || info().any(is_empty));
    };
    let kept = killed_after("AOF everysec, written", &options, |_| (), written);
    assert_eq!(kept, [true, true]);
    // A step that was acknowledged just before is kept or lost; both are printed.
    let [early, _] = killed("AOF everysec, at once", &options, written);
    assert!(early);
}

#[test]
fn a_server_that_appends_always_is_killed() {
    let options = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    assert_eq!(killed("AOF always", &options, |_| ()), [true, true]);
}

#[test]
fn a_stale_replica_takes_over() {
    let mut primary = Server::start();
    let port = primary.port.to_string();
    let replica = Server::with(&["--save", "", "--replicaof", &format!("127.0.0.1 {port}")]);
    let old = builder().connect(&primary.url()).unwrap().locks();
    let known = old.lock("known").wait().unwrap();
    until("it is copied", || replica.ask("EXISTS turnwise:{lock:known}") == ":1");
    // It receives nothing from now on.
    assert!(replica.ask("REPLICAOF 127.0.0.1 1").starts_with("+OK"));
    let unknown = old.lock("unknown").wait().unwrap();

    let began = Instant::now();
    primary.kill();
    assert_eq!(replica.ask("REPLICAOF NO ONE"), "+OK");
    let new = builder().connect(&replica.url()).unwrap().locks();
    assert!(matches!(new.try_lock("known").wait(), Err(LockError::Busy { .. })));
    let next = new.lock("unknown").wait().unwrap();
    println!("stale replica: a lock is had after {:.0?}", began.elapsed());
    // Two consider themselves holders: the fence says which hold is later.
    assert!(!unknown.is_lost());
    assert!(next.fence() > unknown.fence() && unknown.fence() > known.fence());
    let file = Fenced::new("");
    file.with(next.fence(), |text| *text = "new").unwrap();
    assert!(file.with(unknown.fence(), |text| *text = "old").is_err());
}

/// Starts a server whose clock a file sets.
fn with_a_clock(file: &Path) -> Server {
    let folders = ["x86_64-linux-gnu", "aarch64-linux-gnu"];
    // The server's own allocator asks for the time before it can be faked, so another one is loaded
    // first.
    let libraries = folders.map(|folder| {
        [
            format!("/usr/lib/{folder}/libc_malloc_debug.so.0"),
            format!("/usr/lib/{folder}/faketime/libfaketime.so.1"),
        ]
    });
    let are_there = |files: &&[String; 2]| files.iter().all(|file| Path::new(file).exists());
    let libraries = libraries.iter().find(are_there);
    let libraries = libraries.expect("this test needs `faketime`: install it").join(":");
    fs::write(file, "+0\n").unwrap();
    let environment = [
        ("LD_PRELOAD", libraries.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    Server::within(&["--save", ""], &environment)
}

fn time(server: &Server, from: i64) -> i64 {
    let answer = server.all("TIME", 3);
    answer[2].parse::<i64>().unwrap() - from
}

#[test]
fn a_clock_steps() {
    for step in ["+3600", "-3600"] {
        let file = std::env::temp_dir().join(format!("turnwise-{}{step}", std::process::id()));
        let server = with_a_clock(&file);
        let locks = builder().lease(LEASE).connect(&server.url()).unwrap().locks();
        let other = builder().connect(&server.url()).unwrap().locks();
        let held = locks.lock("a").wait().unwrap();
        let (began, before) = (Instant::now(), time(&server, 0));
        fs::write(&file, format!("{step}\n")).unwrap();
        until("it has stepped", || time(&server, before).abs() > 3000);
        if step == "+3600" {
            // Its lease is over in the server: the next request gets it, and the holder learns of
            // that.
            let next = other.lock("a").wait().unwrap();
            println!("{step} s: the next one holds after {:.0?}", began.elapsed());
            assert!(next.fence() > held.fence());
            until("it is lost", || held.is_lost());
        } else {
            // It is renewed; and fences do not go back.
            until("some leases are over", || began.elapsed() > LEASE * 3);
            assert!(!held.is_lost());
            let fence = held.fence();
            held.release().wait().unwrap();
            let mut last = fence;
            for _ in 0..3 {
                let next = other.lock("a").wait().unwrap();
                assert!(next.fence() > last);
                last = next.fence();
            }
            println!("{step} s: it is renewed, and fences increase");
        }
        drop(server);
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn requests_come_twice_and_answers_late() {
    let server = Server::start();
    let (inside, file) = (AtomicUsize::new(0), Fenced::new(0));
    let (clients, rounds) = (3, 12);
    let began = Instant::now();
    thread::scope(|scope| {
        for client in 0..clients {
            let proxy = Proxy::new(server.port, || Fate::Forward);
            let connect =
                || builder().answer_within(Duration::from_millis(60)).connect(&proxy.url());
            // A busy machine may need longer for an answer that nothing delays.
            let mut remote = None;
            until("it connects", || {
                remote = connect().ok();
                remote.is_some()
            });
            let locks = remote.unwrap().locks();
            let mut dice = Dice(client);
            // Some answers arrive when the client no longer waits for them.
            proxy.then(move || match dice.roll(6) {
                0 => Fate::Double,
                1 => Fate::Delay(Duration::from_millis(dice.roll(40))),
                2 => Fate::Delay(Duration::from_millis(80)),
                _ => Fate::Forward,
            });
            let (inside, file) = (&inside, &file);
            scope.spawn(move || {
                for _ in 0..rounds {
                    let limits = Limits::wait(Duration::from_secs(30));
                    let guard = locks.lock_within("a", limits).wait().unwrap();
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    file.with(guard.fence(), |count| *count += 1).unwrap();
                    inside.fetch_sub(1, SeqCst);
                    drop(guard);
                }
            });
        }
    });
    let locks = builder().connect(&server.url()).unwrap().locks();
    let last = locks.lock("a").wait().unwrap();
    assert_eq!(file.with(last.fence(), |count| *count).unwrap(), clients * rounds);
    println!("twice and late: {} holds in {:.0?}", clients * rounds, began.elapsed());
}
