//! Locks and actors over a Redis server: `turnwise-redis` beside the commands by hand, a loop that
//! polls, and the crate `rslock`.
//!
//! All are measured in one run, round by round, against one server on loopback; a row is the median
//! of the rounds.
//!
//! ```text
//! cargo bench -p turnwise-redis --features sqlite --bench far -- --help
//! ```

mod actors;
mod figures;
mod network;
mod server;
mod subject;
mod waiters;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use cpu_time::ProcessTime;
use redis::aio::MultiplexedConnection;

use figures::{median, processor};
use server::Server;
use subject::{Failure, Kind, Subject};

/// Locks over Redis, side by side.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// A server that is there; without one, a `redis-server` is started on a free port, and ended.
    #[arg(long, global = true)]
    url: Option<String>,
    /// Number of rounds.
    #[arg(long, global = true, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Milliseconds that each message is on its way. The client's processor time includes that
    /// of this network.
    #[arg(long, global = true, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1000))]
    delay: u64,
    #[command(subcommand)]
    what: What,
    /// An argument that cargo adds.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum What {
    /// Lock and unlock, uncontended: microseconds a pair, one after the other, and sixteen at once.
    Pairs {
        /// Pairs of a round.
        #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
        pairs: u32,
    },
    /// Many processes, with many waiters each, on one lock: grants a second, commands a grant.
    Waiters(waiters::Crowd),
    /// The commands that a pair takes, and a process that waits.
    Commands,
    /// Messages of one actor: microseconds an ask, one after the other, and a drain of 64.
    Actors {
        /// Asks of a round.
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        asks: u32,
    },
    #[command(hide = true)]
    Worker(waiters::Work),
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("far: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    if let What::Worker(work) = &options.what {
        return waiters::work(work);
    }
    let own = match &options.url {
        Some(_) => None,
        None => Some(Server::start()?),
    };
    let url =
        options.url.clone().unwrap_or_else(|| own.as_ref().map_or(String::new(), Server::url));
    let url = match options.delay {
        0 => url,
        delay => network::slow(&url, Duration::from_millis(delay))?,
    };
    match &options.what {
        What::Pairs { pairs } => {
            let server = own.as_ref().map(Server::id);
            self::pairs(&url, server, options.rounds, *pairs)
        }
        What::Waiters(crowd) => waiters::crowds(&url, options.rounds, crowd),
        What::Commands => commands(&url),
        What::Actors { asks } => actors::messages(&url, options.rounds, *asks),
        What::Worker(_) => Ok(()),
    }
}

/// A round: time on the wall, of this process, and of the server, in microseconds a pair.
type Times = [f64; 3];

fn pairs(url: &str, server: Option<u32>, rounds: u32, pairs: u32) -> Result<(), Failure> {
    for kinds in [&Kind::PAIRS[..], &Kind::THREADS[..]] {
        pairs_of(url, server, rounds, pairs, kinds)?;
    }
    Ok(())
}

fn pairs_of(
    url: &str,
    server: Option<u32>,
    rounds: u32,
    pairs: u32,
    kinds: &[Kind],
) -> Result<(), Failure> {
    let subjects = kinds.iter().map(|&kind| Subject::connect(kind, url));
    let subjects: Vec<Subject> = subjects.collect::<Result<_, _>>()?;
    for (at_once, title) in [(1, "one after the other"), (16, "sixteen at once")] {
        let mut times: Vec<Vec<Times>> = vec![Vec::new(); subjects.len()];
        for round in 0..=rounds {
            for (subject, times) in subjects.iter().zip(&mut times) {
                let (own, others) = (ProcessTime::now(), server.map_or(0, processor));
                let took = subject.pairs(pairs, at_once)?;
                let others = server.map_or(0, processor) - others;
                let all = [took.as_nanos() as u64, own.elapsed().as_nanos() as u64, others];
                if round > 0 {
                    times.push(all.map(|time| time as f64 / 1e3 / f64::from(pairs)));
                }
            }
        }
        println!("lock and unlock, {title}: microseconds a pair, median of {rounds} rounds");
        println!("  {:28} {:>15}   {:>15}   {:>15}", "", "wall", "client", "server");
        for (subject, own) in subjects.iter().zip(&times) {
            print!("  {:<28}", subject.kind.title());
            for kind in 0..3 {
                let ratios = own.iter().zip(&times[0]).map(|(own, by)| own[kind] / by[kind]);
                let time = median(own.iter().map(|times| times[kind]).collect());
                print!(" {time:>8.1} {:>6.2}  ", median(ratios.collect()));
            }
            println!();
        }
    }
    Ok(())
}

/// Returns the number of commands of this kind that the server has had, by its own count.
async fn count(to: &mut MultiplexedConnection, kind: Kind) -> Result<u64, Failure> {
    let info: String = redis::cmd("INFO").arg("commandstats").query_async(to).await?;
    // The scripts of `turnwise-redis` call `SET` themselves: that is no command of a client.
    let names: &[&str] = match kind {
        Kind::Turnwise | Kind::Drops | Kind::Waits | Kind::Memory => &["eval", "evalsha"],
        Kind::Hand | Kind::Blocks | Kind::Poll | Kind::Rslock => &["eval", "evalsha", "set"],
    };
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        names.contains(&name).then(|| rest.split(',').next()?.parse::<u64>().ok())?
    };
    Ok(info.lines().filter_map(calls).sum())
}

fn commands(url: &str) -> Result<(), Failure> {
    let runtime = subject::runtime()?;
    let mut to = runtime.block_on(subject::connection(url))?;
    println!("commands of a pair of lock and unlock, of 1,000:");
    for kind in Kind::PAIRS.into_iter().filter(|kind| *kind != Kind::Memory) {
        let subject = Subject::connect(kind, url)?;
        subject.pairs(100, 1)?;
        let before = runtime.block_on(count(&mut to, kind))?;
        subject.pairs(1000, 1)?;
        let after = runtime.block_on(count(&mut to, kind))?;
        println!("  {:<28} {:>8.2}", kind.title(), (after - before) as f64 / 1000.0);
    }
    let time = Duration::from_secs(20);
    println!("commands a second of a process with 8 waiters on one lock that another holds:");
    for kind in Kind::CROWDS {
        let holder = Subject::connect(kind, url)?;
        let name = format!("held {}", kind.name());
        let held = holder.hold(&name)?;
        let crowd = waiters::Crowd { processes: 1, waiters: 8, hold: 10, seconds: time.as_secs() };
        let mut children = waiters::spawn(kind, url, &name, &crowd)?;
        std::thread::sleep(time / 4);
        let before = runtime.block_on(count(&mut to, kind))?;
        std::thread::sleep(time / 2);
        let after = runtime.block_on(count(&mut to, kind))?;
        drop(held);
        for child in &mut children {
            child.kill()?;
            child.wait()?;
        }
        let a_second = (after - before) as f64 / (time / 2).as_secs_f64();
        println!("  {:<28} {a_second:>8.2}", kind.title());
    }
    Ok(())
}
