//! Counts the words of many texts in a thread pool, with actors and with two kinds of locks, and
//! reports the time of each.
//!
//! ```text
//! cargo run --release -p wordcount -- [PATH]...
//! ```
//!
//! `counting::turnwise` is the function to read first: it has all that the actors need. The rest
//! finds texts, measures and prints.

mod corpus;
mod counting;
#[path = "../../../common/executor.rs"]
mod executor;
mod options;
mod report;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use corpus::{Corpus, Text};
use counting::{Counts, Failure, Job, WAYS};
use executor::{Choice, Place};
use options::Options;

/// The result that is printed.
struct Outcome {
    /// The description of the texts.
    name: String,
    texts: usize,
    skipped: usize,
    lines: u64,
    bytes: u64,
    words: u64,
    distinct: usize,
    matches: bool,
    executor: Choice,
    threads: usize,
    shards: usize,
    repeat: usize,
    /// The medians.
    seconds: Vec<(&'static str, f64)>,
    top: Vec<(Box<str>, u64)>,
}

fn main() -> ExitCode {
    let options = match options::parse() {
        Ok(Some(options)) => options,
        Ok(None) => return exit(writeln!(io::stdout(), "{}", options::USAGE), true),
        Err(error) => {
            eprintln!("wordcount: {error}; --help says what there is");
            return ExitCode::from(2);
        }
    };
    if let Some(missing) = corpus::missing(&options.paths) {
        eprintln!("wordcount: {missing}");
        return ExitCode::from(2);
    }
    let outcome = match run(&options) {
        Ok(outcome) => outcome,
        Err(failure) => {
            eprintln!("wordcount: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let mut out = io::stdout().lock();
    let print = if options.json { report::json } else { report::table };
    if !outcome.matches {
        eprintln!(
            "wordcount: the ways of counting do not agree; were the files changed meanwhile?"
        );
    }
    exit(print(&mut out, &outcome).and_then(|()| out.flush()), outcome.matches)
}

/// Returns the exit code. Output that could not be written is an error, unless the reader has
/// closed the pipe.
fn exit(printed: io::Result<()>, good: bool) -> ExitCode {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("wordcount: {error}");
            ExitCode::FAILURE
        }
        _ if good => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn run(options: &Options) -> Result<Outcome, Failure> {
    let &Options { executor, threads, shards, repeat, .. } = options;
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?);
    let place = match executor {
        Choice::Rayon => Place::rayon(pool.clone()),
        other => Place::new(other, threads, 0)?,
    };
    let Corpus { texts: found, name, mut skipped } = Corpus::find(options)?;

    // Counts on one thread, which also finds out which files are text. After this the files are in
    // the system's cache for all.
    let bar = bar(found.iter().map(Text::bytes).sum())?;
    bar.set_message("looking");
    let mut truth = Counts::new();
    let (mut texts, mut lines, mut bytes) = (Vec::new(), 0, 0);
    for one in found {
        bar.inc(one.bytes());
        match one.read() {
            Ok(text) => {
                lines += text.lines().count() as u64;
                bytes += text.len() as u64;
                counting::plainly(&text, &mut truth);
            }
            Err(error) => {
                skipped += 1;
                bar.suspend(|| eprintln!("wordcount: {error}; skipped"));
                continue;
            }
        }
        texts.push(one);
    }
    let words = truth.values().sum::<u64>();
    if words == 0 {
        bar.finish_and_clear();
        return Err("there are no words to count in this".into());
    }

    // The ways take turns, so that a change of the machine's speed affects all of them.
    let job =
        Job { texts: &texts, pool: &pool, place: &place, shards, done: &|bytes| bar.inc(bytes) };
    let mut took = vec![Vec::new(); WAYS.len()];
    let mut matches = true;
    bar.set_length(bytes * (WAYS.len() * repeat) as u64);
    bar.reset();
    for _ in 0..repeat {
        for (way, took) in WAYS.iter().zip(&mut took) {
            bar.set_message(way.name);
            let start = Instant::now();
            let counts = (way.count)(&job)?;
            took.push(start.elapsed());
            matches &= counts == truth;
        }
    }
    bar.finish_and_clear();
    place.join();

    let seconds = WAYS.iter().map(|way| way.name).zip(took.into_iter().map(median)).collect();
    let distinct = truth.len();
    let mut top: Vec<_> = truth.into_iter().collect();
    top.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
    top.truncate(options.top);
    Ok(Outcome {
        name,
        texts: texts.len(),
        skipped,
        lines,
        bytes,
        words,
        distinct,
        matches,
        executor,
        threads,
        shards,
        repeat,
        seconds,
        top,
    })
}

/// Returns a progress bar, which is drawn only on a terminal.
fn bar(bytes: u64) -> Result<ProgressBar, Failure> {
    let style = ProgressStyle::with_template("{msg:>12} {wide_bar} {percent:>3}% {eta:>4}")?;
    Ok(ProgressBar::new(bytes).with_style(style))
}

fn median(mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    let (below, above) = (took[(took.len() - 1) / 2], took[took.len() / 2]);
    (below + above).as_secs_f64() / 2.0
}
