//! Threads that count together: `send` leaves a message and never waits, `with` waits for an
//! answer.
//!
//! ```text
//! cargo run --example counter
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Write, stdout};
use std::thread;

use turnwise::Actor;

const THREADS: u64 = 4;
const ROUNDS: u64 = 10_000;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // Any object becomes an actor. It needs no thread and no lock.
    let hits = Actor::new(BTreeMap::<&str, u64>::new());

    let threads: Vec<_> = (0..THREADS)
        .map(|i| {
            let hits = hits.clone();
            thread::spawn(move || {
                let page = if i % 2 == 0 { "home" } else { "about" };
                for _ in 0..ROUNDS {
                    // Runs here and now if the actor is idle; else the thread that runs the actor
                    // runs it next.
                    hits.send(move |hits| *hits.entry(page).or_default() += 1)?;
                }
                // Waits, and may borrow. It runs after all that this thread has sent.
                let mut seen = 0;
                hits.with(|hits| seen = hits[page])?;
                Ok::<u64, Box<dyn Error + Send + Sync>>(seen)
            })
        })
        .collect();

    for thread in threads {
        let seen = thread.join().map_err(|_| "a thread panicked")??;
        assert!(seen >= ROUNDS, "a thread saw {seen} hits on its page, fewer than its own");
    }

    let pages = hits.with(|hits| hits.clone())?;
    assert_eq!(pages.values().sum::<u64>(), THREADS * ROUNDS);
    let mut out = stdout().lock();
    for (page, hits) in &pages {
        writeln!(out, "{page:>6} {hits:>6}")?;
    }
    writeln!(out, "{THREADS} threads, {ROUNDS} hits each, none lost")?;
    Ok(())
}
