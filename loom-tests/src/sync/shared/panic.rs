//! Panics that a model plans, and all others.

use std::any::Any;

/// The payload of a planned panic. Dropping it panics as often as `again` says.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    pub(crate) again: u32,
}

impl Planned {
    /// Panics without output.
    pub(crate) fn panic() -> ! {
        Planned::default().fire()
    }

    pub(crate) fn fire(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        if self.again > 0 {
            Planned { again: self.again - 1 }.fire();
        }
    }
}

/// Runs user code. A planned panic is returned as its payload; any other goes on, and is a failure
/// of the model.
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).or_else(|payload| {
        if payload.is::<Planned>() { Err(payload) } else { std::panic::resume_unwind(payload) }
    })
}
