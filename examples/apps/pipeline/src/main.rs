//! Counts the words of many texts in a pipeline: read, parse, count, report. Mailboxes are bounded,
//! so that memory stays flat however much there is to read; the executor can be chosen; the
//! pipeline ends cleanly, also after Ctrl-C or a time limit.
//!
//! ```text
//! cargo run --release -p pipeline -- [PATH]...
//! cargo run --release -p pipeline -- --executor rayon --capacity 4 --json src
//! ```
//!
//! `stages` is the module to read first: it has all that the actors need. The rest reads the
//! command line, watches and prints.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done, and the result is that of one thread |
//! | 1 | there was nothing to count, or the results differ, or the output could not be written |
//! | 2 | the command line is invalid |
//! | 3 | the time limit passed: the output has the result up to then |
//! | 130 | interrupted, after all accepted work was done |

#[path = "../../../common/arguments.rs"]
mod arguments;
#[path = "../../../common/choices.rs"]
mod choices;
#[path = "../../../common/executor.rs"]
mod executor;
mod stages;
#[path = "../../wordcount/src/text.rs"]
mod text;

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use turnwise::{Limit, ShutdownReport};

use executor::{Choice, Place};
use stages::{Found, Gauge, Pipeline, Shape};

type Failure = Box<dyn Error + Send + Sync>;

/// Count the words of texts in a pipeline of actors.
#[derive(Parser)]
#[command(name = "pipeline")]
struct Args {
    /// Files, or folders with everything below them [default: the sources of this crate]
    paths: Vec<PathBuf>,
    /// The executor of the actors
    #[arg(long, value_name = "WHERE", default_value = "threads", value_parser = choices::choices())]
    executor: Choice,
    /// Threads that run turns, besides those that wait inside one; or threads that send if there is
    /// no executor [default: one per processor]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    threads: Option<usize>,
    /// Messages that may wait in each mailbox
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = RangedU64ValueParser::<usize>::new().range(1..=32_765))]
    capacity: usize,
    /// Seconds that the pipeline may take to finish once everything has been fed in [default: as
    /// long as it takes]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// Number of the most frequent words to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

struct Outcome {
    executor: Choice,
    threads: usize,
    capacity: usize,
    found: Found,
    /// The number of files and folders that could not be read.
    skipped: usize,
    shutdown: ShutdownReport,
    gauges: Vec<Arc<Gauge>>,
    seconds: f64,
    /// The result of one thread, true if it is equal, and its time; none if the pipeline has not
    /// ended.
    plain: Option<(bool, f64)>,
    interrupted: bool,
}

impl Outcome {
    fn is_done(&self) -> bool {
        self.shutdown.is_complete() && self.shutdown.stopped == 0
    }
}

