//! The ordering gate: every memory ordering of the product, weakened by itself, must be noticed by
//! a model.
//!
//! 1. Every model is run once and lists its sites. Every atomic operation in the sources must be
//!    among them.
//! 2. Each ordering that is stronger than relaxed is weakened by itself (AcqRel by halves, a fence
//!    is removed), and the models that use its site are run, the quickest first and at two
//!    preemptions, then at their own bounds, until one fails: it is the killer.
//! 3. A weakening that survives needs a reason in `reasons.txt`; a reason that fits nothing, or
//!    fits a killed one, is an error.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::models::{MODELS, Model};
use crate::runner::{Job, Tree, Verdict, at_most_quick, in_parallel};
use crate::scan::{scan_text, weaker_than};

/// An ordering in the source, and the models that use it.
struct Use {
    ordering: String,
    models: Vec<(Tree, &'static str)>,
}

/// One weakening.
struct Mutant {
    site: String,
    from: String,
    to: &'static str,
    killer: Option<&'static str>,
}

/// The reason for a weakening that no model notices.
struct Reason {
    file: String,
    op: String,
    text: String,
    to: String,
    class: String,
}

pub(crate) fn run() -> bool {
    let mut errors = Vec::new();
    let (uses, took) = list(&mut errors);
    scan(&uses, &mut errors);

    let mutants =
        Mutex::new(uses.iter().flat_map(|(site, of)| weaker(site, of)).collect::<Vec<_>>());
    let jobs = (0..mutants.lock().expect("not poisoned").len()).collect::<Vec<_>>();
    let failed = Mutex::new(&mut errors);
    in_parallel(&jobs, |&job| {
        let (site, mutant) = {
            let mutant = &mutants.lock().expect("not poisoned")[job];
            (mutant.site.clone(), format!("{}:{}", mutant.site, mutant.to))
        };
        let mut models = uses[&site].models.clone();
        models.sort_by_key(|(_, name)| took[name]);
        match killer(&mutant, &models) {
            Ok(killer) => mutants.lock().expect("not poisoned")[job].killer = killer,
            Err(error) => failed.lock().expect("not poisoned").push(error),
        }
    });
    let mutants = mutants.into_inner().expect("not poisoned");
    report(&mutants, &mut errors) && errors.is_empty()
}

/// Lists all sites, and the duration of each model. The narrow tree counts where the real one does
/// not use a site (saturation).
fn list(errors: &mut Vec<String>) -> (BTreeMap<String, Use>, HashMap<&'static str, Duration>) {
    let found = Mutex::new((BTreeMap::<String, Use>::new(), HashMap::new(), errors));
    for tree in [Tree::Real, Tree::Narrow] {
        let known = found.lock().expect("not poisoned").0.keys().cloned().collect::<BTreeSet<_>>();
        in_parallel(MODELS, |model| {
            let outcome =
                Job { list: true, bound: quick(model), ..Job::new(tree, model.name) }.run();
            let mut found = found.lock().expect("not poisoned");
            let (uses, took, errors) = &mut *found;
            if outcome.verdict != Verdict::Green {
                errors.push(format!("{} is not green: {}", model.name, outcome.errors));
            }
            took.entry(model.name).or_insert(outcome.took);
            let sites = outcome
                .output
                .lines()
                .filter_map(|line| line.strip_prefix("site ")?.rsplit_once(' '));
            for (site, ordering) in
                sites.filter(|(site, _)| !site.starts_with("models/") && !known.contains(*site))
            {
                let of = uses
                    .entry(site.to_owned())
                    .or_insert_with(|| Use { ordering: ordering.to_owned(), models: Vec::new() });
                if of.ordering != ordering {
                    let other = &of.ordering;
                    errors.push(format!(
                        "{site} is {other} and {ordering}: one line, two operations"
                    ));
                }
                of.models.push((tree, model.name));
            }
        });
    }
    let (uses, took, _) = found.into_inner().expect("not poisoned");
    (uses, took)
}

/// Returns the bound of the quick round for this model.
fn quick(model: &Model) -> Option<usize> {
    at_most_quick(model.bound)
}

/// Returns the folder of the shipped sources.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../src")
}

