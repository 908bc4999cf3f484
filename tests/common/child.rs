//! Scenarios that may crash or hang run in a process of their own.
//!
//! The test program starts itself again for the one test, with [`VARIABLE`] set to its name. The
//! child runs the scenario and prints a mark at the end; its parent kills it at the limit.

#![allow(dead_code)]

use std::io::Read;
use std::panic::Location;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The variable that names the scenario of a child.
const VARIABLE: &str = "TURNWISE_SCENARIO";

/// Runs the scenario of the test called `name` in a child process.
///
/// Fails if the child does not reach the end of the scenario within `limit`: by a panic, a signal,
/// an early exit or a hang. The failure shows the first panic that the child printed.
#[track_caller]
pub(crate) fn in_child(name: &str, limit: Duration, scenario: impl FnOnce()) {
    in_child_with(name, limit, &[], scenario);
}

/// [`in_child`] with environment variables of the child.
#[track_caller]
pub(crate) fn in_child_with(
    name: &str,
    limit: Duration,
    variables: &[(&str, &str)],
    scenario: impl FnOnce(),
) {
    let name = &in_module(name, Location::caller());
    if std::env::var(VARIABLE).is_ok_and(|scenario| scenario == *name) {
        scenario();
        println!("{}", mark(name));
        return;
    }
    let program = std::env::current_exe().expect("the test program has a path");
    let mut child = Command::new(program)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, name)
        .env("RUST_BACKTRACE", "0")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test program starts again");
    let (tell, told) = mpsc::channel();
    let stdout = child.stdout.take().map(|pipe| read_all(pipe, tell.clone()));
    let stderr = child.stderr.take().map(|pipe| read_all(pipe, tell));
    let in_time = ends_within(&mut child, &told, limit);
    if !in_time {
        child.kill().expect("a child that has not ended is killed");
    }
    let status = child.wait().expect("a child ends");
    let text = |reader: Option<thread::JoinHandle<String>>| reader.map(|r| r.join().unwrap());
    let (stdout, stderr) = (text(stdout).unwrap_or_default(), text(stderr).unwrap_or_default());
    let done = stdout.contains(&mark(name));
    if in_time && status.success() && done {
        return;
    }
    let fate = match (in_time, done) {
        (false, true) => format!("does not end within {limit:?}, after the scenario"),
        (false, false) => format!("hangs: not done within {limit:?}"),
        (true, true) => format!("ends with {status} after the scenario"),
        (true, false) => format!("ends with {status} before the end of the scenario"),
    };
    let lines: Vec<_> = stderr.lines().filter(|line| !line.is_empty()).collect();
    let first = lines.iter().position(|line| line.contains("panicked at")).unwrap_or(0);
    let lines = &lines[first..lines.len().min(first + 6)];
    panic!("the child of {name} {fate}\n  {}", lines.join("\n  "));
}

/// Returns the name by which the test program knows a test of that file: each file is a module of
/// its own, or the program.
fn in_module(name: &str, test: &Location<'_>) -> String {
    let file = Path::new(test.file());
    let is_program = file.parent().is_some_and(|folder| folder.ends_with("tests"));
    let module = file.file_stem().and_then(|stem| stem.to_str()).expect("a file has a name");
    if is_program { name.to_owned() } else { format!("{module}::{name}") }
}

fn mark(name: &str) -> String {
    format!("scenario {name} is done")
}

/// True if both pipes end, and the process with them, within the limit.
fn ends_within(child: &mut Child, told: &mpsc::Receiver<()>, limit: Duration) -> bool {
    let begun = Instant::now();
    for _ in 0..2 {
        if told.recv_timeout(limit.saturating_sub(begun.elapsed())).is_err() {
            return false;
        }
    }
    // The pipes close shortly before the process ends.
    while begun.elapsed() < limit {
        if child.try_wait().expect("a child can be looked at").is_some() {
            return true;
        }
        thread::yield_now();
    }
    false
}

fn read_all(
    mut pipe: impl Read + Send + 'static,
    tell: mpsc::Sender<()>,
) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe has no further output.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = tell.send(());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
