//! Runs commands in numbered boxes. The README beside this describes the output and the failures.

mod job;
mod place;
mod report;
mod run;
mod show;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;

/// Runs commands, one a line, each in a clean folder of its own (its box). A job that takes longer
/// than its lease is killed, with all that it has started.
#[derive(Parser)]
#[command(
    name = "boxes",
    after_help = "exit codes: 0 all jobs are done; 1 some are not, or a box \
    is left dirty; 2 wrong usage, or a file or folder that cannot be used; 130 interrupted"
)]
struct Args {
    /// The file of the commands, for `sh -c`; `-` is the standard input. Empty lines and those that
    /// begin with `#` are skipped.
    #[arg(required_unless_present = "sample")]
    jobs: Option<PathBuf>,

    /// The number of boxes.
    #[arg(long, default_value_t = 8)]
    boxes: usize,

    /// The maximum time of a job in its box: 500ms, 2s, 1m, 1h.
    #[arg(long, default_value = "10s", value_parser = duration)]
    lease: Duration,

    /// The folder of the boxes: empty, or used by an earlier run. The default is a temporary folder
    /// of the system.
    #[arg(long)]
    root: Option<PathBuf>,

    /// A folder for the output of the jobs. The default is to discard it.
    #[arg(long)]
    logs: Option<PathBuf>,

    /// Print only the result, as JSON.
    #[arg(long)]
    json: bool,

    /// Print this many sample jobs instead: one in ten crashes, one in twenty hangs.
    #[arg(long, value_name = "N", conflicts_with = "jobs")]
    sample: Option<usize>,
}

/// A fault of the input: exit code 2.
pub(crate) type Problem = String;

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "a number and a unit, as in 500ms or 2s")?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("the units are ms, s, m and h".into()),
    };
    match number.checked_mul(milliseconds) {
        None => Err("that is too long".into()),
        Some(0) => Err("a job needs some time".into()),
        Some(time) => Ok(Duration::from_millis(time)),
    }
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    ended(put(&error.to_string()))
                }
                _ => {
                    eprint!("{error}");
                    ExitCode::from(2)
                }
            };
        }
    };
    ended(start(args))
}

fn ended(result: Result<u8, Problem>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            eprintln!("boxes: {problem}");
            ExitCode::from(2)
        }
    }
}

fn start(args: Args) -> Result<u8, Problem> {
    if let Some(jobs) = args.sample {
        return put(&job::sample(jobs));
    }
    let jobs = job::read(&args.jobs.unwrap_or_else(|| "-".into()))?;
    let place = place::Place::new(args.root, args.logs)?;
    let live = std::io::stderr().is_terminal() && !args.json;
    let show = show::Show::new(args.boxes, jobs.len(), live, args.json);
    let report = run::run(jobs, &place, args.boxes, args.lease, show)?;
    put(&if args.json { report.json() } else { report.text() })?;
    Ok(report.code())
}

/// Prints to the standard output, which may be closed or full.
fn put(text: &str) -> Result<u8, Problem> {
    let mut out = std::io::stdout().lock();
    let put = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    put.map(|()| 0).map_err(|error| format!("the standard output: {error}"))
}
