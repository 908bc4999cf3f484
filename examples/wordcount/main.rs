//! Counts the words of many texts in a thread pool, with actors and with two kinds of locks, and
//! says how long each took.
//!
//! ```text
//! cargo run --release --example wordcount -- [PATH]...
//! ```
//!
//! Start reading at `counting::turnwise`: it is all that the actors need. The rest finds texts,
//! measures and prints.

#[path = "../common/arguments.rs"]
mod arguments;
mod counting;
#[path = "../common/executor.rs"]
mod executor;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressStyle};

use counting::{Counts, Failure, Job};
use executor::{Choice, Place};

/// Count the words of texts in a thread pool: with actors, with mutexes, with a concurrent map.
#[derive(Parser)]
#[command(name = "wordcount")]
struct Args {
    /// Files, or folders with everything below them [default: the sources of this crate]
    paths: Vec<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// How many of the most frequent words to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// How many times each way of counting is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    repeat: usize,
    /// Threads of the pool [default: one per processor]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    threads: Option<usize>,
    /// Actors, or mutexes, that share the words [default: four per thread]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=65536))]
    shards: Option<usize>,
    /// Where the actors count: on the threads that read, in the same pool behind what is read, or
    /// on as many threads of their own
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Choice::Inline)]
    executor: Choice,
}

