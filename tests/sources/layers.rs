//! The floors of the crate: a file names files of its own floor and those below alone. There is no
//! large circle of files within a floor, or in `turnwise-redis`.
//!
//! A file names another by a path that begins with `crate`, `super` or `self`, in a `use` or
//! elsewhere, through any number of re-exports. A re-export itself is no use. Tests inside the
//! files are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The floors, from below. Folders of one row may name each other.
const FLOORS: &[&[&str]] = &[
    &["sync"],
    &["panic"],
    &["wait_list", "enrolled"],
    &["error"],
    &["time"],
    &["budget"],
    &["pool"],
    &["mailbox"],
    &["cell"],
    &["fallback"],
    &["thread"],
    &["turn"],
    &["send"],
    &["executor"],
    &["actor"],
];

/// Folders that contain text alone.
const NO_CODE: &[&str] = &["guide"];

/// The folders of the core.
const CORE: [&str; 5] = ["mailbox", "cell", "thread", "turn", "send"];

/// The features that several files of the core know of, the words by which these name them, and the
/// most files that do.
const FEATURES: &[(&str, &[&str], usize)] = &[
    ("room for messages", ROOM, 4),
    ("posted messages", &["post", "posted", "poster", "posts"], 6),
    ("deadlocks", &["deadlock", "cycle", "circle"], 4),
    ("observers", &["observe", "observed", "observer", "observers"], 4),
    ("restarts", &["restart", "restarts", "restarted", "recovered"], 10),
    ("suspended turns", SUSPENDED, 8),
];
const SUSPENDED: &[&str] = &[
    "async",
    "awaited",
    "awaits",
    "resting",
    "resumes",
    "suspend",
    "suspended",
    "suspends",
    "woken",
];
const ROOM: &[&str] = &["room", "semaphore", "permit", "permits", "bounded", "capacity"];

/// The maximum number of files that may name each other in a circle.
const LARGEST_CIRCLE: usize = 4;

type Module = Vec<String>;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    /// `::`
    Of,
    Other(char),
}

impl Token {
    fn is(&self, name: &str) -> bool {
        matches!(self, Token::Name(is) if is == name)
    }
}

/// Returns the tokens of a file, without comments and literals.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut i, mut tokens) = (0, Vec::new());
    while i < chars.len() {
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            '"' => {
                i += 1;
                while i < chars.len() && at(i) != '"' {
                    i += if at(i) == '\\' { 2 } else { 1 };
                }
                i += 1;
            }
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                i += 2;
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            ':' if at(i + 1) == ':' => {
                tokens.push(Token::Of);
                i += 2;
            }
            c if c.is_alphabetic() || c == '_' => {
                let mut name = String::new();
                while at(i).is_alphanumeric() || at(i) == '_' {
                    name.push(at(i));
                    i += 1;
                }
                tokens.push(Token::Name(name));
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(Token::Other(c));
                }
                i += 1;
            }
        }
    }
    tokens
}

/// The files that a file names, and the names that it re-exports.
#[derive(Default)]
struct Names {
    used: BTreeSet<Module>,
    given: BTreeMap<String, Module>,
}

/// Reads the paths of a `use`, from after that word on; returns where it ends.
fn use_tree(tokens: &[Token], mut i: usize, before: &[String], to: &mut Vec<Module>) -> usize {
    let mut path = before.to_vec();
    loop {
        match &tokens[i] {
            Token::Name(name) if name == "as" => {
                let Token::Name(name) = &tokens[i + 1] else { panic!("a name after `as`") };
                // Its local name; the last part of a path gives it.
                path.push(format!("as {name}"));
                i += 2;
            }
            Token::Name(name) => {
                path.push(name.clone());
                i += 1;
            }
            Token::Of => i += 1,
            Token::Other('*') => {
                path.push("*".into());
                i += 1;
            }
            Token::Other('{') => {
                i += 1;
                while tokens[i] != Token::Other('}') {
                    i = use_tree(tokens, i, &path, to);
                    if tokens[i] == Token::Other(',') {
                        i += 1;
                    }
                }
                return i + 1;
            }
            _ => break,
        }
    }
    to.push(path);
    i
}

