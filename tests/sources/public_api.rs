//! The public items of each published crate, as text: `docs/public-api.txt` in its package.
//!
//! A change of the public API is a change of that file. `BLESS=1 cargo test --all-features --test
//! sources` writes it again.
//!
//! The list is made from the sources, so it needs no nightly compiler: what `src/lib.rs` exports,
//! by name, and in its public modules; with the public methods, fields, variants and traits of
//! each. Macros are not expanded: one that declares public methods has them listed under its own
//! name, and each of its uses is a line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use quote::ToTokens;
use syn::{
    Attribute, Fields, ImplItem, Item, ItemImpl, ItemMacro, ItemMod, Meta, Signature, TraitItem,
    Type, UseTree, Visibility,
};

/// The published crates, and the folders of their packages.
const CRATES: &[(&str, &str)] = &[
    ("turnwise", "."),
    ("turnwise_locks", "crates/turnwise-locks"),
    ("turnwise_redis", "crates/turnwise-redis"),
    ("turnwise_top", "crates/turnwise-top"),
];

/// All items of the crate, whatever their module.
#[derive(Default)]
struct Sources {
    items: Vec<Item>,
    impls: Vec<ItemImpl>,
}

/// An export: the path that users write, and the name of the item.
type Exported = BTreeSet<(String, String)>;

fn tokens(of: &impl ToTokens) -> String {
    let spaced = of.to_token_stream().to_string();
    let tight = [
        (" :: ", "::"),
        (":: ", "::"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" :", ":"),
        (" ;", ";"),
        ("' ", "'"),
        (" [", "["),
        ("[ ", "["),
        (" ]", "]"),
        ("& mut", "&mut"),
        (" ?", "?"),
        ("->", " -> "),
        (" - > ", " -> "),
        ("=(", "= ("),
        ("dyn(", "dyn ("),
        ("for<", "for <"),
    ];
    let text = tight.iter().fold(spaced, |text, (from, to)| text.replace(from, to));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_pub(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns the file of `#[path = ".."]`.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => {
            Some(tokens(&pair.value).trim_matches('"').to_owned())
        }
        _ => None,
    })
}