fn main() -> ExitCode {
    let args: Args = match arguments::parse("pipeline") {
        Ok(args) => args,
        Err(code) => return code,
    };
    let outcome = match run(&args) {
        Ok(outcome) => outcome,
        Err(failure) => {
            eprintln!("pipeline: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let printed =
        if args.json { print_json(&outcome, args.top) } else { print_tables(&outcome, args.top) };
    match printed {
        // The reader has closed the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("pipeline: {error}");
            ExitCode::FAILURE
        }
        _ if !outcome.is_done() => {
            eprintln!("pipeline: the time was over: {}", outcome.shutdown);
            ExitCode::from(3)
        }
        _ if outcome.interrupted => {
            eprintln!("pipeline: interrupted");
            ExitCode::from(130)
        }
        _ if outcome.plain.is_some_and(|(matches, _)| !matches) => {
            eprintln!(
                "pipeline: one thread finds something else; were the files changed meanwhile?"
            );
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn run(args: &Args) -> Result<Outcome, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    ctrlc::set_handler(move || {
        // A second Ctrl-C ends the program at once.
        if flag.swap(true, Relaxed) {
            std::process::exit(130);
        }
    })?;

    let threads =
        args.threads.or_else(|| thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let paths = if args.paths.is_empty() {
        &[PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../src")]
    } else {
        &args.paths[..]
    };
    let mut missing = 0;
    let files = text::find(paths, |path: &Path, error: &io::Error| {
        missing += 1;
        eprintln!("pipeline: {}: {error}; skipped", path.display());
    });
    if files.is_empty() {
        return Err("no files to read".into());
    }

    let shape =
        Shape { readers: 2, parsers: threads, counters: 4 * threads, capacity: args.capacity };
    // Readers and parsers wait for room inside their turns; those that count and report never do.
    let place = Place::new(args.executor, threads, shape.readers + shape.parsers)?;
    let pipeline = Pipeline::new(&place, shape)?;
    let gauges = pipeline.gauges().to_vec();
    let bar = progress(&gauges, files.len())?;

    let start = Instant::now();
    // Without an executor, the senders do all the work.
    let feeders = if place.is_inline() { threads } else { 1 };
    let next = AtomicUsize::new(0);
    let feed = || {
        while !interrupted.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            let Some(file) = files.get(number) else { break };
            pipeline.feed(number, file.clone());
            bar.inc(1);
        }
    };
    thread::scope(|scope| (0..feeders).for_each(|_| _ = scope.spawn(feed)));
    let limit =
        args.timeout.map_or(Limit::Unlimited, |seconds| Duration::from_secs(seconds.into()).into());
    let (found, shutdown) = pipeline.finish(limit);
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    for (path, error) in &found.skipped {
        eprintln!("pipeline: {}: {error}; skipped", path.display());
    }
    if shutdown.is_complete() {
        place.join();
    }

    let interrupted = interrupted.load(Relaxed);
    let plain = (!interrupted && shutdown.is_complete() && shutdown.stopped == 0).then(|| {
        let start = Instant::now();
        let plain = stages::plainly(files.iter().map(PathBuf::as_path));
        (plain == found, start.elapsed().as_secs_f64())
    });
    if plain.is_some() && found.words == 0 {
        return Err("no text to count words in".into());
    }
    let skipped = missing + found.skipped.len();
    let (executor, capacity) = (args.executor, args.capacity);
    Ok(Outcome {
        executor,
        threads,
        capacity,
        found,
        skipped,
        shutdown,
        gauges,
        seconds,
        plain,
        interrupted,
    })
}

/// A bar with the messages in each stage. It redraws itself.
fn progress(gauges: &[Arc<Gauge>], files: usize) -> Result<ProgressBar, Failure> {
    let gauges = gauges.to_vec();
    let depths = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        // A bar that cannot be drawn is no reason to stop.
        gauges.iter().for_each(|gauge| _ = write!(out, "{} {:<4}", gauge.name, gauge.depth()));
    };
    let style = ProgressStyle::with_template("{depths} {wide_bar} {pos}/{len} {per_sec}")?
        .with_key("depths", depths);
    let bar = ProgressBar::new(files as u64).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    Ok(bar)
}

fn most_frequent(found: &Found, top: usize) -> Vec<(&str, u64)> {
    let mut words: Vec<_> = found.counts.iter().map(|(word, n)| (&**word, *n)).collect();
    words.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
    words.truncate(top);
    words
}

fn print_tables(outcome: &Outcome, top: usize) -> io::Result<()> {
    let Outcome {
        executor,
        threads,
        capacity,
        found,
        skipped,
        shutdown,
        gauges,
        seconds,
        plain,
        ..
    } = outcome;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{} files ({skipped} skipped), {} bytes, {} lines, {} words, {} distinct",
        found.files,
        found.bytes,
        found.lines,
        found.words,
        found.counts.len()
    )?;
    let top = most_frequent(found, top);
    if !top.is_empty() {
        let width = top.iter().map(|(word, _)| word.chars().count()).max().unwrap_or(0).max(4);
        writeln!(out, "\n{:<width$} {:>12}", "word", "times")?;
        for (word, n) in top {
            writeln!(out, "{word:<width$} {n:>12}")?;
        }
    }
    writeln!(
        out,
        "\n{:<8} {:>7} {:>10} {:>12} {:>9} {:>6}",
        "stage", "actors", "messages", "had to wait", "deepest", "lost"
    )?;
    for gauge in gauges {
        let [handled, waited, lost] =
            [&gauge.handled, &gauge.waited, &gauge.lost].map(|number| number.load(Relaxed));
        let deepest = gauge.deepest.load(Relaxed);
        writeln!(
            out,
            "{:<8} {:>7} {handled:>10} {waited:>12} {deepest:>9} {lost:>6}",
            gauge.name, gauge.actors
        )?;
    }
    let place = executor.name();
    writeln!(
        out,
        "\n{threads} threads ({place}), {capacity} messages per mailbox; actors: {shutdown}"
    )?;
    write!(out, "{:.1} ms, {:.1} MB/s", 1e3 * seconds, found.bytes as f64 / 1e6 / seconds)?;
    match plain {
        Some((matches, alone)) => {
            let agree = if *matches { "agrees" } else { "DIFFERS" };
            writeln!(out, "; one thread: {:.1} ms; the result {agree}", 1e3 * alone)
        }
        None => writeln!(out, "; not compared, for it did not come to its end"),
    }
}

fn print_json(outcome: &Outcome, top: usize) -> io::Result<()> {
    let Outcome {
        executor,
        threads,
        capacity,
        found,
        skipped,
        shutdown,
        gauges,
        seconds,
        plain,
        interrupted,
    } = outcome;
    let stage = |gauge: &Arc<Gauge>| {
        serde_json::json!({
            "name": gauge.name,
            "actors": gauge.actors,
            "handled": gauge.handled.load(Relaxed),
            "waited": gauge.waited.load(Relaxed),
            "lost": gauge.lost.load(Relaxed),
            "deepest": gauge.deepest.load(Relaxed),
        })
    };
    let object = serde_json::json!({
        "files": found.files,
        "skipped": skipped,
        "bytes": found.bytes,
        "lines": found.lines,
        "words": found.words,
        "distinct": found.counts.len(),
        "executor": executor.name(),
        "threads": threads,
        "capacity": capacity,
        "matches": plain.map(|(matches, _)| matches),
        "interrupted": interrupted,
        "seconds": { "pipeline": seconds, "one_thread": plain.map(|(_, alone)| alone) },
        "stages": gauges.iter().map(stage).collect::<Vec<_>>(),
        "shutdown": { "ended": shutdown.ended, "stopped": shutdown.stopped, "running": shutdown.running },
        "top": most_frequent(found, top),
    });
    writeln!(io::stdout().lock(), "{object}")
}
