//! Memory, and lives that are counted.

use std::cell::Cell;

use super::shared::memory;
pub(crate) use super::shared::memory::{alloc, dealloc};

std::thread_local! {
    static LIVES: Cell<i64> = const { Cell::new(0) };
}

/// Checks after a schedule that all memory was freed, and all lives ended.
pub(crate) fn settle() {
    memory::renew();
    assert_eq!(LIVES.get(), 0, "lives never ended");
}

/// A life that can be looked at: use after the end, a second end, or none at all are failures.
#[derive(Debug)]
pub(crate) struct Life(Cell<bool>);

impl Life {
    pub(crate) fn new() -> Self {
        LIVES.set(LIVES.get() + 1);
        Life(Cell::new(true))
    }

    pub(crate) fn check(&self) {
        assert!(self.0.get(), "used after it was freed");
    }

    pub(crate) fn end(&self) {
        assert!(self.0.replace(false), "freed twice");
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        LIVES.set(LIVES.get() - 1);
    }
}
