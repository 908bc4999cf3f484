//! Hostile programs: random safe programs over the whole public API of `turnwise`, in which user
//! code may misbehave.
//!
//! ```text
//! cargo run --release -p hostile                         a few seconds of it
//! cargo run --release -p hostile -- --seconds 3600       an hour
//! cargo run --release -p hostile -- --replay SEED        one program, and its listing
//! cargo run --release -p hostile -- --spin --seconds 60  two threads in tight loops instead
//! cargo run --release -p hostile -- --hours 8 --state F  continues from F, and keeps new programs
//! ```
//!
//! A program ([`plan`]) comes from a seed alone ([`draw`]): its objects, the steps of each thread,
//! and the steps of every piece of user code when it is called ([`user`]). It runs in a child
//! process ([`run`]), many of them one after the other. The child reports its current seed, so that
//! a crash, a hang or a wrong ledger ([`ledger`]) has a name. The parent ([`hunt`]) then removes
//! steps for as long as the same thing happens, and prints what is left.
//!
//! A panic that user code has planned is not reported; an abort, a signal, a hang, a leak and a
//! foreign panic are. A program is stuck when nothing at all has happened for a while, and not when
//! it takes long.

#![forbid(unsafe_code)]

mod case;
mod draw;
mod face;
mod hunt;
mod ledger;
mod plan;
mod record;
mod run;
mod spin;
mod timing;
mod turns;
mod user;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use case::{Case, Genome};
use clap::Parser;

/// Random safe programs in which all user code may misbehave.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// Time to look (10, unless a number of programs is given)
    #[arg(long)]
    seconds: Option<u64>,
    /// Hours to look
    #[arg(long, conflicts_with = "seconds")]
    hours: Option<f64>,
    /// A folder that keeps new programs, failures, and the position
    #[arg(long)]
    state: Option<PathBuf>,
    /// Two threads in tight loops, in place of programs: for windows of nanoseconds
    #[arg(long)]
    spin: bool,
    /// Number of programs to run
    #[arg(long)]
    programs: Option<u64>,
    /// The seed of the first program; each next one has the next (by default, the time)
    #[arg(long)]
    seed: Option<u64>,
    /// Run the program of this seed, and print it (`SEED/PART:SEED`: that part comes from another)
    #[arg(long, value_name = "SEED")]
    replay: Option<Genome>,
    /// Only these of its steps: `3,7,9`
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    keep: Option<Vec<u32>>,
    /// Number of runs of a replay
    #[arg(long, default_value_t = 200)]
    times: u64,
    /// Programs side by side, each in a process of its own
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Only profiles whose names contain this word
    #[arg(long, default_value = "", hide_default_value = true)]
    only: String,
    /// The stack of the programs' threads, in KiB
    #[arg(long, default_value_t = 512)]
    stack: usize,
    /// Seconds without any event after which a program is stuck
    #[arg(long, default_value_t = 5)]
    patience: u64,
    /// Seconds for which a failing program is minimized
    #[arg(long, default_value_t = 20)]
    shrink: u64,
    /// Run programs in this very process: for the parent's call of its child
    #[arg(long, hide = true)]
    child: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if draw::program(&Genome::from(0), &args.only).is_none() {
        eprintln!("hostile: there is no such profile");
        return ExitCode::from(2);
    }
    let is_well = match (args.child, &args.replay) {
        (true, _) => child(&args),
        (false, Some(genome)) => hunt::replay(&args, genome),
        (false, None) => hunt::hunt(&args),
    };
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs programs one after the other, and reports each: with `--replay`, always the same one.
fn child(args: &Args) -> bool {
    std::panic::set_hook(Box::new(|info| {
        if !user::is_planned(info.payload()) {
            let at =
                info.location().map_or("?".into(), |at| format!("{}:{}", at.file(), at.line()));
            ledger::finding(&format!("a panic at {at}"), &info.to_string());
        }
    }));
    let (stack, patience) = (args.stack << 10, Duration::from_secs(args.patience));
    face::prepare(stack);
    let count = if args.replay.is_some() { args.times } else { args.programs.unwrap_or(1) };
    let mut corpus = hunt::Corpus::read(args);
    for n in 0..count {
        let genome = match &args.replay {
            Some(genome) => genome.clone(),
            None => corpus.next(args.seed.unwrap_or(0).wrapping_add(n)),
        };
        println!("begin {genome}");
        let is_well = match Case::of(args, &genome) {
            Case::Program(program) => run::run(program, stack, patience),
            Case::Spin(spin) => spin::run(spin, stack, patience),
        };
        let new = ledger::new_features();
        if !new.is_empty() {
            println!("new {genome} {}", hunt::list(&new));
            corpus.add(genome.clone());
        }
        println!("end {}", ledger::operations());
        if !is_well || args.replay.is_some() && ledger::findings() > 0 {
            // Its remains would disturb others, and a replay has its result.
            std::process::exit(1);
        }
    }
    true
}
