//! Memory, and lives that loom tracks.

pub(crate) use super::shared::memory::{alloc, dealloc};

/// A tracked life: use after the end, a second end, a missing end, and an end that races a use are
/// failures.
#[derive(Debug)]
pub(crate) struct Life {
    alive: super::cell::UnsafeCell<bool>,
    _track: loom::alloc::Track<()>,
}

impl Life {
    pub(crate) fn new() -> Self {
        Life { alive: super::cell::UnsafeCell::new(true), _track: loom::alloc::Track::new(()) }
    }

    pub(crate) fn check(&self) {
        // SAFETY: loom checks the access, and the memory stays until the execution is over.
        assert!(self.alive.with(|alive| unsafe { *alive }), "used after it was freed");
    }

    pub(crate) fn end(&self) {
        // SAFETY: as above.
        let before = self.alive.with_mut(|alive| unsafe { std::mem::replace(&mut *alive, false) });
        assert!(before, "freed twice");
    }
}
