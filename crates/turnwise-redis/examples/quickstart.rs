//! One actor, in process and over a store: in memory, in a file, or in a server. `quickstart`,
//! `quickstart PATH` (with the feature `sqlite`), `quickstart redis://HOST/`.

use serde::{Deserialize, Serialize};
use turnwise::{Actor, Context, Handler};
use turnwise_redis::Remote;

#[derive(Default, Serialize, Deserialize)]
struct Board {
    total: u64,
}

#[derive(Serialize, Deserialize)]
struct Add(u64);

impl Handler<Add> for Board {
    type Reply = u64;
    fn handle(&mut self, Add(points): Add, _: &mut Context<'_, Self>) -> u64 {
        self.total += points;
        self.total
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let here = Actor::new(Board::default());
    println!("in process: {}", here.ask(Add(5)).wait()?);

    let remote = match std::env::args().nth(1) {
        #[cfg(feature = "sqlite")]
        Some(path) if !path.contains("://") => Remote::file(path)?,
        Some(url) => Remote::connect(&url)?,
        None => Remote::in_memory(),
    };
    let boards = remote.actors::<Board>("board").message::<Add>("add").open()?;
    println!("in the store: {}", boards.of("eu")?.ask(Add(5)).wait()?);
    Ok(())
}
