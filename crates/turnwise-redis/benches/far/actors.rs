//! Messages of an actor whose queue, state and lock are in the server: `turnwise-redis` beside the
//! usual loop.
//!
//! By hand: `RPUSH`; then, while `LLEN` is not 0 and `SET NX PX` takes the lock: `LINDEX`, the
//! state by `GET`, the handler, `SET` of the state, `LPOP`, for each message; a script releases. A
//! message whose process dies between `SET` and `LPOP` is applied twice there, and no reply comes
//! back.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use turnwise::{Context, Handler};
use turnwise_redis::{Actors, Drains, Remote, Until};

use crate::median;
use crate::subject::{self, DELETE, Failure};

/// The number of messages that a drain finds.
const QUEUED: u32 = 64;

/// The number of messages that are stored in a file at once.
const TOLD: u32 = 4096;

#[derive(Default, Serialize, Deserialize)]
struct Sum(u64);

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Add(u64);

impl Handler<Add> for Sum {
    type Reply = u64;
    fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) -> u64 {
        self.0 += n;
        self.0
    }
}

struct Hand {
    to: MultiplexedConnection,
    delete: redis::Script,
}

impl Hand {
    async fn push(&mut self) -> Result<(), Failure> {
        let body = serde_json::to_string(&Add(1))?;
        Ok(redis::cmd("RPUSH").arg("hand:queue").arg(body).query_async(&mut self.to).await?)
    }

    async fn drain(&mut self) -> Result<u64, Failure> {
        let mut sum = Sum::default();
        loop {
            let left: u64 = redis::cmd("LLEN").arg("hand:queue").query_async(&mut self.to).await?;
            if left == 0 {
                return Ok(sum.0);
            }
            let mut take = redis::cmd("SET");
            take.arg("hand:lock").arg("me").arg("NX").arg("PX").arg(10_000);
            let taken: Option<String> = take.query_async(&mut self.to).await?;
            if taken.is_none() {
                return Ok(sum.0);
            }
            loop {
                let mut look = redis::cmd("LINDEX");
                let body: Option<String> =
                    look.arg("hand:queue").arg(0).query_async(&mut self.to).await?;
                let Some(body) = body else { break };
                let Add(n) = serde_json::from_str(&body)?;
                let state: Option<String> =
                    redis::cmd("GET").arg("hand:state").query_async(&mut self.to).await?;
                sum = state.map_or(Ok(Sum::default()), |state| serde_json::from_str(&state))?;
                sum.0 += n;
                let state = serde_json::to_string(&sum)?;
                let mut set = redis::cmd("SET");
                let () = set.arg("hand:state").arg(state).query_async(&mut self.to).await?;
                let _: String =
                    redis::cmd("LPOP").arg("hand:queue").query_async(&mut self.to).await?;
            }
            let mut script = self.delete.prepare_invoke();
            let () = script.key("hand:lock").arg("me").invoke_async(&mut self.to).await?;
        }
    }
}

/// Measures both, round by round.
pub(crate) fn messages(url: &str, rounds: u32, asks: u32) -> Result<(), Failure> {
    let runtime = subject::runtime()?;
    let to = runtime.block_on(subject::connection(url))?;
    let mut hand = Hand { to, delete: redis::Script::new(DELETE) };
    let remote = Remote::connect(url)?;
    let open = |name: &str, drains| -> Result<Actors<Sum>, Failure> {
        Ok(remote.actors::<Sum>(name).message::<Add>("add").drains(drains).open()?)
    };
    let asked = open("asked", Drains::IfFree)?.of("a")?;
    let queued = open("queued", Drains::Never)?.of("a")?;
    let near = Remote::in_memory();
    let near = near.actors::<Sum>("near").message::<Add>("add").open()?.of("a")?;
    let mut rows = [const { Vec::new() }; 5];
    for round in 0..=rounds {
        let by_hand = time(asks, || {
            runtime.block_on(async {
                hand.push().await?;
                hand.drain().await.map(drop)
            })
        })?;
        let ours = time(asks, || Ok(asked.ask(Add(1)).wait().map(|_| ())?))?;
        let in_memory = time(asks, || Ok(near.ask(Add(1)).wait().map(|_| ())?))?;
        for _ in 0..QUEUED {
            runtime.block_on(hand.push())?;
            queued.tell(Add(1)).wait()?;
        }
        let drained_by_hand = time(1, || runtime.block_on(hand.drain()).map(drop))?;
        let drained = time(1, || {
            queued.drain(Until::empty()).wait()??;
            Ok(())
        })?;
        if round > 0 {
            let all = [by_hand, ours, in_memory, drained_by_hand, drained];
            for (row, time) in rows.iter_mut().zip(all) {
                row.push(time);
            }
        }
    }
    let [by_hand, ours, near, drained_by_hand, drained] = rows;
    println!("ask after ask: microseconds each, median of {rounds} rounds");
    row("loop by hand, no reply", &by_hand, &by_hand);
    row("turnwise-redis", &ours, &by_hand);
    row("turnwise-redis, in memory", &near, &by_hand);
    println!("a drain of {QUEUED} messages: microseconds, median of {rounds} rounds");
    row("loop by hand", &drained_by_hand, &drained_by_hand);
    row("turnwise-redis", &drained, &drained_by_hand);
    in_a_file(rounds)
}

/// Measures messages that are stored in a file, with one `fsync` for those that arrive together.
fn in_a_file(rounds: u32) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("turnwise-far-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let remote = Remote::file(folder.join("store"))?;
    let kind = remote.actors::<Sum>("filed").message::<Add>("add").drains(Drains::Never).open()?;
    let mut rates = Vec::new();
    for round in 0..=rounds {
        let actor = kind.of(&round.to_string())?;
        let took = time(1, || {
            let told: Vec<_> = (0..TOLD).map(|_| actor.tell(Add(1)).send()).collect();
            told.into_iter().try_for_each(|told| told.wait()?.map(drop))?;
            Ok(())
        })?;
        if round > 0 {
            rates.push(f64::from(TOLD) / took * 1e6);
        }
    }
    println!("messages stored in a file, {TOLD} at once: a second, median of {rounds} rounds");
    println!("  {:<28} {:>8.0}", "turnwise-redis", median(rates));
    drop((kind, remote));
    Ok(std::fs::remove_dir_all(&folder)?)
}

/// Returns the microseconds of each call.
fn time(times: u32, mut what: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let began = Instant::now();
    for _ in 0..times {
        what()?;
    }
    Ok(began.elapsed().max(Duration::from_nanos(1)).as_secs_f64() * 1e6 / f64::from(times))
}

fn row(title: &str, own: &[f64], base: &[f64]) {
    let ratios = own.iter().zip(base).map(|(own, base)| own / base).collect();
    println!("  {title:<28} {:>8.1}   {:>5.2}", median(own.to_vec()), median(ratios));
}
