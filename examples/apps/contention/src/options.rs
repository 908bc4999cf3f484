//! The command line, and the length of the measurement.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::builder::RangedU64ValueParser;

use crate::choices;
use crate::executor::Choice;
use crate::measure::Load;

const EXIT_CODES: &str = "\
Ctrl-C ends it with what has been measured by then; twice, at once.
Exit code: 0; 1 if something could not be written; 2 for a bad option; 130 if interrupted";

/// Actors beside mutexes, mailboxes and a channel, on this machine: verdicts, a table and charts.
#[derive(Parser, Debug)]
#[command(name = "contention", after_help = EXIT_CODES)]
pub(crate) struct Options {
    /// Fewer loads, in under 20 seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// The folder of the charts
    #[arg(long, value_name = "DIR", default_value = "target/contention")]
    pub(crate) out: PathBuf,
    /// All columns: percentiles, processor time, the spread of the rounds; wider than 80 characters
    #[arg(long)]
    pub(crate) wide: bool,
    /// Print one JSON object per row, one row per line, instead of the verdicts and the table
    #[arg(long)]
    pub(crate) json: bool,
    /// The executor of the actors; a pool has a thread for each processor
    #[arg(long, value_name = "WHERE", default_value = "inline", value_parser = choices::choices())]
    pub(crate) executor: Choice,
    /// The exact number of rounds of each load, however long they take
    #[arg(long, value_name = "N", hide = true, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub(crate) rounds: Option<usize>,
    /// The length of a trial when no two threads share a processor
    #[arg(long, value_name = "MS", hide = true, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) trial_ms: u64,
}

impl Options {
    /// Returns the time limit of all measurements. The remaining time is for the charts.
    pub(crate) fn budget(&self) -> Duration {
        Duration::from_secs(if self.quick { 15 } else { 100 })
    }

    /// Returns the loads, by threads. More than eight threads per processor would measure only the
    /// system's scheduler.
    pub(crate) fn loads(&self, processors: usize) -> Vec<Load> {
        let (threads, handlers, own): (&[usize], &[u32], &[u32]) = if self.quick {
            (&[1, 2, 4, 8], &[0, 37], &[0, 250])
        } else {
            (&[1, 2, 4, 8, 16], &[0, 12, 37, 65], &[0, 37, 250])
        };
        let threads = threads.iter().copied().filter(|&threads| threads <= 8 * processors);
        threads
            .flat_map(|threads| own.iter().map(move |&own_ns| (threads, own_ns)))
            .flat_map(|(threads, own_ns)| {
                handlers.iter().map(move |&handler_ns| Load { threads, handler_ns, own_ns })
            })
            .collect()
    }
}
