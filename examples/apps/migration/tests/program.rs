//! The program as a process.

use std::process::{Command, Output, Stdio};

fn program(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_migration"));
    program.args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn five_versions_agree_in_eighty_columns() {
    for arguments in [&[][..], &["--help"]] {
        let ran = program(arguments);
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(text(&ran.stderr), "");
        let wide = text(&ran.stdout).lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None);
    }
    let said = program(&[]).stdout;
    for library in ["turnwise", "kameo", "ractor", "xtra", "actix"] {
        assert!(text(&said).contains(&format!("  {library:<10}the same\n")), "{library}");
    }
}

#[test]
fn wrong_arguments_are_one_line_and_exit_2() {
    for arguments in [&["--json"][..], &["", "--help"], &["--help", "x"], &["a\nb"]] {
        let ran = program(arguments);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}");
        assert!(ran.stdout.is_empty());
        assert_eq!(text(&ran.stderr).lines().count(), 1, "{ran:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    for arguments in [&[][..], &["--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_migration"));
        let ran = program.args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(ran.status.code(), Some(1));
        assert!(text(&ran.stderr).contains("No space left on device"), "{ran:?}");
    }
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_migration"));
    let ran = program.stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(text(&ran.stderr), "");
}
