//! Measures messages in twelve programs made of actors, on each executor.
//!
//! The programs are those of Savina: Shams Imam and Vivek Sarkar, "Savina - An Actor Benchmark
//! Suite: Enabling Empirical Evaluation of Actor Libraries", AGERE! 2014. Messages and receivers
//! are theirs; sizes are for two cores, and each file names the original's. Random numbers are
//! SplitMix64's, because the original's generator has 16 bits. They are written as a user would
//! write them, with one abstraction: the creation of an actor ([`System`]).
//!
//! ```text
//! cargo bench --bench savina [-- [--only BENCHMARK] [--executor EXECUTOR] [--rounds N] [--json] [--test]]
//! ```
//!
//! - Each run checks its answer against one that was found without actors. A wrong answer, or none
//!   within [`LIMIT`], is shown in its row, and the exit code is 1.
//! - Before anything is timed, each program is run once with every actor counted: all created
//!   actors must end, none by a panic.
//! - The time goes from the creation of the first actor to the answer. The answer is a promise that
//!   the last actor keeps; nothing polls or sleeps.
//! - Executors take turns, round by round. A row shows the medians of the rounds, and the fastest;
//!   processor time is that of all threads.
//! - Three further rows are the same work with threads and channels or mutexes, as one would write
//!   it without actors.
//! - Inline, a program runs on the thread that starts it, and shows the price of messages without
//!   any parallelism.

mod banking;
mod big;
mod buffer;
mod chameneos;
mod count;
mod dictionary;
mod fib;
mod philosophers;
mod pingpong;
mod radix;
mod random;
mod ring;
mod system;
mod throughput;

use std::fmt::Debug;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use turnwise::executor::PoolHandle;
use turnwise::{Drain, Reply, ThreadPool, WaitError};

use system::{Inline, Ledger, On, System, Tracked};

/// The time after which a run without an answer counts as hung.
const LIMIT: Duration = Duration::from_secs(60);

/// The number of messages that the actors of a run have handled, or the error in its answer.
pub(crate) type Outcome = Result<u64, String>;

/// A program that does the work without actors: its name, and a function that runs it once.
pub(crate) type Plain<B> = (&'static str, fn(&B) -> Outcome);

/// A program made of actors.
pub(crate) trait Benchmark: Sized {
    const NAME: &'static str;
    /// Present where it is a few lines. It counts the messages that it saves, so that the times per
    /// message can be compared.
    const PLAIN: Option<Plain<Self>> = None;
    /// Prepares a run that takes a fraction of a second, or next to no time if `quick`, and finds
    /// its answer without actors.
    fn sized(quick: bool) -> Self;
    /// The size, for people.
    fn size(&self) -> String;
    /// Runs it once, and checks the answer.
    fn run<Y: System>(&self, system: &Y) -> Outcome;
}

/// Waits for the answer of a run.
pub(crate) fn answer<T>(reply: Reply<T>) -> Result<T, String> {
    reply.wait_timeout(LIMIT).map_err(|error| match error {
        WaitError::TimedOut(_) => format!("no answer within {} s", LIMIT.as_secs()),
        error => format!("no answer: {error}"),
    })
}

/// Returns an error unless the found value is the expected one.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what}: {found:?} instead of {expected:?}"))
    }
}

/// Runs a benchmark over each executor. A further executor is one line here.
fn over_all<B: Benchmark>(options: &Options, report: &mut Report) {
    if !B::NAME.contains(&options.only) {
        return;
    }
    let benchmark = B::sized(options.quick);
    let mut cases = vec![
        case(&benchmark, "inline", Inline),
        case(&benchmark, "pool", On(pool())),
        case(&benchmark, "rayon", On(on_rayon)),
    ];
    if let Some((name, run)) = B::PLAIN {
        let benchmark = &benchmark;
        cases.push(Case {
            executor: name,
            timed: Box::new(move || run(benchmark)),
            tracked: Box::new(move || run(benchmark)),
        });
    }
    cases.retain(|case| case.executor.contains(&options.executor));
    report.rows::<B>(options, &benchmark.size(), cases);
}

/// One pool for all of them, with a worker for each processor.
fn pool() -> PoolHandle {
    static POOL: LazyLock<ThreadPool> =
        LazyLock::new(|| ThreadPool::new().expect("there are threads to be had"));
    POOL.handle()
}

/// First come, first served: with `rayon::spawn` the newest drain of a worker comes first, so two
/// actors that answer each other could starve a third one for ever.
fn on_rayon(drain: Drain) {
    rayon::spawn_fifo(move || drain.run());
}

/// A benchmark over an executor.
struct Case<'a> {
    executor: &'static str,
    timed: Box<dyn Fn() -> Outcome + 'a>,
    /// Counts its actors.
    tracked: Box<dyn Fn() -> Outcome + 'a>,
}

fn case<'a, B: Benchmark, Y: System>(
    benchmark: &'a B,
    executor: &'static str,
    system: Y,
) -> Case<'a> {
    let tracked = {
        let system = system.clone();
        move || {
            let ledger = Ledger::default();
            let messages = benchmark.run(&Tracked(system.clone(), ledger.clone()))?;
            ledger.all_ended(LIMIT)?;
            Ok(messages)
        }
    };
    Case { executor, timed: Box::new(move || benchmark.run(&system)), tracked: Box::new(tracked) }
}

/// One timed run.
struct Run {
    messages: u64,
    wall_ms: f64,
    /// Of all threads.
    cpu_ms: f64,
}

