//! The command line. Help that cannot be written is an error, like any other output.

use std::io;
use std::process::ExitCode;

use clap::Parser;

/// Parses the arguments. Otherwise returns the exit code, after it has printed the help or the
/// error.
pub(crate) fn parse<A: Parser>(program: &str) -> Result<A, ExitCode> {
    A::try_parse().map_err(|told| match told.print() {
        // The reader has closed the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(1)),
    })
}
