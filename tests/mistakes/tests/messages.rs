//! The compiler's message for each mistake, word for word.
//!
//! ```text
//! cargo test -p mistakes
//! TRYBUILD=overwrite cargo test -p mistakes     writes the current messages
//! ```

use std::process::Command;

/// The compiler of the `.stderr` files. Others have other messages.
const COMPILER: &str = "rustc 1.95.0";

#[test]
fn each_case_is_named_once() {
    let cases = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/cases")).unwrap();
    let mut cases: Vec<_> = cases.map(|case| case.unwrap().path()).collect();
    cases.retain(|case| case.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<_> = cases.iter().map(|case| case.file_stem().unwrap()).collect();
    names.sort();
    assert_eq!(names, mistakes::CASES);
}

#[test]
fn each_mistake_is_told() {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    if !version.starts_with(COMPILER) {
        // The examples of this package check that they fail.
        println!("not compared: the words are those of {COMPILER}, this is {version}");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("cases/*.rs");
}
