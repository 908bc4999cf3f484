//! The program: runs the five versions and prints the results.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use migration::report::{agree, report, versions};

const USAGE: &str = "\
usage: migration [--help]

Plays a day of a hall whose seats an actor sells, written with turnwise, kameo,
ractor, xtra and actix. Prints the day, whether all five write the same, how
long each version is, and where the libraries differ.

Exit code: 0; 1 if they do not write the same, or the output could not be
written; 2 for anything on the command line but --help.
";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match &arguments[..] {
        [] => {
            let versions = versions();
            let good = agree(&versions);
            put(&report(&versions), if good { 0 } else { 1 })
        }
        [help] if help == "--help" || help == "-h" => put(USAGE, 0),
        [.., wrong] => {
            let complaint = format!("migration: {wrong:?} is not understood; see --help");
            // If it cannot be written, the exit code reports it.
            let _ = writeln!(io::stderr(), "{complaint}");
            ExitCode::from(2)
        }
    }
}

/// Prints to the standard output, which may be closed or full.
fn put(text: &str, code: u8) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "migration: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(code),
    }
}
