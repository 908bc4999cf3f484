//! The programs `lock` and `once`, as somebody uses them.

mod support;

use std::process::{Command, Output, Stdio};

use support::{Server, signal_to, until};

fn program(name: &str) -> Command {
    let path = match name {
        "lock" => env!("CARGO_BIN_EXE_lock"),
        _ => env!("CARGO_BIN_EXE_once"),
    };
    let mut command = Command::new(path);
    command.env_remove("REDIS_URL").stdin(Stdio::null());
    command
}

fn run(name: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = program(name).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_command_runs_while_the_lock_is_held() {
    let server = Server::start();
    let url = &*server.url();
    let said = run("lock", &["--url", url, "a", "--", "sh", "-c", "echo $TURNWISE_FENCE; exit 7"]);
    assert_eq!((said.0, &*said.2), (Some(7), ""));
    let first: u64 = said.1.trim().parse().unwrap();

    // While one sleeps, another one does not come in, and a third waits.
    let mut held = program("lock");
    let held = held.args(["--url", url, "a", "--", "sh", "-c", "echo in; read x"]);
    let mut held = held.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let key = "HEXISTS turnwise:{lock:a} t1";
    until("it is held", || server.ask(key) == ":1");
    let busy = run("lock", &["--url", url, "--wait", "0", "a", "--", "true"]);
    assert_eq!(busy, (Some(75), String::new(), "lock: the lock is held, or waited for\n".into()));
    let mut waits = program("lock");
    let waits =
        waits.args(["--url", url, "--wait", "20s", "a", "--", "printenv", "TURNWISE_FENCE"]);
    let waits = waits.stdout(Stdio::piped()).spawn().unwrap();
    until("it waits", || server.ask("ZCARD turnwise:{lock:a}:q") == ":1");
    drop(held.stdin.take());
    // `read` has met the end of its input.
    assert_eq!(held.wait().unwrap().code(), Some(1));
    let last = waits.wait_with_output().unwrap();
    assert!(last.status.success());
    let last: u64 = String::from_utf8(last.stdout).unwrap().trim().parse().unwrap();
    assert!(last > first);
    assert_eq!(server.ask(key), ":0");
}

#[test]
fn a_command_ends_when_its_lock_is_lost() {
    let server = Server::start();
    let (url, lease) = (&*server.url(), ["--lease", "100ms", "--grace", "10s"]);
    let command = ["a", "--", "sleep", "1000"];
    let (code, _, said) = run("lock", &[&["--url", url], &lease[..], &command[..]].concat());
    assert_eq!((code, &*said), (Some(70), "lock: the lock was lost while the command ran\n"));
    // One that does not listen is ended.
    let deaf = ["a", "--", "sh", "-c", "trap '' TERM; exec sleep 1000"];
    let lease = ["--lease", "100ms", "--grace", "50ms"];
    let (code, ..) = run("lock", &[&["--url", url], &lease[..], &deaf[..]].concat());
    assert_eq!(code, Some(70));
}

#[test]
fn a_program_that_is_ended_gives_back() {
    let server = Server::start();
    let mut lock = program("lock");
    let mut lock = lock.args(["--url", &server.url(), "a", "--", "sleep", "1000"]).spawn().unwrap();
    until("it is held", || server.ask("HEXISTS turnwise:{lock:a} t1") == ":1");
    signal_to(&lock, nix::sys::signal::Signal::SIGTERM);
    // 128 and the signal, which its command has got.
    assert_eq!(lock.wait().unwrap().code(), Some(143));
    assert_eq!(server.ask("HEXISTS turnwise:{lock:a} t1"), ":0");
}

#[test]
fn a_job_runs_once() {
    let server = Server::start();
    let url = &*server.url();
    let often = ["--url", url, "--job", "backup", "--every", "3000d", "--verbose", "--"];
    let ran = run("once", &[&often[..], &["echo", "ran"]].concat());
    assert_eq!(ran, (Some(0), "ran\n".into(), String::new()));
    let (code, said, why) = run("once", &[&often[..], &["echo", "ran"]].concat());
    assert_eq!((code, &*said), (Some(0), ""));
    assert!(why.starts_with("once: this tick is taken; the next is in "), "{why}");
    let missed =
        ["--url", url, "--job", "backup", "--every", "3000d", "--missed", "9", "--", "true"];
    assert_eq!(run("once", &missed).0, Some(9));
}

#[test]
fn bad_usage_is_told_in_a_line() {
    for (arguments, part) in [
        (&["--wait", "5", "a", "--", "true"][..], "`5` is no time"),
        (&["--wait", "", "a", "--", "true"], "`` is no time"),
        (&["--lease", "9ms", "--memory", "a", "--", "true"], "a lease needs ten milliseconds"),
        (&["--memory", "", "--", "true"], "a name needs a character"),
        (&["--url", "nonsense", "a", "--", "true"], "the address is none"),
        (&["--prefix", "", "a", "--", "true"], "the prefix: a name needs a character"),
    ] {
        let (code, said, why) = run("lock", arguments);
        assert_eq!((code, &*said), (Some(2), ""), "{arguments:?}: {why}");
        assert!(why.contains(part), "{arguments:?}: {why}");
    }
    let (code, _, why) = run("lock", &["--url", "redis://127.0.0.1:1/", "a", "--", "true"]);
    assert_eq!(code, Some(69));
    assert!(why.starts_with("lock: the store cannot be reached: "), "{why}");
    assert_eq!(run("lock", &["--memory", "a", "--", "/nowhere/at/all"]).0, Some(127));
    assert_eq!(run("lock", &["--memory", "a", "--", "/"]).0, Some(126));
    assert_eq!(run("once", &["--memory", "--job", "a", "--every", "0", "--", "true"]).0, Some(2));
    for name in ["lock", "once"] {
        let (code, help, _) = run(name, &["--help"]);
        assert_eq!(code, Some(0));
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }
}
