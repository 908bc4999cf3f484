//! The chapters of both guides have one numbering, and their samples are whole programs.

use std::fs;
use std::path::Path;

struct Chapter {
    file: String,
    module: String,
    text: String,
}

impl Chapter {
    /// Returns number and name, as in "03. Asking".
    fn title(&self) -> &str {
        self.text.lines().next().unwrap().trim_start_matches("# ")
    }

    /// Returns the link to it, as in `[03. Asking][guide::asking]`.
    fn link(&self) -> String {
        format!("[{}][guide::{}]", self.title(), self.module)
    }

    /// Returns the samples in Rust.
    fn samples(&self) -> impl Iterator<Item = &str> {
        let fenced = self.text.split("```").skip(1).step_by(2);
        fenced.filter_map(|sample| {
            let (language, program) = sample.split_once('\n').unwrap();
            matches!(language, "" | "rust").then_some(program)
        })
    }
}

/// Returns the chapter names that a text refers to by a number, with that number.
fn references<'a>(text: &'a str, link: &'static str) -> impl Iterator<Item = (usize, &'a str)> {
    text.match_indices(link).filter_map(move |(at, _)| {
        let number = text.get(at - 2..at)?.parse().ok()?;
        let to = &text[at + link.len()..];
        let end = to.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        Some((number, &to[..end]))
    })
}

/// Returns the chapters of a package's guide, in the order of its module `guide`, and that module's
/// text.
fn guide(package: &str) -> (Vec<Chapter>, String) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(package).join("src");
    let contents = fs::read_to_string(sources.join("guide.rs")).unwrap();
    let (mut chapters, mut file, mut text) = (Vec::new(), String::new(), String::new());
    for line in contents.lines() {
        let part = |open, close| Some(line.strip_prefix(open)?.strip_suffix(close)?.to_string());
        if let Some(part) = part("#[doc = include_str!(\"", "\")]") {
            text += &fs::read_to_string(sources.join(&part)).unwrap();
            if file.is_empty() {
                file = part.trim_start_matches("../docs/guide/").to_string();
            }
        } else if let Some(fence) = part("#[doc = \"", "\"]")
            .or(part("#[cfg_attr(feature = \"tokio\", doc = \"", "\")]"))
            .or(part("#[cfg_attr(feature = \"tracing\", doc = \"", "\")]"))
        {
            text += &fence;
            text += "\n";
        } else if let Some(module) = part("pub mod ", " {}") {
            // Other documents may lie beside the chapters.
            if file.starts_with(|first: char| first.is_ascii_digit()) {
                chapters.push(Chapter { file, module, text });
            }
            (file, text) = (String::new(), String::new());
        }
    }
    (chapters, contents)
}

/// The packages that have a guide, and its number of chapters.
const GUIDES: [(&str, usize); 3] =
    [("", 20), ("crates/turnwise-locks", 5), ("crates/turnwise-redis", 2)];

#[test]
fn guides_have_one_numbering() {
    for (package, chapters) in GUIDES {
        let (guide, contents) = guide(package);
        assert_eq!(guide.len(), chapters, "{package}");
        for (at, chapter) in guide.iter().enumerate() {
            let (file, number) = (&chapter.file, format!("{:02}", at + 1));
            assert!(file.starts_with(&number), "{file}");
            assert!(chapter.title().starts_with(&format!("{number}. ")), "{file}");
            let row = format!("//! | [{}](self::{}) | ", chapter.title(), chapter.module);
            assert!(contents.contains(&row), "{file} is not in the table of contents");
            // Above and below the text.
            let linked = |way: &str, to: &Chapter| {
                let link = format!("{way}: {}", to.link());
                assert_eq!(chapter.text.matches(&link).count(), 2, "{file}: {link}");
            };
            if at > 0 {
                linked("previous", &guide[at - 1]);
            }
            if let Some(next) = guide.get(at + 1) {
                linked("next", next);
            }
        }
        let texts = guide.iter().map(|chapter| (&chapter.text, "][guide::"));
        for (text, link) in texts.chain([(&contents, "](self::")]) {
            for (said, to) in references(text, link) {
                let is = guide.iter().position(|chapter| chapter.module == to);
                assert_eq!(Some(said), is.map(|at| at + 1), "{package} refers to {to}");
            }
        }
    }
}

#[test]
fn samples_of_the_guides_are_whole() {
    for (package, _) in GUIDES {
        for chapter in guide(package).0 {
            for (at, sample) in chapter.samples().enumerate() {
                let place = format!("{}, sample {}", chapter.file, at + 1);
                assert!(sample.contains("fn main()"), "{place} has no `main`");
                // Lines that rustdoc hides, other viewers show.
                let hidden = sample.lines().find(|line| *line == "#" || line.starts_with("# "));
                assert_eq!(hidden, None, "{place}");
            }
        }
    }
}
