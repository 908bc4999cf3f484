//! Pictures of terminals, for the README: `BLESS=1 cargo test -p turnwise-top --features program`
//! writes them.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

const WIDE: usize = 8;
const HIGH: usize = 18;
const MARGIN: usize = 12;
const DARK: &str = "#1d2127";

fn colour(color: Color) -> &'static str {
    match color {
        Color::Red => "#ff6b6b",
        Color::Yellow => "#e5c07b",
        Color::DarkGray => "#7f8896",
        Color::Cyan => "#56b6c2",
        Color::Black => DARK,
        _ => "#d7dae0",
    }
}

fn draw(buffer: &Buffer) -> String {
    let (columns, rows) = (usize::from(buffer.area.width), usize::from(buffer.area.height));
    let (width, height) = (columns * WIDE + 2 * MARGIN, rows * HIGH + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' \
         height='{height}' font-family='monospace' font-size='13'>\n\
         <rect width='{width}' height='{height}' rx='8' fill='{DARK}'/>\n"
    );
    let style = |cell: &Cell| (cell.fg, cell.bg, cell.modifier.contains(Modifier::BOLD));
    for (y, cells) in buffer.content.chunks(columns).enumerate() {
        let (mut x, top) = (0, MARGIN + y * HIGH);
        for run in cells.chunk_by(|a, b| style(a) == style(b)) {
            let (fg, bg, is_bold) = style(&run[0]);
            let (left, long) = (MARGIN + x * WIDE, run.len() * WIDE);
            if bg != Color::Reset {
                let fill = colour(bg);
                writeln!(
                    svg,
                    "<rect x='{left}' y='{top}' width='{long}' height='{HIGH}' fill='{fill}'/>"
                )
                .unwrap();
            }
            x += run.len();
            let text: String = run.iter().map(Cell::symbol).collect();
            let mut at = 0;
            // Word by word, each in its place: fonts differ in their widths.
            for word in text.split("  ") {
                let begins = at + word.len() - word.trim_start().len();
                at += word.chars().count() + 2;
                let word = word.trim();
                if word.is_empty() {
                    continue;
                }
                let (x, base) = (left + begins * WIDE, top + 13);
                let long = word.chars().count() * WIDE;
                let weight = if is_bold { " font-weight='bold'" } else { "" };
                let word = word.replace('&', "&amp;").replace('<', "&lt;");
                writeln!(
                    svg,
                    "<text x='{x}' y='{base}' textLength='{long}' \
                     lengthAdjust='spacingAndGlyphs' fill='{}'{weight}>{word}</text>",
                    colour(fg)
                )
                .unwrap();
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The picture as a link's target, for pages that have no file beside them.
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

/// Fails if `docs/table.svg` and `docs/table.md` show anything else; with `BLESS`, writes them.
pub(crate) fn expect(buffer: &Buffer) {
    let svg = draw(buffer);
    let link = format!("[table]: {}\n", data_uri(&svg));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    for (name, content) in [("table.svg", svg), ("table.md", link)] {
        let file = folder.join(name);
        if env::var_os("BLESS").is_some() {
            fs::write(&file, &content).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == content, "docs/{name} is out of date: run with BLESS=1");
    }
}
