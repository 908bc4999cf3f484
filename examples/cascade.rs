//! Actors that send to each other. Messages sent inside a turn run after it, so a chain of any
//! length needs no stack and cannot deadlock.
//!
//! ```text
//! cargo run --example cascade
//! ```

use std::error::Error;
use std::io::{Write, stdout};

use turnwise::{Actor, AskError, Budget, Reason, StopCause};

/// A cell in a row: it adds its input, and passes it on.
struct Cell {
    sum: u64,
    next: Option<Actor<Cell>>,
}

fn give(cell: &Actor<Cell>, amount: u64) -> bool {
    let given = cell.send(move |cell| {
        cell.sum += amount;
        if let Some(next) = &cell.next {
            give(next, amount);
        }
    });
    given.is_ok()
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    const CELLS: u64 = 100_000;

    // The row is built from its end; the first cell keeps the next one, and so on. The budget has
    // no limit: with the default, a caller leaves after a millisecond, and a pool goes on.
    let cell = |next| Actor::builder().budget(Budget::UNLIMITED).spawn(Cell { sum: 0, next });
    let last = cell(None)?;
    let mut first = last.clone();
    for _ in 1..CELLS {
        first = cell(Some(first))?;
    }

    // One message causes a hundred thousand turns. The stack does not overflow, and all is done on
    // return, because no other thread was at work.
    assert!(give(&first, 7));
    assert_eq!(last.with(|cell| cell.sum)?, 7);

    // Waiting for oneself would never end. It is an error at once.
    let myself = last.clone();
    let answer = last.with(move |_| myself.with(|cell| cell.sum))?;
    assert!(matches!(answer, Err(AskError::Refused(Reason::Deadlock(_), _))));

    // Letting go of the first cell lets go of them all, one after the other.
    drop(first);
    assert_eq!(last.with(|cell| cell.sum)?, 7);

    // A stopped actor says why it does not take the message.
    last.stop();
    let stopped = Reason::Stopped(StopCause::Requested);
    assert_eq!(last.with(|cell| cell.sum), Err(AskError::from(stopped)));

    writeln!(stdout(), "one message went through {CELLS} actors")?;
    Ok(())
}
