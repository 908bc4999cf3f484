//! Rules have names of their own: each is defined once, and what a comment refers to is defined.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The files whose comments name rules, by their paths.
fn files() -> Vec<(String, String)> {
    fn walk(folder: &Path, files: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
            if path.is_dir() && name != "target" {
                walk(&path, files);
            } else if path.ends_with(file!()) {
                // Its tests have such words.
            } else if name.ends_with(".rs") || name.ends_with(".md") {
                let text = fs::read_to_string(&path).expect("it can be read");
                files.push((path.display().to_string(), text));
            }
        }
    }
    let mut files = Vec::new();
    for folder in ["src", "crates", "loom-tests", "stress-tests", "tests", "."] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        if folder != "." {
            walk(&root.join(folder), &mut files);
            continue;
        }
        for document in
            ["ARCHITECTURE.md", "DESIGN.md", "docs/verification.md", "docs/user-code.md"]
        {
            let text = fs::read_to_string(root.join(document)).expect("it can be read");
            files.push((document.to_owned(), text));
        }
    }
    files
}

/// The words of a line's comment; of a document, those of the line.
fn words<'a>(file: &str, line: &'a str) -> impl Iterator<Item = &'a str> {
    let comment = match file.ends_with(".md") {
        true => line,
        false => line.find("//").map_or("", |at| &line[at..]),
    };
    comment
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '`' | '.' | '/')))
        .map(|word| word.trim_end_matches(['.', '-']))
}

/// Returns the module of a rule, TURN of `TURN-3`.
fn module(word: &str) -> Option<&str> {
    let (module, number) = word.split_once('-')?;
    let is_module = module.len() > 1 && module.chars().all(|c| c.is_ascii_uppercase());
    (is_module && is_number(number)).then_some(module)
}

fn is_number(word: &str) -> bool {
    matches!(word.len(), 1 | 2) && word.chars().all(|c| c.is_ascii_digit())
}

/// True of `W3`.
fn is_label(word: &str) -> bool {
    word.strip_prefix(|c: char| c.is_ascii_uppercase()).is_some_and(is_number)
}

/// Errors in the rules of these files.
fn wrong(files: &[(String, String)]) -> Vec<String> {
    let mut defined: BTreeMap<&str, &str> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with(".rs")) {
        for line in text.lines() {
            let comment = line.trim_start().trim_start_matches(['/', '!']).trim_start();
            let (item, ends) = match (comment.strip_prefix("- "), comment.strip_prefix("| ")) {
                (Some(item), _) => (item.trim_start_matches("**"), [':', ',']),
                (_, Some(row)) => (row, [' ', '|']),
                _ => continue,
            };
            let end = item.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            let name = &item[..end.unwrap_or(item.len())];
            let says = item[name.len()..].starts_with(ends);
            if module(name).is_some() && says && line.trim_start().starts_with("//") {
                if let Some(other) = defined.insert(name, file) {
                    wrong.push(format!("{name} is defined in {other} and in {file}"));
                }
            }
        }
    }
    // Other words have such a form, too: UTF-8.
    let modules: BTreeSet<&str> = defined.keys().filter_map(|name| module(name)).collect();
    for (file, text) in files {
        for (at, line) in text.lines().enumerate() {
            for word in words(file, line) {
                if module(word).is_some_and(|module| modules.contains(module))
                    && !defined.contains_key(word)
                {
                    wrong.push(format!("{file}:{}: {word} is defined nowhere", at + 1));
                }
                if is_label(word) && file.ends_with(".rs") && !OTHERS.contains(&word) {
                    wrong.push(format!("{file}:{}: {word} is a rule of no module", at + 1));
                }
            }
        }
    }
    wrong
}

/// Words of comments that look like rules.
const OTHERS: [&str; 1] = ["C11"];

#[test]
fn rules_are_defined_once_and_found_by_their_names() {
    let files = files();
    assert_eq!(wrong(&files), [""; 0]);
}

/// Tests the check with texts that break it.
#[test]
fn wrong_rules_are_seen() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let a = file("a.rs", "//! - TURN-1: one.\n//! - **TURN-2, two.**\n//! | TURN-3 | three |\n");
    let uses =
        file("b.rs", "f(); // SAFETY: TURN-1, (TURN-2): `TURN-3`; C11, UTF-8.\nlet a = \"W1\";\n");
    assert_eq!(wrong(&[a.clone(), uses]), [""; 0]);
    let twice = file("c.rs", "    // - TURN-1: one.\n");
    assert_eq!(wrong(&[a.clone(), twice]), ["TURN-1 is defined in a.rs and in c.rs"]);
    let lost = file("d.md", "| a | TURN-4 |");
    assert_eq!(wrong(&[a.clone(), lost]), ["d.md:1: TURN-4 is defined nowhere"]);
    let bare = file("e.rs", "f(); // SAFETY: W1.\n");
    assert_eq!(wrong(&[a, bare]), ["e.rs:1: W1 is a rule of no module"]);
}