/// Returns the traits of `#[derive(..)]`.
fn derived(attributes: &[Attribute]) -> Vec<String> {
    let lists = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("derive") => Some(list.tokens.to_string()),
        _ => None,
    });
    let names = lists.flat_map(|list| list.split(',').map(str::to_owned).collect::<Vec<_>>());
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Returns the last name of a type's path, to which its inherent methods belong.
fn name_of(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

impl Sources {
    /// Reads a file, and those of its modules; `folder` contains them.
    fn read(&mut self, file: &Path, folder: &Path, at: Option<&str>, exported: &mut Exported) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for item in parsed.items {
            self.take(item, file, folder, at, exported);
        }
    }

    fn take(
        &mut self,
        item: Item,
        file: &Path,
        folder: &Path,
        at: Option<&str>,
        exported: &mut Exported,
    ) {
        let mut export = |name: String| {
            if let Some(at) = at {
                exported.insert((format!("{at}::{name}"), name));
            }
        };
        match &item {
            Item::Mod(module) => return self.module(module, file, folder, at, exported),
            Item::Use(names) if is_pub(&names.vis) => {
                let mut found = Vec::new();
                leaves(&names.tree, &mut found);
                if let Some(at) = at {
                    exported
                        .extend(found.into_iter().map(|(was, is)| (format!("{at}::{is}"), was)));
                }
            }
            Item::Struct(it) if is_pub(&it.vis) => export(it.ident.to_string()),
            Item::Enum(it) if is_pub(&it.vis) => export(it.ident.to_string()),
            Item::Trait(it) if is_pub(&it.vis) => export(it.ident.to_string()),
            Item::Fn(it) if is_pub(&it.vis) => export(it.sig.ident.to_string()),
            Item::Type(it) if is_pub(&it.vis) => export(it.ident.to_string()),
            Item::Const(it) if is_pub(&it.vis) => export(it.ident.to_string()),
            _ => {}
        }
        match item {
            Item::Impl(it) => self.impls.push(it),
            item => self.items.push(item),
        }
    }

    fn module(
        &mut self,
        module: &ItemMod,
        file: &Path,
        folder: &Path,
        at: Option<&str>,
        exported: &mut Exported,
    ) {
        let name = module.ident.to_string();
        if name == "tests" || name == "guide" {
            return; // of text
        }
        let path = at.filter(|_| is_pub(&module.vis)).map(|at| format!("{at}::{name}"));
        if let Some((_, items)) = &module.content {
            for item in items {
                self.take(item.clone(), file, &folder.join(&name), path.as_deref(), exported);
            }
            return;
        }
        let (flat, nested) = (folder.join(format!("{name}.rs")), folder.join(&name));
        let file = match path_of(&module.attrs) {
            Some(path) => file.parent().expect("it lies in a folder").join(path),
            None if flat.exists() => flat,
            None => nested.join("mod.rs"),
        };
        self.read(&file, &nested, path.as_deref(), exported);
    }

    /// All that is public of the exported items, a line each.
    fn lines(&self, exported: &Exported) -> BTreeSet<String> {
        let mut lines = self.made_by_macros();
        let names: BTreeSet<&String> = exported.iter().map(|(_, name)| name).collect();
        let hidden = self.items.iter().filter_map(defined).filter(|name| !names.contains(name));
        let hidden: BTreeSet<String> = hidden.collect();
        let is_hidden = |of: &str| {
            let mut words = of.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.any(|word| hidden.contains(word))
        };
        let mut known = BTreeMap::new();
        for (path, name) in exported {
            // By the first of its paths, which is the shortest.
            if let Some(first) = known.get(name) {
                lines.insert(format!("use {path} = {first}"));
                continue;
            }
            known.insert(name, path);
            let before = lines.len();
            for item in &self.items {
                describe(item, name, path, &mut lines);
            }
            if lines.len() == before {
                // Of another crate, or made by a macro.
                lines.insert(format!("use {path}"));
            }
            for it in self.impls.iter().filter(|it| name_of(&it.self_ty).as_ref() == Some(name)) {
                if let Some((_, of, _)) = &it.trait_ {
                    let generics = tokens(&it.generics);
                    let bounds = it.generics.where_clause.as_ref().map(tokens).unwrap_or_default();
                    let (of, whose) = (tokens(of), tokens(&it.self_ty));
                    if is_hidden(&of) {
                        continue;
                    }
                    lines.insert(format!("impl{generics} {of} for {path} as {whose} {bounds}"));
                    continue;
                }
                for inner in &it.items {
                    match inner {
                        ImplItem::Fn(f) if is_pub(&f.vis) => {
                            lines.insert(function(path, &f.sig));
                        }
                        ImplItem::Const(c) if is_pub(&c.vis) => {
                            lines.insert(format!("const {path}::{}: {}", c.ident, tokens(&c.ty)));
                        }
                        _ => {}
                    }
                }
            }
        }
        lines.iter().map(|line| line.trim().to_owned()).collect()
    }
}

impl Sources {
    /// The public methods of macros, and the uses of those macros.
    fn made_by_macros(&self) -> BTreeSet<String> {
        let macros = || {
            self.items.iter().filter_map(|item| match item {
                Item::Macro(it) => Some(it),
                _ => None,
            })
        };
        let mut lines = BTreeSet::new();
        let mut public = BTreeSet::new();
        for (it, name) in macros().filter_map(|it| Some((it, it.ident.as_ref()?.to_string()))) {
            let body = text_of(it);
            for method in body.split("pub fn ").skip(1) {
                let signature = method.split(" {").next().expect("there is a first part");
                let signature = signature.replace("(mut ", "(").replace(", mut ", ", ");
                lines.insert(format!("fn {name}!::{}", signature.replace("$ ", "$").trim()));
                public.insert(name.clone());
            }
        }
        for it in macros().filter(|it| it.ident.is_none()) {
            let name = it.mac.path.segments.last().expect("a path has a name").ident.to_string();
            if public.contains(&name) {
                lines.insert(format!("{name}! {}", text_of(it)));
            }
        }
        lines
    }
}

/// The tokens of a macro, without attributes.
fn text_of(it: &ItemMacro) -> String {
    let spaced = tokens(&it.mac.tokens);
    let mut text = String::new();
    let mut rest = spaced.as_str();
    while let Some(at) = rest.find("#[") {
        text += &rest[..at];
        // Brackets in documentation are balanced, or this panics.
        let mut depth = 0;
        let end = rest[at..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '[') - i32::from(*c == ']');
            *c == ']' && depth == 0
        });
        rest = &rest[at + end.expect("an attribute ends").0 + 1..];
    }
    (text + rest).trim().to_owned()
}

