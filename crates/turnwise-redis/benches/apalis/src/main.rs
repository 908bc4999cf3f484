//! A drain of messages over Redis: `turnwise-redis`, the usual loop by hand, and `apalis-redis`.
//!
//! All are measured in one run, round by round, against one server on loopback that keeps nothing
//! on the disk; a row is the median of the rounds. Messages are pushed one by one, then drained by
//! one worker, 64 at a time. The server's processor time is its own, from `/proc`.
//!
//! Each row does something else with a message, which its figures do not show:
//!
//! - by hand: `LINDEX`, the state by `GET`, the handler, `SET` of the state, `LPOP`. No reply, no
//!   retry; a message whose process dies in between is applied twice.
//! - `turnwise-redis`: in order, into a state that has seen each message once; replies are kept for
//!   ten minutes; a retry keeps the order.
//! - `apalis-redis`: several tasks at a time, without an order or a state; results are kept. With
//!   `bare`, without its locks, its events and its results.
//!
//! ```text
//! cargo run --release --manifest-path crates/turnwise-redis/benches/apalis/Cargo.toml -- --help
//! ```

#[path = "../../far/figures.rs"]
mod figures;
#[path = "../../far/server.rs"]
mod server;

mod subject {
    /// An error of any crate.
    pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_redis::{Config, ConnectionManager, RedisStorage};
use clap::Parser;
use cpu_time::ProcessTime;
use figures::{median, processor};
use serde::{Deserialize, Serialize};
use server::Server;
use subject::Failure;
use tokio::sync::Notify;
use tokio::sync::oneshot::channel;
use turnwise_redis::{Drains, Remote, RemoteActor, Until};

/// A drain of messages, side by side.
#[derive(Parser)]
struct Options {
    /// Number of rounds.
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Messages of a round.
    #[arg(long, default_value_t = 64)]
    messages: u64,
    /// Messages at a time.
    #[arg(long, default_value_t = 64)]
    batch: usize,
}

#[derive(Default, Serialize, Deserialize)]
struct Sum(u64);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Add(u64);

impl turnwise::Handler<Add> for Sum {
    type Reply = u64;
    fn handle(&mut self, Add(n): Add, _: &mut turnwise::Context<'_, Self>) -> u64 {
        self.0 += n;
        self.0
    }
}

/// The loop by hand.
async fn by_hand(to: &mut ConnectionManager) -> Result<u64, Failure> {
    let mut sum = Sum::default();
    loop {
        let look = redis::cmd("LINDEX").arg("hand:queue").arg(0).query_async(to).await?;
        let body: Option<String> = look;
        let Some(body) = body else { return Ok(sum.0) };
        let Add(n) = serde_json::from_str(&body)?;
        let state: Option<String> = redis::cmd("GET").arg("hand:state").query_async(to).await?;
        sum = state.map_or(Ok(Sum::default()), |state| serde_json::from_str(&state))?;
        sum.0 += n;
        let state = serde_json::to_string(&sum)?;
        let () = redis::cmd("SET").arg("hand:state").arg(state).query_async(to).await?;
        let _: String = redis::cmd("LPOP").arg("hand:queue").query_async(to).await?;
    }
}

/// Counts of the tasks of `apalis`.
#[derive(Clone, Default)]
struct Counted {
    sum: Arc<AtomicU64>,
    left: Arc<AtomicU64>,
    all: Arc<Notify>,
}

async fn count(Add(n): Add, counted: Data<Counted>) -> Result<(), BoxDynError> {
    counted.sum.fetch_add(n, Relaxed);
    if counted.left.fetch_sub(1, Relaxed) == 1 {
        counted.all.notify_one();
    }
    Ok(())
}

/// A queue of `apalis`, and the connection of its worker.
struct Apalis {
    storage: RedisStorage<Add>,
    counted: Counted,
    worker: u32,
    /// The times until the last message of each round was handled.
    handled: Vec<Duration>,
}

impl Apalis {
    async fn connect(url: &str, queue: &str, batch: usize, bare: bool) -> Result<Self, Failure> {
        let config = Config::default().queue(queue).batch_size(batch);
        let config = match bare {
            true => config.lock_tasks(false).persist_results(false).emit_events(false),
            false => config,
        };
        let storage = RedisStorage::new(apalis_redis::connect(url).await?).with_config(config);
        Ok(Apalis { storage, counted: Counted::default(), worker: 0, handled: Vec::new() })
    }

