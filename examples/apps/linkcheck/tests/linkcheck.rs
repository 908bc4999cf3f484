//! The program as a process: its output, and its exit codes.

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Folder, PAGES};
use serde_json::Value;

fn linkcheck(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linkcheck"));
    command.arg(folder).args(args).stdin(Stdio::null());
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    linkcheck(folder, args).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

fn text(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn a_folder_without_dead_links_is_good() {
    let folder = Folder::book();
    for args in [&[][..], &["--simulate"]] {
        let output = run(folder.path(), args);
        assert_eq!(code(&output), 0, "{output:?}");
        assert!(output.stderr.is_empty(), "no bar where no terminal is: {output:?}");
        assert!(text(&output).contains("at most 1 request at once"), "{output:?}");
    }
}

#[test]
fn dead_links_are_told_with_their_pages_and_lines_fit() {
    let folder = Folder::book();
    let fits = |text: &str| text.lines().all(|line| line.chars().count() <= 80);
    let help = run(folder.path(), &["--help"]);
    assert!(code(&help) == 0 && fits(text(&help)), "{}", text(&help));
    let long = "very-".repeat(30);
    folder.file(
        "chapter-0/bad.html",
        format!("<a href=gone.html>1</a><a href='bell\x07.html'>2</a><a href='{long}.html'>3</a>"),
    );
    for args in [&["--plant", "6"][..], &["--plant", "6", "--simulate"]] {
        let output = run(folder.path(), args);
        assert_eq!(code(&output), 1, "{output:?}");
        let text = text(&output);
        assert!(text.contains("\nchapter-0/bad.html\n") || text.starts_with("chapter-0/bad.html"));
        assert!(text.contains("\n  -> gone.html: 404 Not Found\n"), "{text}");
        assert!(text.contains("\n  -> bell?.html: 404 Not Found\n"), "{text}");
        assert!(text.contains("…\n     404 Not Found\n"), "{text}");
        assert!(text.contains("\n6 dead links planted, 6 found\n"), "{text}");
        assert!(fits(text), "{text}");
    }
}

#[test]
fn json_is_one_object_whose_counts_add_up() {
    let folder = Folder::book();
    let output = run(folder.path(), &["--json", "--plant", "4", "--errors", "50"]);
    assert_eq!(code(&output), 1);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sum = |tally: &Value| -> u64 {
        ["ok", "dead", "gave_up", "elsewhere"]
            .map(|part| tally[part].as_u64().unwrap())
            .iter()
            .sum()
    };
    assert_eq!(report["pages"], 3 * PAGES);
    assert_eq!(report["pages"], sum(&report["visited"]));
    assert_eq!(report["links"], sum(&report["followed"]));
    assert_eq!(report["dead"].as_array().unwrap().len(), 4);
    assert_eq!(report["followed"]["dead"], 4);
    assert_eq!((&report["planted"], &report["planted_found"]), (&4.into(), &4.into()));
    assert_eq!((&report["at_once"], &report["adds_up"]), (&1.into(), &true.into()));
    assert!(report["again"].as_u64().unwrap() > 0);
}

#[test]
fn simulations_are_the_same_to_the_byte() {
    let folder = Folder::book();
    for more in [&[][..], &["--json"]] {
        let said = |seed| {
            let args = ["--simulate", "--errors", "30", "--plant", "3", "--seed", seed];
            run(folder.path(), &[&args, more].concat())
        };
        assert_eq!(said("5"), said("5"));
        assert_ne!(said("5").stdout, said("6").stdout);
    }
}

#[test]
fn wrong_input_is_said_and_ends_with_two() {
    let folder = Folder::book();
    let empty = Folder::new();
    let fails = |folder: &Path, args: &[&str], says: &str| {
        let output = run(folder, args);
        assert_eq!(code(&output), 2, "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(says) && !said.contains("panicked"), "{args:?}: {said}");
    };
    for way in [&[][..], &["--simulate"]] {
        fails(&folder.path().join("nowhere"), way, "No such file");
        fails(&folder.path().join("static/style.css"), way, "no folder");
        fails(empty.path(), way, "no page");
        fails(Path::new(""), way, "");
        fails(folder.path(), &[&["--mute", "5"], way].concat(), "there are 4 hosts");
    }
    for (flag, value, says) in [
        ("--hosts", "0", "from 1 to 256"),
        ("--hosts", "257", "from 1 to 256"),
        ("--errors", "101", "101"),
        ("--errors", "-1", "-1"),
        ("--tries", "0", "0"),
        ("--limit", "0s", "some time"),
        ("--within", "0ms", "some time"),
        ("--pause", "5", "units"),
        ("--pause", "s", "number"),
        ("--delay", "25h", "a day"),
        ("--delay", "18446744073709551615h", "a day"),
        ("--delay", "99999999999999999999s", "number"),
        ("--backoff", "1.5s", "units"),
        ("--plant", "1000000", "from 0 to 100000"),
        ("--seed", "x", "x"),
        ("--nothing", "1", "--nothing"),
    ] {
        fails(folder.path(), &[flag, value], says);
    }
    let none = Command::new(env!("CARGO_BIN_EXE_linkcheck")).output().unwrap();
    assert_eq!(code(&none), 2);
}

#[test]
fn no_time_and_much_time_are_times() {
    let folder = Folder::book();
    let none = ["--pause", "0s", "--backoff", "0us", "--delay", "0ms"];
    for way in [&[][..], &["--simulate"]] {
        assert_eq!(code(&run(folder.path(), &[&none, way].concat())), 0);
    }
    let day = ["--pause", "24h", "--backoff", "24h", "--delay", "24h", "--limit", "24h"];
    let output = run(folder.path(), &[&day[..], &["--simulate", "--within", "24h"]].concat());
    assert_eq!(code(&output), 1);
    assert!(text(&output).contains("OUT OF TIME"), "{output:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    let folder = Folder::book();
    for args in [&["--simulate"][..], &["--json"], &["--help"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = linkcheck(folder.path(), args).stdout(full).output().unwrap();
        assert_eq!(code(&output), 1, "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{output:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn control_c_ends_it_with_what_was_found() {
    let folder = Folder::book();
    let args = ["--hosts", "3", "--mute", "1", "--limit", "1h"];
    let mut command = linkcheck(folder.path(), &args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // Waits until the program catches the signal.
    while !catches_interrupt(child.id()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "never");
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        thread::sleep(Duration::from_millis(5));
    }
    let killed = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{output:?}");
    assert!(text(&output).contains("\nINTERRUPTED"), "{output:?}");
    assert!(!text(&output).contains("A BUG"), "{output:?}");
}

#[cfg(target_os = "linux")]
fn catches_interrupt(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    // Bit 0 is signal 1; SIGINT is 2.
    u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
}
