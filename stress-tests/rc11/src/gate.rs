//! The ordering gate: each ordering of the shipped files, weakened by itself, must be noticed by a
//! model, or `reasons.txt` says why RC11 does not need it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::runner::{Uses, in_parallel, search};
use crate::scan::{scan_text, weaker_than};
use crate::sync::site;

/// The shipped files, below `src`.
const FILES: [&str; 4] = ["cell/counts.rs", "mailbox/word.rs", "pool/alarm.rs", "pool/idle.rs"];

/// Runs the gate over the sites that the models have used.
pub(crate) fn run(uses: &[Uses]) -> bool {
    let mut errors = Vec::new();
    let mut sites = BTreeMap::<&str, &str>::new();
    for (site, ordering) in uses.iter().flat_map(|of| &of.sites) {
        if FILES.iter().any(|file| site.starts_with(file)) {
            sites.insert(site, ordering);
        }
    }
    errors.extend(unused(&sites));

    let mutants = (sites.iter())
        .flat_map(|(site, ordering)| {
            let to = match *ordering {
                "SeqCst" => &["AcqRel"],
                ordering => weaker_than(site, ordering),
            };
            to.iter().map(move |to| (*site, *ordering, *to))
        })
        .collect::<Vec<_>>();
    let killers = in_parallel(&mutants, |(site, _, to)| killer(uses, site, to));
    let mut reasons = reasons();
    let mut killed = 0;
    for ((site, from, to), killer) in mutants.iter().zip(&killers) {
        let (file, line, op) = parts(site);
        let text = line_of(file, line);
        let reason = reasons.iter().position(|[of, part, weaker, _]| {
            *of == format!("{file}@{op}") && text.contains(part.as_str()) && weaker == to
        });
        let reason = reason.map(|at| reasons.remove(at));
        match (killer, reason) {
            (Some(killer), None) => {
                killed += 1;
                println!("killed   {site} {from} -> {to}: {killer}");
            }
            (None, Some([_, _, _, why])) => println!("needless {site} {from} -> {to}: {why}"),
            (None, None) => errors.push(format!("no model notices {site} {from} -> {to}")),
            (Some(killer), Some(_)) => {
                errors.push(format!("{killer} notices {site} {from} -> {to}, which has a reason"));
            }
        }
    }
    errors.extend(reasons.iter().map(|reason| format!("a reason that fits nothing: {reason:?}")));
    println!("{} orderings weakened, {killed} killed", mutants.len());
    errors.iter().for_each(|error| println!("SURVIVED {error}"));
    errors.is_empty() && killed > 0
}

/// The first model that fails with that ordering, the smallest first.
fn killer(uses: &[Uses], site: &str, to: &str) -> Option<&'static str> {
    let mut models = uses.iter().filter(|of| of.sites.contains_key(site)).collect::<Vec<_>>();
    models.sort_by_key(|of| of.executions);
    let mutant = format!("{site}:{to}");
    let found = models.iter().find(|of| {
        site::weaken(&mutant).expect("it is a site");
        let failed = search(of.model).failure.is_some();
        assert!(site::was_hit(), "{mutant} was not used");
        failed
    });
    site::plain();
    found.map(|of| of.model.name)
}

/// Operations of the files that no model comes by.
fn unused(sites: &BTreeMap<&str, &str>) -> Vec<String> {
    let used = sites.keys().map(|site| {
        let (file, line, op) = parts(site);
        (file, line, op.split(':').next().unwrap_or_default())
    });
    let used = used.collect::<BTreeSet<_>>();
    (FILES.iter())
        .flat_map(|file| scan_text(&source(file), false).into_iter().map(move |of| (*file, of)))
        .filter(|(file, (line, op))| !used.contains(&(file, *line, op.as_str())))
        .map(|(file, (line, op))| format!("no model comes by {file}@{line}@{op}"))
        .collect()
}

/// The file, the line and the operation of a site.
fn parts(site: &str) -> (&str, usize, &str) {
    let mut parts = site.splitn(3, '@');
    let [file, line, op] = [(); 3].map(|()| parts.next().expect("a site has three parts"));
    (file, line.parse().expect("a number"), op)
}

fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src").join(file);
    std::fs::read_to_string(path).expect("a shipped file can be read")
}

fn line_of(file: &str, line: usize) -> String {
    source(file).lines().nth(line - 1).unwrap_or_default().to_owned()
}

/// The file and operation, a part of the line, the weaker ordering, and why that suffices.
fn reasons() -> Vec<[String; 4]> {
    let lines = include_str!("../reasons.txt").lines();
    lines
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let fields = line.split(" | ").map(|field| field.trim().to_owned());
            let fields = fields.collect::<Vec<_>>();
            fields.try_into().unwrap_or_else(|_| panic!("not a reason: {line}"))
        })
        .collect()
}
