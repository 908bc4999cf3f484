//! The workloads of this crate's benchmarks on the usual alternatives: channels with a task behind
//! them, actor crates, and a hand-written pool.
//!
//! ```text
//! cargo run --release -p turnwise-peers                a few minutes; the table, aligned
//! cargo run --release -p turnwise-peers -- --markdown  the same for the README
//! cargo run --release -p turnwise-peers -- --quick     a few seconds; for the checks, not for the figures
//! ```
//!
//! Each peer is used as its documentation says, by the fastest of the documented ways, without the
//! parts that only observe (tracing). All senders and askers are tasks of one tokio runtime with
//! two workers, as are the actors; exceptions are noted below the table. All of it is built as most
//! programs are, a plain `--release`. A sender to an unbounded mailbox never pauses, so there most
//! of the messages wait in memory before they are handled.
//!
//! All peers guard the same state, which counts its messages. A trial ends when everything has been
//! *handled*, and then its answer is checked: a wrong one ends the program. The peers take turns
//! within each round, another one first each time; figures are medians over the rounds. Bytes are
//! measured in a process of their own for each peer, because an allocator keeps what others have
//! given back.

mod hosts;
mod loads;
mod measure;
mod options;
mod peer;
mod peers;
mod subjects;
mod table;

use std::io;
use std::process::ExitCode;

use options::Options;

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let subjects = subjects::all();
    if let Some(number) = options.resident {
        // One of the processes that `measure` starts.
        let bytes =
            subjects.get(number).and_then(|subject| (subject.resident)(options.sizes().created));
        println!("{}", bytes.map_or("none".into(), |bytes| bytes.to_string()));
        return ExitCode::SUCCESS;
    }
    let measured = measure::measure(&subjects, &options);
    if measured.is_empty() {
        eprintln!("no peer has such a name\n\n{}", options::USAGE);
        return ExitCode::from(2);
    }
    match table::print(&measured, &options, io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
