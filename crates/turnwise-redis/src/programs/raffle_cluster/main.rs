//! A raffle over many processes, some of which are killed: `raffle-cluster --seats 100`.
//!
//! Each process applies for many applicants at once, half of them by a reservation first. Some are
//! killed (`SIGKILL`) while they have a place reserved. In the end the rows are compared with the
//! answers.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "shared with the other programs")]
mod common;

mod books;
mod cluster;
mod entrant;
#[path = "../common/failure.rs"]
mod failure;
#[path = "../common/mortal.rs"]
mod mortal;
#[path = "../common/server.rs"]
mod server;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Parser;
use turnwise_redis::{MemoryStore, Remote, RemoteBuilder};

use cluster::Cluster;
use failure::Failure;
use server::Server;

/// Many processes apply for a few seats, and some of them are killed.
///
/// Half of the requests reserve a seat first, and write their row later. A
/// process that is to be killed is killed while it has a seat reserved, and
/// others run. Then the rows are compared with all answers.
///
/// Without a URL it starts a server of its own (redis-server), and ends it.
///
/// Exit codes: 0 if the books balance, 1 if they do not, 2 for bad usage, 69 if
/// no server answers or none can be started, 130 if it was interrupted.
#[derive(Clone, Parser)]
#[command(name = "raffle-cluster", verbatim_doc_comment)]
pub(crate) struct Options {
    /// Number of seats
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seats: u64,
    /// Number of processes
    #[arg(long, default_value = "12", value_parser = clap::value_parser!(u32).range(1..=200))]
    processes: u32,
    /// Number of requests of each, each for another applicant
    #[arg(long, default_value = "200", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    /// Number of processes that are killed
    #[arg(long, default_value = "2")]
    kill: u32,
    /// Time from a reservation to its row
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = common::time)]
    hold: Duration,
    /// Time that the places of a killed process are kept
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = common::time)]
    lease: Duration,
    /// Server [default: one of its own]
    #[arg(long, env = "REDIS_URL", hide_env_values = true)]
    url: Option<String>,
    /// Prefix of all keys
    #[arg(long, default_value = "turnwise")]
    prefix: String,
    /// Name of the raffle [default: a new one]
    #[arg(long)]
    name: Option<String>,
    /// Use threads of this process, and no server
    #[arg(long)]
    memory: bool,
    /// The number of a process of the cluster.
    #[arg(long, hide = true)]
    entrant: Option<u32>,
    /// True if the process is to be killed.
    #[arg(long, hide = true)]
    doomed: bool,
}

impl Options {
    /// Returns the settings of a client.
    fn builder(&self) -> RemoteBuilder {
        Remote::builder().prefix(&*self.prefix).lease(self.lease).place(self.lease)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.kill >= self.processes {
            let text = format!("of {} processes, {} cannot be killed", self.processes, self.kill);
            return Err(Failure(2, text + ": one must survive"));
        }
        if self.lease < Duration::from_millis(10) {
            return Err(Failure(2, "a lease must be at least ten milliseconds".to_owned()));
        }
        Ok(())
    }

    /// Returns the name of the raffle.
    fn raffle(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            format!("raffle {} {}", std::process::id(), now.as_micros())
        })
    }
}

fn main() -> ExitCode {
    let options = match common::options() {
        Ok(options) => options,
        Err(code) => return code,
    };
    match run(options) {
        Ok(code) => code,
        Err(Failure(code, why)) => {
            eprintln!("raffle-cluster: {why}");
            ExitCode::from(code)
        }
    }
}

fn run(mut options: Options) -> Result<ExitCode, Failure> {
    options.check()?;
    let raffle = options.raffle();
    options.name = Some(raffle.clone());
    if let Some(number) = options.entrant {
        return entrant::process(&options, &raffle, number);
    }
    let interrupted = failure::interrupts();
    // Killed at the end of this function.
    let mut own = None;
    let store = options.memory.then(MemoryStore::new);
    let remote = match &store {
        Some(store) => options.builder().over(store.clone()),
        None => {
            let url = match options.url.clone() {
                Some(url) => url,
                None => own.insert(Server::start(&options.builder())?).url(),
            };
            let remote = options.builder().connect(&url);
            options.url = Some(url);
            remote
        }
    };
    let remote = match remote {
        Ok(remote) => remote,
        Err(error) => return Ok(common::unconnected("raffle-cluster", &error)),
    };
    let admission = remote.admission(&raffle, options.seats);
    let admission = admission.map_err(|error| Failure(2, error.to_string()))?;
    let cluster = Cluster::start(&options, &raffle, store)?;
    let books = cluster.run(&options, interrupted)?;
    let report = books.close(&options, &admission)?;
    drop(own);
    let printed = writeln!(io::stdout(), "{}", report.table).and_then(|()| io::stdout().flush());
    let code = common::written("raffle-cluster", printed);
    for wrong in &report.wrong {
        eprintln!("raffle-cluster: {wrong}");
    }
    Ok(if report.wrong.is_empty() { code } else { ExitCode::FAILURE })
}
