use std::thread::{self, ThreadId};
use std::time::Duration;
use turnwise::executor::Tokio;
use turnwise::{Actor, System, ThreadPool};

struct Probe;

impl Probe {
    /// The thread of the turn, and whether that is inside the runtime.
    fn place(&mut self) -> (ThreadId, bool) {
        (thread::current().id(), tokio::runtime::Handle::try_current().is_ok())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    let pool = ThreadPool::builder().threads(1).build()?;
    let system = System::new();
    let tokio = runtime.handle().clone();

    let plain = system.actor(Probe)?;
    let on_workers = system.spawn(Actor::builder().executor(Tokio::new(tokio.clone())), Probe)?;
    let on_blocking = system.spawn(Actor::builder().executor(Tokio::for_blocking(tokio)), Probe)?;
    let on_pool = system.spawn(Actor::builder().executor(pool.handle()), Probe)?;

    let task = runtime.spawn(async move {
        let worker = thread::current().id();
        let (here, inside) = plain.call(Probe::place).await?;
        assert!(here == worker && inside); // idle: run by this task
        let (_, inside) = on_workers.call(Probe::place).await?;
        assert!(inside);
        let (there, inside) = on_blocking.call(Probe::place).await?;
        assert!(there != worker && inside); // a thread for blocking work
        let (there, inside) = on_pool.call(Probe::place).await?;
        assert!(there != worker && !inside); // no runtime there
        Ok::<_, turnwise::AskError>(())
    });
    runtime.block_on(task)??;

    assert!(runtime.block_on(system.shutdown_async())?.is_complete()); // the actors first
    assert!(pool.shutdown(Duration::from_secs(10)).is_complete());
    runtime.shutdown_timeout(Duration::from_secs(10)); // the runtime last
    Ok(())
}
