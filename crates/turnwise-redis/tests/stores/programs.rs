//! The programs `lock`, `once`, `queue`, `raffle-cluster` and `leaderboard`, from outside.

use std::process::{Command, Output, Stdio};

use crate::support::{Server, signal_to, until};
use turnwise_redis::Remote;

fn program(name: &str) -> Command {
    let path = match name {
        "lock" => env!("CARGO_BIN_EXE_lock"),
        "queue" => env!("CARGO_BIN_EXE_queue"),
        "leaderboard" => env!("CARGO_BIN_EXE_leaderboard"),
        "raffle-cluster" => env!("CARGO_BIN_EXE_raffle-cluster"),
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

    // While one holds it, another one fails, and a third waits.
    let mut held = program("lock");
    let held = held.args(["--url", url, "a", "--", "sh", "-c", "echo in; read x"]);
    let mut held = held.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let key = "BITCOUNT turnwise:{lock:a} 0 7";
    until("it is held", || server.ask(key) != ":0");
    let busy = run("lock", &["--url", url, "--wait", "0", "a", "--", "true"]);
    let said = "lock: `a` was not granted: it is held, or waited for\n";
    assert_eq!(busy, (Some(75), String::new(), said.into()));
    let mut waits = program("lock");
    let waits =
        waits.args(["--url", url, "--wait", "20s", "a", "--", "printenv", "TURNWISE_FENCE"]);
    let waits = waits.stdout(Stdio::piped()).spawn().unwrap();
    until("it waits", || server.ask("ZCARD turnwise:{lock:a}:q") == ":1");
    drop(held.stdin.take());
    // `read` has reached the end of its input.
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
    // A command that ignores the signal is killed.
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
    until("it is held", || server.ask("BITCOUNT turnwise:{lock:a} 0 7") != ":0");
    signal_to(&lock, nix::sys::signal::Signal::SIGTERM);
    // 128 and the signal, which its command has got.
    assert_eq!(lock.wait().unwrap().code(), Some(143));
    assert_eq!(server.ask("BITCOUNT turnwise:{lock:a} 0 7"), ":0");
}

#[test]
fn a_program_that_waits_for_its_lock_can_be_ended() {
    let server = Server::start();
    let url = &*server.url();
    let mut held = program("lock");
    let mut held = held.args(["--url", url, "a", "--", "sleep", "1000"]).spawn().unwrap();
    until("it is held", || server.ask("BITCOUNT turnwise:{lock:a} 0 7") != ":0");
    let mut waits = program("lock");
    let mut waits = waits.args(["--url", url, "a", "--", "true"]).spawn().unwrap();
    until("it waits", || server.ask("ZCARD turnwise:{lock:a}:q") == ":1");
    signal_to(&waits, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(waits.wait().unwrap().code(), Some(130));
    signal_to(&held, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(held.wait().unwrap().code(), Some(143));
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
    assert!(why.contains(" is taken; the next is in "), "{why}");
    let missed =
        ["--url", url, "--job", "backup", "--every", "3000d", "--missed", "9", "--", "true"];
    assert_eq!(run("once", &missed).0, Some(9));
}

/// Returns the number of a line of the table, and the text behind it.
fn line<'a>(table: &'a str, what: &str) -> (u64, &'a str) {
    let line = table.lines().find_map(|line| line.strip_prefix(what)).unwrap().trim();
    let (number, more) = line.split_once(' ').unwrap_or((line, ""));
    (number.parse().unwrap(), more.trim())
}

#[test]
fn a_raffle_over_processes_that_are_killed_is_exact() {
    let server = Server::start();
    let url = server.url();
    for form in [&["--memory"][..], &["--url", &url], &[]] {
        let small = ["--processes", "4", "--requests", "30", "--seats", "20", "--lease", "300ms"];
        let (code, table, why) = run("raffle-cluster", &[form, &small].concat());
        assert_eq!((code, &*why), (Some(0), ""), "{form:?}: {table}");
        assert_eq!(line(&table, "processes"), (4, "2 of them killed"));
        assert_eq!(line(&table, "answered").0, 60);
        assert_eq!(line(&table, "rows"), (20, "for 20 seats"));
        assert!(line(&table, "let in").0 <= 20);
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }
    // One seat, which the doomed processes have at first.
    let few = ["--memory", "--processes", "3", "--requests", "5", "--seats", "1"];
    let (code, table, why) = run("raffle-cluster", &[&few[..], &["--lease", "100ms"]].concat());
    assert_eq!((code, &*why, line(&table, "rows").0), (Some(0), "", 1), "{table}");
    // More seats than applicants.
    let many = ["--memory", "--processes", "2", "--requests", "10", "--kill", "0"];
    let (code, table, why) = run("raffle-cluster", &many);
    assert_eq!((code, &*why, line(&table, "rows").0), (Some(0), "", 20), "{table}");
}

#[test]
fn queues_run_commands_in_their_order() {
    let server = Server::start();
    let url = server.url();
    let queue = |arguments: &[&str]| run("queue", &[&["--url", &*url], arguments].concat());
    let push = |id: &str, script: &str| {
        let (code, said, why) = queue(&["push", "a", "--id", id, "--", "sh", "-c", script]);
        assert_eq!((code, said.trim(), &*why), (Some(0), id, ""));
    };
    let fails = "fails\tnow";
    push("one", "echo one");
    push(fails, "exit 7");
    push("two", "echo two");
    push("two", "echo two");
    assert_eq!(queue(&["outcome", "a", "two"]).1, "waits behind 2\n");
    let quick = ["--attempts", "2", "--pause", "10ms"];
    let (code, said, why) = queue(&[&quick[..], &["drain", "a"]].concat());
    assert_eq!((code, &*said), (Some(0), "one\ntwo\n2 done\n"), "{why}");
    assert_eq!(queue(&["outcome", "a", "two"]).0, Some(0));
    let (code, said, _) = queue(&["outcome", "a", fails]);
    assert_eq!((code, &*said), (Some(1), "dead: exit status: 7\n"));
    let dead = "a\tfails\\tnow\t2\texit status: 7\t[\"sh\",\"-c\",\"exit 7\"]\n";
    assert_eq!(queue(&["dead"]), (Some(0), dead.to_owned(), String::new()));
    assert_eq!(queue(&["requeue", "a", fails]).0, Some(0));
    assert_eq!(queue(&["requeue", "a", fails]).0, Some(1));
    // Workers find it, and others that arrive while they work.
    let mut work = program("queue");
    let work = work.args(["--url", &*url]).args(quick).args(["work", "-a", "2"]);
    let mut work = work.stdout(Stdio::null()).spawn().unwrap();
    until("it is dead again", || queue(&["dead"]).1 == dead);
    push("three", "true");
    until("it is done", || queue(&["outcome", "a", "three"]).0 == Some(0));
    signal_to(&work, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(work.wait().unwrap().code(), Some(0));
    assert_eq!(queue(&["discard", "a", fails]).0, Some(0));
    assert_eq!(queue(&["dead"]).1, "");
    // Delayed commands wait for their time, and can be withdrawn before.
    let later = ["push", "b", "--id", "later", "--after", "1h", "--", "true"];
    assert_eq!(queue(&later).1, "later\n");
    let (code, said, _) = queue(&["outcome", "b", "later"]);
    assert!(code == Some(75) && said.starts_with("is delayed by "), "{said}");
    assert_eq!(queue(&["drain", "b"]).1, "0 done\n");
    assert_eq!(queue(&["withdraw", "b", "later"]).0, Some(0));
    assert_eq!(queue(&["withdraw", "b", "never"]).0, Some(1));
    assert_eq!(queue(&["outcome", "b", "later"]).1, "withdrawn\n");
    let soon = ["push", "b", "--id", "soon", "--after", "50ms", "--", "echo", "soon"];
    assert_eq!(queue(&soon).1, "soon\n");
    until("its time has come", || queue(&["drain", "b"]).1 == "soon\n1 done\n");
    // A queue that another process drains is not done.
    assert_eq!(queue(&["push", "c", "--id", "long", "--", "cat"]).0, Some(0));
    let mut drains = program("queue");
    let drains = drains.args(["--url", &*url, "drain", "c"]).stdin(Stdio::piped());
    let mut drains = drains.stdout(Stdio::null()).spawn().unwrap();
    until("it runs", || queue(&["outcome", "c", "long"]).1 == "runs, attempt 1\n");
    assert_eq!(queue(&["drain", "c"]), (Some(75), "0 done\n".to_owned(), String::new()));
    drop(drains.stdin.take());
    assert_eq!(drains.wait().unwrap().code(), Some(0));
    assert_eq!(queue(&["drain", "c"]).0, Some(0));
    // The same in a file.
    #[cfg(feature = "sqlite")]
    {
        let file = crate::support::world::File::new();
        let path = file.path().display().to_string();
        let queue = |arguments: &[&str]| run("queue", &[&["--file", &*path], arguments].concat());
        assert_eq!(queue(&["push", "a", "--id", "one", "--", "echo", "1"]).1, "one\n");
        assert_eq!(queue(&["drain", "a"]).1, "1\n1 done\n");
        assert_eq!(queue(&["outcome", "a", "one"]).0, Some(0));
    }
    // Wrong input.
    for arguments in [&["push", "", "--", "true"][..], &["push", "a"], &["--attempts", "0", "dead"]]
    {
        let (code, said, why) = queue(arguments);
        assert_eq!((code, &*said, why.lines().count()), (Some(2), "", 1), "{arguments:?}: {why}");
    }
    let nobody = run("queue", &["--url", "redis://127.0.0.1:1/", "dead"]);
    assert_eq!(nobody.0, Some(69), "{}", nobody.2);
    // A supervisor without a command is the program itself.
    let supervised = program("lock").env("TURNWISE_SUPERVISED", "1 1").output().unwrap();
    assert_eq!(supervised.status.code(), Some(2), "{supervised:?}");
}

#[test]
fn a_leaderboard_whose_hosts_are_killed_is_exact() {
    let server = Server::start();
    let url = server.url();
    let mut forms = vec![vec!["--memory"], vec!["--url", &url], vec![]];
    #[cfg(feature = "sqlite")]
    let file = crate::support::world::File::new();
    #[cfg(feature = "sqlite")]
    let path = file.path().display().to_string();
    #[cfg(feature = "sqlite")]
    forms.push(vec!["--file", &path]);
    for form in forms {
        let small = ["--requests", "40", "--kill", "6", "--boards", "2", "--lease", "300ms"];
        let (code, table, why) = run("leaderboard", &[&form[..], &small].concat());
        assert_eq!((code, &*why), (Some(0), ""), "{form:?}: {table}");
        assert_eq!(line(&table, "requests"), (40, "for 2 boards"));
        assert!((3..=6).contains(&line(&table, "killed").0), "{table}");
        assert_eq!(line(&table, "answered"), (40, "by polling"));
        assert_eq!(line(&table, "applied"), (40, "with 220 points"));
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }
}

#[test]
fn a_raffle_that_is_interrupted_ends_its_processes() {
    let server = Server::start();
    let long = ["--url", &*server.url(), "--hold", "1d", "--seats", "9", "--kill", "0"];
    let mut raffle = program("raffle-cluster");
    let mut raffle = raffle.args(long).args(["--name", "long"]).spawn().unwrap();
    let reserved = "ZCARD turnwise:{admission:long}:u";
    until("all seats are taken or reserved", || server.ask(reserved) != ":0");
    signal_to(&raffle, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(raffle.wait().unwrap().code(), Some(130));
    // They are gone, so the seats are no longer kept.
    let desk = Remote::connect(&server.url()).unwrap().admission("long", 9).unwrap();
    until("the seats come back", || desk.status().wait().unwrap().reserved == 0);
}

#[test]
fn bad_usage_is_told_in_a_line() {
    for (arguments, part) in [
        (&["--wait", "5", "a", "--", "true"][..], "`5` is not a duration"),
        (&["--wait", "", "a", "--", "true"], "`` is not a duration"),
        (
            &["--lease", "9ms", "--memory", "a", "--", "true"],
            "a lease must be at least ten milliseconds",
        ),
        (&["--memory", "", "--", "true"], "a name must not be empty"),
        (&["--url", "nonsense", "a", "--", "true"], "the address is invalid"),
        (&["--prefix", "", "a", "--", "true"], "invalid prefix: a name must not be empty"),
    ] {
        let (code, said, why) = run("lock", arguments);
        assert_eq!((code, &*said), (Some(2), ""), "{arguments:?}: {why}");
        assert!(why.contains(part), "{arguments:?}: {why}");
    }
    for (arguments, part) in [
        (&["--seats", "0"][..], "0 is not in 1..=1000000"),
        (&["--kill", "12"], "one must survive"),
        (&["--lease", "9ms"], "a lease must be at least ten milliseconds"),
        (&["--hold", "5"], "`5` is not a duration"),
        (&["--memory", "--name", ""], "a name must not be empty"),
        (&["--nonsense"], "unexpected argument"),
    ] {
        let (code, said, why) = run("raffle-cluster", arguments);
        assert_eq!((code, &*said, why.lines().count()), (Some(2), "", 1), "{arguments:?}: {why}");
        assert!(why.contains(part), "{arguments:?}: {why}");
    }
    for (arguments, part) in [
        (&["--budget", "0"][..], "the budget of a host must not be zero"),
        (&["--requests", "0"], "0 is not in 1..=100000"),
        (&["--lease", "9ms"], "a lease must be at least ten milliseconds"),
        (&["--work", "5"], "`5` is not a duration"),
        (&["--nonsense"], "unexpected argument"),
    ] {
        let (code, said, why) = run("leaderboard", arguments);
        assert_eq!((code, &*said, why.lines().count()), (Some(2), "", 1), "{arguments:?}: {why}");
        assert!(why.contains(part), "{arguments:?}: {why}");
    }
    let (code, _, why) = run("lock", &["--url", "redis://127.0.0.1:1/", "a", "--", "true"]);
    assert_eq!(code, Some(69));
    assert!(why.starts_with("lock: the store cannot be reached: "), "{why}");
    assert_eq!(run("lock", &["--memory", "a", "--", "/nowhere/at/all"]).0, Some(127));
    assert_eq!(run("lock", &["--memory", "a", "--", "/"]).0, Some(126));
    assert_eq!(run("once", &["--memory", "--job", "a", "--every", "0", "--", "true"]).0, Some(2));
    for name in ["lock", "once", "queue", "raffle-cluster", "leaderboard"] {
        let (code, help, _) = run(name, &["--help"]);
        assert_eq!(code, Some(0));
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }
}

#[test]
fn help_does_not_print_the_password() {
    for name in ["lock", "once", "queue", "raffle-cluster", "leaderboard"] {
        let mut asked = program(name);
        let asked = asked.env("REDIS_URL", "redis://:secret@127.0.0.1/").arg("--help");
        let help = String::from_utf8(asked.output().unwrap().stdout).unwrap();
        assert!(help.contains("REDIS_URL"), "{help}");
        assert!(!help.contains("secret"), "{help}");
    }
}

/// True if a process has this in its command line.
fn runs(what: &str) -> bool {
    let all = std::fs::read_dir("/proc").unwrap().map_while(Result::ok);
    all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).any(|line| {
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.trim() == format!("sleep {what}")
    })
}

#[test]
fn lock_that_is_lost_ends_all_of_its_command() {
    let server = Server::start();
    // A duration that no other command sleeps.
    let long = (1_000_000 + u64::from(std::process::id())).to_string();
    let script = format!("sleep {long}; true");
    let given = ["--url", &*server.url(), "--lease", "300ms", "a", "--", "sh", "-c", &script];
    let (code, _, said) = run("lock", &given);
    assert_eq!((code, &*said), (Some(70), "lock: the lock was lost while the command ran\n"));
    assert!(!runs(&long));
    // Also commands that ignore the signal, and those that outlive the first one.
    let deaf = format!("trap '' TERM; sleep {long} & exec sleep {long}");
    let given = [
        "--url",
        &*server.url(),
        "--lease",
        "300ms",
        "--grace",
        "50ms",
        "a",
        "--",
        "sh",
        "-c",
        &deaf,
    ];
    assert_eq!(run("lock", &given).0, Some(70));
    until("it is gone", || !runs(&long));
}

#[test]
fn lock_that_is_killed_takes_its_command_along() {
    let server = Server::start();
    let long = (2_000_000 + u64::from(std::process::id())).to_string();
    let script = format!("sleep {long}; true");
    let mut lock = program("lock");
    let given = ["--url", &*server.url(), "--grace", "100ms", "a", "--", "sh", "-c", &script];
    let mut lock = lock.args(given).spawn().unwrap();
    until("it runs", || runs(&long));
    lock.kill().unwrap();
    lock.wait().unwrap();
    until("it is gone", || !runs(&long));
}
