//! The ordering gate: every memory ordering, weakened by itself, must be noticed by a model.

pub(crate) fn run() -> bool {
    false
}
