//! Runs models: each in a process of its own, two at a time.
//!
//! | arguments                    | what runs                                                     |
//! |------------------------------|---------------------------------------------------------------|
//! | none, or parts of names      | the suite, or the models and planted bugs with such names     |
//! | `--quick`, then the same     | the same in seconds: see below                                |
//! | `--check`, `--bless`         | compares the executions with [those known](crate::counts), or |
//! |                              | makes them known; with the others, too                        |
//! | `orderings`                  | the [gate](crate::gate)                                       |
//! | `one TREE MODEL` and options | one model in this process, one ordering weakened as `MUTANT`  |
//! |                              | says: `bug=NAME`, `bound=N`, `fail=load`, `list=sites`        |
//!
//! The suite: the canary first; then every model in the real and the narrow tree, and once more, at
//! two preemptions, with failing compare-and-swaps as plain loads; then the designs that must fail
//! and the planted bugs. A model to which a narrow count makes [no difference](crate::counts) has
//! one preemption in the narrow tree, unless the counts are compared. The quick mode runs the
//! models with two preemptions at most, and leaves the round with failing compare-and-swaps out. A
//! model process ends with 0 (green), 101 or a signal (red), 3 (the site to be weakened was never
//! used) or 2 (unknown name). A process that uses too much processor time, or sleeps, is an error:
//! see [`crate::watchdog`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::counts::{self, Counts, Key};
use crate::models::Model;
use crate::sync::panic::Planned;
use crate::sync::{self, site};
use crate::watchdog::Watchdog;

const RED: i32 = 101;
const UNKNOWN_SITE: i32 = 3;
const USAGE: i32 = 2;
/// The bound of the quick mode, and of the quick round of the gate.
const QUICK: usize = 2;
/// The bound in the narrow tree of a model that no count saturates in.
const UNSATURATED: usize = 1;
/// The text before the number of the execution that failed.
const FELL_ON: &str = "red on execution ";
const AT_ONCE: usize = 2;

/// A copy of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    Real,
    Narrow,
}

impl Tree {
    fn name(self) -> &'static str {
        match self {
            Tree::Real => "real",
            Tree::Narrow => "narrow",
        }
    }

    /// Returns a model of this tree by its name.
    fn find(self, name: &str) -> Option<Seen> {
        macro_rules! find {
            ($models:path) => {{
                use $models::{CONTROLS, MODELS};
                let model = MODELS.iter().chain(CONTROLS).find(|model| model.name == name)?;
                Seen { bound: model.bound, places: model.places, run: model.run }
            }};
        }
        Some(match self {
            Tree::Real => find!(crate::models),
            Tree::Narrow => find!(crate::narrow::models),
        })
    }
}

/// A model without its tree.
struct Seen {
    bound: Option<usize>,
    places: &'static [&'static str],
    run: fn(),
}

/// One process.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) tree: Tree,
    pub(crate) model: &'static str,
    pub(crate) bug: Option<&'static str>,
    pub(crate) bound: Option<usize>,
    pub(crate) fail_as_load: bool,
    pub(crate) list: bool,
    pub(crate) mutant: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Green,
    Red,
    UnknownSite,
    Error,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// The executions, if it was green.
    pub(crate) executions: u64,
    /// The execution that failed, from 1; none if it was green or ended by a signal.
    pub(crate) fell_on: Option<u64>,
    pub(crate) took: Duration,
    pub(crate) output: String,
    /// Its output, if it was red.
    pub(crate) errors: String,
}

impl Job {
    pub(crate) fn new(tree: Tree, model: &'static str) -> Self {
        Job { tree, model, bug: None, bound: None, fail_as_load: false, list: false, mutant: None }
    }

    /// Returns the key of its executions.
    fn key(&self) -> Key {
        let bounds = match (self.fail_as_load, self.bound) {
            (true, _) => "as-load",
            (false, Some(_)) => "quick",
            (false, None) => "full",
        };
        (self.model.to_owned(), self.tree.name(), bounds)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["one", self.tree.name(), self.model]);
        command.args(self.bug.map(|bug| format!("bug={bug}")));
        command.args(self.bound.map(|bound| format!("bound={bound}")));
        command.args(self.fail_as_load.then_some("fail=load"));
        command.args(self.list.then_some("list=sites"));
        // Variables that loom reads would weaken a gate unseen.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LOOM_") {
                command.env_remove(name);
            }
        }
        match &self.mutant {
            Some(mutant) => command.env("MUTANT", mutant),
            None => command.env_remove("MUTANT"),
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self) -> Outcome {
        let start = Instant::now();
        let mut child = self.command().spawn().expect("this program can be started");
        // Read while it runs: a child that fills its pipe would wait for a reader.
        let output = drain(child.stdout.take());
        let errors = drain(child.stderr.take());
        let mut watchdog = Watchdog::new(child.id());
        let mut over = None;
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break Some(status);
            }
            over = watchdog.look();
            if over.is_some() {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let [output, mut errors] =
            [output, errors].map(|text| text.join().expect("a reader does not panic"));
        let verdict = match status.map(|status| status.code()) {
            Some(Some(0)) => Verdict::Green,
            Some(Some(RED) | None) => Verdict::Red,
            Some(Some(UNKNOWN_SITE)) => Verdict::UnknownSite,
            Some(Some(_)) => Verdict::Error,
            None => {
                errors += &format!("stopped: {}\n", over.unwrap_or_default());
                Verdict::Error
            }
        };
        let executions = output
            .lines()
            .find_map(|line| line.strip_prefix("executions ")?.parse().ok())
            .unwrap_or(0);
        let fell_on = errors
            .lines()
            .find_map(|line| line.strip_prefix(FELL_ON)?.split_once(':')?.0.parse().ok());
        Outcome { verdict, executions, fell_on, took: start.elapsed(), output, errors }
    }
}

