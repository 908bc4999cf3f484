//! How a program fails that has others run, and how it is interrupted.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What goes wrong, and the exit code for it.
pub(crate) struct Failure(pub(crate) u8, pub(crate) String);

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure(1, error.to_string())
    }
}

static STOPS: AtomicBool = AtomicBool::new(false);

/// Ctrl-C, from now on.
pub(crate) fn interrupts() -> &'static AtomicBool {
    // Without it the system ends the program, and all that listens to it.
    let _ = ctrlc::set_handler(|| STOPS.store(true, Relaxed));
    &STOPS
}
