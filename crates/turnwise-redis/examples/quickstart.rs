//! One actor over each store: `quickstart` in this process, `quickstart PATH` in a file,
//! `quickstart redis://HOST/` in a server. The last two print a greater total each time.

use turnwise_redis::Remote;

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Score(u64);

impl turnwise::Handler<u64> for Score {
    type Reply = u64;
    fn handle(&mut self, points: u64, _: &mut turnwise::Context<'_, Self>) -> u64 {
        self.0 += points;
        self.0
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // One of these lines selects the store. The others do not know which.
    let remote = match std::env::args().nth(1) {
        None => Remote::in_memory(),
        Some(url) if url.contains("://") => Remote::connect(&url)?,
        Some(path) => Remote::file(path)?,
    };
    let scores = remote.actors::<Score>("score").message::<u64>("add").open()?;
    println!("total: {}", scores.of("ada")?.ask(5).wait()?);
    Ok(())
}
