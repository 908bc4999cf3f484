//! Makes one more copy of the shipped sources, `narrow`: with a COUNT of two bits and the bugs of
//! `planted.txt`, each behind a call of `sync::planted`. So the shipped sources carry no hooks, and
//! one build serves all bugs.

#[path = "planting.rs"]
mod planting;

use std::collections::BTreeSet;
use std::path::PathBuf;

use planting::{Bug, LOCKS, copy, modules, parse, read, write};

/// The module of the copy, and that of its sizes in `sync`.
const TREE: &str = "narrow";

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let product = root.join("../src");
    let locks = root.join("../crates/turnwise-locks/src");
    println!("cargo::rerun-if-changed=../src");
    println!("cargo::rerun-if-changed=../crates/turnwise-locks/src");
    println!("cargo::rerun-if-changed=planted.txt");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=planting.rs");

    let modules = modules(&read(&product.join("lib.rs")), "mod ");
    let included = modules_by_path(&read(&root.join("src/lib.rs")));
    assert_eq!(modules, included, "src/lib.rs and loom-tests/src/lib.rs name different floors");

    let bugs = parse(&read(&root.join("planted.txt")));
    let to = out.join(TREE);
    copy(&product, &product, "", &to, TREE, TREE, &bugs);
    copy(&locks, &locks, LOCKS, &to.join(LOCKS), TREE, TREE, &bugs);
    let mut entry = String::new();
    for module in &modules {
        let path = [format!("{module}.rs"), format!("{module}/mod.rs")]
            .map(|path| out.join(TREE).join(path));
        let path = path.iter().find(|path| path.exists()).expect("a module has a file");
        entry += &format!("#[path = {path:?}]\nmod {module};\n");
    }
    for module in modules_below(&read(&root.join("src/lib.rs")), "/turnwise-locks/src/") {
        let path = [format!("{module}.rs"), format!("{module}/mod.rs")]
            .map(|path| out.join(TREE).join(LOCKS).join(path));
        let path = path.iter().find(|path| path.exists()).expect("a module has a file");
        entry += &format!("#[path = {path:?}]\nmod {module};\n");
    }
    let parts = EXECUTOR.map(|part| {
        format!(
            "#[path = {:?}]\npub(crate) mod {part};\n",
            out.join(TREE).join(format!("executor/{part}.rs"))
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
    write(&out.join(format!("{TREE}.rs")), &entry);
    let rows = bugs.iter().map(|Bug { name, model, first, .. }| {
        format!("Bug {{ name: {name:?}, model: {model:?}, first: {first} }},\n")
    });
    let rows = rows.collect::<String>();
    let text = format!("/// Every planted bug.\npub(crate) const BUGS: &[Bug] = &[\n{rows}];\n");
    write(&out.join("bugs.rs"), &text);
}

/// The modules of the executors that the models replace: see `src/executor.rs`.
const EXECUTOR: [&str; 1] = ["manual"];

/// Returns the modules that are included from the crate.
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
