//! How much does a message cost, against a mutex used directly and the textbook's mailbox, everywhere at once?
//!
//! Short trials in which all subjects take turns, so that a change of the machine's pace meets all of them; per round the ratio to
//! `parking_lot`, over the rounds the medians. A table a minute, where criterion takes half an hour.
//!
//! ```text
//! cargo bench --bench ratios [-- [--rounds N] [--only WORKLOAD]]
//! ```
//! Where a subject of ours is slower than the textbook's mailbox in the same role, the row is marked with `<`.

mod workloads;

use std::time::Duration;

use workloads::{
    ParkingLot, Std, Subject, Textbook, TextbookAsk, Took, TurnwiseAsk, TurnwiseSend, TurnwiseWith, exchange, rounds_of, timed,
};

const TRIAL: Duration = Duration::from_millis(5);
/// How often a trial is run again in which somebody else had one of the processors.
const ATTEMPTS: usize = 8;

struct Options {
    rounds: usize,
    only: String,
    quick: bool,
}

/// One load under which subjects are compared.
#[derive(Clone, Copy)]
struct Load {
    threads: usize,
    handler: u32,
    own: u32,
}

/// One subject: a run of so many messages per thread.
struct Contender {
    name: &'static str,
    run: fn(Load, u64) -> Took,
    /// What it has to be faster than.
    rival: Option<&'static str>,
}

fn of<S: Subject>(rival: Option<&'static str>) -> Contender {
    Contender { name: S::NAME, run: |load, messages| exchange::<S>(load.threads, messages, load.handler, load.own), rival }
}

fn main() {
    let options = options();
    println!("{:<38} {:<14} {:>9} {:>9} {:>7} {:>7}", "workload", "subject", "wall ns", "cpu ns", "wall/PL", "cpu/PL");
    let load = |threads, handler: f64, own: f64| Load { threads, handler: rounds_of(handler), own: rounds_of(own) };
    let (send, with, ask) = (of::<TurnwiseSend>, of::<TurnwiseWith>, of::<TurnwiseAsk>);
    let (tb, tb_ask) = (Textbook::NAME, TextbookAsk::NAME);
    let others = || [of::<ParkingLot>(None), of::<Std>(None), of::<Textbook>(None), of::<TextbookAsk>(None)];

    let idle = [send(Some(tb)), with(Some(tb_ask)), ask(Some(tb_ask))];
    compare(&options, "idle", load(1, 0.0, 0.0), idle.into_iter().chain(others()));
    for own in [0, 37, 250] {
        for handler in [0, 12, 37, 65] {
            let workload = format!("2 threads, handler {handler}, own {own}");
            compare(
                &options,
                &workload,
                load(2, handler.into(), own.into()),
                [send(Some(tb)), with(Some(tb_ask))].into_iter().chain(others()),
            );
        }
    }
    for threads in [4, 8, 16] {
        let workload = format!("{threads} threads, handler 65, own 0");
        compare(&options, &workload, load(threads, 65.0, 0.0), [send(Some(tb)), with(Some(tb_ask))].into_iter().chain(others()));
    }
    for threads in [1, 2, 8] {
        let workload = format!("fan-in, {threads} producers");
        compare(&options, &workload, load(threads, 0.0, 0.0), [send(Some(tb)), with(Some(tb_ask))].into_iter().chain(others()));
    }

    println!();
    println!("{:<38} {:<14} {:>9} {:>9} {:>9} {:>9}", "the call itself", "subject", "p50 ns", "p99 ns", "p99.9 ns", "max ns");
    for threads in [1, 2, 4, 8, 16] {
        let workload = format!("{threads} threads, handler 65, own 0");
        let load = load(threads, 65.0, 0.0);
        latency::<TurnwiseSend>(&options, &workload, load);
        latency::<TurnwiseWith>(&options, &workload, load);
        latency::<ParkingLot>(&options, &workload, load);
        latency::<Std>(&options, &workload, load);
        latency::<Textbook>(&options, &workload, load);
    }
}