/// Returns that of the locks.
fn locks() -> PathBuf {
    sources().join("../crates/turnwise-locks/src")
}

/// Files of the executors that the models do not run (`src/executor.rs` says why), and those of the
/// pool that reach its queues, may only use relaxed operations, except for these.
const NOT_HERE: [(&str, &str); 1] =
    [("executor/tokio.rs", "a flag that says that a runtime is gone: it needs a runtime")];

/// True if the models do not have this file, or not as a whole; or if it is one of the locks, whose
/// counters are the standard library's: they may be relaxed, too.
fn is_not_here(file: &str) -> bool {
    if locks().join(file).exists() && !sources().join(file).exists() {
        return true;
    }
    let has = |floor: &str, here: &[&str]| {
        file.strip_prefix(floor).is_some_and(|name| !here.contains(&name))
    };
    has("executor/", &["manual.rs"])
        || has("fallback/", &[])
        || has("pool/", &["alarm.rs", "idle.rs", "lifo_slot.rs"])
}

/// Checks that every atomic operation in the sources has been used.
fn scan(uses: &BTreeMap<String, Use>, errors: &mut Vec<String>) {
    let mut operations = Vec::new();
    scan_dir(&sources(), "", &mut operations);
    scan_dir(&locks(), "", &mut operations);
    for site in &operations {
        let used = uses.keys().any(|used| {
            used == site
                || used.strip_prefix(site.as_str()).is_some_and(|half| half.starts_with(':'))
        });
        if !used {
            errors.push(format!("{site} is in the source, and no model comes by"));
        }
    }
    for (used, of) in uses {
        let whole = used.trim_end_matches(":ok").trim_end_matches(":fail");
        let is_free = of.ordering == "Relaxed" && is_not_here(file(used));
        if !is_free && !operations.iter().any(|site| site == whole) {
            errors.push(format!("{used} was used, and the scan does not see it in the source"));
        }
    }
}

/// Returns the file of a site.
fn file(site: &str) -> &str {
    site.split('@').next().unwrap_or_default()
}

fn scan_dir(dir: &Path, prefix: &str, operations: &mut Vec<String>) {
    for entry in fs::read_dir(dir).expect("the sources can be listed") {
        let path = entry.expect("the sources can be listed").path();
        let name = format!(
            "{prefix}{}",
            path.file_name().and_then(|name| name.to_str()).expect("a plain name")
        );
        if path.is_dir() {
            scan_dir(&path, &format!("{name}/"), operations);
        } else if name.ends_with(".rs")
            && name != "sync.rs"
            && name != "lib.rs"
            && !name.starts_with("sync/")
        {
            let text = fs::read_to_string(&path).expect("a source can be read");
            let found = scan_text(&text, is_not_here(&name));
            if NOT_HERE.iter().all(|(file, _)| *file != name) {
                operations
                    .extend(found.into_iter().map(|(line, op)| format!("{name}@{line}@{op}")));
            }
        }
    }
}

/// Returns the weaker forms of an ordering.
fn weaker(site: &str, of: &Use) -> Vec<Mutant> {
    weaker_than(site, &of.ordering)
        .iter()
        .map(|&to| Mutant { site: site.to_owned(), from: of.ordering.clone(), to, killer: None })
        .collect()
}

