//! The program: arguments, start, and the end.
//!
//! ```text
//! cargo run --release -- --seats 100 --db raffle.db
//! curl -d ada http://127.0.0.1:8080/applications
//! ```
//!
//! The end, at Ctrl-C or SIGTERM: no more connections are accepted, idle ones are closed, the
//! pages' streams end; requests that have come are answered; then the ledger is closed. All of that
//! happens within `--grace`.
//!
//! | exit code | meaning                                                                       |
//! |-----------|-------------------------------------------------------------------------------|
//! | 0         | ended on request: every applicant was answered                                |
//! | 1         | it could not start, or not print; the reason is on stderr                     |
//! | 2         | wrong arguments                                                               |
//! | 3         | the grace ended before all were answered; their number is on stderr           |

mod http;
mod ledger;
mod metrics;
mod modes;
mod page;

use std::io::{self, Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::timeout;

use http::{App, router};
use metrics::Metrics;
use modes::{Mode, Raffle, Terms};
use page::Recent;

/// The minimum time for drops and for the file, even after the grace.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// A raffle over HTTP: first come, first served, exactly to the number of seats, in SQLite.
#[derive(Debug, Parser)]
#[command(name = "raffle-server")]
struct Options {
    /// The file of the entrants; made if it does not exist
    #[arg(long, default_value = "raffle.db")]
    db: PathBuf,
    /// The number of seats. A restart with more seats opens a closed raffle again
    #[arg(long, default_value_t = 100)]
    seats: u64,
    /// The port to listen on; 0: any free port. It is printed
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// The way to decide, which determines the commits
    #[arg(long, value_enum, default_value_t = Mode::Turnwise)]
    mode: Mode,
    /// The maximum time that an applicant waits for its turn
    #[arg(long, default_value = "5s", value_parser = duration)]
    wait: Duration,
    /// Mode turnwise: the maximum number of entries in a commit
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    group: u16,
    /// Mode immediate: connections to the file
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// The maximum length of a request's body, in bytes
    #[arg(long, default_value_t = 1024)]
    max_body: usize,
    /// The time limit of the end
    #[arg(long, default_value = "10s", value_parser = duration)]
    grace: Duration,
    /// For measurements: a MODEL of a slower disk. Each commit sleeps this long before it syncs
    #[arg(long, default_value = "0ms", value_parser = duration)]
    model_slower_sync: Duration,
}

/// Parses `5s`, `250ms`, `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| "a number with ms, s or m, like 5s")?;
    match &text[digits.len()..] {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err("the unit is ms, s or m, like 5s".into()),
    }
}

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(told) => {
            return match told.print() {
                // The reader has closed the pipe.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    failed(&error.to_string())
                }
                _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(1)),
            };
        }
    };
    run(&options).unwrap_or_else(|why| failed(&why))
}

fn failed(why: &str) -> ExitCode {
    // If it cannot be written, the exit code reports it.
    let _ = writeln!(io::stderr(), "raffle-server: {why}");
    ExitCode::from(1)
}

fn run(options: &Options) -> Result<ExitCode, String> {
    let metrics = Arc::new(Metrics::default());
    let terms = Terms {
        seats: options.seats,
        wait: options.wait,
        group: options.group.into(),
        connections: options.connections.into(),
        slower: options.model_slower_sync,
    };
    let (raffle, entrants) = Raffle::open(options.mode, &options.db, &terms, &metrics)?;
    let (send_live, live) = watch::channel(Arc::from("{}"));
    let mode = options.mode.to_possible_value();
    let app = Arc::new(App {
        raffle,
        mode: mode.map_or_else(String::new, |mode| mode.get_name().into()),
        metrics: metrics.clone(),
        recent: Recent::new(entrants),
        max_body: options.max_body,
        live,
    });
    let runtime = Runtime::new().map_err(|error| format!("no runtime: {error}"))?;
    let ended = runtime.block_on(async {
        let asked = signals().map_err(|error| format!("no signals: {error}"))?;
        let address = SocketAddr::from((options.bind, options.port));
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| format!("{address}: {error}"))?;
        announce(&listener, &app, options).map_err(|error| format!("stdout: {error}"))?;
        let publisher = tokio::spawn(page::publish(app.clone(), send_live));
        let (stop, mut stopped) = watch::channel(false);
        let serve = axum::serve(listener, router(app.clone()))
            .with_graceful_shutdown(async move { drop(stopped.wait_for(|stop| *stop).await) });
        let mut serve = tokio::spawn(serve.into_future());
        tokio::select! {
            () = asked => {}
            ended = &mut serve => return Err(format!("it serves no more: {ended:?}")),
        }
        let until = Instant::now() + options.grace;
        // The streams end with the publisher.
        publisher.abort();
        stop.send_replace(true);
        // Late: clients that have not sent a whole request keep only their connection.
        let late = timeout(options.grace, &mut serve).await.is_err();
        serve.abort();
        Ok((until, late))
    });
    let (until, late) = ended?;
    let unanswered = if late { metrics.in_flight() } else { 0 };
    // Handlers and connections are dropped here; they no longer use the ledger.
    let left = || until.saturating_duration_since(Instant::now()).max(AFTERWARDS);
    runtime.shutdown_timeout(left());
    let standing = app.raffle.standing();
    let closed = Arc::into_inner(app).is_some_and(|app| app.raffle.shut_down(left()));
    let answered = metrics.answered();
    let (count, seats) = (standing.count, standing.seats);
    let summary = format!("{answered} applications answered; {count} of {seats} places taken");
    writeln!(stdout(), "raffle-server: {summary}").map_err(|error| format!("stdout: {error}"))?;
    if unanswered > 0 || !closed {
        let _ = writeln!(io::stderr(), "raffle-server: {unanswered} not answered in time");
        return Ok(ExitCode::from(3));
    }
    Ok(ExitCode::SUCCESS)
}

fn announce(listener: &TcpListener, app: &App, options: &Options) -> io::Result<()> {
    let (standing, mode) = (app.raffle.standing(), &app.mode);
    let (count, seats) = (standing.count, standing.seats);
    let mut out = stdout().lock();
    writeln!(
        out,
        "raffle-server: listening on http://{}, mode {mode}, {count} of {seats} places taken",
        listener.local_addr()?
    )?;
    if !options.model_slower_sync.is_zero() {
        let slower = options.model_slower_sync;
        writeln!(out, "raffle-server: MODEL of a slower disk: {slower:?} more for each commit")?;
    }
    out.flush()
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