/// The name of a type or a trait.
fn defined(item: &Item) -> Option<String> {
    Some(match item {
        Item::Struct(it) => it.ident.to_string(),
        Item::Enum(it) => it.ident.to_string(),
        Item::Trait(it) => it.ident.to_string(),
        _ => return None,
    })
}

fn function(of: &str, signature: &Signature) -> String {
    // The binding of a parameter is not part of the signature.
    let text = tokens(signature).replace("(mut ", "(").replace(", mut ", ", ");
    let (before, after) = text.split_once("fn ").expect("it is a function");
    format!("{before}fn {of}::{after}")
}

fn fields(path: &str, of: &Fields, public: bool, lines: &mut BTreeSet<String>) {
    for (at, field) in of.iter().enumerate().filter(|(_, field)| public || is_pub(&field.vis)) {
        let name = field.ident.as_ref().map_or(at.to_string(), ToString::to_string);
        lines.insert(format!("field {path}::{name}: {}", tokens(&field.ty)));
    }
}

/// Adds the lines of an item, if it has that name and is public.
fn describe(item: &Item, name: &str, path: &str, lines: &mut BTreeSet<String>) {
    let mut derives = |attributes: &[Attribute]| {
        for of in derived(attributes) {
            lines.insert(format!("impl {of} for {path} (derived)"));
        }
    };
    match item {
        Item::Struct(it) if it.ident == name && is_pub(&it.vis) => {
            derives(&it.attrs);
            lines.insert(format!("struct {path}{}", tokens(&it.generics)));
            fields(path, &it.fields, false, lines);
        }
        Item::Enum(it) if it.ident == name && is_pub(&it.vis) => {
            derives(&it.attrs);
            lines.insert(format!("enum {path}{}", tokens(&it.generics)));
            for variant in &it.variants {
                let path = format!("{path}::{}", variant.ident);
                lines.insert(format!("variant {path}"));
                fields(&path, &variant.fields, true, lines);
            }
        }
        Item::Trait(it) if it.ident == name && is_pub(&it.vis) => {
            lines.insert(format!(
                "trait {path}{}: {}",
                tokens(&it.generics),
                tokens(&it.supertraits)
            ));
            for inner in &it.items {
                match inner {
                    TraitItem::Fn(f) => drop(lines.insert(function(path, &f.sig))),
                    TraitItem::Type(t) => {
                        let bounds = tokens(&t.bounds);
                        lines.insert(format!("type {path}::{}: {bounds}", t.ident));
                    }
                    _ => {}
                }
            }
        }
        Item::Fn(it) if it.sig.ident == name && is_pub(&it.vis) => {
            let of = path.strip_suffix(&format!("::{name}")).expect("its path ends with its name");
            lines.insert(function(of, &it.sig));
        }
        Item::Type(it) if it.ident == name && is_pub(&it.vis) => {
            lines.insert(format!("type {path} = {}", tokens(&it.ty)));
        }
        _ => {}
    }
}

/// Returns the names that a `use` imports, and their original names.
fn leaves(tree: &UseTree, found: &mut Vec<(String, String)>) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, found),
        UseTree::Name(name) => found.push((name.ident.to_string(), name.ident.to_string())),
        UseTree::Rename(it) => found.push((it.ident.to_string(), it.rename.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, found)),
        UseTree::Glob(_) => panic!("a glob would hide what is exported"),
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn public_items_are_those_of_the_lists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, package) in CRATES {
        let (mut sources, mut exported) = (Sources::default(), Exported::new());
        let folder: PathBuf = root.join(package).join("src");
        sources.read(&folder.join("lib.rs"), &folder, Some(name), &mut exported);
        let lines = sources.lines(&exported);
        let text = lines.iter().fold(String::new(), |text, line| text + line + "\n");
        let file = root.join(package).join("docs/public-api.txt");
        if env::var_os("BLESS").is_some() {
            fs::create_dir_all(file.parent().expect("it lies in a folder")).unwrap();
            fs::write(&file, text).unwrap();
            continue;
        }
        let listed = fs::read_to_string(&file).unwrap_or_default();
        let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
        let (new, gone): (Vec<_>, Vec<_>) =
            (lines.difference(&listed).collect(), listed.difference(&lines).collect());
        let rest = "docs/public-api.txt is out of date: run with BLESS=1";
        assert!(
            new.is_empty() && gone.is_empty(),
            "{name}: {rest}\nnew: {new:#?}\ngone: {gone:#?}"
        );
    }
}
