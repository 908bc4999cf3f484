//! The planted bug that is on.

use std::cell::RefCell;

std::thread_local! {
    static PLANTED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// True if this planted bug is switched on. Called by the patched copy of the sources.
pub(crate) fn planted(name: &str) -> bool {
    PLANTED.with_borrow(|active| active.as_deref() == Some(name))
}

/// Switches the planted bug `name` on.
pub(crate) fn plant(name: &str) {
    PLANTED.set(Some(name.to_owned()));
}
