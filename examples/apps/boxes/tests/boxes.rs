//! The program, with real processes.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("boxes-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn boxes(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boxes"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for the end of the program. Fails after two minutes.
fn ended(mut child: Child) -> Output {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn run(args: &[&str]) -> Output {
    ended(boxes(args).spawn().unwrap())
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn counts(report: &Value) -> [u64; 5] {
    let parts = ["done", "failed", "killed", "not_started"].map(|part| report[part].as_u64());
    let [done, failed, killed, not_started] = parts.map(Option::unwrap);
    assert_eq!(report["jobs"].as_u64().unwrap(), done + failed + killed + not_started);
    [done, failed, killed, not_started, report["dirty"].as_u64().unwrap()]
}

fn until(so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if the process runs whose number is in this file. One that was not reaped does not.
fn runs(file: &str) -> bool {
    let pid = fs::read_to_string(file).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(name).arg(child.id().to_string()).status().unwrap();
    assert!(sent.success());
}

#[test]
fn all_jobs_have_a_clean_box_of_their_own() {
    let folder = Folder::new();
    let mut text = String::from("# a comment\n\n");
    for job in 0..60 {
        // Each job checks for others, works, and checks again.
        text += &format!(
            "test -z \"$(ls -A)\" || exit 99; echo {job} > mine-{job}; sleep 0.01; test \"$(ls)\" = mine-{job}\n"
        );
    }
    let jobs = folder.file("jobs", text);
    let output = run(&["--boxes", "4", "--lease", "60s", "--json", &jobs]);
    let report = json(&output);
    assert_eq!(counts(&report), [60, 0, 0, 0, 0], "{output:?}");
    assert_eq!((report["shared"].as_u64(), code(&output)), (Some(0), 0));
}

#[test]
fn crashes_and_hangs_are_told_apart() {
    let folder = Folder::new();
    let (one, two) = (folder.path("one"), folder.path("two"));
    let text = format!(
        "sleep 1000 & echo $! > {one}; touch dirt; sleep 1000\n\
         trap '' TERM INT HUP; echo $$ > {two}; while :; do sleep 1; done\n\
         true\nexit 3\nkill -SEGV $$\nno-such-command\necho out; echo err >&2\n"
    );
    let (jobs, logs) = (folder.file("jobs", text), folder.path("logs"));
    let root = folder.path("root");
    let output =
        run(&["--boxes", "3", "--lease", "8s", "--json", "--root", &root, "--logs", &logs, &jobs]);
    assert_eq!(counts(&json(&output)), [2, 3, 2, 0, 0], "{output:?}");
    assert_eq!(code(&output), 1);
    // The processes that a job has started end with it.
    until(|| !runs(&one) && !runs(&two));
    assert_eq!(fs::read_to_string(Path::new(&logs).join("job-7.log")).unwrap(), "out\nerr\n");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "the lock alone");
}

#[test]
fn what_is_left_in_the_background_ends() {
    let folder = Folder::new();
    let pid = folder.path("pid");
    let jobs = folder.file("jobs", format!("sleep 1000 & echo $! > {pid}\n"));
    let output = run(&["--lease", "60s", &jobs]);
    assert_eq!(code(&output), 0, "{output:?}");
    until(|| !runs(&pid));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("1 jobs = 1 done + 0 failed + 0 killed\n8 boxes: 0 shared"), "{said}");
}

#[test]
fn the_standard_input_is_a_file_too() {
    let mut child = boxes(&["--json", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"true\ntrue").unwrap();
    let output = ended(child);
    assert_eq!((counts(&json(&output)), code(&output)), ([2, 0, 0, 0, 0], 0));
}

#[test]
fn an_interrupt_ends_all_and_cleans_up() {
    for name in ["-INT", "-TERM"] {
        let folder = Folder::new();
        let (pid, root) = (folder.path("pid"), folder.path("root"));
        let text = format!("sleep 1000 & echo $! > {pid}.new; mv {pid}.new {pid}; wait\ntrue\n");
        let jobs = folder.file("jobs", text);
        let args = ["--boxes", "1", "--lease", "1h", "--json", "--root", &root, &jobs];
        let child = boxes(&args).spawn().unwrap();
        until(|| Path::new(&pid).exists());
        signal(&child, name);
        let output = ended(child);
        assert_eq!((code(&output), counts(&json(&output))), (130, [0, 0, 1, 1, 0]), "{output:?}");
        until(|| !runs(&pid));
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "the lock alone");
    }
}

#[test]
fn a_run_that_was_killed_leaves_nothing() {
    let folder = Folder::new();
    let (seen, root) = (folder.path("seen"), folder.path("root"));
    let slow = folder.file("slow", format!("touch dirt {seen}; sleep 3\n"));
    let jobs = folder.file("jobs", "test -z \"$(ls -A)\"\n".repeat(9));
    let child = boxes(&["--boxes", "2", "--root", &root, &slow]).spawn().unwrap();
    until(|| Path::new(&seen).exists());
    // No second run may use the folder meanwhile.
    let second = run(&["--boxes", "2", "--root", &root, &jobs]);
    assert_eq!(code(&second), 2);
    assert!(String::from_utf8(second.stderr).unwrap().contains("another run uses it"));
    signal(&child, "-KILL");
    assert_eq!(ended(child).status.signal(), Some(9));
    assert!(Path::new(&root).join("box-0.taken").exists(), "it is left dirty");
    let output = run(&["--boxes", "2", "--json", "--root", &root, &jobs]);
    assert_eq!((code(&output), counts(&json(&output))), (0, [9, 0, 0, 0, 0]), "{output:?}");
}

#[test]
fn a_box_that_cannot_be_cleaned_is_not_used() {
    let folder = Folder::new();
    let root = folder.path("root");
    // Puts a file in the place of the folder.
    let breaks = "d=$(pwd); cd ..; rmdir \"$d\"; touch \"$d\"\n";
    let jobs = folder.file("jobs", format!("{breaks}{}", "true\n".repeat(9)));
    let output = run(&["--boxes", "2", "--json", "--root", &root, &jobs]);
    let report = json(&output);
    assert_eq!((code(&output), counts(&report)), (1, [10, 0, 0, 0, 2]), "{output:?}");
    assert_eq!(report["quarantined"].as_u64(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("stays dirty"));
    // The last box: then the rest cannot be run, and no job waits forever.
    let root = folder.path("other");
    let output = run(&["--boxes", "1", "--json", "--root", &root, &jobs]);
    assert_eq!((code(&output), counts(&json(&output))), (1, [1, 0, 0, 9, 2]), "{output:?}");
}

#[test]
fn bad_input_is_named() {
    let folder = Folder::new();
    let jobs = folder.file("jobs", "true\n");
    let mine = folder.file("mine.txt", "x");
    let (empty, missing) = (folder.file("empty", ""), folder.path("missing"));
    let comments = folder.file("comments", "# none\n\n   \n");
    let binary = folder.file("binary", b"true\n\x7fELF\x00\x01\n");
    let long = folder.file("long", "x".repeat(100_001));
    let full = folder.0.to_str().unwrap().to_owned();
    let cases: &[(&[&str], &str)] = &[
        (&[], "required"),
        (&[&missing], "No such file"),
        (&[&empty], "there are no jobs in it"),
        (&[&comments], "there are no jobs in it"),
        (&[&full], "directory"),
        (&[&binary], "line 2 has a byte in it"),
        (&[&long], "line 1 is longer"),
        (&["--boxes", "0", &jobs], "at least one slot"),
        (&["--boxes", "1001", &jobs], "1000 boxes at most"),
        (&["--boxes", "x", &jobs], "--boxes"),
        (&["--lease", "0s", &jobs], "needs some time"),
        (&["--lease", "5", &jobs], "the units are"),
        (&["--lease", "99999999999999999h", &jobs], "too long"),
        (&["--lease", "99999999999999999999s", &jobs], "a number and a unit"),
        (&["--root", "/proc/none", &jobs], "/proc/none"),
        (&["--root", &full, &jobs], "something else in it"),
        (&["--root", &mine, &jobs], "mine.txt"),
        (&["--logs", &mine, &jobs], "mine.txt"),
    ];
    for (args, text) in cases {
        let output = run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(code(&output), 2, "{args:?}: {said}");
        assert!(said.contains(text), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    // Bytes that are not text are a command like any other: one that fails.
    let bytes = folder.file("bytes", b"\xff\xfe\xfd\n");
    assert_eq!(code(&run(&[&bytes])), 1);
    // The longest lease.
    let output = run(&["--lease", "18446744073709551615ms", &jobs]);
    assert_eq!(code(&output), 0, "{output:?}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    let jobs = folder.file("jobs", "true\n");
    for args in [&["--json", &jobs][..], &[&jobs], &["--sample", "3"], &["--help"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = ended(boxes(args).stdout(full).spawn().unwrap());
        assert_eq!(code(&output), 2, "{args:?}");
    }
}

#[test]
fn the_sample_is_what_it_says() {
    let output = run(&["--sample", "200"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, include_str!("../jobs.txt"));
    let jobs = || text.lines().filter(|line| !line.starts_with('#'));
    let count = |what: fn(&&str) -> bool| jobs().filter(what).count();
    assert_eq!(jobs().count(), 200);
    assert_eq!(count(|job| job.contains("exit 3") || job.contains("SEGV")), 20);
    assert_eq!(count(|job| job.contains("sleep 1000") || job.contains("while :")), 10);
}