/// Reads all output of a pipe on a thread of its own.
fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match (self.bug, self.fail_as_load) {
            (Some(bug), _) => bug,
            (None, true) => "failing as load",
            (None, false) => "",
        };
        write!(f, "{:<38} {:<7} {how:<34}", self.model, self.tree.name())
    }
}

/// Runs the jobs, two at a time, in order.
pub(crate) fn in_parallel<J: Sync>(jobs: &[J], work: impl Fn(&J) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
                    work(job);
                }
            });
        }
    });
}

#[derive(Default)]
struct Totals {
    models: usize,
    executions: u64,
    passed: usize,
    failed: usize,
    /// Planted bugs that fell on the first execution: no interleaving was needed to find them.
    first: usize,
    /// Those that fell later.
    later: usize,
    /// Executions of the models that were green.
    counts: BTreeMap<Key, u64>,
}

/// Runs jobs that must all end with one verdict; adds to the totals.
fn expect(wanted: Verdict, jobs: &[Job], totals: &mut Totals) {
    let shared = Mutex::new(totals);
    in_parallel(jobs, |job| {
        let Outcome { verdict, executions, fell_on, took, errors, .. } = job.run();
        let mut passed = verdict == wanted;
        let mut totals = shared.lock().expect("no thread panics with it");
        totals.executions += executions;
        if (verdict, wanted) == (Verdict::Green, Verdict::Green) {
            totals.counts.insert(job.key(), executions);
        }
        let mut end = match (verdict, wanted) {
            (Verdict::Green, Verdict::Green) => format!("{executions} executions"),
            (Verdict::Red, Verdict::Red) => match fell_on {
                Some(no) => format!("red on execution {no}, as it must be"),
                None => "red by a signal, as it must be".to_owned(),
            },
            (other, _) => format!("{other:?}"),
        };
        if let (Some(bug), Verdict::Red) = (job.bug, verdict) {
            let first = fell_on == Some(1);
            *if first { &mut totals.first } else { &mut totals.later } += 1;
            if first != marked_first(bug) {
                passed = false;
                let mark = if first { "has to say" } else { "must not say" };
                end += &format!(": planted.txt {mark} `first`");
            }
        }
        *if passed { &mut totals.passed } else { &mut totals.failed } += 1;
        println!(
            "{} {job} {end}, {:.1} s",
            if passed { "ok    " } else { "FAILED" },
            took.as_secs_f64()
        );
        if !passed {
            println!("{}", errors.trim_end());
        }
    });
}

/// True if planted.txt says that this bug falls on the first execution.
fn marked_first(name: &str) -> bool {
    crate::BUGS.iter().any(|bug| bug.name == name && bug.first)
}

/// Returns the bound of the quick mode for a model with this one.
pub(crate) fn at_most_quick(bound: Option<usize>) -> Option<usize> {
    Some(bound.map_or(QUICK, |bound| bound.min(QUICK)))
}

