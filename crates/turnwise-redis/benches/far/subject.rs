//! The measured ways to lock.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use tokio::runtime::Runtime;
use turnwise_redis::{Guard, Limits, Locks, Remote};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The lease of a lock that is not released.
const LEASE: Duration = Duration::from_secs(10);
const WAIT: Duration = Duration::from_secs(60);

/// Releases a key that holds this value.
pub(crate) const DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// `SET NX PX`, and a script that deletes.
    Hand,
    /// `SET NX PX` and that script, tried again each 100 ms.
    Poll,
    Turnwise,
    /// `turnwise-redis`, and the guard is dropped without a wait for the release.
    Drops,
    /// `SET NX PX` over a connection that blocks, and a script that deletes.
    Blocks,
    /// Threads that wait.
    Waits,
    /// The calls of `turnwise-redis`, in memory.
    Memory,
    Rslock,
}

impl Kind {
    /// The first is the base of the comparison.
    pub(crate) const PAIRS: [Kind; 5] =
        [Kind::Hand, Kind::Turnwise, Kind::Drops, Kind::Rslock, Kind::Memory];
    /// One pair by a thread that waits.
    pub(crate) const THREADS: [Kind; 2] = [Kind::Blocks, Kind::Waits];
    pub(crate) const CROWDS: [Kind; 3] = [Kind::Poll, Kind::Turnwise, Kind::Rslock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Hand => "hand",
            Kind::Poll => "poll",
            Kind::Turnwise => "turnwise",
            Kind::Drops => "drops",
            Kind::Blocks => "blocks",
            Kind::Waits => "waits",
            Kind::Memory => "memory",
            Kind::Rslock => "rslock",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Hand => "SET NX PX, script",
            Kind::Poll => "SET NX PX each 100 ms",
            Kind::Turnwise => "turnwise-redis",
            Kind::Drops => "turnwise-redis, dropped",
            Kind::Blocks => "SET NX PX, script, blocking",
            Kind::Waits => "turnwise-redis, wait()",
            Kind::Memory => "turnwise-redis, in memory",
            Kind::Rslock => "rslock 0.10",
        }
    }
}

/// A current-thread runtime: the fastest for one connection.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

pub(crate) async fn connection(url: &str) -> Result<MultiplexedConnection, Failure> {
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection().await?)
}

enum Way {
    Ours(Locks),
    Hand { to: MultiplexedConnection, delete: redis::Script },
    Blocks { client: redis::Client, delete: redis::Script },
    Rslock(LockManager),
}

/// A way to lock, with its connection.
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    runtime: Runtime,
    way: Way,
}

/// A lock that is held until this is dropped, or the program ends.
pub(crate) enum Held {
    Ours {
        _guard: Guard,
    },
    /// Its lease is long.
    Lease,
}

impl Subject {
    pub(crate) fn connect(kind: Kind, url: &str) -> Result<Subject, Failure> {
        let runtime = runtime()?;
        let way = match kind {
            Kind::Blocks => Way::Blocks {
                client: redis::Client::open(url)?,
                delete: redis::Script::new(DELETE),
            },
            Kind::Turnwise | Kind::Drops | Kind::Waits => Way::Ours(Remote::connect(url)?.locks()),
            Kind::Memory => Way::Ours(Remote::in_memory().locks()),
            Kind::Hand | Kind::Poll => {
                let to = runtime.block_on(connection(url))?;
                Way::Hand { to, delete: redis::Script::new(DELETE) }
            }
            Kind::Rslock => Way::Rslock(LockManager::new(vec![url])),
        };
        Ok(Subject { kind, runtime, way })
    }

    /// Times pairs of lock and unlock, each lock free, in several tasks with a lock each.
    pub(crate) fn pairs(&self, pairs: u32, tasks: u32) -> Result<Duration, Failure> {
        let began = Instant::now();
        if Kind::THREADS.contains(&self.kind) {
            std::thread::scope(|scope| {
                let thread = |task| scope.spawn(move || self.blocking(task, pairs / tasks));
                let all: Vec<_> = (0..tasks).map(thread).collect();
                all.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a panic")?)
            })?;
            return Ok(began.elapsed());
        }
        let tasks = (0..tasks).map(|task| self.some(task, pairs / tasks));
        self.runtime.block_on(try_join_all(tasks))?;
        Ok(began.elapsed())
    }

