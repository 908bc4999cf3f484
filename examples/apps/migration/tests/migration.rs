//! All five versions write the same, and differ as the guide says.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use migration::differences::QUESTIONS;
use migration::lines::{SOURCES, lines};
use migration::report::{Version, versions};

const DAY: [(&str, &str); 21] = [
    ("reserve 2", "ticket 1"),
    ("reserve 9", "SoldOut"),
    ("reserve 3", "ticket 2"),
    ("release ticket 2", "Taken"),
    ("report", "4 free, 2 held, 0 paid"),
    ("confirm ticket 1, the bank pays", "paid"),
    ("reserve 9 meanwhile, within a limit", "TimedOut"),
    ("report meanwhile, without one", "4 free, 0 held, 2 paid"),
    ("reserve 1", "ticket 3"),
    ("confirm ticket 3, the bank does not", "Declined"),
    ("refund ticket 1", "2 seats"),
    ("report", "6 free, 0 held, 0 paid"),
    ("reserve 4", "ticket 4"),
    ("refund ticket 1 again: a panic", "Failed"),
    ("seen from outside", "Reopened"),
    ("report", "6 free, 0 held, 0 paid"),
    ("reserve 2", "ticket 1"),
    ("confirm ticket 1, closed meanwhile", "paid"),
    ("reserve 3, before that", "ticket 2"),
    ("in the end", "1 free, 3 held, 2 paid"),
    ("report after the end", "no answer"),
];

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the cells of the table that begins with this line, row by row.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let rows = text.lines().skip_while(|line| *line != heading).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        let row = row.trim_start_matches("| ").trim_end_matches(" |");
        row.split(" | ").map(str::to_owned).collect()
    };
    rows.map(cells).collect()
}

/// Runs all five versions once.
fn version(library: &str) -> &'static Version {
    static VERSIONS: LazyLock<[Version; 5]> = LazyLock::new(versions);
    VERSIONS.iter().find(|version| version.library == library).unwrap()
}

/// Checks the transcript, and the column of the guide's table.
fn writes_the_same_and_differs_as_the_guide_says(library: &str) {
    let version = version(library);
    let day: Vec<_> = DAY.map(|(asked, answered)| (asked, answered.to_owned())).into();
    assert_eq!(version.transcript, day);
    let guide = file("../../../docs/guide/20-migration.md");
    let heading = "| | turnwise | kameo | ractor | xtra | actix |";
    let column = heading.split(" | ").position(|name| name.trim_matches([' ', '|']) == library);
    let rows = table(&guide, heading);
    let questions: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(questions, QUESTIONS);
    for (row, cell) in rows.iter().zip(&version.cells) {
        assert_eq!(&row[column.unwrap()], cell, "{library}: {}", row[0]);
    }
}

#[test]
fn turnwise() {
    writes_the_same_and_differs_as_the_guide_says("turnwise");
}

#[test]
fn kameo() {
    writes_the_same_and_differs_as_the_guide_says("kameo");
}

#[test]
fn ractor() {
    writes_the_same_and_differs_as_the_guide_says("ractor");
}

#[test]
fn xtra() {
    writes_the_same_and_differs_as_the_guide_says("xtra");
}

#[test]
fn actix() {
    writes_the_same_and_differs_as_the_guide_says("actix");
}

#[test]
fn the_guide_names_the_versions_that_are_built() {
    let (guide, lock) = (file("../../../docs/guide/20-migration.md"), file("../../../Cargo.lock"));
    for library in ["kameo", "ractor", "xtra", "actix"] {
        let (_, package) = lock.split_once(&format!("name = \"{library}\"\nversion = \"")).unwrap();
        let (version, _) = package.split_once('"').unwrap();
        assert!(guide.contains(&format!("{library} {version}")), "{library} {version}");
    }
}

#[test]
fn lines_of_code_are_neither_blank_nor_comments() {
    assert_eq!(lines("//! a\n\nfn a() {\n    // b\n    b(); // c\n}\n"), 3);
    assert!(SOURCES.iter().all(|source| lines(source) > 50));
}
