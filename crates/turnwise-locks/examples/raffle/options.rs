//! The command line.

use std::time::Duration;

use clap::Parser;
use clap::builder::RangedU64ValueParser;

/// A raffle with too few seats: first come, first served, exactly to the limit.
#[derive(Parser, Debug)]
#[command(name = "raffle")]
pub(crate) struct Options {
    /// Number of applicants, all at once
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub(crate) entrants: usize,
    /// Number of seats
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) seats: u64,
    /// Real threads that apply, each for its share of the entrants [default: one per entrant, 4096
    /// at most]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    threads: Option<usize>,
    /// Time to write an entry: 66.7ms, 5s, 100us
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    pub(crate) service: Duration,
    /// Time to commit entries
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    pub(crate) commit: Duration,
    /// Time that an applicant waits for a turn [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,
    /// Refuse applicants at once whose turn is not to be expected in time
    #[arg(long, requires = "wait", conflicts_with_all = ["without_lock", "mutex"])]
    pub(crate) refuse_early: bool,
    /// Number of entries in a commit, at most
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000), conflicts_with_all = ["without_lock", "mutex"])]
    pub(crate) group: usize,
    /// Number of entrants that come under the name of another
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) duplicates: usize,
    /// Writing each Nth entry fails
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["without_lock", "mutex"])]
    pub(crate) fail_every: Option<u64>,
    /// Writing each Nth entry panics
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["without_lock", "mutex"])]
    pub(crate) panic_every: Option<u64>,
    /// The accident: look, write, and count, with nothing around it
    #[arg(long, conflicts_with_all = ["mutex", "wait"])]
    pub(crate) without_lock: bool,
    /// The price: one mutex around each entry and its commit
    #[arg(long)]
    pub(crate) mutex: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or(4096).min(self.entrants)
    }

    /// Under which name an entrant comes.
    pub(crate) fn name_of(&self, entrant: usize) -> u64 {
        (entrant % self.names()) as u64
    }

    /// The number of names.
    pub(crate) fn names(&self) -> usize {
        self.entrants - self.duplicates.min(self.entrants - 1)
    }

    /// True if an applicant may be refused, or fail, while there are seats.
    pub(crate) fn is_certain(&self) -> bool {
        self.wait.is_none() && self.fail_every.is_none() && self.panic_every.is_none()
    }
}

/// A time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "" if number == "0" => 1.0,
        "" => return Err("a time needs a unit: ns, us, ms, s or m".into()),
        other => return Err(format!("{other} is no unit: ns, us, ms, s or m")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is not a number"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}
