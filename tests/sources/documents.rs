//! Pictures and tables of the documents agree with their sources.
//!
//! - `docs/charts/actors.svg` is drawn from the table "Programs of actors" of
//!   `docs/performance.md`;
//! - each `docs/charts/NAME.md` is `NAME.svg` as a link that needs no file beside it, because
//!   rustdoc's pages have none;
//! - `DESIGN.md` has the steps of the table in `src/mailbox/word.rs`, in its order;
//! - `README.md` is a page, and says how to run and test a clone.
//!
//! `BLESS=1 cargo test --all-features --test sources` writes the pictures again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn charts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/charts")
}

/// Fails if the file has other content; with `BLESS`, writes it.
fn expect(file: &Path, content: &str) {
    if env::var_os("BLESS").is_some() {
        return fs::write(file, content).unwrap();
    }
    let found = fs::read_to_string(file).unwrap_or_default();
    assert!(found == content, "{} is out of date: run with BLESS=1", file.display());
}

/// A work, its rival, and the time of turnwise as a ratio to the rival's.
struct Row {
    work: String,
    rival: String,
    ratio: f64,
}

/// Returns the rows of the table, the greatest ratio first.
fn rows() -> Vec<Row> {
    let document = fs::read_to_string(charts().join("../performance.md")).unwrap();
    let (_, section) = document.split_once("\n## Programs of actors\n").unwrap();
    let mut rows: Vec<Row> = section
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            Row {
                work: cells[1].replace('`', ""),
                rival: cells[2].to_owned(),
                ratio: cells[3].trim_matches('*').parse().unwrap(),
            }
        })
        .collect();
    rows.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    rows
}

/// Draws a bar for each row: orange where the rival wins, green where it is slower. Medium tones,
/// and no background, because the picture is read on white and on black.
fn draw(rows: &[Row]) -> String {
    const LEFT: i32 = 330;
    const LINE: i32 = 20;
    const UNIT: f64 = 300.0;
    const TOP: i32 = 46;
    let height = TOP + LINE * rows.len() as i32 + 8;
    let one = LEFT + UNIT as i32;
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 800 {height}' width='800' \
         height='{height}' font-family='sans-serif' font-size='12' fill='#808890'>\n\
         <text x='{LEFT}' y='16' font-size='13'>our time as a ratio to the rival's: \
         shorter is better</text>\n\
         <text x='{one}' y='36' text-anchor='middle'>1: as fast</text>\n"
    );
    for (index, Row { work, rival, ratio }) in rows.iter().enumerate() {
        let y = TOP + LINE * index as i32;
        let long = (ratio * UNIT) as i32;
        let colour = if *ratio > 1.0 { "#d9822b" } else { "#3f9c75" };
        writeln!(
            svg,
            "<text x='{x}' y='{base}' text-anchor='end'>{work}</text>\n\
             <rect x='{LEFT}' y='{y}' width='{long}' height='14' rx='2' fill='{colour}'/>\n\
             <text x='{end}' y='{base}'>{ratio:.2} {rival}</text>",
            x = LEFT - 8,
            base = y + 11,
            end = (LEFT + long).max(one) + 6,
        )
        .unwrap();
    }
    let bottom = height - 6;
    writeln!(svg, "<path d='M{one} 40V{bottom}' stroke='#808890' stroke-dasharray='3 3'/>\n</svg>")
        .unwrap();
    svg
}

/// Returns the picture as a link's target.
fn data_uri(svg: &str) -> String {
    let mut uri = String::from("data:image/svg+xml,");
    for byte in svg.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'/' | b':' | b'=' | b'\'' | b',' | b';' => {
                uri.push(char::from(byte));
            }
            _ => write!(uri, "%{byte:02X}").unwrap(),
        }
    }
    uri
}

#[test]
fn charts_agree_with_the_documents() {
    let rows = rows();
    assert!(rows.len() > 10);
    expect(&charts().join("actors.svg"), &draw(&rows));
    for name in ["actors", "throughput", "latency", "cpu"] {
        let svg = fs::read_to_string(charts().join(name).with_extension("svg")).unwrap();
        let link = format!("[{name}]: {}\n", data_uri(&svg));
        expect(&charts().join(name).with_extension("md"), &link);
    }
}

/// Returns the names of the steps in a table of transitions: the first word in backticks of each
/// row that begins with one.
fn steps(text: &str) -> Vec<&str> {
    text.lines()
        .map(|line| line.trim_start_matches("//! "))
        .skip_while(|line| !line.starts_with("| `claim`"))
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect()
}

#[test]
fn the_design_has_every_step_of_the_word() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let design = fs::read_to_string(root.join("DESIGN.md")).unwrap();
    let word = fs::read_to_string(root.join("src/mailbox/word.rs")).unwrap();
    assert!(steps(&word).len() > 10);
    assert_eq!(steps(&design), steps(&word));
}

#[test]
fn the_readme_is_a_page_and_names_both_commands() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.lines().count() <= 110, "{}", readme.lines().count());
    for command in ["cargo run --release -p wordcount ", "cargo test "] {
        assert!(readme.lines().any(|line| line.starts_with(command)), "{command}");
    }
}