fn names(text: &str) -> Names {
    let tokens = tokens(text);
    let mut names = Names::default();
    // Modules inside the file, each by the depth of its braces.
    let (mut depth, mut inside) = (0, Vec::<usize>::new());
    let mut i = 0;
    let mut public = false;
    let test = ["#", "[", "cfg", "(", "test", ")", "]"];
    let is_test = |i: usize| {
        test.iter().zip(&tokens[i..]).filter(|(is, token)| match token {
            Token::Name(name) => name == *is,
            Token::Other(c) => is.len() == 1 && is.starts_with(*c),
            Token::Of => false,
        })
    };
    while i < tokens.len() {
        if is_test(i).count() == test.len() {
            // The item that follows.
            i += test.len();
            let mut depth = 0;
            loop {
                match tokens[i] {
                    Token::Other('{') => depth += 1,
                    Token::Other('}') => depth -= 1,
                    _ => {}
                }
                i += 1;
                if depth == 0 && matches!(tokens[i - 1], Token::Other('}' | ';')) {
                    break;
                }
            }
            continue;
        }
        let outer = inside.len();
        // `super` in a module inside the file may be the file.
        let from_here = |mut path: Module| {
            if path[0] == "super" {
                let up = path.iter().take_while(|name| *name == "super").count();
                path.drain(..up.min(outer));
                if up <= outer {
                    path.insert(0, "self".into());
                }
            }
            path
        };
        match &tokens[i] {
            Token::Name(name) if name == "pub" => public = true,
            Token::Name(name) if name == "mod" && tokens[i + 2] == Token::Other('{') => {
                inside.push(depth);
                depth += 1;
                i += 2;
            }
            // Not the one of `impl Trait + use<'a>`.
            Token::Name(name) if name == "use" && tokens[i + 1] != Token::Other('<') => {
                let mut paths = Vec::new();
                i = use_tree(&tokens, i + 1, &[], &mut paths);
                for mut path in paths.into_iter().map(from_here) {
                    let mut known = path.last().expect("a path has a name").clone();
                    if let Some(name) = known.strip_prefix("as ") {
                        known = name.into();
                        path.pop();
                    }
                    if path.last().is_some_and(|name| name == "self") && path.len() > 1 {
                        path.pop();
                        known = path[path.len() - 1].clone();
                    }
                    names.given.insert(known, path.clone());
                    if !public {
                        names.used.insert(path);
                    }
                }
                public = false;
                continue;
            }
            Token::Name(name)
                if ["crate", "super", "self"].contains(&name.as_str())
                    && tokens.get(i + 1) == Some(&Token::Of)
                    && !(i > 0 && tokens[i - 1].is("in")) =>
            {
                let mut path = vec![name.clone()];
                while let (Some(Token::Of), Some(Token::Name(name))) =
                    (tokens.get(i + 1), tokens.get(i + 2))
                {
                    path.push(name.clone());
                    i += 2;
                }
                names.used.insert(from_here(path));
            }
            Token::Other(';') => public = false,
            Token::Other('{') => depth += 1,
            Token::Other('}') => {
                public = false;
                depth -= 1;
                if inside.last() == Some(&depth) {
                    inside.pop();
                }
            }
            _ => {}
        }
        i += 1;
    }
    names
}

/// Reads the files of a package.
fn files_of(package: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, name: &str, files: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{name}{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() && name != "programs" {
                walk(&entry.path(), &format!("{name}/"), files);
            } else if name.ends_with(".rs") {
                files.push((name, fs::read_to_string(entry.path()).unwrap()));
            }
        }
    }
    let mut files = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(package).join("src");
    walk(&folder, "", &mut files);
    let least = if package.is_empty() { 50 } else { 30 };
    assert!(files.len() > least, "where are the sources?");
    files
}

/// The files of a crate by their modules.
struct Sources(BTreeMap<Module, Names>);

impl Sources {
    fn of(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let module = |file: &str| {
            let mut module: Module =
                file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if module.last().is_some_and(|last| last == "mod" || last == "lib") {
                module.pop();
            }
            module
        };
        Sources(files.into_iter().map(|(file, text)| (module(&file), names(&text))).collect())
    }

    /// Those of a package, whose programs are other crates.
    fn shipped(package: &str) -> Self {
        Sources::of(files_of(package))
    }

