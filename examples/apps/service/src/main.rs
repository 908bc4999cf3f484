//! The program: arguments, start, and the end.
//!
//! ```text
//! cargo run --release -- --with turnwise
//! curl -d '{"product": 7, "count": 2}' http://127.0.0.1:8080/sessions/ada/items
//! ```
//!
//! The end, at Ctrl-C or SIGTERM: no more connections are accepted, idle ones are closed; requests
//! that have come are answered; then the sessions end. All of that happens within `--grace`.
//!
//! | exit code | meaning                                                                       |
//! |-----------|-------------------------------------------------------------------------------|
//! | 0         | ended on request: every request was answered, every session has ended         |
//! | 1         | it could not start, or not print; the reason is on stderr                     |
//! | 2         | wrong arguments                                                               |
//! | 3         | the grace ended first; the remaining requests and sessions are on stderr      |

mod backend;
mod connections;
mod http;
mod metrics;
mod shop;

use std::io::{self, Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use backend::{Backend, Kameo, Mpsc, Mutexes, Ractor, Turnwise};
use connections::Bounded;
use http::{App, router};
use metrics::Metrics;
use shop::{Bounds, Shop, Sku};

/// The minimum time for drops, even after the grace.
const AFTERWARDS: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum With {
    /// A key with a mailbox for each session; the cache is an actor
    Turnwise,
    /// A mutex for each session, and one for the cache
    Mutex,
    /// A tokio task with a channel for each session, and one for the cache
    Mpsc,
    /// An actor of kameo for each session, and one for the cache
    Kameo,
    /// An actor of ractor for each session, and one for the cache
    Ractor,
}

/// A shop's baskets over HTTP: a session for each customer, a cache of products, a bound for
/// everything. Written five times, for comparison.
#[derive(Debug, Parser)]
#[command(name = "service")]
struct Options {
    /// The backend, which runs the turns
    #[arg(long, value_enum, default_value_t = With::Turnwise)]
    with: With,
    /// The port to listen on; 0: any free port. It is printed
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Threads of the runtime [default: as many as processors]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Sessions at a time
    #[arg(long, default_value_t = 100_000, value_parser = at_least_one)]
    sessions: usize,
    /// The time after which an unused session ends
    #[arg(long, default_value = "60s", value_parser = some_time)]
    idle: Duration,
    /// Requests of one session that wait for the one that runs
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    waiting: u16,
    /// Requests at a time
    #[arg(long, default_value_t = 1024, value_parser = at_least_one)]
    in_flight: usize,
    /// Connections at a time
    #[arg(long, default_value_t = 4096, value_parser = at_least_one)]
    connections: usize,
    /// The maximum time that a request waits for its turn, or for a product
    #[arg(long, default_value = "2s", value_parser = some_time)]
    wait: Duration,
    /// The maximum length of a request's body, in bytes
    #[arg(long, default_value_t = 1024)]
    max_body: usize,
    /// Products that the cache keeps
    #[arg(long, default_value_t = 1000, value_parser = at_least_one)]
    cached: usize,
    /// The time limit of the end
    #[arg(long, default_value = "10s", value_parser = duration)]
    grace: Duration,
    /// For measurements: rounds of hashing for each change of a basket, about 20 ns each
    #[arg(long, default_value_t = 1000)]
    work: u32,
    /// A MODEL of a database: the time to load a product
    #[arg(long, default_value = "1ms", value_parser = duration)]
    model_load: Duration,
    /// For tests, a MODEL of a bug: a turn that puts this product into a basket panics
    #[arg(long)]
    model_bug: Option<Sku>,
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

fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it needs some time".into()),
        time if time > Duration::from_secs(86_400) => Err("a day at most".into()),
        time => Ok(time),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<u32>() {
        Ok(number @ 1..=100_000_000) => Ok(number as usize),
        _ => Err("a number from 1 to 100000000".into()),
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
    let ended = match options.with {
        With::Turnwise => run::<Turnwise>(&options),
        With::Mutex => run::<Mutexes>(&options),
        With::Mpsc => run::<Mpsc>(&options),
        With::Kameo => run::<Kameo>(&options),
        With::Ractor => run::<Ractor>(&options),
    };
    ended.unwrap_or_else(|why| failed(&why))
}

fn failed(why: &str) -> ExitCode {
    // If it cannot be written, the exit code reports it.
    let _ = writeln!(io::stderr(), "service: {why}");
    ExitCode::from(1)
}

fn run<B: Backend>(options: &Options) -> Result<ExitCode, String> {
    let threads = match options.threads {
        Some(threads) => threads.into(),
        None => available_parallelism().map_or(1, usize::from),
    };
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let metrics = Arc::new(Metrics::default());
    let ended = runtime.block_on(serve::<B>(options, &metrics));
    // Handlers and connections are dropped here.
    runtime.shutdown_timeout(AFTERWARDS);
    let left = ended?;
    let answered = metrics.answered();
    writeln!(stdout(), "service: {answered} requests answered")
        .map_err(|error| format!("stdout: {error}"))?;
    let Left { requests, sessions } = left;
    if requests > 0 || sessions > 0 {
        let what = format!("{requests} requests not answered in time, {sessions} sessions left");
        let _ = writeln!(io::stderr(), "service: {what}");
        return Ok(ExitCode::from(3));
    }
    Ok(ExitCode::SUCCESS)
}

/// The requests and sessions that did not end in time.
struct Left {
    requests: u64,
    sessions: usize,
}

async fn serve<B: Backend>(options: &Options, metrics: &Arc<Metrics>) -> Result<Left, String> {
    let bounds = Bounds {
        sessions: options.sessions,
        waiting: options.waiting.into(),
        wait: options.wait,
        idle: options.idle,
        cached: options.cached,
        work: options.work,
        load: options.model_load,
        bug: options.model_bug,
    };
    let asked = signals().map_err(|error| format!("no signals: {error}"))?;
    let address = SocketAddr::from((options.bind, options.port));
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("{address}: {error}"))?;
    let shop = Shop::new(bounds);
    let app = Arc::new(App {
        backend: B::new(shop.clone()),
        shop: shop.clone(),
        metrics: metrics.clone(),
        in_flight: Semaphore::new(options.in_flight),
        max_body: options.max_body,
    });
    announce(&listener, options.with).map_err(|error| format!("stdout: {error}"))?;
    let (stop, mut stopped) = watch::channel(false);
    let room = Arc::new(Semaphore::new(options.connections));
    let serve = axum::serve(Bounded { listener, room }, router(app.clone()))
        .with_graceful_shutdown(async move { drop(stopped.wait_for(|stop| *stop).await) });
    let mut serve = tokio::spawn(serve.into_future());
    tokio::select! {
        () = asked => {}
        ended = &mut serve => return Err(format!("it serves no more: {ended:?}")),
    }
    let until = Instant::now() + options.grace;
    stop.send_replace(true);
    // Late: clients that have not sent a whole request keep only their connection.
    let late = timeout(options.grace, &mut serve).await.is_err();
    serve.abort();
    let requests = if late { metrics.in_flight() } else { 0 };
    let limit = until.saturating_duration_since(Instant::now()).max(AFTERWARDS);
    let ended = app.backend.end(limit).await;
    Ok(Left { requests, sessions: if ended { 0 } else { shop.seats.taken().max(1) } })
}

fn announce(listener: &TcpListener, with: With) -> io::Result<()> {
    let (address, name) = (listener.local_addr()?, with.to_possible_value());
    let name = name.map_or_else(String::new, |name| name.get_name().into());
    let mut out = stdout().lock();
    writeln!(out, "service: listening on http://{address}, with {name}")?;
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