fn options() -> Options {
    let mut options = Options { rounds: 31, only: String::new(), quick: true };
    let mut args = std::env::args().skip(1);
    let mut test = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Without it this is a test run.
            "--bench" => options.quick = false,
            "--test" => test = true,
            "--rounds" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) if n > 0 => options.rounds = n,
                _ => usage(),
            },
            "--only" => options.only = args.next().unwrap_or_else(|| usage()),
            // What the test harness would know.
            "--nocapture" | "--quiet" | "-q" => {}
            flag if flag.starts_with('-') => usage(),
            filter => options.only = filter.to_owned(),
        }
    }
    options.quick |= test;
    if options.quick {
        options.rounds = 1;
    }
    options
}

fn usage() -> ! {
    eprintln!("usage: cargo bench --bench ratios [-- [--rounds N] [--only WORKLOAD]]");
    std::process::exit(2);
}

/// Runs all contenders in turn, and prints their medians.
fn compare(options: &Options, workload: &str, load: Load, contenders: impl IntoIterator<Item = Contender>) {
    if !workload.contains(&options.only) {
        return;
    }
    let contenders: Vec<Contender> = contenders.into_iter().collect();
    let base = contenders.iter().position(|one| one.name == ParkingLot::NAME).expect("the mutex is always there");

    // Answers first (each run checks its own); then the length of a trial, several slices of the scheduler when threads share a processor.
    let pilot: Vec<f64> = contenders.iter().map(|one| (one.run)(load, 200).wall.as_secs_f64() / 200.0).collect();
    let trial = TRIAL.as_secs_f64() * load.threads.div_ceil(2) as f64;
    let messages: Vec<u64> = contenders
        .iter()
        .zip(pilot)
        .map(|(one, pilot)| {
            if options.quick {
                return 50;
            }
            // Twice, because the first one was too short to be trusted.
            let first = (trial / 4.0 / pilot.max(1e-9)).clamp(200.0, 1e6) as u64;
            let second = (one.run)(load, first).wall.as_secs_f64() / first as f64;
            (trial / second.max(1e-9)).clamp(200.0, 5e6) as u64
        })
        .collect();

    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut unsound = 0;
    let mut took = vec![Vec::new(); contenders.len()];
    for round in 0..options.rounds {
        for i in 0..contenders.len() {
            // Who comes first changes, so nobody always runs after the same neighbour's leftovers.
            let i = (i + round) % contenders.len();
            let per = messages[i] as f64 * load.threads as f64 / 1e9;
            let mut attempts = if load.threads <= processors { ATTEMPTS } else { 1 };
            let Took { wall, cpu, disturbed } = loop {
                let took = (contenders[i].run)(load, messages[i]);
                attempts -= 1;
                if attempts == 0 || !took.disturbed {
                    break took;
                }
            };
            unsound += usize::from(disturbed && load.threads <= processors);
            took[i].push((wall.as_secs_f64() / per, cpu.as_secs_f64() / per));
        }
    }

    let wall = |i: usize| median(took[i].iter().map(|t| t.0));
    for (i, one) in contenders.iter().enumerate() {
        let paired = |of: fn(&(f64, f64)) -> f64| median(took[i].iter().zip(&took[base]).map(|(a, b)| of(a) / of(b)));
        let rival = one.rival.and_then(|rival| contenders.iter().position(|other| other.name == rival));
        let mark = if rival.is_some_and(|rival| wall(i) > wall(rival)) { " <" } else { "" };
        println!(
            "{workload:<38} {:<14} {:>9.1} {:>9.1} {:>7.2} {:>7.2}{mark}",
            one.name,
            wall(i),
            median(took[i].iter().map(|t| t.1)),
            paired(|t| t.0),
            paired(|t| t.1),
        );
    }
    if unsound > 0 {
        println!("{workload:<38} {unsound} of {} trials were disturbed by others on this machine", options.rounds * contenders.len());
    }
    println!();
}

/// How long a single call takes: all calls of all threads and rounds, the clock's own time included.
fn latency<S: Subject>(options: &Options, workload: &str, load: Load) {
    if !workload.contains(&options.only) {
        return;
    }
    let messages: u64 = if options.quick { 50 } else { 50_000 };
    let mut all = Vec::new();
    for _ in 0..options.rounds.min(5) {
        all.append(&mut timed::<S>(load.threads, messages, load.handler, load.own, 1));
    }
    all.sort_unstable();
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
    println!("{workload:<38} {:<14} {:>9} {:>9} {:>9} {:>9}", S::NAME, at(0.5), at(0.99), at(0.999), at(1.0));
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = of.collect();
    all.sort_by(f64::total_cmp);
    (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
}
