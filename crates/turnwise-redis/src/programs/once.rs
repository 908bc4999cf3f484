//! Runs a command once per tick, on one machine: `once --job backup --every 1h -- command`.

mod common;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use turnwise_redis::Remote;
use turnwise_redis::ticks::NotMine;

/// Runs a command once per tick, on one machine of all that try.
///
/// Put the same line into each machine's cron. Ticks are counted from the
/// Unix epoch on the server's clock, and an attempt is for the tick whose
/// beginning is nearest: machines that are early and late mean the same one.
/// If cron's line is not for full multiples of EVERY, say so by --offset.
/// The command finds the number of its run in TURNWISE_FENCE.
///
/// Exit codes: the command's own; 0 if another machine has the tick, or a run
/// of an earlier tick is under way (see --missed); 69 if no server answers, 70
/// if the run was lost, 126 or 127 if the command cannot be run, 130 if it is
/// asked to end before that, 2 for bad usage.
#[derive(Parser)]
#[command(name = "once", verbatim_doc_comment)]
struct Arguments {
    /// Name of the job
    #[arg(long)]
    job: String,
    /// Time from one tick to the next
    #[arg(long, value_name = "TIME", value_parser = common::time)]
    every: Duration,
    /// Delay of the ticks: when cron calls
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = common::time)]
    offset: Duration,
    /// Exit code if the command does not run
    #[arg(long, value_name = "CODE", default_value = "0")]
    missed: u8,
    /// Print why the command does not run
    #[arg(long, short)]
    verbose: bool,
    /// Command, and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
    /// Time that a command has to end after the run was lost
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = common::time)]
    grace: Duration,
    /// Server
    #[arg(long, env = "REDIS_URL", hide_env_values = true, default_value = "redis://127.0.0.1/")]
    url: String,
    /// Prefix of all keys
    #[arg(long, default_value = "turnwise")]
    prefix: String,
    /// Use no server: to try it
    #[arg(long)]
    memory: bool,
}

fn main() -> ExitCode {
    if let Some(code) = common::supervised("once") {
        return code;
    }
    let given: Arguments = match common::options() {
        Ok(given) => given,
        Err(code) => return code,
    };
    let builder = Remote::builder().prefix(&*given.prefix);
    let remote = match common::client(builder, given.memory, &given.url) {
        Ok(remote) => remote,
        Err(error) => return common::unconnected("once", &error),
    };
    let job = match remote.ticks().job(&given.job, given.every) {
        Ok(job) => job.offset(given.offset),
        Err(error) => {
            eprintln!("once: {error}");
            return ExitCode::from(2);
        }
    };
    common::end_when_asked();
    let run = match job.take().wait() {
        Ok(run) => run,
        Err(NotMine::Failed(error)) => return common::failed("once", &error),
        Err(missed) => {
            if given.verbose {
                eprintln!("once: {}", why(&missed));
            }
            return ExitCode::from(given.missed);
        }
    };
    let guard = run.into_guard();
    let code = common::run("once", &given.command, &guard, given.grace);
    let _ = guard.release().wait();
    code
}

fn why(missed: &NotMine) -> String {
    match missed {
        NotMine::Taken { tick, next } => format!("tick {tick} is taken; the next is in {next:.1?}"),
        NotMine::StillRunning { tick, next } => {
            format!("the run of tick {tick} is under way; the next tick is in {next:.1?}")
        }
        _ => "this tick does not run here".to_owned(),
    }
}