/// Runs the suite, or the part of it whose names contain one of `parts`.
fn suite(parts: &[String]) -> bool {
    let (flags, parts) = parts.iter().partition::<Vec<_>, _>(|part| part.starts_with("--"));
    let (mut quick, mut known) = (false, Counts::Ignored);
    for flag in flags {
        match flag.as_str() {
            "--quick" => quick = true,
            "--check" => known = Counts::Checked,
            "--bless" => known = Counts::Blessed,
            _ => {
                println!("`{flag}` is no option");
                return false;
            }
        }
    }
    let chosen =
        |name: &str| parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()));
    let mut totals = Totals::default();
    let controls = crate::models::CONTROLS.iter().map(|model| model.name);
    let (canaries, controls) = controls.partition::<Vec<_>, _>(|name| name.starts_with("canary"));
    let canaries = canaries.into_iter().map(|name| Job::new(Tree::Real, name)).collect::<Vec<_>>();
    expect(Verdict::Red, &canaries, &mut totals);
    if totals.failed > 0 {
        println!("the canary lives: nothing below would mean anything");
        return false;
    }

    let models =
        crate::models::MODELS.iter().filter(|model| chosen(model.name)).collect::<Vec<&Model>>();
    totals.models = models.len();
    let bounded = |model: &Model, quick| if quick { at_most_quick(model.bound) } else { None };
    let mut jobs = models
        .iter()
        .map(|model| Job { bound: bounded(model, quick), ..Job::new(Tree::Real, model.name) })
        .collect::<Vec<_>>();
    counts::longest_first(&mut jobs, Job::key);
    expect(Verdict::Green, &jobs, &mut totals);
    let unsaturated = match known {
        Counts::Ignored => counts::unsaturated(&totals.counts),
        Counts::Checked | Counts::Blessed => BTreeSet::new(),
    };
    let mut jobs = models
        .iter()
        .map(|model| {
            let bound = match unsaturated.contains(model.name) {
                true => Some(UNSATURATED),
                false => bounded(model, quick),
            };
            Job { bound, ..Job::new(Tree::Narrow, model.name) }
        })
        .collect::<Vec<_>>();
    // These take most of the time, and find very few bugs, so they run last.
    if !quick {
        jobs.extend(models.iter().map(|model| {
            let bound = at_most_quick(model.bound);
            Job { fail_as_load: true, bound, ..Job::new(Tree::Real, model.name) }
        }));
    }
    counts::longest_first(&mut jobs, Job::key);
    expect(Verdict::Green, &jobs, &mut totals);

    let mut jobs = controls
        .into_iter()
        .filter(|name| chosen(name))
        .map(|name| Job::new(Tree::Real, name))
        .collect::<Vec<_>>();
    let bugs = crate::BUGS.iter().filter(|bug| chosen(bug.name) || chosen(bug.model));
    jobs.extend(bugs.map(|bug| Job { bug: Some(bug.name), ..Job::new(Tree::Narrow, bug.model) }));
    expect(Verdict::Red, &jobs, &mut totals);

    let Totals { models, executions, passed, failed, first, later, counts } = totals;
    let as_known = failed == 0 && known.settle(&counts, parts.is_empty());
    let bugs = first + later;
    println!(
        "{bugs} planted bugs red: {first} on the first execution (no interleaving), {later} later"
    );
    let how = if quick { ", in the quick mode" } else { "" };
    println!("{passed} passed, {failed} failed{how}");
    println!("{models} models, {executions} executions");
    as_known && passed > canaries.len()
}

/// Runs one model here.
fn one(args: &[String]) -> i32 {
    let [tree, model, options @ ..] = args else { return USAGE };
    let tree = [Tree::Real, Tree::Narrow].into_iter().find(|known| known.name() == tree);
    let Some(mut model) = tree.and_then(|tree| tree.find(model)) else {
        eprintln!("there is no such model");
        return USAGE;
    };
    let mut list = false;
    for option in options {
        match option.split_once('=') {
            Some(("bug", name)) => sync::plant(name),
            Some(("bound", bound)) if bound.parse::<usize>().is_ok() => {
                let bound = bound.parse().ok();
                // With so few preemptions, a place may be missed.
                if bound < at_most_quick(model.bound) {
                    model.places = &[];
                }
                model.bound = bound;
            }
            Some(("fail", "load")) => {
                sync::atomic::fail_as_load();
                // Loom looks back at one access per thread and location: the loads hide some
                // orders, so that a place may be missed.
                model.places = &[];
            }
            Some(("list", "sites")) => list = true,
            _ => {
                eprintln!("`{option}` is no option");
                return USAGE;
            }
        }
    }
    if list {
        site::list();
    }
    let weakened = std::env::var("MUTANT").map_or(Ok(()), |mutant| site::weaken(&mutant));
    if let Err(error) = weakened {
        eprintln!("{error}");
        return UNKNOWN_SITE;
    }
    std::panic::set_hook(Box::new(|info| {
        // An unplanned panic ends the model here: unwinding through it could only hide the error.
        if !info.payload().is::<Planned>() {
            eprintln!("{FELL_ON}{}: {info}", sync::executions());
            std::process::exit(RED);
        }
    }));
    sync::explore(model.bound, model.places, model.run);
    if !site::was_hit() {
        eprintln!("the site to be weakened was never used");
        return UNKNOWN_SITE;
    }
    println!("executions {}", sync::executions());
    for (site, ordering) in site::listed() {
        println!("site {site} {ordering}");
    }
    0
}

/// The whole program.
pub fn main() -> ExitCode {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let green = match args.first().map(String::as_str) {
        Some("one") => std::process::exit(one(&args[1..])),
        Some("orderings") => crate::gate::run(),
        _ => suite(&args),
    };
    if green { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
