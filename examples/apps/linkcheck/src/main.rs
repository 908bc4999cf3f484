//! The program: arguments, start, and the end.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::{Builder, Handle};
use turnwise::executor::Tokio;

use linkcheck::crawl::{Rules, Watch};
use linkcheck::faults::Faults;
use linkcheck::report::Report;
use linkcheck::run::Plan;

/// The help text after the options.
const AFTER: &str = "\
times: 500us, 20ms, 5s, 1m, 1h
exit codes: 0 every link leads somewhere; 1 some are dead, or were given up;
  2 wrong usage, or a folder that cannot be used; 130 interrupted";

/// Finds dead links: serves a folder of HTML on loopback, by several hosts that
/// are slow and fail, and crawls it with an actor for each host. No other host
/// gets a request.
#[derive(Parser)]
#[command(name = "linkcheck", verbatim_doc_comment, next_line_help = true, after_help = AFTER)]
struct Args {
    /// The folder: target/doc, for example.
    dir: PathBuf,

    /// The number of hosts, which share the folders.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = hosts)]
    hosts: usize,

    /// The pause between two requests to a host.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration)]
    pause: Duration,

    /// The maximum time of an answer.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    limit: Duration,

    /// The maximum attempts of a request.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,

    /// The pause before a retry; it doubles each time.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = duration)]
    backoff: Duration,

    /// The time limit of the crawl.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = some_time)]
    within: Duration,

    /// A MODEL of a network: the mean time of an answer.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    delay: Duration,

    /// The percentage of paths that fail at first.
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u8).range(..=100))]
    errors: u8,

    /// The number of hosts that never answer.
    #[arg(long, value_name = "N", default_value_t = 0)]
    mute: usize,

    /// Plant this many dead links, and check that they are found.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = plants)]
    plant: usize,

    /// The seed, which decides the faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Use virtual time and no sockets: one seed prints the same.
    #[arg(long)]
    simulate: bool,

    /// Print only one JSON object.
    #[arg(long)]
    json: bool,
}

fn hosts(text: &str) -> Result<usize, String> {
    up_to(text, 1..=256)
}

fn plants(text: &str) -> Result<usize, String> {
    up_to(text, 0..=100_000)
}

fn up_to(text: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "a number and a unit, as in 500ms or 2s")?;
    let unit = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err("the units are us, ms, s, m and h".into()),
    };
    let time = number.checked_mul(unit).map(Duration::from_micros);
    time.filter(|time| *time <= Duration::from_secs(86_400)).ok_or("a day at most".into())
}

fn some_time(text: &str) -> Result<Duration, String> {
    duration(text)?.checked_sub(Duration::from_micros(1)).ok_or("it needs some time")?;
    duration(text)
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp) => {
            return put(&error.to_string(), 0);
        }
        Err(error) => {
            // If it cannot be written, the exit code reports it.
            let _ = write!(io::stderr(), "{error}");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(report) => put(&if args.json { report.json() } else { report.text() }, report.code()),
        Err(problem) => failed(&problem, 2),
    }
}

fn failed(problem: &str, code: u8) -> ExitCode {
    let _ = writeln!(io::stderr(), "linkcheck: {problem}");
    ExitCode::from(code)
}

/// Prints to the standard output, which may be closed or full.
fn put(text: &str, code: u8) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::from(code),
        Err(error) => failed(&format!("the standard output: {error}"), 1),
    }
}

fn run(args: &Args) -> Result<Report, String> {
    let &Args { hosts, pause, backoff, limit, tries, seed, delay, errors, mute, .. } = args;
    let plan = Plan {
        root: args.dir.clone(),
        hosts,
        rules: Rules { pause, backoff, limit, tries },
        faults: Faults { seed, delay, errors, mute },
        plant: args.plant,
        within: args.within,
    };
    if args.simulate {
        return plan.in_virtual_time();
    }
    let runtime = Builder::new_multi_thread().enable_io().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let bar = bar(args.json);
    let shown = bar.clone();
    let watch: Watch = Box::new(move |done, known| {
        shown.set_length(known);
        shown.set_position(done);
    });
    let report = runtime.block_on(async {
        let executor = Arc::new(Tokio::new(Handle::current()));
        let interrupted = signals().map_err(|error| format!("no signals: {error}"))?;
        plan.over_sockets(Some(executor), watch, interrupted).await
    });
    bar.finish_and_clear();
    // Otherwise the runtime would wait for a host that never answers.
    runtime.shutdown_background();
    report
}

/// Returns a progress bar, which is drawn only on a terminal.
fn bar(silent: bool) -> ProgressBar {
    if silent {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} addresses, {elapsed}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Returns a future that is ready at the first Ctrl-C or SIGTERM. The signals are caught from this
/// call on.
#[cfg(unix)]
fn signals() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut pressed, mut asked) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = pressed.recv() => {}
            _ = asked.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn signals() -> io::Result<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}
