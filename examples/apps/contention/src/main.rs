//! Compares actors with mutexes, mailboxes and a channel on this machine, in under two minutes.
//!
//! The same checked work is done in six ways: an actor of this crate, two mutexes, two common forms
//! of a mailbox, and a thread with a channel. The parameters are the number of threads, the length
//! of a turn and the work between two calls. It is measured twice: without use of the result
//! (`send`), and with callers that wait for it (`with`). The mutexes are the same in both, because
//! a lock cannot leave its work to another thread.
//!
//! The program prints a verdict for each regime, losses included, then a table, and draws charts.
//!
//! ```text
//! cargo run --release -p contention             # every load
//! cargo run --release -p contention -- --quick  # fewer of them, in under 20 seconds
//! cargo run --release -p contention -- --executor rayon --quick  # turns run in a pool
//! cargo run --release -p contention -- --wide  # all columns, tails and processor time too
//! cargo run --release -p contention -- --help
//! ```
//!
//! The method is described in [`measure`]; the workloads are shared with the benchmarks, in
//! `benches/workloads`. All of it is built as programs usually are: `--profile lto` in place of
//! `--release` shows the effect of link-time optimization. The machine should be idle meanwhile.
//! Other programs that use a processor distort the result; the output reports how often that was
//! detected.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | something could not be written |
//! | 2 | the command line is invalid |
//! | 130 | interrupted: the output and the charts have the results up to then |

#[path = "../../../common/arguments.rs"]
mod arguments;
mod charts;
#[path = "../../../common/choices.rs"]
mod choices;
#[path = "../../../common/executor.rs"]
mod executor;
mod measure;
mod options;
mod paint;
mod subjects;
mod table;
mod verdict;
#[path = "../../../../benches/workloads/mod.rs"]
mod workloads;

use std::error::Error;
use std::io::{self, Write, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use measure::Row;
use options::Options;

/// The exit code that shells report for a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let options: Options = match arguments::parse("contention") {
        Ok(options) => options,
        Err(code) => return code,
    };
    match run(&options) {
        Ok(code) => code,
        // The reader has closed the pipe.
        Err(failure)
            if failure
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) =>
        {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("contention: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, Failure> {
    // An error is found before two minutes are spent.
    charts::prepare(&options.out)?;
    if cfg!(debug_assertions) {
        eprintln!(
            "contention: this build is not optimized, its figures mean nothing: use `cargo run --release`"
        );
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    ctrlc::set_handler(move || {
        // A second Ctrl-C ends the program at once, within the round.
        if flag.swap(true, Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    })?;
    let measured = measure::measure(options, &interrupted)?;
    let code = match measured.interrupted {
        Some(_) => ExitCode::from(INTERRUPTED),
        None => ExitCode::SUCCESS,
    };
    if measured.rows.is_empty() {
        eprintln!("contention: interrupted before the first load was measured");
        return Ok(code);
    }
    let charts = charts::draw(&options.out, &measured)?;

    let mut out = stdout().lock();
    if options.json {
        for row in &measured.rows {
            writeln!(out, "{}", row.json(measured.executor))?;
        }
    } else {
        table::head(&mut out, &measured)?;
        verdict::print(&mut out, &measured, options.wide)?;
        let table = if options.wide { table::wide } else { table::narrow };
        table(&mut out, &measured)?;
        writeln!(out)?;
        for chart in &charts {
            writeln!(out, "chart: {}", chart.display())?;
        }
    }
    out.flush()?;
    if measured.interrupted.is_some() {
        eprintln!("contention: interrupted");
    }
    Ok(code)
}

/// Formats nanoseconds in three digits, with their unit.
fn time(ns: impl Into<f64>) -> String {
    let ns = ns.into();
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "µs"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        value if value.fract() == 0.0 && unit == "ns" || value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// Finds the row of another subject under the same load.
fn beside<'a>(rows: &'a [Row], row: &Row, subject: &str) -> Option<&'a Row> {
    rows.iter()
        .find(|other| other.work == row.work && other.load == row.load && other.subject == subject)
}
