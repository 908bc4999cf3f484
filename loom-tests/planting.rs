//! Copies of the shipped sources with switchable bugs in them: for the build scripts of the models.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The form of the first line of a bug, for errors.
pub const HEAD: &str =
    "planted.txt: a bug begins with `[name] file model` or `[name] file model first`";

/// One planted bug.
#[allow(dead_code, reason = "not each build script needs all of it")]
pub struct Bug {
    pub name: String,
    pub file: String,
    /// The model that has to find it.
    pub model: String,
    /// True if the first execution finds it.
    pub first: bool,
    find: String,
    replace: String,
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file has a directory"))
        .expect("the output directory can be made");
    fs::write(path, text).expect("the output directory can be written");
}

/// Returns the modules that a `lib.rs` names, without those that the models replace, and without
/// the guide, which is text.
pub fn modules(text: &str, prefix: &str) -> BTreeSet<String> {
    let names = text
        .lines()
        .filter_map(|line| line.trim_start_matches("pub ").strip_prefix(prefix)?.strip_suffix(';'));
    names
        .filter(|name| !["sync", "fallback", "executor", "guide"].contains(name))
        .map(str::to_owned)
        .collect()
}

/// The folder of the copies of `turnwise-locks`, and the prefix of its files in `planted.txt`.
pub const LOCKS: &str = "locks/";

/// Copies the sources below `dir` into the tree's module. `prefix` stands before their names in the
/// table of bugs.
pub fn copy(
    top: &Path,
    dir: &Path,
    prefix: &str,
    out: &Path,
    tree: &str,
    config: &str,
    bugs: &[Bug],
) {
    for entry in fs::read_dir(dir).expect("the sources can be listed") {
        let path = entry.expect("the sources can be listed").path();
        if path.is_dir() {
            copy(top, &path, prefix, out, tree, config, bugs);
            continue;
        }
        let name = path
            .strip_prefix(top)
            .expect("below the top")
            .to_str()
            .expect("a plain name")
            .to_owned();
        if name == "sync.rs" || name == "lib.rs" || name.starts_with("sync/") {
            continue;
        }
        let mut text = read(&path);
        for bug in bugs.iter().filter(|bug| bug.file == format!("{prefix}{name}")) {
            assert_eq!(
                text.matches(&bug.find).count(),
                1,
                "planted bug `{}`: its place in {name} is not there exactly once",
                bug.name
            );
            text = text.replace(&bug.find, &bug.text());
        }
        // The crate's own tests run in the crate.
        let text = text.replace("#[cfg(test)]", "#[cfg(any())]");
        // `crate::sync` is shared; only the sizes differ.
        let text = text.replace("crate::sync::config", &format!("crate::sync::{config}"));
        let text = text
            .replace("crate::", &format!("crate::{tree}::"))
            .replace(&format!("crate::{tree}::sync"), "crate::sync");
        // The published crate is the tree itself.
        let text = match prefix {
            "" => text,
            _ => text.replace("turnwise::", &format!("crate::{tree}::")),
        };
        write(&out.join(&name), &text);
    }
    for bug in bugs {
        let name = match bug.file.strip_prefix(LOCKS) {
            Some(name) if !prefix.is_empty() => name,
            None if prefix.is_empty() => &bug.file,
            _ => continue,
        };
        assert!(top.join(name).exists(), "planted bug `{}`: there is no {}", bug.name, bug.file);
    }
}

impl Bug {
    /// Returns the code with the bug in it: a statement stays a statement, anything else is an
    /// expression. It has as many lines as the place: the sites of the orderings are lines.
    fn text(&self) -> String {
        let Bug { name, find, replace, .. } = self;
        let replace = replace.replace('\n', " ");
        let choice = format!("if crate::sync::planted({name:?}) {{ {replace} }} else {{ {find} }}");
        if find.ends_with([';', '}']) { choice } else { format!("({choice})") }
    }
}

/// Parses the table: `[name] file model`, then optionally `first`; then the lines to find after `-`
/// and their replacements after `+`.
pub fn parse(table: &str) -> Vec<Bug> {
    let mut bugs = Vec::<Bug>::new();
    for line in table.lines() {
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, rest)) = rest.split_once(']') else { panic!("{HEAD}: {line}") };
            let (file, model, first) = match rest.split_whitespace().collect::<Vec<_>>()[..] {
                [file, model] => (file, model, false),
                [file, model, "first"] => (file, model, true),
                _ => panic!("{HEAD}: {line}"),
            };
            assert!(bugs.iter().all(|bug| bug.name != name), "two planted bugs are named `{name}`");
            let [name, file, model] = [name, file, model].map(str::to_owned);
            bugs.push(Bug {
                name,
                file,
                model,
                first,
                find: String::new(),
                replace: String::new(),
            });
        } else if let Some(bug) = bugs.last_mut() {
            let (text, line) = match (line.strip_prefix("- "), line.strip_prefix("+ ")) {
                (Some(line), _) => (&mut bug.find, line),
                (_, Some(line)) => (&mut bug.replace, line),
                _ => continue,
            };
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line);
        }
    }
    for bug in &mut bugs {
        bug.find = bug.find.trim().to_owned();
    }
    bugs
}