    /// Returns the file that defines what a path of that module leads to.
    fn leads_to(&self, from: &Module, path: &[String]) -> Option<&Module> {
        let (mut at, mut rest) = (from.clone(), path);
        match path[0].as_str() {
            "crate" => (at, rest) = (Module::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            // A module of its own, or another crate.
            child => {
                at.push(child.into());
                rest = &path[1..];
                if !self.0.contains_key(&at) {
                    return None;
                }
            }
        }
        while let Some(name) = rest.first() {
            at.push(name.clone());
            if !self.0.contains_key(&at) {
                at.pop();
                break;
            }
            rest = &rest[1..];
        }
        let (module, names) = self.0.get_key_value(&at)?;
        match rest.first().and_then(|name| names.given.get(name)) {
            // A name from elsewhere.
            Some(given) if *module != *from => self.leads_to(module, given).or(Some(module)),
            _ => Some(module),
        }
    }

    /// Returns the names of files by file.
    fn arrows(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let arrows = |(from, names): (&_, &Names)| {
            let to = names.used.iter().filter_map(|path| self.leads_to(from, path));
            to.filter(|to| *to != from && !to.is_empty()).collect()
        };
        let code = self.0.iter().filter(|(module, _)| !module.is_empty());
        code.map(|(module, names)| (module, arrows((module, names)))).collect()
    }

    /// Returns the arrows that run up, and files without a floor.
    fn up(&self) -> Vec<String> {
        let floor =
            |module: &Module| FLOORS.iter().position(|row| row.contains(&module[0].as_str()));
        let mut wrong = Vec::new();
        for (from, to) in self.arrows() {
            if NO_CODE.contains(&from[0].as_str()) {
                continue;
            }
            let Some(own) = floor(from) else {
                wrong.push(format!("{} is on no floor", from.join("::")));
                continue;
            };
            for to in to {
                if floor(to).is_none_or(|floor| floor > own) {
                    wrong.push(format!("{} names {}", from.join("::"), to.join("::")));
                }
            }
        }
        wrong
    }

    /// Returns files that name each other, in circles: each file's whole one.
    fn circles(&self) -> BTreeSet<Vec<String>> {
        let arrows = self.arrows();
        fn reached<'a>(
            arrows: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
            from: &'a Module,
        ) -> BTreeSet<&'a Module> {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(at) = next.pop() {
                next.extend(arrows[at].iter().copied().filter(|to| seen.insert(*to)));
            }
            seen
        }
        let reached: BTreeMap<_, _> =
            arrows.keys().map(|from| (*from, reached(&arrows, from))).collect();
        let circle = |from: &&Module| {
            let back = reached[*from].iter().filter(|to| reached[**to].contains(*from));
            back.map(|module| module.join("::")).collect::<Vec<_>>()
        };
        arrows.keys().map(circle).filter(|circle| !circle.is_empty()).collect()
    }
}

#[test]
fn no_file_names_a_floor_above_its_own() {
    let up = Sources::shipped("").up();
    assert!(up.is_empty(), "the floors are said in tests/sources/layers.rs: {up:#?}");
}

#[test]
fn no_circle_of_files_is_large() {
    for package in ["", "crates/turnwise-redis"] {
        for circle in Sources::shipped(package).circles() {
            assert!(circle.len() <= LARGEST_CIRCLE, "files name each other: {circle:#?}");
        }
    }
}

/// Returns the files of the core whose code has one of these words in a name. The declaration of a
/// module is none.
fn files_that_name(files: &[(String, String)], words: &[&str]) -> Vec<String> {
    let is_core = |file: &str| {
        CORE.iter().any(|folder| file.starts_with(folder) && file[folder.len()..].starts_with('/'))
    };
    let is_named = |name: &str| {
        // Of `snake_case`, `CamelCase` and `UPPER_CASE`.
        let camel = name.chars().any(char::is_lowercase);
        let starts = |c: char| camel && c.is_uppercase();
        let spaced: String = name
            .chars()
            .flat_map(|c| [starts(c).then_some('_'), Some(c.to_ascii_lowercase())])
            .flatten()
            .collect();
        spaced != "with_capacity" && spaced.split('_').any(|part| words.contains(&part))
    };
    let names = |text: &str| {
        let tokens = tokens(text);
        let declares = |at: usize| at > 0 && tokens[at - 1].is("mod");
        tokens.iter().enumerate().any(|(at, token)| match token {
            Token::Name(name) => is_named(name) && !declares(at),
            _ => false,
        })
    };
    let named = files.iter().filter(|(file, text)| is_core(file) && names(text));
    named.map(|(file, _)| file.clone()).collect()
}