    fn blocking(&self, task: u32, pairs: u32) -> Result<(), Failure> {
        let name = format!("{} {task}", self.kind.name());
        match &self.way {
            Way::Ours(locks) => {
                for _ in 0..pairs {
                    let limits = Limits::wait(WAIT).lease(LEASE);
                    locks.lock_within(&name, limits).wait()?.release().wait()?;
                }
            }
            Way::Blocks { client, delete } => {
                let mut to = client.get_connection()?;
                for number in 0..pairs {
                    let mut set = redis::cmd("SET");
                    set.arg(&name).arg(number).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
                    let answer: Option<String> = set.query(&mut to)?;
                    let deleted: u32 = delete.key(&name).arg(number).invoke(&mut to)?;
                    if answer.is_none() || deleted != 1 {
                        return Err("a free lock is not free, or was lost".into());
                    }
                }
            }
            _ => return Err("it does not block".into()),
        }
        Ok(())
    }

    async fn some(&self, task: u32, pairs: u32) -> Result<(), Failure> {
        let name = format!("{} {task}", self.kind.name());
        for number in 0..pairs {
            match &self.way {
                Way::Ours(locks) => {
                    let limits = Limits::wait(WAIT).lease(LEASE);
                    let guard = locks.lock_within(&name, limits).await?;
                    if self.kind != Kind::Drops {
                        guard.release().await?;
                    }
                }
                Way::Blocks { .. } => return Err("it blocks".into()),
                Way::Hand { to, delete } => {
                    let (mut to, value) = (to.clone(), number.to_string());
                    if !set(&mut to, &name, &value, LEASE).await? {
                        return Err("a free lock is not free".into());
                    }
                    let deleted: u32 = delete.key(&name).arg(&value).invoke_async(&mut to).await?;
                    if deleted != 1 {
                        return Err("a lock was lost".into());
                    }
                }
                Way::Rslock(manager) => {
                    let lock = manager.lock(&*name, LEASE).await.map_err(failure)?;
                    manager.unlock(&lock).await;
                }
            }
        }
        Ok(())
    }

    /// Holds that lock.
    pub(crate) fn hold(&self, name: &str) -> Result<Held, Failure> {
        let long = Duration::from_secs(600);
        self.runtime.block_on(async {
            Ok(match &self.way {
                Way::Ours(locks) => Held::Ours { _guard: locks.lock(name).await? },
                Way::Hand { to, .. } => {
                    set(&mut to.clone(), name, "held", long).await?;
                    Held::Lease
                }
                Way::Blocks { .. } => return Err("it blocks".into()),
                Way::Rslock(manager) => {
                    manager.lock(name, long).await.map_err(failure)?;
                    Held::Lease
                }
            })
        })
    }

    /// Waits for the lock, holds it for this time, and releases it, repeatedly until that moment.
    /// Returns the number of holds, and their time.
    pub(crate) async fn turns(
        &self,
        name: &str,
        hold: Duration,
        value: &str,
        until: Instant,
    ) -> Result<(u64, Duration), Failure> {
        let (mut grants, mut held) = (0, Duration::ZERO);
        while Instant::now() < until {
            match &self.way {
                Way::Ours(locks) => {
                    let limits = Limits::wait(WAIT).lease(LEASE);
                    let guard = locks.lock_within(name, limits).await?;
                    held += passed(hold).await;
                    guard.release().await?;
                }
                Way::Hand { to, delete } => {
                    let mut to = to.clone();
                    while !set(&mut to, name, value, LEASE).await? {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    held += passed(hold).await;
                    let _: u32 = delete.key(name).arg(value).invoke_async(&mut to).await?;
                }
                Way::Blocks { .. } => return Err("it blocks".into()),
                Way::Rslock(manager) => {
                    let guard = manager.acquire(name, LEASE).await.map_err(failure)?;
                    held += passed(hold).await;
                    guard.release().await;
                }
            }
            grants += 1;
        }
        Ok((grants, held))
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// Waits for this time. Returns the time that it took.
async fn passed(time: Duration) -> Duration {
    let begun = Instant::now();
    tokio::time::sleep(time).await;
    begun.elapsed()
}

fn failure(error: rslock::LockError) -> Failure {
    format!("rslock: {error}").into()
}

async fn set(
    to: &mut MultiplexedConnection,
    name: &str,
    value: &str,
    lease: Duration,
) -> Result<bool, Failure> {
    let mut set = redis::cmd("SET");
    set.arg(name).arg(value).arg("NX").arg("PX").arg(lease.as_millis() as u64);
    let answer: Option<String> = set.query_async(to).await?;
    Ok(answer.is_some())
}
