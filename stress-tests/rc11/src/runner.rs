//! Runs all of it, and prints what it has found.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use crate::explorer::{Report, Search, explore};
use crate::gate;
use crate::litmus::{LITMUS, Litmus};
use crate::models::{CONTROLS, MODELS, Model};

/// The most runs of one program.
const MOST_RUNS: u64 = 1_000_000;
/// A model with fewer executions is searched by all orders of its steps, too: by that many runs; if
/// it has more, nothing is compared.
const FEW: u64 = 30;
const MOST_RUNS_BY_ALL_ORDERS: u64 = 5_000;

/// Runs the litmus programs, the models and the gate. With arguments, the models alone whose names
/// contain one of them.
pub fn main() -> ExitCode {
    let words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let words = words.collect::<Vec<_>>();
    let is_wanted = |model: &&Model| {
        words.is_empty() || words.iter().any(|word| model.name.contains(word.as_str()))
    };
    let begun = Instant::now();
    let mut failed = 0;
    let mut count = |right: bool| failed += u32::from(!right);

    if words.is_empty() {
        in_parallel(LITMUS, check_litmus).into_iter().for_each(&mut count);
        in_parallel(CONTROLS, check_control).into_iter().for_each(&mut count);
    }
    let models = MODELS.iter().filter(is_wanted).collect::<Vec<_>>();
    let checked = in_parallel(&models, check_model);
    let executions = checked.iter().map(|(_, uses)| uses.executions).sum::<u64>();
    checked.iter().for_each(|(right, _)| count(*right));
    println!("{} models, {executions} executions", models.len());
    if words.is_empty() {
        count(gate::run(&checked.into_iter().map(|(_, uses)| uses).collect::<Vec<_>>()));
    }
    println!("in {:.1} s, {failed} failed", begun.elapsed().as_secs_f64());
    ExitCode::from(u8::from(failed > 0))
}

/// A model's orderings, by site, and its size.
pub(crate) struct Uses {
    pub(crate) model: &'static Model,
    pub(crate) executions: u64,
    pub(crate) sites: BTreeMap<String, String>,
}

/// Searches a model's executions.
pub(crate) fn search(model: &Model) -> Report {
    explore(Search { limit: MOST_RUNS, ..Search::default() }, &model.run)
}

fn check_litmus(litmus: &Litmus) -> bool {
    let report = (litmus.run)(Search::default());
    // The search by one order of the steps, against the one by all.
    let all = (litmus.run)(Search { all_orders: true, ..Search::default() });
    let (asked, allowed) = litmus.asked;
    let is_shown = report.outcomes.contains(asked);
    let right = report.failure.is_none()
        && all.failure.is_none()
        && [report.executions, all.executions] == [litmus.executions; 2]
        && report.outcomes == all.outcomes
        && report.outcomes.len() == litmus.outcomes
        && is_shown == allowed;
    println!(
        "{} litmus {}: {} executions (all orders: {}), {} outcomes, {asked:?} {}",
        verdict(right),
        litmus.name,
        report.executions,
        all.executions,
        report.outcomes.len(),
        if is_shown { "shown" } else { "not shown" },
    );
    right
}

fn check_control(control: &Model) -> bool {
    let failure = search(control).failure;
    let what = failure.as_deref().and_then(|failure| failure.lines().next());
    println!("{} control {}: {}", verdict(what.is_some()), control.name, what.unwrap_or("passed"));
    what.is_some()
}

fn check_model(model: &&'static Model) -> (bool, Uses) {
    crate::sync::site::list();
    let report = search(model);
    let sites = crate::sync::site::listed();
    crate::sync::site::plain();
    let missed = model.places.iter().filter(|place| !report.reached.contains(**place));
    let missed = missed.collect::<Vec<_>>();
    let right = report.failure.is_none() && !report.is_cut && missed.is_empty();
    let Report { executions, redundant, events, .. } = report;
    let by_all = (executions < FEW)
        .then(|| {
            let limit = MOST_RUNS_BY_ALL_ORDERS;
            explore(Search { all_orders: true, limit }, &model.run)
        })
        .filter(|by_all| !by_all.is_cut)
        .map(|by_all| by_all.executions);
    let right = right && by_all.is_none_or(|by_all| by_all == executions);
    let by_all = by_all.map_or(String::new(), |by_all| format!(", by all orders {by_all}"));
    println!(
        "{} model {}: {executions} executions of up to {events} events{by_all} \
         ({redundant} runs were redundant)",
        verdict(right),
        model.name,
    );
    if report.is_cut {
        println!("       not finished after {MOST_RUNS} runs");
    }
    missed.iter().for_each(|place| println!("       never reached: {place}"));
    if let Some(failure) = report.failure {
        println!("{failure}");
    }
    let sites = sites.into_iter().map(|(site, ordering)| (site.to_string(), ordering)).collect();
    (right, Uses { model, executions, sites })
}

pub(crate) fn verdict(right: bool) -> &'static str {
    if right { "ok    " } else { "FAILED" }
}

/// Does this for all items, two at a time: the results, in their order.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = f(item);
                    results.lock().expect("not poisoned").insert(index, result);
                }
            });
        }
    });
    results.into_inner().expect("not poisoned").into_values().collect()
}
