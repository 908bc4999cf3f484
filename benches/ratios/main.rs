//! Measures a message, against a mutex used directly and the mailboxes that others write.
//!
//! Short trials in which all subjects take turns, so that a change of the machine's pace affects
//! all of them; per round the ratio to `parking_lot`, over the rounds the medians. A table in a few
//! minutes, where criterion takes an hour.
//!
//! ```text
//! cargo bench --bench ratios [-- [--actors [--histogram]] [--rounds N] [--only WORK] [--markdown] [--quick]]
//! ```
//! If a subject of turnwise is slower than the textbook's mailbox in the same role, the row is
//! marked with `<`. If a mutex has no part in the work, the ratios are `n/a`.
//!
//! `--markdown` prints two tables for the README: a row for each workload, the ratios of the
//! subjects beside each other.
//!
//! `--actors` prints another table: programs of actors, each compared with the rival that it must
//! not be slower than, losses first ([`goals`]).

mod channel;
mod goals;
mod grid;
mod race;
#[path = "../workloads/mod.rs"]
mod workloads;

use std::process::Command;
use std::time::SystemTime;

/// The selected options.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) only: String,
    pub(crate) quick: bool,
    pub(crate) markdown: bool,
    actors: bool,
    pub(crate) histogram: bool,
    /// Runs both tables for their checks.
    test: bool,
    /// Measures the memory of this many objects, and nothing else.
    cell: Option<(String, u64)>,
}

const USAGE: &str = "\
usage: cargo bench --bench ratios [-- OPTIONS]

  --actors      programs of actors: what must be reached, what is, losses first
  --histogram   with it: how long messages took to a quiet actor beside flooded ones
  --rounds N    how often everything is measured; the medians are printed
  --only WORK   only the rows whose name has this in it
  --markdown    the table as GitHub wants it
  --quick       one round of tiny trials: figures that mean nothing, answers that do";

fn main() {
    let options = Options::read(std::env::args().skip(1)).unwrap_or_else(|why| fail(&why));
    if let Some((name, many)) = &options.cell {
        return goals::cell(name, *many).unwrap_or_else(|why| fail(&why));
    }
    if !options.actors {
        grid::run(&options);
    }
    if options.actors || options.test {
        goals::run(&options).unwrap_or_else(|why| fail(&why));
    }
}

fn fail<T>(why: &str) -> T {
    eprintln!("ratios: {why}\n\n{USAGE}");
    std::process::exit(2);
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options {
            rounds: 31,
            only: String::new(),
            quick: false,
            markdown: false,
            actors: false,
            histogram: false,
            test: true,
            cell: None,
        };
        let mut test = false;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            let number =
                |value: String| value.parse().map_err(|_| format!("{value} is not a number"));
            match word.as_str() {
                // Without it this is a test run.
                "--bench" => options.test = false,
                "--test" => test = true,
                "--quick" => options.quick = true,
                "--rounds" => match number(value()?)? {
                    0 => return Err("without a round there is nothing to print".into()),
                    rounds => options.rounds = rounds as usize,
                },
                "--only" => options.only = value()?,
                "--markdown" => options.markdown = true,
                "--actors" => options.actors = true,
                "--histogram" => options.histogram = true,
                "--cell" => options.cell = Some((value()?, number(value()?)?)),
                // Options of the test harness.
                "--nocapture" | "--quiet" | "-q" => {}
                flag if flag.starts_with('-') => return Err(format!("{flag} is nothing I know")),
                filter => options.only = filter.to_owned(),
            }
        }
        if options.histogram && !options.actors {
            return Err("--histogram is a part of --actors".into());
        }
        options.test |= test;
        options.quick |= options.test;
        if options.quick {
            options.rounds = 1;
        }
        Ok(options)
    }
}

/// Three digits.
pub(crate) fn figure(of: f64) -> String {
    let decimals = if of < 9.995 { 2 } else { usize::from(of < 99.95) };
    format!("{of:.decimals$}")
}

/// Returns the origin of the figures: machine, compiler, profile, commit and day.
pub(crate) fn origin() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor of unknown make", |(_, model)| model);
    let rustc = output("rustc", &["--version"]).unwrap_or("an unknown rustc".to_owned());
    // The directory of this program's directory is named after it.
    let program = std::env::current_exe().unwrap_or_default();
    let profile = program.ancestors().nth(2).and_then(|directory| directory.file_name());
    let profile = profile.map_or("unknown".into(), |profile| profile.to_string_lossy());
    let commit = output("git", &["describe", "--always", "--dirty", "--exclude=*"])
        .unwrap_or("unknown".to_owned());
    format!(
        "{model}, {processors} processors, {} {}, {rustc}, profile {profile}, commit {commit}, {}.",
        std::env::consts::OS,
        std::env::consts::ARCH,
        today()
    )
}

/// Returns the output of a program, if it exists and succeeds.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Returns the day of the system clock, in universal time.
fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (mut days, mut year, mut month) = (since.as_secs() / 86_400, 1970, 1);
    let leap = |year: u64| u64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    while days >= 365 + leap(year) {
        days -= 365 + leap(year);
        year += 1;
    }
    for length in [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}
