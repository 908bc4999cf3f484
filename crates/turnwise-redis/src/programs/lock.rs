//! Runs a command while it holds a lock: `lock --wait 5s --lease 6s KEY -- command`.

mod common;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use turnwise_redis::{Limits, Remote};

/// Runs a command while it holds a lock that all machines share.
///
/// The command finds the number of its hold in TURNWISE_FENCE: greater than
/// that of all holds of this lock before.
///
/// Exit codes: the command's own; 75 if the lock was not free in time, 69 if
/// no server answers, 70 if the lock was lost while the command ran (it is
/// asked to end), 126 or 127 if the command cannot be run, 130 if it is asked
/// to end while it waits, 2 for bad usage.
#[derive(Parser)]
#[command(name = "lock", verbatim_doc_comment)]
struct Arguments {
    /// Name of the lock
    key: String,
    /// Command, and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
    /// Time limit of the wait for the lock: 0 is one attempt
    /// [default: no limit]
    #[arg(long, verbatim_doc_comment, value_name = "TIME", value_parser = common::time)]
    wait: Option<Duration>,
    /// Time limit of the hold
    /// [default: as long as the command runs]
    #[arg(long, verbatim_doc_comment, value_name = "TIME", value_parser = common::time)]
    lease: Option<Duration>,
    /// Time that a command has to end after the lock was lost
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
    if let Some(code) = common::supervised("lock") {
        return code;
    }
    let given: Arguments = match common::options() {
        Ok(given) => given,
        Err(code) => return code,
    };
    let builder = Remote::builder().prefix(&*given.prefix);
    let remote = match common::client(builder, given.memory, &given.url) {
        Ok(remote) => remote,
        Err(error) => return common::unconnected("lock", &error),
    };
    let mut limits = given.wait.map_or(Limits::NONE, Limits::wait);
    if let Some(lease) = given.lease {
        limits = limits.lease(lease);
    }
    common::end_when_asked();
    let guard = match remote.locks().lock_within(&given.key, limits).wait() {
        Ok(guard) => guard,
        Err(error) => return common::failed("lock", &error),
    };
    let code = common::run("lock", &given.command, &guard, given.grace);
    // The state of the lock was printed before.
    let _ = guard.release().wait();
    code
}
