//! "Why not a mutex?", answered by the machine that you sit at, in under two minutes.
//!
//! The same checked work in six ways: an actor of this crate, two mutexes, two mailboxes as others
//! write them, and a thread with a channel; by the number of threads, the length of a turn and the
//! work between two calls. Twice: once nobody needs the result (`send`), once every caller waits
//! for it (`with`). The mutexes are the same in both, because a lock cannot leave its work to
//! others.
//!
//! It prints a table, then a verdict for each regime, losses included, and draws charts.
//!
//! ```text
//! cargo run --release --example contention             # every load
//! cargo run --release --example contention -- --quick  # fewer of them, in under 20 seconds
//! cargo run --release --example contention -- --executor rayon --quick  # turns run in a pool
//! cargo run --release --example contention -- --help
//! ```
//!
//! How it is measured is in [`measure`]; what is measured is shared with the benchmarks, in
//! `benches/workloads`. All of it is built as programs usually are: put `--profile lto` in place of
//! `--release` to see what link-time optimization makes of it. Leave the machine alone meanwhile.
//! Whoever else uses a processor is measured too; the table says how often that was noticed.

#[path = "../common/arguments.rs"]
mod arguments;
mod charts;
#[path = "../common/executor.rs"]
mod executor;
mod measure;
mod options;
mod paint;
mod subjects;
mod table;
mod verdict;
#[path = "../../benches/workloads/mod.rs"]
mod workloads;

use std::error::Error;
use std::io::{self, Write, stdout};
use std::process::ExitCode;

use measure::Row;
use options::Options;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let options: Options = match arguments::parse("contention") {
        Ok(options) => options,
        Err(code) => return code,
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
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

fn run(options: &Options) -> Result<(), Failure> {
    // Before two minutes are spent.
    charts::prepare(&options.out)?;
    if cfg!(debug_assertions) {
        eprintln!(
            "contention: this build is not optimized, its figures mean nothing: use `cargo run --release`"
        );
    }
    let measured = measure::measure(options)?;
    let charts = charts::draw(&options.out, &measured)?;

    let mut out = stdout().lock();
    if options.json {
        for row in &measured.rows {
            writeln!(out, "{}", row.json(measured.executor))?;
        }
        return Ok(out.flush()?);
    }
    table::print(&mut out, &measured)?;
    verdict::print(&mut out, &measured)?;
    writeln!(out)?;
    for chart in &charts {
        writeln!(out, "chart: {}", chart.display())?;
    }
    Ok(out.flush()?)
}

/// The row beside this one, of another subject under the same load.
fn beside<'a>(rows: &'a [Row], row: &Row, subject: &str) -> Option<&'a Row> {
    rows.iter()
        .find(|other| other.work == row.work && other.load == row.load && other.subject == subject)
}