type Way = fn(&Job<'_>) -> Result<Counts, Failure>;
const WAYS: [(&str, Way); 3] = [
    ("turnwise", counting::turnwise),
    ("parking_lot", counting::mutexes),
    ("dashmap", counting::dashmap),
];

/// What one thread has found, and all others must find.
struct Truth {
    files: Vec<PathBuf>,
    skipped: usize,
    lines: u64,
    counts: Counts,
}

struct Outcome {
    truth: Truth,
    executor: Choice,
    threads: usize,
    shards: usize,
    words: u64,
    matches: bool,
    seconds: Vec<(&'static str, f64)>,
    top: Vec<(Box<str>, u64)>,
}

fn main() -> ExitCode {
    let args: Args = match arguments::parse("wordcount") {
        Ok(args) => args,
        Err(code) => return code,
    };
    let outcome = match run(&args) {
        Ok(outcome) => outcome,
        Err(failure) => {
            eprintln!("wordcount: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let printed = if args.json { print_json(&outcome) } else { print_tables(&outcome) };
    match printed {
        // Whoever read the output has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("wordcount: {error}");
            ExitCode::FAILURE
        }
        _ if !outcome.matches => {
            eprintln!(
                "wordcount: the ways of counting do not agree; were the files changed meanwhile?"
            );
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn run(args: &Args) -> Result<Outcome, Failure> {
    let threads =
        args.threads.or_else(|| thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let shards = args.shards.unwrap_or(4 * threads);
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?);
    let place = match args.executor {
        Choice::Rayon => Place::rayon(pool.clone()),
        other => Place::new(other, threads, 0)?,
    };

    let paths = if args.paths.is_empty() {
        &[PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")]
    } else {
        &args.paths[..]
    };
    let mut skipped = 0;
    let mut report = |path: &std::path::Path, error: &io::Error| {
        skipped += 1;
        eprintln!("wordcount: {}: {error}; skipped", path.display());
    };
    let found = text::find(paths, &mut report);
    let bar = ProgressBar::new(found.len() as u64)
        .with_style(ProgressStyle::with_template("{msg:>12} {wide_bar} {pos}/{len} {eta}")?);

    // On one thread, which also finds out what is text. After this the files are in the system's
    // cache, for all alike.
    bar.set_message("checking");
    let mut truth = Truth { files: Vec::new(), skipped: 0, lines: 0, counts: Counts::new() };
    for path in found {
        match text::read(&path) {
            Ok(text) => {
                truth.lines += text.lines().count() as u64;
                counting::plainly(&text, &mut truth.counts);
                truth.files.push(path);
            }
            Err(error) => bar.suspend(|| report(&path, &error)),
        }
        bar.inc(1);
    }
    truth.skipped = skipped;
    let words = truth.counts.values().sum::<u64>();
    if words == 0 {
        bar.finish_and_clear();
        return Err("no text to count words in".into());
    }

    // In turn, so that a change of the machine's pace meets all of them.
    let mut took = vec![Vec::new(); WAYS.len() + 1];
    let mut matches = true;
    bar.set_length((truth.files.len() * (WAYS.len() + 1) * args.repeat) as u64);
    bar.reset();
    for _ in 0..args.repeat {
        for (i, (name, way)) in WAYS.iter().enumerate() {
            bar.set_message(*name);
            let start = Instant::now();
            let counts = way(&Job {
                files: &truth.files,
                pool: &pool,
                place: &place,
                shards,
                done: &|| bar.inc(1),
            })?;
            took[i].push(start.elapsed());
            matches &= counts == truth.counts;
        }
        bar.set_message("one thread");
        let start = Instant::now();
        let mut counts = Counts::new();
        for file in &truth.files {
            counting::plainly(&text::read(file)?, &mut counts);
            bar.inc(1);
        }
        took[WAYS.len()].push(start.elapsed());
        matches &= counts == truth.counts;
    }
    bar.finish_and_clear();
    place.join();

    let names = WAYS.iter().map(|(name, _)| *name).chain(["one thread"]);
    let seconds = names.zip(took).map(|(name, took)| (name, median(took))).collect();
    let mut top: Vec<_> = truth.counts.iter().map(|(word, n)| (word.clone(), *n)).collect();
    top.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
    top.truncate(args.top);
    Ok(Outcome { truth, executor: args.executor, threads, shards, words, matches, seconds, top })
}

fn median(mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    let (below, above) = (took[(took.len() - 1) / 2], took[took.len() / 2]);
    (below + above).as_secs_f64() / 2.0
}

fn print_tables(outcome: &Outcome) -> io::Result<()> {
    let Outcome { truth, executor, threads, shards, words, matches, seconds, top } = outcome;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{} files ({} skipped), {} lines, {words} words, {} distinct",
        truth.files.len(),
        truth.skipped,
        truth.lines,
        truth.counts.len()
    )?;
    if !top.is_empty() {
        writeln!(out)?;
        let width = top.iter().map(|(word, _)| word.chars().count()).max().unwrap_or(0).max(4);
        writeln!(out, "{:<width$} {:>12} {:>7}", "word", "times", "share")?;
        for (word, n) in top {
            writeln!(out, "{word:<width$} {n:>12} {:>6.2}%", 100.0 * *n as f64 / *words as f64)?;
        }
    }
    writeln!(out)?;
    writeln!(out, "{:<12} {:>9} {:>12} {:>14}", "", "ms", "lines/s", "of one thread")?;
    let alone = seconds.last().map_or(f64::NAN, |(_, seconds)| *seconds);
    for (name, seconds) in seconds {
        writeln!(
            out,
            "{name:<12} {:>9.3} {:>12.0} {:>13.2}x",
            1e3 * seconds,
            truth.lines as f64 / seconds,
            alone / seconds
        )?;
    }
    let agree = if *matches { "agree" } else { "DIFFER" };
    writeln!(
        out,
        "medians; {threads} threads, {shards} shards, actors {}; results {agree}",
        executor.name()
    )
}

fn print_json(outcome: &Outcome) -> io::Result<()> {
    let Outcome { truth, executor, threads, shards, words, matches, seconds, top } = outcome;
    let seconds: serde_json::Map<String, serde_json::Value> =
        seconds.iter().map(|(name, seconds)| (name.replace(' ', "_"), (*seconds).into())).collect();
    let object = serde_json::json!({
        "files": truth.files.len(),
        "skipped": truth.skipped,
        "lines": truth.lines,
        "words": words,
        "distinct": truth.counts.len(),
        "matches": matches,
        "executor": executor.name(),
        "threads": threads,
        "shards": shards,
        "seconds": seconds,
        "top": top,
    });
    writeln!(io::stdout().lock(), "{object}")
}
