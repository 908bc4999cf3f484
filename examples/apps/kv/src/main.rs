//! The program: arguments, the line of live figures, Ctrl-C.
//!
//! ```text
//! cargo run --release -- --port 6379 --keys actors
//! redis-cli
//! ```

use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use kv::server::{Figures, serve};
use kv::store::Store;
use kv::table::{Actors, Dash, Mutexed, Sharded, Table};
use tokio::net::TcpListener;
use tokio::runtime;

/// An in-memory key-value server for redis's clients, in which each key is an actor.
#[derive(Debug, Parser)]
#[command(name = "kv")]
struct Options {
    /// The table, which orders the commands on a value
    #[arg(long, value_enum, default_value_t = Keys::Actors)]
    keys: Keys,
    /// The port to listen on; 0: any free port. It is printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Threads that serve [default: one for each processor]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print live figures, even without a terminal; by default, on a terminal only
    #[arg(long, conflicts_with = "quiet")]
    live: bool,
    /// Print no figures
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Keys {
    /// Each key is an actor
    Actors,
    /// A concurrent map
    Dashmap,
    /// A mutex around each of many maps
    Sharded,
    /// A mutex around one map
    Mutex,
}

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(told) => {
            return match told.print() {
                // The reader has closed the pipe.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => failed(&error),
                _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(1)),
            };
        }
    };
    let ran = match options.keys {
        Keys::Actors => run::<Actors>(&options),
        Keys::Dashmap => run::<Dash>(&options),
        Keys::Sharded => run::<Sharded>(&options),
        Keys::Mutex => run::<Mutexed>(&options),
    };
    ran.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

fn failed(error: &io::Error) -> ExitCode {
    eprintln!("kv: {error}");
    ExitCode::FAILURE
}

fn run<T: Table + Default>(options: &Options) -> io::Result<()> {
    let mut builder = runtime::Builder::new_multi_thread();
    if let Some(threads) = options.threads {
        builder.worker_threads(threads.into());
    }
    let runtime = builder.enable_all().build()?;
    let store = Store::<T>::new()?;
    let figures = Arc::new(Figures::default());
    runtime.block_on(async {
        let mut pressed = Box::pin(tokio::signal::ctrl_c());
        // It listens from its first poll on: before the address is printed.
        tokio::select! {
            biased;
            early = &mut pressed => return early,
            () = std::future::ready(()) => {}
        }
        let listener = TcpListener::bind((options.bind, options.port)).await?;
        let name = options.keys.to_possible_value();
        let name = name.as_ref().map_or("", |name| name.get_name());
        let mut out = stdout().lock();
        writeln!(out, "kv: listening on {}, keys: {name}", listener.local_addr()?)?;
        out.flush()?;
        drop(out);
        let live = !options.quiet && (options.live || stderr().is_terminal());
        let stop = async {
            tokio::select! {
                pressed = &mut pressed => pressed,
                never = show(&store, &figures), if live => never,
            }
        };
        serve(listener, store.clone(), figures.clone(), stop).await
    })?;
    if !options.quiet {
        let (commands, accepted) = (figures.commands.load(Relaxed), figures.accepted.load(Relaxed));
        let keys = store.len();
        writeln!(stdout(), "kv: {commands} commands of {accepted} connections; {keys} keys")?;
    }
    store.clear();
    Ok(())
}

/// Prints a line of figures each second, over the last one on a terminal.
async fn show<T: Table>(store: &Store<T>, figures: &Figures) -> io::Result<()> {
    let end = if stderr().is_terminal() { "\r" } else { "\n" };
    let (mut last, mut when) = (0, Instant::now());
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let commands = figures.commands.load(Relaxed);
        let rate = (commands - last) as f64 / when.elapsed().as_secs_f64();
        (last, when) = (commands, Instant::now());
        let (connections, keys) = (figures.connections.load(Relaxed), store.len());
        let line = format!(
            "{rate:>10.0} commands/s  {connections:>5} connections  {keys:>9} keys  \
             {commands:>12} commands{end}"
        );
        // The line is only informative: if it cannot be written, the server goes on.
        drop(stderr().write_all(line.as_bytes()));
    }
}
