//! Failures of programs that start others, and their interruption.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// An exit code, and the error.
pub(crate) struct Failure(pub(crate) u8, pub(crate) String);

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure(1, error.to_string())
    }
}

static STOPS: AtomicBool = AtomicBool::new(false);

/// Returns a flag that Ctrl-C sets from now on.
pub(crate) fn interrupts() -> &'static AtomicBool {
    // Without a handler the system ends the program, and all that listen to it.
    let _ = ctrlc::set_handler(|| STOPS.store(true, Relaxed));
    &STOPS
}
