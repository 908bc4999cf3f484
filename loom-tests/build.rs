//! Makes two more copies of the shipped sources: `narrow`, with a COUNT of two bits, and `planted`,
//! with the bugs of `planted.txt` in it, each behind a question to `sync::planted`. What ships
//! carries no hooks, and one build serves all bugs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How a bug begins.
const HEAD: &str =
    "planted.txt: a bug begins with `[name] file model` or `[name] file model first`";

/// One planted bug.
struct Bug {
    name: String,
    file: String,
    /// The model that has to find it.
    model: String,
    /// It falls on the first execution.
    first: bool,
    find: String,
    replace: String,
}

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let product = root.join("../src");
    let locks = root.join("../crates/turnwise-locks/src");
    println!("cargo::rerun-if-changed=../src");
    println!("cargo::rerun-if-changed=../crates/turnwise-locks/src");
    println!("cargo::rerun-if-changed=planted.txt");
    println!("cargo::rerun-if-changed=build.rs");

    let modules = modules(&read(&product.join("lib.rs")), "mod ");
    let included = modules_by_path(&read(&root.join("src/lib.rs")));
    assert_eq!(modules, included, "src/lib.rs and loom-tests/src/lib.rs name different floors");

    let bugs = parse(&read(&root.join("planted.txt")));
    for (tree, bugs, config) in [("narrow", &[][..], "narrow"), ("planted", &bugs[..], "small")] {
        let to = out.join(tree);
        copy(&product, &product, "", &to, tree, config, bugs);
        copy(&locks, &locks, LOCKS, &to.join(LOCKS), tree, config, bugs);
        let mut entry = String::new();
        for module in &modules {
            let path = [format!("{module}.rs"), format!("{module}/mod.rs")]
                .map(|path| out.join(tree).join(path));
            let path = path.iter().find(|path| path.exists()).expect("a module has a file");
            entry += &format!("#[path = {path:?}]\nmod {module};\n");
        }
        for module in modules_below(&read(&root.join("src/lib.rs")), "/turnwise-locks/src/") {
            let path = [format!("{module}.rs"), format!("{module}/mod.rs")]
                .map(|path| out.join(tree).join(LOCKS).join(path));
            let path = path.iter().find(|path| path.exists()).expect("a module has a file");
            entry += &format!("#[path = {path:?}]\nmod {module};\n");
        }
        let parts = EXECUTOR.map(|part| {
            format!(
                "#[path = {:?}]\npub(crate) mod {part};\n",
                out.join(tree).join(format!("executor/{part}.rs"))
            )
        });
        let workers = root.join("src/executor/workers.rs");
        let workers = format!("#[path = {workers:?}]\npub(crate) mod workers;\n");
        entry += &format!("mod executor {{\n{}{workers}}}\n", parts.concat());
        for shared in ["face.rs", "fallback.rs", "models/mod.rs", "user_code.rs"] {
            let module = shared.trim_end_matches(".rs").trim_end_matches("/mod");
            let path = root.join("src").join(shared);
            entry += &format!("#[path = {path:?}]\npub(crate) mod {module};\n");
        }
        entry += "pub(crate) use face::*;\n";
        entry +=
            "pub(crate) const FALLBACK: &dyn cell::executor::Fallback = &fallback::Fallback;\n";
        write(&out.join(format!("{tree}.rs")), &entry);
    }
    let rows = bugs.iter().map(|Bug { name, model, first, .. }| {
        format!("Bug {{ name: {name:?}, model: {model:?}, first: {first} }},\n")
    });
    let rows = rows.collect::<String>();
    let text = format!("/// Every planted bug.\npub(crate) const BUGS: &[Bug] = &[\n{rows}];\n");
    write(&out.join("bugs.rs"), &text);
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file has a directory"))
        .expect("the output directory can be made");
    fs::write(path, text).expect("the output directory can be written");
}

/// What the models have of the executors: see `src/executor.rs`.
const EXECUTOR: [&str; 9] =
    ["alarm", "compensation", "idle", "lifo_slot", "manual", "place", "queues", "shared", "worker"];

/// The floors that a `lib.rs` names; `sync`, the executors and the guide, which is text, aside.
fn modules(text: &str, prefix: &str) -> BTreeSet<String> {
    let names = text
        .lines()
        .filter_map(|line| line.trim_start_matches("pub ").strip_prefix(prefix)?.strip_suffix(';'));
    names.filter(|name| !["sync", "executor", "guide"].contains(name)).map(str::to_owned).collect()
}

/// Those that are included from the product.
fn modules_by_path(text: &str) -> BTreeSet<String> {
    modules_below(text, "../../src/")
}

fn modules_below(text: &str, dir: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.contains(dir) {
            names.append(&mut modules(lines.next().unwrap_or_default().trim(), "mod "));
        }
    }
    names
}

/// Where the copies of `turnwise-locks` lie, and what its files are called in `planted.txt`.
const LOCKS: &str = "locks/";

/// Copies the sources below `dir`, moved into the tree's module. `prefix` stands before their names
/// in the table of bugs.
fn copy(top: &Path, dir: &Path, prefix: &str, out: &Path, tree: &str, config: &str, bugs: &[Bug]) {
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
        if name == "sync.rs" || name == "lib.rs" {
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
    /// The place with the bug in it: a statement stays one, anything else is an expression.
    fn text(&self) -> String {
        let Bug { name, find, replace, .. } = self;
        let choice = format!("if crate::sync::planted({name:?}) {{ {replace} }} else {{ {find} }}");
        if find.ends_with([';', '}']) { choice } else { format!("({choice})") }
    }
}

/// The table: `[name] file model`, with `first` after it or nothing; then the lines to find after
/// `-` and those to put there after `+`.
fn parse(table: &str) -> Vec<Bug> {
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
