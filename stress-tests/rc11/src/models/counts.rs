//! The counts of an actor and of a configuration: GONE.

use super::*;
use crate::counts::{Counts, Linked, Uses};
use crate::sync::cell::Plain;
use crate::sync::reached;

/// An actor: its counts, its state, and its end.
struct Cell {
    counts: Counts,
    state: Plain<u64>,
}

impl Cell {
    fn new() -> Rc<Cell> {
        Rc::new(Cell { counts: Counts::new(), state: Plain::new(0) })
    }

    fn free(&self) {
        self.state.with_mut(|state| *state = u64::MAX);
        self.counts.end();
    }
}

/// GONE: three handles read what the first one has; the last one to go ends it.
pub(super) fn counts_last_handle() {
    let cell = Cell::new();
    (0..2).for_each(|_| cell.counts.retain_handle());
    let drop_handle = |cell: &Cell| {
        cell.state.with(|state| assert_eq!(*state, 0));
        if cell.counts.release_handle() {
            cell.state.with_mut(|state| *state += 1);
        }
    };
    run([with(&cell, drop_handle), with(&cell, drop_handle), with(&cell, drop_handle)]);
    assert_eq!(cell.state.with(|state| *state), 1);
    assert_eq!(cell.counts.handles(), 0);
}

/// GONE: a weak handle is upgraded, or finds that all are gone; the last reference frees the cell.
pub(super) fn counts_last_reference() {
    let cell = Cell::new();
    cell.counts.retain();
    let release = |cell: &Cell| {
        if cell.counts.release() {
            cell.free();
        }
    };
    run([
        // The last handle, and the reference of all handles.
        with(&cell, move |cell| {
            cell.state.with_mut(|state| *state += 1);
            if cell.counts.release_handle() {
                release(cell);
            }
        }),
        // A weak handle.
        with(&cell, move |cell| {
            if cell.counts.try_retain_handle() && cell.counts.release_handle() {
                cell.state.with(|state| assert_eq!(*state, 1));
                reached("freed by an upgrade");
                release(cell);
            }
            assert!(cell.counts.try_retain());
            release(cell);
            release(cell);
        }),
    ]);
    assert_eq!(cell.state.with(|state| *state), u64::MAX);
}

/// GONE: the last handle is alone with the cell only if every reference is done with it.
pub(super) fn counts_sole() {
    let cell = Cell::new();
    cell.counts.retain();
    let release = |cell: &Cell| {
        if cell.counts.release() {
            cell.free();
        }
    };
    run([
        with(&cell, move |cell| {
            if !cell.counts.release_handle() {
                return;
            }
            if cell.counts.is_sole() {
                reached("sole");
                cell.free();
            } else {
                reached("shared");
                release(cell);
            }
        }),
        with(&cell, move |cell| {
            cell.state.with_mut(|state| *state += 1);
            release(cell);
        }),
    ]);
}

/// A configuration that actors share.
struct Built {
    uses: Uses,
    value: Plain<u64>,
}

/// GONE: the last use frees the configuration.
pub(super) fn counts_uses() {
    let built = Rc::new(Built { uses: Uses::new(), value: Plain::new(0) });
    (0..2).for_each(|_| built.uses.retain());
    let release = |built: &Built| {
        built.value.with(|value| assert_eq!(*value, 0));
        if built.uses.release() {
            built.value.with_mut(|value| *value += 1);
            built.uses.end();
        }
    };
    run([with(&built, release), with(&built, release), with(&built, release)]);
    assert_eq!(built.value.with(|value| *value), 1);
    // It stands in a list of what is to be freed.
    built.uses.link_freed(7);
    assert_eq!(built.uses.next_freed(), 7);
}

/// GONE: a use that is not given up because it is the last sees what the others did.
pub(super) fn counts_uses_kept() {
    let built = Rc::new(Built { uses: Uses::new(), value: Plain::new(0) });
    built.uses.retain();
    let release = |built: &Built| {
        if built.uses.release_unless_last() {
            return;
        }
        reached("kept");
        built.value.with_mut(|value| *value += 1);
    };
    run([
        with(&built, release),
        with(&built, move |built| {
            built.value.with(|value| assert_eq!(*value, 0));
            release(built);
        }),
    ]);
    assert_eq!(built.uses.count(), 1);
    assert_eq!(built.value.with(|value| *value), 1);
}