#[test]
fn a_feature_is_named_in_few_files_of_the_core() {
    let files = files_of("");
    let named = FEATURES.iter().map(|(name, words, most)| {
        let named = files_that_name(&files, words);
        println!("{name}: {}", named.len());
        (name, named, *most)
    });
    let spread: Vec<_> =
        named.filter(|(_, named, most)| !(1..=*most).contains(&named.len())).collect();
    assert!(spread.is_empty(), "the features, the files that name them, and the most: {spread:#?}");
    // A comment, a local module and another floor do not count; code does.
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let files = [
        file("turn/run.rs", "fn f() { self.release_permit() }"),
        file("turn/mod.rs", "mod room; // the semaphore of a bounded mailbox"),
        file("thread/list.rs", "fn f() { Vec::with_capacity(1) }"),
        file("actor/waiting.rs", "use crate::send::room::Waits;"),
    ];
    assert_eq!(files_that_name(&files, ROOM), ["turn/run.rs"]);
}

/// Tests the checks with sources that break the rules.
#[test]
fn what_is_wrong_is_seen() {
    fn sources(files: &[(&str, &str)]) -> Sources {
        Sources::of(files.iter().map(|(file, text)| (file.to_string(), text.to_string())))
    }
    fn wrong(files: &[(&str, &str)]) -> Vec<String> {
        sources(files).up()
    }
    // In a `use`, and without one; through a re-export, under another name, from an inner module.
    let uses = ("mailbox/word.rs", "use crate::cell::{header::Header, turn};");
    let cell = [("cell/mod.rs", ""), ("cell/header.rs", ""), ("cell/turn.rs", "")];
    let all = [&[uses][..], &cell].concat();
    assert_eq!(wrong(&all), ["mailbox::word names cell::header", "mailbox::word names cell::turn"]);
    let all = [&[("pool/mod.rs", "fn f() { crate::cell::turn::g() }")][..], &cell].concat();
    assert_eq!(wrong(&all), ["pool names cell::turn"]);
    let root = ("lib.rs", "mod cell; pub use cell::header::Header as Head;");
    let all = [&[root, ("panic.rs", "use crate::Head;")][..], &cell].concat();
    assert_eq!(wrong(&all), ["panic names cell::header"]);
    let inner = ("sync.rs", "mod a { mod b { use super::super::super::cell::turn; } }");
    let all = [&[("lib.rs", ""), inner][..], &cell].concat();
    assert_eq!(wrong(&all), ["sync names cell::turn"]);
    let inner = ("sync.rs", "mod a { use super::B; }");
    assert!(wrong(&[&[inner][..], &cell].concat()).is_empty());
    // Comments, literals and tests.
    let text = "// crate::cell::turn\nconst A: &str = \"crate::cell::turn\";\n\
        #[cfg(test)]\nmod tests { use crate::cell::turn; }\n";
    assert!(wrong(&[&[("panic.rs", text)][..], &cell].concat()).is_empty());
    assert_eq!(wrong(&[("attic.rs", "")]), ["attic is on no floor"]);
    // Circles: of three, by a facade; one that a facade only re-exports is none.
    let facade = ("cell/mod.rs", "pub(crate) use a::A; pub(crate) use b::B;");
    let a = ("cell/a.rs", "use super::B;");
    let b = ("cell/b.rs", "fn f(_: super::c::C) {}");
    let c = ("cell/c.rs", "use super::{a::A as Other};");
    let circles = sources(&[facade, a, b, c]).circles();
    assert_eq!(circles.into_iter().collect::<Vec<_>>(), [["cell::a", "cell::b", "cell::c"]]);
    assert!(sources(&[facade, a, ("cell/b.rs", "")]).circles().is_empty());
}
