//! A leaderboard on hosts with little time, some of which are killed: `leaderboard --requests 100`.
//!
//! Each request is a host of its own, a process that lives for some milliseconds: it stores the
//! request, drains its board as long as it has time, and hands what is left to a bottom half,
//! another host. Clients poll for their results. In the end the boards are compared with the
//! answers.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "shared with the other programs")]
mod common;
#[path = "../common/failure.rs"]
mod failure;
#[path = "../common/mortal.rs"]
mod mortal;
#[path = "../common/server.rs"]
mod server;

mod board;
mod books;
mod host;
mod platform;

use std::io::{self, Write};
#[cfg(feature = "sqlite")]
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Parser;
#[cfg(feature = "sqlite")]
use turnwise_redis::FileStore;
use turnwise_redis::{ConnectError, MemoryStore, Remote, RemoteBuilder};

use failure::Failure;
use host::Job;
use platform::Platform;
use server::Server;

/// Sends requests to hosts with little time, and kills some of the hosts.
///
/// A host stores its request and drains its board as long as its budget lasts.
/// What is left goes to a bottom half, which has more time. Hosts are killed
/// before they have stored their requests, while they drain, and as they hand
/// over. Then the boards are compared with what was answered.
///
/// Without a URL it starts a server of its own (redis-server), and ends it.
///
/// Exit codes: 0 if every request was answered and applied once, 1 if not, 2 for
/// bad usage, 69 if no server answers or none can be started, 130 if it was
/// interrupted.
#[derive(Clone, Parser)]
#[command(name = "leaderboard", verbatim_doc_comment)]
pub(crate) struct Options {
    /// Number of requests
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    /// Number of boards
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    boards: u32,
    /// Number of hosts at a time
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u32).range(1..=200))]
    at_once: u32,
    /// Number of hosts that are killed
    #[arg(long, default_value = "9")]
    kill: u32,
    /// Time that a host has for a request
    #[arg(long, value_name = "TIME", default_value = "30ms", value_parser = common::time)]
    budget: Duration,
    /// Time that a bottom half has
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = common::time)]
    bottom_budget: Duration,
    /// Time that a request takes to handle
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = common::time)]
    work: Duration,
    /// Time that a killed host holds its board
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = common::time)]
    lease: Duration,
    /// Server [default: one of its own]
    #[arg(long, env = "REDIS_URL", hide_env_values = true)]
    url: Option<String>,
    /// Prefix of all keys [default: a new one]
    #[arg(long, default_value = "")]
    prefix: String,
    /// Use threads of this process, and no server
    #[arg(long)]
    memory: bool,
    /// Use a file of this machine, and no server
    #[cfg(feature = "sqlite")]
    #[arg(long, value_name = "PATH", conflicts_with = "memory")]
    file: Option<PathBuf>,
    /// The board of a host.
    #[arg(long, hide = true)]
    host: Option<String>,
    /// The request of a host, unless it is a bottom half.
    #[arg(long, hide = true)]
    request: Option<String>,
    /// The player of the request.
    #[arg(long, hide = true, default_value = "")]
    player: String,
    /// The points of the request.
    #[arg(long, hide = true, default_value = "0")]
    points: u64,
}

impl Options {
    /// Returns the settings of a client.
    fn builder(&self) -> RemoteBuilder {
        Remote::builder().prefix(&*self.prefix)
    }

    /// Connects to the file, or to the server at the URL.
    fn connect(&self) -> Result<Remote, ConnectError> {
        #[cfg(feature = "sqlite")]
        if let Some(path) = &self.file {
            return self.builder().over(FileStore::open(path)?);
        }
        self.builder().connect(self.url.as_deref().unwrap_or_default())
    }

    /// True if it needs a server.
    fn is_remote(&self) -> bool {
        #[cfg(feature = "sqlite")]
        if self.file.is_some() {
            return false;
        }
        !self.memory
    }

    fn check(&self) -> Result<(), Failure> {
        if self.budget.is_zero() || self.bottom_budget.is_zero() {
            return Err(Failure(2, "the budget of a host must not be zero".to_owned()));
        }
        if self.lease < Duration::from_millis(10) {
            return Err(Failure(2, "a lease must be at least ten milliseconds".to_owned()));
        }
        Ok(())
    }

    fn all_boards(&self) -> impl Iterator<Item = String> {
        (0..self.boards).map(|board| format!("board {board}"))
    }

    fn request(&self, number: u32) -> Job {
        Job::Front {
            board: format!("board {}", number % self.boards),
            request: format!("request {number}"),
            player: format!("player {}", number % 7),
            points: u64::from(number % 10) + 1,
        }
    }

    fn budget_of(&self, job: &Job) -> Duration {
        match job {
            Job::Front { .. } => self.budget,
            Job::Bottom { .. } => self.bottom_budget,
        }
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
            eprintln!("leaderboard: {why}");
            ExitCode::from(code)
        }
    }
}

fn run(mut options: Options) -> Result<ExitCode, Failure> {
    options.check()?;
    if options.host.is_some() {
        return host(&options);
    }
    if options.prefix.is_empty() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        options.prefix = format!("leaderboard {} {}", std::process::id(), now.as_micros());
    }
    let interrupted = failure::interrupts();
    // Killed at the end of this function.
    let mut own = None;
    let store = options.memory.then(MemoryStore::new);
    let remote = match &store {
        Some(store) => options.builder().over(store.clone()),
        None => {
            if options.is_remote() && options.url.is_none() {
                options.url = Some(own.insert(Server::start(&options.builder())?).url());
            }
            options.connect()
        }
    };
    let remote = match remote {
        Ok(remote) => remote,
        Err(error) => return Ok(common::unconnected("leaderboard", &error)),
    };
    let boards = board::boards(&remote, options.lease);
    let boards = boards.map_err(|error| Failure(2, error.to_string()))?;
    let mut platform = Platform::new(&options, &boards, store);
    platform.run(interrupted)?;
    let (table, wrong) = platform.books.close(&options, &boards)?;
    drop(own);
    let printed = writeln!(io::stdout(), "{table}").and_then(|()| io::stdout().flush());
    let code = common::written("leaderboard", printed);
    for wrong in &wrong {
        eprintln!("leaderboard: {wrong}");
    }
    Ok(if wrong.is_empty() { code } else { ExitCode::FAILURE })
}

/// Runs a host, in a process of its own.
fn host(options: &Options) -> Result<ExitCode, Failure> {
    let board = options.host.clone().unwrap_or_default();
    let job = match options.request.clone() {
        None => Job::Bottom { board },
        Some(request) => {
            let (player, points) = (options.player.clone(), options.points);
            Job::Front { board, request, player, points }
        }
    };
    let failed = |error: &dyn std::fmt::Display| Failure(common::UNAVAILABLE, error.to_string());
    let remote = options.connect().map_err(|error| failed(&error))?;
    let boards = board::boards(&remote, options.lease).map_err(|error| failed(&error))?;
    let budget = options.budget_of(&job);
    let worked = host::work(&boards, &job, budget, options.work, &host::by_lines());
    worked.map_err(|error| failed(&error))?;
    Ok(ExitCode::SUCCESS)
}
