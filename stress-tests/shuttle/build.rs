//! Makes a copy of the shipped sources with the bugs of `loom-tests/planted.txt` in it, each behind
//! a call of `sync::planted`: as long as no bug is on, it behaves as the shipped sources.

#[path = "../../loom-tests/planting.rs"]
mod planting;

use std::path::PathBuf;

use planting::{LOCKS, copy, modules, parse, read, write};

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let product = root.join("../../src");
    let planted = "../../loom-tests/planted.txt";
    for input in ["../../src", planted, "../../loom-tests/planting.rs", "build.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let mut bugs = parse(&read(&root.join(planted)));
    bugs.retain(|bug| !bug.file.starts_with(LOCKS));
    copy(&product, &product, "", &out.join("floors"), "floors", "config", &bugs);
    let mut entry = String::new();
    for module in modules(&read(&product.join("lib.rs")), "mod ") {
        let paths = [format!("{module}.rs"), format!("{module}/mod.rs")];
        let path = paths.map(|path| out.join("floors").join(path));
        let path = path.iter().find(|path| path.exists()).expect("a module has a file");
        entry += &format!("#[path = {path:?}]\npub(crate) mod {module};\n");
    }
    let fallback = root.join("src/fallback.rs");
    entry += &format!("#[path = {fallback:?}]\npub(crate) mod fallback;\n");
    write(&out.join("floors.rs"), &entry);
    let names: String = bugs.iter().map(|bug| format!("{:?},\n", bug.name)).collect();
    write(&out.join("bugs.rs"), &format!("pub(crate) const BUGS: &[&str] = &[\n{names}];\n"));
}
