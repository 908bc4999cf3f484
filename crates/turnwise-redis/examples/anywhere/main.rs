//! Four programs, each with one line that says where its objects live: in this process, in a store
//! in memory, in a file, or in a server. `anywhere`, `anywhere PATH` (with the feature `sqlite`),
//! `anywhere redis://HOST/`.
//!
//! The programs are in files of their own: the text is compiled for each of the two crates.

use std::error::Error;
use std::time::Duration;

use turnwise_locks::admission::{Admission, InMemory};
use turnwise_locks::ticks::{OncePerTick, Schedule};
use turnwise_locks::{Limits, Locks, Owner, SlotPool};
use turnwise_redis::Remote;

type Said = Result<String, Box<dyn Error + Send + Sync>>;

/// The four programs in this process.
pub(crate) async fn here() -> Result<[String; 4], Box<dyn Error + Send + Sync>> {
    use turnwise_locks::ReleaseError;
    use turnwise_locks::slots::{RunSlotError, Slot};
    use turnwise_locks::ticks::NotMine;
    let lock: Said = async {
        let locks = Locks::new();
        Ok(include!("lock.rs"))
    }
    .await;
    let once: Said = async {
        let jobs = OncePerTick::new(Schedule::every(WEEK));
        Ok(include!("once.rs"))
    }
    .await;
    let raffle: Said = async {
        let raffle = Admission::open(InMemory, 15)?;
        Ok(include!("raffle.rs"))
    }
    .await;
    let boxes: Said = async {
        let boxes = SlotPool::builder(4);
        Ok(include!("boxes.rs"))
    }
    .await;
    Ok([lock?, once?, raffle?, boxes?])
}

/// The four programs over a store.
pub(crate) async fn far(remote: &Remote) -> Result<[String; 4], Box<dyn Error + Send + Sync>> {
    use turnwise_redis::ReleaseError;
    use turnwise_redis::slots::{RunSlotError, Slot};
    use turnwise_redis::ticks::NotMine;
    let lock: Said = async {
        let locks = remote.locks();
        Ok(include!("lock.rs"))
    }
    .await;
    let once: Said = async {
        let jobs = remote.once_per_tick(Schedule::every(WEEK))?;
        Ok(include!("once.rs"))
    }
    .await;
    let raffle: Said = async {
        let raffle = remote.admission("raffle", 15)?;
        Ok(include!("raffle.rs"))
    }
    .await;
    let boxes: Said = async {
        let boxes = remote.slot_pool("boxes", 4);
        Ok(include!("boxes.rs"))
    }
    .await;
    Ok([lock?, once?, raffle?, boxes?])
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

async fn write_report() -> &'static str {
    tokio::task::yield_now().await;
    "written"
}

fn count_players() -> u32 {
    633
}

/// The folder of a box, with a line for each command that has run there.
struct Folder {
    number: usize,
    lines: Vec<String>,
}

impl Folder {
    fn new(number: usize) -> Self {
        Folder { number, lines: Vec::new() }
    }

    fn execute(&mut self, command: &str) -> String {
        self.lines.push(command.to_owned());
        format!("box {}: {}", self.number, self.lines.join(", "))
    }

    fn empty(self) -> Result<(), String> {
        match self.lines.iter().any(|line| line.starts_with("break")) {
            true => Err("it is broken".to_owned()),
            false => Ok(()),
        }
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // Names of this run: a raffle is closed for good.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let remote = Remote::builder().prefix(format!("anywhere-{}-", now.as_nanos()));
    let remote = match std::env::args().nth(1) {
        #[cfg(feature = "sqlite")]
        Some(path) if !path.contains("://") => {
            remote.over(turnwise_redis::FileStore::open(path)?)?
        }
        Some(url) => remote.connect(&url)?,
        None => Remote::in_memory(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (here, far) = runtime.block_on(async { (here().await, far(&remote).await) });
    let (here, far) = (here?, far?);
    for (here, far) in here.iter().zip(&far) {
        println!("in process:   {here}\nin the store: {far}\n");
    }
    match here == far {
        true => Ok(()),
        false => Err("the programs have not come to the same".into()),
    }
}