impl Run {
    fn ns_per_message(&self) -> f64 {
        self.wall_ms * 1e6 / self.messages as f64
    }
}

#[derive(Default)]
struct Report {
    rows: usize,
    wrong: usize,
}

impl Report {
    /// Runs the cases of a benchmark in turn, and prints a row for each.
    fn rows<B: Benchmark>(&mut self, options: &Options, size: &str, cases: Vec<Case<'_>>) {
        let mut took: Vec<Result<Vec<Run>, String>> =
            cases.iter().map(|case| (case.tracked)().map(|_| Vec::new())).collect();
        for round in 0..options.rounds {
            for i in 0..cases.len() {
                // The first one changes, so no case always runs after the same neighbour's remains.
                let i = (i + round) % cases.len();
                if let Ok(runs) = &mut took[i] {
                    let (start, cpu) = (Instant::now(), ProcessTime::now());
                    let outcome = (cases[i].timed)();
                    let [wall_ms, cpu_ms] =
                        [start.elapsed(), cpu.elapsed()].map(|took| took.as_secs_f64() * 1e3);
                    match outcome {
                        Ok(messages) => runs.push(Run { messages, wall_ms, cpu_ms }),
                        Err(wrong) => took[i] = Err(wrong),
                    }
                }
            }
        }
        for (case, took) in cases.iter().zip(took) {
            self.rows += 1;
            self.wrong += usize::from(took.is_err());
            if options.json {
                print_json(B::NAME, size, case.executor, took);
            } else {
                print_row(B::NAME, size, case.executor, took);
            }
        }
    }
}

fn print_head() {
    println!(
        "{:<14} {:<44} {:<10} {:>10} {:>9} {:>9} {:>9} {:>8}  verified",
        "benchmark", "size", "executor", "messages", "wall ms", "min ms", "cpu ms", "ns/msg"
    );
}

fn print_row(benchmark: &str, size: &str, executor: &str, took: Result<Vec<Run>, String>) {
    match took {
        Ok(runs) => println!(
            "{benchmark:<14} {size:<44} {executor:<10} {:>10} {:>9.2} {:>9.2} {:>9.2} {:>8.1}  yes",
            median(&runs, |run| run.messages as f64) as u64,
            median(&runs, |run| run.wall_ms),
            fastest(&runs),
            median(&runs, |run| run.cpu_ms),
            median(&runs, Run::ns_per_message),
        ),
        Err(wrong) => println!("{benchmark:<14} {size:<44} {executor:<10} {:>49}  NO: {wrong}", ""),
    }
}

fn print_json(benchmark: &str, size: &str, executor: &str, took: Result<Vec<Run>, String>) {
    let row = match took {
        Ok(runs) => serde_json::json!({
            "benchmark": benchmark, "size": size, "executor": executor, "rounds": runs.len(),
            "messages": median(&runs, |run| run.messages as f64) as u64,
            "wall_ms": median(&runs, |run| run.wall_ms),
            "min_ms": fastest(&runs),
            "cpu_ms": median(&runs, |run| run.cpu_ms),
            "ns_per_message": median(&runs, Run::ns_per_message),
            "verified": true,
        }),
        Err(wrong) => serde_json::json!({
            "benchmark": benchmark, "size": size, "executor": executor, "verified": false, "wrong": wrong,
        }),
    };
    println!("{row}");
}

fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    let mut all: Vec<f64> = runs.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
}

fn fastest(runs: &[Run]) -> f64 {
    runs.iter().map(|run| run.wall_ms).fold(f64::INFINITY, f64::min)
}

struct Options {
    only: String,
    executor: String,
    rounds: usize,
    json: bool,
    quick: bool,
}

fn options() -> Options {
    let mut options = Options {
        only: String::new(),
        executor: String::new(),
        rounds: 5,
        json: false,
        quick: true,
    };
    let mut args = std::env::args().skip(1);
    let mut test = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Without it this is a test run.
            "--bench" => options.quick = false,
            "--test" => test = true,
            "--json" => options.json = true,
            "--rounds" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) if n > 0 => options.rounds = n,
                _ => usage(),
            },
            "--only" => options.only = args.next().unwrap_or_else(|| usage()),
            "--executor" => options.executor = args.next().unwrap_or_else(|| usage()),
            // Options of the test harness.
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
    eprintln!(
        "usage: cargo bench --bench savina [-- [--only BENCHMARK] [--executor EXECUTOR] [--rounds N] [--json] [--test]]"
    );
    std::process::exit(2);
}

fn main() {
    let options = options();
    if !options.json {
        print_head();
    }
    let mut report = Report::default();
    over_all::<pingpong::PingPong>(&options, &mut report);
    over_all::<count::Count>(&options, &mut report);
    over_all::<throughput::Throughput>(&options, &mut report);
    over_all::<ring::Ring>(&options, &mut report);
    over_all::<chameneos::Chameneos>(&options, &mut report);
    over_all::<big::Big>(&options, &mut report);
    over_all::<dictionary::Dictionary>(&options, &mut report);
    over_all::<buffer::Buffer>(&options, &mut report);
    over_all::<philosophers::Philosophers>(&options, &mut report);
    over_all::<banking::Banking>(&options, &mut report);
    over_all::<radix::Radix>(&options, &mut report);
    over_all::<fib::Fib>(&options, &mut report);

    let Report { rows, wrong } = report;
    if rows == 0 {
        eprintln!("no benchmark or no executor has a name with that in it");
        std::process::exit(2);
    }
    if wrong > 0 {
        eprintln!("{wrong} of {rows} rows are wrong");
        std::process::exit(1);
    }
}