/// Returns the first model that notices.
fn killer(mutant: &str, models: &[(Tree, &'static str)]) -> Result<Option<&'static str>, String> {
    for round in [quick, |_: &Model| None] {
        for &(tree, name) in models {
            let model = MODELS.iter().find(|model| model.name == name).expect("it listed the site");
            let outcome = Job {
                bound: round(model),
                mutant: Some(mutant.to_owned()),
                ..Job::new(tree, name)
            }
            .run();
            match outcome.verdict {
                Verdict::Red => return Ok(Some(name)),
                Verdict::Green => {}
                Verdict::UnknownSite => return Err(format!("{mutant}: {name} never comes by")),
                Verdict::Error => {
                    return Err(format!("{mutant}: {name} failed to run: {}", outcome.errors));
                }
            }
        }
    }
    Ok(None)
}

/// Reads the checked-in reasons: `file@op | text of the line | weakened to | class | reason | the
/// check instead`.
fn reasons(errors: &mut Vec<String>) -> Vec<Reason> {
    let text = include_str!("../reasons.txt");
    let lines = text.lines().filter(|line| line.contains('|') && !line.starts_with('#'));
    let mut reasons = Vec::new();
    for line in lines {
        let fields = line.split(" | ").map(str::trim).collect::<Vec<_>>();
        let (Some((file, op)), &[_, text, to, class, why, other]) =
            (fields[0].split_once('@'), &fields[..])
        else {
            errors.push(format!("not a reason: {line}"));
            continue;
        };
        if !matches!(class, "over-strong" | "redundant pair" | "blind spot")
            || why.is_empty()
            || other.is_empty()
        {
            errors.push(format!(
                "a reason of no known class, or without a reason or another check: {line}"
            ));
        }
        let [file, op, text, to, class] = [file, op, text, to, class].map(str::to_owned);
        reasons.push(Reason { file, op, text, to, class });
    }
    reasons
}

impl Reason {
    fn fits(&self, mutant: &Mutant) -> bool {
        let mut parts = mutant.site.splitn(3, '@');
        let (Some(file), Some(line), Some(op)) = (parts.next(), parts.next(), parts.next()) else {
            return false;
        };
        if file != self.file || op != self.op || mutant.to != self.to {
            return false;
        }
        let read = |root: PathBuf| fs::read_to_string(root.join(file)).ok();
        let text = read(sources()).or_else(|| read(locks())).unwrap_or_default();
        let line = line.parse::<usize>().ok().and_then(|line| text.lines().nth(line - 1));
        line.is_some_and(|line| line.contains(&self.text))
    }
}

fn report(mutants: &[Mutant], errors: &mut Vec<String>) -> bool {
    let reasons = reasons(errors);
    let (mut killed, mut survived, mut reasoned) = (0, 0, 0);
    let mut fitted = vec![0; reasons.len()];
    for mutant in mutants {
        let reason = reasons.iter().position(|reason| reason.fits(mutant));
        if let Some(reason) = reason {
            fitted[reason] += 1;
        }
        let fate = match (mutant.killer, reason) {
            (Some(killer), None) => {
                killed += 1;
                killer.to_owned()
            }
            (Some(killer), Some(_)) => {
                killed += 1;
                errors.push(format!(
                    "{} -> {} is killed by {killer}: its reason is stale",
                    mutant.site, mutant.to
                ));
                killer.to_owned()
            }
            (None, Some(reason)) => {
                reasoned += 1;
                format!("({})", reasons[reason].class)
            }
            (None, None) => {
                survived += 1;
                "SURVIVED".to_owned()
            }
        };
        let mut parts = mutant.site.splitn(3, '@');
        let [file, line, op] = [(); 3].map(|()| parts.next().unwrap_or_default());
        println!("{file:<18} {line:>4} {op:<22} {:<7} -> {:<7} {fate}", mutant.from, mutant.to);
    }
    for (reason, fitted) in reasons.iter().zip(fitted) {
        if fitted != 1 {
            errors.push(format!(
                "{}@{} | {} fits {fitted} sites, not one",
                reason.file, reason.op, reason.text
            ));
        }
    }
    errors.iter().for_each(|error| println!("error: {error}"));
    println!("{reasoned} reasoned");
    println!("{} sites, {killed} killed, {survived} survived", mutants.len());
    survived == 0 && !mutants.is_empty()
}
