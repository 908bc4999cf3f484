//! The program without a terminal: its text, its JSON, its exit codes.

use std::process::{Command, Output};

use turnwise::{Actor, System};
use turnwise_top::{Snapshot, serve_at};

fn top(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_turnwise-top")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_table_of_a_live_program_is_printed_once() {
    let system = System::new();
    let _log = system.spawn(Actor::builder().name("log").counted(true), 0).unwrap();
    let server = serve_at(&system, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = server.address().to_string();
    let table = text(&top(&[&address, "--once", "--every", "100"]));
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("program-") && lines[0].contains("1 actors, 0 busy"), "{table}");
    assert!(lines[2].starts_with("actor  state"), "{table}");
    assert!(lines[3].starts_with("log    idle"), "{table}");
    assert_eq!(lines.len(), 4);
    let json = text(&top(&[&address, "--once", "--json"]));
    assert_eq!(Snapshot::from_json(&json).unwrap().actors[0].name, "log");
}

#[test]
fn the_demo_has_actors_in_all_states_and_a_ring() {
    let table = text(&top(&["--demo", "--once", "--every", "100"]));
    for state in [" idle ", " scheduled ", " running ", " waiting ", "scheduled, closed", "ring"] {
        assert!(table.contains(state), "no{state}in\n{table}");
    }
    for stored in ["mail/ada  running, 1 failed", "mail/bob  idle, 2 delayed", ", 1 dead letter\n"]
    {
        assert!(table.contains(stored), "no {stored} in\n{table}");
    }
    let letter = "mail/ada: dead letter order 7 (send), attempts 3: no such address";
    assert_eq!(table.lines().last(), Some(letter));
}

#[test]
fn mistakes_have_a_line_and_a_code() {
    let codes = [
        (2, &["--nonsense"][..], "turnwise-top --help"),
        (2, &["--demo", "/some/socket"], "turnwise-top --help"),
        (2, &["--every", "5"], "turnwise-top --help"),
        // The output of a test is no terminal.
        (2, &["--demo"], "use --once or --json"),
        (69, &["/no/such/socket", "--once"], "cannot be reached: No such file"),
        (69, &["127.0.0.1:1", "--once"], "cannot be reached: Connection refused"),
    ];
    for (code, arguments, hint) in codes {
        let output = top(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("turnwise-top: ") && said.contains(hint), "{said}");
        assert!(output.stdout.is_empty());
    }
}