    /// Runs a worker until all messages are handled, and ends it. Returns the time until it has
    /// reported all of them and ended.
    async fn drain(&mut self, messages: u64) -> Result<Duration, Failure> {
        let counted = self.counted.clone();
        counted.left.store(messages, Relaxed);
        self.worker += 1;
        let worker = WorkerBuilder::new(format!("worker {}", self.worker))
            .backend(self.storage.clone())
            .data(counted.clone())
            .build(count);
        let (began, (send, handled)) = (Instant::now(), channel());
        worker
            .run_until(async move {
                counted.all.notified().await;
                let _ = send.send(began.elapsed());
                Ok::<(), std::io::Error>(())
            })
            .await?;
        self.handled.push(handled.await?);
        Ok(began.elapsed())
    }
}

/// Microseconds a message: on the wall, of this process, and of the server.
type Times = [f64; 3];

/// Measures a part of a round. It returns its time on the wall.
async fn measured(
    server: &Server,
    messages: u64,
    part: impl Future<Output = Result<Duration, Failure>>,
) -> Result<Times, Failure> {
    let (own, others) = (ProcessTime::now(), processor(server.id()));
    let took = part.await?;
    let times = [
        took.as_secs_f64(),
        own.elapsed().as_secs_f64(),
        Duration::from_nanos(processor(server.id()) - others).as_secs_f64(),
    ];
    Ok(times.map(|time| time * 1e6 / messages as f64))
}

const ROWS: [&str; 4] = ["loop by hand", "turnwise-redis", "apalis-redis", "apalis-redis, bare"];

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let (server, messages) = (Server::start()?, options.messages);
    let url = server.url();
    let mut hand = apalis_redis::connect(url.as_str()).await?;
    let remote = Remote::connect(&url)?;
    let kind = remote.actors::<Sum>("sum").message::<Add>("add").drains(Drains::Never);
    let kind = kind.batch(u32::try_from(options.batch)?).open()?;
    let ours: RemoteActor<Sum> = kind.of("a")?;
    let mut apalis = [
        Apalis::connect(&url, "whole", options.batch, false).await?,
        Apalis::connect(&url, "bare", options.batch, true).await?,
    ];
    let (mut pushed, mut drained) = ([const { Vec::new() }; 4], [const { Vec::new() }; 4]);
    for round in 0..=options.rounds {
        let mut pushes = Vec::new();
        pushes.push(
            measured(&server, messages, async {
                let began = Instant::now();
                for _ in 0..messages {
                    let body = serde_json::to_string(&Add(1))?;
                    let mut push = redis::cmd("RPUSH");
                    let () = push.arg("hand:queue").arg(body).query_async(&mut hand).await?;
                }
                Ok(began.elapsed())
            })
            .await?,
        );
        pushes.push(
            measured(&server, messages, async {
                let began = Instant::now();
                for _ in 0..messages {
                    ours.tell(Add(1)).await?;
                }
                Ok(began.elapsed())
            })
            .await?,
        );
        for queue in &mut apalis {
            pushes.push(
                measured(&server, messages, async {
                    let began = Instant::now();
                    for _ in 0..messages {
                        queue.storage.push(Add(1)).await?;
                    }
                    Ok(began.elapsed())
                })
                .await?,
            );
        }
        let mut drains = Vec::new();
        let mut sum = 0;
        drains.push(
            measured(&server, messages, async {
                let began = Instant::now();
                sum = by_hand(&mut hand).await?;
                Ok(began.elapsed())
            })
            .await?,
        );
        let all = messages * (u64::from(round) + 1);
        assert_eq!(sum, all, "by hand");
        drains.push(
            measured(&server, messages, async {
                let began = Instant::now();
                let drained = ours.drain(Until::empty()).await??;
                assert_eq!(drained.handled, messages);
                Ok(began.elapsed())
            })
            .await?,
        );
        for queue in &mut apalis {
            drains.push(measured(&server, messages, queue.drain(messages)).await?);
            assert_eq!(queue.counted.sum.load(Relaxed), all, "apalis");
        }
        if round > 0 {
            for (row, times) in pushed.iter_mut().zip(pushes) {
                row.push(times);
            }
            for (row, times) in drained.iter_mut().zip(drains) {
                row.push(times);
            }
        }
    }
    for (queue, name) in apalis.iter_mut().zip(["whole", "bare"]) {
        let done: u64 =
            redis::cmd("SCARD").arg(format!("{name}:done")).query_async(&mut hand).await?;
        println!("{name}: {done} tasks are kept as done");
        queue.handled.remove(0);
    }
    let Options { rounds, batch, .. } = options;
    table(&format!("a push of {messages}, one by one, {rounds} rounds"), &pushed);
    table(&format!("a drain of {messages}, {batch} at a time, {rounds} rounds"), &drained);
    for (queue, name) in apalis.iter().zip(&ROWS[2..]) {
        let handled = queue.handled.iter().map(|time| time.as_secs_f64() * 1e6 / messages as f64);
        println!(
            "  {name}: handled after {:.1}, reported and ended after that",
            median(handled.collect())
        );
    }
    Ok(())
}

/// Prints microseconds a message, and ratios to the first row.
fn table(title: &str, rows: &[Vec<Times>; 4]) {
    println!("{title}: microseconds a message, median");
    println!("  {:24} {:>15}   {:>15}   {:>15} {:>10}", "", "wall", "client", "server", "a second");
    for (name, own) in ROWS.iter().zip(rows) {
        print!("  {name:<24}");
        for kind in 0..3 {
            let ratios = own.iter().zip(&rows[0]).map(|(own, by)| own[kind] / by[kind]);
            let time = median(own.iter().map(|times| times[kind]).collect());
            print!(" {time:>8.1} {:>6.2}  ", median(ratios.collect()));
        }
        println!(" {:>9.0}", 1e6 / median(own.iter().map(|times| times[0]).collect()));
    }
}
